/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_FORKS_H
#define HS_BASE_FORKS_H

#include <hooksess/status.h>

#include <stdatomic.h>

/* A forked child has copies of the objects of its parent, but not their threads, and it shares their open files and
 * connections. An object that has threads, or buffers what it writes, keeps the generation of the process that made it.
 * In a child it is inherited, and is neither used nor closed. */

/* How many forks lie between this process and the one that loaded the library. Use the functions below. */
extern atomic_uint hs__forks;

/* Returns the generation of this process, for a new object. */
unsigned hs__fork_generation(void);

/* Cheap enough for each step. */
static inline bool hs__is_inherited(unsigned generation)
{
    return generation != atomic_load_explicit(&hs__forks, memory_order_relaxed);
}

/* Sets the error of a call that an inherited object refuses. `what`: "session". */
hs_code hs__refuse_inherited(const char *what, hs_error *err);

#endif
