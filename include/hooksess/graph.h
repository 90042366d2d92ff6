/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GRAPH_H
#define HOOKSESS_GRAPH_H

#include <hooksess/backend.h>

/* The embedded backend: a graph whose ops are functions of the program, and whose variables are memory of the program.
 *
 *     hs_graph *graph = hs_graph_new(NULL);
 *     hs_graph_variable(graph, "weights", HS_FLOAT, HS_SHAPE(model.n_parameters), model.memory);
 *     hs_graph_bytes(graph, "reader", &reader.position, sizeof reader.position);
 *     hs_graph_op(graph, .name = "train", .run = train, .user = &model, .advances_step = true);
 *     hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.checkpoint_dir = "run"), &err);
 *     ...
 *     hs_graph_free(graph); // after hs_session_close
 *
 * A run executes the fetched ops and their dependencies, each once: dependencies first, otherwise in the order of
 * definition. An op depends on the ops in its inputs and control_inputs, but not on ops that write the variables and values
 * that it reads: name those as control_inputs. Fetched variables and values are read after all ops of the run.
 *
 * Names contain letters, digits and _ . / -, begin with none of / -, are unique, and are copied. "NAME:0" is output 0 of an
 * op. An op may refer to names that are defined later. In TensorBoard, a "/" makes a scope.
 *
 * The graph keeps the first error of building it, and opening a session reports it. While a session is open, or a thread of
 * one still runs, functions that build the graph return HS_FAILED_PRECONDITION.
 *
 * Threads: one thread at a time per object. Threads that fill queues run ops concurrently with the training thread. Such
 * ops have private outputs, and must not read or write variables or advance the step (HS_FAILED_PRECONDITION). The program
 * must synchronize values, and memory that ops access without declaring it. */

HS_BEGIN_DECLS

typedef struct hs_graph hs_graph;
typedef struct hs_op hs_op;

/* Creates an empty graph. `env` is copied; NULL: the system's. NULL if memory is exhausted. */
HS_API hs_graph *hs_graph_new(const hs_env *env);
/* Frees the graph. Close its sessions first. The environment and a producer's memory must live until threads that still
 * fill queues have ended. */
HS_API void hs_graph_free(hs_graph *graph);

/* Returns the graph's backend, valid as long as the graph. */
HS_API hs_backend hs_graph_backend(hs_graph *graph);
/* Returns the graph of such a backend, for hooks that add nodes. NULL: another kind of backend. */
HS_API hs_graph *hs_graph_of(hs_backend backend);
/* Copies the first error of building the graph to `out`, and returns its code or HS_OK. */
HS_API hs_code hs_graph_error(const hs_graph *graph, hs_error *out);

/* clang-format off */
/* A variable: memory that is saved in checkpoints and restored from them.
 *
 *   field           memory of the variable
 *   data            of the program, borrowed until the session is closed. Set the first value before opening, or by
 *                   `initialize`
 *   HS_DATA_AT(&p)  of the program, where p points to. p is read at each save, restore and fetch, and before each op that
 *                   reads or writes the variable. The memory may move, and p may be NULL until a step allocates it
 *   locate          of the program, as this function finds it
 *   none of these   of each session. The init op sets it to `initial`, by `initialize`, or to zeros. Before that, reading
 *                   it is HS_FAILED_PRECONDITION
 *
 * A graph with a variable in the program's memory has one open session at a time.
 *
 *   while p is NULL  effect
 *   save             the checkpoint records that the variable has no memory; logged once per session
 *   restore          if the checkpoint has a value, p gets memory. The program frees it with free(), or for a device as
 *                    fits hs_memory.allocate. Test p before you allocate
 *   fetch, input     HS_FAILED_PRECONDITION
 *   export           hs_safetensors_save omits the variable
 *
 * If a restored checkpoint records no memory and p is not NULL, the variable gets its first value: `initial`, `initialize`,
 * or zeros. A variable that the checkpoint lacks otherwise is HS_NOT_FOUND. */
/* clang-format on */
typedef struct hs_variable_def {
    size_t size;
    const char *name; /* (required) */
    hs_dtype dtype;   /* (required) not HS_STRING */
    int32_t reserved_dtype;
    hs_shape shape;
    void *data;
    void *data_at;        /* HS_DATA_AT: address of the program's pointer. Borrowed */
    size_t element_bytes; /* HS_DATA_AT: size of its elements, that of dtype. 0: not compared */
    /* Sets *data to the memory. NULL: no memory yet. With `allocate`, provide `bytes` for a value to restore, or fail */
    hs_code (*locate)(void *user, size_t bytes, bool allocate, void **data, hs_error *err);
    const void *initial; /* first value, in host memory. Borrowed. NULL: zeros */
    /* Writes the first value to `value`, a view of the variable, unless it is restored */
    hs_code (*initialize)(void *user, const hs_tensor *value, hs_error *err);
    void *user;              /* for both functions */
    const hs_memory *memory; /* with data, HS_DATA_AT or locate: its device. Borrowed. NULL: host memory */
    uint64_t flags;          /* 0, or HS_VARIABLE_LOCAL: not saved; the local init op sets it */
    bool nonfinite;          /* checkpoints may hold NaN and infinity in it */
    unsigned char reserved[7];
} hs_variable_def;
#define HS_VARIABLE_DEF(...) HS_OPTIONS(hs_variable_def, __VA_ARGS__)

/* Sets data_at to the address of the program's pointer, and element_bytes. A pointer without `&`, or an array, does not
 * compile. For a `void *` set data_at alone. */
#define HS_DATA_AT(pointer) .data_at = HS__POINTER(pointer), .element_bytes = HS__POINTED_BYTES(pointer)

HS_API hs_code hs_graph_add_variable(hs_graph *graph, const hs_variable_def *def);
/* Called by the macros hs_graph_variable, hs_graph_value and hs_graph_bytes with what the compiler knows.
 *
 * bytes    that are saved
 * element  the size of what the pointer points to; 0: `bytes` are those of a shape. If it is larger than `bytes`, and
 *          these are the size of a pointer: HS_INVALID_ARGUMENT
 * room     bytes from the pointer to the end of its object; 0 or SIZE_MAX: unknown. If it is less than `bytes`:
 *          HS_INVALID_ARGUMENT */
HS_API hs_code hs_graph_check_bytes(hs_graph *graph, const char *name, size_t bytes, size_t element, size_t room);
static inline __attribute__((always_inline)) bool hs__is_too_small(size_t room, size_t element, const hs_shape *shape)
{
    size_t bytes = element;
    bool unknown = shape->rank > 4 || room == 0;
    unknown |= shape->rank > 0 && __builtin_mul_overflow(bytes, shape->dims[0], &bytes);
    unknown |= shape->rank > 1 && __builtin_mul_overflow(bytes, shape->dims[1], &bytes);
    unknown |= shape->rank > 2 && __builtin_mul_overflow(bytes, shape->dims[2], &bytes);
    unknown |= shape->rank > 3 && __builtin_mul_overflow(bytes, shape->dims[3], &bytes);
    return !unknown && bytes > room;
}
static inline __attribute__((always_inline)) hs_code
hs__graph_add(hs_code (*add)(hs_graph *, const char *, hs_dtype, hs_shape, void *), size_t element, size_t room,
              hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data)
{
    const bool is_too_small = hs__is_too_small(room, element, &shape);
    if (__builtin_constant_p(is_too_small) && is_too_small)
        hs__array_is_smaller_than_its_shape();
    hs_code code = hs_graph_check_bytes(graph, name, hs_tensor_of(dtype, shape, HS__NULL).bytes, 0, room);
    return code ? code : add(graph, name, dtype, shape, data);
}

/* Adds a variable in host memory of the program.
 *
 * data  borrowed until the session is closed. A number of another C type than `dtype`, or the address of a pointer, does
 *       not compile. `void *`, bytes and structs are not checked
 *
 * HS_INVALID_ARGUMENT: `data` is NULL (see hs_graph_variable_at), or an array that is smaller than the shape. */
HS_API hs_code hs_graph_variable(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data);
#define hs_graph_variable(graph, name, dtype, shape, ...)                                                                  \
    hs__graph_add(hs_graph_variable, HS__NUMBER_BYTES(__VA_ARGS__), HS__ROOM(__VA_ARGS__), (graph), (name), (dtype),       \
                  (shape), HS__ELEMENTS(dtype, __VA_ARGS__))
/* Adds a variable whose memory moves or does not exist yet.
 *
 *     hs_graph_variable_at(g, "w", HS_FLOAT, HS_SHAPE(model.n_parameters), &model.device_memory, .memory = &cuda);
 *
 * pointer  address of the program's pointer. Borrowed as long as the session lives. More fields of hs_variable_def may
 *          follow
 *
 * HS_INVALID_ARGUMENT: the pointer's elements do not have the size of `dtype`. */
#define hs_graph_variable_at(graph, ...) HS__VARIABLE_AT(graph, __VA_ARGS__, )
#define HS__VARIABLE_AT(graph, name_, dtype_, shape_, pointer, ...)                                                        \
    hs_graph_add_variable(                                                                                                 \
        (graph), HS_VARIABLE_DEF(.name = (name_), .dtype = (dtype_), .shape = (shape_), HS_DATA_AT(pointer), __VA_ARGS__))

/* Adds a value: host memory that ops or steps write and hooks read (docs/guide/values.md). It is not saved. `data` is as in
 * hs_graph_variable. For device memory use a variable with HS_VARIABLE_LOCAL. */
HS_API hs_code hs_graph_value(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape, void *data);
#define hs_graph_value(graph, name, dtype, shape, ...)                                                                     \
    hs__graph_add(hs_graph_value, HS__NUMBER_BYTES(__VA_ARGS__), HS__ROOM(__VA_ARGS__), (graph), (name), (dtype), (shape), \
                  HS__ELEMENTS(dtype, __VA_ARGS__))

/* Adds a tensor that runs feed. Its shape may be open (tensor.h). HS_INVALID_ARGUMENT: a run needs it without a feed. */
HS_API hs_code hs_graph_placeholder(hs_graph *graph, const char *name, hs_dtype dtype, hs_shape shape);

/* Adds the global step: a scalar int64 variable. HS_ALREADY_EXISTS: the graph has one.
 *
 * name  NULL: "global_step"
 * data  NULL: memory of the session, zero at first
 *
 * Without this call, a scalar int64 variable named "global_step" is the global step, or the first op with advances_step
 * adds one. */
HS_API hs_code hs_graph_global_step(hs_graph *graph, const char *name, int64_t *data);

/* The function of an op. Returns HS_OK, HS_OUT_OF_RANGE at the end of the input, or a code with a message. A failure ends
 * the run. Ops before it have advanced the global step: execute the op that reads the input first (control_inputs). */
typedef hs_code (*hs_op_fn)(void *user, hs_op *op, hs_error *err);

/* An output of an op. Frozen.
 *
 *   data       shape                       memory
 *   set        all dimensions known        of the program
 *   NULL       all dimensions known        of the session; the function writes to it (hs_op_output)
 *   NULL       open, or type HS_STRING     none: each execution sets a view (hs_op_set_output) */
typedef struct hs_output_def {
    hs_dtype dtype;
    int32_t reserved;
    hs_shape shape;
    void *data;
    const hs_memory *memory; /* of `data`. NULL: host memory */
} hs_output_def;

/* .outputs = HS_OUTPUTS({ .dtype = HS_FLOAT }, { .dtype = HS_INT64, .shape = HS_SHAPE(10) }). Without a shape: a scalar. */
#define HS_OUTPUTS(...) HS__LIST(hs_output_def, __VA_ARGS__, {.dtype = HS_DTYPE_NONE})

typedef struct hs_op_def {
    size_t size;
    const char *name; /* (required) */
    hs_op_fn run;     /* NULL: only executes its inputs and control inputs, and has no outputs */
    void *user;
    const char *const *inputs;         /* tensors to read. NULL: none */
    const char *const *control_inputs; /* ops to execute first. NULL: none */
    const hs_output_def *outputs;      /* HS_OUTPUTS(...). NULL: none */
    /* Variables and values that the function may change. NULL: all. HS_NAMES(NULL): none */
    const char *const *writes;
    bool advances_step; /* a run that executes this op adds 1 to the global step */
    /* In a group, all ranks must execute this op in the same step. HS_INVALID_ARGUMENT: only rank 0 would, because of a
     * hook with HS_HOOK_CHIEF_ONLY */
    bool collective;
    unsigned char reserved[6];
    /* Kind of the op in TensorBoard, such as "MatMul". Letters as in names. NULL: "Op", or "NoOp" without a function */
    const char *type;
} hs_op_def;
#define HS_OP_DEF(...) HS_OPTIONS(hs_op_def, __VA_ARGS__)

/* Adds an op. HS_ALREADY_EXISTS: the name is in use. */
HS_API hs_code hs_graph_add_op(hs_graph *graph, const hs_op_def *def);
#define hs_graph_op(graph, ...) hs_graph_add_op((graph), HS_OP_DEF(__VA_ARGS__))

/* Returns memory that the graph owns and frees, for `data` and `user` of nodes that a hook adds in begin. Allowed also
 * while a session is open, and in ops that no queue's thread runs.
 *
 * name   any text. Equal names return the same memory, so begin it with the hook's name
 * bytes  at least 1. The memory is zero at first, and aligned for any type
 *
 * HS_INVALID_ARGUMENT: `name` has memory of another size. */
HS_API void *hs_graph_memory(hs_graph *graph, const char *name, size_t bytes, hs_error *err);

/* For the function of an op. Returns input `index`. Pointers of these functions are valid until it returns. */
HS_API const hs_tensor *hs_op_input(const hs_op *op, size_t index);
/* Returns output `index`, to write to. */
HS_API hs_tensor *hs_op_output(hs_op *op, size_t index);
/* Returns item `index` of the op's `writes`, to write to. */
HS_API hs_tensor *hs_op_written(hs_op *op, size_t index);
/* Sets an output without memory to a view, borrowed until the op's next execution. HS_INVALID_ARGUMENT: dtype or shape do
 * not match the definition, or the output has memory. */
HS_API hs_code hs_op_set_output(hs_op *op, size_t index, const hs_tensor *value, hs_error *err);
/* Returns memory of the session for such a view: at least `bytes`, aligned for any type, zero at first. It keeps its
 * contents between executions, and moves if it grows. HS_INVALID_ARGUMENT: the op has no such output, or it has memory. */
HS_API void *hs_op_memory(hs_op *op, size_t index, size_t bytes, hs_error *err);
/* Returns true if a stop was requested. A long function may then return HS_STOP, unless it has changed saved memory. Always
 * false in a thread that fills a queue. */
HS_API bool hs_op_stop_requested(const hs_op *op);
/* The gate of a step in a group of processes, as hs_step_pass_gate. Call it once in a training run, on all ranks, before
 * the op's first collective operation. If it does not return HS_OK, the op clears what it has accumulated and returns the
 * code. Change saved variables and state only behind the gate. In other runs, and without a group, it returns HS_OK. */
HS_API hs_code hs_op_pass_gate(hs_op *op, hs_error *err);
/* Returns false if the input of this rank has ended, but not that of all ranks (HS_END_WITH_LAST_RANK). An op then returns
 * HS_OK without reading input, and contributes nothing. A queue repeats its last element. */
HS_API bool hs_op_has_input(const hs_op *op);
/* Returns the global step before this run; 0 without one. -1 on failure: HS_FAILED_PRECONDITION in a thread that fills a
 * queue. */
HS_API int64_t hs_op_global_step(const hs_op *op, hs_error *err);
HS_API const char *hs_op_name(const hs_op *op);

/* Adds state to checkpoints (state.h). */
HS_API hs_code hs_graph_add_state(hs_graph *graph, const hs_state_provider *provider);
/* As hs_graph_add_state, with version 0 and without identity. */
HS_API hs_code hs_graph_state(hs_graph *graph, const char *name, hs_save_state_fn save, hs_load_state_fn load, void *self);

/* Adds state that is plain bytes: a position, a random number generator.
 *
 *     hs_graph_bytes(g, "generator", &generator, sizeof generator, HS_STATE_PER_RANK);
 *
 * data   in host memory, without pointers and file handles. Borrowed as long as the session lives. The address of a
 *        pointer does not compile. In C, cast a pointer to an incomplete type to `void *`
 * bytes  at least 1. A restore of another number is HS_INVALID_ARGUMENT
 * scope  may be omitted: HS_STATE_SHARED. HS_STATE_PER_RANK cannot be restored on another number of ranks */
HS_API hs_code hs_graph_bytes(hs_graph *graph, const char *name, void *data, size_t bytes, hs_state_scope scope);
static inline hs_code hs__graph_bytes(size_t element, size_t room, hs_graph *graph, const char *name, void *data,
                                      size_t bytes, hs_state_scope scope)
{
    hs_code code = hs_graph_check_bytes(graph, name, bytes, element, room);
    return code ? code : hs_graph_bytes(graph, name, data, bytes, scope);
}
#define HS__FIRST_TWO(a, b, ...) a, b
#define hs_graph_bytes(graph, name, data, ...)                                                                             \
    hs__graph_bytes(HS__ELEMENT_BYTES(data), HS__ROOM(data), (graph), (name), HS__PLAIN(data),                             \
                    HS__FIRST_TWO(__VA_ARGS__, HS_STATE_SHARED, 0))

/* A queue of elements that threads of the session produce ahead of the steps (docs/guide/input-ahead.md). TensorFlow:
 * FIFOQueue, QueueRunner.
 *
 *     hs_graph_queue(g, .name = "input", .capacity = 4,
 *                    .components = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(128, 784)},
 *                                             {.dtype = HS_INT64, .shape = HS_SHAPE(128)}),
 *                    .produce = read_batch, .user = &reader);
 *     hs_graph_op(g, .name = "train", .run = train, .inputs = HS_NAMES("input/dequeue:0", "input/dequeue:1"));
 *
 * It adds these ops, and a queue runner, whose threads run NAME/enqueue. Each session has its own queue, and cancels it
 * when it is closed.
 *
 *   op             effect
 *   NAME/enqueue   waits for room, then produces an element. HS_CANCELLED: the queue was closed before, or cancelled
 *   NAME/dequeue   waits for an element, and outputs its components, valid until the next dequeue. HS_STOP: a stop was
 *                  requested. hs_run_options.timeout_secs does not limit it
 *   NAME/close     refuses further elements. Those in the queue or in production remain
 *   NAME/cancel    as close, and also cancels an enqueue in progress
 *   NAME/size      the number of elements, an int32
 *
 * Producers end with HS_OUT_OF_RANGE, or with the runner's closed_codes. Then a dequeue from the empty queue returns
 * HS_OUT_OF_RANGE, or the first error of a producer. A thread that fills another queue has its own dequeued element. */
typedef struct hs_queue_def {
    size_t size;
    const char *name; /* (required) */
    /* Largest number of elements, ready or in production, without the one in use. 0: 32 */
    int64_t capacity;
    /* (required) HS_OUTPUTS(...), without `data`. With an open shape, each element has its own size */
    const hs_output_def *components;
    /* Produces an element: the function of an op with the components as outputs. It writes to them (hs_op_output), or sets
     * open ones (hs_op_set_output), which are copied. Called in the runner's threads */
    hs_op_fn produce;
    void *user; /* for produce */
    /* Instead of `produce`: outputs of ops, one per component. NAME/enqueue executes these ops and copies the outputs. With
     * placeholders, set threads to HS_NEVER and run NAME/enqueue with feeds */
    const char *const *inputs;
    int64_t threads; /* threads that run NAME/enqueue, up to 1024. 0: 1. HS_NEVER: none; the program runs it */
    /* The position of the producer, so that a resumed training consumes the same elements. Needs `produce` and one thread.
     * NULL: nothing is saved.
     *
     * save   called in the producer's thread, before the first element and after each. Checkpoints have the position of the
     *        element that was consumed last
     * load   called while no element is in production. Elements and errors in the queue are discarded
     *
     * A graph with such a queue has one open session at a time. If it had ended or was closed before a restore in the same
     * session, a dequeue is HS_FAILED_PRECONDITION until NAME/enqueue runs again. Elements in another queue that this one
     * fills count as consumed. */
    const hs_state_provider *position;
} hs_queue_def;
#define HS_QUEUE_DEF(...) HS_OPTIONS(hs_queue_def, __VA_ARGS__)

HS_API hs_code hs_graph_add_queue(hs_graph *graph, const hs_queue_def *def);
#define hs_graph_queue(graph, ...) hs_graph_add_queue((graph), HS_QUEUE_DEF(__VA_ARGS__))

/* Adds a node to a collection (backend.h). HS_INVALID_ARGUMENT: `key` is HS_SAVERS or HS_QUEUE_RUNNERS. */
HS_API hs_code hs_graph_collect(hs_graph *graph, const char *key, const char *name);

HS_END_DECLS

#endif
