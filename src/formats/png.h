/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_PNG_H
#define HS_FORMATS_PNG_H

#include "base/buffer.h"

/* Pixels with 8 bits per channel, row by row from the top. 1 channel: gray, 2: gray and alpha, 3: RGB, 4: RGBA. */
typedef struct hs__pixels {
    const unsigned char *data;
    size_t width, height, channels;
} hs__pixels;

/* The most bytes of pixels, so that the compressed data fits in one chunk. */
enum { HS__PNG_MOST_BYTES = 1 << 30 };

/* Appends a PNG file. INVALID_ARGUMENT: size not supported by PNG or by this writer. After a failure, `out` may have
 * additional bytes that are not a PNG file. */
hs_code hs__png_write(hs__buffer *out, const hs__pixels *pixels, hs_error *err);

#endif
