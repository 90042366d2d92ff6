/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_PARALLEL_H
#define HS_BASE_PARALLEL_H

#include "base/error.h"

enum { HS__MOST_WORKERS = 4 };

/* How many threads are worth their while for so much data in so many parts: 1 to HS__MOST_WORKERS. */
size_t hs__workers_for(size_t parts, uint64_t bytes);

/* Does parts 0 to n - 1, each once, in `workers` threads, the caller's among them; where one cannot be started the others
 * do its parts. `worker` says which it is, from 0 on. After a failure no further part is begun; the error is that of the
 * first part that failed. */
typedef hs_code (*hs__do_part)(void *user, size_t worker, size_t part, hs_error *err);
hs_code hs__in_parallel(size_t workers, size_t n, hs__do_part do_part, void *user, hs_error *err);

#endif
