/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/slices.h"

#include "base/crc32c.h"

const hs_shape whole = {.rank = 2, .dims = {3, 4}};
const int16_t values[12] = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};

const hs__box pinwheel[N_PINWHEEL] = {
    {2, {0, 3}, {2, 1}}, {2, {0, 0}, {1, 3}}, {2, {1, 1}, {1, 2}}, {2, {2, 1}, {1, 3}}, {2, {1, 0}, {2, 1}},
};
const hs__box two_rows = {2, {0, 0}, {2, 4}}, one_row = {2, {2, 0}, {1, 4}};

hs__box box(int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    return (hs__box){2, {row, column}, {rows, columns}};
}

size_t cut(const hs__box *b, int16_t *to)
{
    size_t n = 0;
    for (int64_t i = 0; i < b->lengths[0]; i++)
        for (int64_t k = 0; k < b->lengths[1]; k++)
            to[n++] = values[(b->starts[0] + i) * 4 + b->starts[1] + k];
    return n * sizeof *to;
}

hs_code add_slice(hs__bundle_writer *writer, const char *name, hs__box b)
{
    int16_t data[12] = {0};
    hs__box inside;
    if (hs__box_in(&b, &whole, &inside))
        cut(&b, data);
    hs_tensor slice = hs_tensor_of(HS_INT16, hs__box_shape(&b), data);
    return hs__bundle_writer_add_slice(writer, name, &whole, b.starts, &slice, &err);
}

void write_slices(const hs__box *boxes, size_t n)
{
    hs__bundle_writer writer;
    const hs_tensor other = hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc");
    assert_ok(hs__bundle_writer_open(&writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    assert_ok(hs__bundle_writer_add(&writer, "z", &other, &err), &err);
    for (size_t i = 0; i < n; i++)
        assert_ok(add_slice(&writer, "w", boxes[i]), &err);
    assert_ok(hs__bundle_writer_add(&writer, "a", &other, &err), &err);
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
}

void assert_whole(hs__bundle_reader *reader)
{
    const hs_tensor expected = hs_tensor_of(HS_INT16, whole, values);
    assert_tensor(reader, "w", &expected);
}

void assert_part(hs__bundle_reader *reader, hs__box b)
{
    int16_t expected[12], found[12] = {0};
    size_t bytes = cut(&b, expected);
    assert_ok(hs__bundle_read_slice(reader, find_entry(reader, "w"), &b, found, &err), &err);
    assert_memory_equal(found, expected, bytes);
}

void assert_every_part(hs__bundle_reader *reader)
{
    for (int64_t row = 0; row < 3; row++)
        for (int64_t rows = 1; rows <= 3 - row; rows++)
            for (int64_t column = 0; column < 4; column++)
                for (int64_t columns = 1; columns <= 4 - column; columns++)
                    assert_part(reader, box(row, rows, column, columns));
}

claim first_rows(void)
{
    return (claim){.dtype = HS_INT16, .n_dims = 2, .dims = {2, 4}, .size = 16, .crc = hs__crc32c(0, values, 16)};
}

claim last_row(void)
{
    return (claim){
        .dtype = HS_INT16, .n_dims = 2, .dims = {1, 4}, .size = 8, .offset = 16, .crc = hs__crc32c(0, values + 8, 8)};
}

claim listing(const hs__box *boxes, size_t n)
{
    return (claim){.dtype = HS_INT16, .n_dims = 2, .dims = {3, 4}, .n_slices = n, .slices = boxes};
}

void write_two(const hs__box *first_key, const claim *first, const hs__box *second_key, const claim *second,
               const claim *all)
{
    test_write_file(DATA_FILE, values, sizeof values);
    index_begin();
    index_put_header(1);
    if (first)
        index_put_slice("w", first_key, first);
    if (second)
        index_put_slice("w", second_key, second);
    index_put_claim("w", all);
    index_end();
}

void damage_data(size_t at)
{
    size_t bytes;
    char *data = test_read_file(DATA_FILE, &bytes);
    data[at] = (char)(data[at] ^ 4);
    test_write_file(DATA_FILE, data, bytes);
    free(data);
}
