/* SPDX-License-Identifier: Apache-2.0 */
/* Copying tensors from one bundle to another, in the form in which they are stored. */
#include "formats/slices.h"

#include "base/crc32c.h"
#include "formats/byte_order.h"

#include <math.h>

#define COPY      in("copy")
#define COPY_DATA in("copy.data-00000-of-00001")

/* Copies all tensors of the bundle to a second one. */
static hs_code copy_on(test_env *env, void *user)
{
    hs__bundle_reader reader;
    hs__bundle_writer writer;
    hs_error why = {0};
    hs_code code = hs__bundle_reader_open(&reader, &env->env, PREFIX, &why);
    if (!code) {
        code = hs__bundle_writer_open(&writer, &env->env, COPY_DATA, 0, 1, &why);
        for (size_t i = 0; !code && i < reader.n_entries; i++)
            code = hs__bundle_writer_add_copy(&writer, &reader, &reader.entries[i], &why);
        if (!code)
            code = hs__bundle_writer_finish(&writer, in("copy.index"), &why);
        hs__bundle_writer_close(&writer);
        hs__bundle_reader_close(&reader);
    }
    if (user)
        *(hs_error *)user = why;
    return code;
}

static hs_code copy_all(void)
{
    return copy_on(&t, &err);
}

static hs__bundle_reader open_copy(void)
{
    hs__bundle_reader reader;
    assert_ok(hs__bundle_reader_open(&reader, &t.env, COPY, &err), &err);
    assert_ok(hs__bundle_verify_index(&reader, &err), &err);
    return reader;
}

static const float floats[] = {1, -2, 3.5F, 4, 5, 6};
static const hs_string words[] = {{"a", 1}, {"", 0}, {"longer", 6}};

static void write_kinds(void)
{
    write_bundle(
        (const named_tensor[]){
            {"floats", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), floats)},
            {"none", hs_tensor_of(HS_DOUBLE, HS_SHAPE(0, 3), NULL)},
            {"scalar", hs_tensor_of(HS_INT16, HS_SCALAR, values + 5)},
            {"words", hs_tensor_of(HS_STRING, HS_SHAPE(3), words)},
        },
        4);
}

static void numbers_and_strings_are_copied(void **state)
{
    (void)state;
    const hs_tensor expected[] = {
        hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), floats), hs_tensor_of(HS_DOUBLE, HS_SHAPE(0, 3), NULL),
        hs_tensor_of(HS_INT16, HS_SCALAR, values + 5), hs_tensor_of(HS_STRING, HS_SHAPE(3), words)};
    write_kinds();
    assert_ok(copy_all(), &err);
    hs__bundle_reader reader = open_copy();
    assert_int_equal(reader.n_entries, 4);
    for (size_t i = 0; i < 4; i++)
        assert_tensor(&reader, reader.entries[i].name, &expected[i]);
    hs__bundle_reader_close(&reader);
}

static void slices_are_copied_as_slices(void **state)
{
    (void)state;
    write_slices(pinwheel, N_PINWHEEL);
    assert_ok(copy_all(), &err);
    hs__bundle_reader reader = open_copy();
    assert_int_equal(reader.n_entries, 3);
    assert_int_equal(find_entry(&reader, "w")->slices, N_PINWHEEL);
    assert_whole(&reader);
    assert_every_part(&reader);
    hs__bundle_reader_close(&reader);
}

/* More than the piece that is read at a time. */
enum { MANY = 200000 };

static void tensors_longer_than_a_piece_are_copied(void **state)
{
    (void)state;
    static float many[MANY];
    static hs_string texts[MANY];
    for (int i = 0; i < MANY; i++) {
        many[i] = (float)i;
        texts[i] = (hs_string){"0123456789", (size_t)i % 11};
    }
    const hs_tensor numbers = hs_tensor_of(HS_FLOAT, HS_SHAPE(MANY), many);
    const hs_tensor strings = hs_tensor_of(HS_STRING, HS_SHAPE(MANY), texts);
    write_bundle((const named_tensor[]){{"numbers", numbers}, {"strings", strings}}, 2);
    assert_ok(copy_all(), &err);
    hs__bundle_reader reader = open_copy();
    assert_tensor(&reader, "numbers", &numbers);
    assert_tensor(&reader, "strings", &strings);
    hs__bundle_reader_close(&reader);
}

static void nan_is_found_at_its_index(void **state)
{
    (void)state;
    static float many[MANY];
    many[MANY - 2] = NAN;
    many[MANY - 1] = INFINITY;
    const hs_tensor numbers = hs_tensor_of(HS_FLOAT, HS_SHAPE(MANY), many);
    write_bundle((const named_tensor[]){{"fine", hs_tensor_of(HS_FLOAT, HS_SCALAR, floats)}, {"numbers", numbers}}, 2);
    hs__bundle_reader reader = open_bundle();
    hs__bundle_writer writer;
    assert_ok(hs__bundle_writer_open(&writer, &t.env, COPY_DATA, 0, 1, &err), &err);
    for (size_t i = 0; i < reader.n_entries; i++)
        assert_ok(hs__bundle_writer_add_copy(&writer, &reader, &reader.entries[i], &err), &err);
    assert_int_equal(writer.n_nonfinite, 1);
    assert_string_equal(writer.nonfinite_name, "numbers");
    assert_int_equal(writer.nonfinite.first_index, MANY - 2);
    assert_int_equal(writer.nonfinite.nan, 1);
    assert_int_equal(writer.nonfinite.positive_infinity, 1);
    hs__bundle_writer_close(&writer);
    hs__bundle_reader_close(&reader);
}

/* A tensor of an unknown type, and one of TensorFlow's variants, which hold a string of 300 bytes each. */

enum { UNKNOWN = 25, VARIANT = 21, TEXT = 300, ELEMENT = 2 + TEXT + 4 };

static void write_unknown(void)
{
    static unsigned char data[6 + 2 * ELEMENT];
    uint32_t crc = 0;
    memcpy(data, "ABCDEF", 6);
    for (int i = 0; i < 2; i++) {
        unsigned char *at = data + 6 + i * ELEMENT, length[8] = {0};
        memset(at, 'a' + i, ELEMENT);
        at[0] = TEXT % 128 + 128;
        at[1] = TEXT / 128;
        length[hs__big_endian() ? 7 : 0] = TEXT % 256;
        length[hs__big_endian() ? 6 : 1] = TEXT / 256;
        crc = hs__crc32c(hs__crc32c(crc, length, sizeof length), at + 2, TEXT + 4);
    }
    test_write_file(DATA_FILE, data, sizeof data);
    index_begin();
    index_put_header(1);
    index_put_claim("bytes",
                    &(claim){.dtype = UNKNOWN, .n_dims = 1, .dims = {6}, .size = 6, .crc = hs__crc32c(0, data, 6)});
    index_put_claim("variants",
                    &(claim){.dtype = VARIANT, .n_dims = 1, .dims = {2}, .offset = 6, .size = 2 * ELEMENT, .crc = crc});
    index_end();
}

static void types_that_are_unknown_are_copied(void **state)
{
    (void)state;
    size_t bytes, copied;
    write_unknown();
    assert_ok(copy_all(), &err);
    hs__bundle_reader reader = open_copy();
    assert_int_equal(find_entry(&reader, "bytes")->dtype, UNKNOWN);
    assert_int_equal(find_entry(&reader, "variants")->dtype, VARIANT);
    for (size_t i = 0; i < 2; i++)
        assert_ok(hs__bundle_verify(&reader, &reader.entries[i], &err), &err);
    hs__bundle_reader_close(&reader);
    char *data = test_read_file(DATA_FILE, &bytes), *copy = test_read_file(COPY_DATA, &copied);
    assert_int_equal(bytes, copied);
    assert_memory_equal(data, copy, bytes);
    free(data);
    free(copy);
}

static void write_w(void)
{
    write_slices(pinwheel, N_PINWHEEL);
}

static void damage_is_found_in_each_kind(void **state)
{
    (void)state;
    static void (*const writes[])(void) = {write_kinds, write_w, write_unknown};
    for (size_t i = 0; i < 3; i++) {
        size_t bytes;
        writes[i]();
        free(test_read_file(DATA_FILE, &bytes));
        for (size_t at = 0; at < bytes; at += at < 40 ? 1 : 37) {
            damage_data(at);
            assert_int_equal(copy_all(), HS_DATA_LOSS);
            damage_data(at);
        }
        assert_ok(copy_all(), &err);
    }
}

static void put_one(bool big_endian, const claim *c)
{
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    if (big_endian)
        header.endianness = HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG;
    test_write_file(DATA_FILE, values, sizeof values);
    index_begin();
    index_put_message("", &header.base);
    index_put_claim("w", c);
    index_end();
}

static void an_unknown_rank_or_byte_order_is_refused(void **state)
{
    (void)state;
    const claim row = last_row();
    put_one(!hs__big_endian(), &row);
    assert_fails(copy_all(), HS_UNIMPLEMENTED, &err, "cannot copy 'w': its byte order is not supported");
    put_one(hs__big_endian(), &(claim){.dtype = HS_INT16, .n_dims = 9, .dims = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .size = 2});
    assert_fails(copy_all(), HS_UNIMPLEMENTED, &err, "cannot copy 'w': its rank is not supported");
}

static void a_name_that_exists_is_refused(void **state)
{
    (void)state;
    write_kinds();
    hs__bundle_reader reader = open_bundle();
    hs__bundle_writer writer;
    assert_ok(hs__bundle_writer_open(&writer, &t.env, COPY_DATA, 0, 1, &err), &err);
    assert_ok(hs__bundle_writer_add_copy(&writer, &reader, &reader.entries[0], &err), &err);
    assert_fails(hs__bundle_writer_add_copy(&writer, &reader, &reader.entries[0], &err), HS_INVALID_ARGUMENT, &err,
                 "two tensors to save have the name 'floats'");
    assert_fails(hs__bundle_writer_add_copy(&writer, &reader, &reader.entries[1], &err), HS_INVALID_ARGUMENT, &err,
                 "the bundle is finished or has failed");
    hs__bundle_writer_close(&writer);
    hs__bundle_reader_close(&reader);
}

static void memory_may_be_short(void **state)
{
    (void)state;
    write_kinds();
    test_each_allocation(copy_on, NULL);
    write_w();
    test_each_allocation(copy_on, NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_and_strings_are_copied),
        TEST(slices_are_copied_as_slices),
        TEST(tensors_longer_than_a_piece_are_copied),
        TEST(nan_is_found_at_its_index),
        TEST(types_that_are_unknown_are_copied),
        TEST(damage_is_found_in_each_kind),
        TEST(an_unknown_rank_or_byte_order_is_refused),
        TEST(a_name_that_exists_is_refused),
        TEST(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
