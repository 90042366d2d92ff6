/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SOURCE_H
#define HS_CHECKPOINT_SOURCE_H

#include "checkpoint/saver.h"

/* What is saved of a session, one after the other: as it is, or as it was when an image was taken of it. */

/* Takes one tensor, in host memory, which is good during the call. What it returns other than HS_OK ends it. */
typedef hs_code (*hs__take_fn)(void *user, const char *name, const hs_tensor *value, hs_error *err);

hs_code hs__each_variable(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user,
                          hs_error *err);
hs_code hs__each_state(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user, hs_error *err);
/* How many bytes the variables have. */
uint64_t hs__variable_bytes(const hs_saver *saver, const hs_raw_session *session);

/* A copy of it all. Its memory is used again for the next one. */
typedef struct hs__image {
    const hs_env *env;
    struct hs__image_item *items;
    size_t n, capacity, n_variables; /* the variables come first */
    unsigned char *data;
    size_t bytes, data_capacity;
    hs_bytes meta; /* the graph; data NULL: none */
} hs__image;

void hs__image_init(hs__image *image, const hs_env *env);
void hs__image_free(hs__image *image);
hs_code hs__image_take(hs__image *image, const hs_saver *saver, const hs_raw_session *session, bool with_meta,
                       hs_error *err);
hs_code hs__image_each_variable(const hs__image *image, hs__take_fn take, void *user, hs_error *err);
hs_code hs__image_each_state(const hs__image *image, hs__take_fn take, void *user, hs_error *err);

#endif
