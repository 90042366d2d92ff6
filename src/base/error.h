/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_ERROR_H
#define HS_BASE_ERROR_H

#include <hooksess/status.h>

/* Marks a function that a step seldom calls. The compiler does not inline it, so that its caller saves fewer registers in
 * every step. */
#define HS__COLD __attribute__((noinline, cold))

/* A code with which a session ends normally. */
static inline bool hs__is_clean(hs_code code)
{
    return code == HS_OK || code == HS_OUT_OF_RANGE || code == HS_STOP;
}
/* A code that reports a lost session, from which hs_recovery recovers. */
static inline bool hs__is_loss(hs_code code)
{
    return code == HS_ABORTED || code == HS_UNAVAILABLE;
}

/* Sets and returns RESOURCE_EXHAUSTED: no memory for `bytes` (0: unknown). The message names `what`. */
hs_code hs__no_memory(hs_error *err, size_t bytes, const char *what);

/* hs_error_clear, inlined for the path of a step. */
static inline void hs__clear(hs_error *err)
{
    if (err) {
        err->code = HS_OK;
        err->os_error = 0;
        err->message[0] = '\0';
    }
}

/* Normalizes the error of a callback (a backend's or the program's): the returned code replaces the code in `err`. If the
 * callback set no message, sets a message that names `what`. Returns `code`. */
hs_code hs__normalize_failure(hs_code code, const char *what, hs_error *err);
static inline hs_code hs__normalize_error(hs_code code, const char *what, hs_error *err)
{
    return code ? hs__normalize_failure(code, what, err) : HS_OK;
}

/* Copies `from` to `to`, either of which may be NULL, and returns its code. */
hs_code hs__error_copy(hs_error *to, const hs_error *from);

#endif
