/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of more bytes than 32 bits can count. They take as much disk and memory, and some seconds: these tests are run
 * where the environment has HOOKSESS_BIG_TESTS. */
#include "formats/bundles.h"

/* Zeros but for a few bytes; NULL where there is no memory for it. */
static char *make(size_t bytes)
{
    char *data = getenv("HOOKSESS_BIG_TESTS") && bytes > UINT32_MAX / 2 ? calloc(bytes, 1) : NULL;
    if (data) {
        data[0] = 'a';
        data[bytes / 2] = 'm';
        data[bytes - 1] = 'z';
    }
    return data;
}

static void assert_same(const char *found, const char *expected, size_t bytes)
{
    enum { PIECE = 1 << 26 };
    for (size_t at = 0; at < bytes; at += PIECE)
        assert_memory_equal(found + at, expected + at, bytes - at < PIECE ? bytes - at : PIECE);
}

static void tb_011_a_string_of_4_GiB(void **state)
{
    (void)state;
    hs_string strings[] = {{"before", 6}, {.bytes = (size_t)1 << 32}, {"behind", 6}};
    char *large = make(strings[1].bytes);
    if (!large)
        skip();
    strings[1].data = large;
    write_bundle(&(named_tensor){"s", hs_tensor_of(HS_STRING, HS_SHAPE(3), strings)}, 1);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *entry = find_entry(&reader, "s");
    hs_string *found = malloc(hs__bundle_read_bytes(entry));
    assert_non_null(found);
    assert_ok(hs__bundle_read(&reader, entry, found, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_true(found[i].bytes == strings[i].bytes);
        assert_same(found[i].data, strings[i].data, strings[i].bytes);
    }
    free(found);
    hs__bundle_reader_close(&reader);
    free(large);
}

static void a_tensor_of_more_than_2_GiB(void **state)
{
    (void)state;
    const int64_t rows = 5, columns = ((int64_t)1 << 29) + 12345;
    const size_t bytes = (size_t)(rows * columns);
    char *large = make(bytes), *found = large ? malloc(bytes) : NULL, last;
    if (!found)
        skip();
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_INT8, HS_SHAPE(rows, columns), large)}, 1);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *entry = find_entry(&reader, "x");
    assert_ok(hs__bundle_verify(&reader, entry, &err), &err);
    assert_ok(hs__bundle_read(&reader, entry, found, &err), &err);
    assert_same(found, large, bytes);
    for (int i = 0; i < 2; i++) { /* with the whole, and alone */
        last = 0;
        assert_ok(hs__bundle_read_part(&reader, entry, &(hs__box){2, {rows - 1, columns - 1}, {1, 1}}, &last, &err), &err);
        assert_int_equal(last, 'z');
    }
    hs__bundle_reader_close(&reader);
    free(found);
    free(large);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_011_a_string_of_4_GiB),
        TEST(a_tensor_of_more_than_2_GiB),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
