/* SPDX-License-Identifier: Apache-2.0 */
/* Adding events with a single value. */
#include <hooksess/summary_values.h>

#include "summary/writer_inside.h"

/* Adds the summary as an event, unless making it failed, and frees it. */
static hs_code add(hs_summary_writer *writer, hs_summary *summary, hs_code code, int64_t step, hs_error *err)
{
    if (!code)
        code = hs_summary_writer_summary(writer, hs_summary_serialized(summary), step, err);
    hs_summary_free(summary);
    return code;
}

hs_code hs_summary_writer_histogram(hs_summary_writer *writer, const char *tag, const hs_tensor *values, int64_t step,
                                    hs_error *err)
{
    hs_summary *summary = hs_summary_new(writer ? &writer->env : NULL);
    return add(writer, summary, hs_summary_histogram(summary, tag, values, err), step, err);
}

hs_code hs_summary_writer_image(hs_summary_writer *writer, const char *tag, const hs_tensor *images, int64_t step,
                                hs_error *err)
{
    hs_summary *summary = hs_summary_new(writer ? &writer->env : NULL);
    return add(writer, summary, hs_summary_image(summary, tag, images, NULL, err), step, err);
}

hs_code hs_summary_writer_text(hs_summary_writer *writer, const char *tag, const char *text, int64_t step, hs_error *err)
{
    hs_summary *summary = hs_summary_new(writer ? &writer->env : NULL);
    return add(writer, summary, hs_summary_text(summary, tag, text, err), step, err);
}
