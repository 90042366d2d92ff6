/* SPDX-License-Identifier: Apache-2.0 */
/* The messages with which connections of a group over TCP begin: every message survives writing and parsing, and changed
 * or random bytes are refused or give a valid message. */
#include "support/test.h"

#include "ranks/group_tcp_hello.h"

static const hs__hello example = {.kind = HS__HELLO_REGISTER,
                                  .rank = 3,
                                  .rank_count = 8,
                                  .code = HS_UNAVAILABLE,
                                  .token = "0123456789abcdef",
                                  .host = "node7",
                                  .text = "10.0.0.7:4567"};

static bool is_printable(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return length < size;
}

/* Asserts what the parser promises. */
static void check_parsed(const hs__hello *hello)
{
    assert_in_range(hello->kind, HS__HELLO_REGISTER, HS__HELLO_FAILED);
    assert_true(hello->rank >= 0 && hello->rank < hello->rank_count);
    assert_true(is_printable(hello->token, sizeof hello->token));
    assert_true(is_printable(hello->host, sizeof hello->host));
    assert_true(is_printable(hello->text, sizeof hello->text));
}

static void a_message_survives_writing_and_parsing(void **state)
{
    unsigned char bytes[HS__HELLO_BYTES];
    (void)state;
    for (int kind = HS__HELLO_REGISTER; kind <= HS__HELLO_FAILED; kind++) {
        hs__hello hello = example, parsed;
        hello.kind = (hs__hello_kind)kind;
        hs__hello_write(&hello, bytes);
        memset(&parsed, 0xff, sizeof parsed);
        assert_null(hs__hello_parse(bytes, &parsed));
        assert_int_equal(parsed.kind, kind);
        assert_int_equal(parsed.rank, 3);
        assert_int_equal(parsed.rank_count, 8);
        assert_int_equal(parsed.code, HS_UNAVAILABLE);
        assert_string_equal(parsed.token, example.token);
        assert_string_equal(parsed.host, example.host);
        assert_string_equal(parsed.text, example.text);
    }
}

static void the_bytes_are_those_of_version_2(void **state)
{
    static const unsigned char head[] = {'H', 'O', 'O', 'K', 'S', 'E', 'S', 'S', 2, 0, 0,  0, 1, 0,
                                         0,   0,   3,   0,   0,   0,   8,   0,   0, 0, 14, 0, 0, 0};
    unsigned char bytes[HS__HELLO_BYTES];
    (void)state;
    hs__hello_write(&example, bytes);
    assert_memory_equal(bytes, head, sizeof head);
    assert_string_equal((char *)bytes + 28, example.token);
    assert_string_equal((char *)bytes + 92, example.host);
    assert_string_equal((char *)bytes + 164, example.text);
}

static void other_characters_are_replaced(void **state)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs__hello hello = example, parsed;
    (void)state;
    snprintf(hello.host, sizeof hello.host, "a\nb\xc3\xa4");
    hs__hello_write(&hello, bytes);
    assert_null(hs__hello_parse(bytes, &parsed));
    assert_string_equal(parsed.host, "a?b??");
}

static void each_changed_byte_is_refused_or_valid(void **state)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs__hello parsed;
    (void)state;
    hs__hello_write(&example, bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        unsigned char before = bytes[i];
        for (int value = 0; value < 256; value++) {
            bytes[i] = (unsigned char)value;
            const char *wrong = hs__hello_parse(bytes, &parsed);
            if (!wrong)
                check_parsed(&parsed);
            assert_true(wrong || i >= HS__HELLO_HEAD || bytes[i] == before); /* magic and version */
        }
        bytes[i] = before;
    }
}

static void texts_without_an_end_are_refused(void **state)
{
    static const size_t fields[][2] = {{28, HS__HELLO_TOKEN}, {92, HS__HELLO_HOST}, {164, HS__HELLO_TEXT}};
    unsigned char bytes[HS__HELLO_BYTES];
    hs__hello parsed;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hs__hello_write(&example, bytes);
        memset(bytes + fields[i][0], 'x', fields[i][1]);
        assert_string_equal(hs__hello_parse(bytes, &parsed), "a message has an invalid text");
        bytes[fields[i][0] + fields[i][1] - 1] = 0;
        assert_null(hs__hello_parse(bytes, &parsed));
    }
}

/* Changes some bytes of a message, or all. Half of the changes leave the head valid, so that the texts are reached. */
static void random_bytes_are_refused_or_valid(void **state)
{
    enum { ROUNDS = 200000 / HOOKSESS_TEST_SHARE };
    unsigned char bytes[HS__HELLO_BYTES];
    hs_rng random = hs_rng_stream(1, 0);
    hs__hello parsed;
    int n_valid = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        hs__hello_write(&example, bytes);
        size_t first = round % 2 ? 12 : 28;
        for (uint64_t n = hs_rng_next(&random) % 8; n > 0; n--)
            bytes[first + hs_rng_next(&random) % (sizeof bytes - first)] = (unsigned char)hs_rng_next(&random);
        if (round % 100 == 0)
            for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (unsigned char)hs_rng_next(&random);
        if (!hs__hello_parse(bytes, &parsed)) {
            check_parsed(&parsed);
            n_valid++;
        }
    }
    assert_in_range(n_valid, ROUNDS / 20, ROUNDS - ROUNDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_survives_writing_and_parsing), cmocka_unit_test(the_bytes_are_those_of_version_2),
        cmocka_unit_test(other_characters_are_replaced),          cmocka_unit_test(each_changed_byte_is_refused_or_valid),
        cmocka_unit_test(texts_without_an_end_are_refused),       cmocka_unit_test(random_bytes_are_refused_or_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
