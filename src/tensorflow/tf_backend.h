/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_TF_BACKEND_H
#define HS_TENSORFLOW_TF_BACKEND_H

#include "tensorflow/tf_api.h"

#include "tensorflow/cluster/cluster.h"

#include "base/buffer.h"
#include "base/map.h"
#include "base/tensor.h"
#include "variable.pb-c.h"

#include <stdatomic.h>

/* TensorFlow's graph and what is known of it. */

/* A reference to a type has the type's number and this. */
enum { HS__TF_REFERENCES = 100 };

/* What is known of an output of an op. */
typedef struct {
    TF_DataType type;  /* as the graph has it, maybe a reference */
    hs_dtype dtype;    /* HS_DTYPE_NONE: one that has no values for us */
    hs_shape shape;    /* -1: not known */
    bool too_many;     /* dimensions for us */
    bool lends;        /* a fed value is only read, and only by the run that it is fed to */
    uint64_t lends_as; /* of hs__tf_backend.changes when that was found out; 0: never */
} hs__tf_output;

/* An op that was asked for. What hs_node.op points at. */
typedef struct {
    TF_Operation *op;
    const char *name;        /* the map's */
    uint64_t writes_step;    /* the ops that change the global step, of those that it makes run: a bit for each */
    uint64_t writes_step_as; /* of hs__tf_backend.changes when that was found out; 0: never */
    size_t n_outputs;
    hs__tf_output outputs[];
} hs__tf_op;

typedef struct {
    char *name;
    TF_Output value;       /* what is read */
    TF_Output initial;     /* what is fed to set it; oper NULL: it cannot be set */
    TF_Operation *assigns; /* and run: the initializer */
    TF_Operation *handle;  /* of a resource variable, or the variable itself */
    bool is_resource;
    hs_dtype dtype;
    hs_shape shape;
    uint64_t flags;
    hs_variable_slice *slice; /* which part of a larger one it is; NULL: of none */
} hs__tf_variable;

/* What initializes a variable of a type that has no values for us. */
typedef struct {
    TF_Operation *op;
    uint64_t flags; /* of the variable */
} hs__tf_initializer;

/* Which ops change the global step, and reads of it that wait for them. */

enum { HS__TF_STEP_WRITERS = 62 };
#define HS__TF_STEP_ELUDES (UINT64_C(1) << HS__TF_STEP_WRITERS)       /* something that cannot be told apart */
#define HS__TF_STEP_SKIPS  (UINT64_C(1) << (HS__TF_STEP_WRITERS + 1)) /* it may not run, though it was asked for */

typedef struct {
    TF_Operation *op;
    uint64_t mask;
} hs__tf_writes;

typedef struct {
    uint64_t mask;
    TF_Output read; /* oper NULL: it could not be made */
} hs__tf_step_read;

typedef struct {
    TF_Operation *writers[HS__TF_STEP_WRITERS];
    size_t n_writers;
    hs__tf_writes *ops; /* all of the graph's, by address */
    size_t n_ops, ops_capacity;
    uint64_t as; /* of hs__tf_backend.changes when they were looked at; 0: never */
    TF_Operation **controls;
    size_t controls_capacity;
    hs__tf_step_read *reads;
    size_t n_reads, reads_capacity;
} hs__tf_step;

/* An item of a collection. A name, a proto or a pointer of somebody's. */
typedef struct {
    char *key;
    char *data; /* with a zero after it; NULL: `item` */
    size_t bytes;
    bool is_name, added; /* added: not the file's */
    const void *item;
    void (*release)(void *item);
} hs__tf_item;

typedef struct {
    hs_env env;
    hs__tf_api tf;
    hs_error error;           /* why it could not be opened */
    atomic_size_t references; /* the program's, and each session's and fork's */
    char *target;
    char *server_target;    /* of the server that was given; NULL: none was */
    hs__tf_cluster cluster; /* of that server */
    hs__tf_task own;        /* which of its tasks that is, the cluster's words */
    int64_t timeout_ms;     /* of runs; 0: none */
    hs__buffer config, saver_def;
    hs__buffer meta;       /* what the file has of a MetaGraphDef but its graph_def and saver_def */
    hs__buffer meta_graph; /* the same as it is now, when it was asked for last */
    TF_Graph *graph;
    TF_Buffer *graph_def; /* the last that was asked for */
    hs__map names;
    hs__tf_op **ops;
    size_t n_ops, ops_capacity;
    hs__tf_item *items;
    size_t n_items, items_capacity;
    hs__tf_variable *variables;
    size_t n_variables, variables_capacity;
    hs__tf_initializer *unlisted;
    size_t n_unlisted, unlisted_capacity;
    size_t global_step; /* its place among the variables; HS__NONE */
    hs__tf_step step;
    uint64_t changes; /* counts the ops that were added, from 1 */
    bool finalized;
    bool has_references; /* some op has a reference: memory that changes while somebody looks at it */
    bool keeps;          /* it was opened as one that has none, and promised that values stay */
    bool made_savers;
    size_t n_queue_runners;           /* of the graph's, how many were made */
    bool graph_saves, graph_restores; /* options of savers */
} hs__tf_backend;

/* open_graph.c */
void hs__tf_release(hs__tf_backend *backend);
hs__tf_backend *hs__tf_of(hs_backend backend);
/* What is left out is the core library's. */
hs_code hs__tf_take_env(hs_env *env, const hs_env *given, hs_error *err);

/* run_options.c: a timeout as TensorFlow takes it; 0: no limit. */
int64_t hs__tf_milliseconds(double secs);

/* tf_session.c: is it another process? NULL and "": the backend's own target. */
bool hs__tf_is_remote(const hs__tf_backend *backend, const char *target);

/* backend_ops.c */
extern const hs_backend_ops hs__tf_ops;
/* For graphs that have no references: values stay as they are, and so do views. */
extern const hs_backend_ops hs__tf_keeping_ops;

/* import_graph.c: from the bytes of a file to the graph and its collections. */
hs_code hs__tf_import(hs__tf_backend *backend, hs_bytes file, hs_error *err);

/* A field of a message on the wire: its value, where it has a length. */
typedef struct {
    uint64_t number;
    hs_bytes value;
} hs__tf_field;
/* Moves *at behind the next field; false if it is cut, or none. */
bool hs__tf_next_field(const unsigned char **at, const unsigned char *end, hs__tf_field *out);

/* meta_graph.c: what a MetaGraphDef of the graph has beside its graph_def and saver_def. */
hs_code hs__tf_meta_graph(void *self, hs_bytes *out, hs_error *err);

/* slices.c: notes of the variable that was added last, if it has that handle, which part of a larger one it is. */
hs_code hs__tf_note_slice(hs__tf_backend *backend, const TF_Operation *handle, const Hs__Pb__SaveSliceInfoDef *def,
                          hs_error *err);
bool hs__tf_variable_slice(void *self, size_t index, hs_variable_slice *out);

/* collections.c */
hs_code hs__tf_take_collection(hs__tf_backend *backend, hs_bytes entry, hs_error *err);
hs_code hs__tf_add_item(hs__tf_backend *backend, const hs__tf_item *item, hs_error *err);
void hs__tf_free_items(hs__tf_backend *backend);
/* The index-th item of a key that is a name or a proto (and not somebody's pointer), or NULL. */
const hs__tf_item *hs__tf_item_of(const hs__tf_backend *backend, const char *key, size_t index);
bool hs__tf_has_key(const hs__tf_backend *backend, const char *key);
bool hs__tf_collection_item(void *self, const char *key, size_t index, const void **item);
hs_code hs__tf_add_to_collection(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err);

/* saver_defs.c: a saver for each SaverDef. Makes them once. */
hs_code hs__tf_make_savers(hs__tf_backend *backend, hs_error *err);
/* Where they are to use the graph's ops, which are asked for by option: makes them now. INVALID_ARGUMENT: there are none.
 */
hs_code hs__tf_check_savers(hs__tf_backend *backend, hs_error *err);

/* queue_runner_defs.c: a queue runner for each QueueRunnerDef. Makes them once; after a failure, goes on where it was. */
hs_code hs__tf_make_queue_runners(hs__tf_backend *backend, bool remote, hs_error *err);

/* find_node.c */
hs_code hs__tf_find(void *self, const char *name, hs_node *node, hs_error *err);
/* "name" or "name:0" as TensorFlow has it, without what it may stand for. */
hs_code hs__tf_find_output(hs__tf_backend *backend, const char *name, TF_Output *out, hs_error *err);
/* The ops that take an output, n of them, to be freed; NULL where there are none. */
hs_code hs__tf_users_of(const hs__tf_backend *backend, TF_Output output, TF_Input **users, int *n, hs_error *err);
/* Is the type of an op one of these? */
bool hs__tf_is_among(const char *type, const char *const *types, size_t n);
/* *op is NULL where there is none of that name. */
hs_code hs__tf_find_op(hs__tf_backend *backend, const char *name, TF_Operation **op, hs_error *err);
/* Returns "w" for "w:0" and for "w". The caller frees it. NULL: out of memory. */
char *hs__tf_op_name(const hs__tf_backend *backend, const char *name);
void hs__tf_free_ops(hs__tf_backend *backend);
/* Notes whether it has references. */
void hs__tf_note_references(hs__tf_backend *backend, TF_Operation *op);
/* Type, dtype and shape of an output. */
hs__tf_output hs__tf_describe(const hs__tf_backend *backend, TF_Output output);

/* nearest_name.c: the name in the graph that is most like this one, or NULL if none is. */
const char *hs__tf_nearest(const hs__tf_backend *backend, const char *name);

/* list_variables.c */
hs_code hs__tf_list_variables(hs__tf_backend *backend, hs_error *err);
void hs__tf_free_variables(hs__tf_backend *backend);
bool hs__tf_variable_at(void *self, size_t index, hs_variable *out);

/* op_builder.c: ops that are added to the graph. The first failure is kept, and what follows does nothing. */
typedef struct {
    hs__tf_backend *backend;
    TF_Status *status;
    hs_code code;
    hs_error *err;
} hs__tf_builder;
hs_code hs__tf_builder_begin(hs__tf_builder *builder, hs__tf_backend *backend, hs_error *err);
hs_code hs__tf_builder_end(hs__tf_builder *builder);
/* An op under this name, or one that begins so if it is taken; NULL after a failure. */
TF_OperationDescription *hs__tf_begin_op(hs__tf_builder *builder, const char *type, const char *name);
TF_Output hs__tf_finish_op(hs__tf_builder *builder, TF_OperationDescription *op);
/* An op with these inputs, and no attributes but those that follow from them. */
TF_Output hs__tf_simple_op(hs__tf_builder *builder, const char *type, const char *name, const TF_Output *inputs, size_t n);
/* A read of a variable, to be finished: control inputs may follow. */
TF_OperationDescription *hs__tf_begin_read(hs__tf_builder *builder, const char *name, TF_Operation *handle,
                                           TF_DataType dtype, bool is_resource);
TF_Output hs__tf_constant(hs__tf_builder *builder, const char *name, const hs_tensor *value);

/* default_ops.c */
hs_code hs__tf_default_op(void *self, const char *key, const char **name, hs_error *err);

/* tf_tensor.c */
/* INVALID_ARGUMENT for one for which TensorFlow would end the process: it counts the elements from the first dimension on,
 * and must be able to, also where a later one is 0. */
hs_code hs__tf_check_shape(const hs_shape *shape, hs_error *err);
/* A tensor of TensorFlow's with a copy of the value. NULL: RESOURCE_EXHAUSTED. */
TF_Tensor *hs__tf_copy_in(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err);
/* One over the value's own memory, which must stay as it is until it is deleted; TensorFlow copies what is not aligned. */
TF_Tensor *hs__tf_lend(const hs__tf_backend *backend, const hs_tensor *value, hs_error *err);
/* A view of TensorFlow's; of strings, the elements go to `strings`, as many as there are. `name` is for the message. */
hs_code hs__tf_view(const hs__tf_backend *backend, TF_Tensor *tensor, hs_string *strings, const char *name, hs_tensor *view,
                    hs_error *err);
/* 0 but for strings. */
size_t hs__tf_count_strings(const hs__tf_backend *backend, const TF_Tensor *tensor);

/* global_step.c */
void hs__tf_free_step(hs__tf_backend *backend);

static inline bool hs__tf_is_reference(TF_DataType type)
{
    return (int)type > HS__TF_REFERENCES;
}

/* lend.c: may a value be fed without a copy? */
hs_code hs__tf_may_lend(hs__tf_backend *backend, hs__tf_op *op, size_t output, bool *may, hs_error *err);

#endif
