/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_MESSAGES_H
#define HS_TESTS_FORMATS_MESSAGES_H

/* What the tests of the text form share. */

#include "support/test.h"

#include "base/proto.h"

/* Parses text that must be right, and text that must not be. */
ProtobufCMessage *message_of(const ProtobufCMessageDescriptor *of, const char *text);
void assert_refused(const ProtobufCMessageDescriptor *of, const char *text, const char *why);
void message_free(ProtobufCMessage *message);
/* The message's text; to be freed with free. */
char *message_text(const ProtobufCMessage *message);
/* As they are on the wire. */
void assert_same_message(const ProtobufCMessage *a, const ProtobufCMessage *b);
/* Written and read, the message is the same. */
void assert_goes_round(const ProtobufCMessage *message);

/* A message with a number of each kind that protobuf knows, and one that holds itself; our files have no such. */
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

/* A MetaGraphDef with something of everything. */
extern const char *const meta_graph_text;

#endif
