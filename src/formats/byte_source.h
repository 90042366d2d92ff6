/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BYTE_SOURCE_H
#define HS_FORMATS_BYTE_SOURCE_H

#include <hooksess/records.h>

#include "base/files.h"

/* Reads a file at any offset, and decompresses it. Offsets are those of the decompressed bytes. The file may grow while it
 * is read. */

struct hs__inflater;

typedef struct hs__byte_source {
    hs__file file;
    char *path;            /* NULL: not open */
    unsigned char *window; /* the bytes [at, at + filled) */
    size_t capacity, filled;
    uint64_t at;
    uint64_t mark;                 /* the caller may read from here again; bytes from here on are kept if there is room */
    struct hs__inflater *inflater; /* NULL: the file is not compressed */
} hs__byte_source;

enum { HS__SOURCE_WINDOW = 1 << 16 };

/* After a failure, the source need not be closed. `env` must outlive the source. */
hs_code hs__source_open(hs__byte_source *source, const hs_env *env, const char *path, hs_record_compression compression,
                        size_t window, hs_error *err);
void hs__source_close(hs__byte_source *source);
/* Reads up to `bytes` at `offset`. *got is less only if the file ends there now. DATA_LOSS: the compressed data is damaged.
 */
hs_code hs__source_read(hs__byte_source *source, uint64_t offset, void *to, size_t bytes, size_t *got, hs_error *err);
/* Discards the window: the writer of the file may have truncated it and written other bytes. */
void hs__source_forget(hs__byte_source *source);

#endif
