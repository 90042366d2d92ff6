/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_READ_PROGRESS_H
#define HS_FORMATS_READ_PROGRESS_H

#include "base/env.h"

#include <stdatomic.h>

/* Logs the progress of a long read: the first line after a second, then a line every ten seconds. Any thread may add bytes.
 */
typedef struct hs__read_progress {
    const hs_env *env; /* NULL: nothing is logged */
    const char *path;
    uint64_t bytes; /* of the checkpoint */
    double reads;   /* total bytes to read; some bytes are read twice */
    atomic_uint_fast64_t read;
    atomic_int_fast64_t next_ns; /* time of the next line, by the monotonic clock */
} hs__read_progress;

/* `path` is borrowed. */
void hs__read_progress_begin(hs__read_progress *progress, const hs_env *env, const char *path, uint64_t bytes,
                             double reads);
void hs__read_progress_add(hs__read_progress *progress, uint64_t bytes);

#endif
