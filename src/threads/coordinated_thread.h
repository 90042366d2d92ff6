/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATED_THREAD_H
#define HS_THREADS_COORDINATED_THREAD_H

#include <hooksess/coordinator.h>

#include "base/env.h"

#include <stdatomic.h>

/* A thread is counted: by its handle, by itself while it is alive, and by every list that it is in. Locks are taken in this
 * order: a thread's, then its coordinator's; never two threads'. */

/* `release`, if given, frees options->user when the last one has let go of the thread, in whose thread that may be; not if
 * this fails. `default_env` is for options without one. */
hs_thread *hs__thread_new(const hs_thread_options *options, const hs_env *default_env, void (*release)(void *user),
                          hs_error *err);
void *hs__thread_user(const hs_thread *thread);
bool hs__thread_was_started(const hs_thread *thread);
hs_thread *hs__thread_retain(hs_thread *thread);
void hs__thread_release(hs_thread *thread);
/* Calls the thread's function for that, unless it has ended or is being woken already. */
void hs__thread_wake(hs_thread *thread);

/* Threads that are registered. The first n of a list stay as they are while it lives, so that who joins can keep it and
 * look through them without a lock and without memory of its own, whatever is registered meanwhile. Each thread in it is
 * counted.
 */
typedef struct hs__thread_list {
    atomic_size_t references;
    size_t n, capacity;
    hs_thread *items[];
} hs__thread_list;

/* May be NULL, too. */
hs__thread_list *hs__list_retain(hs__thread_list *list);
void hs__list_release(const hs_env *env, hs__thread_list *list);

#endif
