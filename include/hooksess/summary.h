/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SUMMARY_H
#define HOOKSESS_SUMMARY_H

#include <hooksess/tensor.h>

/* Summaries, and the event files that TensorBoard shows. TensorFlow: Summary, FileWriter. */

HS_BEGIN_DECLS

/* A Summary: values under their tags, kept serialised. Cleared and filled again it allocates nothing new. One thread at a
 * time. */
typedef struct hs_summary hs_summary;

/* The caller's to free. NULL if there is no memory. */
HS_API hs_summary *hs_summary_new(const hs_env *env);
HS_API void hs_summary_free(hs_summary *summary);
HS_API void hs_summary_clear(hs_summary *summary);
/* A scalar for the tag: shown under Scalars. HS_INVALID_ARGUMENT for an empty tag, HS_RESOURCE_EXHAUSTED. */
HS_API hs_code hs_summary_scalar(hs_summary *summary, const char *tag, double value, hs_error *err);
/* The serialised Summary, until the next call with it. What a summary op of a graph gives as its (string) value. */
HS_API hs_string hs_summary_serialized(const hs_summary *summary);

/* An event file that grows, written by a thread of its own: adding an event copies it into a queue. TensorBoard may read
 * the file meanwhile; a record is written whole or, at a crash, cut at the end of the file.
 *
 * All functions but close may be called from any thread. An error of the disk comes back from the next flush and from
 * close; events are dropped from then on. */
typedef struct hs_summary_writer hs_summary_writer;

typedef struct hs_summary_writer_options {
    size_t size;
    const hs_env *env;       /* NULL: the system's own */
    double flush_secs;       /* 0: 120. Events are in the file at most so long after they were added */
    int64_t queue_bytes;     /* 0: 1 MiB. Adding waits while more than this is in the queue */
    const char *name_suffix; /* NULL: none. Put at the end of the file's name */
} hs_summary_writer_options;
#define HS_SUMMARY_WRITER_OPTIONS .size = sizeof(hs_summary_writer_options)

/* Opens a new file DIRECTORY/events.out.tfevents.SECONDS.HOST.PID.COUNT, which has its version record on disk when this
 * returns. SECONDS may be later than the clock: TensorBoard reads files in the order of their names, and this one comes
 * last. Missing directories are made. `options` may be NULL. The caller's to close. */
HS_API hs_summary_writer *hs_summary_writer_open(const char *directory, const hs_summary_writer_options *options,
                                                 hs_error *err);
/* The file's path; the writer's. */
HS_API const char *hs_summary_writer_path(const hs_summary_writer *writer);
/* Writes what is queued, closes the file and frees the writer, also when it fails: with the first error since it was
 * opened. NULL is allowed. */
HS_API hs_code hs_summary_writer_close(hs_summary_writer *writer, hs_error *err);
/* Waits until all that was added is in the file (handed to the system; sync: on the disk). The first error since the
 * writer was opened. */
HS_API hs_code hs_summary_writer_flush(hs_summary_writer *writer, bool sync, hs_error *err);

/* Each adds one event, stamped with the time of the call. HS_RESOURCE_EXHAUSTED if there is no memory, or the error that
 * stopped the writer. Data are copied. `step` is the global step that the event belongs to. */
HS_API hs_code hs_summary_writer_scalar(hs_summary_writer *writer, const char *tag, double value, int64_t step,
                                        hs_error *err);
/* A serialised Summary. */
HS_API hs_code hs_summary_writer_summary(hs_summary_writer *writer, hs_string summary, int64_t step, hs_error *err);
/* A serialised GraphDef, and a serialised MetaGraphDef. */
HS_API hs_code hs_summary_writer_graph(hs_summary_writer *writer, hs_bytes graph_def, int64_t step, hs_error *err);
HS_API hs_code hs_summary_writer_meta_graph(hs_summary_writer *writer, hs_bytes meta_graph_def, int64_t step,
                                            hs_error *err);

/* What a run tells of itself, a serialised RunMetadata, under a tag of its own ("step_12"). */
HS_API hs_code hs_summary_writer_run_metadata(hs_summary_writer *writer, const char *tag, hs_bytes run_metadata,
                                              int64_t step, hs_error *err);

typedef enum hs_session_status { HS_SESSION_START = 1, HS_SESSION_STOP = 2, HS_SESSION_CHECKPOINT = 3 } hs_session_status;
/* A session log. START tells TensorBoard to drop what it has at `step` and above: it is given the first step of the new
 * run. `checkpoint_path` and `message` may be NULL. */
HS_API hs_code hs_summary_writer_session_log(hs_summary_writer *writer, hs_session_status status,
                                             const char *checkpoint_path, const char *message, int64_t step, hs_error *err);

HS_END_DECLS

#endif
