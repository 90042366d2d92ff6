/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_THREADS_H
#define GPT_THREADS_H

enum { MAX_THREADS = 256 };

/* Does part `index` of `count` parts of some work. */
typedef void (*part_fn)(void *user, int index, int count);

/* Calls `part` for each of `threads` parts, each in its own thread, and returns when all are done. Which thread writes
 * which numbers depends only on `threads`, so the results do not depend on timing. */
void parallel(int threads, part_fn part, void *user);

/* Puts a share of the range from 0 to `n` into *begin and *end. */
static inline void share(int n, int index, int count, int *begin, int *end)
{
    *begin = (int)((long long)n * index / count);
    *end = (int)((long long)n * (index + 1) / count);
}

#endif
