/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TENSORFLOW_H
#define HOOKSESS_TENSORFLOW_H

#include <hooksess/backend.h>
#include <hooksess/tensorflow_server.h>

/* TensorFlow's graphs as a backend: TensorFlow's own runtime runs a MetaGraphDef or a GraphDef. Link with
 * libhooksess_tensorflow. It loads libtensorflow_cc.so.2 when the first graph is opened. See
 * docs/guide/tensorflow-graphs.md.
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
 * Names are TensorFlow's. "loss" is "loss:0" if the op has one output. The name of a resource variable stands for its
 * value: a fetch may return the value before the run's update, and a feed reaches only the ops that read this very tensor.
 *
 * Values are TensorFlow's memory, valid until the next run of the same level (backend.h). Feeds are copied, except memory
 * aligned to 64 bytes that goes only to ops that do not keep it. Resources, variants, 8-bit and 4-bit floats can be neither
 * fed nor fetched.
 *
 * The global step is the collection "global_step", or a variable of that name. An added op "hooksess/global_step" fetches
 * it in the run that advances it.
 *
 * A scaffold's defaults are the graph's collections. For empty ones, ops with names in "hooksess/" are added. Put
 * initializers of iterators into "table_initializer".
 *
 * Variables are the collections "variables" and "local_variables", or without both all variables. Their initializers must
 * be in the graph. Parts of a partitioned variable are saved as slices of one tensor. The state of random ops and iterators
 * is not saved. The .meta file of a checkpoint has the current graph and collections.
 *
 * Sessions run the collection "queue_runners" (HS_DATA_LOSS: it is invalid), and close the queues when they are closed.
 *
 * Within 50 ms, a stop request ends a run that waits for a queue or a barrier, with HS_STOP, and the session can still
 * save. It does not end a run that waits for
 *   - an iterator, a ConditionalAccumulator, or a queue of another process for which the graph has no closing op: set
 *     hs_run_options.timeout_secs
 *   - a StagingArea or a MapStagingArea: nothing ends it.
 *
 * After a timeout (HS_DEADLINE_EXCEEDED), the session can be used again, but elements taken from a queue are lost. Other
 * errors have TensorFlow's codes, and its message on one line.
 *
 * Threads: one thread at a time per object. A backend and its sessions are one object. */

HS_BEGIN_DECLS

typedef struct hs_tensorflow_options {
    size_t size;
    const hs_env *env;
    /* The default target of sessions: "" or "local" for this process, or "grpc://host:port". NULL: the target of `server`,
     * or "" */
    const char *target;
    /* The default ConfigProto of sessions, serialized, as by tf.ConfigProto(...).SerializeToString() in Python; {0x38, 1}
     * is allow_soft_placement */
    hs_bytes config;
    /* The path of libtensorflow_cc.so.2, one per process. NULL: in the directory of the environment variable
     * TENSORFLOW_ROOT; if not set, as the system's loader finds it, or at its place at build time */
    const char *library;
    bool show_log;       /* keep TensorFlow's log (see below) */
    bool graph_saves;    /* savers from SaverDefs save with the graph's ops (see below) */
    bool graph_restores; /* they restore with the graph's ops (see below) */
    unsigned char reserved[5];
    /* The server of this process, for a chief or a worker. Sessions run on it, unless `target` is set. If the cluster has a
     * job "ps" and `config` has no device_filters, the filters are "/job:ps" and the own task, as in RunConfig. May be
     * freed before the backend. NULL: no cluster */
    const hs_tensorflow_server *server;
    /* Limit of a run in seconds, if `config` sets no operation_timeout_in_ms. A longer run fails with HS_DEADLINE_EXCEEDED,
     * or HS_UNAVAILABLE if the cluster does not answer. 0, HS_NEVER: no limit, also if another process hangs */
    double timeout_secs;
} hs_tensorflow_options;
#define HS_TENSORFLOW_OPTIONS(...) HS_OPTIONS(hs_tensorflow_options, __VA_ARGS__)

/* Savers. For each SaverDef of the meta graph, the collection HS_SAVERS has an hs_saver with its retention. It reads and
 * sets the variables itself, unless these options select the graph's ops, which also save tables:
 *
 *   graph_saves     the op writes to a temporary directory (hs_saver_options.save_variables), which must be shared with
 *                   remote parameter servers
 *   graph_restores  the op reads a verified checkpoint. A path with *, ?, [ or \ is HS_INVALID_ARGUMENT */

/* TensorFlow logs to stderr while it is loaded. Unless show_log is set, the call that loads it discards output to file
 * descriptor 2 for a fraction of a second, and sets the environment variable TF_CPP_MIN_LOG_LEVEL, if not set, to 3. Set it
 * yourself, or open a graph before you start threads that read the environment. */

/* Opens a file with a MetaGraphDef or a GraphDef, binary or text. Trust a graph like a program: TensorFlow ends the process
 * for some damaged graphs. Several threads may open graphs.
 *
 * Free the backend in any case. After a failure, opening a session on it fails with the same error. If memory is exhausted,
 * ops is NULL.
 *
 *   HS_NOT_FOUND            the file, the library, or the type of an op (named) does not exist
 *   HS_INVALID_ARGUMENT     wrong options or path, not a graph, or TensorFlow refuses it; graph_saves or graph_restores
 *                           without a SaverDef, or with one of format V1
 *   HS_DATA_LOSS            the meta graph's contents are invalid
 *   HS_FAILED_PRECONDITION  the library lacks a function
 *   HS_RESOURCE_EXHAUSTED   out of memory
 *
 * TensorFlow: import_meta_graph, import_graph_def. */
HS_API hs_backend hs_tensorflow_open(const char *path, const hs_tensorflow_options *options, hs_error *err);
/* The same for the contents of such a file, which are copied. */
HS_API hs_backend hs_tensorflow_open_bytes(hs_bytes graph, const hs_tensorflow_options *options, hs_error *err);
/* Frees the backend. Close its sessions first. */
HS_API void hs_tensorflow_free(hs_backend backend);

/* Kinds of an op's attributes, and the field of hs_tensorflow_attr that holds the value. From HS_TENSORFLOW_TYPES on, it is
 * a list of .n_values elements. */
typedef enum hs_tensorflow_attr_kind {
    HS_TENSORFLOW_TYPE = 1,     /* .type */
    HS_TENSORFLOW_INT = 2,      /* .number */
    HS_TENSORFLOW_FLOAT = 3,    /* .real */
    HS_TENSORFLOW_BOOL = 4,     /* .number */
    HS_TENSORFLOW_STRING = 5,   /* .text */
    HS_TENSORFLOW_SHAPE = 6,    /* .shape */
    HS_TENSORFLOW_TENSOR = 7,   /* .tensor: a host tensor */
    HS_TENSORFLOW_TYPES = 8,    /* .types */
    HS_TENSORFLOW_INTS = 9,     /* .numbers */
    HS_TENSORFLOW_FLOATS = 10,  /* .reals */
    HS_TENSORFLOW_BOOLS = 11,   /* .truths */
    HS_TENSORFLOW_STRINGS = 12, /* .texts */
    HS_TENSORFLOW_SHAPES = 13   /* .shapes */
} hs_tensorflow_attr_kind;

/* An attribute. Values are copied. In shapes, rank -1 is any rank, and dimension -1 any size. Frozen.
 *
 *     const hs_dtype types[] = {HS_FLOAT, HS_INT64};
 *     const hs_tensorflow_attr attrs[] = {
 *         {.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_FLOAT},
 *         {.name = "component_types", .kind = HS_TENSORFLOW_TYPES, .types = types, .n_values = 2},
 *         {.name = NULL},
 *     }; */
typedef struct hs_tensorflow_attr {
    const char *name; /* NULL ends a list of attributes */
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
    const char *type;                  /* (required) such as "Identity" */
    const char *name;                  /* (required) a name that the graph does not have */
    const char *const *inputs;         /* HS_NAMES(...) of tensors. NULL: none */
    const char *const *control_inputs; /* HS_NAMES(...) of ops that run before. NULL: none */
    const hs_tensorflow_attr *attrs;   /* ended by a NULL name. NULL: none */
    const char *device;                /* NULL: TensorFlow chooses */
    bool inputs_are_a_list;            /* all inputs form one list input, as in "Pack", "AddN" and "MergeSummary" */
    unsigned char reserved[7];
    /* With inputs_are_a_list: the first input of the list, and the first one after it. list_until 0: all. "QueueEnqueueV2"
     * has one input before the list (.list_from = 1), "ConcatV2" one after it */
    size_t list_from, list_until;
} hs_tensorflow_op_def;
#define HS_TENSORFLOW_OP_DEF(...) HS_OPTIONS(hs_tensorflow_op_def, __VA_ARGS__)

/* Adds an op to the graph; call it in a hook's `begin`. A resource variable as an input is its handle: for the value, add a
 * "ReadVariableOp". Added variables are not saved.
 *
 * HS_FAILED_PRECONDITION: the graph is finalized. HS_ALREADY_EXISTS: the name exists. HS_NOT_FOUND: an input does not
 * exist. HS_INVALID_ARGUMENT: an unknown type of op, an incomplete `def`, or TensorFlow refuses the op. TensorFlow:
 * TF_FinishOperation. */
HS_API hs_code hs_tensorflow_add_op(hs_backend backend, const hs_tensorflow_op_def *def, hs_error *err);

/* Sets *item to an item of a collection of the meta graph: a node's name, or a serialized proto. Returns false after the
 * last item. */
HS_API bool hs_tensorflow_collection_item(hs_backend backend, const char *key, size_t index, hs_bytes *item);

HS_END_DECLS

#endif
