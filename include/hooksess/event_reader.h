/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_EVENT_READER_H
#define HOOKSESS_EVENT_READER_H

#include <hooksess/records.h>
#include <hooksess/summary.h>

/* Reads event files.
 *
 *     hs_event_reader *reader = hs_event_reader_open("run", NULL, &err);
 *     const hs_event *event;
 *     while (hs_event_reader_next(reader, &event, &err) == HS_OK)
 *         for (size_t i = 0; i < event->n_values; i++)
 *             if (event->values[i].has_scalar)
 *                 printf("%lld %g\n", (long long)event->step, event->values[i].scalar);
 *     hs_event_reader_close(reader);
 *
 * TensorFlow: tf.compat.v1.train.summary_iterator. TensorBoard: EventFileLoader, DirectoryWatcher.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* The content of an event. */
typedef enum hs_event_kind {
    HS_EVENT_OTHER = 0, /* nothing, or an unknown kind */
    HS_EVENT_FILE_VERSION = 3,
    HS_EVENT_GRAPH = 4,
    HS_EVENT_SUMMARY = 5,
    HS_EVENT_LOG_MESSAGE = 6,
    HS_EVENT_SESSION_LOG = 7,
    HS_EVENT_RUN_METADATA = 8,
    HS_EVENT_META_GRAPH = 9
} hs_event_kind;

/* "summary", "session_log" and so on, or "other". */
HS_API const char *hs_event_kind_name(hs_event_kind kind);

/* How a value of a summary is stored. */
typedef enum hs_event_value_kind {
    HS_EVENT_VALUE_OTHER = 0,
    HS_EVENT_VALUE_SCALAR = 2,    /* a float */
    HS_EVENT_VALUE_IMAGE = 4,     /* a serialized Summary.Image */
    HS_EVENT_VALUE_HISTOGRAM = 5, /* a serialized HistogramProto */
    HS_EVENT_VALUE_AUDIO = 6,     /* a serialized Summary.Audio */
    HS_EVENT_VALUE_TENSOR = 8     /* a serialized TensorProto */
} hs_event_value_kind;

/* "scalar", "image", "histogram", "audio", "tensor" or "other". */
HS_API const char *hs_event_value_kind_name(hs_event_value_kind kind);

/* A value of a summary. Strings may hold any bytes, without a final zero; a missing string has 0 bytes. Frozen. */
typedef struct hs_event_value {
    hs_string tag, node_name;
    hs_string plugin, plugin_content; /* from the metadata, often only in the first value of a tag */
    hs_string display_name, description;
    hs_event_value_kind kind;
    hs_dtype dtype; /* of a tensor */
    hs_shape shape; /* of a tensor. Rank -1: not stored, or above HS_MAX_RANK */
    double scalar;  /* of a scalar, or a tensor with one number. Otherwise NaN, and has_scalar is false */
    bool has_scalar;
    unsigned char reserved_has_scalar[7];
    hs_bytes bytes; /* the serialized message. {0} for a scalar */
    void *reserved[4];
} hs_event_value;

/* An event. Strings as in hs_event_value. Frozen. */
typedef struct hs_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    hs_event_kind kind;
    hs_session_log_status status;       /* of a session log. 0: unknown */
    hs_string checkpoint_path, message; /* of a session log; `message` also of a log message */
    hs_string text;                     /* the file version ("brain.Event:2"), or the tag of run metadata */
    hs_bytes bytes;                     /* the serialized graph, meta graph, summary or run metadata */
    const hs_event_value *values;       /* of a summary, n_values of them */
    size_t n_values;
    hs_bytes record;  /* the serialized event */
    const char *path; /* the file */
    uint64_t offset;  /* of the record in the file, in bytes */
    void *reserved[4];
} hs_event;

/* A damaged part of a file. Frozen. */
typedef struct hs_event_damage {
    const char *path;
    uint64_t offset;   /* of the first damaged byte */
    uint64_t bytes;    /* skipped bytes */
    bool is_truncated; /* the file ends inside a record */
    unsigned char reserved_is_truncated[7];
    const char *message; /* one line, with path and offset */
    void *reserved[4];
} hs_event_damage;

typedef struct hs_event_reader hs_event_reader;

typedef struct hs_event_reader_options {
    size_t size;
    const hs_env *env;
    bool follow; /* also read later records, and files that appear later */
    unsigned char reserved[7];
    int64_t max_record_bytes; /* largest record; a longer one counts as damage. 0: 2 GiB; HS_NEVER: no limit */
    /* Called for each damaged part, valid during the call. NULL: log a warning */
    void (*damaged)(void *user, const hs_event_damage *damage);
    void *user;
} hs_event_reader_options;
#define HS_EVENT_READER_OPTIONS(...) HS_OPTIONS(hs_event_reader_options, __VA_ARGS__)

/* Opens one event file, or a directory: all files directly in it whose names contain "tfevents", in the order of their
 * names. With `follow`, a file that appears later is read if its name is after the current one. `options` may be NULL.
 * HS_NOT_FOUND: `path` does not exist. */
HS_API hs_event_reader *hs_event_reader_open(const char *path, const hs_event_reader_options *options, hs_error *err);
HS_API void hs_event_reader_close(hs_event_reader *reader);

/* Sets *event to the next event, valid until the next call with `reader`. Does not wait.
 *
 *   HS_OUT_OF_RANGE   the end of the last file (without `follow`)
 *   HS_UNAVAILABLE    no complete event now: call again later (with `follow`)
 *   others            from the file system. Calling again retries
 *
 * Damage is reported and skipped, and is not an error: a bad record by its length; if the length is damaged, up to the
 * next intact record. A file that ends inside a record counts as damaged without `follow`, or if a later file exists. */
HS_API hs_code hs_event_reader_next(hs_event_reader *reader, const hs_event **event, hs_error *err);

HS_END_DECLS

#endif
