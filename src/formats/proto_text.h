/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_PROTO_TEXT_H
#define HS_FORMATS_PROTO_TEXT_H

#include "base/proto.h"

#include <locale.h>

/* protobuf's text form, over protobuf-c's descriptors: for any message. */

/* Appends a message as TensorFlow writes it: two blanks of indentation, fields in the order of their numbers, default
 * values left out. */
void hs__proto_text(const ProtobufCMessage *message, hs__buffer *out);

/* Reads a message. *out is to be freed with protobuf_c_message_free_unpacked and the same allocator. INVALID_ARGUMENT with
 * line and cause for text that is not of this message. Nesting goes to a depth of 100. */
hs_code hs__proto_parse_text(const ProtobufCMessageDescriptor *of, const char *text, size_t bytes,
                             ProtobufCAllocator *allocator, ProtobufCMessage **out, hs_error *err);

/* Between the two, numbers have C's form in this thread: a program may have set a locale that has a comma in them. */
typedef struct hs__c_numbers {
    locale_t c, before;
} hs__c_numbers;
hs__c_numbers hs__c_numbers_begin(void);
void hs__c_numbers_end(hs__c_numbers numbers);

/* Bytes of a field, or of one element of a repeated one, in its struct. */
size_t hs__proto_element_size(const ProtobufCFieldDescriptor *field);

#endif
