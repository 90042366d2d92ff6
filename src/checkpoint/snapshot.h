/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SNAPSHOT_H
#define HS_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/save_list.h"

#include <pthread.h>
#include <stdatomic.h>

/* A copy of what is to be saved. Its memory is used again for the next one.
 *
 * Where it may, it leaves large variables for later: they are copied by whoever completes the image, in another thread, or
 * by the thread that runs the session, as soon as it comes to change one (hs_write_guard). */
typedef struct hs__image {
    const hs_env *env;
    struct hs__image_item *items;
    size_t n, capacity, n_variables;   /* the variables come first */
    size_t *item_of, item_of_capacity; /* by the variable's index in the backend, while some are left; HS__NONE: none */
    size_t n_item_of;
    unsigned char *data;
    size_t bytes, data_capacity;
    hs_bytes meta;                 /* the graph; data NULL: none */
    const hs_raw_session *guarded; /* the session that has its guard; NULL: none */

    pthread_mutex_t lock;
    pthread_cond_t copied;
    atomic_size_t left; /* variables that are not copied yet; with the items' states, under the lock */
} hs__image;

/* 0, or the error's number. */
int hs__image_init(hs__image *image, const hs_env *env);
void hs__image_free(hs__image *image);

typedef struct hs__image_options {
    bool meta;    /* the graph too */
    bool overlap; /* leave large variables for later, if the backend has guards */
} hs__image_options;

hs_code hs__image_take(hs__image *image, const hs_saver *saver, const hs_raw_session *session,
                       const hs__image_options *options, hs_error *err);
/* Copies what is left, or waits for whoever does. */
void hs__image_complete(hs__image *image);

/* As hs__variable_sizes, hs__each_variable and hs__each_state. What they give stays while the image is as it is. */
hs_code hs__image_sizes(const hs__image *image, hs__dealt **sizes, size_t *n, hs_error *err);
hs_code hs__image_each_variable(const hs__image *image, hs__take_fn take, void *user, hs_error *err);
hs_code hs__image_each_state(const hs__image *image, hs__take_fn take, void *user, hs_error *err);

#endif
