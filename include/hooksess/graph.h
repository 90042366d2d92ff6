/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GRAPH_H
#define HOOKSESS_GRAPH_H

#include <hooksess/backend.h>

/* The embedded backend: the program's own functions are ops, the program's own memory is variables.
 *
 * A run executes each op that was asked for, and those it depends on, once: in dependency order, and otherwise in the order
 * of definition. An op depends on the ops whose outputs are its inputs, and on its control inputs; reading a variable or a
 * value does not make it depend on those that write it, so name them as control inputs where it matters. Nothing that
 * nobody fetched is executed. Variables and values that are fetched beside ops that write them are read after all ops of
 * the run.
 *
 * Names consist of letters, digits and _ . / -, begin with a letter, a digit, _ or ., and are unique; "NAME:0" is an
 * op's output 0. They are copied. Names that an op refers to may be defined later, until the graph is finalized.
 *
 * The building functions return a code, and the graph keeps its first error: opening a session reports it, so a program
 * need not check each call. Adding to a finalized graph is HS_FAILED_PRECONDITION and leaves the graph as it is.
 *
 * TensorBoard's Graphs tab shows it (hs_backend_graph_def): variables as VariableV2, values as Value, queues and groups
 * (NoOp) as TensorFlow's, ops with the type that they were given; a / in a name makes a scope. What an op writes, the
 * global step among it, is drawn as an input, as TensorFlow's ops take the variables that they change. A traced run
 * (hs_profiler) adds the time of each op, and the memory of what it gave.
 *
 * Threads: one at a time per object. Threads that fill queues of the graph, through forks of a session
 * (hs_backend_ops.fork), run ops beside it. They share no outputs, and touch no variables: an op that advances the step, or
 * has a variable among its inputs or writes, is HS_FAILED_PRECONDITION there. Values, and the program's memory that ops use
 * without saying so, are the program's to guard. */

HS_BEGIN_DECLS

typedef struct hs_graph hs_graph;
typedef struct hs_op hs_op;

/* An empty graph, the caller's to free. `env` NULL: the system's own; it is copied. NULL if there is no memory. */
HS_API hs_graph *hs_graph_new(const hs_env *env);
/* After the last session on it was closed. NULL is allowed. A thread that fills a queue may end later: until then the graph
 * cannot be added to, and what the thread needs of it is kept, also when the graph is freed. The environment, and what the
 * producer uses, must stay as long. */
HS_API void hs_graph_free(hs_graph *graph);

/* The backend to open a session on. Owns nothing. Of a NULL graph: a backend that no session opens on. */
HS_API hs_backend hs_graph_backend(hs_graph *graph);
/* The graph of such a backend; NULL of any other: for hooks that add nodes. */
HS_API hs_graph *hs_graph_of(hs_backend backend);
/* The first building error, copied to `out`; its code. HS_OK: none. */
HS_API hs_code hs_graph_error(const hs_graph *graph, hs_error *out);
/* Is there a node of that name? */
HS_API bool hs_graph_has(const hs_graph *graph, const char *name);

/* clang-format off */
/* A variable: saved in checkpoints, restored from them.
 *
 *   field           where the variable is
 *   data            in the program's memory, which stays until the session is closed. The program sets the first value
 *                   before opening, or by `initialize`
 *   HS_DATA_AT(&p)  in the program's memory that p points to. p is read at each save, restore and fetch, and before each
 *                   op that reads or writes the variable. So the memory may move (realloc, a swap of two buffers), and p
 *                   may be NULL until a step allocates the memory
 *   locate          in the program's memory that this function finds: the general case of HS_DATA_AT
 *   none of them    in memory of each session. The init op sets it to `initial` (copied from there at that moment), by
 *                   `initialize`, or to zero. Until then, or until it is restored, reading it is HS_FAILED_PRECONDITION
 *
 * A graph with a variable in the program's memory has one live session at a time.
 *
 *   while p is NULL  what happens
 *   save             the checkpoint records that there is no memory. The log says so, once a session
 *   restore          p gets memory if the checkpoint has a value. The program frees it: with free(), or as the device needs
 *                    it that allocated it (hs_memory.allocate). So test p before you allocate
 *   fetch            HS_FAILED_PRECONDITION, as for an op that has the variable among its inputs
 *   export           hs_safetensors_save leaves the variable out
 *
 * If a checkpoint without memory is restored and p is not NULL by then, as in a rollback, the variable gets its first
 * value: `initial`, `initialize`, or zeros, which a program expects that uses calloc. A variable that the checkpoint lacks
 * for another reason (its name has changed) stays HS_NOT_FOUND. A save that overlaps the runs (hs_save_options.overlap)
 * copies memory that may move when the save is asked for. */
/* clang-format on */
typedef struct hs_variable_def {
    size_t size;
    const char *name; /* (required) */
    hs_dtype dtype;   /* (required) not HS_STRING */
    int32_t reserved_dtype;
    hs_shape shape;
    void *data;
    void *data_at;        /* HS_DATA_AT: address of the program's pointer to the memory; it must outlive the session */
    size_t element_bytes; /* HS_DATA_AT: size of what the pointer points to; must be the dtype's. 0: not compared */
    /* Sets *data to where the memory is, NULL if there is none. With `allocate`, there must be `bytes` afterwards, or it
     * fails: a value is about to be restored. */
    hs_code (*locate)(void *user, size_t bytes, bool allocate, void **data, hs_error *err);
    const void *initial; /* bytes of the whole variable, host memory */
    /* Sets the first value in `value`, a view of the variable's memory. Run by the init op; not when it is restored. */
    hs_code (*initialize)(void *user, const hs_tensor *value, hs_error *err);
    void *user;              /* of both functions */
    const hs_memory *memory; /* of the program's memory, if that is not the host's; must outlive the graph */
    uint64_t flags;          /* HS_VARIABLE_LOCAL: not saved, set by the local init op */
    bool nonfinite;          /* it is saved also with NaN or infinity in it (hs_nonfinite_policy): float best = INFINITY */
    unsigned char reserved[7];
} hs_variable_def;
#define HS_VARIABLE_DEF(...) HS_OPTIONS(hs_variable_def, __VA_ARGS__)

/* Two fields of hs_variable_def: the address of the program's pointer, and the size of what it points to. It does not
 * compile for a pointer without its `&`, or for an array. For a `void *` set data_at alone. */
#define HS_DATA_AT(pointer) .data_at = HS__POINTER(pointer), .element_bytes = HS__POINTED_BYTES(pointer)

HS_API hs_code hs_graph_add_variable(hs_graph *graph, const hs_variable_def *def);
/* The usual case: the program's host memory. HS_INVALID_ARGUMENT if `data` is NULL: use hs_graph_variable_at for memory
 * that the first step allocates. */
HS_API hs_code hs_graph_variable(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data);
/* Memory that moves, or that a step allocates:
 *
 *     hs_graph_variable_at(g, "adam_m", HS_FLOAT, HS_SHAPE(model.n_parameters), &model.m_memory);
 *     hs_graph_variable_at(g, "w", HS_FLOAT, HS_SHAPE(model.n_parameters), &model.device_memory, .memory = &cuda);
 *
 * pointer  address of the program's pointer. It must outlive the session. Further fields of hs_variable_def may follow it
 *
 * HS_INVALID_ARGUMENT if elements of the pointer do not have the size of `dtype`. */
#define hs_graph_variable_at(graph, ...) HS__VARIABLE_AT(graph, __VA_ARGS__, )
#define HS__VARIABLE_AT(graph, name_, dtype_, shape_, pointer, ...)                                                        \
    hs_graph_add_variable(                                                                                                 \
        (graph), HS_VARIABLE_DEF(.name = (name_), .dtype = (dtype_), .shape = (shape_), HS_DATA_AT(pointer), __VA_ARGS__))

/* Memory that ops write and hooks read (a loss). It is not saved: a program that is started again when it is done already,
 * and makes no step, finds in it what it was initialized with. It must stay until the session is closed. It is the host's:
 * what lies on a device is a variable with HS_VARIABLE_LOCAL, its `data` and its `memory`. */
HS_API hs_code hs_graph_value(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data);

/* A tensor that is fed. Dimensions of -1 take any size, HS_ANY_SHAPE any rank. A run that needs it without a feed is
 * HS_INVALID_ARGUMENT. */
HS_API hs_code hs_graph_placeholder(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape);

/* The global step: a scalar int64 variable. `name` NULL is "global_step", `data` NULL lets the graph own it (zero at
 * first). Without this call an op that advances_step makes the default one, and a variable that is named "global_step", a
 * scalar of type int64, is it. A second one is HS_ALREADY_EXISTS. */
HS_API hs_code hs_graph_global_step(hs_graph *graph, const char *name, int64_t *data);

/* An op's function. Returns HS_OK, or a code with a message; HS_OUT_OF_RANGE is the end of the input. A failing op ends the
 * run: later ops are not executed. The global step has counted those before it all the same, as what they did is done: let
 * an op that reads the input come before the one that trains (control_inputs). */
typedef hs_code (*hs_op_fn)(void *user, hs_op *op, hs_error *err);

/* An output of an op. With `data`, the program's memory, at least as large as the shape says. Without, and with a shape
 * without -1, memory of the session's, for the function to write into (hs_op_output). Without, and with an open shape or
 * type HS_STRING, the function sets a view each time (hs_op_set_output). Frozen. */
typedef struct hs_output_def {
    hs_dtype dtype;
    int32_t reserved;
    hs_shape shape;
    void *data;
    const hs_memory *memory; /* of `data` */
} hs_output_def;

/* .outputs = HS_OUTPUTS({ .dtype = HS_FLOAT }, { .dtype = HS_INT64, .shape = HS_SHAPE(10) }); no shape is a scalar.
 * HS_ANY_SHAPE as the shape lets each run decide. */
#define HS_OUTPUTS(...) HS__LIST(hs_output_def, __VA_ARGS__, {.dtype = HS_DTYPE_NONE})

typedef struct hs_op_def {
    size_t size;
    const char *name; /* (required) */
    hs_op_fn run;     /* NULL: does nothing but bring its inputs and control inputs about (a group) */
    void *user;
    const char *const *inputs;         /* tensors that the function reads; ended by NULL */
    const char *const *control_inputs; /* ops that are executed before it */
    const hs_output_def *outputs;      /* ended by dtype HS_DTYPE_NONE */
    const char *const *writes; /* variables and values that the function changes; with a list, it changes no others */
    bool advances_step;        /* the global step is one more after a run in which this op was executed */
    unsigned char reserved[7];
    /* What kind of op it is, for those who look at the graph ("MatMul"); made of the letters that names are made of.
     * NULL: "Op", or "NoOp" without a function */
    const char *type;
} hs_op_def;
#define HS_OP_DEF(...) HS_OPTIONS(hs_op_def, __VA_ARGS__)

HS_API hs_code hs_graph_add_op(hs_graph *graph, const hs_op_def *def);
/* hs_graph_op(g, .name = "train", .run = train, .user = &m, .advances_step = true) */
#define hs_graph_op(graph, ...) hs_graph_add_op((graph), HS_OP_DEF(__VA_ARGS__))

/* Returns memory that belongs to the graph and is freed with it: for a hook that adds variables and ops in begin. The graph
 * may outlive the hook, so a variable's `data` and an op's `user` must not be the hook's.
 *
 * name   any text; copied. The same name returns the same memory
 * bytes  at least 1. The memory is aligned for any type, and zero at first
 *
 * Also in an op's function, and while a session is open. Returns NULL and sets `err`: HS_RESOURCE_EXHAUSTED, or
 * HS_INVALID_ARGUMENT if the graph or the name is NULL, or the name was used with another size. */
HS_API void *hs_graph_memory(hs_graph *graph, const char *name, size_t bytes, hs_error *err);

/* Inside an op's function. Views are good until it returns. NULL past the last. */
HS_API const hs_tensor *hs_op_input(const hs_op *op, size_t index);
/* The op's output, to be written into. */
HS_API hs_tensor *hs_op_output(hs_op *op, size_t index);
/* What the op writes, number `index` of its `writes`: to be written into. */
HS_API hs_tensor *hs_op_written(hs_op *op, size_t index);
/* Sets an output that has no memory of its own to a view, whose data must stay until the op's next execution.
 * HS_INVALID_ARGUMENT if dtype or shape contradict the definition. */
HS_API hs_code hs_op_set_output(hs_op *op, size_t index, const hs_tensor *value, hs_error *err);
/* Memory of the session's, zero at first, for what hs_op_set_output is to set for output `index`: at least so many bytes,
 * aligned for any type, kept from one execution to the next until more is asked for, and freed with the session. NULL:
 * there is none, or the op has no such output, or one with memory already (`err` says which). */
HS_API void *hs_op_memory(hs_op *op, size_t index, size_t bytes, hs_error *err);
/* Is the session to stop? For a function that takes long, or waits for something that may never come: it may end the run
 * with HS_STOP, which is no failure, as long as it has changed nothing that is saved. False in a thread that fills a queue:
 * its queue is cancelled (hs_coordinator, for what else it waits for). */
HS_API bool hs_op_stop_requested(const hs_op *op);
/* The global step before this run; 0 if the graph has none. -1 on failure: a thread that fills a queue has no step
 * (HS_FAILED_PRECONDITION). */
HS_API int64_t hs_op_global_step(const hs_op *op, hs_error *err);
HS_API const char *hs_op_name(const hs_op *op);

/* State that is saved with the variables: a position in the data, a random number generator. Name and identity are copied;
 * the name is made of the letters that all names here are made of. */
HS_API hs_code hs_graph_add_state(hs_graph *graph, const hs_state_provider *provider);
/* The usual case: of version 0, and belonging to nothing in particular. */
HS_API hs_code hs_graph_state(hs_graph *graph, const char *name, hs_save_state_fn save, hs_load_state_fn load, void *self);

/* State that is plain bytes of the program: a position, a random number generator.
 *
 *     hs_graph_bytes(g, "reader", &reader.position, sizeof reader.position);
 *
 * name   as in hs_graph_add_state
 * data   without pointers or files in it, for they mean nothing in another process; it must outlive the session
 * bytes  at least 1
 *
 * HS_INVALID_ARGUMENT if data is NULL or bytes is 0. A restore fails with HS_INVALID_ARGUMENT if the checkpoint has another
 * number of bytes. */
HS_API hs_code hs_graph_bytes(hs_graph *graph, const char *name, void *data, size_t bytes);

/* A queue: what threads of the session's produce ahead of the steps that consume it. TensorFlow: FIFOQueue, QueueRunner.
 *
 *     hs_graph_queue(g, .name = "input", .capacity = 4,
 *                    .components = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(128, 784)},
 *                                             {.dtype = HS_INT64, .shape = HS_SHAPE(128)}),
 *                    .produce = read_batch, .user = &reader);
 *     hs_graph_op(g, .name = "train", .run = train, .inputs = HS_NAMES("input/dequeue:0", "input/dequeue:1"));
 *
 * It adds the ops NAME/enqueue, NAME/dequeue (whose outputs are the components; executed once a run, as any op), NAME/close
 * (keeps what is pending), NAME/cancel (cancels it) and NAME/size (an int32), and a queue runner that runs NAME/enqueue in
 * `threads` threads while a session is open. Each session has a queue of its own.
 *
 * A dequeue waits as long as the queue is empty, whatever the run's timeout, and nobody asks the session to stop (HS_STOP).
 * When the producers have come to their end (HS_OUT_OF_RANGE, or what the runner's closed_codes are) and the queue is
 * drained it is HS_OUT_OF_RANGE, the end of the input; when one has failed, or an op on the way, and what was produced
 * before is consumed, it is that error, the first of them. What it gives stays until the next dequeue. A thread that fills
 * another queue from this one dequeues for itself.
 *
 * An enqueue waits for room before it produces. On a closed queue it is HS_CANCELLED, as it is when it has begun and the
 * queue is cancelled. Closing the session cancels its queues. */
typedef struct hs_queue_def {
    size_t size;
    const char *name; /* (required) */
    /* Elements that are ready or being made, not counting the one that is consumed. 0: 32. Memory is allocated for the
     * largest number that existed at the same time */
    int64_t capacity;
    /* (required) what an element consists of; without `data`. Those of an open shape take any size that fits, and each
     * element its own */
    const hs_output_def *components;
    /* Makes an element: an op's function, with the components for its outputs, which it writes into (hs_op_output), or sets
     * (hs_op_set_output) where they are open; they are copied then. Called by the threads of the runner, beside the steps;
     * several threads call it at once, one alone never does, even if it has outlived a session. It reads and writes no
     * variables. Or: */
    hs_op_fn produce;
    void *user;
    /* What an element is copied from: outputs of other ops, one a component; ended by NULL. Placeholders too, for
     * programs that run NAME/enqueue themselves: the runner then is left out with threads HS_NEVER. Ops on the way are
     * executed by the runner's threads */
    const char *const *inputs;
    int64_t threads; /* 0: 1; HS_NEVER: nobody runs NAME/enqueue but the program */
    /* The position of the producer, saved and restored with checkpoints under this name, so that a training that resumes
     * consumes what it would have consumed. `save` is called before the first element and after each, in the producer's
     * thread, and what it wrote rides with the element: the position that is saved is that of the element consumed last.
     * `load` is called while nothing is produced, and what was produced ahead is thrown away, as is an error of before. It
     * waits for an element that is being made. Needs `produce` and one thread. The provider is copied, with
     * its name and identity. NULL: nothing is saved.
     *
     * A graph with such a queue has one live session at a time. Where the producer had come to its end already, or the
     * queue was closed, a position can be restored in the session too, but its thread has ended: a dequeue is
     * HS_FAILED_PRECONDITION until somebody runs NAME/enqueue again. Where another queue is filled from this one, what lies
     * ready in that one counts as consumed. */
    const hs_state_provider *position;
} hs_queue_def;
#define HS_QUEUE_DEF(...) HS_OPTIONS(hs_queue_def, __VA_ARGS__)

HS_API hs_code hs_graph_add_queue(hs_graph *graph, const hs_queue_def *def);
#define hs_graph_queue(graph, ...) hs_graph_add_queue((graph), HS_QUEUE_DEF(__VA_ARGS__))

/* Names a node in one of the collections of backend.h: what a scaffold takes its defaults from. */
HS_API hs_code hs_graph_collect(hs_graph *graph, const char *key, const char *name);

HS_END_DECLS

#endif
