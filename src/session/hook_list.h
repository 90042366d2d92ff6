/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_HOOK_LIST_H
#define HS_SESSION_HOOK_LIST_H

#include <hooksess/hook.h>

/* Lists of hooks outside of sessions, ended by HS_HOOKS. */

/* The length of a list; 0 if it is NULL. */
size_t hs__hooks_count(const hs_hook *hooks);
/* Frees the hooks that are not in `others`, each once. */
void hs__hooks_destroy_apart(const hs_hook *hooks, const hs_hook *others);
/* Copies a list and holds its hooks (hs_hook_hold), so that several evaluation sessions can use them one after the other.
 * The caller frees the array with hs__free; the owner of the hooks frees the hooks. */
hs_hook *hs__hooks_hold(const hs_env *env, const hs_hook *hooks, hs_error *err);

#endif
