/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_LOCKS_POSIX_H
#define HS_BASE_LOCKS_POSIX_H

#include "base/error.h"

/* lock and unlock of the system's file system (env.h). They use kernel locks, which end with the process. All holds of one
 * file in a process share one kernel lock, which is released with the last hold. After a fork, the child's holds are not
 * locked: calling hs__posix_lock with one acquires a lock for the child. Threads: any; each hold is used by one thread at a
 * time. */
hs_code hs__posix_lock(void *user, const char *path, void **lock, hs_error *err);
void hs__posix_unlock(void *user, void *lock);

#endif
