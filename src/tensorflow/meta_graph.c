/* SPDX-License-Identifier: Apache-2.0 */
/* Serializes the file's MetaGraphDef without graph_def and saver_def, with the names that were added to its collections. */
#include "tensorflow/tf_backend.h"

#include "base/proto.h"
#include "base/wire_read.h"

#include <string.h>

enum { META_COLLECTION = 4, ENTRY_KEY = 1, ENTRY_VALUE = 2, NODE_LIST = 1, BYTES_LIST = 2 };

/* The fields of one collection. */
typedef struct {
    hs_bytes key;
    uint64_t kind;  /* number of the CollectionDef's field; 0: empty */
    hs_bytes nodes; /* the NodeList */
} entry;

static entry read_entry(hs_bytes bytes)
{
    hs__fields fields = hs__fields_of(bytes), inner = hs__fields_of((hs_bytes){NULL, 0});
    entry found = {.kind = 0};
    hs__field f;
    while (hs__fields_next(&fields, &f))
        if (f.number == ENTRY_KEY)
            found.key = f.bytes;
        else if (f.number == ENTRY_VALUE)
            inner = hs__fields_of(f.bytes);
    if (hs__fields_next(&inner, &f)) {
        found.kind = f.number;
        found.nodes = f.bytes;
    }
    return found;
}

static bool is_key(const entry *e, const char *key)
{
    return e->key.size == strlen(key) && memcmp(e->key.data, key, e->key.size) == 0;
}

/* Returns true for a name that is not in the file. */
static bool is_added(const hs__tf_item *item)
{
    return item->is_name && item->added;
}

static bool has_added(const hs__tf_backend *backend, const entry *e)
{
    for (size_t i = 0; i < backend->n_items; i++)
        if (is_added(&backend->items[i]) && is_key(e, backend->items[i].key))
            return true;
    return false;
}

/* Appends the item's name. An op with one output gets ":0": TensorFlow then takes the item for the op's output. */
static void put_name(const hs__tf_backend *backend, const hs__tf_item *item, hs__buffer *nodes)
{
    TF_Operation *op = backend->tf.GraphOperationByName(backend->graph, item->data);
    const char *ending = op && backend->tf.OperationNumOutputs(op) == 1 ? ":0" : "";
    char *name = hs__format(&backend->env, "%s%s", item->data, ending);
    if (name)
        hs__proto_put_bytes(nodes, 1, name, strlen(name));
    nodes->failed |= !name;
    hs__free(&backend->env, name);
}

/* Appends a collection. `kind` is the number of the CollectionDef's field, `list` its contents. */
static void put_collection(const char *key, uint32_t kind, const hs__buffer *list, hs__buffer *out)
{
    hs__buffer value, pair;
    hs__buffer_init(&value, out->env);
    hs__buffer_init(&pair, out->env);
    hs__proto_put_bytes(&value, kind, list->data, list->size);
    hs__proto_put_bytes(&pair, ENTRY_KEY, key, strlen(key));
    hs__proto_put_bytes(&pair, ENTRY_VALUE, value.data, value.size);
    hs__proto_put_bytes(out, META_COLLECTION, pair.data, pair.size);
    out->failed |= list->failed || value.failed || pair.failed;
    hs__buffer_free(&value);
    hs__buffer_free(&pair);
}

/* Appends a collection of names: the file's, then the added ones. */
static void put_names(const hs__tf_backend *backend, const char *key, hs_bytes before, hs__buffer *out)
{
    hs__buffer nodes;
    hs__buffer_init(&nodes, &backend->env);
    hs__buffer_append(&nodes, before.data, before.size);
    for (size_t i = 0; i < backend->n_items; i++)
        if (is_added(&backend->items[i]) && strcmp(backend->items[i].key, key) == 0)
            put_name(backend, &backend->items[i], &nodes);
    put_collection(key, NODE_LIST, &nodes, out);
    hs__buffer_free(&nodes);
}

/* The collection "variables" of a graph without collections. */

static char *output_name(const hs__tf_backend *backend, TF_Output output)
{
    return hs__format(&backend->env, "%s:%d", backend->tf.OperationName(output.oper), output.index);
}

static void put_variable(const hs__tf_backend *backend, const hs__tf_variable *variable, hs__buffer *out)
{
    Hs__Pb__VariableDef def = HS__PB__VARIABLE_DEF__INIT;
    char *name = output_name(backend, (TF_Output){variable->handle, 0}), *value = output_name(backend, variable->value);
    char *initial = output_name(backend, variable->initial);
    if (name && value && initial) {
        def.variable_name = name;
        def.snapshot_name = value;
        def.initial_value_name = initial;
        def.initializer_name = hs__proto_string(backend->tf.OperationName(variable->assigns));
        def.is_resource = variable->is_resource;
        def.trainable = true;
        hs__proto_put_message(out, 1, &def.base);
    }
    out->failed |= !name || !value || !initial;
    hs__free(&backend->env, name);
    hs__free(&backend->env, value);
    hs__free(&backend->env, initial);
}

static void put_variables(const hs__tf_backend *backend, hs__buffer *out)
{
    hs__buffer list;
    hs__buffer_init(&list, &backend->env);
    for (size_t i = 0; i < backend->n_variables; i++)
        if (backend->variables[i].assigns) /* Python does not import a variable without an initializer */
            put_variable(backend, &backend->variables[i], &list);
    put_collection("variables", BYTES_LIST, &list, out);
    hs__buffer_free(&list);
}

/* Appends the fields of the file in their order, except collections of names that get an added name. */
static void put_file(const hs__tf_backend *backend, hs__buffer *out)
{
    hs__fields fields = hs__fields_of((hs_bytes){backend->meta.data, backend->meta.size});
    hs__field f;
    for (const unsigned char *begin = fields.at; hs__fields_next(&fields, &f); begin = fields.at) {
        entry e = f.number == META_COLLECTION ? read_entry(f.bytes) : (entry){.kind = 0};
        if (e.kind != NODE_LIST || !has_added(backend, &e))
            hs__buffer_append(out, begin, (size_t)(fields.at - begin));
    }
}

/* Returns the file's collection of this key. */
static entry find_entry(const hs__tf_backend *backend, const char *key)
{
    hs__fields fields = hs__fields_of((hs_bytes){backend->meta.data, backend->meta.size});
    entry found = {.kind = 0};
    hs__field f;
    while (hs__fields_next(&fields, &f)) {
        entry e = f.number == META_COLLECTION ? read_entry(f.bytes) : (entry){.kind = 0};
        if (f.number == META_COLLECTION && is_key(&e, key))
            found = e;
    }
    return found;
}

static bool is_first_of_key(const hs__tf_backend *backend, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_added(&backend->items[i]) && strcmp(backend->items[i].key, backend->items[index].key) == 0)
            return false;
    return true;
}

hs_code hs__tf_meta_graph(void *self, hs_bytes *out, hs_error *err)
{
    hs__tf_backend *backend = self;
    if (backend->error.code)
        return hs__error_copy(err, &backend->error);
    hs__buffer_free(&backend->meta_graph);
    hs__buffer_init(&backend->meta_graph, &backend->env);
    put_file(backend, &backend->meta_graph);
    if (!backend->meta.size && backend->n_variables)
        put_variables(backend, &backend->meta_graph);
    for (size_t i = 0; i < backend->n_items; i++) {
        const hs__tf_item *item = &backend->items[i];
        if (!is_added(item) || !is_first_of_key(backend, i))
            continue;
        entry before = find_entry(backend, item->key);
        if (!before.kind || before.kind == NODE_LIST)
            put_names(backend, item->key, before.nodes, &backend->meta_graph);
    }
    *out = (hs_bytes){backend->meta_graph.data, backend->meta_graph.size};
    return hs__buffer_check(&backend->meta_graph, "a meta graph", err);
}
