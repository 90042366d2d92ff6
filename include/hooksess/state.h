/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_STATE_H
#define HOOKSESS_STATE_H

#include <hooksess/status.h>

/* State that rides in the checkpoint beside the variables: a position in the data, a random number generator, what a hook
 * remembers. It is written with every checkpoint and read back when one is restored, before the first step.
 *
 * In the file it is a vector of uint8 under the reserved prefix "hooksess/", so that TensorFlow can list it. What is
 * written is what is read: bytes, in the order in which they were written, on a machine of the same byte order. */

HS_BEGIN_DECLS

typedef struct hs_state_writer hs_state_writer;
typedef struct hs_state_reader hs_state_reader;

/* Appends bytes (copied). HS_RESOURCE_EXHAUSTED. After a failure further writes fail too. */
HS_API hs_code hs_state_write(hs_state_writer *out, const void *data, size_t bytes, hs_error *err);

/* The next bytes. HS_DATA_LOSS if fewer are left; then nothing is copied. */
HS_API hs_code hs_state_read(hs_state_reader *in, void *data, size_t bytes, hs_error *err);

/* How many bytes are left. */
HS_API size_t hs_state_left(const hs_state_reader *in);

/* A save that fails makes the checkpoint fail. A load that fails, or leaves bytes unread, makes the restore fail. */
typedef hs_code (*hs_save_state_fn)(void *self, hs_state_writer *out, hs_error *err);
typedef hs_code (*hs_load_state_fn)(void *self, hs_state_reader *in, hs_error *err);

/* One piece of state. A checkpoint that has none of this name is restored without it, with a line in the log. */
typedef struct hs_state_provider {
    size_t size;
    const char *name; /* unique among the providers of its backend */
    hs_save_state_fn save;
    hs_load_state_fn load;
    void *self;
} hs_state_provider;

#define HS_STATE_PROVIDER .size = sizeof(hs_state_provider)

HS_END_DECLS

#endif
