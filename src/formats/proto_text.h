/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_PROTO_TEXT_H
#define HS_FORMATS_PROTO_TEXT_H

#include "base/proto.h"

/* protobuf's text format for any message, by protobuf-c's descriptors. */

/* Appends a message as TensorFlow writes it: indented by two blanks, fields sorted by number, without default values. */
void hs__proto_text(const ProtobufCMessage *message, hs__buffer *out);
/* Appends one field of the outermost message. */
void hs__proto_text_string(const char *field, const char *value, hs__buffer *out);
void hs__proto_text_real(const char *field, double value, hs__buffer *out);

/* Parses a message. The caller frees *out with protobuf_c_message_free_unpacked and the same allocator. INVALID_ARGUMENT,
 * with line and cause: the text is not this message, or is nested deeper than 100. */
hs_code hs__proto_parse_text(const ProtobufCMessageDescriptor *of, const char *text, size_t bytes,
                             ProtobufCAllocator *allocator, ProtobufCMessage **out, hs_error *err);

/* The size of a field, or of one element of a repeated field, in its struct. */
size_t hs__proto_element_size(const ProtobufCFieldDescriptor *field);

#endif
