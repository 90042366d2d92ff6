/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries from elsewhere. */
#include <hooksess/summary_values.h>

#include "summary/event_check.h"
#include "summary/value.h"

hs_code hs_summary_merge(hs_summary *summary, hs_string serialized, hs_error *err)
{
    hs_error_clear(err);
    if (!summary) /* as hs_summary_new returns it */
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED,
                            "summary is NULL; hs_summary_new returns NULL if memory is exhausted");
    if (!serialized.bytes)
        return HS_OK;
    if (!serialized.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "data of a serialized summary of %zu bytes is NULL",
                            serialized.bytes);
    if (!hs__is_summary(serialized.data, serialized.bytes))
        return hs_error_set(err, HS_DATA_LOSS, "cannot merge %zu bytes: they are not a serialized Summary",
                            serialized.bytes);
    hs__buffer *out = &summary->serialized;
    size_t at = (size_t)((uintptr_t)serialized.data - (uintptr_t)out->data);
    bool own = at < out->size; /* a part of this very summary, which moves when it grows */
    if (hs__buffer_room(out, serialized.bytes))
        hs__buffer_append(out, own ? (const char *)out->data + at : serialized.data, serialized.bytes);
    hs_code code = hs__buffer_check(out, "a summary", err);
    out->failed = false;
    return code;
}
