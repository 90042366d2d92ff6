/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATED_THREAD_H
#define HS_THREADS_COORDINATED_THREAD_H

#include <hooksess/coordinator.h>

#include "base/env.h"

/* A thread is reference-counted: by its handle, by itself while it is alive, and by every list that contains it. Lock
 * order: a thread's lock before its coordinator's. No function locks two threads. */

/* Creates a thread.
 *
 * default_env  used if options->env is NULL
 * release      frees options->user with the last reference, in the thread that drops it. NULL: nothing to free
 *
 * `release` is not called if this function fails. */
hs_thread *hs__thread_new(const hs_thread_options *options, const hs_env *default_env, void (*release)(void *user),
                          hs_error *err);
void *hs__thread_user(const hs_thread *thread);
bool hs__thread_was_started(const hs_thread *thread);

#endif
