/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_PARALLEL_H
#define HS_BASE_PARALLEL_H

#include "base/error.h"

enum { HS__MOST_WORKERS = 4 };

/* The number of threads to use for `bytes` of data in `parts` parts: 1 to HS__MOST_WORKERS. */
size_t hs__workers_for(size_t parts, uint64_t bytes);

/* Calls `do_part` once for each part from 0 to n - 1, in `workers` threads including the caller's. If a thread cannot be
 * started, the others do its parts. `worker` is the index of the thread. After a failure, no further part is started.
 * Returns the error of the failed part with the lowest number. */
typedef hs_code (*hs__do_part)(void *user, size_t worker, size_t part, hs_error *err);
hs_code hs__in_parallel(size_t workers, size_t n, hs__do_part do_part, void *user, hs_error *err);

#endif
