/* SPDX-License-Identifier: Apache-2.0 */
/* A Summary: its memory, its scalars, and merging serialized ones into it. */
#include <hooksess/summary.h>
#include <hooksess/summary_values.h>

#include "summary/event_check.h"
#include "summary/event_encode.h"
#include "summary/histogram.h"
#include "summary/value.h"

#include <string.h>

hs_summary *hs_summary_new(const hs_env *given)
{
    hs_env env;
    if (hs__env_copy(&env, given, NULL))
        return NULL;
    hs_summary *summary = hs__alloc(&env, 1, sizeof *summary);
    if (summary) {
        summary->env = env;
        summary->copy.env = &summary->env;
        hs__buffer_init(&summary->serialized, &summary->env);
        hs__buffer_init(&summary->scratch, &summary->env);
    }
    return summary;
}

void hs_summary_free(hs_summary *summary)
{
    if (!summary)
        return;
    hs_env env = summary->env;
    hs__buffer_free(&summary->serialized);
    hs__buffer_free(&summary->scratch);
    hs_host_copy_free(&summary->copy);
    hs__histogram_free(&env, summary->histogram);
    hs__free(&env, summary);
}

void hs_summary_clear(hs_summary *summary)
{
    if (summary)
        hs__buffer_clear(&summary->serialized);
}

hs_code hs_summary_scalar(hs_summary *summary, const char *tag, double value, hs_error *err)
{
    hs_code code = hs__check_value(summary, tag, err);
    if (code)
        return code;
    hs__buffer *out = &summary->serialized;
    size_t before = out->size;
    hs__encode_scalar(out, tag, strlen(tag), value);
    code = hs__buffer_check(out, "a summary", err);
    if (code) { /* removes the part that was appended */
        out->size = before;
        out->failed = false;
    }
    return code;
}

hs_code hs_summary_merge(hs_summary *summary, hs_string serialized, hs_error *err)
{
    hs_error_clear(err);
    if (!summary) /* hs_summary_new failed */
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
    bool own = at < out->size; /* part of this summary, which may move as it grows */
    if (hs__buffer_room(out, serialized.bytes))
        hs__buffer_append(out, own ? (const char *)out->data + at : serialized.data, serialized.bytes);
    hs_code code = hs__buffer_check(out, "a summary", err);
    out->failed = false;
    return code;
}

hs_string hs_summary_serialized(const hs_summary *summary)
{
    return !summary ? (hs_string){NULL, 0} : (hs_string){(const char *)summary->serialized.data, summary->serialized.size};
}
