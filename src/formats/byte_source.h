/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BYTE_SOURCE_H
#define HS_FORMATS_BYTE_SOURCE_H

#include <hooksess/records.h>

#include "base/files.h"

/* The bytes of a file as they were before it was compressed, from any place on. The file may grow meanwhile. Offsets are
 * those of what was compressed. */

struct hs__inflater;

typedef struct hs__byte_source {
    hs__file file;
    char *path;            /* NULL: not open */
    unsigned char *window; /* the bytes [at, at + filled) */
    size_t capacity, filled;
    uint64_t at;
    uint64_t mark;                 /* where the caller may come back to; kept where there is room */
    struct hs__inflater *inflater; /* NULL: the file is not compressed */
} hs__byte_source;

enum { HS__SOURCE_WINDOW = 1 << 16 };

/* After a failure there is nothing to close. `env` must outlive the source. */
hs_code hs__source_open(hs__byte_source *source, const hs_env *env, const char *path, hs_record_compression compression,
                        size_t window, hs_error *err);
void hs__source_close(hs__byte_source *source);
/* Up to `bytes` from `offset` on; *got is less only where the file ends now. DATA_LOSS: what is compressed is damaged. */
hs_code hs__source_read(hs__byte_source *source, uint64_t offset, void *to, size_t bytes, size_t *got, hs_error *err);
/* Whoever writes the file may have cut off and replaced what was read before: reads it anew from now on. */
void hs__source_forget(hs__byte_source *source);

#endif
