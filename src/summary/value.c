/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that all kinds of values have: their checks, head, metadata and tensor; and batches of values (hs__put_batch). */
#include "summary/value.h"

#include "base/proto.h"
#include "base/tensor.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

hs_code hs__check_text(const char *text, const char *what, hs_error *err)
{
    if (text && !hs__is_utf8(text, strlen(text)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is not UTF-8, as event files require", what);
    return HS_OK;
}

hs_code hs__check_value(const hs_summary *summary, const char *tag, hs_error *err)
{
    hs_error_clear(err);
    if (!tag || !*tag)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tag of a summary value is missing");
    if (!summary) /* hs_summary_new failed */
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED,
                            "summary is NULL; hs_summary_new returns NULL if memory is exhausted");
    return hs__check_text(tag, "the tag of a summary value", err);
}

hs_code hs__value_tensor(hs_summary *summary, const char *tag, const hs_tensor *tensor, hs_tensor *host, hs_error *err)
{
    hs_error cause;
    if (hs_tensor_check(tensor, &cause) || hs_tensor_host(tensor, &summary->copy, host, &cause))
        return hs_error_set(err, cause.code, "summary '%s': %s", tag, cause.message);
    return HS_OK;
}

hs__value hs__begin_value(hs_summary *summary, const char *tag, const char *suffix)
{
    hs__buffer *out = &summary->serialized;
    hs__value value = {.out = out, .before = out->size};
    size_t tag_bytes = strlen(tag), suffix_bytes = strlen(suffix);
    value.begun = hs__begin_field(out, 1);
    hs__buffer_varint(out, 1 << 3 | 2);
    hs__buffer_varint(out, tag_bytes + suffix_bytes);
    hs__buffer_append(out, tag, tag_bytes);
    hs__buffer_append(out, suffix, suffix_bytes);
    return value;
}

hs_code hs__end_value(hs__value *value, hs_code code, hs_error *err)
{
    hs__end_field(value->out, value->begun);
    if (!code)
        code = hs__buffer_check(value->out, "a summary", err);
    if (code) {
        value->out->size = value->before;
        value->out->failed = false;
    }
    return code;
}

hs_code hs__put_batch(hs_summary *summary, const char *tag, const char *kind, size_t n, int64_t most, hs__put_item put,
                      void *user, hs_error *err)
{
    size_t before = summary->serialized.size;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < n && (int64_t)i < most; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, most > 1 ? "/%s/%zu" : "/%s", kind, i);
        hs__value value = hs__begin_value(summary, tag, suffix);
        code = hs__end_value(&value, put(summary, i, user, err), err);
    }
    if (code)
        summary->serialized.size = before;
    return code;
}

void hs__put_metadata(hs__buffer *out, const hs__metadata *metadata)
{
    size_t begun = hs__begin_field(out, 9);
    if (metadata->plugin && *metadata->plugin) {
        size_t plugin = hs__begin_field(out, 1);
        hs__put_string(out, 1, metadata->plugin);
        if (metadata->content.bytes)
            hs__proto_put_bytes(out, 2, metadata->content.data, metadata->content.bytes);
        hs__end_field(out, plugin);
    }
    hs__put_string(out, 2, metadata->display_name);
    hs__put_string(out, 3, metadata->description);
    hs__end_field(out, begun);
}

size_t hs__begin_tensor(hs__buffer *out, hs_dtype dtype, const hs_shape *shape)
{
    size_t tensor = hs__begin_field(out, HS__VALUE_TENSOR);
    hs__put_integer(out, 1, (uint64_t)dtype);
    size_t dims = hs__begin_field(out, 2);
    for (int32_t i = 0; i < shape->rank; i++) {
        size_t dim = hs__begin_field(out, 2);
        hs__put_integer(out, 1, (uint64_t)shape->dims[i]);
        hs__end_field(out, dim);
    }
    hs__end_field(out, dims);
    return tensor;
}
