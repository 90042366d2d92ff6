/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_PNG_H
#define HS_FORMATS_PNG_H

#include "base/buffer.h"

/* Pixels of 8 bits a channel, row by row from the top: 1 channel is gray, 2 gray and alpha, 3 RGB, 4 RGBA. */
typedef struct hs__pixels {
    const unsigned char *data;
    size_t width, height, channels;
} hs__pixels;

/* The most bytes of pixels: what is written then fits into one chunk. */
enum { HS__PNG_MOST_BYTES = 1 << 30 };

/* Appends a PNG file. INVALID_ARGUMENT for a size that a PNG, or this writer, cannot have. After a failure `out` has more
 * bytes than before, which are none of a PNG. */
hs_code hs__png_write(hs__buffer *out, const hs__pixels *pixels, hs_error *err);

#endif
