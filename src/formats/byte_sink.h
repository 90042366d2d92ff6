/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BYTE_SINK_H
#define HS_FORMATS_BYTE_SINK_H

#include <hooksess/records.h>

#include "base/files.h"

/* A new file that bytes go into, compressed or not. */

struct hs__deflater;

typedef struct hs__byte_sink {
    hs__file file;
    struct hs__deflater *deflater; /* NULL: as they are */
} hs__byte_sink;

/* After a failure there is nothing to close. `env` must outlive the sink. `level`: zlib's, -1 for its default. */
hs_code hs__sink_open(hs__byte_sink *sink, const hs_env *env, const char *path, hs_record_compression compression,
                      int level, hs_error *err);
/* Hands the bytes on. What is compressed may still be kept back; */
hs_code hs__sink_write(hs__byte_sink *sink, const void *data, size_t bytes, hs_error *err);
/* after this nothing is. */
hs_code hs__sink_flush(hs__byte_sink *sink, bool sync, hs_error *err);
/* Ends what is compressed. */
hs_code hs__sink_end(hs__byte_sink *sink, hs_error *err);
hs_code hs__sink_close(hs__byte_sink *sink, hs_error *err);

#endif
