/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SUMMARY_H
#define HOOKSESS_SUMMARY_H

#include <hooksess/tensor.h>

/* Summaries, and the event files that TensorBoard shows. TensorFlow: Summary, FileWriter.
 *
 *     hs_summary_writer *w = hs_summary_writer_open("run", NULL, &err);
 *     hs_summary_writer_scalar(w, "loss", loss, step, &err);
 *     hs_summary_writer_histogram(w, "weights", &tensor, step, &err);      (summary_values.h)
 *     hs_summary_writer_close(w, &err);
 *
 * Scalars are here; histograms, images, sound, text and the rest in summary_values.h, hyperparameters in hparams.h, ops of
 * a graph that give summaries in graph_summary.h.
 *
 * Threads: one at a time per object. Any thread may use a writer, but hs_summary_writer_close comes last. */

HS_BEGIN_DECLS

/* A Summary: values under their tags, kept serialized. Cleared and filled again it allocates nothing new. */
typedef struct hs_summary hs_summary;

/* The caller's to free. NULL if there is no memory. */
HS_API hs_summary *hs_summary_new(const hs_env *env);
HS_API void hs_summary_free(hs_summary *summary);
HS_API void hs_summary_clear(hs_summary *summary);
/* A scalar for the tag: shown under Scalars. HS_INVALID_ARGUMENT for a tag that is empty or not UTF-8, which
 * readers refuse with the whole event; HS_RESOURCE_EXHAUSTED. */
HS_API hs_code hs_summary_scalar(hs_summary *summary, const char *tag, double value, hs_error *err);
/* The serialized Summary, until the next call with it. What a summary op of a graph gives as its (string) value. */
HS_API hs_string hs_summary_serialized(const hs_summary *summary);

/* An event file that grows, written by a thread of its own: adding an event copies it into a queue. TensorBoard may read
 * the file meanwhile; a record is written whole or, at a crash, cut at the end of the file. TensorFlow: FileWriter.
 *
 * An error of the disk does not end a training. It is told of once in the log, events wait in the queue, and what finds no
 * place in it is dropped and counted; after 1, 2, 4 ... 64 seconds, and whenever somebody asks for a flush with a sync, it
 * is tried again, with a new file, which goes on after the last whole record of the one before. The session reports it
 * (hs_raw_session_report_failure) as "summary writer". Who wants to fail instead says so (on_error). */
typedef struct hs_summary_writer hs_summary_writer;

/* What adding does while the queue is full. */
typedef enum hs_writer_when_full {
    HS_WRITER_WAITS = 0, /* until there is room; but not for a disk that fails: then as below */
    HS_WRITER_DROPS = 1  /* the event is lost, and counted; the caller never waits for the disk */
} hs_writer_when_full;

/* What an error of the disk is. */
typedef enum hs_writer_on_error {
    HS_WRITER_GOES_ON = 0, /* something to get over */
    HS_WRITER_FAILS = 1    /* final: adding, flush and close return it, and nothing more is written */
} hs_writer_on_error;

typedef struct hs_summary_writer_options {
    size_t size;
    const hs_env *env;             /* NULL: the system's. Copied */
    double flush_secs;             /* 0: 120. Events are in the file at most so long after they were added */
    int64_t queue_bytes;           /* 0: 1 MiB. The queue is full with so much in it. As much again may be being written */
    const char *name_suffix;       /* NULL: none. Put at the end of the file's name */
    hs_writer_when_full when_full; /* 0: HS_WRITER_WAITS */
    hs_writer_on_error on_error;   /* 0: HS_WRITER_GOES_ON */
} hs_summary_writer_options;
#define HS_SUMMARY_WRITER_OPTIONS(...) HS_OPTIONS(hs_summary_writer_options, __VA_ARGS__)

/* Opens a new file DIRECTORY/events.out.tfevents.SECONDS.HOST.PID.COUNT, which has its version record on disk when this
 * returns. SECONDS may be later than the clock: TensorBoard reads files in the order of their names, and this one comes
 * last. Missing directories are made. `options` may be NULL. The caller's to close.
 *
 * One living writer a directory: TensorBoard does not come back to an earlier file, and a session's START drops what such a
 * file has from its step on. Beside a session use hs_summary_writer_shared with the very name that the session was given,
 * or a directory below it. */
HS_API hs_summary_writer *hs_summary_writer_open(const char *directory, const hs_summary_writer_options *options,
                                                 hs_error *err);
/* The one writer that this process has for a directory, whoever asks for it, sessions and their hooks among them; opened by
 * the first, whose options count, closed when the last has closed it. To be closed as often as it was got. Directories are
 * one if their names are, but for slashes at the end. Each environment has writers of its own, for it need not live longer
 * than whoever brought it. The list of these writers belongs to the process. Any thread. The errors are those of
 * hs_summary_writer_open. TensorFlow: FileWriterCache. */
HS_API hs_summary_writer *hs_summary_writer_shared(const char *directory, const hs_summary_writer_options *options,
                                                   hs_error *err);
/* The path of the file that is being written; valid until the writer is closed, but a writer may have begun another file
 * meanwhile: after a reopen, an error of the disk, or if somebody removed the file. */
HS_API const char *hs_summary_writer_path(const hs_summary_writer *writer);
/* Writes what is queued, closes the file and frees the writer, also when it fails: with the error that kept events from
 * being written now, or with HS_WRITER_FAILS with the first since it was opened. A shared writer that others have got is
 * flushed. NULL is allowed. There is no adding after it: TensorFlow's FileWriter warns of that, and can be opened again,
 * for which there is hs_summary_writer_reopen. */
HS_API hs_code hs_summary_writer_close(hs_summary_writer *writer, hs_error *err);
/* Waits until all that was added is in the file (handed to the system; sync: on the disk). The error that keeps it from
 * there, though it goes on being tried: without a sync at once, if it is known that the disk fails; with one after another
 * attempt. What was in the file when a sync of it failed may be lost if the power goes, and no later sync can tell. With
 * HS_WRITER_FAILS the first error since the writer was opened. */
HS_API hs_code hs_summary_writer_flush(hs_summary_writer *writer, bool sync, hs_error *err);
/* Syncs what was added to the file, closes that, and begins a new one in the same directory, with the same suffix: what is
 * added from now on is there. Failing, it is tried again like any writing. */
HS_API hs_code hs_summary_writer_reopen(hs_summary_writer *writer, hs_error *err);

/* How it does. Frozen. */
typedef struct hs_writer_status {
    int64_t events;   /* that were added; those that were dropped are among them */
    int64_t dropped;  /* that found the queue full, or that a disk did not take until the end */
    int64_t failures; /* attempts of the disk that failed */
    int64_t files;    /* that were begun, the first included */
    bool failing;     /* the last attempt failed */
    bool goes_on;     /* HS_WRITER_GOES_ON: a failure is to be counted, not to end the training */
    unsigned char reserved[30];
    hs_error last_error; /* of the last attempt that failed */
} hs_writer_status;
/* Of NULL: all zero. */
HS_API hs_writer_status hs_summary_writer_status(const hs_summary_writer *writer);

/* Each adds one event, stamped with the time of the call. HS_RESOURCE_EXHAUSTED if there is no memory, or, with
 * HS_WRITER_FAILS, the error that stopped the writer. An event that is dropped is no error. HS_INVALID_ARGUMENT for a tag
 * that is empty or not UTF-8. Data are copied. `step` is the global step that the event belongs to. */
HS_API hs_code hs_summary_writer_scalar(hs_summary_writer *writer, const char *tag, double value, int64_t step,
                                        hs_error *err);
/* A serialized Summary, written as it is. HS_INVALID_ARGUMENT: it is none, and nothing is added. */
HS_API hs_code hs_summary_writer_summary(hs_summary_writer *writer, hs_string summary, int64_t step, hs_error *err);
/* A serialized GraphDef, and a serialized MetaGraphDef. */
HS_API hs_code hs_summary_writer_graph(hs_summary_writer *writer, hs_bytes graph_def, int64_t step, hs_error *err);
HS_API hs_code hs_summary_writer_meta_graph(hs_summary_writer *writer, hs_bytes meta_graph_def, int64_t step,
                                            hs_error *err);

/* A whole serialized Event, with its own time and step, written as it is. HS_INVALID_ARGUMENT: it is none, or empty. */
HS_API hs_code hs_summary_writer_event(hs_summary_writer *writer, hs_bytes event, hs_error *err);

/* What a run tells of itself, a serialized RunMetadata, under a tag of its own ("step_12"). */
HS_API hs_code hs_summary_writer_run_metadata(hs_summary_writer *writer, const char *tag, hs_bytes run_metadata,
                                              int64_t step, hs_error *err);

typedef enum hs_session_log_status {
    HS_SESSION_LOG_START = 1,
    HS_SESSION_LOG_STOP = 2,
    HS_SESSION_LOG_CHECKPOINT = 3
} hs_session_log_status;
/* A session log. START tells TensorBoard to drop what it has at `step` and above: it is given the first step of the new
 * run, and is never dropped. `checkpoint_path` and `message` may be NULL; what is not UTF-8 in them is written as ?. */
HS_API hs_code hs_summary_writer_session_log(hs_summary_writer *writer, hs_session_log_status status,
                                             const char *checkpoint_path, const char *message, int64_t step, hs_error *err);

HS_END_DECLS

#endif
