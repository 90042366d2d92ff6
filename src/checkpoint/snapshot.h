/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SNAPSHOT_H
#define HS_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/save_list.h"

#include <pthread.h>
#include <stdatomic.h>

/* A copy in memory of what a save writes. Its memory is reused for the next one.
 *
 * Some variables are copied later (deferred): by the thread that completes the snapshot, or by the session's thread
 * immediately before it changes one of them (hs_write_guard). Variables on a device are then copied on the device, or to
 * the host if it has no room. The session's thread never waits for a copy on the device: the device's later work does. */
typedef struct hs__snapshot {
    const hs_env *env;
    struct hs__snapshot_item *items;
    size_t n, capacity, n_variables;   /* the variables come first */
    size_t *item_of, item_of_capacity; /* by index in the backend: the item of a deferred variable, or HS__NONE */
    size_t n_item_of;
    unsigned char *data;
    size_t bytes, data_capacity;
    uint64_t device_bytes;         /* of deferred variables on devices, which are not in `data` */
    bool holds;                    /* devices do not yet hold back the program's work; of the session's thread */
    hs_error error;                /* the first failure of copying a deferred variable; changed under the lock */
    hs_bytes meta;                 /* the graph; data NULL: none */
    const hs_raw_session *guarded; /* the session whose write guard this is; NULL: none */

    pthread_mutex_t lock;
    pthread_cond_t copied;
    atomic_size_t n_deferred; /* variables that are not copied yet; changed under the lock, as the items' states are */
} hs__snapshot;

/* Returns 0 or an error number. */
int hs__snapshot_init(hs__snapshot *snapshot, const hs_env *env);
void hs__snapshot_free(hs__snapshot *snapshot);

/* Copies the variables and states of the list, and adopts its graph; both have the same env. Copies on devices are begun.
 * `later`: variables on devices and large ones are deferred, if the backend has write guards. On failure the snapshot is
 * empty. */
hs_code hs__snapshot_take(hs__snapshot *snapshot, hs__save_list *list, bool later, hs_error *err);
/* Copies the deferred variables, or waits until another thread has. Fails if one could not be copied. */
hs_code hs__snapshot_complete(hs__snapshot *snapshot, hs_error *err);
/* Frees the copies of variables on devices. The snapshot cannot be read any more. */
void hs__snapshot_release(hs__snapshot *snapshot);
/* The item of that index. The snapshot must be complete, as for its source. Valid until it changes. */
hs__save_item hs__snapshot_item(const hs__snapshot *snapshot, size_t at);
hs__item_source hs__snapshot_source(hs__snapshot *snapshot);

#endif
