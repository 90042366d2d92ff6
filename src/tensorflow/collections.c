/* SPDX-License-Identifier: Apache-2.0 */
/* The collections of a meta graph, with the items that the program added. */
#include "tensorflow/tf_backend.h"

#include "graph.pb-c.h"

#include "base/proto.h"

#include <string.h>

hs_code hs__tf_add_item(hs__tf_backend *backend, const hs__tf_item *given, hs_error *err)
{
    const hs_env *env = &backend->env;
    hs_code code =
        hs__reserve(env, &backend->items, &backend->items_capacity, backend->n_items + 1, sizeof *backend->items, err);
    if (code)
        return code;
    hs__tf_item item = *given;
    item.key = hs__strdup(env, given->key);
    item.data = given->data ? hs__alloc(env, given->bytes + 1, 1) : NULL;
    if (!item.key || (given->data && !item.data)) {
        hs__free(env, item.key);
        hs__free(env, item.data);
        return hs__no_memory(err, given->bytes, "an item of a collection");
    }
    if (given->bytes)
        memcpy(item.data, given->data, given->bytes);
    backend->items[backend->n_items++] = item;
    return HS_OK;
}

void hs__tf_free_items(hs__tf_backend *backend)
{
    for (size_t i = backend->n_items; i-- > 0;) {
        hs__tf_item *item = &backend->items[i];
        if (item->release)
            item->release((void *)item->item);
        hs__free(&backend->env, item->key);
        hs__free(&backend->env, item->data);
    }
    hs__free(&backend->env, backend->items);
}

static hs_code add_values(hs__tf_backend *backend, const Hs__Pb__MetaGraphDef__CollectionDefEntry *entry, hs_error *err)
{
    const Hs__Pb__CollectionDef *value = entry->value;
    hs_code code = HS_OK;
    if (value && value->kind_case == HS__PB__COLLECTION_DEF__KIND_NODE_LIST)
        for (size_t i = 0; !code && i < value->node_list->n_value; i++) {
            char *name = value->node_list->value[i];
            code = hs__tf_add_item(
                backend,
                &(hs__tf_item){.key = entry->key, .data = name, .bytes = strlen(name), .is_name = true, .item = NULL}, err);
        }
    if (value && value->kind_case == HS__PB__COLLECTION_DEF__KIND_BYTES_LIST)
        for (size_t i = 0; !code && i < value->bytes_list->n_value; i++) {
            ProtobufCBinaryData bytes = value->bytes_list->value[i];
            char *data = bytes.data ? (char *)bytes.data : entry->key + strlen(entry->key);
            code = hs__tf_add_item(backend, &(hs__tf_item){.key = entry->key, .data = data, .bytes = bytes.len}, err);
        }
    return code;
}

hs_code hs__tf_add_collection(hs__tf_backend *backend, hs_bytes bytes, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    bool no_memory;
    ProtobufCMessage *entry = hs__proto_unpack(&hs__pb__meta_graph_def__collection_def_entry__descriptor, &backend->env,
                                               bytes.data, bytes.size, &no_memory);
    if (!entry)
        return no_memory ? hs__no_memory(err, bytes.size, "a collection")
                         : hs_error_set(err, HS_DATA_LOSS, "the meta graph has an invalid collection");
    hs_code code = add_values(backend, (const void *)entry, err);
    protobuf_c_message_free_unpacked(entry, &allocator);
    return code;
}

const hs__tf_item *hs__tf_find_item(const hs__tf_backend *backend, const char *key, size_t index)
{
    for (size_t i = 0; i < backend->n_items; i++)
        if (backend->items[i].data && strcmp(backend->items[i].key, key) == 0 && index-- == 0)
            return &backend->items[i];
    return NULL;
}

/* Counts names and the program's pointers, not protos. */
bool hs__tf_collection_item(void *self, const char *key, size_t index, const void **item)
{
    const hs__tf_backend *backend = self;
    for (size_t i = 0; i < backend->n_items; i++) {
        const hs__tf_item *at = &backend->items[i];
        if (strcmp(at->key, key) == 0 && (!at->data || at->is_name) && index-- == 0) {
            *item = at->data ? at->data : at->item;
            return true;
        }
    }
    return false;
}

hs_code hs__tf_add_to_collection(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err)
{
    hs__tf_item added = {.key = (char *)key, .added = true, .release = release, .item = item};
    if (!key || !item)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot add to a collection: %s is NULL", key ? "item" : "key");
    if (strcmp(key, HS_SAVERS) != 0 && strcmp(key, HS_QUEUE_RUNNERS) != 0) {
        added.data = (char *)item;
        added.bytes = strlen(item);
        added.is_name = true;
    }
    return hs__tf_add_item(self, &added, err);
}
