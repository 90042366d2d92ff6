/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_BACKEND_H
#define HOOKSESS_BACKEND_H

#include <hooksess/run.h>
#include <hooksess/state.h>

/* What a session runs on: a graph of named ops and tensors, and sessions that run parts of it. Users of a backend that is
 * there (graph.h) need only pass its hs_backend on; this header is for those who write one, and for hooks that look at it.
 *
 * Threads: one at a time per object. A backend and its sessions are one object, unless the backend says more. */

HS_BEGIN_DECLS

/* A node that a name was resolved to: an op's output, or an op itself. Two nodes are the same where `op` and `output` are.
 * Frozen. */
typedef struct hs_node {
    void *op;          /* the backend's own */
    int32_t output;    /* which of its outputs; -1: the op itself, which has no value */
    int32_t n_outputs; /* of the op: why a bare name has no value, where output is -1 */
} hs_node;

/* A variable: memory that lives as long as a session and is saved with checkpoints. Frozen. */
enum {
    HS_VARIABLE_LOCAL = 1,    /* not saved: a metric's accumulator, say */
    HS_VARIABLE_OUTLIVES = 2, /* it outlives the session, and the init op leaves it as it is: the program's memory */
    HS_VARIABLE_MOVES = 4,    /* its memory may move between two calls of the backend, or be missing (read_variable) */
    HS_VARIABLE_NONFINITE = 8 /* checkpoints may have NaN and infinity in it (hs_nonfinite_policy) */
};
typedef struct hs_variable {
    const char *name;
    hs_dtype dtype;
    int32_t reserved;
    hs_shape shape;
    uint64_t flags;
    /* Where it stands, in the backend's own words; "": it was given no place. NULL: the backend places nothing */
    const char *device;
} hs_variable;

/* Where a variable lies that is a part of a larger one, as partitioned variables are. The parts of one are saved as slices
 * of one tensor, and restored from it, however it is divided in the checkpoint. TensorFlow: SaveSliceInfo. Frozen. */
typedef struct hs_variable_slice {
    const char *name;            /* of the whole, in checkpoints */
    hs_shape shape;              /* of the whole */
    int64_t starts[HS_MAX_RANK]; /* of the part, along each dimension; it is as large as the variable */
} hs_variable_slice;

/* Frozen. */
typedef struct hs_backend_feed {
    hs_node node;
    const hs_tensor *value;
} hs_backend_feed;

/* One run. No node occurs twice among the fetches, nor among the feeds. */
typedef struct hs_backend_call {
    size_t size;
    const hs_node *fetches; /* tensors and ops */
    size_t n_fetches;
    const hs_backend_feed *feeds;
    size_t n_feeds;
    const hs_run_options *options; /* NULL: none */
    size_t level;                  /* 0; 1 for a run made while the values of one of level 0 are in use; and so on */
    hs_tensor *values;             /* out, n_fetches of them: what the tensors are; data NULL for ops */
    hs_bytes metadata;             /* out, {0} before: a serialized RunMetadata, where the options ask for it */
    const hs_code *end_codes;      /* what means that an op has no more to give, ended by HS_OK. NULL: HS_OUT_OF_RANGE */
    /* Asked by whoever waits in the run for something that may never come: true ends the run with HS_STOP. Any thread,
     * while the run lasts. NULL: nobody will stop it */
    bool (*stop_requested)(void *user);
    void *user;
    /* Told by the run's thread when it begins to wait for data (true), and when that is over (false), so that who watches
     * the session knows what it does not move for. NULL: nobody asks. */
    void (*waits)(void *user, bool waiting);
} hs_backend_call;

/* Results are kept as they are until the next run of that level, whatever other levels run. Without it the session copies
 * values that are in use before it runs another level. */
enum { HS_BACKEND_KEEPS_VALUES = 1 };
/* Views of variables in host memory that read_variable gave stay good, and any thread may read them, until the session runs
 * or a variable is written, whatever others are read. Without it a save in the foreground writes from one thread. */
enum { HS_BACKEND_KEEPS_VIEWS = 2 };

/* The well-known collections of a graph, with TensorFlow's names for them. Items are names of nodes (const char *) but for
 * HS_SAVERS (hs_saver *) and HS_QUEUE_RUNNERS (hs_queue_runner *, tf1/queue_runner.h). */
#define HS_INIT_OP                 "init_op"
#define HS_READY_OP                "ready_op"
#define HS_READY_FOR_LOCAL_INIT_OP "ready_for_local_init_op"
#define HS_LOCAL_INIT_OP           "local_init_op"
#define HS_SUMMARY_OP              "summary_op"
#define HS_SUMMARIES               "summaries" /* ops that the default of HS_SUMMARY_OP merges */
#define HS_SAVERS                  "savers"
#define HS_QUEUE_RUNNERS           "queue_runners"

/* Somebody who copies a session's variables beside its runs. before_write is called before an op is executed that may
 * change the variable of that index, or it is written otherwise, by the thread that does; it returns when that may happen.
 * False: nobody is copying any more, and it must not be called again. HS_ANY_VARIABLE: any of them may change. `released`
 * is called instead where a session lets go of its guard by itself. Frozen. */
#define HS_ANY_VARIABLE SIZE_MAX
typedef struct hs_write_guard {
    bool (*before_write)(void *user, size_t index); /* NULL: nobody copies */
    void (*released)(void *user);
    void *user;
} hs_write_guard;

/* Functions marked (required) must be there; the others may be NULL. Those of the first group take the backend's self,
 * those of the second a session that `open` made. Strings and structs that are returned by pointer belong to the backend
 * and live as long as it, or as long as said. */
typedef struct hs_backend_ops {
    size_t size;
    const char *name;
    uint64_t flags;

    /* The environment of everything that works on this backend. NULL function or result: hs_env_default(). */
    const hs_env *(*env)(void *self);
    /* The first error of building the graph, or HS_OK: asked before anything else is done with it. */
    hs_code (*status)(void *self, hs_error *err);
    /* (required) "loss" or "loss:0". A bare name means output 0 of an op with one output and the op itself otherwise.
     * HS_NOT_FOUND names the name. */
    hs_code (*find)(void *self, const char *name, hs_node *node, hs_error *err);
    /* While finalized, adding a node fails with HS_FAILED_PRECONDITION. Called with false when the session that finalized
     * it is closed. */
    hs_code (*finalize)(void *self, bool finalized, hs_error *err);
    bool (*finalized)(void *self);
    /* The name of the global step's variable; NULL: the graph has none. */
    const char *(*global_step_name)(void *self);
    /* The items of a collection, in the order in which they were added; false past the last. */
    bool (*collection_item)(void *self, const char *key, size_t index, const void **item);
    /* Adds an item, also to a finalized graph. A name is copied; a saver or a queue runner must live as long as the graph,
     * and `release`, if given, frees it when that goes. */
    hs_code (*add_to_collection)(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err);
    /* Makes the default op of one of the collections above and returns its name; NULL where there is none. */
    hs_code (*default_op)(void *self, const char *key, const char **name, hs_error *err);
    /* Variables in the order of their making; false past the last. */
    bool (*variable)(void *self, size_t index, hs_variable *out);
    /* State of the backend's own (hs_graph_state); NULL past the last. */
    const hs_state_provider *(*state)(void *self, size_t index);
    /* The graph as a serialized TensorFlow GraphDef, until the next call. */
    hs_code (*graph_def)(void *self, hs_bytes *out, hs_error *err);

    /* (required) A session. `target` ("" is in this process) and `config` (a serialized ConfigProto, maybe empty) are
     * passed through from the session's options. */
    hs_code (*open)(void *self, const char *target, hs_bytes config, void **session, hs_error *err);
    /* (required) Runs what was asked for, once, and nothing else. On failure no value is read. */
    hs_code (*run)(void *session, hs_backend_call *call, hs_error *err);
    /* (required) Frees the session, also when it fails. */
    hs_code (*close)(void *session, hs_error *err);
    /* A variable's value by its index: a view, until the next call with this session (HS_BACKEND_KEEPS_VIEWS).
     * HS_FAILED_PRECONDITION if it has not been initialized. With HS_VARIABLE_MOVES, value->data is NULL as long as the
     * variable has no memory: checkpoints then record that, and not a value. */
    hs_code (*read_variable)(void *session, size_t index, hs_tensor *value, hs_error *err);
    /* Sets a variable to a host tensor of its dtype and shape (checked by the caller). With HS_VARIABLE_MOVES, a variable
     * without memory gets some first. value->data NULL restores a variable that had no memory when it was saved: the
     * backend sets it to its first value, or does nothing if it still has no memory. */
    hs_code (*write_variable)(void *session, size_t index, const hs_tensor *value, hs_error *err);
    hs_code (*global_step)(void *session, int64_t *step, hs_error *err);
    /* Sets the session's guard. From then on, views of variables in host memory that read_variable gave stay good until
     * before_write was called for them. One that is replaced, or left when the session is closed, is called for
     * HS_ANY_VARIABLE first, and then released. Absent: who saves copies all at once. */
    void (*guard)(void *session, hs_write_guard guard);
    /* Lends the host memory that a variable is in, also before it has been initialized, to be filled with a value; then
     * write_variable is called with that very memory. Until then the variable must not be used. Any failure: it is set by
     * a copy. With HS_VARIABLE_MOVES, a variable without memory gets some, of zeros; any failure but HS_UNIMPLEMENTED then
     * makes the restore fail, before anything is changed. */
    hs_code (*lend_variable)(void *session, size_t index, hs_tensor *memory, hs_error *err);
    /* Another handle on a session, for `run` and `close` alone: with it one more thread can run ops while others do. Such
     * ops read and write no variables (else HS_FAILED_PRECONDITION); what they give is the handle's own. Called by the
     * session's thread; the handle is used by any one thread at a time, and may be closed after the session, and after the
     * backend is gone. Absent: the backend has no queues to fill. */
    hs_code (*fork)(void *session, void **forked, hs_error *err);
    /* Adds `by` to the global step: 0 for hs_step_begin and before the session is closed, 1 for hs_step_end.
     * HS_FAILED_PRECONDITION: the program itself changed the step since the last call. Absent: only ops advance it. */
    hs_code (*advance_step)(void *session, int64_t by, hs_error *err);

    /* Of the first group. Is the variable of that index a part of a larger one? Absent: none is. */
    bool (*variable_slice)(void *self, size_t index, hs_variable_slice *out);
    /* What a MetaGraphDef of the graph has beside its graph_def and saver_def, serialized: collections, say. Until the next
     * call. Absent: nothing is known of it. */
    hs_code (*meta_graph)(void *self, hs_bytes *out, hs_error *err);

    /* Of the second group. Lends the host memory of a value (hs_graph_value), to be read and written between runs until the
     * session is closed. HS_INVALID_ARGUMENT: `node` is not a value in host memory. Absent: the backend has no values. */
    hs_code (*lend_value)(void *session, hs_node node, hs_tensor *memory, hs_error *err);
} hs_backend_ops;

/* A backend: what it can do and what it is. Travels by value and owns nothing. Frozen. */
typedef struct hs_backend {
    const hs_backend_ops *ops;
    void *self;
} hs_backend;

/* The same for callers: with the defaults for what a backend has left out. */
HS_API const hs_env *hs_backend_env(hs_backend backend);
HS_API hs_code hs_backend_find(hs_backend backend, const char *name, hs_node *node, hs_error *err);
HS_API bool hs_backend_finalized(hs_backend backend);
HS_API const char *hs_backend_global_step_name(hs_backend backend);
/* Checks that the backend has a tensor `name`. A hook calls this in begin, so that a wrong name is reported before the
 * first run. HS_NOT_FOUND if it has nothing of that name, HS_INVALID_ARGUMENT if `name` is an op without outputs, or one
 * with several outputs. */
HS_API hs_code hs_backend_check_tensor(hs_backend backend, const char *name, hs_error *err);
/* Checks that the graph has a global step. HS_FAILED_PRECONDITION if it has none. */
HS_API hs_code hs_backend_check_global_step(hs_backend backend, hs_error *err);
/* False past the last. `item` may be NULL. */
HS_API bool hs_backend_collection_item(hs_backend backend, const char *key, size_t index, const void **item);
HS_API bool hs_backend_variable(hs_backend backend, size_t index, hs_variable *out);
/* HS_UNIMPLEMENTED, and *out empty, where the backend has no graph to show. */
HS_API hs_code hs_backend_graph_def(hs_backend backend, hs_bytes *out, hs_error *err);
/* HS_UNIMPLEMENTED, and *out empty, where the backend knows of nothing beside its graph. */
HS_API hs_code hs_backend_meta_graph(hs_backend backend, hs_bytes *out, hs_error *err);

HS_END_DECLS

#endif
