/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_GRAPH_H
#define HS_BACKENDS_GRAPH_GRAPH_H

#include <hooksess/graph.h>

#include "backends/variable.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/tensor.h"

#include <stdatomic.h>

/* The embedded graph: nodes in the order of their definition, and what was made of them when the graph was resolved. */

typedef struct hs__graph_node hs__graph_node;

typedef enum { HS__VARIABLE, HS__VALUE, HS__PLACEHOLDER, HS__OP } hs__node_kind;

/* One of an op's inputs. */
typedef struct {
    hs__graph_node *node;
    size_t output;
} hs__edge;

struct hs__graph_node {
    const char *name; /* the graph's map owns it */
    hs__node_kind kind;
    size_t slot; /* its tensors in a session: one, or one an output */

    /* a variable, a value, a placeholder */
    hs_dtype dtype;
    hs_shape shape;
    void *data; /* the program's; NULL: the session's */
    const hs_memory *memory;
    hs_variable_def def; /* of a variable; its name is the node's */
    bool moves;          /* a variable whose memory may move; an op that reads or writes one */

    void *self;                    /* of run */
    void (*free_self)(void *self); /* NULL: it is the program's */

    /* an op */
    char *type; /* what viewers of the graph are told; NULL: nothing */
    hs_op_fn run;
    bool advances_step, lists_writes;
    hs_output_def *outputs;
    size_t n_outputs;
    const char *const *input_names, *const *control_names, *const *write_names;
    hs__edge *inputs;
    hs__graph_node **controls, **writes;
    size_t n_inputs, n_controls, n_writes;
    size_t rank;                  /* its place in the order of execution */
    size_t index;                 /* its place among the nodes */
    size_t variable;              /* its place among the variables, if it is one */
    size_t n_unordered;           /* while ops are put in order: for how many */
    bool sets_views, reads_views; /* outputs without memory of their own; inputs that are such */
    bool is_dequeue;              /* a dequeue: its outputs are the memory of what it took */
    bool builtin;                 /* one of those below: all variables are its business */
    bool is_summary;              /* made by hs_graph_add_summary, or merges summaries */
};

/* The ops that every graph has (init.c). */
enum {
    HS__BUILTIN_INIT,
    HS__BUILTIN_LOCAL_INIT,
    HS__BUILTIN_READY,
    HS__BUILTIN_READY_FOR_LOCAL,
    HS__BUILTINS,
};

/* A piece of state. */
typedef struct {
    hs_state_provider provider; /* its name and identity are copies */
    void *owned;                /* its self, if that is the graph's; NULL: the program's */
} hs__graph_state;

/* An item of a collection. */
typedef struct {
    char *key;
    const void *item;
    void (*release)(void *item);
    bool is_copy; /* a name of the graph's own, freed with it */
} hs__collected;

/* Memory that hooks have asked for. */
typedef struct hs__graph_memory {
    struct hs__graph_memory *next;
    char *name;
    void *data;
    size_t bytes;
} hs__graph_memory;

/* A queue of the graph's, what a session has of it, and what lies in it (queue.h). */
typedef struct hs__queue_def hs__queue_def;
struct hs__queue;
struct hs__element;

struct hs_graph {
    hs_env env;
    hs_error error; /* the first of building */
    hs__map names;
    hs__graph_node **nodes;
    size_t n_nodes, nodes_capacity;
    hs__collected *collected;
    size_t n_collected, collected_capacity;
    hs__graph_state *states;
    size_t n_states, states_capacity;
    hs__graph_memory *memory;
    hs__graph_node *global_step;
    hs__graph_node *merge_summaries;    /* NULL: not made yet */
    const char *builtins[HS__BUILTINS]; /* their names; NULL: not made yet */
    bool program_memory;                /* a variable is the program's memory: one live session */
    bool finalized;
    bool has_position; /* a queue has one, as there is one producer: one live session */
    size_t live_sessions;

    /* made by hs__graph_resolve, good until a node is added */
    bool resolved;
    hs__graph_node **order; /* ops by rank */
    size_t n_ops, n_slots;
    hs__graph_node **variables;
    size_t n_variables;
    bool shares_memory; /* some of the program's memory is known by two names */
    hs__buffer graph_def;

    hs__queue_def **queues;
    size_t n_queues, queues_capacity;
    atomic_size_t references; /* the program's, and one of each session and fork; forks may outlive the others */
};

struct hs__graph_session;

/* What an op's function sees. */
struct hs_op {
    struct hs__graph_session *session;
    const hs__graph_node *node;
};

/* graph.c. Lets go of the graph; with the last one it is freed. */
void hs__graph_release(hs_graph *graph);
void hs__graph_free_node(const hs_env *env, hs__graph_node *node);
void hs__graph_free_state(const hs_env *env, const hs__graph_state *state);

/* NULL: the graph has no node of this name. */
hs__graph_node *hs__graph_node_of(const hs_graph *graph, const char *name);
/* Returns an item of a collection, or NULL after the last. */
const void *hs__graph_collected(const hs_graph *graph, const char *key, size_t index);
/* Returns true if no session, fork or thread uses the graph, so that slots may change. */
bool hs__graph_may_change(const hs_graph *graph);
/* Drops what hs__graph_resolve made. */
void hs__graph_unresolve(hs_graph *graph);
void hs__queue_def_free(hs__queue_def *def);

/* build.c */
/* What the functions share that add to a graph: may it be added to, is the name one that it can have, keeping the first
 * error; and adding. */
hs_code hs__graph_check_open(hs_graph *graph, const char *what, const char *name);
hs_code hs__graph_check_name(const hs_graph *graph, const char *what, const char *name, hs_error *err);
hs_code hs__graph_record_error(hs_graph *graph, const hs_error *error);
hs_code hs__graph_add_op(hs_graph *graph, const hs_op_def *def, hs_error *err);
hs_code hs__graph_add_state(hs_graph *graph, const hs_state_provider *provider, hs_error *err);
/* Adds an op under a name that is free, its own or one that begins so, even to a finalized graph. */
hs_code hs__graph_add_unique(hs_graph *graph, const hs_op_def *def, hs__graph_node **added, hs_error *err);
/* The same for the library's own use. */
hs_code hs__graph_add_builtin(hs_graph *graph, const char *name, hs_op_fn run, const hs_output_def *outputs,
                              const char **given, hs_error *err);

/* A graph without ops of the program's own (summaries are not) is one of a program that computes its steps itself: makes
 * the global step for it, if it has none. An error is kept. */
void hs__graph_ensure_step(hs_graph *graph);

/* Adds an item to a collection; a name is copied. */
hs_code hs__graph_collect(hs_graph *graph, const char *key, const void *item, bool is_name, void (*release)(void *item),
                          hs_error *err);

/* resolve.c: finds nodes by their names, orders the ops, numbers the slots. */
hs_code hs__graph_resolve(hs_graph *graph, hs_error *err);

/* init.c: the ops that initialize, and those that report what is not initialized. Makes them once. */
hs_code hs__graph_ensure_builtins(hs_graph *graph, hs_error *err);
/* Updates the op that merges summaries and resolves the graph, if nodes were added since the last call. */
hs_code hs__graph_prepare(hs_graph *graph, hs_error *err);

/* merge_summaries.c. The name of the op that merges all summaries; NULL where there are none. Makes it once. */
hs_code hs__graph_default_merge(hs_graph *graph, const char **name, hs_error *err);
/* Sets the inputs of that op to all summaries, unless a session is open. */
hs_code hs__graph_update_merge(hs_graph *graph, hs_error *err);

/* graph_def.c */
hs_code hs__graph_make_def(hs_graph *graph, hs_bytes *out, hs_error *err);

typedef struct hs__graph_session {
    hs_graph *graph;
    hs_tensor *tensors;          /* by slot: where each value is */
    void **owned;                /* by slot: the session's memory, or NULL */
    bool *initialized;           /* by slot: of variables */
    const hs_tensor **fed;       /* by slot: what was fed */
    uint64_t *fed_in;            /* by slot: in which run */
    uint64_t *needed;            /* a bit an op, by rank */
    hs__graph_node **stack;      /* of ops whose inputs are to be looked at */
    uint64_t run;                /* the number of this run */
    int64_t step;                /* the global step before it */
    int64_t advanced;            /* how many ops that advance it have been executed in this run */
    const hs_tensor *step_at;    /* the global step; NULL: it was not initialized when it was last looked for */
    bool tracks_step;            /* advance_step was called: from then on the program does not change the step */
    uint64_t expected_step;      /* the step, unless the program has changed it */
    const hs_backend_call *call; /* what it was asked for; NULL: none is being made */
    bool check_inputs;           /* it needs a variable that was not initialized when it began */
    bool is_fork;                /* for a thread beside the session's: it has no variables */
    hs_write_guard guard;        /* of somebody who copies the variables */
    int64_t *trace;              /* two times an op, while a run is traced */
    hs__buffer metadata;
    struct hs__queue **queues; /* of all queues of the graph; shared with forks */
    struct hs__element **held; /* what was dequeued last of each, or NULL */
} hs__graph_session;

/* The value of a slot in this run. */
static inline const hs_tensor *hs__graph_tensor_at(const hs__graph_session *session, size_t slot)
{
    return session->fed_in[slot] == session->run ? session->fed[slot] : &session->tensors[slot];
}

/* op.c. Tells the session that its run begins or stops waiting for data. */
void hs__op_report_wait(const hs_op *op, bool waiting);

extern const hs_backend_ops hs__graph_backend_ops;

/* session_memory.c */
/* A session, or a fork of `parent`. */
hs_code hs__graph_session_make(hs_graph *graph, const hs__graph_session *parent, hs__graph_session **session,
                               hs_error *err);
void hs__graph_session_free(hs__graph_session *session);
/* Makes the memory of an op's outputs where it has not been made yet. */
hs_code hs__graph_own_outputs(hs__graph_session *session, const hs__graph_node *op, hs_error *err);

/* session.c */
hs_code hs__graph_session_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err);
hs_code hs__graph_session_close(void *session, hs_error *err);
hs_code hs__graph_session_run(void *session, hs_backend_call *call, hs_error *err);
hs_code hs__graph_read_variable(void *session, size_t index, hs_tensor *value, hs_error *err);
hs_code hs__graph_write_variable(void *session, size_t index, const hs_tensor *value, hs_error *err);
hs_code hs__graph_read_step(void *session, int64_t *step, hs_error *err);
hs_code hs__graph_advance_step(void *session, int64_t by, hs_error *err);
void hs__graph_guard(void *session, hs_write_guard guard);
hs_code hs__graph_lend_variable(void *session, size_t index, hs_tensor *memory, hs_error *err);
hs_code hs__graph_lend_value(void *session, hs_node node, hs_tensor *memory, hs_error *err);

/* fork.c */
hs_code hs__graph_session_fork(void *session, void **is_fork, hs_error *err);
/* Once it is known which ops are needed: may a fork execute them? Makes the memory for what they give. */
hs_code hs__graph_prepare_fork(hs__graph_session *session, const hs_backend_call *call, hs_error *err);

/* queue_state.c: a run failed. The queues that it was to fill remember why. */
/* The run ends before it is made (HS_STOP): what it has taken of queues is there for the next one. */
void hs__graph_requeue(hs__graph_session *session);
void hs__graph_fail_queues(hs__graph_session *session, const hs_backend_call *call, hs_code code, const hs_error *err);

/* metadata.c: the run's RunMetadata, from session->trace and the graph. */
hs_code hs__graph_metadata(hs__graph_session *session, hs_backend_call *call, hs_error *err);

#endif
