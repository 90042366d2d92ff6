/* SPDX-License-Identifier: Apache-2.0 */
/* hs__snapshot_take adds one item after the other. Deferred variables are copied by hs__snapshot_complete, in several
 * threads at the end of hs__snapshot_take or later in one, or by before_write. Then the snapshot is the source of a save,
 * or an archive (archive.c). */
#define _DEFAULT_SOURCE /* madvise */
#include "checkpoint/snapshot.h"

#include "base/device.h"
#include "base/parallel.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Smaller variables are never deferred: copying them costs less than a guard. Strings are not either: their texts are
 * elsewhere in memory. */
enum { LARGE = 1 << 16 };

/* malloc gets larger blocks from the system, and returns them when they are freed. */
enum { MAPPED = 32 << 20 };

/* Bytes for the names of some thousand variables and their alignment. */
enum { ROOM_FOR_NAMES = 1 << 20 };

typedef enum { DEFERRED, BEING_COPIED, COPIED } item_state;

struct hs__snapshot_item {
    size_t name, data, texts; /* offsets in the snapshot's data; `texts`: what the strings point to */
    hs_tensor value;          /* its data is the variable's memory until it is copied */
    void *block; /* the copy of a variable on a device, on the device or on the host. NULL: it is in the data */
    bool on_device;
    bool is_slice, follows, nonfinite;
    hs_variable_slice slice;
    item_state state;
};

int hs__snapshot_init(hs__snapshot *snapshot, const hs_env *env)
{
    *snapshot = (hs__snapshot){.env = env};
    atomic_init(&snapshot->n_deferred, 0);
    int result = pthread_mutex_init(&snapshot->lock, NULL);
    if (!result && (result = pthread_cond_init(&snapshot->copied, NULL)))
        pthread_mutex_destroy(&snapshot->lock);
    return result;
}

void hs__snapshot_release(hs__snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n_variables; i++) {
        struct hs__snapshot_item *item = &snapshot->items[i];
        if (item->on_device)
            item->value.memory->release(item->value.memory->user, item->block);
        else
            hs__free(snapshot->env, item->block);
        item->block = NULL;
        item->on_device = false;
    }
}

/* Only the session's thread sets and removes guards. */
static void empty(hs__snapshot *snapshot)
{
    const hs_raw_session *session = snapshot->guarded;
    if (session)
        session->ops.guard(session->handle, (hs_write_guard){NULL, NULL, NULL});
    snapshot->guarded = NULL;
    hs__snapshot_release(snapshot);
    snapshot->n = snapshot->n_variables = snapshot->n_item_of = snapshot->bytes = 0;
    snapshot->device_bytes = 0;
    snapshot->holds = false;
    snapshot->error.code = HS_OK;
    atomic_store(&snapshot->n_deferred, 0);
    hs__free(snapshot->env, (void *)snapshot->meta.data);
    snapshot->meta = (hs_bytes){NULL, 0};
}

void hs__snapshot_free(hs__snapshot *snapshot)
{
    empty(snapshot);
    hs__free(snapshot->env, snapshot->items);
    hs__free(snapshot->env, snapshot->item_of);
    hs__free(snapshot->env, snapshot->data);
    pthread_cond_destroy(&snapshot->copied);
    pthread_mutex_destroy(&snapshot->lock);
}

/* Appends aligned room. *at is its offset. */
static hs_code append_room(hs__snapshot *snapshot, size_t bytes, size_t *at, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    *at = (snapshot->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > SIZE_MAX - *at)
        return hs__no_memory(err, bytes, "a copy of the state");
    hs_code code = hs__reserve(snapshot->env, &snapshot->data, &snapshot->data_capacity, *at + bytes, 1, err);
    if (!code)
        snapshot->bytes = *at + bytes;
    return code;
}

/* hs__put_fn */
static hs_code append_piece(void *user, const void *data, size_t bytes, hs_error *err)
{
    hs__snapshot *snapshot = user;
    if (bytes > SIZE_MAX - snapshot->bytes)
        return hs__no_memory(err, bytes, "a copy of the state");
    hs_code code = hs__reserve(snapshot->env, &snapshot->data, &snapshot->data_capacity, snapshot->bytes + bytes, 1, err);
    if (!code && bytes)
        memcpy(snapshot->data + snapshot->bytes, data, bytes);
    snapshot->bytes += code ? 0 : bytes;
    return code;
}

/* Appends an aligned copy. */
static hs_code append(hs__snapshot *snapshot, const void *data, size_t bytes, size_t *at, hs_error *err)
{
    hs_code code = append_room(snapshot, 0, at, err);
    return code ? code : append_piece(snapshot, data, bytes, err);
}

static hs_code append_produced(hs__snapshot *snapshot, const hs__save_item *from, struct hs__snapshot_item *item,
                               hs_error *err)
{
    hs_code code = append_room(snapshot, 0, &item->data, err);
    if (!code)
        code = from->produce(from->source, append_piece, snapshot, err);
    item->value.bytes = snapshot->bytes - item->data;
    item->value.dims[0] = (int64_t)item->value.bytes;
    return code;
}

static hs_code append_texts(hs__snapshot *snapshot, const hs_tensor *value, size_t *at, hs_error *err)
{
    const hs_string *strings = value->data;
    hs_code code = append_room(snapshot, 0, at, err);
    for (size_t i = 0; !code && i < value->bytes / sizeof *strings; i++)
        code = append_piece(snapshot, strings[i].data, strings[i].bytes, err);
    return code;
}

static hs_code defer(hs__snapshot *snapshot, const hs__save_item *from, hs_error *err)
{
    hs_code code = hs__reserve(snapshot->env, &snapshot->item_of, &snapshot->item_of_capacity, from->variable + 1,
                               sizeof *snapshot->item_of, err);
    if (code)
        return code;
    while (snapshot->n_item_of <= from->variable)
        snapshot->item_of[snapshot->n_item_of++] = HS__NONE;
    snapshot->item_of[from->variable] = snapshot->n;
    atomic_fetch_add(&snapshot->n_deferred, 1);
    return HS_OK;
}

/* `defers`: a large value is copied later. */
static hs_code add(hs__snapshot *snapshot, const hs__save_item *from, bool defers, hs_error *err)
{
    const hs_tensor *value = &from->value;
    struct hs__snapshot_item item = {.value = *value,
                                     .state = COPIED,
                                     .is_slice = from->slice != NULL,
                                     .follows = from->follows,
                                     .nonfinite = from->nonfinite};
    if (from->slice) {
        item.slice = *from->slice;
        item.slice.name = NULL; /* borrowed of the session; the snapshot has the name itself */
    }
    hs_code code =
        hs__reserve(snapshot->env, &snapshot->items, &snapshot->capacity, snapshot->n + 1, sizeof *snapshot->items, err);
    if (code || (code = append(snapshot, from->name, strlen(from->name) + 1, &item.name, err)))
        return code;
    if (value->bytes && value->memory && value->memory->duplicate) {
        item.state = DEFERRED;
        snapshot->device_bytes += value->bytes;
        if ((code = defer(snapshot, from, err)))
            return code;
    } else if (defers && value->bytes >= LARGE && value->dtype != HS_STRING) {
        item.state = DEFERRED;
        if ((code = append_room(snapshot, value->bytes, &item.data, err)) || (code = defer(snapshot, from, err)))
            return code;
    } else if (from->produce) {
        if ((code = append_produced(snapshot, from, &item, err)))
            return code;
    } else if (value->memory) {
        if ((code = append_room(snapshot, value->bytes, &item.data, err)) ||
            (code = hs__tensor_to_host(from->name, value, snapshot->data + item.data, err)))
            return code;
    } else if ((code = append(snapshot, value->data, value->bytes, &item.data, err)) ||
               (value->dtype == HS_STRING && (code = append_texts(snapshot, value, &item.texts, err)))) {
        return code;
    }
    snapshot->items[snapshot->n++] = item;
    return code;
}

/* hs__visit_item_fn */
static hs_code add_state(void *user, const hs__save_item *from, hs_error *err)
{
    return add(user, from, false, err);
}

/* Begins a copy on the device. If it has no room, copies to the host. */
static hs_code copy_of_device(const hs__snapshot *snapshot, struct hs__snapshot_item *item, hs_error *err)
{
    const hs_memory *memory = item->value.memory;
    const char *name = (const char *)snapshot->data + item->name;
    hs_code code = memory->duplicate(memory->user, item->value.data, item->value.bytes, &item->block, err);
    item->on_device = !code;
    if (code != HS_RESOURCE_EXHAUSTED && code != HS_UNIMPLEMENTED) {
        if (hs__normalize_error(code, "hs_memory.duplicate", err))
            hs_error_prefix(err, "cannot copy variable '%s'", name);
        return code;
    }
    item->block = hs__realloc(snapshot->env, NULL, item->value.bytes, 1);
    return item->block ? hs__device_read(name, &item->value, item->block, err)
                       : hs__no_memory(err, item->value.bytes, name);
}

/* Copies a deferred variable. The caller holds the lock, which is released during the copying. */
static void copy_item(hs__snapshot *snapshot, struct hs__snapshot_item *item)
{
    hs_error error = {0};
    hs_code code = HS_OK;
    item->state = BEING_COPIED;
    pthread_mutex_unlock(&snapshot->lock);
    if (item->value.memory)
        code = copy_of_device(snapshot, item, &error);
    else
        memcpy(snapshot->data + item->data, item->value.data, item->value.bytes);
    pthread_mutex_lock(&snapshot->lock);
    if (code && !snapshot->error.code) {
        snapshot->error = error;
        snapshot->error.code = code;
    }
    item->state = COPIED;
    atomic_fetch_sub(&snapshot->n_deferred, 1);
    pthread_cond_broadcast(&snapshot->copied);
}

static void finish_item(hs__snapshot *snapshot, struct hs__snapshot_item *item)
{
    pthread_mutex_lock(&snapshot->lock);
    if (item->state == DEFERRED)
        copy_item(snapshot, item);
    while (item->state != COPIED)
        pthread_cond_wait(&snapshot->copied, &snapshot->lock);
    pthread_mutex_unlock(&snapshot->lock);
}

hs_code hs__snapshot_complete(hs__snapshot *snapshot, hs_error *err)
{
    pthread_mutex_lock(&snapshot->lock);
    for (size_t i = 0; i < snapshot->n_variables; i++)
        if (snapshot->items[i].state == DEFERRED)
            copy_item(snapshot, &snapshot->items[i]);
    while (atomic_load(&snapshot->n_deferred))
        pthread_cond_wait(&snapshot->copied, &snapshot->lock);
    hs_code code = hs__error_copy(err, snapshot->error.code ? &snapshot->error : NULL);
    pthread_mutex_unlock(&snapshot->lock);
    return code;
}

/* hs__do_part. The parts share the variables. */
static hs_code complete_part(void *snapshot, size_t worker, size_t part, hs_error *err)
{
    (void)worker, (void)part;
    return hs__snapshot_complete(snapshot, err);
}

/* The copies have begun. Lets the devices finish them before later work of the program. */
static void hold_devices(hs__snapshot *snapshot)
{
    const hs_memory *last = NULL;
    for (size_t i = 0; snapshot->holds && i < snapshot->n_variables; i++) {
        const hs_memory *memory = snapshot->items[i].value.memory;
        if (memory && memory != last && memory->duplicate)
            memory->hold(memory->user);
        last = memory;
    }
    snapshot->holds = false;
}

static void released(void *user)
{
    ((hs__snapshot *)user)->guarded = NULL;
}

static bool before_write(void *user, size_t index)
{
    hs__snapshot *snapshot = user;
    if (atomic_load_explicit(&snapshot->n_deferred, memory_order_acquire)) {
        if (index == HS_ANY_VARIABLE || snapshot->holds)
            hs__snapshot_complete(snapshot, NULL); /* the thread reports the failure */
        else if (index < snapshot->n_item_of && snapshot->item_of[index] != HS__NONE)
            finish_item(snapshot, &snapshot->items[snapshot->item_of[index]]);
        if (atomic_load(&snapshot->n_deferred))
            return true;
    }
    hold_devices(snapshot);
    released(snapshot);
    return false;
}

/* Lets the copies of strings point to the copies of their texts, which no longer move. */
static void point_to_texts(const hs__snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n; i++) {
        const struct hs__snapshot_item *item = &snapshot->items[i];
        hs_string *strings = (hs_string *)(void *)(snapshot->data + item->data);
        const char *text = (const char *)snapshot->data + item->texts;
        for (size_t s = 0; item->value.dtype == HS_STRING && s < item->value.bytes / sizeof *strings; s++) {
            strings[s].data = text;
            text += strings[s].bytes;
        }
    }
}

/* A copy to fresh memory waits for the system, which clears each page. With huge pages it waits less often. */
static void advise_huge_pages(unsigned char *data, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const size_t before_page = (0 - (uintptr_t)data) % (size_t)sysconf(_SC_PAGESIZE);
    if (bytes >= MAPPED)
        madvise(data + before_page, bytes - before_page, MADV_HUGEPAGE);
#else
    (void)data, (void)bytes;
#endif
}

hs_code hs__snapshot_take(hs__snapshot *snapshot, hs__save_list *list, bool later, hs_error *err)
{
    const hs_raw_session *session = list->session;
    const hs__item_source from = hs__save_list_source(list);
    empty(snapshot);
    later &= session->ops.guard != NULL;
    /* allocates all memory at once, because growing doubles it; if that fails, the data grow */
    const uint64_t on_host = from.bytes - list->device_bytes;
    size_t bytes = on_host < SIZE_MAX / 2 ? (size_t)on_host + ROOM_FOR_NAMES : 0;
    if (bytes > snapshot->data_capacity) {
        hs__free(snapshot->env, snapshot->data); /* it is empty: a realloc would copy without need */
        snapshot->data = hs__realloc(snapshot->env, NULL, bytes, 1);
        snapshot->data_capacity = snapshot->data ? bytes : 0;
        advise_huge_pages(snapshot->data, snapshot->data_capacity);
    }
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < from.n; i++) {
        hs__save_item item;
        if (!(code = from.variable(from.self, i, &item, err)))
            code = add(snapshot, &item, later ? item.borrowed : item.stays, err);
    }
    snapshot->n_variables = snapshot->n;
    snapshot->holds = snapshot->device_bytes > 0;
    if (!code && !later) {
        const size_t workers = hs__workers_for(atomic_load(&snapshot->n_deferred), snapshot->bytes);
        code = hs__in_parallel(workers, workers, complete_part, snapshot, err);
        hold_devices(snapshot);
    }
    if (!code && atomic_load(&snapshot->n_deferred)) { /* before the states, whose providers may run something */
        session->ops.guard(session->handle, (hs_write_guard){before_write, released, snapshot});
        snapshot->guarded = session;
    }
    if (!code)
        code = from.visit_states(from.self, add_state, snapshot, err);
    if (code) {
        empty(snapshot);
        return code;
    }
    point_to_texts(snapshot);
    snapshot->meta = from.meta;
    list->meta = (hs_bytes){NULL, 0};
    return HS_OK;
}

hs__save_item hs__snapshot_item(const hs__snapshot *snapshot, size_t at)
{
    const struct hs__snapshot_item *item = &snapshot->items[at];
    hs__save_item out = {.name = (const char *)snapshot->data + item->name,
                         .value = item->value,
                         .slice = item->is_slice ? &item->slice : NULL,
                         .stays = true,
                         .follows = item->follows,
                         .nonfinite = item->nonfinite};
    out.value.data = item->block ? item->block : snapshot->data + item->data;
    out.value.memory = item->on_device ? item->value.memory : NULL;
    return out;
}

/* The source of a save. */

static uint64_t size_of(const void *snapshot, size_t at, bool *follows)
{
    const struct hs__snapshot_item *item = &((const hs__snapshot *)snapshot)->items[at];
    *follows = item->follows;
    return item->value.bytes;
}

static hs_code copied_variable(void *snapshot, size_t at, hs__save_item *item, hs_error *err)
{
    (void)err;
    *item = hs__snapshot_item(snapshot, at);
    return HS_OK;
}

static hs_code visit_states(void *self, hs__visit_item_fn visit, void *user, hs_error *err)
{
    const hs__snapshot *snapshot = self;
    hs_code code = HS_OK;
    for (size_t i = snapshot->n_variables; !code && i < snapshot->n; i++) {
        const hs__save_item item = hs__snapshot_item(snapshot, i);
        code = visit(user, &item, err);
    }
    return code;
}

hs__item_source hs__snapshot_source(hs__snapshot *snapshot)
{
    return (hs__item_source){
        snapshot,        snapshot->n_variables, snapshot->bytes + snapshot->device_bytes, snapshot->meta, size_of,
        copied_variable, visit_states};
}
