/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_MESSAGES_H
#define HS_TESTS_FORMATS_MESSAGES_H

/* Shared by the tests of the text format. */

#include "support/test.h"

#include "base/proto.h"

/* Parses valid text, and text that must be refused. */
ProtobufCMessage *message_of(const ProtobufCMessageDescriptor *of, const char *text);
void assert_refused(const ProtobufCMessageDescriptor *of, const char *text, const char *why);
void message_free(ProtobufCMessage *message);
/* The message's text. The caller frees it with free. */
char *message_text(const ProtobufCMessage *message);
/* Asserts that both have the same serialized form. */
void assert_same_message(const ProtobufCMessage *a, const ProtobufCMessage *b);
/* Asserts that the message is the same after writing and parsing it. */
void assert_goes_round(const ProtobufCMessage *message);

/* A message with each of protobuf's numeric types, and a recursive message. The library's messages have neither. */
typedef struct {
    ProtobufCMessage base;
    int32_t i32, s32, sf32;
    int64_t i64, s64, sf64;
    uint32_t u32, f32;
    uint64_t u64, f64;
} numbers_message;
extern const ProtobufCMessageDescriptor numbers_descriptor;

typedef struct nest_message {
    ProtobufCMessage base;
    struct nest_message *nest;
} nest_message;
extern const ProtobufCMessageDescriptor nest_descriptor;

/* A MetaGraphDef with all kinds of fields. */
extern const char *const meta_graph_text;

#endif
