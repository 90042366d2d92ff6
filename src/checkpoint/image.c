/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of what is to be saved. */
#include "checkpoint/source.h"

#include <string.h>

struct hs__image_item {
    size_t name, data; /* where they are in the image's data */
    hs_tensor value;   /* without its data */
};

void hs__image_init(hs__image *image, const hs_env *env)
{
    *image = (hs__image){.env = env};
}

static void free_meta(hs__image *image)
{
    hs_env_free(image->env, (void *)image->meta.data);
    image->meta = (hs_bytes){NULL, 0};
}

void hs__image_free(hs__image *image)
{
    free_meta(image);
    hs__free(image->env, image->items);
    hs__free(image->env, image->data);
    hs__image_init(image, image->env);
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

static hs_code add(void *user, const char *name, const hs_tensor *value, hs_error *err)
{
    hs__image *image = user;
    size_t length = strlen(name) + 1;
    hs_code code = hs__reserve(image->env, &image->items, &image->capacity, image->n + 1, sizeof *image->items, err);
    if (code || (code = reserve(image, length, err)))
        return code;
    struct hs__image_item item = {.name = image->bytes, .value = *value};
    memcpy(image->data + image->bytes, name, length);
    image->bytes += length;
    if ((code = reserve(image, value->bytes, err)))
        return code;
    item.data = image->bytes;
    if (value->bytes)
        memcpy(image->data + image->bytes, value->data, value->bytes);
    image->bytes += value->bytes;
    image->items[image->n++] = item;
    return HS_OK;
}

static hs_code take_meta(hs__image *image, const hs_saver *saver, const hs_raw_session *session, hs_error *err)
{
    hs_bytes meta;
    hs_code code = hs_export_meta_graph(session->backend, saver, &meta, err);
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

hs_code hs__image_take(hs__image *image, const hs_saver *saver, const hs_raw_session *session, bool with_meta,
                       hs_error *err)
{
    image->n = image->n_variables = image->bytes = 0;
    free_meta(image);
    uint64_t bytes = hs__variable_bytes(saver, session); /* at once, so that it need not grow */
    hs_code code = bytes < SIZE_MAX / 2 ? reserve(image, (size_t)bytes, err) : HS_OK;
    if (code || (code = hs__each_variable(saver, session, add, image, err)))
        return code;
    image->n_variables = image->n;
    if (!(code = hs__each_state(saver, session, add, image, err)) && with_meta)
        code = take_meta(image, saver, session, err);
    return code;
}

static hs_code each(const hs__image *image, size_t from, size_t to, hs__take_fn take, void *user, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = from; !code && i < to; i++) {
        hs_tensor value = image->items[i].value;
        value.data = image->data + image->items[i].data;
        value.memory = NULL;
        code = take(user, (const char *)image->data + image->items[i].name, &value, err);
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
