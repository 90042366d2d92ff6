/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged tensors in slices, and tensors with a wrong index. */
#include "base/meter.h"
#include "formats/slices.h"

#include "base/buffer.h"
#include "base/crc32c.h"

/* Asserts that reading, reading parts, locating and verifying all return the same. */
static void assert_wrong(const char *why)
{
    int16_t data[12];
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *w = find_entry(&reader, "w");
    const hs__box all = box(0, 3, 0, 4);
    assert_ok(hs__bundle_check(&reader, w, &err), &err);
    assert_fails(hs__bundle_locate(&reader, w, &err), HS_DATA_LOSS, &err, why);
    assert_contains(err.message, "'w'");
    assert_fails(hs__bundle_read(&reader, w, data, &err), HS_DATA_LOSS, &err, why);
    assert_fails(hs__bundle_read_slice(&reader, w, &all, data, &err), HS_DATA_LOSS, &err, why);
    assert_fails(hs__bundle_verify(&reader, w, &err), HS_DATA_LOSS, &err, why);
    hs__bundle_reader_close(&reader);
}

static void missing_slices_are_damage(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row}, strange[] = {two_rows, {.rank = 0}};
    const claim first = first_rows(), all = listing(boxes, 2), with_strange = listing(strange, 2);
    write_two(&two_rows, &first, NULL, NULL, &all);
    assert_wrong("'w' has 1 slices, but should have 2: [2:3,0:4] is missing");
    write_two(NULL, NULL, NULL, NULL, &all);
    assert_wrong("'w' has 0 slices, but should have 2: [0:2,0:4] is missing");
    write_two(&two_rows, &first, NULL, NULL, &with_strange);
    assert_wrong("[] is missing");
}

static void unlisted_slices_are_damage(void **state)
{
    (void)state;
    const hs__box twice[] = {two_rows, two_rows};
    const claim first = first_rows(), second = last_row(), one = listing(&two_rows, 1), two = listing(twice, 2);
    write_two(&two_rows, &first, &one_row, &second, &one);
    assert_wrong("slice [2:3,0:4] of 'w' is not in the tensor's list of slices");
    write_two(&two_rows, &first, NULL, NULL, &two);
    assert_wrong("[0:2,0:4] is listed twice");
}

static void holes_are_damage(void **state)
{
    (void)state;
    const claim first = first_rows(), all = listing(&two_rows, 1);
    write_two(&two_rows, &first, NULL, NULL, &all);
    assert_wrong("4 of the 12 elements of 'w' are not in any slice");
}

static void overlapping_slices_are_damage(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, {2, {1, 0}, {1, 4}}};
    const claim first = first_rows(), second = last_row(), all = listing(boxes, 2);
    write_two(&boxes[0], &first, &boxes[1], &second, &all);
    assert_wrong("slices [0:2,0:4] and [1:2,0:4] of 'w' overlap");
}

static void assert_not_opened(const char *why)
{
    hs__bundle_reader reader;
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), HS_DATA_LOSS, &err, why);
    assert_contains(err.message, INDEX);
}

static int by_box(const void *a, const void *b)
{
    return hs__box_order(a, b);
}

static hs_code locate_boxes(const hs__box *boxes, size_t n)
{
    hs__box sorted[N_PINWHEEL];
    int64_t at = 0;
    memcpy(sorted, boxes, n * sizeof *boxes);
    qsort(sorted, n, sizeof *sorted, by_box);
    index_begin();
    index_put_header(1);
    for (size_t i = 0; i < n; i++) {
        const int64_t *lengths = sorted[i].lengths, bytes = 2 * lengths[0] * lengths[1];
        index_put_slice(
            "w", &sorted[i],
            &(claim){.dtype = HS_INT16, .n_dims = 2, .dims = {lengths[0], lengths[1]}, .offset = at, .size = bytes});
        at += bytes;
    }
    const claim all = listing(sorted, n);
    index_put_claim("w", &all);
    index_end();
    hs__bundle_reader reader = open_bundle();
    hs_code code = hs__bundle_locate(&reader, find_entry(&reader, "w"), &err);
    hs__bundle_reader_close(&reader);
    return code;
}

static bool is_in(const hs__box *wanted, const hs__box *boxes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hs__box_order(wanted, &boxes[i]) == 0)
            return true;
    return false;
}

/* Replaces each of the five slices of a tensor by each other part of it. */
static void slices_that_do_not_make_up_the_tensor_are_damage(void **state)
{
    (void)state;
    static const char data[5 * sizeof values];
    hs__box boxes[N_PINWHEEL];
    test_write_file(DATA_FILE, data, sizeof data);
    memcpy(boxes, pinwheel, sizeof boxes);
    assert_ok(locate_boxes(boxes, N_PINWHEEL), &err);
    for (size_t changed = 0; changed < N_PINWHEEL; changed++)
        for (int i = 0; i < 3 * 3 * 4 * 4; i++) {
            hs__box other = box(i % 3, 1 + i / 3 % 3, i / 9 % 4, 1 + i / 36), inside;
            if (!hs__box_in(&other, &whole, &inside) || is_in(&other, pinwheel, N_PINWHEEL))
                continue;
            memcpy(boxes, pinwheel, sizeof boxes);
            boxes[changed] = other;
            assert_int_equal(locate_boxes(boxes, N_PINWHEEL), HS_DATA_LOSS);
        }
}

/* Rows above and below, columns right and left of them: no straight cut separates any, and along each dimension almost all
 * overlap almost all others. */
enum { ARM = 700, SIDE = 2 * ARM + 1, N_MANY = 4 * ARM + 1 };

static void write_many(bool wrong)
{
    static hs__box many[N_MANY];
    static unsigned char zeros[SIDE * SIDE];
    size_t n = 0, at = 0;
    for (int64_t i = 0; i < ARM; i++) {
        many[n++] = box(i, 1, 0, ARM + 1);
        many[n++] = box(0, ARM + 1, ARM + 1 + i, 1);
        many[n++] = box(ARM + 1 + i, 1, ARM, ARM + 1);
        many[n++] = box(ARM, ARM + 1, i, 1);
    }
    if (wrong)
        many[n - 2].starts[1]--; /* overlaps a column, and does not cover the last element */
    many[n++] = box(ARM, 1, ARM, 1);
    qsort(many, n, sizeof *many, by_box);
    test_write_file(DATA_FILE, zeros, sizeof zeros);
    index_begin();
    index_put_header(1);
    for (size_t i = 0; i < n; i++) {
        const int64_t *lengths = many[i].lengths;
        size_t bytes = (size_t)(lengths[0] * lengths[1]);
        index_put_slice("w", &many[i],
                        &(claim){.dtype = HS_UINT8,
                                 .n_dims = 2,
                                 .dims = {lengths[0], lengths[1]},
                                 .offset = (int64_t)at,
                                 .size = (int64_t)bytes,
                                 .crc = hs__crc32c(0, zeros, bytes)});
        at += bytes;
    }
    index_put_claim("w", &(claim){.dtype = HS_UINT8, .n_dims = 2, .dims = {SIDE, SIDE}, .n_slices = n, .slices = many});
    index_end();
}

static void many_slices_are_checked_without_comparing_all_pairs(void **state)
{
    (void)state;
    write_many(false);
    hs__bundle_reader reader = open_bundle();
    assert_ok(hs__bundle_verify(&reader, find_entry(&reader, "w"), &err), &err);
    hs__bundle_reader_close(&reader);
    write_many(true);
    reader = open_bundle();
    assert_fails(hs__bundle_verify(&reader, find_entry(&reader, "w"), &err), HS_DATA_LOSS, &err,
                 ": slices of 'w' overlap"); /* finding the two slices would take too long */
    hs__bundle_reader_close(&reader);
}

static void data_shared_by_two_slices_is_damage(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row};
    claim first = first_rows(), second = last_row(), all = listing(boxes, 2);
    second.offset = 8;
    second.crc = hs__crc32c(0, values + 4, 8);
    write_two(&two_rows, &first, &one_row, &second, &all);
    assert_not_opened("the data of 'w'[0:2,0:4] and 'w'[2:3,0:4] overlap");
}

static void data_shared_by_a_slice_and_a_tensor_is_damage(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row};
    const claim first = first_rows(), second = last_row(), all = listing(boxes, 2);
    test_write_file(DATA_FILE, values, sizeof values);
    index_begin();
    index_put_header(1);
    index_put_slice("w", &boxes[0], &first);
    index_put_slice("w", &boxes[1], &second);
    index_put_claim("v", &second);
    index_put_claim("w", &all);
    index_end();
    assert_not_opened("the data of 'v' and 'w'[2:3,0:4] overlap");
}

static void an_empty_slice_between_does_not_hide_shared_data(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, box(2, 0, 0, 4), one_row};
    claim first = first_rows(), none = last_row(), second = last_row(), all = listing(boxes, 3);
    none.dims[0] = 0;
    none.offset = 4;
    none.size = none.crc = 0;
    second.offset = 8;
    second.crc = hs__crc32c(0, values + 4, 8);
    test_write_file(DATA_FILE, values, sizeof values);
    index_begin();
    index_put_header(1);
    index_put_slice("w", &boxes[0], &first);
    index_put_slice("w", &boxes[1], &none);
    index_put_slice("w", &boxes[2], &second);
    index_put_claim("w", &all);
    index_end();
    assert_not_opened("the data of 'w'[0:2,0:4] and 'w'[2:3,0:4] overlap");
}

/* Asserts that a second slice with this key and entry does not match the tensor. */
static void assert_misfit(const hs__box *key, claim second, const char *why)
{
    const hs__box boxes[] = {two_rows, *key};
    const claim first = first_rows(), all = listing(boxes, 2);
    write_two(&two_rows, &first, key, &second, &all);
    assert_wrong(why);
}

static void slices_that_do_not_match_the_tensor_are_damage(void **state)
{
    (void)state;
    const hs__box outside = box(3, 1, 0, 4), negative = box(2, -3, 0, 4), far = box(2, INT64_MAX, 0, 4),
                  line = {1, {2}, {1}};
    claim other_type = last_row(), other_shape = last_row(), in_slices = last_row();
    other_type.dtype = HS_HALF;
    other_shape.dims[1] = 2;
    in_slices.n_slices = 1;
    in_slices.slices = &one_row;
    assert_misfit(&outside, last_row(), "slice [3:4,0:4] of 'w' lies outside the tensor");
    assert_misfit(&negative, last_row(), "lies outside the tensor");
    assert_misfit(&far, last_row(), "lies outside the tensor");
    assert_misfit(&one_row, other_type, "slice [2:3,0:4] of 'w' has a different dtype");
    assert_misfit(&one_row, other_shape, "slice [2:3,0:4] of 'w' has a different shape");
    assert_misfit(&one_row, in_slices, "slice [2:3,0:4] of 'w' is itself stored in slices");
    const hs__box boxes[] = {line, two_rows}; /* in the order of keys */
    const claim first = first_rows(), second = last_row(), all = listing(boxes, 2);
    write_two(&line, &second, &two_rows, &first, &all);
    assert_wrong("slice [2:3] of 'w' lies outside the tensor");
}

static void shard_and_offset_are_checked(void **state)
{
    (void)state;
    claim nowhere = last_row(), beyond = last_row(), before = last_row(), small = last_row();
    nowhere.shard = 1;
    assert_misfit(&one_row, nowhere, "is in a data file that does not exist");
    nowhere.shard = -1;
    assert_misfit(&one_row, nowhere, "is in a data file that does not exist");
    beyond.offset = 17;
    assert_misfit(&one_row, beyond, "too few for 'w'");
    before.offset = -8;
    assert_misfit(&one_row, before, "too few for 'w'");
    small.size = 7;
    assert_misfit(&one_row, small, "'w' has 7 bytes, but its type and shape need 8");
}

static void invalid_shapes_are_damage(void **state)
{
    (void)state;
    const int64_t most = (int64_t)1 << 62;
    const hs__box boxes[] = {{2, {0, 0}, {most, -1}}, {2, {most, 0}, {most - 1, -1}}};
    claim all = listing(boxes, 2);
    all.dims[0] = 2 * (most - 1) + 1;
    write_two(&boxes[0], &(claim){.dtype = HS_INT16}, &boxes[1], &(claim){.dtype = HS_INT16}, &all);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *w = find_entry(&reader, "w");
    assert_fails(hs__bundle_check(&reader, w, &err), HS_DATA_LOSS, &err, "'w' has an invalid shape");
    assert_fails(hs__bundle_verify(&reader, w, &err), HS_DATA_LOSS, &err, "'w' has an invalid shape");
    hs__bundle_reader_close(&reader);
}

/* Of an unknown dtype, the checksums of all slices are verified. Without a rank, it is unknown which slices must exist. */
static void unsupported_slices_are_not_damage(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row};
    claim first = first_rows(), second = last_row(), unknown = listing(boxes, 2), deep = unknown;
    deep.unknown_rank = true;
    write_two(&two_rows, &first, &one_row, &second, &deep);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *w = find_entry(&reader, "w");
    assert_fails(hs__bundle_read(&reader, w, NULL, &err), HS_UNIMPLEMENTED, &err, "not supported");
    assert_fails(hs__bundle_verify(&reader, w, &err), HS_UNIMPLEMENTED, &err, "not supported");
    hs__bundle_reader_close(&reader);
    first.dtype = second.dtype = unknown.dtype = 20;
    write_two(&two_rows, &first, &one_row, &second, &unknown);
    reader = open_bundle();
    w = find_entry(&reader, "w");
    assert_fails(hs__bundle_read(&reader, w, NULL, &err), HS_UNIMPLEMENTED, &err, "not supported");
    assert_ok(hs__bundle_verify(&reader, w, &err), &err);
    damage_data(20);
    assert_fails(hs__bundle_verify(&reader, w, &err), HS_DATA_LOSS, &err, "checksum mismatch of 'w'");
    hs__bundle_reader_close(&reader);
    second.dtype = 24;
    write_two(&two_rows, &first, &one_row, &second, &unknown);
    reader = open_bundle();
    assert_fails(hs__bundle_verify(&reader, find_entry(&reader, "w"), &err), HS_DATA_LOSS, &err, "has a different dtype");
    hs__bundle_reader_close(&reader);
}

/* Damage of the data. */

static void every_wrong_byte_is_found(void **state)
{
    (void)state;
    int16_t data[12];
    write_slices(pinwheel, N_PINWHEEL);
    for (size_t at = 3; at < 3 + sizeof values; at++) { /* after "z" */
        damage_data(at);
        hs__bundle_reader reader = open_bundle();
        const hs__bundle_entry *w = find_entry(&reader, "w");
        assert_fails(hs__bundle_verify(&reader, w, &err), HS_DATA_LOSS, &err, "checksum mismatch of 'w'");
        assert_fails(hs__bundle_read(&reader, w, data, &err), HS_DATA_LOSS, &err, "checksum mismatch of 'w'");
        assert_ok(hs__bundle_verify(&reader, find_entry(&reader, "z"), &err), &err);
        hs__bundle_reader_close(&reader);
        damage_data(at);
    }
}

static void a_damaged_slice_is_named_only_if_it_is_needed(void **state)
{
    (void)state;
    int16_t data[12];
    const hs__box rows[] = {box(0, 1, 0, 4), box(1, 2, 0, 4)}, other = box(1, 1, 1, 1), needed = box(0, 2, 0, 1);
    write_slices(rows, 2);
    damage_data(3);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *w = find_entry(&reader, "w");
    assert_ok(hs__bundle_read_slice(&reader, w, &other, data, &err), &err);
    assert_fails(hs__bundle_read_slice(&reader, w, &needed, data, &err), HS_DATA_LOSS, &err, "slice [0:1,0:4]: ");
    hs__bundle_reader_close(&reader);
}

static void a_missing_data_file_is_not_found(void **state)
{
    (void)state;
    int16_t data[12];
    write_slices(pinwheel, N_PINWHEEL);
    assert_int_equal(remove(DATA_FILE), 0);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *w = find_entry(&reader, "w");
    assert_fails(hs__bundle_read(&reader, w, data, &err), HS_NOT_FOUND, &err, DATA_FILE);
    assert_fails(hs__bundle_verify(&reader, w, &err), HS_NOT_FOUND, &err, DATA_FILE);
    hs__bundle_reader_close(&reader);
}

/* Keys. */

static void put_key(const char *key, size_t bytes)
{
    index_put(key, bytes, "\x08\4", 2);
}

#define KEY(key) put_key(key, sizeof(key) - 1)

static void keys_without_a_name_do_not_affect_the_others(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row};
    const claim first = first_rows(), second = last_row(), all = listing(boxes, 2);
    test_write_file(DATA_FILE, values, sizeof values);
    index_begin();
    index_put_header(1);
    KEY("\0");
    KEY("\0\0\1no name");
    KEY("\0\0\xff zero byte\0\1");
    index_put("\0a\0\1\0", 5, "\xff", 1); /* not an entry */
    KEY("\0a\0\1nonsense");
    KEY("\0never ended");
    index_put_slice("w", &two_rows, &first);
    index_put_slice("w", &one_row, &second);
    index_put_claim("w", &all);
    index_end();
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(err.code, HS_OK);
    assert_whole(&reader);
    hs__bundle_reader_close(&reader);
}

/* Slices without a tensor. */

static void assert_index_wrong(const char *why)
{
    hs__bundle_reader reader = open_bundle();
    assert_fails(hs__bundle_verify_index(&reader, &err), HS_DATA_LOSS, &err, why);
    hs__bundle_reader_close(&reader);
}

static void slices_that_no_tensor_lists_damage_the_index(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row};
    const claim first = first_rows(), second = last_row(), one = listing(&two_rows, 1), all = listing(boxes, 2);
    const claim is_whole = {.dtype = HS_INT16, .n_dims = 2, .dims = {3, 4}, .size = 24, .crc = hs__crc32c(0, values, 24)};
    write_two(&two_rows, &first, &one_row, &second, &all);
    hs__bundle_reader reader = open_bundle();
    assert_ok(hs__bundle_verify_index(&reader, &err), &err);
    hs__bundle_reader_close(&reader);
    write_two(&two_rows, &first, &one_row, &second, &is_whole);
    assert_index_wrong("slice [0:2,0:4] of 'w' belongs to a tensor that is not stored in slices");
    write_two(&two_rows, &first, &one_row, &second, &one);
    assert_index_wrong("slice [2:3,0:4] of 'w' is not in the tensor's list of slices");
    index_begin();
    index_put_header(1);
    index_put_slice("v", &two_rows, &first);
    index_put_claim("w", &is_whole);
    index_end();
    assert_index_wrong("slice [0:2,0:4] of 'v' belongs to a tensor that does not exist");
}

static void slices_that_reading_ignores_damage_the_index(void **state)
{
    (void)state;
    const claim first = first_rows(), all = listing(&two_rows, 1);
    for (int i = 0; i < 3; i++) {
        index_begin();
        index_put_header(1);
        if (i == 0)
            KEY("\0a\0\1nonsense");
        if (i == 1)
            index_put("\0w\0\1\1\2\x80\x82\x80\x83", 10, "\xff", 1); /* not an entry */
        index_put_slice("w", &two_rows, &first);
        if (i == 2)
            KEY("\0w\0\1\1\2\x80\xc0\x02\x80\x84"); /* the same key with a number that is encoded too long */
        index_put_claim("w", &all);
        index_end();
        assert_index_wrong(i == 0 ? "the key '\\x00a\\x00\\x01nonsense' is neither a tensor nor a slice"
                                  : "of 'w' cannot be read, or is not in order");
    }
}

static void slices_of_unknown_tensors_are_not_kept(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    meter m;
    hs__bundle_reader reader;
    const claim first = first_rows();
    index_begin();
    index_put_header(1);
    for (int i = 0; i < MANY; i++) {
        hs__box b = box(i, 1, 0, 4);
        index_put_slice("v", &b, &first);
    }
    index_end();
    meter_init(&m, &t.env);
    assert_ok(hs__bundle_reader_open(&reader, &m.env, PREFIX, &err), &err);
    assert_int_equal(reader.n_slices, 0);
    assert_true(m.largest < 100 * MANY);
    hs__bundle_reader_close(&reader);
}

static void too_many_dimensions_are_refused_before_memory_is_allocated(void **state)
{
    (void)state;
    enum { DIMS = 100000 };
    static unsigned char value[2 * DIMS + 4] = {2 << 3 | 2};
    hs__put_varint(value + 1, 2 * DIMS);
    meter m;
    hs__bundle_reader reader;
    for (size_t i = 0; i < DIMS; i++)
        value[4 + 2 * i] = 2 << 3 | 2; /* without size and name */
    index_begin();
    index_put_header(1);
    index_put("w", 1, value, sizeof value);
    index_end();
    meter_init(&m, &t.env);
    assert_fails(hs__bundle_reader_open(&reader, &m.env, PREFIX, &err), HS_DATA_LOSS, &err, "has 100000 dimensions");
    assert_true(m.bytes < 10 * sizeof value);
}

/* Two keys of one box, the second with a number that is encoded too long. */
static void keys_out_of_order_count_as_missing(void **state)
{
    (void)state;
    const hs__box boxes[] = {two_rows, one_row};
    const claim first = first_rows(), all = listing(boxes, 2);
    test_write_file(DATA_FILE, values, sizeof values);
    index_begin();
    index_put_header(1);
    index_put_slice("w", &two_rows, &first);
    KEY("\0w\0\1\1\2\x80\xc0\x02\x80\x84");
    KEY("\0x\0\1\1\2\x80\x82\x80\x84");
    index_put_claim("w", &all);
    index_end();
    assert_wrong("'w' has 1 slices, but should have 2: [2:3,0:4] is missing");
}

static void slices_that_share_data_allocate_nothing(void **state)
{
    (void)state;
    enum { MANY = 32 };
    hs__box boxes[MANY];
    meter m;
    hs__bundle_reader reader;
    const int64_t each = 1 << 20;
    static char data[1 << 20];
    const claim one = {
        .dtype = HS_UINT8, .n_dims = 1, .dims = {each}, .size = each, .crc = hs__crc32c(0, data, sizeof data)};
    test_write_file(DATA_FILE, data, sizeof data); /* the data of all slices */
    index_begin();
    index_put_header(1);
    for (int i = 0; i < MANY; i++) {
        boxes[i] = (hs__box){1, {i * each}, {each}};
        index_put_slice("w", &boxes[i], &one);
    }
    index_put_claim("w",
                    &(claim){.dtype = HS_UINT8, .n_dims = 1, .dims = {MANY * each}, .n_slices = MANY, .slices = boxes});
    index_end();
    meter_init(&m, &t.env);
    assert_fails(hs__bundle_reader_open(&reader, &m.env, PREFIX, &err), HS_DATA_LOSS, &err, "overlap");
    assert_true(m.bytes < 100000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(missing_slices_are_damage),
        TEST(unlisted_slices_are_damage),
        TEST(holes_are_damage),
        TEST(overlapping_slices_are_damage),
        TEST(slices_that_do_not_make_up_the_tensor_are_damage),
        TEST(many_slices_are_checked_without_comparing_all_pairs),
        TEST(data_shared_by_two_slices_is_damage),
        TEST(data_shared_by_a_slice_and_a_tensor_is_damage),
        TEST(an_empty_slice_between_does_not_hide_shared_data),
        TEST(slices_that_do_not_match_the_tensor_are_damage),
        TEST(shard_and_offset_are_checked),
        TEST(invalid_shapes_are_damage),
        TEST(unsupported_slices_are_not_damage),
        TEST(every_wrong_byte_is_found),
        TEST(a_damaged_slice_is_named_only_if_it_is_needed),
        TEST(a_missing_data_file_is_not_found),
        TEST(keys_without_a_name_do_not_affect_the_others),
        TEST(slices_that_no_tensor_lists_damage_the_index),
        TEST(slices_that_reading_ignores_damage_the_index),
        TEST(slices_of_unknown_tensors_are_not_kept),
        TEST(too_many_dimensions_are_refused_before_memory_is_allocated),
        TEST(keys_out_of_order_count_as_missing),
        TEST(slices_that_share_data_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
