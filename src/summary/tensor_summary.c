/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of tensors and of text, which is a string tensor. */
#include <hooksess/summary_values.h>

#include "base/proto.h"
#include "base/text.h"
#include "formats/byte_order.h"
#include "summary/value.h"

#include <string.h>

static hs_code put_value(hs_summary *summary, const char *tag, const hs_tensor *tensor, const hs__metadata *metadata,
                         hs_error *err)
{
    const hs_shape shape = hs_tensor_shape(tensor);
    const hs_string *strings = tensor->data;
    hs__value value = hs__begin_value(summary, tag, "");
    hs__buffer *out = value.out;
    size_t begun = hs__begin_tensor(out, tensor->dtype, &shape);
    if (tensor->dtype != HS_STRING && tensor->bytes) {
        size_t content = hs__begin_field(out, HS__TENSOR_CONTENT);
        hs__buffer_append(out, tensor->data, tensor->bytes);
        if (hs__big_endian() && !out->failed) /* the file has numbers in little-endian order */
            hs__swap_bytes(tensor->dtype, out->data + content, tensor->bytes);
        hs__end_field(out, content);
    }
    for (size_t i = 0; tensor->dtype == HS_STRING && i < tensor->bytes / sizeof *strings; i++)
        hs__proto_put_bytes(out, HS__TENSOR_STRING, strings[i].data, strings[i].bytes);
    hs__end_field(out, begun);
    hs__put_metadata(out, metadata);
    return hs__end_value(&value, HS_OK, err);
}

static hs_code check_strings(const char *tag, const hs_tensor *tensor, hs_error *err)
{
    const hs_string *strings = tensor->data;
    for (size_t i = 0; tensor->dtype == HS_STRING && i < tensor->bytes / sizeof *strings; i++)
        if (strings[i].bytes && !strings[i].data)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': data of string %zu with %zu bytes is NULL", tag, i,
                                strings[i].bytes);
    return HS_OK;
}

static hs_code check_plugin(const char *tag, const hs_summary_plugin *plugin, hs_error *err)
{
    hs_code code;
    if (plugin->content.bytes && (!plugin->content.data || !plugin->name))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': hs_summary_plugin.content is given, but %s is NULL",
                            tag, plugin->name ? "its data" : "the plugin's name");
    if ((code = hs__check_text(plugin->name, "hs_summary_plugin.name", err)) ||
        (code = hs__check_text(plugin->display_name, "hs_summary_plugin.display_name", err)))
        return code;
    return hs__check_text(plugin->description, "hs_summary_plugin.description", err);
}

hs_code hs_summary_tensor(hs_summary *summary, const char *tag, const hs_tensor *tensor, const hs_summary_plugin *given,
                          hs_error *err)
{
    hs_summary_plugin plugin = HS_INIT(hs_summary_plugin);
    hs_tensor host;
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (given && (code = HS_STRUCT_TAKE(hs_summary_plugin, description, &plugin, given, err))) ||
        (code = check_plugin(tag, &plugin, err)) || (code = hs__value_tensor(summary, tag, tensor, &host, err)) ||
        (code = check_strings(tag, &host, err)))
        return code;
    const hs__metadata metadata = {plugin.name, plugin.display_name, plugin.description, plugin.content};
    return put_value(summary, tag, &host, &metadata, err);
}

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
    if ((code = check_strings(tag, &host, err)))
        return code;
    const hs_string *string = host.data;
    for (size_t i = 0; i < host.bytes / sizeof *string; i++)
        if (!hs__is_utf8(string[i].data, string[i].bytes))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': text %zu is not UTF-8", tag, i);
    return put_value(summary, tag, &host, &as_text, err);
}
