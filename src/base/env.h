/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_ENV_H
#define HS_BASE_ENV_H

#include <hooksess/env.h>

#include "base/error.h"

/* Inside the library, an hs_env is complete: hs__env_copy fills in the parts that the caller did not set. */

/* Makes a complete copy of `from` (NULL: the default). INVALID_ARGUMENT if only some functions of a part are set. */
hs_code hs__env_copy(hs_env *to, const hs_env *from, hs_error *err);

/* The monotonic clock with a resolution of some milliseconds, which is faster to read. False: the clock of `env` is not the
 * system's. */
bool hs__env_coarse_ns(const hs_env *env, int64_t *ns);

/* Allocates n * size zeroed bytes. NULL: out of memory, or the product overflows. */
void *hs__alloc(const hs_env *env, size_t n, size_t size);
/* Grows a block to n * size bytes. New bytes are not zeroed. */
void *hs__realloc(const hs_env *env, void *block, size_t n, size_t size);
void hs__free(const hs_env *env, void *block);
char *hs__strdup(const hs_env *env, const char *text);
char *hs__strndup(const hs_env *env, const char *text, size_t bytes);
/* Reports a failure once: copies it to `err`, or logs it as "WHAT: MESSAGE" if `err` is NULL. */
void hs__report_error(const hs_env *env, const char *what, const hs_error *error, hs_error *err);
/* sprintf into a new block. NULL: out of memory. */
char *hs__format(const hs_env *env, const char *format, ...) HS_PRINTF(2, 3);

/* Grows the array `*items`, which has room for `*capacity` elements, to room for at least `wanted`. RESOURCE_EXHAUSTED:
 * unchanged. */
hs_code hs__reserve(const hs_env *env, void *items, size_t *capacity, size_t wanted, size_t size, hs_error *err);

/* Copies a NULL-terminated list of names into one block. The caller frees it with hs__free. NULL: out of memory. */
const char *const *hs__names_copy(const hs_env *env, const char *const *names);
size_t hs__names_count(const char *const *names);

extern const hs_file_system_ops hs__posix_files;

#endif
