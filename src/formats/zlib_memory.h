/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_ZLIB_MEMORY_H
#define HS_FORMATS_ZLIB_MEMORY_H

#include <hooksess/records.h>

#include "base/env.h"

#include <zlib.h>

/* Makes zlib use the env's allocator. */

static inline void *hs__zlib_alloc(void *env, uInt n, uInt size)
{
    return hs__alloc(env, n, size);
}

static inline void hs__zlib_free(void *env, void *block)
{
    hs__free(env, block);
}

/* `env` must outlive the stream. */
static inline void hs__zlib_use(z_stream *z, hs_env *env)
{
    *z = (z_stream){.zalloc = hs__zlib_alloc, .zfree = hs__zlib_free, .opaque = env};
}

/* The window size for zlib: the largest, and the file format that zlib reads or writes. */
static inline int hs__zlib_window_bits(hs_record_compression compression)
{
    return compression == HS_RECORDS_GZIP ? MAX_WBITS + 16 : MAX_WBITS;
}

#endif
