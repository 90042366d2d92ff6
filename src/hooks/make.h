/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_MAKE_H
#define HS_HOOKS_MAKE_H

#include <hooksess/hook.h>

/* What the built-in hooks' constructors share. A constructor cannot fail: options that make no sense, or no memory, give a
 * hook whose begin reports it. */

/* Every hook's state begins with the environment of its memory, complete. */
typedef struct hs__hook_base {
    hs_env env;
} hs__hook_base;

/* State of so many bytes, zeroed but for its base; NULL with an error. `given` may be NULL. */
void *hs__hook_new(const hs_env *given, size_t bytes, hs_error *err);
/* Frees state that hs__hook_new made; a hook's destroy, where it has nothing else to free. */
void hs__hook_free(void *self);

/* Copies, of the hook's memory; NULL without any, with an error. Names are one block. */
const char *const *hs__hook_names(void *self, const char *const *names, hs_error *err);
char *hs__hook_text(void *self, const char *text, hs_error *err);

/* Says which part of a hook failed, with a message where there is none. Returns the code. */
hs_code hs__part_failed(hs_code code, const char *part, size_t index, const char *callback, hs_error *err);

#endif
