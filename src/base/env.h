/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_ENV_H
#define HS_BASE_ENV_H

#include <hooksess/env.h>

#include "base/error.h"

/* Inside the library an hs_env is complete: hs__env_take filled in what the caller left out. */

/* A complete copy of `from` (NULL: the default). INVALID_ARGUMENT for a half-filled part. */
hs_code hs__env_take(hs_env *to, const hs_env *from, hs_error *err);

/* The monotonic clock as it was at most some milliseconds ago, which costs less. False: the clock is not the system's. */
bool hs__env_coarse_ns(const hs_env *env, int64_t *ns);

/* Zeroed, of n * size bytes; NULL if there is none or the product does not fit. */
void *hs__alloc(const hs_env *env, size_t n, size_t size);
/* Grows to n * size bytes; what is new is not zeroed. */
void *hs__realloc(const hs_env *env, void *block, size_t n, size_t size);
void hs__free(const hs_env *env, void *block);
char *hs__strdup(const hs_env *env, const char *text);
char *hs__strndup(const hs_env *env, const char *text, size_t bytes);
/* Reports a failure once: copies it to `err`, or logs it as "WHAT: MESSAGE" if `err` is NULL. */
void hs__report_error(const hs_env *env, const char *what, const hs_error *error, hs_error *err);
/* As sprintf, into a new block. */
char *hs__format(const hs_env *env, const char *format, ...) HS_PRINTF(2, 3);

/* An array `*items` of `*capacity` elements has room for `wanted` after it; RESOURCE_EXHAUSTED leaves it as it was. */
hs_code hs__reserve(const hs_env *env, void *items, size_t *capacity, size_t wanted, size_t size, hs_error *err);

/* A copy of a NULL-terminated list of names in one block, to be freed with hs__free; NULL without memory. */
const char *const *hs__names_copy(const hs_env *env, const char *const *names);
size_t hs__names_count(const char *const *names);

extern const hs_file_system_ops hs__posix_files;

#endif
