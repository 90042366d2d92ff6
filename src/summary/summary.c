/* SPDX-License-Identifier: Apache-2.0 */
/* A Summary, and its scalars. */
#include <hooksess/summary.h>

#include "summary/event_encode.h"
#include "summary/histogram.h"
#include "summary/value.h"

#include <string.h>

hs_summary *hs_summary_new(const hs_env *given)
{
    hs_env env;
    if (hs__env_take(&env, given, NULL))
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
    if (code) { /* takes back the part that there was memory for */
        out->size = before;
        out->failed = false;
    }
    return code;
}

hs_string hs_summary_serialized(const hs_summary *summary)
{
    return !summary ? (hs_string){NULL, 0} : (hs_string){(const char *)summary->serialized.data, summary->serialized.size};
}
