/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SUMMARY_H
#define HOOKSESS_SUMMARY_H

#include <hooksess/tensor.h>

/* Summaries: values with tags and steps, in event files that TensorBoard shows. TensorFlow: Summary, FileWriter.
 *
 *     hs_summary_writer *writer = hs_summary_writer_open("run", NULL, &err);
 *     hs_summary_writer_scalar(writer, "loss", 0.5, 100, &err);
 *     hs_summary_writer_close(writer, &err);
 *
 * Other values are in summary_values.h and hparams.h.
 *
 * Threads: one thread at a time per object. Any thread may use a writer at any time, until hs_summary_writer_close. */

HS_BEGIN_DECLS

/* Serialized values. TensorFlow: the message Summary. */
typedef struct hs_summary hs_summary;

/* Creates an empty Summary. NULL if out of memory. */
HS_API hs_summary *hs_summary_new(const hs_env *env);
HS_API void hs_summary_free(hs_summary *summary);
HS_API void hs_summary_clear(hs_summary *summary);
/* Appends a scalar, stored as a 32-bit float. Errors: as in summary_values.h. */
HS_API hs_code hs_summary_scalar(hs_summary *summary, const char *tag, double value, hs_error *err);
/* The serialized Summary, valid until the next call with `summary`. A summary op returns it as its string. */
HS_API hs_string hs_summary_serialized(const hs_summary *summary);

/* Writes an event file. An added event is copied to a queue, which a thread writes to the file. TensorFlow: FileWriter.
 *
 * Unless on_error is HS_WRITER_FAILS, an I/O error does not end a training: the log has one warning, the session's
 * outcome counts the failures, and events stay in the queue. If it is full, they are dropped and counted. The writer
 * retries with a new file, after 1, 2, 4 ... 64 seconds and at each flush with `sync`. */
typedef struct hs_summary_writer hs_summary_writer;

/* What adding an event does if the queue is full. */
typedef enum hs_writer_when_full {
    HS_WRITER_WAITS = 0, /* waits for space; drops the event if writing fails */
    HS_WRITER_DROPS = 1  /* drops and counts the event; never waits for the disk */
} hs_writer_when_full;

/* What the writer does after an I/O error. */
typedef enum hs_writer_on_error {
    HS_WRITER_RETRIES = 0, /* retries with a new file */
    HS_WRITER_FAILS = 1    /* stops: adding, flush and close return this error */
} hs_writer_on_error;

typedef struct hs_summary_writer_options {
    size_t size;
    const hs_env *env;
    double flush_secs; /* most seconds until an event is written, up to 1e9. 0: 120. HS_NEVER: no limit */
    /* Largest queue; as many more bytes may be in writing. 0: 1 MiB. HS_NEVER: no limit */
    int64_t queue_bytes;
    const char *name_suffix;       /* end of the file's name, without '/'. NULL: none */
    hs_writer_when_full when_full; /* 0: HS_WRITER_WAITS */
    hs_writer_on_error on_error;   /* 0: HS_WRITER_RETRIES */
} hs_summary_writer_options;
#define HS_SUMMARY_WRITER_OPTIONS(...) HS_OPTIONS(hs_summary_writer_options, __VA_ARGS__)

/* Creates the file DIRECTORY/events.out.tfevents.SECONDS.HOST.PID.COUNT. Its version record is on disk when this returns.
 * `options` may be NULL.
 *
 * TensorBoard needs one writer per directory. For a session's directory, use hs_summary_writer_shared. */
HS_API hs_summary_writer *hs_summary_writer_open(const char *directory, const hs_summary_writer_options *options,
                                                 hs_error *err);
/* Returns the process's writer of a directory, shared with sessions and hooks. The first call opens it with `options`;
 * close it once per call. Directories are compared by name. Different environments, and a forked child, have different
 * writers. Errors: as hs_summary_writer_open. TensorFlow: FileWriterCache. */
HS_API hs_summary_writer *hs_summary_writer_shared(const char *directory, const hs_summary_writer_options *options,
                                                   hs_error *err);
/* The path of the current file, valid until the close. Changes with hs_summary_writer_reopen, after an I/O error, and if
 * the file was removed. */
HS_API const char *hs_summary_writer_path(const hs_summary_writer *writer);
/* Writes the queue, closes and frees the writer, also after a failure. A shared writer with other users is only flushed.
 * Returns the error that lost events; with HS_WRITER_FAILS, the first one. */
HS_API hs_code hs_summary_writer_close(hs_summary_writer *writer, hs_error *err);
/* Waits until all added events are written to the file, with `sync` until they are on the disk.
 *
 * If writing fails, returns the error, and the events stay in the queue. Until the writer recovers, a call without `sync`
 * returns the error immediately; a call with `sync` tries to write. After a failed sync, events may be lost even if a
 * later sync succeeds. */
HS_API hs_code hs_summary_writer_flush(hs_summary_writer *writer, bool sync, hs_error *err);
/* Syncs and closes the file, and starts a new one. Errors: as hs_summary_writer_flush. */
HS_API hs_code hs_summary_writer_reopen(hs_summary_writer *writer, hs_error *err);

/* Counters of a writer. Frozen. */
typedef struct hs_writer_status {
    int64_t events;   /* added events, including dropped ones */
    int64_t dropped;  /* events not written: the queue was full, or writing failed until the close */
    int64_t failures; /* failed attempts to write */
    int64_t files;    /* started files, including the first */
    bool failing;     /* the last attempt failed */
    bool retries;     /* on_error is HS_WRITER_RETRIES */
    unsigned char reserved[30];
    hs_error last_error; /* of the last failed attempt */
} hs_writer_status;
HS_API hs_writer_status hs_summary_writer_status(const hs_summary_writer *writer);

/* Add one event each, with the current time and the global step `step`. Data is copied. HS_OK also for a dropped event.
 * HS_INVALID_ARGUMENT: invalid data, or a tag that is empty or not UTF-8. HS_RESOURCE_EXHAUSTED: out of memory. */
HS_API hs_code hs_summary_writer_scalar(hs_summary_writer *writer, const char *tag, double value, int64_t step,
                                        hs_error *err);
/* A serialized Summary, unchanged. */
HS_API hs_code hs_summary_writer_summary(hs_summary_writer *writer, hs_string summary, int64_t step, hs_error *err);
/* A serialized GraphDef or MetaGraphDef, unchanged and not checked. */
HS_API hs_code hs_summary_writer_graph(hs_summary_writer *writer, hs_bytes graph_def, int64_t step, hs_error *err);
HS_API hs_code hs_summary_writer_meta_graph(hs_summary_writer *writer, hs_bytes meta_graph_def, int64_t step,
                                            hs_error *err);

/* A serialized Event, unchanged, with its own time and step. */
HS_API hs_code hs_summary_writer_event(hs_summary_writer *writer, hs_bytes event, hs_error *err);

/* A serialized RunMetadata, not checked. `tag`: unique in the run, such as "step_12". */
HS_API hs_code hs_summary_writer_run_metadata(hs_summary_writer *writer, const char *tag, hs_bytes run_metadata,
                                              int64_t step, hs_error *err);

typedef enum hs_session_log_status {
    HS_SESSION_LOG_START = 1,
    HS_SESSION_LOG_STOP = 2,
    HS_SESSION_LOG_CHECKPOINT = 3
} hs_session_log_status;
/* A session log. TensorBoard discards earlier points from the `step` of START on: pass the first step of the new run.
 * START is never dropped. `checkpoint_path` and `message` may be NULL; bytes that are not UTF-8 become "?". */
HS_API hs_code hs_summary_writer_session_log(hs_summary_writer *writer, hs_session_log_status status,
                                             const char *checkpoint_path, const char *message, int64_t step, hs_error *err);

HS_END_DECLS

#endif
