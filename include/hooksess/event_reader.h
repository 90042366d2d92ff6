/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_EVENT_READER_H
#define HOOKSESS_EVENT_READER_H

#include <hooksess/records.h>
#include <hooksess/summary.h>

/* Reading event files, those of TensorFlow and others too. TensorFlow: tf.compat.v1.train.summary_iterator; TensorBoard:
 * EventFileLoader, DirectoryWatcher.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

/* What an event is. */
typedef enum hs_event_kind {
    HS_EVENT_OTHER = 0, /* nothing, or what is not known here */
    HS_EVENT_FILE_VERSION = 3,
    HS_EVENT_GRAPH = 4,
    HS_EVENT_SUMMARY = 5,
    HS_EVENT_LOG_MESSAGE = 6,
    HS_EVENT_SESSION_LOG = 7,
    HS_EVENT_RUN_METADATA = 8,
    HS_EVENT_META_GRAPH = 9
} hs_event_kind;

/* "summary", "session_log", ...; "other" for what is none. Static. */
HS_API const char *hs_event_kind_name(hs_event_kind kind);

/* How a summary's value is stored. What it is for, its `plugin` says, where it has one. */
typedef enum hs_event_value_kind {
    HS_EVENT_VALUE_OTHER = 0,
    HS_EVENT_VALUE_SCALAR = 2,    /* a float */
    HS_EVENT_VALUE_IMAGE = 4,     /* a serialized Summary.Image */
    HS_EVENT_VALUE_HISTOGRAM = 5, /* a serialized HistogramProto */
    HS_EVENT_VALUE_AUDIO = 6,     /* a serialized Summary.Audio */
    HS_EVENT_VALUE_TENSOR = 8     /* a serialized TensorProto */
} hs_event_value_kind;

/* "scalar", "image", "histogram", "audio", "tensor", "other". Static. */
HS_API const char *hs_event_value_kind_name(hs_event_value_kind kind);

/* A value of a summary. Strings end at their length and not with a zero, and may be any bytes; .bytes is 0 for what is not
 * there. Frozen. */
typedef struct hs_event_value {
    hs_string tag, node_name;
    hs_string plugin, plugin_content; /* from the metadata, which often only the first value of a tag has */
    hs_string display_name, description;
    hs_event_value_kind kind;
    hs_dtype dtype; /* of a tensor */
    hs_shape shape; /* of a tensor; rank -1: not given, or more than HS_MAX_RANK */
    double scalar;  /* of a scalar, or of a tensor with one number; else NaN */
    bool has_scalar;
    unsigned char reserved_has_scalar[7];
    hs_bytes bytes; /* as stored; {0} of a scalar */
    void *reserved[4];
} hs_event_value;

/* An event, and where it stands. Strings as above. Frozen. */
typedef struct hs_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    hs_event_kind kind;
    hs_session_log_status status;       /* of a session log */
    hs_string checkpoint_path, message; /* of a session log; `message` also of a log message */
    hs_string text;                     /* the file version ("brain.Event:2"), or the tag of run metadata */
    hs_bytes bytes;                     /* serialized: the graph, meta graph, summary, run metadata */
    const hs_event_value *values;       /* of a summary */
    size_t n_values;
    hs_bytes record;  /* the event, serialized */
    const char *path; /* the file */
    uint64_t offset;  /* of the record in the file */
    void *reserved[4];
} hs_event;

/* What could not be read. Frozen. */
typedef struct hs_event_damage {
    const char *path;
    uint64_t offset;   /* where it begins; the file's length may be the end of it */
    uint64_t bytes;    /* how many were passed over */
    bool is_truncated; /* the file ends inside a record, as a writer leaves it that was killed */
    unsigned char reserved_is_truncated[7];
    const char *message; /* one line, path and offset in it */
    void *reserved[4];
} hs_event_damage;

typedef struct hs_event_reader hs_event_reader;

typedef struct hs_event_reader_options {
    size_t size;
    const hs_env *env; /* NULL: the system's. Copied */
    bool follow;       /* the files may grow, and new ones appear: there is no end */
    unsigned char reserved[7];
    int64_t max_record_bytes; /* 0: 2 GiB; HS_NEVER: no limit */
    /* Told of damage, during hs_event_reader_next; both pointers are good until it returns. NULL: a warning in the log. */
    void (*damaged)(void *user, const hs_event_damage *damage);
    void *user;
} hs_event_reader_options;
#define HS_EVENT_READER_OPTIONS(...) HS_OPTIONS(hs_event_reader_options, __VA_ARGS__)

/* Of one event file, or of a directory: then of all files in it whose names have "tfevents" in them, in the order of the
 * names, as TensorBoard reads a run; not of directories in it. Names that appear are read if they come after the one that
 * is being read; of two files that grow at once the earlier one is left once the later one is there. HS_NOT_FOUND if there
 * is no such path; a directory without such files is empty. `options` may be NULL. The caller's to close. */
HS_API hs_event_reader *hs_event_reader_open(const char *path, const hs_event_reader_options *options, hs_error *err);
/* NULL is allowed. */
HS_API void hs_event_reader_close(hs_event_reader *reader);

/* The next event; it and all it points to are the reader's until the next call.
 *
 *   HS_OUT_OF_RANGE   the end. Only without .follow: the end of the last of the files that were there at first
 *   HS_UNAVAILABLE    no more now; ask again later. Only with .follow: all that is whole was read, and the last file may
 *                     end inside a record that is still being written
 *   others            the file system's, of the file named; asking again tries again
 *
 * Damage is reported, passed over, and no error: a record whose checksum is wrong or that is no event, by its length; what
 * has no length to trust, to the next intact record of the file. A file that ends inside a record is damaged once it is
 * known that nobody writes it: without .follow, or when a file comes after it. */
HS_API hs_code hs_event_reader_next(hs_event_reader *reader, const hs_event **event, hs_error *err);

/* How many places were damaged so far. */
HS_API int64_t hs_event_reader_damages(const hs_event_reader *reader);

HS_END_DECLS

#endif
