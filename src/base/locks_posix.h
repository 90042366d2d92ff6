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
/* True if this process has other holds of the file, not counting claims. */
bool hs__posix_lock_is_shared(const void *lock);
/* Makes the hold a claim of `session`, an address, until the hold is unlocked. False if another session has claimed the
 * file. */
bool hs__posix_lock_claim(void *lock, const void *session);
/* False if a session other than this one has claimed the file. */
bool hs__posix_lock_is_open_to(const void *lock, const void *session);

#endif
