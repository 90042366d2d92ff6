/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "formats/slice_key.h"

static test_env t;
static hs__buffer key;

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    hs__buffer_init(&key, &t.env);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&key);
    return t.live ? -1 : 0;
}

static void put(const char *name, hs__box box)
{
    hs__buffer_clear(&key);
    hs__slice_key_put(&key, name, &box);
}

/* A read beyond the key ends the program. */
static bool get(const void *bytes, size_t n, char **name, hs__box *box)
{
    bool no_memory;
    bool is_key = hs__slice_key_get(&t.env, (hs_bytes){test_before_guard(bytes, n), n}, name, box, &no_memory);
    assert_false(no_memory);
    assert_int_equal(is_key, *name != NULL);
    return is_key;
}

static void assert_comes_back(const char *name, hs__box box)
{
    char *found;
    hs__box read;
    put(name, box);
    assert_true(get(key.data, key.size, &found, &read));
    assert_string_equal(found, name);
    assert_int_equal(hs__box_order(&read, &box), 0);
    hs__free(&t.env, found);
}

#define ASSERT_KEY(bytes)                                                                                                  \
    do {                                                                                                                   \
        assert_int_equal(key.size, sizeof(bytes) - 1);                                                                     \
        assert_memory_equal(key.data, bytes, key.size);                                                                    \
    } while (0)

static void a_key_has_these_bytes(void **state)
{
    (void)state;
    put("w", (hs__box){2, {0, 4}, {-1, 300}});
    ASSERT_KEY("\0w\0\1\1\2\x80\x7f\x84\xc1\x2c");
    put("a\xff\x62", (hs__box){.rank = 0});
    ASSERT_KEY("\0a\xff\0b\0\1\0");
}

/* The number as the start of the only dimension. */
static void assert_number(int64_t number, const char *bytes, size_t n)
{
    put("x", (hs__box){1, {number}, {0}});
    assert_int_equal(key.size, 6 + n + 1);
    assert_memory_equal(key.data + 6, bytes, n);
    assert_comes_back("x", (hs__box){1, {number}, {number}});
}
#define ASSERT_NUMBER(number, bytes) assert_number(number, bytes, sizeof(bytes) - 1)

static void numbers_have_these_bytes(void **state)
{
    (void)state;
    ASSERT_NUMBER(63, "\xbf");
    ASSERT_NUMBER(64, "\xc0\x40");
    ASSERT_NUMBER(-64, "\x40");
    ASSERT_NUMBER(-65, "\x3f\xbf");
    ASSERT_NUMBER(-0x800, "\x38\x00");
    ASSERT_NUMBER(0x424242, "\xf0\x42\x42\x42");
    ASSERT_NUMBER(INT64_C(1) << 55, "\xff\x80\x80\x00\x00\x00\x00\x00\x00");
    ASSERT_NUMBER(INT64_MAX, "\xff\xc0\x7f\xff\xff\xff\xff\xff\xff\xff");
    ASSERT_NUMBER(INT64_MIN, "\x00\x3f\x80\x00\x00\x00\x00\x00\x00\x00");
}

static void every_length_of_number_comes_back_in_order(void **state)
{
    (void)state;
    hs__buffer last;
    hs__buffer_init(&last, &t.env);
    for (int i = -62 * 3; i <= 62 * 3; i++) { /* 2^k - 1, 2^k, 2^k + 1, and their negatives; from k = 2 on they ascend */
        if (abs(i) < 6)
            continue;
        int64_t magnitude = (INT64_C(1) << abs(i) / 3) + abs(i) % 3 - 1;
        hs__box box = {1, {i < 0 ? -magnitude : magnitude}, {1}};
        assert_comes_back("x", box);
        int order = last.size ? memcmp(last.data, key.data, last.size < key.size ? last.size : key.size) : -1;
        assert_true(order <= 0);
        hs__buffer_clear(&last);
        hs__buffer_append(&last, key.data, key.size);
    }
    hs__buffer_free(&last);
}

static void names_of_every_byte_come_back(void **state)
{
    (void)state;
    char name[256];
    for (int i = 0; i < 255; i++)
        name[i] = (char)(i + 1);
    name[255] = '\0';
    assert_comes_back(name, (hs__box){8, {1, 2, 3, 4, 5, 6, 7, 8}, {-1, 1, -1, 1, -1, 1, -1, 1}});
}

static void the_box_of_a_scalar_comes_back(void **state)
{
    (void)state;
    assert_comes_back("x", (hs__box){.rank = 0});
}

static void truncated_keys_are_refused(void **state)
{
    (void)state;
    char *name;
    hs__box box;
    put("tensor", (hs__box){2, {INT64_MAX, 3}, {1000, 1 << 20}});
    for (size_t n = 0; n < key.size; n++)
        assert_false(get(key.data, n, &name, &box));
    hs__buffer_append(&key, "", 1);
    assert_false(get(key.data, key.size, &name, &box));
}

static void invalid_keys_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } wrong[] = {
#define WRONG(bytes) {bytes, sizeof(bytes) - 1}
        WRONG(""),
        WRONG("\1\5w\0\1\0"), /* does not begin with 0 */
        WRONG("\0\0\1\0"),    /* no name */
        WRONG("\0a\0\2\0"),   /* invalid byte after 00 */
        WRONG("\0a\0\xff"
              "b\0\1\0"),                                               /* a zero byte in the name */
        WRONG("\0a\xff\xff\0\1\0"),                                     /* invalid byte after ff */
        WRONG("\0a\0\1\1\11"),                                          /* nine dimensions */
        WRONG("\0a\0\1\11\1\1\1\1\1\1\1\1\1"),                          /* a rank of nine bytes */
        WRONG("\0a\0\1\11\0\0\0\0\0\0\0\0\1\x80\x80"),                  /* which is 1 */
        WRONG("\0a\0\1\1\1\xff\xe0\1\1\1\1\1\1\1\1\1\x80"),             /* a number of 11 bytes */
        WRONG("\0a\0\1\1\1\xff\xd0\1\1\1\1\1\1\1\1\x80"),               /* of more than 64 bits */
        WRONG("\0a\0\1\1\1\xff\xc0\x80\0\0\0\0\0\0\0\x80"),             /* 2^63 */
        WRONG("\0a\0\1\1\1\0\x3f\x7f\xff\xff\xff\xff\xff\xff\xff\x80"), /* -2^63 - 1 */
        WRONG("\0a\0\1\1\1\0\0"),
    };
    char *name;
    hs__box box;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (get(wrong[i].bytes, wrong[i].n, &name, &box))
            fail_msg("number %zu is taken for a key", i);
}

/* TensorFlow's reader also allows that. */
static void counts_may_begin_with_zeros(void **state)
{
    (void)state;
    static const char longest[] = "\0a\0\1\10\0\0\0\0\0\0\0\1\x83\x84";
    char *name;
    hs__box box, expected = {1, {3}, {4}};
    assert_true(get(longest, sizeof longest - 1, &name, &box));
    assert_int_equal(hs__box_order(&box, &expected), 0);
    hs__free(&t.env, name);
}

static hs_code put_and_get(test_env *env, void *user)
{
    (void)user;
    char *name;
    hs__box box;
    bool no_memory;
    hs__buffer bytes;
    hs__buffer_init(&bytes, &env->env);
    hs__slice_key_put(&bytes, "some name", &(hs__box){1, {3}, {4}});
    hs_code code = hs__buffer_check(&bytes, "a key", NULL);
    if (!code && !hs__slice_key_get(&env->env, (hs_bytes){bytes.data, bytes.size}, &name, &box, &no_memory)) {
        assert_true(no_memory);
        code = HS_RESOURCE_EXHAUSTED;
    } else if (!code) {
        hs__free(&env->env, name);
    }
    hs__buffer_free(&bytes);
    return code;
}

static void lack_of_memory_is_not_an_invalid_key(void **state)
{
    (void)state;
    test_each_allocation(put_and_get, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_key_has_these_bytes),
        TEST(numbers_have_these_bytes),
        TEST(every_length_of_number_comes_back_in_order),
        TEST(names_of_every_byte_come_back),
        TEST(the_box_of_a_scalar_comes_back),
        TEST(truncated_keys_are_refused),
        TEST(invalid_keys_are_refused),
        TEST(counts_may_begin_with_zeros),
        TEST(lack_of_memory_is_not_an_invalid_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
