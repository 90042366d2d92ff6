/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_TF_BACKEND_H
#define HS_TENSORFLOW_TF_BACKEND_H

#include "tensorflow/tf_api.h"

#include "base/buffer.h"
#include "base/map.h"
#include "base/tensor.h"
#include "tensorflow/cluster/cluster.h"
#include "graph.pb-c.h"
#include "variable.pb-c.h"

#include <stdatomic.h>

/* TensorFlow's graph, and the facts that the backend caches about it. */

/* The number of a reference type is the number of its base type plus this. */
enum { HS__TF_REFERENCES = 100 };

/* An output of an op. */
typedef struct {
    TF_DataType type;               /* in the graph; may be a reference */
    hs_dtype dtype;                 /* HS_DTYPE_NONE: a type without values that hooksess supports */
    hs_shape shape;                 /* dimension -1: unknown */
    bool rank_too_high;             /* more than HS_MAX_RANK dimensions */
    bool borrowable;                /* a fed value is only read, and only during the run that it is fed to */
    uint64_t borrowable_generation; /* of the backend when `borrowable` was computed; 0: never */
} hs__tf_output;

/* An op that a caller looked up. hs_node.op points to it. */
typedef struct {
    TF_Operation *op;
    const char *name;                /* in hs__tf_backend.names */
    uint64_t writes_step;            /* the writers of the global step that run with this op, a bit for each */
    uint64_t writes_step_generation; /* of the backend when `writes_step` was computed; 0: never */
    size_t n_outputs;
    hs__tf_output outputs[];
} hs__tf_op;

typedef struct {
    char *name;
    TF_Output value;       /* fetched to read the variable */
    TF_Output initial;     /* fed to set the variable; oper NULL: it cannot be set */
    TF_Operation *assigns; /* the initializer, which runs to set the variable */
    TF_Operation *handle;  /* of a resource variable, or the op of a reference variable */
    bool is_resource;
    hs_dtype dtype;
    hs_shape shape;
    uint64_t flags;
    hs_variable_slice *slice; /* its part of a partitioned variable; NULL: not partitioned */
} hs__tf_variable;

/* The initializer of a variable of an unsupported type. */
typedef struct {
    TF_Operation *op;
    uint64_t flags; /* of the variable */
} hs__tf_initializer;

/* Ops that change the global step, and reads of it that run after them (global_step.c). */

enum { HS__TF_STEP_WRITERS = 62 };
#define HS__TF_STEP_UNKNOWN     (UINT64_C(1) << HS__TF_STEP_WRITERS)       /* the step may or may not change */
#define HS__TF_STEP_CONDITIONAL (UINT64_C(1) << (HS__TF_STEP_WRITERS + 1)) /* may not run although it is needed */

typedef struct {
    TF_Operation *op;
    uint64_t mask;
} hs__tf_writes;

typedef struct {
    uint64_t mask;
    TF_Output read; /* oper NULL: TensorFlow refused the op */
} hs__tf_step_read;

typedef struct {
    TF_Operation *writers[HS__TF_STEP_WRITERS];
    size_t n_writers;
    hs__tf_writes *ops; /* all ops of the graph, sorted by address */
    size_t n_ops, ops_capacity;
    uint64_t generation; /* of the backend when `ops` was computed; 0: never */
    TF_Operation **controls;
    size_t controls_capacity;
    hs__tf_step_read *reads;
    size_t n_reads, reads_capacity;
} hs__tf_step;

/* An item of a collection: a name, a serialized proto, or a pointer that hs_backend_ops.add_to_collection got. */
typedef struct {
    char *key;
    char *data; /* the name or proto, followed by a zero byte; NULL: `item` */
    size_t bytes;
    bool is_name, added; /* added: not in the file */
    const void *item;
    void (*release)(void *item);
} hs__tf_item;

typedef struct {
    hs_env env;
    hs__tf_api tf;
    hs_error error;           /* why the graph could not be opened */
    atomic_size_t references; /* of the program, and of each session and fork */
    char *target;
    char *server_target;    /* target of hs_tensorflow_options.server; NULL: no server */
    hs__tf_cluster cluster; /* of that server */
    hs__tf_task own_task;   /* that server's task; its strings belong to `cluster` */
    int64_t timeout_ms;     /* of runs; 0: no limit */
    hs__buffer config, saver_def;
    Hs__Pb__SaverDef **saver_defs; /* whose ops savers use (saver_defs.c) */
    size_t n_saver_defs, saver_defs_capacity;
    hs__buffer meta;       /* the file's MetaGraphDef without graph_def and saver_def */
    hs__buffer meta_graph; /* the current MetaGraphDef without them, from the last call of hs__tf_meta_graph */
    TF_Graph *graph;
    TF_Buffer *graph_def; /* from the last call of hs_backend_ops.graph_def */
    hs__map names;
    hs__tf_op **ops;
    size_t n_ops, ops_capacity;
    hs__tf_item *items;
    size_t n_items, items_capacity;
    hs__tf_variable *variables;
    size_t n_variables, variables_capacity;
    hs__tf_initializer *unsaved; /* of variables of unsupported types: they are initialized, but not saved */
    size_t n_unsaved, unsaved_capacity;
    size_t global_step; /* index of a variable, or HS__NONE */
    hs__tf_step step;
    uint64_t generation; /* 1, and incremented by each op that is added */
    bool finalized;
    bool has_references;  /* some op has a reference type: a value may change after the run that returned it */
    bool promises_values; /* the graph had no references when it was opened, so the backend has HS_BACKEND_KEEPS_VALUES */
    bool made_savers;
    size_t n_queue_runners;           /* how many of the graph's QueueRunnerDefs have a runner */
    bool graph_saves, graph_restores; /* hs_tensorflow_options */
} hs__tf_backend;

/* tf_backend.c */

/* Returns a backend without a graph and with one reference. NULL: out of memory. */
hs__tf_backend *hs__tf_new(const hs_env *env, hs_error *err);
/* Releases a reference, and frees the backend with the last one. */
void hs__tf_release(hs__tf_backend *backend);
/* Copies `given` to *env. Members that it leaves out are those of the core library. NULL: all of them. */
hs_code hs__tf_complete_env(hs_env *env, const hs_env *given, hs_error *err);

/* run_options.c: returns a timeout in TensorFlow's unit. 0: no limit. */
int64_t hs__tf_milliseconds(double secs);

/* tf_session.c: returns true if sessions of this target run in another process. NULL and "": the backend's target. */
bool hs__tf_is_remote(const hs__tf_backend *backend, const char *target);

/* backend_ops.c */
extern const hs_backend_ops hs__tf_ops;
/* For graphs without references: values and views stay valid. */
extern const hs_backend_ops hs__tf_keeping_ops;
/* Returns NULL if it is not a TensorFlow backend. */
hs__tf_backend *hs__tf_of(hs_backend backend);

/* import_graph.c */

/* Adds the graph and the collections of a file's contents to the backend. */
hs_code hs__tf_import(hs__tf_backend *backend, hs_bytes file, hs_error *err);

/* meta_graph.c: the current MetaGraphDef without graph_def and saver_def. Valid until the next call. */
hs_code hs__tf_meta_graph(void *self, hs_bytes *out, hs_error *err);

/* collections.c */
hs_code hs__tf_add_collection(hs__tf_backend *backend, hs_bytes entry, hs_error *err);
hs_code hs__tf_add_item(hs__tf_backend *backend, const hs__tf_item *item, hs_error *err);
void hs__tf_free_items(hs__tf_backend *backend);
/* Returns the index-th item of a key among its names and protos, or NULL. Pointers do not count. */
const hs__tf_item *hs__tf_find_item(const hs__tf_backend *backend, const char *key, size_t index);
bool hs__tf_collection_item(void *self, const char *key, size_t index, const void **item);
hs_code hs__tf_add_to_collection(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err);

/* saver_defs.c: adds an hs_saver to the collection HS_SAVERS for each SaverDef. Call it once. */
hs_code hs__tf_make_savers(hs__tf_backend *backend, hs_error *err);
/* If graph_saves or graph_restores is set, makes the savers. INVALID_ARGUMENT: the graph has no SaverDef. */
hs_code hs__tf_check_savers(hs__tf_backend *backend, hs_error *err);
void hs__tf_free_saver_defs(hs__tf_backend *backend);

/* queue_runner_defs.c: adds a queue runner to the collection HS_QUEUE_RUNNERS for each QueueRunnerDef without one. */
hs_code hs__tf_make_queue_runners(hs__tf_backend *backend, bool remote, hs_error *err);

/* find_node.c */
hs_code hs__tf_find(void *self, const char *name, hs_node *node, hs_error *err);
/* Finds the output "name:0" or "name". Unlike hs__tf_find, the name of a resource variable is its handle. */
hs_code hs__tf_find_output(hs__tf_backend *backend, const char *name, TF_Output *out, hs_error *err);
/* Sets *users to the *n inputs that take an output. The caller frees *users, which is NULL if *n is 0. */
hs_code hs__tf_consumers(const hs__tf_backend *backend, TF_Output output, TF_Input **users, int *n, hs_error *err);
/* Returns true if the type of an op is one of `types`. */
bool hs__tf_type_in(const char *type, const char *const *types, size_t n);
/* *op is NULL if the graph has no op of that name. */
hs_code hs__tf_find_op(hs__tf_backend *backend, const char *name, TF_Operation **op, hs_error *err);
/* Returns "w" for "w:0" and for "w". The caller frees it. NULL: out of memory. */
char *hs__tf_op_name(const hs__tf_backend *backend, const char *name);
void hs__tf_free_ops(hs__tf_backend *backend);
/* Sets has_references if an output of the op is a reference. */
void hs__tf_record_references(hs__tf_backend *backend, TF_Operation *op);
/* Returns type, dtype and shape of an output. */
hs__tf_output hs__tf_describe(const hs__tf_backend *backend, TF_Output output);

/* list_variables.c */
hs_code hs__tf_list_variables(hs__tf_backend *backend, hs_error *err);
void hs__tf_free_variables(hs__tf_backend *backend);
bool hs__tf_variable_at(void *self, size_t index, hs_variable *out);
bool hs__tf_variable_slice(void *self, size_t index, hs_variable_slice *out);

/* op_builder.c: adds ops to the graph. The builder keeps the first failure; later calls do nothing. */
typedef struct {
    hs__tf_backend *backend;
    TF_Status *status;
    hs_code code;
    hs_error *err;
} hs__tf_builder;
void hs__tf_builder_begin(hs__tf_builder *builder, hs__tf_backend *backend, hs_error *err);
hs_code hs__tf_builder_end(hs__tf_builder *builder);
/* Begins an op. If the graph has the name, a number is appended. NULL after a failure. */
TF_OperationDescription *hs__tf_begin_op(hs__tf_builder *builder, const char *type, const char *name);
TF_Output hs__tf_finish_op(hs__tf_builder *builder, TF_OperationDescription *op);
/* Begins a read of a variable. The caller may add control inputs, and finishes it. */
TF_OperationDescription *hs__tf_begin_read(hs__tf_builder *builder, const char *name, TF_Operation *handle,
                                           TF_DataType dtype, bool is_resource);

/* default_ops.c */
hs_code hs__tf_default_op(void *self, const char *key, const char **name, hs_error *err);

/* tf_tensor.c */
/* INVALID_ARGUMENT: a shape for which TensorFlow would end the process. TensorFlow multiplies the dimensions from the first
 * on; the product may not overflow, even if a later dimension is 0. */
hs_code hs__tf_check_shape(const hs_shape *shape, hs_error *err);
/* Returns a TensorFlow tensor with a copy of the value. NULL: out of memory. */
TF_Tensor *hs__tf_copy_in(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err);
/* Returns a TensorFlow tensor over the value's memory, which must not change until the tensor is deleted. TensorFlow copies
 * memory that is not aligned. NULL: out of memory. */
TF_Tensor *hs__tf_wrap(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err);
/* Sets *view to a view of a TensorFlow tensor. The elements of a string tensor are written to `strings`, which has room for
 * all of them. `name` is for the error message. */
hs_code hs__tf_view(const hs__tf_backend *backend, TF_Tensor *tensor, hs_string *strings, const char *name, hs_tensor *view,
                    hs_error *err);
/* Returns the number of strings in a tensor; 0 for other types. */
size_t hs__tf_count_strings(const hs__tf_backend *backend, const TF_Tensor *tensor);

static inline bool hs__tf_is_reference(TF_DataType type)
{
    return (int)type > HS__TF_REFERENCES;
}

#endif
