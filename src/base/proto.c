/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf-c with the memory of an hs_env: unpacking, which rejects deeply nested messages and repeated ones first
 * (is_plain), and packing into a buffer. */
#include "base/proto.h"

#include "base/wire_read.h"

static void *proto_alloc(void *data, size_t bytes)
{
    return hs__alloc(data, bytes, 1);
}

static void proto_free(void *data, void *block)
{
    hs__free(data, block);
}

ProtobufCAllocator hs__proto_allocator(const hs_env *env)
{
    return (ProtobufCAllocator){proto_alloc, proto_free, (void *)env};
}

/* An allocator that records failures, as protobuf-c reports invalid bytes and lack of memory alike. */
typedef struct {
    const hs_env *env;
    bool failed;
} watched_memory;

static void *watched_alloc(void *data, size_t bytes)
{
    watched_memory *memory = data;
    void *block = hs__alloc(memory->env, bytes, 1);
    memory->failed |= !block;
    return block;
}

static void watched_free(void *data, void *block)
{
    hs__free(((watched_memory *)data)->env, block);
}

enum { MAX_DEPTH = 100 };

static bool is_plain(const ProtobufCMessageDescriptor *of, hs_bytes message, int depth)
{
    bool seen[64] = {false}; /* our messages have fewer fields */
    hs__fields fields = hs__fields_of(message);
    hs__field next;
    while (hs__fields_next(&fields, &next)) {
        const ProtobufCFieldDescriptor *field =
            next.bytes.data ? protobuf_c_message_descriptor_get_field(of, (unsigned)next.number) : NULL;
        if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        bool *twice = &seen[(size_t)(field - of->fields) % 64];
        if ((*twice && field->label != PROTOBUF_C_LABEL_REPEATED) || depth == MAX_DEPTH ||
            !is_plain(field->descriptor, next.bytes, depth + 1))
            return false;
        *twice = true;
    }
    return !fields.failed;
}

ProtobufCMessage *hs__proto_unpack(const ProtobufCMessageDescriptor *of, const hs_env *env, const void *data, size_t bytes,
                                   bool *no_memory)
{
    watched_memory memory = {.env = env};
    ProtobufCAllocator allocator = {watched_alloc, watched_free, &memory};
    ProtobufCMessage *message = NULL;
    if (is_plain(of, (hs_bytes){data, bytes}, 0))
        message = protobuf_c_message_unpack(of, &allocator, bytes, data);
    *no_memory = !message && memory.failed;
    return message;
}

void hs__proto_pack(const ProtobufCMessage *message, hs__buffer *out)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    unsigned char *to = hs__buffer_room(out, bytes);
    if (to)
        out->size += protobuf_c_message_pack(message, to);
}

void hs__proto_put_bytes(hs__buffer *out, uint32_t field, const void *data, size_t bytes)
{
    hs__buffer_varint(out, (uint64_t)field << 3 | 2);
    hs__buffer_varint(out, bytes);
    hs__buffer_append(out, data, bytes);
}

void hs__proto_put_message(hs__buffer *out, uint32_t field, const ProtobufCMessage *message)
{
    hs__buffer_varint(out, (uint64_t)field << 3 | 2);
    hs__buffer_varint(out, protobuf_c_message_get_packed_size(message));
    hs__proto_pack(message, out);
}

char *hs__proto_string(const char *text)
{
    return (char *)text;
}
