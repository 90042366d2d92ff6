/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_ERROR_H
#define HS_BASE_ERROR_H

#include <hooksess/status.h>

/* RESOURCE_EXHAUSTED for want of `bytes`. */
hs_code hs__no_memory(hs_error *err, size_t bytes, const char *what);

/* hs_error_clear for the step's path. */
static inline void hs__clear(hs_error *err)
{
    if (err) {
        err->code = HS_OK;
        err->os_error = 0;
        err->message[0] = '\0';
    }
}

/* What a function from outside returned (a backend's, a host's) counts, whatever it wrote: `err` gets the code, and a
 * message if there is none. */
hs_code hs__normalize_failure(hs_code code, const char *what, hs_error *err);
static inline hs_code hs__normalize_error(hs_code code, const char *what, hs_error *err)
{
    return code ? hs__normalize_failure(code, what, err) : HS_OK;
}

/* Copies `from` to `to`, either of which may be NULL, and returns its code. */
hs_code hs__error_copy(hs_error *to, const hs_error *from);

#endif
