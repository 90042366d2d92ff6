/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_DEVICE_H
#define HS_BASE_DEVICE_H

#include <hooksess/tensor.h>

#include "base/env.h"
#include "base/state.h"

/* Copies between the host and the memory of a device (hs_memory): whole tensors, and tensors in pieces. */

/* Fetched values up to this size are copied as a whole, once for all hooks of a run. Of larger ones, a hook copies only
 * the elements that it needs. */
enum { HS__SHARED_COPY = 1 << 16 };

/* Lets the next copies wait for the work that the program has enqueued. `memory` NULL: does nothing. */
hs_code hs__device_mark(const hs_memory *memory, hs_error *err);

/* Copy a whole tensor, and return when the copy is finished. The first one marks, the second one does not. `name`, of a
 * variable, is for the message; NULL: none. */
hs_code hs__tensor_to_host(const char *name, const hs_tensor *tensor, void *host, hs_error *err);
hs_code hs__device_read(const char *name, const hs_tensor *tensor, void *host, hs_error *err);
/* Copies to a tensor on a device, behind the work of the program. */
hs_code hs__tensor_from_host(const hs_tensor *to, const void *host, hs_error *err);
/* Begins to set a tensor on a device to a copy that hs_memory.duplicate has made there, behind the work of the program, and
 * ahead of its later work. INVALID_ARGUMENT: the copy is in other memory. */
hs_code hs__tensor_restore(const hs_tensor *to, const hs_tensor *copy, hs_error *err);
/* Sets the bytes of a tensor on a device to zero, behind the work of the program. */
hs_code hs__tensor_clear(const hs_tensor *to, hs_error *err);

/* Host memory for copies in pieces: while the device copies one, the caller uses the other. Initialize it with env and
 * piece. Free it in any case. */
enum { HS__STAGING_PIECE = 8 << 20, HS__STAGING_SMALL = 1 << 18, HS__STAGING_BUFFERS = 2 };

typedef struct hs__staging {
    const hs_env *env;
    size_t piece;            /* the largest size of a buffer: whole elements of each dtype */
    const hs_memory *memory; /* whose buffers these are; NULL: no buffers yet */
    void *buffers[HS__STAGING_BUFFERS];
    size_t bytes[HS__STAGING_BUFFERS];
    bool is_pinned[HS__STAGING_BUFFERS]; /* by memory->allocate_host */
    /* of a tensor that is written in pieces */
    char *to;             /* where the buffer that is filled goes to */
    size_t filling, used; /* its index, and its bytes */
} hs__staging;

void hs__staging_free(hs__staging *staging);

/* Calls `put` with the bytes of a tensor of numbers: once, or for memory of a device with pieces of whole elements. Does
 * not mark. `name`, of a variable, is for the message; NULL: none. */
hs_code hs__tensor_put(const char *name, const hs_tensor *tensor, hs__staging *staging, hs__put_fn put, void *user,
                       hs_error *err);

/* The same for a tensor of the program, which is first checked: marks, and allocates pieces by `env`. */
hs_code hs__tensor_read(const hs_tensor *tensor, const hs_env *env, hs__put_fn put, void *user, hs_error *err);
/* Counts the numbers of a tensor on a device that are not finite, behind the work of the program: there, or on the host in
 * pieces. `env` allocates them. */
hs_code hs__device_nonfinite(const hs_tensor *tensor, const hs_env *env, hs_nonfinite *found, hs_error *err);

/* Write the memory of a device one piece after the other: begin, which does not mark; the pieces; end, in any case, which
 * waits for the copies. */
void hs__staging_begin(hs__staging *staging, const hs_memory *memory, void *to);
/* hs__put_fn */
hs_code hs__staging_put(void *staging, const void *data, size_t bytes, hs_error *err);
hs_code hs__staging_end(hs__staging *staging, hs_code code, hs_error *err);

#endif
