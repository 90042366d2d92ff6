/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in slices, as TensorFlow's partitioned variables: one entry for the tensor, and one for each slice with a key
 * that begins with a zero byte. */
#include "base/meter.h"
#include "formats/slices.h"

#include "base/crc32c.h"

#include <errno.h>

static void tb_006_columns_are_joined(void **state)
{
    (void)state;
    const hs__box columns[] = {box(0, 3, 0, 1), box(0, 3, 1, 3)};
    write_slices(columns, 2);
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(find_entry(&reader, "w")->slices, 2);
    assert_whole(&reader);
    assert_part(&reader, box(0, 3, 0, 2));
    assert_part(&reader, box(0, 3, 2, 2));
    hs__bundle_reader_close(&reader);
}

static void tb_006_every_part_of_every_layout_is_read(void **state)
{
    (void)state;
    const hs__box rows[] = {box(2, 1, 0, 4), box(0, 1, 0, 4), box(1, 1, 0, 4)};
    const hs__box grid[] = {box(0, 2, 0, 2), box(0, 2, 2, 2), box(2, 1, 0, 2), box(2, 1, 2, 2)};
    const hs__box *const layouts[] = {rows, grid, pinwheel};
    const size_t sizes[] = {3, 4, N_PINWHEEL};
    for (int i = 0; i < 3; i++) {
        write_slices(layouts[i], sizes[i]);
        hs__bundle_reader reader = open_bundle();
        for (int k = 0; k < 2; k++) { /* with verifying, and when all was verified */
            assert_every_part(&reader);
            assert_whole(&reader);
        }
        hs__bundle_reader_close(&reader);
    }
}

static void slices_of_whole_tensors_are_read(void **state)
{
    (void)state;
    write_bundle(&(named_tensor){"w", hs_tensor_of(HS_INT16, whole, values)}, 1);
    hs__bundle_reader reader = open_bundle();
    for (int i = 0; i < 2; i++)
        assert_every_part(&reader);
    hs__bundle_reader_close(&reader);
}

/* Two large tensors of bytes, with rows shorter and longer than a piece; whole and in two slices. */
enum { SHORT_ROWS = 3000, SHORT = 300, LONG_ROWS = 5, LONG = 300000, LARGE = LONG_ROWS * LONG };
static unsigned char large[LARGE];

static void write_large(const hs_shape *shape, bool in_slices)
{
    hs__bundle_writer writer;
    const int64_t starts[][2] = {{0, 0}, {shape->dims[0] / 2, 0}};
    const int64_t rows[] = {starts[1][0], shape->dims[0] - starts[1][0]};
    const hs_tensor all = hs_tensor_of(HS_UINT8, *shape, large);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (unsigned char)(i * 31 + i / 251);
    assert_ok(hs__bundle_writer_open(&writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    for (int i = 0; i < 2 && in_slices; i++) {
        hs_tensor half = hs_tensor_of(HS_UINT8, HS_SHAPE(rows[i], shape->dims[1]), large + starts[i][0] * shape->dims[1]);
        assert_ok(hs__bundle_writer_add_slice(&writer, "w", shape, starts[i], &half, &err), &err);
    }
    if (!in_slices)
        assert_ok(hs__bundle_writer_add(&writer, "w", &all, &err), &err);
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
}

static void assert_large_part(hs__bundle_reader *reader, int64_t columns, hs__box b)
{
    static unsigned char found[LARGE];
    memset(found, 0, sizeof found);
    assert_ok(hs__bundle_read_slice(reader, find_entry(reader, "w"), &b, found, &err), &err);
    for (int64_t i = 0; i < b.lengths[0]; i++)
        assert_memory_equal(found + i * b.lengths[1], large + (b.starts[0] + i) * columns + b.starts[1],
                            (size_t)b.lengths[1]);
}

static void slices_of_large_tensors_are_read(void **state)
{
    (void)state;
    const hs_shape shapes[] = {HS_SHAPE(SHORT_ROWS, SHORT), HS_SHAPE(LONG_ROWS, LONG)};
    for (int i = 0; i < 4; i++) {
        const hs_shape *shape = &shapes[i / 2];
        int64_t rows = shape->dims[0], columns = shape->dims[1];
        write_large(shape, i % 2);
        hs__bundle_reader reader = open_bundle();
        for (int k = 0; k < 2; k++) { /* with verifying, and when all was verified */
            assert_large_part(&reader, columns, box(0, rows, 0, columns));
            assert_large_part(&reader, columns, box(0, rows, columns - 1, 1));
            assert_large_part(&reader, columns, box(1, rows - 2, 7, columns - 9));
            assert_large_part(&reader, columns, box(rows - 1, 1, 0, columns));
            assert_large_part(&reader, columns, box(rows - 2, 2, 5, 1));
        }
        hs__bundle_reader_close(&reader);
    }
}

typedef struct {
    unsigned char bytes[LARGE];
    size_t done, most;
} streamed;

static hs_code append_piece(void *user, const void *piece, size_t bytes, hs_error *error)
{
    streamed *s = user;
    (void)error;
    assert_true(bytes <= LARGE - s->done);
    memcpy(s->bytes + s->done, piece, bytes);
    s->done += bytes;
    s->most = bytes > s->most ? bytes : s->most;
    return HS_OK;
}

static void tensors_in_slices_are_streamed_piece_by_piece(void **state)
{
    (void)state;
    static streamed s;
    const hs_shape shapes[] = {HS_SHAPE(SHORT_ROWS, SHORT), HS_SHAPE(LONG_ROWS, LONG)};
    for (size_t i = 0; i < 2; i++) {
        size_t bytes = (size_t)hs_shape_elements(&shapes[i]);
        write_large(&shapes[i], true);
        s = (streamed){.done = 0};
        hs__bundle_reader reader = open_bundle();
        assert_ok(hs__bundle_stream(&reader, find_entry(&reader, "w"), append_piece, &s, &err), &err);
        assert_int_equal(s.done, bytes);
        assert_memory_equal(s.bytes, large, bytes);
        assert_true(s.most <= (size_t)1 << 20);
        damage_data(bytes - 1);
        s.done = 0;
        assert_fails(hs__bundle_stream(&reader, find_entry(&reader, "w"), append_piece, &s, &err), HS_DATA_LOSS, &err,
                     "checksum mismatch of 'w'");
        hs__bundle_reader_close(&reader);
    }
}

/* Rows longer than a piece, and slices that have a part of each row. */
static void rows_in_several_slices_are_streamed(void **state)
{
    (void)state;
    enum { COLUMNS = 1200000, CUT = 7 };
    static streamed s;
    static unsigned char rest[COLUMNS];
    const hs_shape shape = HS_SHAPE(1, 1, COLUMNS);
    const int64_t starts[][3] = {{0, 0, 0}, {0, 0, CUT}};
    hs__bundle_writer writer;
    const hs_tensor first = hs_tensor_of(HS_UINT8, HS_SHAPE(1, 1, CUT), "abcdefg"),
                    second = hs_tensor_of(HS_UINT8, HS_SHAPE(1, 1, COLUMNS - CUT), rest);
    for (size_t i = 0; i < COLUMNS; i++)
        rest[i] = (unsigned char)(i % 251);
    assert_ok(hs__bundle_writer_open(&writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    assert_ok(hs__bundle_writer_add_slice(&writer, "w", &shape, starts[0], &first, &err), &err);
    assert_ok(hs__bundle_writer_add_slice(&writer, "w", &shape, starts[1], &second, &err), &err);
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
    s = (streamed){.done = 0};
    hs__bundle_reader reader = open_bundle();
    assert_ok(hs__bundle_stream(&reader, find_entry(&reader, "w"), append_piece, &s, &err), &err);
    hs__bundle_reader_close(&reader);
    assert_int_equal(s.done, COLUMNS);
    assert_memory_equal(s.bytes, "abcdefg", CUT);
    assert_memory_equal(s.bytes + CUT, rest, COLUMNS - CUT);
    assert_true(s.most < COLUMNS);
}

static hs_code count_piece(void *user, const void *piece, size_t bytes, hs_error *error)
{
    size_t *counts = user; /* pieces and bytes */
    (void)piece, (void)error;
    counts[0]++;
    counts[1] += bytes;
    return HS_OK;
}

static void many_slices_are_streamed_in_few_pieces(void **state)
{
    (void)state;
    enum { MANY = 1 << 15, EACH = 1 << 7 };
    hs__box *boxes = calloc(MANY, sizeof *boxes);
    char *zeros = calloc(MANY, EACH);
    const uint32_t crc = hs__crc32c(0, zeros, EACH);
    test_write_file(DATA_FILE, zeros, (size_t)MANY * EACH);
    index_begin();
    index_put_header(1);
    for (int i = 0; i < MANY; i++) {
        boxes[i] = (hs__box){1, {i * EACH}, {EACH}};
        index_put_slice(
            "w", &boxes[i],
            &(claim){.dtype = HS_UINT8, .n_dims = 1, .dims = {EACH}, .offset = i * EACH, .size = EACH, .crc = crc});
    }
    index_put_claim("w",
                    &(claim){.dtype = HS_UINT8, .n_dims = 1, .dims = {MANY * EACH}, .n_slices = MANY, .slices = boxes});
    index_end();
    size_t counts[2] = {0, 0};
    hs__bundle_reader reader = open_bundle();
    assert_ok(hs__bundle_stream(&reader, find_entry(&reader, "w"), count_piece, counts, &err), &err);
    assert_int_equal(counts[1], MANY * EACH);
    assert_true(counts[0] * MANY <= counts[1] / 64);
    hs__bundle_reader_close(&reader);
    free(boxes);
    free(zeros);
}

static void slices_are_laid_out_once(void **state)
{
    (void)state;
    enum { MANY = 32 };
    static hs__box boxes[MANY];
    static unsigned char found[MANY];
    const hs__box all = {1, {0}, {MANY}};
    meter m;
    hs__bundle_reader reader;
    test_write_file(DATA_FILE, large, MANY);
    index_begin();
    index_put_header(1);
    for (int i = 0; i < MANY; i++) {
        boxes[i] = (hs__box){1, {i}, {1}};
        index_put_slice(
            "w", &boxes[i],
            &(claim){
                .dtype = HS_UINT8, .n_dims = 1, .dims = {1}, .offset = i, .size = 1, .crc = hs__crc32c(0, large + i, 1)});
    }
    index_put_claim("w", &(claim){.dtype = HS_UINT8, .n_dims = 1, .dims = {MANY}, .n_slices = MANY, .slices = boxes});
    index_end();
    meter_init(&m, &t.env);
    assert_ok(hs__bundle_reader_open(&reader, &m.env, PREFIX, &err), &err);
    assert_ok(hs__bundle_read_slice(&reader, find_entry(&reader, "w"), &all, found, &err), &err);
    assert_memory_equal(found, large, MANY);
    meter_reset(&m);
    assert_ok(hs__bundle_read_slice(&reader, find_entry(&reader, "w"), &boxes[7], found, &err), &err);
    assert_true(m.bytes < (1 << 18) + 1000); /* the buffer, but not a layout for each piece */
    assert_int_equal(found[0], large[7]);
    hs__bundle_reader_close(&reader);
}

static void verified_data_is_not_read_again(void **state)
{
    (void)state;
    const hs__box first_column = box(0, 3, 0, 1), others = box(0, 3, 1, 3);
    int16_t found[12], expected[12];
    size_t bytes = cut(&first_column, expected);
    write_bundle(&(named_tensor){"w", hs_tensor_of(HS_INT16, whole, values)}, 1);
    hs__bundle_reader reader = open_bundle();
    assert_part(&reader, others);
    damage_data(2);
    assert_ok(hs__bundle_read_slice(&reader, find_entry(&reader, "w"), &first_column, found, &err), &err);
    assert_memory_equal(found, expected, bytes);
    hs__bundle_reader_close(&reader);
    reader = open_bundle();
    assert_fails(hs__bundle_read_slice(&reader, find_entry(&reader, "w"), &first_column, found, &err), HS_DATA_LOSS, &err,
                 "checksum mismatch of 'w'");
    hs__bundle_reader_close(&reader);
}

static void reading_the_whole_tensor_always_verifies(void **state)
{
    (void)state;
    int16_t found[12];
    write_slices(pinwheel, N_PINWHEEL);
    hs__bundle_reader reader = open_bundle();
    assert_every_part(&reader);
    damage_data(10);
    assert_fails(hs__bundle_read(&reader, find_entry(&reader, "w"), found, &err), HS_DATA_LOSS, &err, "checksum mismatch");
    hs__bundle_reader_close(&reader);
}

static void tb_006_slices_are_not_tensors_and_keep_their_order(void **state)
{
    (void)state;
    size_t bytes;
    write_slices(pinwheel, N_PINWHEEL);
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(reader.n_entries, 3);
    hs__bundle_reader_close(&reader);
    unsigned char *value = index_value("w", &bytes);
    Hs__Pb__BundleEntryProto *entry = hs__pb__bundle_entry_proto__unpack(NULL, bytes, value);
    assert_int_equal(entry->n_slices, N_PINWHEEL);
    for (size_t i = 0; i < N_PINWHEEL; i++) {
        assert_int_equal(entry->slices[i]->extent[0]->start, pinwheel[i].starts[0]);
        assert_int_equal(entry->slices[i]->extent[1]->length, pinwheel[i].lengths[1]);
    }
    assert_true(entry->offset == 0 && entry->size == 0);
    hs__pb__bundle_entry_proto__free_unpacked(entry, NULL);
    free(value);
}

static void assert_all_is_all(void)
{
    int16_t found[12] = {0};
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *entry = find_entry(&reader, "w");
    assert_int_equal(entry->slices, 0);
    assert_whole(&reader);
    assert_ok(hs__bundle_read_slice(&reader, entry, &(hs__box){2, {0, 0}, {3, 4}}, found, &err), &err);
    assert_memory_equal(found, values, sizeof values);
    hs__bundle_reader_close(&reader);
}

static void tb_007_a_slice_that_covers_the_tensor_is_the_tensor(void **state)
{
    (void)state;
    const hs__box all = box(0, 3, 0, 4);
    write_slices(&all, 1);
    assert_all_is_all();
    write_bundle(&(named_tensor){"w", hs_tensor_of(HS_INT16, whole, values)}, 1);
    assert_all_is_all();
}

/* Slices in a separate data file. */
static void write_in_two_files(int32_t first, int32_t of)
{
    hs__bundle_writer writers[2];
    const hs_tensor other = hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc");
    for (int32_t i = 0; i < 2; i++) {
        char *path = hs__bundle_data_path(&t.env, PREFIX, first + i, of);
        assert_ok(hs__bundle_writer_open(&writers[i], &t.env, path, first + i, of, &err), &err);
        hs__free(&t.env, path);
    }
    assert_ok(hs__bundle_writer_add(&writers[0], "a", &other, &err), &err);
    assert_ok(add_slice(&writers[1], "w", box(2, 1, 0, 4)), &err);
    assert_ok(add_slice(&writers[1], "w", box(0, 2, 0, 4)), &err);
    assert_ok(hs__bundle_writer_finish(&writers[1], NULL, &err), &err);
    assert_ok(hs__bundle_writer_join(&writers[0], &writers[1], &err), &err);
    assert_ok(hs__bundle_writer_finish(&writers[0], INDEX, &err), &err);
    for (int i = 0; i < 2; i++)
        hs__bundle_writer_close(&writers[i]);
}

static void slices_of_another_file_are_joined(void **state)
{
    (void)state;
    write_in_two_files(0, 2);
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(find_entry(&reader, "w")->slices, 2);
    assert_whole(&reader);
    assert_every_part(&reader);
    assert_ok(hs__bundle_verify_index(&reader, &err), &err);
    hs__bundle_reader_close(&reader);
}

/* Invalid slices. */

static void assert_not_added(hs__bundle_writer *writer, hs_code code, const char *why)
{
    assert_fails(code, HS_INVALID_ARGUMENT, &err, why);
    hs__bundle_writer_close(writer);
    assert_ok(hs__bundle_writer_open(writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    assert_ok(add_slice(writer, "w", box(0, 1, 0, 4)), &err);
}

static void invalid_slices_are_not_added(void **state)
{
    (void)state;
    hs__bundle_writer w;
    const int64_t start[] = {1, 0};
    const hs_shape other_shape = HS_SHAPE(4, 4);
    const hs_tensor floats = hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 1), (const float[]){1}),
                    row = hs_tensor_of(HS_INT16, HS_SHAPE(1, 4), values),
                    line = hs_tensor_of(HS_INT16, HS_SHAPE(4), values);
    assert_ok(hs__bundle_writer_open(&w, &t.env, DATA_FILE, 0, 1, &err), &err);
    assert_ok(add_slice(&w, "w", box(0, 1, 0, 4)), &err);
    assert_not_added(&w, add_slice(&w, "w", box(0, 2, 1, 1)), "slices [0:1,0:4] and [0:2,1:2] of 'w' overlap");
    assert_not_added(&w, add_slice(&w, "w", box(2, 2, 0, 1)), "[2:4,0:1] is not a slice of 'w' with shape [3,4]");
    assert_not_added(&w, add_slice(&w, "w", box(-1, 1, 0, 1)), "is not a slice of 'w' with shape");
    assert_not_added(&w, add_slice(&w, "w", box(1, 0, 0, 1)), "is not a slice of 'w' with shape");
    assert_not_added(&w, add_slice(&w, "w", box(0, 3, 0, 4)), "two tensors to save have the name 'w'");
    assert_not_added(&w, add_slice(&w, "", box(1, 1, 0, 1)), "empty name");
    assert_not_added(&w, hs__bundle_writer_add_slice(&w, "w", &whole, start, &floats, &err),
                     "or with another dtype or shape");
    assert_not_added(&w, hs__bundle_writer_add_slice(&w, "w", &other_shape, start, &row, &err),
                     "or with another dtype or shape");
    assert_not_added(&w, hs__bundle_writer_add_slice(&w, "w", &whole, start, &line, &err),
                     "is not a slice of 'w' with shape");
    assert_not_added(&w, hs__bundle_writer_add(&w, "w", &row, &err), "two tensors");
    assert_ok(hs__bundle_writer_add(&w, "whole", &row, &err), &err);
    assert_not_added(&w, add_slice(&w, "whole", box(1, 1, 0, 1)),
                     "'whole' already exists, as a whole or with another dtype or shape");
    hs__bundle_writer_close(&w);
}

static hs_code write_pinwheel(test_env *env, void *user)
{
    (void)user;
    hs__bundle_writer writer;
    int16_t data[12];
    hs_code code = hs__bundle_writer_open(&writer, &env->env, DATA_FILE, 0, 1, NULL);
    for (size_t i = 0; i < N_PINWHEEL && !code; i++) {
        cut(&pinwheel[i], data);
        hs_tensor slice = hs_tensor_of(HS_INT16, hs__box_shape(&pinwheel[i]), data);
        code = hs__bundle_writer_add_slice(&writer, "w", &whole, pinwheel[i].starts, &slice, NULL);
    }
    if (!code)
        code = hs__bundle_writer_finish(&writer, INDEX, NULL);
    hs__bundle_writer_close(&writer);
    return code;
}

static void writing_may_fail_anywhere(void **state)
{
    (void)state;
    test_each_allocation(write_pinwheel, NULL);
    test_each_file_call(write_pinwheel, NULL, ENOSPC, false, NULL);
}

/* Indices made by hand. */

static void tb_007_full_extents_may_be_omitted(void **state)
{
    (void)state;
    const hs__box boxes[] = {{2, {0, 0}, {2, -1}}, {2, {2, 0}, {1, -1}}};
    const claim first = first_rows(), second = last_row(), all = listing(boxes, 2);
    write_two(&boxes[0], &first, &boxes[1], &second, &all);
    hs__bundle_reader reader = open_bundle();
    assert_whole(&reader);
    assert_every_part(&reader);
    hs__bundle_reader_close(&reader);
}

/* Strings in slices can be verified, but not read. */

static void write_strings(void)
{
    hs__bundle_writer writer;
    const hs_shape two = HS_SHAPE(2);
    const hs_string strings[] = {{"one", 3}, {"two", 3}};
    assert_ok(hs__bundle_writer_open(&writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    for (int64_t i = 0; i < 2; i++) {
        const hs_tensor slice = hs_tensor_of(HS_STRING, HS_SHAPE(1), &strings[i]);
        assert_ok(hs__bundle_writer_add_slice(&writer, "s", &two, &i, &slice, &err), &err);
    }
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
}

static void strings_in_slices_can_only_be_verified(void **state)
{
    (void)state;
    const hs__box first = {1, {0}, {1}};
    hs_string data[2];
    write_strings();
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *s = find_entry(&reader, "s");
    assert_ok(hs__bundle_verify(&reader, s, &err), &err);
    assert_fails(hs__bundle_check(&reader, s, &err), HS_UNIMPLEMENTED, &err, "'s' has strings and is stored in slices");
    assert_fails(hs__bundle_read(&reader, s, data, &err), HS_UNIMPLEMENTED, &err, "'s' has strings");
    assert_fails(hs__bundle_read_slice(&reader, s, &first, data, &err), HS_UNIMPLEMENTED, &err, "'s' has strings");
    damage_data(6);
    assert_fails(hs__bundle_verify(&reader, s, &err), HS_DATA_LOSS, &err, "'s'");
    hs__bundle_reader_close(&reader);
}

static void a_slice_of_strings_is_not_read(void **state)
{
    (void)state;
    const hs_string strings[] = {{"one", 3}, {"two", 3}};
    hs_string data[2];
    write_bundle(&(named_tensor){"s", hs_tensor_of(HS_STRING, HS_SHAPE(2), strings)}, 1);
    hs__bundle_reader reader = open_bundle();
    assert_fails(hs__bundle_read_slice(&reader, find_entry(&reader, "s"), &(hs__box){1, {0}, {1}}, data, &err),
                 HS_UNIMPLEMENTED, &err, "'s' has strings, so it can only be read as a whole");
    hs__bundle_reader_close(&reader);
}

/* Memory and failures. */

static hs_code read_pinwheel(test_env *env, void *user)
{
    (void)user;
    int16_t data[12];
    hs__bundle_reader reader;
    const hs__box part = box(0, 2, 1, 3);
    hs_code code = hs__bundle_reader_open(&reader, &env->env, PREFIX, NULL);
    const hs__bundle_entry *w = code ? NULL : find_entry(&reader, "w");
    if (!code && !(code = hs__bundle_read(&reader, w, data, NULL)) &&
        !(code = hs__bundle_read_slice(&reader, w, &part, data, NULL)) && !(code = hs__bundle_locate(&reader, w, NULL)) &&
        !(code = hs__bundle_verify(&reader, w, NULL)))
        code = hs__bundle_verify_index(&reader, NULL);
    hs__bundle_reader_close(&reader);
    return code;
}

static void reading_may_fail_anywhere(void **state)
{
    (void)state;
    write_slices(pinwheel, N_PINWHEEL);
    test_each_allocation(read_pinwheel, NULL);
    test_each_file_call(read_pinwheel, NULL, EIO, false, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_006_columns_are_joined),
        TEST(tb_006_every_part_of_every_layout_is_read),
        TEST(slices_of_whole_tensors_are_read),
        TEST(slices_of_large_tensors_are_read),
        TEST(tensors_in_slices_are_streamed_piece_by_piece),
        TEST(rows_in_several_slices_are_streamed),
        TEST(many_slices_are_streamed_in_few_pieces),
        TEST(slices_are_laid_out_once),
        TEST(verified_data_is_not_read_again),
        TEST(reading_the_whole_tensor_always_verifies),
        TEST(tb_006_slices_are_not_tensors_and_keep_their_order),
        TEST(tb_007_a_slice_that_covers_the_tensor_is_the_tensor),
        TEST(slices_of_another_file_are_joined),
        TEST(invalid_slices_are_not_added),
        TEST(writing_may_fail_anywhere),
        TEST(tb_007_full_extents_may_be_omitted),
        TEST(strings_in_slices_can_only_be_verified),
        TEST(a_slice_of_strings_is_not_read),
        TEST(reading_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
