/* SPDX-License-Identifier: Apache-2.0 */
/* Copies with hs_memory. A copy in pieces alternates between the two buffers of a staging. */
#include "base/device.h"

#include "base/error.h"
#include "base/tensor.h"

#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static hs_code wait(const hs_memory *memory, const void *host, hs_error *err)
{
    return memory->wait ? hs__normalize_error(memory->wait(memory->user, host, err), "hs_memory.wait", err) : HS_OK;
}

hs_code hs__device_mark(const hs_memory *memory, hs_error *err)
{
    return memory && memory->size >= sizeof *memory && memory->mark
               ? hs__normalize_error(memory->mark(memory->user, err), "hs_memory.mark", err)
               : HS_OK;
}

static hs_code begin_to_host(const hs_memory *memory, void *host, const void *from, size_t bytes, hs_error *err)
{
    return hs__normalize_error(memory->to_host(memory->user, host, from, bytes, err), "hs_memory.to_host", err);
}

static hs_code begin_from_host(const hs_memory *memory, void *to, const void *host, size_t bytes, hs_error *err)
{
    return hs__normalize_error(memory->from_host(memory->user, to, host, bytes, err), "hs_memory.from_host", err);
}

/* Whole tensors. They are copied through a staging, too: a copy from or to other memory than the device's kind allocates
 * may hold the thread, and others that copy, until the device has done its earlier work. */

static hs__staging staging_for(size_t bytes)
{
    return (hs__staging){.env = hs_env_default(),
                         .piece = bytes <= HS__STAGING_SMALL ? HS__STAGING_SMALL : HS__STAGING_PIECE};
}

/* hs__put_fn */
static hs_code copy_piece(void *user, const void *data, size_t bytes, hs_error *err)
{
    char **to = user;
    (void)err;
    if (bytes)
        memcpy(*to, data, bytes);
    *to += bytes;
    return HS_OK;
}

hs_code hs__device_read(const char *name, const hs_tensor *tensor, void *host, hs_error *err)
{
    hs__staging staging = staging_for(tensor->bytes);
    hs_code code = hs__tensor_put(name, tensor, &staging, copy_piece, &host, err);
    hs__staging_free(&staging);
    return code;
}

/* Marks before a tensor of the caller is read. */
static hs_code mark_to_read(const hs_memory *memory, hs_error *err)
{
    if (memory->size < sizeof *memory || !memory->to_host)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tensor's memory needs HS_INIT(hs_memory, ...) and to_host");
    return hs__device_mark(memory, err);
}

hs_code hs__tensor_to_host(const char *name, const hs_tensor *tensor, void *host, hs_error *err)
{
    hs_code code = mark_to_read(tensor->memory, err);
    return code ? code : hs__device_read(name, tensor, host, err);
}

hs_code hs__tensor_from_host(const hs_tensor *to, const void *host, hs_error *err)
{
    hs__staging staging = staging_for(to->bytes);
    hs_code code = hs__device_mark(to->memory, err);
    if (code)
        return code;
    hs__staging_begin(&staging, to->memory, to->data);
    code = hs__staging_end(&staging, hs__staging_put(&staging, host, to->bytes, err), err);
    hs__staging_free(&staging);
    return code;
}

hs_code hs__tensor_restore(const hs_tensor *to, const hs_tensor *copy, hs_error *err)
{
    const hs_memory *memory = to->memory;
    if (memory != copy->memory)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "its copy is in the memory of another device");
    hs_code code = hs__device_mark(memory, err);
    return code ? code
                : hs__normalize_error(memory->restore(memory->user, to->data, copy->data, to->bytes, err),
                                      "hs_memory.restore", err);
}

hs_code hs__tensor_clear(const hs_tensor *to, hs_error *err)
{
    static const char zeros[4096];
    hs__staging staging = staging_for(to->bytes);
    hs_code code = hs__device_mark(to->memory, err);
    if (code)
        return code;
    hs__staging_begin(&staging, to->memory, to->data);
    for (size_t at = 0; !code && at < to->bytes; at += sizeof zeros)
        code = hs__staging_put(&staging, zeros, smaller(to->bytes - at, sizeof zeros), err);
    code = hs__staging_end(&staging, code, err);
    hs__staging_free(&staging);
    return code;
}

hs_code hs_tensor_host(const hs_tensor *tensor, hs_host_copy *copy, hs_tensor *host, hs_error *err)
{
    hs__clear(err);
    if (!tensor || !host || (tensor->memory && !copy))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensor_host: tensor, copy or host is NULL");
    if (!tensor->memory) {
        *host = *tensor;
        return HS_OK;
    }
    if (tensor->bytes > copy->capacity) {
        hs_host_copy_free(copy);
        copy->data = hs_env_alloc(copy->env, tensor->bytes);
        if (!copy->data)
            return hs__no_memory(err, tensor->bytes, "a copy of device memory");
        copy->capacity = tensor->bytes;
    }
    hs_code code = hs__tensor_to_host(NULL, tensor, copy->data, err);
    if (code)
        return code;
    *host = *tensor;
    host->memory = NULL;
    host->data = copy->data;
    return HS_OK;
}

void hs_host_copy_free(hs_host_copy *copy)
{
    if (!copy)
        return;
    hs_env_free(copy->env, copy->data);
    copy->data = NULL;
    copy->capacity = 0;
}

/* Pieces. */

static void free_buffer(hs__staging *staging, size_t i)
{
    const hs_memory *memory = staging->memory;
    if (staging->is_pinned[i])
        memory->free_host(memory->user, staging->buffers[i]);
    else
        hs__free(staging->env, staging->buffers[i]);
    staging->buffers[i] = NULL;
    staging->is_pinned[i] = false;
    staging->bytes[i] = 0;
}

void hs__staging_free(hs__staging *staging)
{
    for (size_t i = 0; staging->memory && i < HS__STAGING_BUFFERS; i++)
        free_buffer(staging, i);
    staging->memory = NULL;
}

/* Makes buffer `i` hold `bytes`, at most those of a piece. The system limits pinned memory: other memory is slower. */
static hs_code reserve(hs__staging *staging, const hs_memory *memory, size_t i, size_t bytes, hs_error *err)
{
    if (staging->memory != memory)
        hs__staging_free(staging);
    staging->memory = memory;
    if (bytes <= staging->bytes[i])
        return HS_OK;
    free_buffer(staging, i);
    const size_t size = bytes <= HS__STAGING_SMALL ? HS__STAGING_SMALL : staging->piece;
    staging->is_pinned[i] = memory->allocate_host && !memory->allocate_host(memory->user, size, &staging->buffers[i], NULL);
    if (!staging->is_pinned[i] && !(staging->buffers[i] = hs__realloc(staging->env, NULL, size, 1)))
        return hs__no_memory(err, size, "a copy of device memory");
    staging->bytes[i] = size;
    return HS_OK;
}

/* After a failure: a copy may be in progress, and its buffer is used or freed next. */
static void drain(const hs__staging *staging)
{
    for (size_t i = 0; i < HS__STAGING_BUFFERS; i++)
        if (staging->buffers[i])
            wait(staging->memory, staging->buffers[i], NULL);
}

hs_code hs__tensor_put(const char *name, const hs_tensor *tensor, hs__staging *staging, hs__put_fn put, void *user,
                       hs_error *err)
{
    const hs_memory *memory = tensor->memory;
    if (!memory || !tensor->bytes)
        return put(user, tensor->data, tensor->bytes, err);
    const size_t piece = staging->piece, n = (tensor->bytes + piece - 1) / piece;
    hs_code code = HS_OK, put_code = HS_OK;
    for (size_t i = 0; !code && !put_code && i <= n; i++) {
        const size_t now = i % HS__STAGING_BUFFERS, before = (i + 1) % HS__STAGING_BUFFERS;
        const size_t bytes = i < n ? smaller(tensor->bytes - i * piece, piece) : 0;
        if (bytes && !(code = reserve(staging, memory, now, bytes, err)))
            code = begin_to_host(memory, staging->buffers[now], (const char *)tensor->data + i * piece, bytes, err);
        if (i && !code && !(code = wait(memory, staging->buffers[before], err)))
            put_code = put(user, staging->buffers[before], smaller(tensor->bytes - (i - 1) * piece, piece), err);
    }
    if (code && name)
        hs_error_prefix(err, "cannot read variable '%s'", name);
    if (code || put_code)
        drain(staging);
    return code ? code : put_code;
}

hs_code hs__tensor_read(const hs_tensor *tensor, const hs_env *env, hs__put_fn put, void *user, hs_error *err)
{
    hs__staging staging = {.env = env, .piece = HS__STAGING_PIECE};
    hs_code code = hs_tensor_check(tensor, err);
    if (!code && tensor->memory)
        code = mark_to_read(tensor->memory, err);
    if (!code)
        code = hs__tensor_put(NULL, tensor, &staging, put, user, err);
    hs__staging_free(&staging);
    return code;
}

/* The numbers that are not finite in the pieces so far. */
typedef struct {
    hs_nonfinite found;
    hs_dtype dtype;
    uint64_t bytes;
} counted;

/* hs__put_fn */
static hs_code count_piece(void *user, const void *data, size_t bytes, hs_error *err)
{
    counted *c = user;
    (void)err;
    hs__add_nonfinite(&c->found, c->dtype, data, c->bytes, bytes);
    c->bytes += bytes;
    return HS_OK;
}

hs_code hs__device_nonfinite(const hs_tensor *tensor, const hs_env *env, hs_nonfinite *found, hs_error *err)
{
    const hs_memory *memory = tensor->memory;
    counted pieces = {.found = {.first_index = -1}, .dtype = tensor->dtype};
    hs_code code = mark_to_read(memory, err);
    if (code || (memory->count_nonfinite &&
                 !memory->count_nonfinite(memory->user, tensor->data, tensor->bytes, tensor->dtype, found, NULL)))
        return code;
    code = hs__tensor_read(tensor, env, count_piece, &pieces, err);
    *found = pieces.found;
    return code;
}

void hs__staging_begin(hs__staging *staging, const hs_memory *memory, void *to)
{
    if (staging->memory != memory)
        hs__staging_free(staging);
    staging->memory = memory;
    staging->to = to;
    staging->filling = staging->used = 0;
}

/* Begins to copy the filled part of a buffer. */
static hs_code flush(hs__staging *staging, hs_error *err)
{
    hs_code code = staging->used ? begin_from_host(staging->memory, staging->to, staging->buffers[staging->filling],
                                                   staging->used, err)
                                 : HS_OK;
    staging->to += staging->used;
    staging->used = 0;
    staging->filling = (staging->filling + 1) % HS__STAGING_BUFFERS;
    return code;
}

hs_code hs__staging_put(void *user, const void *data, size_t bytes, hs_error *err)
{
    hs__staging *staging = user;
    hs_code code = HS_OK;
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        const size_t at = staging->filling;
        n = smaller(bytes - done, staging->piece - staging->used);
        if (!staging->used && ((code = reserve(staging, staging->memory, at, staging->piece, err)) ||
                               (code = wait(staging->memory, staging->buffers[at], err))))
            return code;
        memcpy((char *)staging->buffers[at] + staging->used, (const char *)data + done, n);
        staging->used += n;
        if (staging->used == staging->piece)
            code = flush(staging, err);
    }
    return code;
}

hs_code hs__staging_end(hs__staging *staging, hs_code code, hs_error *err)
{
    if (!code)
        code = flush(staging, err);
    for (size_t i = 0; i < HS__STAGING_BUFFERS; i++) {
        hs_code waited = staging->buffers[i] ? wait(staging->memory, staging->buffers[i], code ? NULL : err) : HS_OK;
        code = code ? code : waited;
    }
    return code;
}
