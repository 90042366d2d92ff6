/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include <string.h>

hs_code hs_state_write(hs_state_writer *out, const void *data, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    hs__buffer_append(&out->buffer, data, bytes);
    return hs__buffer_check(&out->buffer, "state", err);
}

hs_code hs_state_read(hs_state_reader *in, void *data, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (bytes > in->left)
        return hs_error_set(err, HS_DATA_LOSS, "the state has %zu more bytes, where %zu are read", in->left, bytes);
    if (bytes) { /* without any, in->at may be NULL */
        memcpy(data, in->at, bytes);
        in->at += bytes;
    }
    in->left -= bytes;
    return HS_OK;
}

size_t hs_state_left(const hs_state_reader *in)
{
    return in->left;
}
