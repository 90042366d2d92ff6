/* SPDX-License-Identifier: Apache-2.0 */
/* Writing protobuf's text format: write_message writes each field that is set with write_value, which calls write_message
 * for a message inside. */
#include "formats/proto_text.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

static void write_message(const ProtobufCMessage *message, int depth, hs__buffer *out);

static void write_string(const unsigned char *text, size_t bytes, hs__buffer *out)
{
    hs__buffer_append(out, "\"", 1);
    for (size_t i = 0; i < bytes; i++) {
        switch (text[i]) {
        case '\n':
            hs__buffer_append(out, "\\n", 2);
            break;
        case '\r':
            hs__buffer_append(out, "\\r", 2);
            break;
        case '\t':
            hs__buffer_append(out, "\\t", 2);
            break;
        case '"':
        case '\'':
        case '\\':
            hs__buffer_text(out, "\\%c", text[i]);
            break;
        default:
            if (text[i] < 32 || text[i] >= 127)
                hs__buffer_text(out, "\\%03o", text[i]);
            else
                hs__buffer_append(out, &text[i], 1);
        }
    }
    hs__buffer_append(out, "\"", 1);
}

static void write_real(double value, bool narrow, hs__buffer *out)
{
    char text[HS__NUMBER_TEXT];
    if (isnan(value))
        hs__buffer_append(out, "nan", 3);
    else
        hs__buffer_text(out, "%s", isinf(value) ? value < 0 ? "-inf" : "inf" : hs__real_text(text, value, narrow));
}

/* `at` points to the field in its struct, or to an element of a repeated field. */
static void write_scalar(const ProtobufCFieldDescriptor *field, const void *at, hs__buffer *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        hs__buffer_text(out, "%ld", (long)*(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        hs__buffer_text(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        hs__buffer_text(out, "%lu", (unsigned long)*(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        hs__buffer_text(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        write_real((double)*(const float *)at, true, out);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_real(*(const double *)at, false, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        hs__buffer_text(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM: {
        int value = *(const int *)at;
        const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(field->descriptor, value);
        if (named)
            hs__buffer_text(out, "%s", named->name);
        else
            hs__buffer_text(out, "%d", value);
        break;
    }
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)at;
        write_string((const unsigned char *)text, strlen(text), out);
        break;
    }
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *bytes = at;
        write_string(bytes->data, bytes->len, out);
        break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        break; /* not a scalar */
    }
}

static void write_value(const ProtobufCFieldDescriptor *field, const void *at, int depth, hs__buffer *out)
{
    hs__buffer_text(out, "%*s%s", 2 * depth, "", field->name);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        hs__buffer_append(out, " {\n", 3);
        write_message(*(ProtobufCMessage *const *)at, depth + 1, out);
        hs__buffer_text(out, "%*s}\n", 2 * depth, "");
    } else {
        hs__buffer_append(out, ": ", 2);
        write_scalar(field, at, out);
        hs__buffer_append(out, "\n", 1);
    }
}

size_t hs__proto_element_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* True if a field that is not repeated has a value other than its default. */
static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *base = (const char *)message, *at = base + field->offset;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)(const void *)at != NULL;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = *(char *const *)(const void *)at;
        return text && *text;
    }
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)(const void *)at)->len > 0;
    static const char zero[8];
    return memcmp(at, zero, hs__proto_element_size(field)) != 0;
}

static void write_message(const ProtobufCMessage *message, int depth, hs__buffer *out)
{
    const ProtobufCMessageDescriptor *of = message->descriptor;
    for (unsigned i = 0; i < of->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &of->fields[i];
        const char *base = (const char *)message;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)(const void *)(base + field->quantifier_offset);
            const char *items = *(char *const *)(const void *)(base + field->offset);
            for (size_t k = 0; k < n; k++)
                write_value(field, items + k * hs__proto_element_size(field), depth, out);
        } else if (is_set(message, field)) {
            write_value(field, base + field->offset, depth, out);
        }
    }
}

void hs__proto_text_string(const char *field, const char *value, hs__buffer *out)
{
    hs__buffer_text(out, "%s: ", field);
    write_string((const unsigned char *)value, strlen(value), out);
    hs__buffer_append(out, "\n", 1);
}

void hs__proto_text_real(const char *field, double value, hs__buffer *out)
{
    hs__buffer_text(out, "%s: ", field);
    write_real(value, false, out);
    hs__buffer_append(out, "\n", 1);
}

void hs__proto_text(const ProtobufCMessage *message, hs__buffer *out)
{
    write_message(message, 0, out);
}
