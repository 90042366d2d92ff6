/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_PROTO_H
#define HS_BASE_PROTO_H

#include <protobuf-c/protobuf-c.h>

#include "base/buffer.h"

/* protobuf-c on the env's memory. The allocator must not outlive the env. */
ProtobufCAllocator hs__proto_allocator(const hs_env *env);

/* Reads a message. The caller frees it with protobuf_c_message_free_unpacked and hs__proto_allocator. Returns NULL if the
 * bytes are not a message of this type, or, with *no_memory set, if memory is out. Refuses a submessage that is given twice
 * without being repeated, because protobuf-c copies the first one each time. Refuses messages nested deeper than 100,
 * because protobuf-c does not limit its recursion. */
ProtobufCMessage *hs__proto_unpack(const ProtobufCMessageDescriptor *of, const hs_env *env, const void *data, size_t bytes,
                                   bool *no_memory);

/* Appends the serialized message. */
void hs__proto_pack(const ProtobufCMessage *message, hs__buffer *out);

/* Appends a field that holds bytes, a string or a serialized message. */
void hs__proto_put_bytes(hs__buffer *out, uint32_t field, const void *data, size_t bytes);
/* The same for a message. */
void hs__proto_put_message(hs__buffer *out, uint32_t field, const ProtobufCMessage *message);

/* Casts const away for protobuf-c's structs, which have no const. Packing only reads. */
char *hs__proto_string(const char *text);

#endif
