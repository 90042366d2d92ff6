/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_ERROR_H
#define HS_BASE_ERROR_H

#include <hooksess/status.h>

/* RESOURCE_EXHAUSTED for want of `bytes`. */
hs_code hs__no_memory(hs_error *err, size_t bytes, const char *what);

/* Copies `from` to `to`, either of which may be NULL, and returns its code. */
hs_code hs__error_copy(hs_error *to, const hs_error *from);

#endif
