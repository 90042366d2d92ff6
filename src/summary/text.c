/* SPDX-License-Identifier: Apache-2.0 */
/* Text. */
#include <hooksess/summary_values.h>

#include "summary/value.h"

#include <string.h>

static const hs__metadata as_text = {.plugin = "text"};

hs_code hs_summary_text(hs_summary *summary, const char *tag, const char *text, hs_error *err)
{
    hs_code code = hs__check_value(summary, tag, err);
    if (code)
        return code;
    if (!text)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': text is NULL", tag);
    const hs_string string = {text, strlen(text)};
    const hs_tensor tensor = hs_tensor_of(HS_STRING, HS_SCALAR, &string);
    return hs_summary_text_tensor(summary, tag, &tensor, err);
}

hs_code hs_summary_text_tensor(hs_summary *summary, const char *tag, const hs_tensor *strings, hs_error *err)
{
    hs_tensor host;
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = hs__value_tensor(summary, tag, strings, &host, err)))
        return code;
    if (host.dtype != HS_STRING)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': text has type %s; it must be string", tag,
                            hs_dtype_name(host.dtype));
    if ((code = hs__check_strings(tag, &host, err)))
        return code;
    const hs_string *string = host.data;
    for (size_t i = 0; i < host.bytes / sizeof *string; i++)
        if (!hs__is_utf8(string[i].data, string[i].bytes))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': text %zu is not UTF-8", tag, i);
    return hs__put_tensor_value(summary, tag, "", &host, &as_text, err);
}
