/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_BACKEND_H
#define HOOKSESS_BACKEND_H

#include <hooksess/run.h>
#include <hooksess/state.h>

/* The interface between a session and the engine that runs a graph of named ops and tensors, for authors of backends
 * (docs/guide/writing-a-backend.md) and for hooks that read the graph.
 *
 * Threads: one thread at a time per object. A backend and its sessions are one object, unless the backend allows more. */

HS_BEGIN_DECLS

/* An op, or an output of an op. Nodes with the same `op` and `output` are the same. Frozen. */
typedef struct hs_node {
    void *op;          /* for the backend's use */
    int32_t output;    /* index of the output. -1: the op, which has no value */
    int32_t n_outputs; /* number of the op's outputs */
} hs_node;

enum {
    HS_VARIABLE_LOCAL = 1,    /* not saved */
    HS_VARIABLE_OUTLIVES = 2, /* the program's memory: outlives the session, and init_op does not change it */
    HS_VARIABLE_MOVES = 4,    /* its memory may move between calls of the backend, or be missing */
    HS_VARIABLE_NONFINITE = 8 /* checkpoints may hold NaN and infinity in it */
};
/* Memory that is saved in checkpoints. Frozen. */
typedef struct hs_variable {
    const char *name;
    hs_dtype dtype;
    int32_t reserved;
    hs_shape shape;
    uint64_t flags;     /* HS_VARIABLE_LOCAL and so on */
    const char *device; /* "": the backend chooses. NULL: the backend has no devices */
} hs_variable;

/* The place of a part of a partitioned variable. Parts are saved as slices of one tensor, and restored from any division.
 * TensorFlow: SaveSliceInfo. Frozen. */
typedef struct hs_variable_slice {
    const char *name;            /* of the whole tensor */
    hs_shape shape;              /* of the whole tensor */
    int64_t starts[HS_MAX_RANK]; /* first index of the part in each dimension */
} hs_variable_slice;

/* Frozen. */
typedef struct hs_backend_feed {
    hs_node node;
    const hs_tensor *value;
} hs_backend_feed;

/* One run. No node occurs twice among the fetches, or among the feeds. */
typedef struct hs_backend_call {
    size_t size;
    const hs_node *fetches; /* tensors and ops */
    size_t n_fetches;
    const hs_backend_feed *feeds;
    size_t n_feeds;
    const hs_run_options *options; /* NULL: none */
    size_t level;                  /* nesting depth: 0; in a callback of a run 1 more */
    hs_tensor *values;             /* out: a value per fetch; data NULL for ops. Valid until the session's next run */
    hs_bytes metadata;             /* out: a serialized RunMetadata, if requested; zeros before */
    const hs_code *end_codes;      /* codes for the end of the input, ended by HS_OK. NULL: HS_OUT_OF_RANGE */
    /* A run that waits for data calls it from time to time, in any thread. true: end with HS_STOP. May be NULL */
    bool (*stop_requested)(void *user);
    void *user;
    /* The run's thread calls it with true before it waits for data, and with false after. May be NULL */
    void (*waits)(void *user, bool waiting);
    /* hs_op_pass_gate, in the run's thread. May be NULL */
    hs_code (*pass_gate)(void *user, hs_error *err);
    bool (*has_input)(void *user); /* hs_op_has_input. May be NULL */
    uint64_t plan; /* consecutive calls of a session with the same number have the same fetches and no feeds. 0: unknown */
} hs_backend_call;

/* A flag: values stay valid until the next run of the same level. Without it, the session copies them. */
enum { HS_BACKEND_KEEPS_VALUES = 1 };
/* A flag: views from read_variable stay valid until the next run or write, in any thread. Without it, a foreground save
 * uses one thread. */
enum { HS_BACKEND_KEEPS_VIEWS = 2 };

/* The collections of a graph, with TensorFlow's names. Items are names of nodes (const char *), except in HS_SAVERS
 * (hs_saver *) and HS_QUEUE_RUNNERS (hs_queue_runner *, queue_runner.h). */
#define HS_INIT_OP                 "init_op"
#define HS_READY_OP                "ready_op"
#define HS_READY_FOR_LOCAL_INIT_OP "ready_for_local_init_op"
#define HS_LOCAL_INIT_OP           "local_init_op"
#define HS_SUMMARY_OP              "summary_op"
#define HS_SUMMARIES               "summaries" /* merged by the default summary op */
#define HS_SAVERS                  "savers"
#define HS_QUEUE_RUNNERS           "queue_runners"

/* Callbacks that let a save copy variables concurrently with runs. Frozen.
 *
 * before_write  the writing thread calls it before it may change variable `index`, or any (HS_ANY_VARIABLE). Returns when
 *               the write may happen. false: the copy is complete, and before_write must not be called again. NULL: no copy
 *               is in progress
 * released      called instead when the session itself drops the guard */
#define HS_ANY_VARIABLE SIZE_MAX
typedef struct hs_write_guard {
    bool (*before_write)(void *user, size_t index);
    void (*released)(void *user);
    void *user;
} hs_write_guard;

/* The functions of a backend. They may be NULL, except (required) ones. The first group takes the backend's `self`, the
 * second a session from `open`. Returned strings and structs live as long as the backend. An index past the last item
 * returns false or NULL. */
typedef struct hs_backend_ops {
    size_t size;
    const char *name;
    uint64_t flags;

    /* The environment of sessions, hooks, savers and writers. NULL: the system's. */
    const hs_env *(*env)(void *self);
    /* Returns the first error of building the graph. Opening a session calls it. */
    hs_code (*status)(void *self, hs_error *err);
    /* (required) Resolves a name: "loss:0" is an output; "loss" is output 0 if the op has one output, else the op itself.
     * HS_NOT_FOUND: the message names it. */
    hs_code (*find)(void *self, const char *name, hs_node *node, hs_error *err);
    /* true: adding a node now fails with HS_FAILED_PRECONDITION. false, when the session is closed: it does not. */
    hs_code (*finalize)(void *self, bool finalized, hs_error *err);
    bool (*finalized)(void *self);
    /* The name of the global step. NULL: the graph has none. */
    const char *(*global_step_name)(void *self);
    /* The items of a collection, in order of addition. */
    bool (*collection_item)(void *self, const char *key, size_t index, const void **item);
    /* Adds an item, also to a finalized graph. Copies a name. A saver or queue runner lives as long as the graph;
     * `release`, if not NULL, frees it. */
    hs_code (*add_to_collection)(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err);
    /* Adds the default op of a collection and sets *name. NULL: no default. */
    hs_code (*default_op)(void *self, const char *key, const char **name, hs_error *err);
    /* The variables, in order of addition. */
    bool (*variable)(void *self, size_t index, hs_variable *out);
    /* State that checkpoints hold in addition. */
    const hs_state_provider *(*state)(void *self, size_t index);
    /* The graph as a serialized GraphDef, valid until the next call. */
    hs_code (*graph_def)(void *self, hs_bytes *out, hs_error *err);

    /* (required) Opens a session. `target` ("": this process) and `config` (a serialized ConfigProto, or empty) are the
     * session's options. */
    hs_code (*open)(void *self, const char *target, hs_bytes config, void **session, hs_error *err);
    /* (required) Makes one run. After a failure, no value is read. */
    hs_code (*run)(void *session, hs_backend_call *call, hs_error *err);
    /* (required) Closes and frees the session, also on failure. */
    hs_code (*close)(void *session, hs_error *err);
    /* Sets *value to a view of a variable, valid until the next call with this session (HS_BACKEND_KEEPS_VIEWS).
     * HS_FAILED_PRECONDITION: the variable is not initialized. With HS_VARIABLE_MOVES, value->data is NULL while the
     * variable has no memory; checkpoints record that. */
    hs_code (*read_variable)(void *session, size_t index, hs_tensor *value, hs_error *err);
    /* Sets a variable to a tensor of its dtype and shape: in host memory, in the memory that lend_variable lent, or a copy
     * that hs_memory.duplicate of the variable's memory has made. With HS_VARIABLE_MOVES, a variable without memory gets
     * some first. If value->data is NULL, the variable had no memory when it was saved: set it to its first value, or do
     * nothing if it still has none. */
    hs_code (*write_variable)(void *session, size_t index, const hs_tensor *value, hs_error *err);
    hs_code (*global_step)(void *session, int64_t *step, hs_error *err);
    /* Installs a guard. Views of variables in host memory then stay valid until before_write was called for them. Before a
     * guard is replaced, or the session is closed, before_write is called with HS_ANY_VARIABLE, and `released` if that
     * returned true. NULL: saves copy everything before the next run. */
    void (*guard)(void *session, hs_write_guard guard);
    /* Sets *memory to the variable's memory, initialized or not; on a device only if its hs_memory has `wait`. The caller
     * fills it, then calls write_variable with it; until then nothing may use the variable. NULL or a failure: the value is
     * copied. With HS_VARIABLE_MOVES, a variable without memory gets some, of zeros. Any failure but HS_UNIMPLEMENTED then
     * fails the restore, before anything is changed. */
    hs_code (*lend_variable)(void *session, size_t index, hs_tensor *memory, hs_error *err);
    /* Creates a handle with which another thread can call `run` and `close` concurrently. Its ops have private outputs, and
     * must not access variables (HS_FAILED_PRECONDITION). One thread at a time uses the handle, and may close it after
     * session and backend are gone. NULL: the backend has no queues to fill. */
    hs_code (*fork)(void *session, void **forked, hs_error *err);
    /* Adds `by` to the global step: 0 in hs_step_begin() and before closing, 1 in hs_step_end(). HS_FAILED_PRECONDITION:
     * the program changed the step since the last call. NULL: only ops advance it. */
    hs_code (*advance_step)(void *session, int64_t by, hs_error *err);

    /* First group. Returns true if the variable is a part of a larger one. */
    bool (*variable_slice)(void *self, size_t index, hs_variable_slice *out);
    /* First group. A serialized MetaGraphDef without graph_def and saver_def, valid until the next call. */
    hs_code (*meta_graph)(void *self, hs_bytes *out, hs_error *err);

    /* Second group. Sets *memory to the host memory of a value (hs_graph_value), to use between runs until the session is
     * closed. HS_INVALID_ARGUMENT: the node is not a value in host memory. */
    hs_code (*lend_value)(void *session, hs_node node, hs_tensor *memory, hs_error *err);

    /* First group. Returns the name of a collective op (hs_op_def.collective) that a run of `node` executes, but a run of
     * the n `others` does not, or NULL. */
    const char *(*collective_op)(void *self, hs_node node, const hs_node *others, size_t n);
} hs_backend_ops;

/* A backend: its functions and state. Passed by value. Frozen. */
typedef struct hs_backend {
    const hs_backend_ops *ops;
    void *self;
} hs_backend;

/* Call these functions of a backend. If a function is NULL, they return its default. */
HS_API const hs_env *hs_backend_env(hs_backend backend);
HS_API hs_code hs_backend_find(hs_backend backend, const char *name, hs_node *node, hs_error *err);
HS_API bool hs_backend_finalized(hs_backend backend);
HS_API const char *hs_backend_global_step_name(hs_backend backend);
/* Checks that `name` is a tensor. HS_NOT_FOUND: unknown name. HS_INVALID_ARGUMENT: an op without outputs or with
 * several. */
HS_API hs_code hs_backend_check_tensor(hs_backend backend, const char *name, hs_error *err);
/* HS_FAILED_PRECONDITION: the graph has no global step. */
HS_API hs_code hs_backend_check_global_step(hs_backend backend, hs_error *err);
/* `item` may be NULL. */
HS_API bool hs_backend_collection_item(hs_backend backend, const char *key, size_t index, const void **item);
HS_API bool hs_backend_variable(hs_backend backend, size_t index, hs_variable *out);
/* HS_UNIMPLEMENTED, and *out empty: the backend has no graph. */
HS_API hs_code hs_backend_graph_def(hs_backend backend, hs_bytes *out, hs_error *err);

HS_END_DECLS

#endif
