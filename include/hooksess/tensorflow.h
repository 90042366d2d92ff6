/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TENSORFLOW_H
#define HOOKSESS_TENSORFLOW_H

#include <hooksess/backend.h>
#include <hooksess/tensorflow_server.h>

/* clang-format off */
/* Graphs made by TensorFlow as a backend: a MetaGraphDef or a GraphDef, run by TensorFlow's own runtime. In a library of
 * its own, libhooksess_tensorflow, which loads libtensorflow_cc.so.2 when the first graph is opened.
 *
 *     hs_error err = {0};
 *     hs_backend tf = hs_tensorflow_open("graph.meta", NULL, &err);
 *     hs_session *s = hs_training_session_open(tf, HS_TRAINING_OPTIONS(.checkpoint_dir = "run"), &err);
 *     while (!hs_session_should_stop(s))
 *         if (hs_session_run(s, "train_op", &err) != HS_OK)
 *             break;
 *     hs_outcome outcome = hs_session_close(s, &err);
 *     hs_tensorflow_free(tf);
 *
 * Names are TensorFlow's: "loss:0" is a tensor, "train_op" an op; "loss" is output 0 of an op that has one output. The name
 * of a resource variable stands for its value; beside an op that updates it, a fetch may give what it was before, and a
 * feed reaches only those who read that very tensor, as in Python. Values are TensorFlow's own memory: valid until the next
 * run of their level (backend.h), without a copy. Strings are hs_string. Tensors of types that hs_dtype lacks (resources,
 * variants, 8-bit and 4-bit floats) can be neither fed nor fetched. What is fed is copied, but for what is aligned to 64
 * bytes and goes only to ops that read it and keep nothing of it, a matrix product, say: a queue or a variable would keep
 * the caller's memory.
 *
 * The global step after a run is fetched by that run: for each set of ops that change it, an op "hooksess/global_step" is
 * added, which waits for them. Where they cannot be told (in a branch, in a loop), and after runs that others may change it
 * beside, it is read by a run of its own.
 *
 * The meta graph's collections give what a scaffold leaves out: init_op, local_init_op, ready_op, ready_for_local_init_op,
 * summary_op, and savers, whose max_to_keep and keep_checkpoint_every_n_hours hold for the saver that is made of each: it
 * saves all variables by itself, through no op of the graph, unless the options ask for that. Where they are empty, ops are
 * added to the graph, under names that begin with "hooksess/": TensorFlow's Scaffold does the same. An iterator's
 * initializer is in none of them: put it into `table_initializer`, or name it as the scaffold's local_init_op. Python
 * functions (py_func) cannot run here.
 *
 * Variables are those of the collections `variables` and `local_variables`; without either, all that the graph has. A
 * variable is set by running its initializer, fed with the value: one that was stripped of it can be neither initialized
 * nor restored. The global step is the collection `global_step`'s, or a variable of that name. The parts of a partitioned
 * variable are saved as slices of one tensor. What random ops, dropout's among them, and iterators hold is in no
 * checkpoint: a run that goes on draws other numbers. The .meta beside a checkpoint has the graph as it is then, all else
 * that the meta graph had, and the names that were added to collections of names.
 *
 * The queue runners of the collection `queue_runners` are run by the session's coordinator; the end of the input ends the
 * session (HS_OUT_OF_RANGE), and closing it closes their queues, and cancels what is pending in them and in the queues
 * that their ops take from; a runner that makes no sense opens no session (HS_DATA_LOSS). A stop that is requested while a
 * run waits ends that run with HS_STOP, and leaves the session one that saves: of a graph with queues, each session has a
 * thread that looks for the stop, every 50 ms, and closes the graph's queues then, barriers among them, as TensorFlow's
 * coordinator does. For queues without an op that closes them so, ops are added when the session is opened; not for a
 * session in another process, whose queues others may share. So a run that waits elsewhere is ended by no stop: one that
 * waits for an iterator, for a ConditionalAccumulator, or for a queue of another process that the graph has no op to
 * close, ends with hs_run_options.timeout_secs alone, and one that waits for a StagingArea or a MapStagingArea not even
 * then. Which op a run waits for TensorFlow does not tell: to a watchdog it is a run that takes long, not one that waits
 * for data.
 * A run whose timeout has passed fails with HS_DEADLINE_EXCEEDED; the session can be run again. What its ops had done by
 * then stays done: elements that were taken from a queue are gone.
 *
 * TensorFlow's own errors come with their codes, which are ours, and their messages, on one line.
 *
 * Threads: one at a time per object. A backend and its sessions are one object. */
/* clang-format on */

HS_BEGIN_DECLS

typedef struct hs_tensorflow_options {
    size_t size;
    const hs_env *env; /* NULL: the system's. Copied */
    /* Of sessions that are opened without one: "" and "local", which are this process, or "grpc://host:port". NULL: the
     * `server`'s, or else "". Copied */
    const char *target;
    /* A serialized ConfigProto for sessions that are opened without one: what tf.ConfigProto(...).SerializeToString() gives
     * in Python; allow_soft_placement alone is {0x38, 1}. Copied */
    hs_bytes config;
    /* The file libtensorflow_cc.so.2. NULL: in the folder that the environment variable TENSORFLOW_ROOT names; without it,
     * where the system's loader finds it, or else where it was when this library was built. A process loads one, with the
     * first graph. */
    const char *library;
    bool show_log;       /* leave TensorFlow's logging as it is (below) */
    bool graph_saves;    /* savers that are made of the graph's SaverDefs save by its own ops (hs_saver_options) */
    bool graph_restores; /* they restore by its own ops (hs_saver_options) */
    unsigned char reserved[5];
    /* This process's place in a cluster, for a chief or a worker: unless `target` says otherwise, sessions run on it. A
     * `config` without device_filters gets those of TensorFlow's RunConfig, where the cluster has a job "ps": "/job:ps" and
     * the server's own task, so that no other worker is needed. May be freed before the graph. NULL: none */
    const hs_tensorflow_server *server;
    /* The longest a run may take: the operation_timeout_in_ms of a `config` that has none. HS_DEADLINE_EXCEEDED, or
     * HS_UNAVAILABLE where the cluster does not answer any more. On a server of this process's own, runs end by themselves
     * where a task dies; on the target of another process they wait until that one is back, unless this ends them.
     * 0 and HS_NEVER: no limit */
    double timeout_secs;
} hs_tensorflow_options;
#define HS_TENSORFLOW_OPTIONS(...) HS_OPTIONS(hs_tensorflow_options, __VA_ARGS__)

/* TensorFlow logs to stderr from the moment it is loaded. Unless show_log is set, the call that loads it sets the
 * environment variable TF_CPP_MIN_LOG_LEVEL to 3 (fatal errors alone), if the program has not set it, and discards what is
 * written to file descriptor 2 while the library is being loaded: a fraction of a second, once in a process. As setenv is
 * not safe beside threads that read the environment, open the first graph before starting threads, or set the variable
 * yourself; calls of hs_tensorflow_open in several threads wait for each other. */

/* Opens a file: a MetaGraphDef or a GraphDef, binary or text; which of them, its contents tell. Never returns a backend
 * without functions but for want of memory: where it fails, `err` says why. Each session that is opened on what is
 * returned fails with the same error, so that a program can look at it in one place only. Free it in any case.
 *
 * TensorFlow ends the process over some graphs that contradict themselves, as damage or malice may make them: a graph is to
 * be trusted like a program.
 *
 * HS_NOT_FOUND: the file, the library, or an op's type that the library lacks, which is named. HS_INVALID_ARGUMENT: options
 * or path are missing or wrong, it is no graph, or one that TensorFlow refuses. HS_DATA_LOSS: a meta graph whose contents
 * make no sense. HS_FAILED_PRECONDITION: the library lacks a function. HS_INVALID_ARGUMENT also where the graph is to save
 * or restore by its own ops and has no SaverDef for that, or one of the format V1. HS_RESOURCE_EXHAUSTED.
 * TensorFlow: import_meta_graph, import_graph_def. */
HS_API hs_backend hs_tensorflow_open(const char *path, const hs_tensorflow_options *options, hs_error *err);
/* The same of what a file would hold. Not needed afterwards. */
HS_API hs_backend hs_tensorflow_open_bytes(hs_bytes graph, const hs_tensorflow_options *options, hs_error *err);
/* When its sessions are closed. A backend without functions is fine. */
HS_API void hs_tensorflow_free(hs_backend backend);

/* Attributes of an op that is added. Of a list, .n_values says how many values there are. */
typedef enum hs_tensorflow_attr_kind {
    HS_TENSORFLOW_TYPE = 1,   /* .type */
    HS_TENSORFLOW_INT = 2,    /* .number */
    HS_TENSORFLOW_FLOAT = 3,  /* .real */
    HS_TENSORFLOW_BOOL = 4,   /* .number */
    HS_TENSORFLOW_STRING = 5, /* .text */
    HS_TENSORFLOW_SHAPE = 6,  /* .shape */
    HS_TENSORFLOW_TENSOR = 7, /* .tensor: a host tensor, which is copied */
    HS_TENSORFLOW_TYPES = 8,  /* .types, and so on */
    HS_TENSORFLOW_INTS = 9,
    HS_TENSORFLOW_FLOATS = 10,
    HS_TENSORFLOW_BOOLS = 11,
    HS_TENSORFLOW_STRINGS = 12,
    HS_TENSORFLOW_SHAPES = 13
} hs_tensorflow_attr_kind;

/* {.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_FLOAT}, or
 * {.name = "component_types", .kind = HS_TENSORFLOW_TYPES, .types = (const hs_dtype[]){HS_FLOAT, HS_INT64}, .n_values = 2}.
 * What it points at is not needed afterwards. A shape of rank -1 is one of which nothing is known, a dimension of -1 one of
 * any size. Frozen. */
typedef struct hs_tensorflow_attr {
    const char *name; /* NULL ends a list of them */
    hs_tensorflow_attr_kind kind;
    hs_dtype type;
    int64_t number;
    double real;
    const char *text;
    hs_shape shape;
    const hs_tensor *tensor;
    union {
        const hs_dtype *types;
        const int64_t *numbers;
        const double *reals;
        const bool *truths;
        const char *const *texts;
        const hs_shape *shapes;
    };
    size_t n_values;
} hs_tensorflow_attr;

typedef struct hs_tensorflow_op_def {
    size_t size;
    const char *type;                  /* (required) "Identity" */
    const char *name;                  /* (required) that the graph does not have yet */
    const char *const *inputs;         /* tensors, ended by NULL. NULL: none */
    const char *const *control_inputs; /* ops that run before it, ended by NULL. NULL: none */
    const hs_tensorflow_attr *attrs;   /* ended by a NULL name. NULL: none */
    const char *device;                /* NULL: wherever TensorFlow puts it */
    bool inputs_are_a_list; /* all of them are one input of the op's, as "Pack", "AddN" and "MergeSummary" have it */
    unsigned char reserved[7];
    /* With inputs_are_a_list, which of them the list is: from this index on, and up to, but without, that one (0: up to the
     * last). Those outside are inputs by themselves: "QueueEnqueueV2" has one before its list (.list_from = 1), "ConcatV2"
     * one behind it. */
    size_t list_from, list_until;
} hs_tensorflow_op_def;
#define HS_TENSORFLOW_OP_DEF(...) HS_OPTIONS(hs_tensorflow_op_def, __VA_ARGS__)

/* Adds an op to the graph, as a hook's begin may. An input that is a resource variable's name is its handle: to compute
 * with its value, add a "ReadVariableOp" of it. A variable that is added is none of the session's: it is not saved.
 * HS_FAILED_PRECONDITION once the graph is finalized; HS_ALREADY_EXISTS: the name is taken, which is how a second begin
 * finds that it has nothing to add; HS_NOT_FOUND: an input that is not in the graph; HS_INVALID_ARGUMENT: a type of op that
 * the library lacks, what else TensorFlow refuses, or a struct that is not filled. TensorFlow: TF_FinishOperation. */
HS_API hs_code hs_tensorflow_add_op(hs_backend backend, const hs_tensorflow_op_def *def, hs_error *err);

/* An item of one of the meta graph's collections, as it stands there: the name of a node, or a serialized proto (of
 * `variables`, a VariableDef; of `savers`, a SaverDef). False past the last. The backend's. */
HS_API bool hs_tensorflow_collection_item(hs_backend backend, const char *key, size_t index, hs_bytes *item);
/* The SaverDef of the meta graph itself, serialized; size 0 where it has none. The backend's. */
HS_API hs_bytes hs_tensorflow_saver_def(hs_backend backend);

HS_END_DECLS

#endif
