/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of what is to be saved. */
#include "checkpoint/snapshot.h"

#include <string.h>

/* Smaller ones are copied at once: that costs less than to ask for them later. */
enum { LARGE = 1 << 16 };

/* The names of some thousand variables, and their alignment. */
enum { ROOM_FOR_NAMES = 1 << 20 };

typedef enum { LEFT, BEING_COPIED, COPIED } item_state;

struct hs__image_item {
    size_t name, data, texts; /* where they are in the image's data; what strings point to lies together */
    hs_tensor value;          /* its data is the variable's memory, until it is copied */
    bool is_part, follows, nonfinite;
    hs_variable_slice slice; /* its name is the image's */
    item_state state;
};

int hs__image_init(hs__image *image, const hs_env *env)
{
    *image = (hs__image){.env = env};
    atomic_init(&image->left, 0);
    int result = pthread_mutex_init(&image->lock, NULL);
    if (!result && (result = pthread_cond_init(&image->copied, NULL)))
        pthread_mutex_destroy(&image->lock);
    return result;
}

static void free_meta(hs__image *image)
{
    hs_env_free(image->env, (void *)image->meta.data);
    image->meta = (hs_bytes){NULL, 0};
}

static void take_guard_away(hs__image *image);

void hs__image_free(hs__image *image)
{
    take_guard_away(image);
    free_meta(image);
    hs__free(image->env, image->items);
    hs__free(image->env, image->item_of);
    hs__free(image->env, image->data);
    pthread_cond_destroy(&image->copied);
    pthread_mutex_destroy(&image->lock);
}

static hs_code reserve(hs__image *image, size_t bytes, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    size_t at = (image->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > SIZE_MAX - at)
        return hs__no_memory(err, bytes, "a copy of the state");
    image->bytes = at;
    return hs__reserve(image->env, &image->data, &image->data_capacity, at + bytes, 1, err);
}

/* Appends room, aligned, and says where it is. */
static hs_code make_room(hs__image *image, size_t bytes, size_t *at, hs_error *err)
{
    hs_code code = reserve(image, bytes, err);
    if (code)
        return code;
    *at = image->bytes;
    image->bytes += bytes;
    return HS_OK;
}

/* The same with a copy in it. */
static hs_code put(hs__image *image, const void *data, size_t bytes, size_t *at, hs_error *err)
{
    hs_code code = make_room(image, bytes, at, err);
    if (!code && bytes)
        memcpy(image->data + *at, data, bytes);
    return code;
}

/* Bytes that come piece by piece. */

static hs_code append_piece(void *user, const void *data, size_t bytes, hs_error *err)
{
    hs__image *image = user;
    if (bytes > SIZE_MAX - image->bytes)
        return hs__no_memory(err, bytes, "a copy of the state");
    hs_code code = hs__reserve(image->env, &image->data, &image->data_capacity, image->bytes + bytes, 1, err);
    if (!code && bytes)
        memcpy(image->data + image->bytes, data, bytes);
    image->bytes += code ? 0 : bytes;
    return code;
}

static hs_code put_produced(hs__image *image, const hs__saved *saved, struct hs__image_item *item, hs_error *err)
{
    hs_code code = make_room(image, 0, &item->data, err);
    if (!code)
        code = saved->produce(saved->source, append_piece, image, err);
    item->value.bytes = image->bytes - item->data;
    item->value.dims[0] = (int64_t)item->value.bytes;
    return code;
}

static hs_code put_texts(hs__image *image, const hs_tensor *value, size_t *at, hs_error *err)
{
    const hs_string *strings = value->data;
    hs__buffer texts;
    hs__buffer_init(&texts, image->env);
    for (size_t i = 0; i < value->bytes / sizeof *strings; i++)
        hs__buffer_append(&texts, strings[i].data, strings[i].bytes);
    hs_code code = hs__buffer_check(&texts, "a copy of strings", err);
    if (!code)
        code = put(image, texts.data, texts.size, at, err);
    hs__buffer_free(&texts);
    return code;
}

/* Leaves a variable for later. */
static hs_code leave(hs__image *image, const hs__saved *saved, hs_error *err)
{
    hs_code code = hs__reserve(image->env, &image->item_of, &image->item_of_capacity, saved->variable + 1,
                               sizeof *image->item_of, err);
    if (code)
        return code;
    while (image->n_item_of <= saved->variable)
        image->item_of[image->n_item_of++] = HS__NONE;
    image->item_of[saved->variable] = image->n;
    atomic_fetch_add(&image->left, 1);
    return HS_OK;
}

typedef struct {
    hs__image *image;
    bool overlap;
} taking;

static hs_code add(void *user, const hs__saved *saved, hs_error *err)
{
    const taking *t = user;
    hs__image *image = t->image;
    const hs_tensor *value = &saved->value;
    struct hs__image_item item = {.value = *value,
                                  .state = COPIED,
                                  .is_part = saved->slice != NULL,
                                  .follows = saved->follows,
                                  .nonfinite = saved->nonfinite};
    if (saved->slice)
        item.slice = *saved->slice;
    hs_code code = hs__reserve(image->env, &image->items, &image->capacity, image->n + 1, sizeof *image->items, err);
    if (code || (code = put(image, saved->name, strlen(saved->name) + 1, &item.name, err)))
        return code;
    if (t->overlap && saved->lent && !saved->moves && value->bytes >= LARGE) {
        item.state = LEFT;
        if ((code = make_room(image, value->bytes, &item.data, err)) || (code = leave(image, saved, err)))
            return code;
    } else if (saved->produce) {
        if ((code = put_produced(image, saved, &item, err)))
            return code;
    } else if ((code = put(image, value->data, value->bytes, &item.data, err)) ||
               (value->dtype == HS_STRING && (code = put_texts(image, value, &item.texts, err)))) {
        return code;
    }
    image->items[image->n++] = item;
    return code;
}

/* Copying what was left. The lock is held, but for the copying itself. */
static void copy_item(hs__image *image, struct hs__image_item *item)
{
    item->state = BEING_COPIED;
    pthread_mutex_unlock(&image->lock);
    memcpy(image->data + item->data, item->value.data, item->value.bytes);
    pthread_mutex_lock(&image->lock);
    item->state = COPIED;
    atomic_fetch_sub(&image->left, 1);
    pthread_cond_broadcast(&image->copied);
}

static void settle_item(hs__image *image, struct hs__image_item *item)
{
    pthread_mutex_lock(&image->lock);
    if (item->state == LEFT)
        copy_item(image, item);
    while (item->state != COPIED)
        pthread_cond_wait(&image->copied, &image->lock);
    pthread_mutex_unlock(&image->lock);
}

void hs__image_complete(hs__image *image)
{
    if (!atomic_load(&image->left))
        return;
    pthread_mutex_lock(&image->lock);
    for (size_t i = 0; i < image->n_variables; i++)
        if (image->items[i].state == LEFT)
            copy_item(image, &image->items[i]);
    while (atomic_load(&image->left))
        pthread_cond_wait(&image->copied, &image->lock);
    pthread_mutex_unlock(&image->lock);
}

static void released(void *user)
{
    ((hs__image *)user)->guarded = NULL;
}

static bool before_write(void *user, size_t index)
{
    hs__image *image = user;
    if (!atomic_load_explicit(&image->left, memory_order_acquire)) {
        released(image);
        return false;
    }
    if (index == HS_ANY_VARIABLE)
        hs__image_complete(image);
    else if (index < image->n_item_of && image->item_of[index] != HS__NONE)
        settle_item(image, &image->items[image->item_of[index]]);
    if (atomic_load(&image->left))
        return true;
    released(image);
    return false;
}

/* Guards are set and taken away by the thread that runs the session. */
static void take_guard_away(hs__image *image)
{
    const hs_raw_session *session = image->guarded;
    if (session)
        session->ops.guard(session->handle, (hs_write_guard){NULL, NULL, NULL});
    image->guarded = NULL;
}

static hs_code take_meta(hs__image *image, const hs_saver *saver, const hs_raw_session *session, hs_error *err)
{
    hs_bytes meta;
    hs_code code = hs_backend_export_meta_graph(session->backend, saver, &meta, err);
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK; /* a backend without a graph to show */
    }
    if (code)
        return code;
    void *copy = hs__alloc(image->env, meta.size, 1);
    if (copy) {
        memcpy(copy, meta.data, meta.size);
        image->meta = (hs_bytes){copy, meta.size};
    }
    hs_env_free(hs_backend_env(session->backend), (void *)meta.data);
    return copy ? HS_OK : hs__no_memory(err, meta.size, "a copy of the graph");
}

static void forget(hs__image *image)
{
    take_guard_away(image);
    image->n = image->n_variables = image->n_item_of = image->bytes = 0;
    atomic_store(&image->left, 0);
    free_meta(image);
}

/* As much as will be needed, and no more: growing doubles. Without it, it grows. */
static void reserve_at_once(hs__image *image, size_t bytes)
{
    if (bytes <= image->data_capacity)
        return;
    hs__free(image->env, image->data); /* nothing is in it, and nothing is to be copied */
    image->data = hs__realloc(image->env, NULL, bytes, 1);
    image->data_capacity = image->data ? bytes : 0;
}

hs_code hs__image_take(hs__image *image, const hs_saver *saver, const hs_raw_session *session,
                       const hs__image_options *options, hs_error *err)
{
    forget(image);
    taking t = {image, options->overlap && session->ops.guard};
    uint64_t bytes = hs__expected_bytes(saver, session);
    if (bytes < SIZE_MAX / 2)
        reserve_at_once(image, (size_t)bytes + ROOM_FOR_NAMES);
    hs_code code = hs__each_variable(saver, session, add, &t, err);
    image->n_variables = image->n;
    if (!code && atomic_load(&image->left)) { /* now: a provider of state may run something */
        session->ops.guard(session->handle, (hs_write_guard){before_write, released, image});
        image->guarded = session;
    }
    if (!code)
        code = hs__each_state(saver, session, add, &t, err);
    if (!code && options->meta)
        code = take_meta(image, saver, session, err);
    if (code)
        forget(image);
    return code;
}

hs_code hs__image_sizes(const hs__image *image, hs__dealt **sizes, size_t *n, hs_error *err)
{
    *n = image->n_variables;
    *sizes = hs__alloc(image->env, *n, sizeof **sizes);
    if (!*sizes)
        return hs__no_memory(err, *n * sizeof **sizes, "the sizes of variables");
    for (size_t i = 0; i < *n; i++)
        (*sizes)[i] = (hs__dealt){image->items[i].value.bytes, image->items[i].follows};
    return HS_OK;
}

/* Lets the copies of strings point to the copies of their texts, wherever these are by now. */
static void point_to_texts(const hs_tensor *value, const unsigned char *text)
{
    hs_string *strings = value->data;
    for (size_t i = 0; i < value->bytes / sizeof *strings; i++) {
        strings[i].data = (const char *)text;
        text += strings[i].bytes;
    }
}

static hs_code each(const hs__image *image, size_t from, size_t to, hs__take_fn take, void *user, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = from; !code && i < to; i++) {
        const struct hs__image_item *item = &image->items[i];
        const char *name = (const char *)image->data + item->name;
        hs__saved saved = {.name = name,
                           .value = item->value,
                           .slice = item->is_part ? &item->slice : NULL,
                           .variable = HS__NONE,
                           .follows = item->follows,
                           .nonfinite = item->nonfinite};
        saved.value.data = image->data + item->data;
        saved.value.memory = NULL;
        if (saved.value.dtype == HS_STRING)
            point_to_texts(&saved.value, image->data + item->texts);
        code = take(user, &saved, err);
    }
    return code;
}

hs_code hs__image_each_variable(const hs__image *image, hs__take_fn take, void *user, hs_error *err)
{
    return each(image, 0, image->n_variables, take, user, err);
}

hs_code hs__image_each_state(const hs__image *image, hs__take_fn take, void *user, hs_error *err)
{
    return each(image, image->n_variables, image->n, take, user, err);
}
