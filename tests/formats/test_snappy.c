/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/snappy.h"

#include "formats/packed.h"

#include "support/test.h"

#define BYTES(...)                                                                                                         \
    (hs_bytes)                                                                                                             \
    {                                                                                                                      \
        (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})                                 \
    }

/* A read beyond the stream ends the program. NULL: refused. */
static unsigned char *unpack(hs_bytes packed, size_t *bytes)
{
    static const unsigned char untouched[64] = "behind the contents";
    const hs_bytes exact = {test_before_guard(packed.data, packed.size), packed.size};
    if (!hs__snappy_size(exact, bytes))
        return NULL;
    assert_true(*bytes <= 22 * packed.size + 21);
    unsigned char *to = malloc(*bytes + sizeof untouched);
    memcpy(to + *bytes, untouched, sizeof untouched);
    bool unpacked = hs__snappy_unpack(exact, to, *bytes);
    assert_memory_equal(to + *bytes, untouched, sizeof untouched);
    if (unpacked)
        return to;
    free(to);
    return NULL;
}

static void assert_unpacks(hs_bytes packed, const void *expected, size_t n)
{
    size_t bytes;
    unsigned char *found = unpack(packed, &bytes);
    assert_non_null(found);
    assert_int_equal(bytes, n);
    assert_memory_equal(found, expected, n);
    free(found);
}

static void assert_refuses(hs_bytes packed)
{
    size_t bytes;
    assert_null(unpack(packed, &bytes));
}

static void every_element_is_read(void **state)
{
    (void)state;
    assert_unpacks(BYTES(0), "", 0);
    assert_unpacks(BYTES(3, 2 << 2, 'a', 'b', 'c'), "abc", 3);
    assert_unpacks(BYTES(3, 60 << 2, 2, 'a', 'b', 'c'), "abc", 3); /* the length in one more byte, in two, three and four */
    assert_unpacks(BYTES(3, 61 << 2, 2, 0, 'a', 'b', 'c'), "abc", 3);
    assert_unpacks(BYTES(3, 62 << 2, 2, 0, 0, 'a', 'b', 'c'), "abc", 3);
    assert_unpacks(BYTES(3, 63 << 2, 2, 0, 0, 0, 'a', 'b', 'c'), "abc", 3);
    assert_unpacks(BYTES(7, 2 << 2, 'a', 'b', 'c', 1, 3), "abcabca", 7); /* a copy of itself */
    assert_unpacks(BYTES(5, 2 << 2, 'a', 'b', 'c', 2 | 1 << 2, 3, 0), "abcab", 5);
    assert_unpacks(BYTES(4, 2 << 2, 'a', 'b', 'c', 3, 2, 0, 0, 0), "abcb", 4);
    assert_unpacks(BYTES(12, 0, 'z', 1 | 7 << 2, 1), "zzzzzzzzzzzz", 12);
}

static void bytes_that_are_not_a_stream_are_refused(void **state)
{
    (void)state;
    assert_refuses((hs_bytes){"", 0});
    assert_refuses(BYTES(0x80));                                          /* half a size */
    assert_refuses(BYTES(3));                                             /* no contents */
    assert_refuses(BYTES(3, 1 << 2, 'a', 'b'));                           /* too few */
    assert_refuses(BYTES(3, 3 << 2, 'a', 'b', 'c', 'd'));                 /* too many */
    assert_refuses(BYTES(0, 0, 'a'));                                     /* too many for none */
    assert_refuses(BYTES(3, 2 << 2, 'a', 'b'));                           /* a literal beyond the end */
    assert_refuses(BYTES(3, 63 << 2, 0xff, 0xff, 0xff, 0xff, 'a', 'b'));  /* the longest literal */
    assert_refuses(BYTES(3, 62 << 2, 2, 0));                              /* half a length */
    assert_refuses(BYTES(4, 1, 1));                                       /* a copy of nothing */
    assert_refuses(BYTES(5, 0, 'a', 1, 2));                               /* a copy from before the contents */
    assert_refuses(BYTES(5, 0, 'a', 1, 0));                               /* a copy from its own place */
    assert_refuses(BYTES(5, 0, 'a', 3 | 3 << 2, 0xff, 0xff, 0xff, 0xff)); /* the longest offset */
    assert_refuses(BYTES(5, 0, 'a', 2 | 3 << 2, 1));                      /* half an offset */
    assert_refuses(BYTES(5, 0, 'a', 1));                                  /* no offset */
    assert_refuses(BYTES(5, 0, 'a', 1 | 1 << 2, 1));                      /* a copy beyond the contents */
}

static void a_size_that_the_bytes_cannot_make_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    assert_false(hs__snappy_size(BYTES(0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'a'), &bytes)); /* 4 GiB of 7 bytes */
    assert_true(hs__snappy_size(BYTES(64, 0, 'a', 0xfe, 1, 0), &bytes));
    assert_int_equal(bytes, 64);
    assert_false(hs__snappy_unpack(BYTES(64, 0, 'a', 0xfe, 1, 0), &bytes, 8)); /* not the size that it has */
    assert_true(hs__snappy_size(BYTES(44, 0), &bytes));
    assert_int_equal(bytes, 44);
    assert_false(hs__snappy_size(BYTES(66, 0), &bytes));
    assert_false(hs__snappy_unpack(BYTES(0x80), &bytes, 0));
}

/* Bytes of which some repeat. */
static unsigned char *make_bytes(size_t n)
{
    unsigned char *bytes = malloc(n ? n : 1);
    uint32_t random = 1;
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525 + 1013904223;
        bytes[i] = i > 100 && random >> 31 ? bytes[i - 1 - (random >> 8) % 100] : (unsigned char)(random >> 24);
        if (i > 70000 && i % 1000 < 500) /* from far away */
            bytes[i] = bytes[i - 70000];
    }
    return bytes;
}

static void packed_bytes_are_unpacked_unchanged(void **state)
{
    static const size_t sizes[] = {0, 1, 4, 59, 60, 61, 62, 255, 256, 257, 65536, 65537, 200000};
    test_env *t = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *bytes = make_bytes(sizes[i]);
        hs__buffer packed;
        hs__buffer_init(&packed, &t->env);
        pack(bytes, sizes[i], &packed);
        assert_unpacks((hs_bytes){packed.data, packed.size}, bytes, sizes[i]);
        memset(bytes, 'a', sizes[i]);
        hs__buffer_clear(&packed);
        pack(bytes, sizes[i], &packed);
        assert_true(packed.size < 20 + sizes[i] / 20);
        assert_unpacks((hs_bytes){packed.data, packed.size}, bytes, sizes[i]);
        hs__buffer_free(&packed);
        free(bytes);
    }
}

/* The size is known, so that no part of a stream is a stream. */
static void every_truncation_is_refused(void **state)
{
    test_env *t = *state;
    unsigned char *bytes = make_bytes(3000);
    hs__buffer packed;
    hs__buffer_init(&packed, &t->env);
    pack(bytes, 3000, &packed);
    for (size_t n = 0; n < packed.size; n++)
        assert_refuses((hs_bytes){packed.data, n});
    hs__buffer_free(&packed);
    free(bytes);
}

static void no_flipped_bit_leads_out_of_the_memory(void **state)
{
    test_env *t = *state;
    unsigned char *bytes = make_bytes(1000);
    hs__buffer packed;
    size_t n;
    hs__buffer_init(&packed, &t->env);
    pack(bytes, 1000, &packed);
    for (size_t bit = 0; bit < 8 * packed.size; bit++) {
        packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        free(unpack((hs_bytes){packed.data, packed.size}, &n));
        packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    hs__buffer_free(&packed);
    free(bytes);
}

static int set_up(void **state)
{
    static test_env t;
    test_env_init(&t);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    return ((test_env *)*state)->live ? -1 : 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_element_is_read),
        TEST(bytes_that_are_not_a_stream_are_refused),
        TEST(a_size_that_the_bytes_cannot_make_is_refused),
        TEST(packed_bytes_are_unpacked_unchanged),
        TEST(every_truncation_is_refused),
        TEST(no_flipped_bit_leads_out_of_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
