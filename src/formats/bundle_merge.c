/* SPDX-License-Identifier: Apache-2.0 */
/* Entries are merged as protobuf messages, so that fields that this library does not know are kept. */
#include "formats/bundle_merge.h"

#include "formats/bundle_index.h"
#include "formats/slice_key.h"
#include "formats/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned char *key;
    size_t key_bytes;
    Hs__Pb__BundleEntryProto *proto;
    size_t input; /* index of its bundle */
} merged_entry;

typedef struct {
    hs__bundle_merge *merge;
    const hs_env *env;
    const char *const *prefixes;
    size_t input; /* the bundle that is being read */
    char *path;   /* of its index */
    int32_t shards, last_shard;
    size_t last_file; /* that of last_shard */
    merged_entry *entries;
    size_t n, capacity;
    Hs__Pb__BundleHeaderProto *header; /* of the first bundle */
    hs__buffer version, other_version; /* serialized, of the first bundle and of the current one */
    bool no_memory;                    /* comparing messages ran out of memory */
} merging;

/* Headers. */

static void pack_version(const Hs__Pb__BundleHeaderProto *header, hs__buffer *to)
{
    static const Hs__Pb__VersionDef none = HS__PB__VERSION_DEF__INIT;
    hs__buffer_clear(to);
    hs__proto_pack(header->version ? &header->version->base : &none.base, to);
}

static Hs__Pb__BundleHeaderProto *copy_header(const hs_env *env, const Hs__Pb__BundleHeaderProto *header)
{
    bool no_memory;
    hs__buffer packed;
    hs__buffer_init(&packed, env);
    hs__proto_pack(&header->base, &packed);
    ProtobufCMessage *copy = packed.failed ? NULL
                                           : hs__proto_unpack(&hs__pb__bundle_header_proto__descriptor, env, packed.data,
                                                              packed.size, &no_memory);
    hs__buffer_free(&packed);
    return (Hs__Pb__BundleHeaderProto *)copy;
}

static int producer_of(const Hs__Pb__BundleHeaderProto *header)
{
    return header->version ? header->version->producer : 0;
}

static hs_code compare_header(merging *m, const Hs__Pb__BundleHeaderProto *header, hs_error *err)
{
    static const char *const orders[] = {"little-endian", "big-endian"};
    const char *first = m->prefixes[0], *this = m->prefixes[m->input];
    pack_version(header, &m->other_version);
    if (header->endianness != m->header->endianness)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot merge '%s' and '%s': one is %s, the other %s", first, this,
                            orders[m->header->endianness != 0], orders[header->endianness != 0]);
    if (m->version.failed || m->other_version.failed)
        return hs__no_memory(err, 0, "a version");
    if (m->version.size != m->other_version.size ||
        (m->version.size && memcmp(m->version.data, m->other_version.data, m->version.size) != 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "cannot merge '%s' and '%s': their format versions differ (written by %d and %d)", first, this,
                            producer_of(m->header), producer_of(header));
    return HS_OK;
}

static hs_code add_header(void *user, const Hs__Pb__BundleHeaderProto *header, hs_error *err)
{
    merging *m = user;
    m->shards = header->num_shards;
    if (m->header)
        return compare_header(m, header, err);
    pack_version(header, &m->version);
    m->header = copy_header(m->env, header);
    return m->header ? HS_OK : hs__no_memory(err, sizeof *header, "a header");
}

/* Entries. */

static hs_code find_file(merging *m, int32_t shard, size_t *at, hs_error *err)
{
    hs__bundle_merge *merge = m->merge;
    char *path = hs__bundle_data_path(m->env, m->prefixes[m->input], shard, m->shards);
    if (!path)
        return hs__no_memory(err, strlen(m->path), "a path");
    hs_code code = HS_OK;
    if ((*at = hs__map_find(&merge->paths, path)) == HS__NONE) {
        hs__merged_file file = {.input = m->input, .shard = shard};
        *at = merge->n_files;
        if (!(code = hs__reserve(m->env, &merge->files, &merge->files_capacity, *at + 1, sizeof file, err)) &&
            !(code = hs__map_add(&merge->paths, path, *at, &file.from, err)))
            merge->files[merge->n_files++] = file;
    }
    hs__free(m->env, path);
    return code;
}

/* Assigns the new shard to an entry that has data. */
static hs_code renumber(merging *m, const merged_entry *entry, hs_error *err)
{
    Hs__Pb__BundleEntryProto *proto = entry->proto;
    const char *name = *entry->key ? (const char *)entry->key : "(a slice)";
    hs_code code = hs__bundle_check_place(proto, m->path, name, m->shards, err);
    if (!code && proto->shard_id != m->last_shard)
        code = find_file(m, proto->shard_id, &m->last_file, err);
    if (code)
        return code;
    m->last_shard = proto->shard_id;
    uint64_t end = (uint64_t)proto->offset + (uint64_t)proto->size;
    hs__merged_file *file = &m->merge->files[m->last_file];
    file->bytes = end > file->bytes ? end : file->bytes;
    proto->shard_id = m->merge->first + (int32_t)m->last_file;
    return HS_OK;
}

/* A key in messages. NULL: out of memory. */
static char *key_text(const hs_env *env, const merged_entry *entry)
{
    char text[HS__BOX_TEXT_SIZE], *name, *all;
    bool no_memory;
    hs__box box;
    if (!hs__slice_key_get(env, (hs_bytes){entry->key, entry->key_bytes}, &name, &box, &no_memory))
        return hs__format(env, "tensor '%.*s'", (int)entry->key_bytes, (const char *)entry->key);
    all = hs__format(env, "slice %s of tensor '%s'", hs__box_text(&box, text, sizeof text), name);
    hs__free(env, name);
    return all;
}

static hs_code append_entry(merging *m, hs_bytes key, Hs__Pb__BundleEntryProto *proto, hs_error *err)
{
    merged_entry entry = {.key_bytes = key.size, .proto = proto, .input = m->input};
    hs_code code = hs__reserve(m->env, &m->entries, &m->capacity, m->n + 1, sizeof entry, err);
    if (code)
        return code;
    entry.key = (unsigned char *)hs__strndup(m->env, key.data, key.size); /* terminated, for messages */
    if (!entry.key)
        return hs__no_memory(err, key.size, "a name");
    m->entries[m->n++] = entry;
    return HS_OK;
}

static hs_code add_entry(void *user, hs_bytes key, hs_bytes value, hs_error *err)
{
    merging *m = user;
    Hs__Pb__BundleEntryProto *proto;
    ProtobufCAllocator allocator = hs__proto_allocator(m->env);
    if (*(const char *)key.data && memchr(key.data, 0, key.size))
        return hs_error_set(err, HS_DATA_LOSS, "%s: a name contains a zero byte", m->path);
    hs_code code = hs__bundle_unpack_entry(m->env, m->path, key, value, &proto, err);
    if (code)
        return code;
    if ((code = append_entry(m, key, proto, err))) {
        protobuf_c_message_free_unpacked(&proto->base, &allocator);
        return code;
    }
    return proto->n_slices ? HS_OK /* no data */ : renumber(m, &m->entries[m->n - 1], err);
}

static hs_code read_input(merging *m, size_t input, hs_error *err)
{
    m->input = input;
    m->last_shard = -1;
    m->path = hs__bundle_index_path(m->env, m->prefixes[input]);
    if (!m->path)
        return hs__no_memory(err, strlen(m->prefixes[input]), "a path");
    hs_code code = hs__bundle_visit_index(m->env, &(hs__index_visitor){m, m->path, add_header, add_entry}, err);
    hs__free(m->env, m->path);
    return code;
}

/* Merging. */

static int order(const merged_entry *a, const merged_entry *b)
{
    size_t common = a->key_bytes < b->key_bytes ? a->key_bytes : b->key_bytes;
    int found = memcmp(a->key, b->key, common);
    return found ? found : (a->key_bytes > b->key_bytes) - (a->key_bytes < b->key_bytes);
}

static int by_key(const void *a, const void *b)
{
    const merged_entry *first = a, *second = b;
    int found = order(first, second);
    return found ? found : (first->input > second->input) - (first->input < second->input);
}

static bool same_shape(const Hs__Pb__TensorShapeProto *a, const Hs__Pb__TensorShapeProto *b)
{
    size_t n_a = a ? a->n_dim : 0, n_b = b ? b->n_dim : 0;
    if (n_a != n_b || (a && a->unknown_rank) != (b && b->unknown_rank))
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (a->dim[i]->size != b->dim[i]->size)
            return false;
    return true;
}

static hs_code conflict(const merging *m, const merged_entry *a, const merged_entry *b, const char *what, hs_error *err)
{
    char *text = key_text(m->env, a);
    hs_code code = hs_error_set(err, HS_INVALID_ARGUMENT, "cannot merge '%s' and '%s': both have the %s%s",
                                m->prefixes[a->input], m->prefixes[b->input], text ? text : "same tensor", what);
    hs__free(m->env, text);
    return code;
}

/* Two bundles have and list different slices of one tensor: adds the list of `from` to that of `to`. */
static hs_code join(const merging *m, merged_entry *to, merged_entry *from, hs_error *err)
{
    Hs__Pb__BundleEntryProto *a = to->proto, *b = from->proto;
    if (!a->n_slices || !b->n_slices)
        return conflict(m, to, from, "", err);
    if (a->dtype != b->dtype || !same_shape(a->shape, b->shape))
        return conflict(m, to, from, ", but its dtype or shape differs", err);
    size_t n = a->n_slices + b->n_slices;
    Hs__Pb__TensorSliceProto **all = hs__realloc(m->env, a->slices, n, sizeof(Hs__Pb__TensorSliceProto *));
    if (!all)
        return hs__no_memory(err, n * sizeof *all, "the slices of a tensor");
    memcpy(all + a->n_slices, b->slices, b->n_slices * sizeof *all);
    a->slices = all;
    a->n_slices = n;
    b->n_slices = 0;
    return HS_OK;
}

static bool put_message(hs__table_writer *table, hs_bytes key, const ProtobufCMessage *message, hs__buffer *scratch)
{
    hs__buffer_clear(scratch);
    hs__proto_pack(message, scratch);
    if (!scratch->failed)
        hs__table_add(table, key, (hs_bytes){scratch->data, scratch->size});
    return !scratch->failed;
}

static hs_code put_all(merging *m, hs__table_writer *table, hs__buffer *scratch, hs_error *err)
{
    m->header->num_shards = m->merge->first + (m->merge->n_files ? (int32_t)m->merge->n_files : 1);
    bool fine = put_message(table, (hs_bytes){"", 0}, &m->header->base, scratch);
    for (size_t i = 0, next; fine && i < m->n; i = next) {
        merged_entry *entry = &m->entries[i];
        for (next = i + 1; next < m->n && order(entry, &m->entries[next]) == 0; next++) {
            hs_code code = join(m, entry, &m->entries[next], err);
            if (code)
                return code;
        }
        fine = put_message(table, (hs_bytes){entry->key, entry->key_bytes}, &entry->proto->base, scratch);
    }
    return fine ? HS_OK : hs__no_memory(err, 0, "the index of a checkpoint");
}

static hs_code build_index(merging *m, hs_error *err)
{
    hs__buffer scratch;
    hs__table_writer table;
    if (m->n)
        qsort(m->entries, m->n, sizeof *m->entries, by_key);
    hs__buffer_init(&scratch, m->env);
    hs__table_begin(&table, m->env, &m->merge->index);
    hs_code code = put_all(m, &table, &scratch, err);
    hs_code finished = hs__table_finish(&table, code ? NULL : err);
    hs__buffer_free(&scratch);
    return code ? code : finished;
}

static hs_code name_files(hs__bundle_merge *merge, const char *merged, hs_error *err)
{
    for (size_t i = 0; i < merge->n_files; i++) {
        merge->files[i].to =
            hs__bundle_data_path(merge->env, merged, merge->first + (int32_t)i, merge->first + (int32_t)merge->n_files);
        if (!merge->files[i].to)
            return hs__no_memory(err, strlen(merged), "a path");
    }
    return HS_OK;
}

static void free_merging(merging *m)
{
    ProtobufCAllocator allocator = hs__proto_allocator(m->env);
    for (size_t i = 0; i < m->n; i++) {
        hs__free(m->env, m->entries[i].key);
        protobuf_c_message_free_unpacked(&m->entries[i].proto->base, &allocator);
    }
    hs__free(m->env, m->entries);
    if (m->header)
        protobuf_c_message_free_unpacked(&m->header->base, &allocator);
    hs__buffer_free(&m->version);
    hs__buffer_free(&m->other_version);
}

hs_code hs__bundle_merge_make(hs__bundle_merge *merge, const hs_env *env, const char *const *prefixes, const char *merged,
                              int32_t first, hs_error *err)
{
    *merge = (hs__bundle_merge){.env = env, .first = first};
    hs__map_init(&merge->paths, env);
    hs__buffer_init(&merge->index, env);
    merging m = {.merge = merge, .env = env, .prefixes = prefixes};
    hs__buffer_init(&m.version, env);
    hs__buffer_init(&m.other_version, env);
    hs_code code = HS_OK;
    for (size_t i = 0; prefixes[i] && !code; i++)
        code = read_input(&m, i, err);
    if (!code && !(code = name_files(merge, merged, err)))
        code = build_index(&m, err);
    free_merging(&m);
    if (code)
        hs__bundle_merge_free(merge);
    return code;
}

/* Checking whether bundles are merged already. */

static bool same_message(merging *m, const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    hs__buffer_clear(&m->version);
    hs__buffer_clear(&m->other_version);
    hs__proto_pack(a, &m->version);
    hs__proto_pack(b, &m->other_version);
    m->no_memory |= m->version.failed || m->other_version.failed;
    return !m->no_memory && m->version.size == m->other_version.size &&
           (!m->version.size || memcmp(m->version.data, m->other_version.data, m->version.size) == 0);
}

/* True if `all` lists the slices of `some`. A merge keeps the slices of one bundle next to each other. */
static bool has_slices(merging *m, const Hs__Pb__BundleEntryProto *all, const Hs__Pb__BundleEntryProto *some)
{
    size_t from = 0, n = 0;
    while (some->n_slices && from < all->n_slices && !same_message(m, &all->slices[from]->base, &some->slices[0]->base))
        from++;
    while (n < some->n_slices && from + n < all->n_slices &&
           same_message(m, &all->slices[from + n]->base, &some->slices[n]->base))
        n++;
    return n == some->n_slices;
}

/* True if merging `some` results in `all`, which may have another shard and slices of other bundles. */
static bool includes(merging *m, Hs__Pb__BundleEntryProto *all, Hs__Pb__BundleEntryProto *some)
{
    size_t n_all = all->n_slices, n_some = some->n_slices;
    if (!n_all != !n_some || !has_slices(m, all, some))
        return false;
    all->shard_id = some->shard_id = 0;
    all->n_slices = some->n_slices = 0;
    bool same = same_message(m, &all->base, &some->base);
    all->n_slices = n_all;
    some->n_slices = n_some;
    return same;
}

/* True if the first bundle, the merged one, has all entries. */
static bool first_has_all(merging *m, bool more)
{
    qsort(m->entries, m->n, sizeof *m->entries, by_key);
    for (size_t i = 0, next; i < m->n; i = next) {
        merged_entry *entry = &m->entries[i];
        for (next = i + 1; next < m->n && order(entry, &m->entries[next]) == 0; next++)
            if (!includes(m, entry->proto, m->entries[next].proto))
                return false;
        if (entry->input != 0 || (next == i + 1 && !more))
            return false;
    }
    return true;
}

static hs_code compare_bundles(merging *m, bool more, bool *is_in, hs_error *err)
{
    hs_code code = HS_OK;
    *is_in = true;
    for (size_t i = 0; m->prefixes[i] && !code; i++)
        code = read_input(m, i, err);
    if (code == HS_INVALID_ARGUMENT) { /* its format differs from the merged one's */
        hs__clear(err);
        *is_in = false;
        return HS_OK;
    }
    if (!code && m->n)
        *is_in = first_has_all(m, more);
    return !code && m->no_memory ? hs__no_memory(err, 0, "an entry") : code;
}

hs_code hs__bundle_merge_is_in(const hs_env *env, const char *const *prefixes, const char *merged, bool more, bool *is_in,
                               hs_error *err)
{
    size_t n = 0;
    while (prefixes[n])
        n++;
    const char **all = hs__alloc(env, n + 2, sizeof *all);
    if (!all)
        return hs__no_memory(err, n, "a list of checkpoints");
    all[0] = merged;
    memcpy(all + 1, prefixes, (n + 1) * sizeof *all);
    hs__bundle_merge merge = {.env = env};
    hs__map_init(&merge.paths, env);
    hs__buffer_init(&merge.index, env);
    merging m = {.merge = &merge, .env = env, .prefixes = all};
    hs__buffer_init(&m.version, env);
    hs__buffer_init(&m.other_version, env);
    hs_code code = compare_bundles(&m, more, is_in, err);
    free_merging(&m);
    hs__bundle_merge_free(&merge);
    hs__free(env, all);
    return code;
}

void hs__bundle_merge_free(hs__bundle_merge *merge)
{
    for (size_t i = 0; i < merge->n_files; i++)
        hs__free(merge->env, merge->files[i].to);
    hs__free(merge->env, merge->files);
    hs__map_free(&merge->paths);
    hs__buffer_free(&merge->index);
    merge->n_files = 0;
    merge->files = NULL;
}
