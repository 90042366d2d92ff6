/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_LOCKS_POSIX_H
#define HS_BASE_LOCKS_POSIX_H

#include "base/error.h"

/* The file system's lock and unlock (env.h), by locks of the kernel's that end with the process. Holds of one file in one
 * process share one lock, which is given up with the last of them. A child that was forked has its parent's holds in name
 * only: making sure of one asks for a lock of the child's own. Any thread; one hold is one thread's at a time. */
hs_code hs__posix_lock(void *user, const char *path, void **lock, hs_error *err);
void hs__posix_unlock(void *user, void *lock);
/* Has this process other holds of the file? */
bool hs__posix_lock_is_shared(const void *lock);

#endif
