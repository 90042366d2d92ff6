/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_RUN_H
#define HOOKSESS_RUN_H

#include <hooksess/tensor.h>

/* Requests of a run (fetches, feeds, options) and its results. For callers of hs_session_run_args, and for hooks.
 *
 *     const hs_run_values *values;
 *     hs_code code = hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("train_op", "loss")), &values, &err);
 *     if (!code)
 *         printf("%g\n", hs_run_values_number_at(values, "loss"));
 *
 * TensorFlow: SessionRunArgs, SessionRunValues, RunOptions, RunMetadata.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* Fetches as a tree, at most HS_MAX_FETCH_DEPTH deep. A leaf of the results has a path, such as "metrics/accuracy":
 *
 *     hs_run_args args = HS_INIT(hs_run_args, .fetches = HS_DICT({"train", HS_LEAF("train_op")},
 *                                                                {"metrics", HS_DICT({"accuracy", HS_LEAF("acc")})}));
 *
 * How long macros' results live: init.h. A tree that is made at run time consists of the program's own variables:
 *
 *     char name[32] = "loss:0";
 *     hs_fetch loss = {.kind = HS_FETCH_LEAF, .name = name};
 *     hs_fetch_entry entries[] = {{"loss", &loss}, {NULL, NULL}};
 *     hs_fetch metrics = {.kind = HS_FETCH_DICT, .entries = entries};
 *
 * Frozen. */
#define HS_MAX_FETCH_DEPTH 1000

typedef enum hs_fetch_kind { HS_FETCH_LEAF = 1, HS_FETCH_LIST = 2, HS_FETCH_DICT = 3 } hs_fetch_kind;

typedef struct hs_fetch hs_fetch;
typedef const hs_fetch *hs_fetch_item;

/* One entry of a dict. Frozen. */
typedef struct hs_fetch_entry {
    const char *key; /* not empty, without '/', unique in its dict */
    const hs_fetch *value;
} hs_fetch_entry;

struct hs_fetch {
    hs_fetch_kind kind;
    int32_t reserved;
    const char *name;              /* of a leaf: an op or a tensor, such as "train" or "loss:0" */
    const hs_fetch_item *items;    /* of a list, ended by NULL */
    const hs_fetch_entry *entries; /* of a dict, ended by a NULL key */
};

#define HS_LEAF(op_or_tensor) HS__ADDRESS(hs_fetch, .kind = HS_FETCH_LEAF, .name = (op_or_tensor))
#define HS_LIST(...)          HS__ADDRESS(hs_fetch, .kind = HS_FETCH_LIST, .items = HS__LIST(hs_fetch_item, __VA_ARGS__, NULL))
#define HS_DICT(...)                                                                                                       \
    HS__ADDRESS(hs_fetch, .kind = HS_FETCH_DICT, .entries = HS__LIST(hs_fetch_entry, __VA_ARGS__, {NULL, NULL}))

/* A tensor for a placeholder, or in place of any tensor. The data is borrowed until the run is over. Frozen. */
typedef struct hs_feed {
    const char *name;
    hs_tensor value;
} hs_feed;

/* .feeds = HS_FEEDS({ "images", hs_tensor_of(HS_FLOAT, HS_SHAPE(128, 784), pixels) }, { "labels", ... }) */
#define HS_FEEDS(...) HS__LIST(hs_feed, __VA_ARGS__, {.name = NULL})

/* The purpose of a run. Hooks are called for the kinds in their flags. */
typedef enum hs_run_kind {
    HS_RUN_TRAIN = 0,
    HS_RUN_EVAL = 1,
    HS_RUN_AUX = 2 /* other runs, such as reading a value */
} hs_run_kind;

/* A tensor that TensorFlow's debugger watches. Lists end with NULL and may be NULL. Frozen. */
typedef struct hs_debug_watch {
    const char *node_name;
    int64_t output_slot;
    const char *const *debug_ops;
    const char *const *debug_urls;
} hs_debug_watch;

/* .debug_watches = HS_DEBUG_WATCHES({.node_name = "loss", .debug_ops = HS_NAMES("DebugIdentity")}). A named array ends with
 * {0}. */
#define HS_DEBUG_WATCHES(...) HS__LIST(hs_debug_watch, __VA_ARGS__, {.node_name = NULL})

enum { HS_TRACE_NONE = 0, HS_TRACE_SOFTWARE = 1, HS_TRACE_HARDWARE = 2, HS_TRACE_FULL = 3 };

/* How a run is made. Options of several args are merged: the largest trace_level, timeout_secs (a timeout counts more than
 * none) and inter_op_thread_pool, each flag that is set anywhere, and all watches, the caller's first. TensorFlow:
 * RunOptions. */
typedef struct hs_run_options {
    size_t size;
    int64_t trace_level;                     /* HS_TRACE_NONE and so on: the others add times to the metadata */
    double timeout_secs;                     /* a longer run fails with HS_DEADLINE_EXCEEDED. 0, HS_NEVER: no limit */
    int64_t inter_op_thread_pool;            /* of TensorFlow only */
    const hs_debug_watch *debug_watches;     /* HS_DEBUG_WATCHES(...). NULL: none */
    bool output_partition_graphs;            /* the metadata has the graph that was run */
    bool report_tensor_allocations_upon_oom; /* of TensorFlow only */
    bool reset_disk_byte_usage;              /* of TensorFlow's debugger only */
    unsigned char reserved[5];
} hs_run_options;

#define HS_RUN_OPTIONS(...) HS_OPTIONS(hs_run_options, __VA_ARGS__)

/* Requests of a run, by the caller or by a hook in before_run. All fields are optional, borrowed until the run is over. */
typedef struct hs_run_args {
    size_t size;
    const char *const *names;      /* fetches as a list, ended by NULL: HS_NAMES("loss") */
    const hs_fetch *fetches;       /* instead of names: fetches as a tree, HS_DICT(...) */
    const hs_feed *feeds;          /* HS_FEEDS(...). HS_FAILED_PRECONDITION if a tensor is fed twice */
    const hs_run_options *options; /* NULL: none */
    hs_run_kind kind;              /* ignored in the args of hooks. 0: HS_RUN_TRAIN */
    int32_t reserved_kind;
} hs_run_args;

#define HS_RUN_ARGS(...) HS_OPTIONS(hs_run_args, __VA_ARGS__)

/* The results of a run, in the shape of its args. Borrowed: after hs_session_run_args, until the session's next run or
 * step; in after_run, until it returns; after hs_raw_session_run, until the next raw run of the same callback, or of the
 * program outside callbacks. */
typedef struct hs_run_values hs_run_values;

/* Returns the number of results: the names, or the leaves of a tree, depth first. */
HS_API size_t hs_run_values_count(const hs_run_values *values);
/* Returns a result by position, or by path: "metrics/loss" in dicts, "0/1" in lists, the name itself in `names`. NULL: it
 * does not exist, or is an op. The tensor may be in device memory (hs_run_values_host). */
HS_API const hs_tensor *hs_run_values_tensor(const hs_run_values *values, size_t index);
HS_API const hs_tensor *hs_run_values_tensor_at(const hs_run_values *values, const char *path);
/* Sets *host to a result in host memory. A result in device memory is copied once for all hooks of the run. Valid as long
 * as the results; if it has more than 64 KiB on a device, until the next call. HS_INVALID_ARGUMENT: the result does not
 * exist, or is an op. Others: as hs_tensor_host. */
HS_API hs_code hs_run_values_host(const hs_run_values *values, size_t index, hs_tensor *host, hs_error *err);
/* Returns the first element of a result as a double, also from device memory. NaN also if the result does not exist, or is
 * an op, strings or complex. */
HS_API double hs_run_values_number(const hs_run_values *values, size_t index);
HS_API double hs_run_values_number_at(const hs_run_values *values, const char *path);
/* Returns the merged options of the run (NULL: none), and its metadata, a serialized RunMetadata (size 0: none). */
HS_API const hs_run_options *hs_run_values_options(const hs_run_values *values);
HS_API hs_bytes hs_run_values_metadata(const hs_run_values *values);

HS_END_DECLS

#endif
