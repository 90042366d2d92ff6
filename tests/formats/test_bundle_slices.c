/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in slices, as TensorFlow's partitioned variables are: an entry for the whole, and one for each slice under a key
 * that begins with a zero byte. */
#include "formats/bundles.h"

#include "base/crc32c.h"
#include "base/proto.h"

#include <errno.h>

static const char data[] = "abcdefghi";

static Hs__Pb__TensorShapeProto shape;

/* Three bytes of the data. */
static Hs__Pb__BundleEntryProto three_at(int64_t offset)
{
    static Hs__Pb__TensorShapeProto__Dim dim = HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT, *dims[] = {&dim};
    Hs__Pb__BundleEntryProto entry = HS__PB__BUNDLE_ENTRY_PROTO__INIT;
    dim.size = 3;
    shape = (Hs__Pb__TensorShapeProto)HS__PB__TENSOR_SHAPE_PROTO__INIT;
    shape.n_dim = 1;
    shape.dim = dims;
    entry.dtype = HS__PB__DATA_TYPE__DT_UINT8;
    entry.shape = &shape;
    entry.offset = offset;
    entry.size = 3;
    entry.crc32c = hs__crc32c_mask(hs__crc32c(0, data + offset, 3));
    return entry;
}

/* `key` is the name in it, as it is escaped there, with what comes after it. */
static void put_slice(const char *key, size_t bytes, int64_t offset)
{
    char whole[64] = {0};
    Hs__Pb__BundleEntryProto entry = three_at(offset);
    hs__buffer value;
    hs__buffer_init(&value, &t.env);
    hs__proto_pack(&entry.base, &value);
    memcpy(whole + 1, key, bytes);
    index_put(whole, bytes + 1, value.data, value.size);
    hs__buffer_free(&value);
}
#define SLICE(key, offset) put_slice(key, sizeof(key) - 1, offset)

static void put_whole(const char *name, size_t n_slices)
{
    Hs__Pb__TensorSliceProto slice = HS__PB__TENSOR_SLICE_PROTO__INIT, *slices[4] = {&slice, &slice, &slice, &slice};
    Hs__Pb__BundleEntryProto entry = three_at(0);
    entry.size = 0;
    entry.n_slices = n_slices;
    entry.slices = slices;
    index_put_message(name, &entry.base);
}

static void begin(void)
{
    test_write_file(DATA_FILE, data, sizeof data - 1);
    index_begin();
    index_put_header(1);
}

static hs_code verify(const char *name)
{
    hs__bundle_reader reader = open_bundle();
    hs_code code = hs__bundle_verify_slices(&reader, find_entry(&reader, name), &err);
    hs__bundle_reader_close(&reader);
    return code;
}

static void two_tensors(void)
{
    begin();
    SLICE("a\0\1one", 0);
    SLICE("a\0\1two", 3);
    SLICE("b\0\1one", 6);
    put_whole("a", 2);
    put_whole("b", 1);
    index_end();
}

static void slices_are_no_tensors(void **state)
{
    (void)state;
    two_tensors();
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(reader.n_entries, 2);
    hs__bundle_reader_close(&reader);
}

static void every_wrong_byte_is_one_of_its_tensor(void **state)
{
    (void)state;
    two_tensors();
    assert_ok(verify("a"), &err);
    assert_ok(verify("b"), &err);
    for (size_t i = 0; i < sizeof data - 1; i++) {
        char wrong[] = "abcdefghi";
        wrong[i] ^= 4;
        test_write_file(DATA_FILE, wrong, sizeof wrong - 1);
        assert_fails(verify(i < 6 ? "a" : "b"), HS_DATA_LOSS, &err, i < 6 ? "checksum mismatch of 'a'" : "of 'b'");
        assert_ok(verify(i < 6 ? "b" : "a"), &err);
    }
}

static void missing_slices_are_damage(void **state)
{
    (void)state;
    begin();
    SLICE("a\0\1one", 0);
    put_whole("a", 2);
    put_whole("b", 3);
    index_end();
    assert_fails(verify("a"), HS_DATA_LOSS, &err, "'a' has 1 of its 2 slices");
    assert_fails(verify("b"), HS_DATA_LOSS, &err, "'b' has 0 of its 3 slices");
}

static void slices_nobody_knows_of_are_damage(void **state)
{
    (void)state;
    begin();
    SLICE("a\0\1one", 0);
    SLICE("a\0\1two", 3);
    put_whole("a", 1);
    index_end();
    assert_fails(verify("a"), HS_DATA_LOSS, &err, "'a' has 2 of its 1 slices");
}

static void a_missing_data_file_is_not_found(void **state)
{
    (void)state;
    two_tensors();
    assert_int_equal(remove(DATA_FILE), 0);
    assert_fails(verify("a"), HS_NOT_FOUND, &err, DATA_FILE);
}

static void names_are_escaped_in_keys(void **state)
{
    (void)state;
    begin();
    SLICE("a\0\1", 0); /* nothing after it */
    SLICE("a\xff\0b\0\1one", 3);
    put_whole("a", 1);
    put_whole("a\xff\x62", 1);
    index_end();
    assert_ok(verify("a"), &err);
    assert_ok(verify("a\xff\x62"), &err);
}

static void keys_without_a_name_keep_nobody_from_the_rest(void **state)
{
    (void)state;
    begin();
    SLICE("", 0);
    SLICE("\0\1no name", 0);
    SLICE("\0\2", 0);
    SLICE("\0\xff zero byte\0\1", 0);
    index_put("\0a\0\1nonsense", 13, "\xff", 1);
    SLICE("a\0\1one", 0);
    SLICE("a\xff\1\0\1", 0);
    SLICE("never ended", 0);
    SLICE("never ended\0", 0);
    put_whole("a", 1);
    put_whole("never ended", 1);
    index_end();
    assert_ok(verify("a"), &err);
    assert_fails(verify("never ended"), HS_DATA_LOSS, &err, "0 of its 1 slices");
}

static hs_code open_and_verify(test_env *env, void *user)
{
    (void)user;
    hs__bundle_reader reader;
    hs_code code = hs__bundle_reader_open(&reader, &env->env, PREFIX, NULL);
    if (!code)
        code = hs__bundle_verify_slices(&reader, find_entry(&reader, "a"), NULL);
    if (!code)
        code = hs__bundle_verify_index(&reader, NULL);
    hs__bundle_reader_close(&reader);
    return code;
}

static void verifying_may_fail_anywhere(void **state)
{
    (void)state;
    two_tensors();
    test_each_allocation(open_and_verify, NULL);
    test_each_file_call(open_and_verify, NULL, EIO, false, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(slices_are_no_tensors),
        TEST(every_wrong_byte_is_one_of_its_tensor),
        TEST(missing_slices_are_damage),
        TEST(slices_nobody_knows_of_are_damage),
        TEST(a_missing_data_file_is_not_found),
        TEST(names_are_escaped_in_keys),
        TEST(keys_without_a_name_keep_nobody_from_the_rest),
        TEST(verifying_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
