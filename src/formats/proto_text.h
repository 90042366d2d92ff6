/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_PROTO_TEXT_H
#define HS_FORMATS_PROTO_TEXT_H

#include "base/proto.h"

#include <locale.h>

/* protobuf's text format for any message, by protobuf-c's descriptors. */

/* Appends a message as TensorFlow writes it: indented by two blanks, fields sorted by number, without default values. */
void hs__proto_text(const ProtobufCMessage *message, hs__buffer *out);

/* Parses a message. The caller frees *out with protobuf_c_message_free_unpacked and the same allocator. INVALID_ARGUMENT,
 * with line and cause: the text is not this message, or is nested deeper than 100. */
hs_code hs__proto_parse_text(const ProtobufCMessageDescriptor *of, const char *text, size_t bytes,
                             ProtobufCAllocator *allocator, ProtobufCMessage **out, hs_error *err);

/* Between begin and end, this thread formats and parses numbers in the C locale. The program's locale may use a decimal
 * comma. */
typedef struct hs__c_numbers {
    locale_t c, before;
} hs__c_numbers;
hs__c_numbers hs__c_numbers_begin(void);
void hs__c_numbers_end(hs__c_numbers numbers);

/* The size of a field, or of one element of a repeated field, in its struct. */
size_t hs__proto_element_size(const ProtobufCFieldDescriptor *field);

#endif
