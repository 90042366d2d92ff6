/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing messages of other programs with protobuf-c. */
#include "base/meter.h"

#include "base/proto.h"

#include "bundle.pb-c.h"
#include "graph.pb-c.h"

static test_env t;
static meter m;
static hs__buffer bytes;

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    meter_init(&m, &t.env);
    hs__buffer_init(&bytes, &t.env);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&bytes);
    return t.live ? -1 : 0;
}

/* True if the bytes can be parsed as such a message. */
static bool reads(const ProtobufCMessageDescriptor *of)
{
    bool no_memory;
    ProtobufCAllocator allocator = hs__proto_allocator(&m.env);
    ProtobufCMessage *message = hs__proto_unpack(of, &m.env, bytes.data, bytes.size, &no_memory);
    assert_false(no_memory);
    if (message)
        protobuf_c_message_free_unpacked(message, &allocator);
    return message;
}

static void an_empty_message_is_read(void **state)
{
    (void)state;
    assert_true(reads(&hs__pb__bundle_header_proto__descriptor));
}

/* A header whose version comes in `n` parts, each with one number of a list. */
static void put_versions(size_t n)
{
    hs__buffer_clear(&bytes);
    for (size_t i = 0; i < n; i++)
        hs__buffer_append(&bytes, "\x1a\2\x18\1", 4);
}

static void a_message_given_twice_is_refused(void **state)
{
    (void)state;
    put_versions(1);
    assert_true(reads(&hs__pb__bundle_header_proto__descriptor));
    put_versions(2);
    assert_false(reads(&hs__pb__bundle_header_proto__descriptor));
}

static void messages_in_many_parts_allocate_little(void **state)
{
    (void)state;
    put_versions(10000); /* merging each part would copy all earlier ones */
    meter_reset(&m);
    assert_false(reads(&hs__pb__bundle_header_proto__descriptor));
    assert_true(m.bytes < 10 * bytes.size);
}

static void repeated_messages_are_read(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        hs__buffer_append(&bytes, "\n\3\n\1x", 5); /* a node with a name */
    assert_true(reads(&hs__pb__graph_def__descriptor));
}

/* A type whose arguments are types, and so on. */
static void put_nested(size_t depth)
{
    size_t room = 6 * depth + 6, at = room;
    unsigned char *all = malloc(room);
    assert_non_null(all);
    for (size_t i = 0; i < depth; i++) {
        unsigned char length[10];
        size_t n = hs__put_varint(length, room - at);
        at -= n;
        memcpy(all + at, length, n);
        all[--at] = 2 << 3 | 2;
    }
    hs__buffer_clear(&bytes);
    hs__buffer_append(&bytes, all + at, room - at);
    free(all);
}

static void messages_nested_too_deep_are_refused(void **state)
{
    (void)state;
    put_nested(100);
    assert_true(reads(&hs__pb__full_type_def__descriptor));
    put_nested(101);
    assert_false(reads(&hs__pb__full_type_def__descriptor));
    put_nested(1000000); /* deeper than any stack */
    assert_false(reads(&hs__pb__full_type_def__descriptor));
}

static void bytes_that_are_not_a_message_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\x1a", "\x1a\2\x18", "\x1a\2\x18\x80", "\xff\xff", "\x1b", "\x1d\1\1\1\1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hs__buffer_clear(&bytes);
        hs__buffer_append(&bytes, wrong[i], strlen(wrong[i]));
        assert_false(reads(&hs__pb__bundle_header_proto__descriptor));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_message_is_read),
        TEST(a_message_given_twice_is_refused),
        TEST(messages_in_many_parts_allocate_little),
        TEST(repeated_messages_are_read),
        TEST(messages_nested_too_deep_are_refused),
        TEST(bytes_that_are_not_a_message_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
