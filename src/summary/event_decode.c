/* SPDX-License-Identifier: Apache-2.0 */
/* One function per message, which reads its fields and calls the function of each message inside: Event, Summary, Value,
 * then the kinds of values. */
#include "summary/event_decode.h"

#include "base/wire_read.h"

#include <math.h>
#include <string.h>

const char *hs_event_kind_name(hs_event_kind kind)
{
    static const char *const names[] = {
        [HS_EVENT_FILE_VERSION] = "file_version", [HS_EVENT_GRAPH] = "graph",
        [HS_EVENT_SUMMARY] = "summary",           [HS_EVENT_LOG_MESSAGE] = "log_message",
        [HS_EVENT_SESSION_LOG] = "session_log",   [HS_EVENT_RUN_METADATA] = "run_metadata",
        [HS_EVENT_META_GRAPH] = "meta_graph",
    };
    bool is_known = (size_t)kind < sizeof names / sizeof *names && names[kind];
    return is_known ? names[kind] : "other";
}

const char *hs_event_value_kind_name(hs_event_value_kind kind)
{
    switch (kind) {
    case HS_EVENT_VALUE_SCALAR:
        return "scalar";
    case HS_EVENT_VALUE_IMAGE:
        return "image";
    case HS_EVENT_VALUE_HISTOGRAM:
        return "histogram";
    case HS_EVENT_VALUE_AUDIO:
        return "audio";
    case HS_EVENT_VALUE_TENSOR:
        return "tensor";
    default:
        return "other";
    }
}

/* Tensors. */

/* Reads a TensorShapeProto. */
static bool read_shape(hs_bytes message, hs_shape *shape)
{
    enum { DIM = 2, SIZE = 1, UNKNOWN_RANK = 3 };
    hs__fields dims = hs__fields_of(message);
    hs__field dim, size;
    *shape = (hs_shape){.rank = 0};
    int rank = 0;
    while (hs__fields_next(&dims, &dim)) {
        if (hs__field_is(&dim, UNKNOWN_RANK, HS__WIRE_VARINT) && dim.value)
            rank = HS_MAX_RANK + 1;
        if (!hs__field_is(&dim, DIM, HS__WIRE_BYTES) || rank > HS_MAX_RANK)
            continue;
        hs__fields sizes = hs__fields_of(dim.bytes);
        int64_t elements = 0;
        while (hs__fields_next(&sizes, &size))
            if (hs__field_is(&size, SIZE, HS__WIRE_VARINT))
                elements = (int64_t)size.value;
        if (sizes.failed)
            return false;
        if (rank < HS_MAX_RANK)
            shape->dims[rank] = elements;
        rank++;
    }
    shape->rank = rank > HS_MAX_RANK ? -1 : rank;
    return !dims.failed;
}

/* The fields of a TensorProto that hold numbers. */
enum {
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_FLOAT = 5,
    TENSOR_DOUBLE = 6,
    TENSOR_INT = 7,
    TENSOR_INT64 = 10,
    TENSOR_BOOL = 11,
    TENSOR_HALF = 13,
    TENSOR_UINT32 = 16,
    TENSOR_UINT64 = 17
};

/* The field that holds the numbers of a dtype. 0: no field. */
static uint64_t field_of(hs_dtype dtype)
{
    switch (dtype) {
    case HS_FLOAT:
        return TENSOR_FLOAT;
    case HS_DOUBLE:
        return TENSOR_DOUBLE;
    case HS_INT32:
    case HS_INT16:
    case HS_INT8:
    case HS_UINT8:
    case HS_UINT16:
        return TENSOR_INT;
    case HS_INT64:
        return TENSOR_INT64;
    case HS_BOOL:
        return TENSOR_BOOL;
    case HS_HALF:
    case HS_BFLOAT16:
        return TENSOR_HALF;
    case HS_UINT32:
        return TENSOR_UINT32;
    case HS_UINT64:
        return TENSOR_UINT64;
    default:
        return 0;
    }
}

/* Reads the first number of a repeated field, packed or not, as the bits of the tensor's element. */
static bool first_number(const hs__field *field, uint64_t *bits)
{
    const unsigned char *at = field->bytes.data;
    size_t width = field->number == TENSOR_FLOAT ? 4 : field->number == TENSOR_DOUBLE ? 8 : 0;
    *bits = field->value;
    if (field->type != HS__WIRE_BYTES)
        return field->type == (width == 4 ? HS__WIRE_FIXED32 : width == 8 ? HS__WIRE_FIXED64 : HS__WIRE_VARINT);
    if (width) {
        if (field->bytes.size < width)
            return false;
        *bits = width == 4 ? hs__get32(at) : hs__get64(at);
        return true;
    }
    return field->bytes.size && hs__get_varint(&at, at + field->bytes.size, bits);
}

/* Decodes a TensorProto. Its number is known if it has one element. */
static bool decode_tensor(hs_bytes message, hs_event_value *value)
{
    hs__fields fields = hs__fields_of(message);
    hs__field field;
    hs_bytes content = {NULL, 0};
    bool has_bits = false;
    uint64_t bits = 0; /* of the first element */
    value->dtype = HS_DTYPE_NONE;
    value->shape = (hs_shape){.rank = 0};
    while (hs__fields_next(&fields, &field)) {
        if (hs__field_is(&field, TENSOR_DTYPE, HS__WIRE_VARINT))
            value->dtype = field.value <= INT32_MAX ? (hs_dtype)field.value : HS_DTYPE_NONE;
        else if (hs__field_is(&field, TENSOR_SHAPE, HS__WIRE_BYTES) && !read_shape(field.bytes, &value->shape))
            return false;
        else if (hs__field_is(&field, TENSOR_CONTENT, HS__WIRE_BYTES))
            content = field.bytes;
        else if (!has_bits && value->dtype && field.number == field_of(value->dtype))
            has_bits = first_number(&field, &bits);
    }
    if (fields.failed)
        return false;
    value->kind = HS_EVENT_VALUE_TENSOR;
    value->bytes = message;
    value->has_scalar = false;
    value->scalar = (double)NAN;

    unsigned char element[8] = {0}; /* a missing element is zero */
    size_t size = hs_dtype_size(value->dtype);
    if (!field_of(value->dtype) || size > sizeof element || hs_shape_elements(&value->shape) != 1)
        return true;
    if (content.size == size)
        memcpy(element, content.data, size);
    else if (has_bits)
        hs__put64(element, bits);
    else if (content.size)
        return true;
    hs_tensor one = hs_tensor_of(value->dtype, HS_SCALAR, element);
    value->scalar = hs_tensor_number(&one, 0);
    value->has_scalar = true;
    return true;
}

/* Messages. Each function returns false if the bytes are not its message. */

static bool decode_plugin(hs_bytes message, hs_event_value *value)
{
    hs__fields fields = hs__fields_of(message);
    hs__field field;
    while (hs__fields_next(&fields, &field)) {
        if (hs__field_is(&field, 1, HS__WIRE_BYTES))
            value->plugin = hs__field_text(&field);
        else if (hs__field_is(&field, 2, HS__WIRE_BYTES))
            value->plugin_content = hs__field_text(&field);
    }
    return !fields.failed;
}

static bool decode_metadata(hs_bytes message, hs_event_value *value)
{
    hs__fields fields = hs__fields_of(message);
    hs__field field;
    bool is_sound = true;
    while (is_sound && hs__fields_next(&fields, &field)) {
        if (hs__field_is(&field, 1, HS__WIRE_BYTES))
            is_sound = decode_plugin(field.bytes, value);
        else if (hs__field_is(&field, 2, HS__WIRE_BYTES))
            value->display_name = hs__field_text(&field);
        else if (hs__field_is(&field, 3, HS__WIRE_BYTES))
            value->description = hs__field_text(&field);
    }
    return is_sound && !fields.failed;
}

static bool decode_field(const hs__field *field, hs_event_value *value)
{
    enum { TAG = 1, NODE_NAME = 7, METADATA = 9 };
    if (hs__field_is(field, HS_EVENT_VALUE_SCALAR, HS__WIRE_FIXED32)) {
        const uint32_t bits = (uint32_t)field->value;
        float scalar;
        memcpy(&scalar, &bits, sizeof scalar);
        value->kind = HS_EVENT_VALUE_SCALAR;
        value->scalar = (double)scalar;
        value->has_scalar = true;
    }
    if (field->type != HS__WIRE_BYTES)
        return true;
    switch (field->number) {
    case TAG:
        value->tag = hs__field_text(field);
        return true;
    case NODE_NAME:
        value->node_name = hs__field_text(field);
        return true;
    case METADATA:
        return decode_metadata(field->bytes, value);
    case HS_EVENT_VALUE_TENSOR:
        return decode_tensor(field->bytes, value);
    case HS_EVENT_VALUE_IMAGE:
    case HS_EVENT_VALUE_HISTOGRAM:
    case HS_EVENT_VALUE_AUDIO:
        value->kind = (hs_event_value_kind)field->number;
        value->bytes = field->bytes;
        value->has_scalar = false;
        value->scalar = (double)NAN;
        return true;
    default:
        return true;
    }
}

static bool decode_value(hs_bytes message, hs_event_value *value)
{
    hs__fields fields = hs__fields_of(message);
    hs__field field;
    bool is_sound = true;
    *value = (hs_event_value){.scalar = (double)NAN};
    while (is_sound && hs__fields_next(&fields, &field))
        is_sound = decode_field(&field, value);
    return is_sound && !fields.failed;
}

static hs_code no_event(hs_error *err)
{
    return hs_error_set(err, HS_DATA_LOSS, "not an Event");
}

static hs_code decode_summary(hs_bytes message, hs__event_values *values, hs_event *event, hs_error *err)
{
    hs__fields fields = hs__fields_of(message);
    hs__field field;
    while (hs__fields_next(&fields, &field)) {
        if (!hs__field_is(&field, 1, HS__WIRE_BYTES))
            continue;
        hs_code code =
            hs__reserve(values->env, &values->items, &values->capacity, event->n_values + 1, sizeof *values->items, err);
        if (code)
            return code;
        if (!decode_value(field.bytes, &values->items[event->n_values]))
            return no_event(err);
        event->n_values++;
    }
    event->values = values->items;
    return fields.failed ? no_event(err) : HS_OK;
}

static bool decode_session_log(hs_bytes message, hs_event *event)
{
    hs__fields fields = hs__fields_of(message);
    hs__field field;
    while (hs__fields_next(&fields, &field)) {
        if (hs__field_is(&field, 1, HS__WIRE_VARINT))
            event->status =
                field.value <= HS_SESSION_LOG_CHECKPOINT ? (hs_session_log_status)field.value : (hs_session_log_status)0;
        else if (hs__field_is(&field, 2, HS__WIRE_BYTES))
            event->checkpoint_path = hs__field_text(&field);
        else if (hs__field_is(&field, 3, HS__WIRE_BYTES))
            event->message = hs__field_text(&field);
    }
    return !fields.failed;
}

/* Decodes a log message (its text) or run metadata (tag and contents). */
static bool decode_pair(const hs__field *what, hs_event *event)
{
    hs__fields fields = hs__fields_of(what->bytes);
    hs__field field;
    bool is_log = what->number == HS_EVENT_LOG_MESSAGE;
    while (hs__fields_next(&fields, &field)) {
        if (hs__field_is(&field, 2, HS__WIRE_BYTES) && is_log)
            event->message = hs__field_text(&field);
        else if (hs__field_is(&field, 2, HS__WIRE_BYTES))
            event->bytes = field.bytes;
        else if (hs__field_is(&field, 1, HS__WIRE_BYTES) && !is_log)
            event->text = hs__field_text(&field);
    }
    return !fields.failed;
}

/* Decodes the kind of the event and its contents. If an event has several, the last one counts. */
static hs_code decode_what(const hs__field *field, hs__event_values *values, hs_event *event, hs_error *err)
{
    event->kind = (hs_event_kind)field->number;
    event->n_values = 0;
    switch (field->number) {
    case HS_EVENT_FILE_VERSION:
        event->text = hs__field_text(field);
        return HS_OK;
    case HS_EVENT_GRAPH:
    case HS_EVENT_META_GRAPH:
        event->bytes = field->bytes;
        return HS_OK;
    case HS_EVENT_SUMMARY:
        event->bytes = field->bytes;
        return decode_summary(field->bytes, values, event, err);
    case HS_EVENT_SESSION_LOG:
        return decode_session_log(field->bytes, event) ? HS_OK : no_event(err);
    default:
        return decode_pair(field, event) ? HS_OK : no_event(err);
    }
}

hs_code hs__event_decode(hs_bytes record, hs__event_values *values, hs_event *event, hs_error *err)
{
    enum { WALL_TIME = 1, STEP = 2 };
    hs__fields fields = hs__fields_of(record);
    hs__field field;
    *event = (hs_event){.record = record, .path = event->path, .offset = event->offset};
    while (hs__fields_next(&fields, &field)) {
        hs_code code = HS_OK;
        if (hs__field_is(&field, WALL_TIME, HS__WIRE_FIXED64))
            memcpy(&event->wall_time, &field.value, sizeof field.value);
        else if (hs__field_is(&field, STEP, HS__WIRE_VARINT))
            event->step = (int64_t)field.value;
        else if (field.type == HS__WIRE_BYTES && field.number >= HS_EVENT_FILE_VERSION &&
                 field.number <= HS_EVENT_META_GRAPH)
            code = decode_what(&field, values, event, err);
        if (code)
            return code;
    }
    return fields.failed ? no_event(err) : HS_OK;
}
