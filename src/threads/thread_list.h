/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_THREAD_LIST_H
#define HS_THREADS_THREAD_LIST_H

#include <hooksess/coordinator.h>

#include "base/env.h"

#include <stdatomic.h>

/* Threads that are registered. The first n of a list stay as they are while it lives, so that who joins can keep it and
 * look through them without a lock and without memory of its own, whatever is registered meanwhile. Each thread in it is
 * counted.
 */
typedef struct hs__thread_list {
    atomic_size_t references;
    size_t n, capacity;
    hs_thread *items[];
} hs__thread_list;

/* Appends a thread that is not in it, under the lock of whoever owns *list (NULL: an empty one). *old, if it is not NULL,
 * is to be released without that lock, which the end of a thread may need. */
hs_code hs__list_add(const hs_env *env, hs__thread_list **list, hs_thread *thread, hs__thread_list **old, hs_error *err);
bool hs__list_has(const hs__thread_list *list, const hs_thread *thread);
/* May be NULL, too. */
hs__thread_list *hs__list_retain(hs__thread_list *list);
void hs__list_release(const hs_env *env, hs__thread_list *list);

#endif
