/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_RUN_H
#define HOOKSESS_RUN_H

#include <hooksess/tensor.h>

/* What one run is asked for (fetches, feeds, options) and what it gave. TensorFlow: SessionRunArgs, SessionRunValues,
 * RunOptions, RunMetadata.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

/* Fetches, as a tree of any depth up to HS_MAX_FETCH_DEPTH. Build one with the macros, or by hand:
 *
 *     const hs_run_values *values;
 *     hs_code code = hs_session_run_args(
 *         session,
 *         HS_RUN_ARGS(.fetches = HS_DICT({"train", HS_LEAF("train_op")},
 *                                        {"metrics", HS_DICT({"loss", HS_LEAF("loss")}, {"accuracy", HS_LEAF("acc")})})),
 *         &values, &err);
 *     if (!code)
 *         printf("%g\n", hs_run_values_number_at(values, "metrics/accuracy"));
 *
 * How long they live: init.h. For args that live longer there are the builders below. Frozen. */
#define HS_MAX_FETCH_DEPTH 1000

typedef enum hs_fetch_kind { HS_FETCH_LEAF = 1, HS_FETCH_LIST = 2, HS_FETCH_DICT = 3 } hs_fetch_kind;

typedef struct hs_fetch hs_fetch;
typedef const hs_fetch *hs_fetch_item;

/* An entry of a dict. Frozen. */
typedef struct hs_fetch_entry {
    const char *key; /* not empty, without '/', unique in its dict */
    const hs_fetch *value;
} hs_fetch_entry;

struct hs_fetch {
    hs_fetch_kind kind;
    int32_t reserved;
    const char *name;              /* of a leaf: an op or a tensor, "train" or "loss:0" */
    const hs_fetch_item *items;    /* of a list, ended by NULL */
    const hs_fetch_entry *entries; /* of a dict, ended by a NULL key */
};

#define HS_LEAF(op_or_tensor) HS__ADDRESS(hs_fetch, .kind = HS_FETCH_LEAF, .name = (op_or_tensor))
#define HS_LIST(...)          HS__ADDRESS(hs_fetch, .kind = HS_FETCH_LIST, .items = HS__LIST(hs_fetch_item, __VA_ARGS__, NULL))
#define HS_DICT(...)                                                                                                       \
    HS__ADDRESS(hs_fetch, .kind = HS_FETCH_DICT, .entries = HS__LIST(hs_fetch_entry, __VA_ARGS__, {NULL, NULL}))

/* A tensor that is given to the run in place of what the graph would compute: a placeholder's value, mostly. The data must
 * stay as it is until the run is over. Frozen. */
typedef struct hs_feed {
    const char *name;
    hs_tensor value;
} hs_feed;

/* .feeds = HS_FEEDS({ "images", hs_tensor_of(HS_FLOAT, HS_SHAPE(128, 784), pixels) }, { "labels", ... }) */
#define HS_FEEDS(...) HS__LIST(hs_feed, __VA_ARGS__, {.name = NULL})

/* Why a run is made. Hooks are called for the kinds that their flags name, TRAIN unless they say otherwise. */
typedef enum hs_run_kind {
    HS_RUN_TRAIN = 0,
    HS_RUN_EVAL = 1,
    HS_RUN_AUX = 2 /* anything else: reading a value, preparing data */
} hs_run_kind;

/* A tensor to be watched by TensorFlow's debugger. The lists are ended by NULL and may be NULL. Frozen. */
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

/* How a run is made. TensorFlow: RunOptions. When several of a run's args have options they are merged into new ones: the
 * largest trace_level, timeout_secs and inter_op_thread_pool, each flag if anyone set it, all watches in the order of the
 * hooks after the caller's. Nobody's own object is changed. */
typedef struct hs_run_options {
    size_t size;
    int64_t trace_level; /* HS_TRACE_SOFTWARE and above: step stats in the run metadata */
    double timeout_secs; /* 0 and HS_NEVER: no limit. A run that takes longer fails with HS_DEADLINE_EXCEEDED */
    int64_t inter_op_thread_pool;
    const hs_debug_watch *debug_watches; /* HS_DEBUG_WATCHES(...). NULL: none */
    bool output_partition_graphs;        /* the graph as it was run, in the run metadata */
    bool report_tensor_allocations_upon_oom;
    bool reset_disk_byte_usage;
    unsigned char reserved[5];
} hs_run_options;

#define HS_RUN_OPTIONS(...) HS_OPTIONS(hs_run_options, __VA_ARGS__)

/* What a run is asked for: a caller's hs_session_run_args, or a hook's request in before_run. Everything may be left out.
 * All of it stays the caller's and must live until the run is over. The library compares contents, never addresses: args
 * may be changed, moved or rebuilt between runs as the caller likes. */
typedef struct hs_run_args {
    size_t size;
    const char *const *names;      /* a flat list, ended by NULL: .names = HS_NAMES("loss") */
    const hs_fetch *fetches;       /* or a tree; both at once are HS_INVALID_ARGUMENT */
    const hs_feed *feeds;          /* ended by a NULL name; fed by two, a tensor is HS_FAILED_PRECONDITION, naming both */
    const hs_run_options *options; /* NULL: none */
    hs_run_kind kind;              /* read from the caller's args only */
    int32_t reserved_kind;
    void *built; /* what the builders own; NULL otherwise */
} hs_run_args;

#define HS_RUN_ARGS(...) HS_OPTIONS(hs_run_args, __VA_ARGS__)

/* Builders: args that own copies of what they hold, made and changed step by step, from C++ too. Start from
 * HS_INIT(hs_run_args), end with hs_run_args_clear. If `names`, `fetches` or `feeds` are set by hand as well, the builders
 * fail with HS_FAILED_PRECONDITION. The memory is malloc's.
 *
 * hs_run_args_fetch adds a leaf. `path` NULL appends `name` to the flat list; "metrics/loss" makes or extends a dict
 * "metrics" with the key "loss". The two cannot be mixed. HS_ALREADY_EXISTS if the path is taken.
 * hs_run_args_feed adds a feed or replaces the one of that name. The name is copied, the data is not. */
HS_API hs_code hs_run_args_fetch(hs_run_args *args, const char *path, const char *name, hs_error *err);
HS_API hs_code hs_run_args_feed(hs_run_args *args, const char *name, const hs_tensor *value, hs_error *err);
HS_API void hs_run_args_clear(hs_run_args *args);

/* What a run gave to whoever asked: values in the shape of its args. Borrowed until the next run at the same level: the
 * caller's until the session's next run, a hook's until the session's next run, those of a run that a hook makes until the
 * next run that is made inside the same callback. */
typedef struct hs_run_values hs_run_values;

/* The number of leaves. They are counted in the order in which they were written, depth first. */
HS_API size_t hs_run_values_count(const hs_run_values *values);
/* A leaf by position, or by path: "metrics/loss" in a tree ("0/1" in lists), the name itself in a flat list. NULL if there
 * is no such leaf, or it is an op, which has no value. The tensor may be device memory (hs_tensor_host). */
HS_API const hs_tensor *hs_run_values_tensor(const hs_run_values *values, size_t index);
HS_API const hs_tensor *hs_run_values_tensor_at(const hs_run_values *values, const char *path);
/* The first element of a leaf as a double; NaN where there is no such leaf, no value, or no number. Device memory is read.
 */
HS_API double hs_run_values_number(const hs_run_values *values, size_t index);
HS_API double hs_run_values_number_at(const hs_run_values *values, const char *path);
/* The merged options of the run (NULL: none), and its metadata as a serialized TensorFlow RunMetadata (size 0: none was
 * asked for). */
HS_API const hs_run_options *hs_run_values_options(const hs_run_values *values);
HS_API hs_bytes hs_run_values_metadata(const hs_run_values *values);

HS_END_DECLS

#endif
