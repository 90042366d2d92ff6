/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_GRAPH_H
#define HS_BACKENDS_GRAPH_GRAPH_H

#include <hooksess/graph.h>

#include "backends/variable.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/tensor.h"

#include <stdatomic.h>

/* The embedded graph: its nodes, and the order of execution that hs__graph_resolve computes from them.
 *
 * Each file uses only files above it in this list:
 *   op.c               functions that an op's function calls
 *   queue_state.c      a session's queue: elements, enqueue, dequeue, close, the position of the producer
 *   graph.c            creates, frees and searches a graph; adds nodes, state and items of collections
 *   graph_queue.c      adds queues
 *   resolve.c          order of execution, slots
 *   init.c             ops that initialize variables or merge summaries; prepares a graph for a session
 *   graph_def.c        the graph as a GraphDef
 *   metadata.c         RunMetadata of a run
 *   value_age.c        which fetches read a value, and which step has computed it
 *   session_memory.c   makes and frees sessions, and forks: handles for threads that fill queues
 *   graph_backend.c    opens, runs and closes sessions; the functions of the backend */

typedef struct hs__graph_node hs__graph_node;

typedef enum { HS__VARIABLE, HS__VALUE, HS__PLACEHOLDER, HS__OP } hs__node_kind;

/* An input of an op. */
typedef struct {
    hs__graph_node *node;
    size_t output;
} hs__edge;

struct hs__graph_node {
    const char *name; /* owned by hs_graph.names */
    hs__node_kind kind;
    size_t index; /* in hs_graph.nodes */
    size_t slot;  /* index of its first tensor in a session: one for each output of an op, one for another node */

    /* a variable, a value, a placeholder */
    hs_dtype dtype;
    hs_shape shape;
    void *data; /* memory of the program, or NULL */
    const hs_memory *memory;
    hs_variable_def def; /* of a variable. def.name is the node's name */
    size_t variable;     /* index among the variables */
    bool moves;          /* a variable whose memory may move, or an op that reads or writes one */

    void *self;                    /* of `run` */
    void (*free_self)(void *self); /* NULL: the graph does not own self */

    /* an op */
    char *type; /* shown by graph viewers. NULL: none */
    hs_op_fn run;
    bool advances_step, collective;
    uint8_t marks;                   /* during hs__graph_collective_op and hs__graph_reads */
    bool lists_inputs, lists_writes; /* hs_op_def.inputs, hs_op_def.writes was not NULL */
    hs_output_def *outputs;
    size_t n_outputs;
    const char *const *input_names, *const *control_names, *const *write_names;
    hs__edge *inputs;
    hs__graph_node **controls, **writes;
    size_t n_inputs, n_controls, n_writes;
    size_t rank;        /* index in hs_graph.order */
    size_t n_unordered; /* during ordering: dependencies that have no rank yet */
    bool sets_views;    /* has outputs whose memory its function sets */
    bool reads_views;   /* has inputs that are such outputs */
    bool is_dequeue;    /* its outputs are the memory of the dequeued element */
    bool builtin;       /* one of the ops below: uses all variables */
    bool is_summary;    /* added by hs_graph_add_summary, or merges summaries */
};

/* The ops that every graph has (init.c). */
enum {
    HS__BUILTIN_INIT,
    HS__BUILTIN_LOCAL_INIT,
    HS__BUILTIN_READY,
    HS__BUILTIN_READY_FOR_LOCAL,
    HS__BUILTINS,
};

typedef struct {
    hs_state_provider provider; /* name and identity are copies */
    void *owned;                /* provider.self if the graph owns it, or NULL */
    const void *bytes;          /* the program's memory, of hs_graph_bytes; NULL: another provider */
} hs__graph_state;

/* An item of a collection. */
typedef struct {
    char *key;
    const void *item;
    void (*release)(void *item);
    bool is_copy; /* the item is a name that the graph owns */
} hs__collected;

/* Memory from hs_graph_memory. */
typedef struct hs__graph_memory {
    struct hs__graph_memory *next;
    char *name;
    void *data;
    size_t bytes;
} hs__graph_memory;

/* A queue of the graph, a session's queue, and an element in it (queue.h). */
typedef struct hs__queue_def hs__queue_def;
struct hs__queue;
struct hs__element;

struct hs_graph {
    hs_env env;
    hs_error error; /* the first error of building the graph */
    hs__map names;
    hs__graph_node **nodes; /* in the order of their addition */
    size_t n_nodes, nodes_capacity;
    hs__collected *collected;
    size_t n_collected, collected_capacity;
    hs__graph_state *states;
    size_t n_states, states_capacity;
    hs__graph_memory *memory;
    hs__graph_node *global_step;
    hs__graph_node *merge_summaries;    /* NULL: not added yet */
    const char *builtins[HS__BUILTINS]; /* names. NULL: not added yet */
    bool program_memory;                /* a variable is in the program's memory: at most one open session */
    bool finalized;
    bool has_position; /* a queue has a position, so a single producer: at most one open session */
    size_t live_sessions;

    /* set by hs__graph_resolve, until a node is added */
    bool resolved;
    hs__graph_node **order; /* ops by rank */
    size_t n_ops, n_slots;
    hs__graph_node **variables;
    size_t n_variables;
    bool shares_memory; /* two nodes overlap in the program's memory */
    hs__buffer graph_def;

    hs__queue_def **queues;
    size_t n_queues, queues_capacity;
    atomic_size_t references; /* one of the program, and one of each session and fork. The last one frees the graph */
};

struct hs__graph_session;

/* The op during a call of its function. */
struct hs_op {
    struct hs__graph_session *session;
    const hs__graph_node *node;
};

/* graph.c */
/* Drops a reference. The last one frees the graph. */
void hs__graph_release(hs_graph *graph);
void hs__queue_def_free(hs__queue_def *def);
/* Returns the node of this name, or NULL. */
hs__graph_node *hs__graph_node_of(const hs_graph *graph, const char *name);
/* Returns the value (hs_graph_value) of this name, with or without ":0". NULL: no value has it, or an argument is NULL. */
const hs__graph_node *hs__graph_value(const hs_graph *graph, const char *name);
/* Returns an item of a collection, or NULL after the last. */
const void *hs__graph_collected(const hs_graph *graph, const char *key, size_t index);
/* Returns true if the graph has no session and no fork, so that slots may change. */
bool hs__graph_may_change(const hs_graph *graph);
/* Drops the results of hs__graph_resolve. */
void hs__graph_unresolve(hs_graph *graph);

/* Checks that nodes can be added: HS_INVALID_ARGUMENT if `graph` is NULL; logs the error and returns HS_FAILED_PRECONDITION
 * if the graph is finalized or in use. `what` and `name` are for the message. */
hs_code hs__graph_check_open(hs_graph *graph, const char *what, const char *name);
/* Checks that a new node can have the name. */
hs_code hs__graph_check_name(const hs_graph *graph, const char *what, const char *name, hs_error *err);
/* Copies the error to graph->error, unless the graph has one already. Returns its code. */
hs_code hs__graph_record_error(hs_graph *graph, const hs_error *error);
hs_code hs__graph_add_op(hs_graph *graph, const hs_op_def *def, hs_error *err);
hs_code hs__graph_add_state(hs_graph *graph, const hs_state_provider *provider, hs_error *err);
/* Adds an op, also to a finalized graph. If the name is in use, appends "_1", "_2" ... */
hs_code hs__graph_add_unique(hs_graph *graph, const hs_op_def *def, hs__graph_node **added, hs_error *err);
/* Adds a global step to a graph whose only ops are summaries: its program computes the steps itself. Does nothing if the
 * graph has one, is finalized or has an error. Records errors. */
void hs__graph_ensure_step(hs_graph *graph);
/* Adds an item to a collection. Copies it if it is a name. */
hs_code hs__graph_collect(hs_graph *graph, const char *key, const void *item, bool is_name, void (*release)(void *item),
                          hs_error *err);

/* init.c */
/* Sets *name to the op that merges all summaries, which it adds at the first call. NULL: the graph has no summaries. */
hs_code hs__graph_default_merge(hs_graph *graph, const char **name, hs_error *err);

/* resolve.c. Finds nodes by their names, orders the ops and numbers the slots. */
hs_code hs__graph_resolve(hs_graph *graph, hs_error *err);
/* As hs_backend_ops.collective_op, of a resolved graph. */
const char *hs__graph_collective_op(void *graph, hs_node node, const hs_node *others, size_t n);

/* init.c */
/* Adds the ops that every graph has, at the first call. */
hs_code hs__graph_ensure_builtins(hs_graph *graph, hs_error *err);
/* Updates the op that merges summaries, and resolves the graph. Does nothing if the graph is resolved. */
hs_code hs__graph_prepare(hs_graph *graph, hs_error *err);

/* graph_def.c. Sets *out to the GraphDef, which is valid until a node is added. */
hs_code hs__graph_make_def(hs_graph *graph, hs_bytes *out, hs_error *err);

/* The last run that has executed an op. */
typedef struct {
    uint64_t run; /* its number */
    int64_t step; /* the global step after it, and after the update of its hooks; -1: none since the last restore */
} hs__executed;

/* A value that the program does not compute in its own steps (hs_session_wants). */
typedef struct {
    int64_t step; /* the global step after the last of these steps; -1: none */
    int64_t age;  /* the step that has computed the value before them; -1: unknown */
} hs__declined;

/* An open session, or a fork of one. Arrays are indexed by slot, unless stated. */
typedef struct hs__graph_session {
    hs_graph *graph;
    hs_tensor *tensors;
    void **owned;                /* memory that the session allocated, or NULL */
    bool *initialized;           /* false: a variable without a value */
    const hs_tensor **fed;       /* values that are fed */
    uint64_t *fed_in;            /* number of the run in which they are */
    uint64_t *needed;            /* bits by rank: ops that this run executes */
    uint64_t needed_by;          /* hs_backend_call.plan of the calls that need these; 0: of the last one only */
    int64_t needed_advances;     /* those that advance the global step */
    hs__graph_node **stack;      /* needed ops whose inputs are not visited yet */
    uint64_t run;                /* number of this run */
    uint64_t main_run;           /* the last one at level 0: later ones are of its hooks */
    int64_t step;                /* global step before the run. Without one: 0, in a fork -1 */
    int64_t advanced;            /* executed ops that advance the global step */
    int64_t step_after;          /* the global step after the run, if only such ops change it */
    hs__executed *executed;      /* by rank */
    const hs_tensor *step_at;    /* the global step. NULL: not initialized at the last call of find_step */
    bool tracks_step;            /* hs__graph_advance_step was called: the program must not change the step */
    bool made_own_step;          /* it has advanced the step since the last restore, so that values are of an own step */
    uint64_t expected_step;      /* with tracks_step: value of the step, unless the program changed it */
    const hs_backend_call *call; /* during a run */
    bool check_inputs;           /* a needed variable was not initialized when the run began */
    bool is_fork;                /* a handle of a thread that fills a queue: cannot access variables */
    hs_write_guard guard;
    int64_t *trace; /* by rank: begin and end of each op, in a traced run */
    hs__buffer metadata;
    struct hs__queue **queues; /* by queue; shared with forks */
    struct hs__element **held; /* by queue: the element that was dequeued last, or NULL */
    hs__declined *declined;    /* values, since the last restore */
} hs__graph_session;

/* Returns the value of a slot in this run. */
static inline const hs_tensor *hs__graph_tensor_at(const hs__graph_session *session, size_t slot)
{
    return session->fed_in[slot] == session->run ? session->fed[slot] : &session->tensors[slot];
}

/* op.c. Calls hs_backend_call.waits of the run, if set. */
void hs__op_report_wait(const hs_op *op, bool waiting);

/* queue_state.c */
/* Returns the elements that this run dequeued to the front of their queues. For a run that ends with HS_STOP. */
void hs__graph_requeue(hs__graph_session *session);
/* Records the error of a failed run in the queues that the run should have filled. Ignores the end of the input, HS_STOP
 * and HS_CANCELLED. */
void hs__graph_fail_queues(hs__graph_session *session, const hs_backend_call *call, hs_code code, const hs_error *err);

/* metadata.c. Sets call->metadata to the run's RunMetadata. */
hs_code hs__graph_metadata(hs__graph_session *session, hs_backend_call *call, hs_error *err);

/* graph_backend.c: the open session of a raw session. NULL: it is not open, or of another backend. */
hs__graph_session *hs__graph_session_of(hs_backend backend, void *session);

/* value_age.c */
/* Returns true if a run of the fetches may read the value: if it fetches the value, or executes an op that has it as an
 * input, or an op that lists no inputs. */
bool hs__graph_reads(hs_graph *graph, const hs__graph_node *value, const hs_node *fetches, size_t n);
/* Records that the own step whose end makes the global step `step` does not compute the value, which keeps `age`. */
void hs__graph_decline(hs__graph_session *session, const hs__graph_node *value, int64_t step, int64_t age);
/* Returns the step that has computed a value. -1: unknown.
 *
 * own_steps  the program computes the steps, not ops
 * computes   a run since the last restore has computed the values that no op lists */
int64_t hs__graph_computed_at(hs__graph_session *session, const hs__graph_node *value, bool own_steps, bool computes);
/* For an op during a run: returns true if the value is of an earlier step, is not fed, and no op of this run writes it. */
bool hs__graph_is_outdated(const hs_op *op, const hs__graph_node *value);
/* Forgets which steps have computed the values: the session was opened or restored. */
void hs__graph_forget_ages(hs__graph_session *session);

/* session_memory.c */
/* Makes a session, or a fork if `parent` is not NULL. */
hs_code hs__graph_session_make(hs_graph *graph, const hs__graph_session *parent, hs__graph_session **session,
                               hs_error *err);
void hs__graph_session_free(hs__graph_session *session);
hs_code hs__graph_session_fork(void *session, void **forked, hs_error *err);
/* Checks that a fork can execute the needed ops, and allocates their outputs. HS_FAILED_PRECONDITION: one accesses a
 * variable. */
hs_code hs__graph_prepare_fork(hs__graph_session *session, const hs_backend_call *call, hs_error *err);

#endif
