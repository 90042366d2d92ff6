/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/messages.h"

#include "formats/proto_text.h"

static ProtobufCAllocator *allocator(void)
{
    static ProtobufCAllocator system;
    system = hs__proto_allocator(hs_env_default());
    return &system;
}

ProtobufCMessage *message_of(const ProtobufCMessageDescriptor *of, const char *text)
{
    hs_error err = {0};
    ProtobufCMessage *message = NULL;
    hs_code code = hs__proto_parse_text(of, text, strlen(text), allocator(), &message, &err);
    if (code)
        fail_msg("%s\n%s", err.message, text);
    return message;
}

void assert_refused(const ProtobufCMessageDescriptor *of, const char *text, const char *why)
{
    hs_error err = {0};
    ProtobufCMessage *message = NULL;
    hs_code code = hs__proto_parse_text(of, text, strlen(text), allocator(), &message, &err);
    if (code != HS_INVALID_ARGUMENT || !strstr(err.message, why))
        fail_msg("%s, '%s' instead of '%s' for:\n%s", hs_code_name(code), err.message, why, text);
    assert_null(message);
}

void message_free(ProtobufCMessage *message)
{
    protobuf_c_message_free_unpacked(message, allocator());
}

char *message_text(const ProtobufCMessage *message)
{
    hs__buffer buffer;
    hs__buffer_init(&buffer, hs_env_default());
    hs__proto_text(message, &buffer);
    hs__buffer_append(&buffer, "", 1);
    assert_ok(hs__buffer_check(&buffer, "text", NULL), &(hs_error){0});
    return (char *)buffer.data;
}

static hs__buffer packed(const ProtobufCMessage *message)
{
    hs__buffer buffer;
    hs__buffer_init(&buffer, hs_env_default());
    hs__proto_pack(message, &buffer);
    return buffer;
}

void assert_same_message(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    hs__buffer bytes_a = packed(a), bytes_b = packed(b);
    assert_ptr_equal(a->descriptor, b->descriptor);
    assert_int_equal(bytes_a.size, bytes_b.size);
    if (bytes_a.size)
        assert_memory_equal(bytes_a.data, bytes_b.data, bytes_a.size);
    hs__buffer_free(&bytes_a);
    hs__buffer_free(&bytes_b);
}

void assert_goes_round(const ProtobufCMessage *message)
{
    char *text = message_text(message);
    ProtobufCMessage *back = message_of(message->descriptor, text);
    assert_same_message(message, back);
    message_free(back);
    free(text);
}

/* Descriptors in the form that protobuf-c's compiler generates. */

#define FIELD(struct_name, member, number, kind, of)                                                                       \
    {                                                                                                                      \
        .name = #member, .id = number, .label = PROTOBUF_C_LABEL_NONE, .type = PROTOBUF_C_TYPE_##kind,                     \
        .offset = offsetof(struct_name, member), .descriptor = of                                                          \
    }

static const ProtobufCFieldDescriptor numbers_fields[] = {
    FIELD(numbers_message, i32, 1, INT32, NULL),     FIELD(numbers_message, s32, 2, SINT32, NULL),
    FIELD(numbers_message, sf32, 3, SFIXED32, NULL), FIELD(numbers_message, i64, 4, INT64, NULL),
    FIELD(numbers_message, s64, 5, SINT64, NULL),    FIELD(numbers_message, sf64, 6, SFIXED64, NULL),
    FIELD(numbers_message, u32, 7, UINT32, NULL),    FIELD(numbers_message, f32, 8, FIXED32, NULL),
    FIELD(numbers_message, u64, 9, UINT64, NULL),    FIELD(numbers_message, f64, 10, FIXED64, NULL),
};
static const unsigned numbers_by_name[] = {7, 9, 0, 3, 1, 4, 2, 5, 6, 8};
static const ProtobufCIntRange numbers_ranges[] = {{1, 0}, {0, 10}};

static void numbers_init(ProtobufCMessage *message)
{
    *(numbers_message *)message = (numbers_message){.base = PROTOBUF_C_MESSAGE_INIT(&numbers_descriptor)};
}

const ProtobufCMessageDescriptor numbers_descriptor = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "numbers",
    .sizeof_message = sizeof(numbers_message),
    .n_fields = 10,
    .fields = numbers_fields,
    .fields_sorted_by_name = numbers_by_name,
    .n_field_ranges = 1,
    .field_ranges = numbers_ranges,
    .message_init = numbers_init,
};

static const ProtobufCFieldDescriptor nest_fields[] = {FIELD(nest_message, nest, 1, MESSAGE, &nest_descriptor)};
static const unsigned nest_by_name[] = {0};
static const ProtobufCIntRange nest_ranges[] = {{1, 0}, {0, 1}};

static void nest_init(ProtobufCMessage *message)
{
    *(nest_message *)message = (nest_message){.base = PROTOBUF_C_MESSAGE_INIT(&nest_descriptor)};
}

const ProtobufCMessageDescriptor nest_descriptor = {
    .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name = "nest",
    .sizeof_message = sizeof(nest_message),
    .n_fields = 1,
    .fields = nest_fields,
    .fields_sorted_by_name = nest_by_name,
    .n_field_ranges = 1,
    .field_ranges = nest_ranges,
    .message_init = nest_init,
};

const char *const meta_graph_text = "meta_info_def {\n"
                                    "  meta_graph_version: \"1\"\n"
                                    "  tags: \"train\"\n"
                                    "  tags: \"\"\n"
                                    "}\n"
                                    "graph_def {\n"
                                    "  node {\n"
                                    "    name: \"weights\"\n"
                                    "    op: \"VariableV2\"\n"
                                    "    attr {\n"
                                    "      key: \"shape\"\n"
                                    "      value {\n"
                                    "        shape {\n"
                                    "          dim {\n"
                                    "            size: 784\n"
                                    "          }\n"
                                    "          dim {\n"
                                    "            size: -1\n"
                                    "            name: \"columns\"\n"
                                    "          }\n"
                                    "        }\n"
                                    "      }\n"
                                    "    }\n"
                                    "    attr {\n"
                                    "      key: \"all\"\n"
                                    "      value {\n"
                                    "        list {\n"
                                    "          s: \"\\000\\377\"\n"
                                    "          i: -9223372036854775808\n"
                                    "          f: 0.1\n"
                                    "          f: -inf\n"
                                    "          b: false\n"
                                    "          b: true\n"
                                    "          type: DT_FLOAT\n"
                                    "          shape {\n"
                                    "            unknown_rank: true\n"
                                    "          }\n"
                                    "        }\n"
                                    "      }\n"
                                    "    }\n"
                                    "  }\n"
                                    "  node {\n"
                                    "    name: \"train\"\n"
                                    "    op: \"NoOp\"\n"
                                    "    input: \"^weights\"\n"
                                    "    device: \"/cpu:0\"\n"
                                    "  }\n"
                                    "  versions {\n"
                                    "    producer: 27\n"
                                    "  }\n"
                                    "}\n"
                                    "saver_def {\n"
                                    "  filename_tensor_name: \"save/Const:0\"\n"
                                    "  max_to_keep: 5\n"
                                    "  sharded: true\n"
                                    "  keep_checkpoint_every_n_hours: 10000\n"
                                    "  version: V2\n"
                                    "}\n"
                                    "collection_def {\n"
                                    "  key: \"train_op\"\n"
                                    "  value {\n"
                                    "    node_list {\n"
                                    "      value: \"train\"\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
