/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of machines with the other byte order. */
#include "formats/bundles.h"

#include "base/crc32c.h"
#include "formats/byte_order.h"

/* Swapping. */

static void assert_swapped(hs_dtype dtype, const void *before, const void *after, size_t bytes)
{
    unsigned char data[64];
    memcpy(data + 1, before, bytes); /* they need not be aligned */
    hs__swap_bytes(dtype, data + 1, bytes);
    assert_memory_equal(data + 1, after, bytes);
    hs__swap_bytes(dtype, data + 1, bytes);
    assert_memory_equal(data + 1, before, bytes);
}

static void tb_001_numbers_of_16_bits(void **state)
{
    (void)state;
    static const uint16_t before[] = {0x1de5, 0xd017, 0xf1ea, 0xc0a1}, after[] = {0xe51d, 0x17d0, 0xeaf1, 0xa1c0};
    static const hs_dtype dtypes[] = {HS_INT16, HS_UINT16, HS_BFLOAT16, HS_HALF, HS_QINT16, HS_QUINT16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        assert_swapped(dtypes[i], before, after, sizeof before);
}

static void tb_001_numbers_of_32_bits(void **state)
{
    (void)state;
    static const uint32_t before[] = {0x0ddba115, 0xf01dab1e}, after[] = {0x15a1db0d, 0x1eab1df0};
    static const hs_dtype dtypes[] = {HS_INT32, HS_UINT32, HS_FLOAT, HS_QINT32, HS_COMPLEX64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        assert_swapped(dtypes[i], before, after, sizeof before);
}

static void tb_001_numbers_of_64_bits(void **state)
{
    (void)state;
    static const uint64_t before[] = {0xf005ba11caba1000, 0x5ca1ab1ecab005e5},
                          after[] = {0x0010baca11ba05f0, 0xe505b0ca1eaba15c};
    static const hs_dtype dtypes[] = {HS_INT64, HS_UINT64, HS_DOUBLE, HS_COMPLEX128};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        assert_swapped(dtypes[i], before, after, sizeof before);
}

static void single_bytes_and_strings_are_not_swapped(void **state)
{
    (void)state;
    static const hs_dtype dtypes[] = {HS_UINT8, HS_INT8, HS_BOOL, HS_QINT8, HS_QUINT8, HS_STRING};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        assert_swapped(dtypes[i], "sixteen bytes...", "sixteen bytes...", 16);
}

/* Reading. */

static void put_header(bool big_endian)
{
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    if (big_endian)
        header.endianness = HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG;
    index_put_message("", &header.base);
}

/* A bundle of the other byte order with two numbers of the dtype: 0x0102... and 0x1112... */
static void write_other(hs_dtype dtype, size_t size, unsigned char *data, unsigned char *swapped)
{
    for (size_t i = 0; i < 2 * size; i++) {
        data[i] = (unsigned char)(16 * (i / size) + i % size + 1);
        swapped[i] = (unsigned char)(16 * (i / size) + size - i % size);
    }
    test_write_file(DATA_FILE, data, 2 * size);
    index_begin();
    put_header(!hs__big_endian());
    index_put_claim("x", &(claim){.dtype = (int)dtype,
                                  .n_dims = 1,
                                  .dims = {(int64_t)(2 * size / hs_dtype_size(dtype))},
                                  .size = 2 * (int64_t)size,
                                  .crc = hs__crc32c(0, data, 2 * size)});
    index_end();
}

static void tb_001_tb_042s_numbers_are_swapped_after_their_checksum(void **state)
{
    (void)state;
    static const struct {
        hs_dtype dtype;
        size_t size; /* of a number; a complex element has two */
    } kinds[] = {{HS_INT16, 2}, {HS_HALF, 2},       {HS_FLOAT, 4},     {HS_INT32, 4}, {HS_DOUBLE, 8},
                 {HS_INT64, 8}, {HS_COMPLEX128, 8}, {HS_COMPLEX64, 4}, {HS_UINT8, 1}, {HS_BOOL, 1}};
    unsigned char data[16], swapped[16];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_other(kinds[i].dtype, kinds[i].size, data, swapped);
        hs__bundle_reader reader = open_bundle();
        int64_t n = find_entry(&reader, "x")->shape.dims[0];
        const hs_tensor expected = hs_tensor_of(kinds[i].dtype, HS_SHAPE(n), swapped);
        assert_tensor(&reader, "x", &expected);
        hs__bundle_reader_close(&reader);
        data[1] ^= 1;
        test_write_file(DATA_FILE, data, 2 * kinds[i].size);
        reader = open_bundle();
        assert_fails(hs__bundle_read(&reader, find_entry(&reader, "x"), data, &err), HS_DATA_LOSS, &err, "checksum");
        hs__bundle_reader_close(&reader);
    }
}

static void a_slice_of_swapped_numbers_is_read(void **state)
{
    (void)state;
    unsigned char data[16], swapped[16], part[4];
    write_other(HS_INT32, 4, data, swapped);
    hs__bundle_reader reader = open_bundle();
    const hs__box second = {1, {1}, {1}};
    for (int i = 0; i < 2; i++) { /* first read verifies all of it, second reads only the slice */
        assert_ok(hs__bundle_read_slice(&reader, find_entry(&reader, "x"), &second, part, &err), &err);
        assert_memory_equal(part, swapped + 4, 4);
    }
    hs__bundle_reader_close(&reader);
}

/* Strings stored by a big-endian machine: the checksummed lengths and their checksum have its byte order. */
static void tb_042s_strings_of_a_big_endian_machine(void **state)
{
    (void)state;
    static const unsigned char lengths[] = {0, 0, 0, 2, 0, 0, 0, 3};
    unsigned char data[] = {2, 3, 0, 0, 0, 0, 'h', 'i', 'y', 'o', 'u'};
    uint32_t crc = hs__crc32c(0, lengths, sizeof lengths), masked = hs__crc32c_mask(crc);
    for (int i = 0; i < 4; i++)
        data[2 + i] = (unsigned char)(masked >> (24 - 8 * i));
    test_write_file(DATA_FILE, data, sizeof data);
    index_begin();
    put_header(true);
    index_put_claim("s", &(claim){.dtype = HS_STRING,
                                  .n_dims = 1,
                                  .dims = {2},
                                  .size = sizeof data,
                                  .crc = hs__crc32c(crc, data + 2, sizeof data - 2)});
    index_end();
    const hs_string strings[] = {{"hi", 2}, {"you", 3}};
    const hs_tensor expected = hs_tensor_of(HS_STRING, HS_SHAPE(2), strings);
    hs__bundle_reader reader = open_bundle();
    assert_tensor(&reader, "s", &expected);
    hs__bundle_reader_close(&reader);
}

static void an_unknown_byte_order_is_refused(void **state)
{
    (void)state;
    hs__bundle_reader reader;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    header.endianness = (Hs__Pb__BundleHeaderProto__Endianness)2;
    index_begin();
    index_put_message("", &header.base);
    index_end();
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), HS_UNIMPLEMENTED, &err, "byte order 2");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_001_numbers_of_16_bits),
        TEST(tb_001_numbers_of_32_bits),
        TEST(tb_001_numbers_of_64_bits),
        TEST(single_bytes_and_strings_are_not_swapped),
        TEST(tb_001_tb_042s_numbers_are_swapped_after_their_checksum),
        TEST(a_slice_of_swapped_numbers_is_read),
        TEST(tb_042s_strings_of_a_big_endian_machine),
        TEST(an_unknown_byte_order_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
