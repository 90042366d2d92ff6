/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "formats/box.h"

static const hs_shape shape = {.rank = 3, .dims = {3, 2, 4}};

/* Calls `visit` with every nonempty box in the shape. */
static void each_box(void (*visit)(const hs__box *box, const void *user), const void *user)
{
    hs__box box = {.rank = 3};
    int64_t *s = box.starts, *n = box.lengths;
    for (s[0] = 0; s[0] < 3; s[0]++)
        for (n[0] = 1; n[0] <= 3 - s[0]; n[0]++)
            for (s[1] = 0; s[1] < 2; s[1]++)
                for (n[1] = 1; n[1] <= 2 - s[1]; n[1]++)
                    for (s[2] = 0; s[2] < 4; s[2]++)
                        for (n[2] = 1; n[2] <= 4 - s[2]; n[2]++)
                            visit(&box, user);
}

/* Writes the elements of the box to `to`. The elements of the shape are 1, 2, ... */
static size_t fill(const hs__box *box, int16_t *to)
{
    size_t n = 0;
    for (int64_t i = 0; i < box->lengths[0]; i++)
        for (int64_t k = 0; k < box->lengths[1]; k++)
            for (int64_t l = 0; l < box->lengths[2]; l++)
                to[n++] = (int16_t)(1 + ((box->starts[0] + i) * 2 + box->starts[1] + k) * 4 + box->starts[2] + l);
    return n;
}

/* Copies the intersection in pieces of seven bytes, which are not whole elements. */
static void copy(const hs__box *from, const hs__box *to, int16_t *copied)
{
    enum { PIECE = 7 };
    int16_t data[24];
    size_t bytes = fill(from, data) * sizeof *data;
    hs__runs runs = hs__runs_begin(from, to, sizeof *data);
    if (runs.remaining)
        assert_true(hs__runs_end(&runs) <= bytes);
    for (size_t at = 0; at < bytes; at += PIECE)
        hs__runs_copy(&runs, (const char *)data + at, at, bytes - at < PIECE ? bytes - at : PIECE, (char *)copied);
    assert_int_equal(runs.remaining, 0);
}

static bool in_box(const hs__box *box, int16_t element)
{
    int64_t at[] = {(element - 1) / 8, (element - 1) / 4 % 2, (element - 1) % 4};
    for (int32_t i = 0; i < 3; i++)
        if (at[i] < box->starts[i] || at[i] >= box->starts[i] + box->lengths[i])
            return false;
    return true;
}

static void assert_copied(const hs__box *to, const void *user)
{
    const hs__box *from = user;
    int16_t copied[24] = {0}, expected[24];
    bool common = false;
    copy(from, to, copied);
    size_t n = fill(to, expected);
    for (size_t i = 0; i < n; i++) {
        common |= in_box(from, expected[i]);
        assert_int_equal(copied[i], in_box(from, expected[i]) ? expected[i] : 0);
    }
    assert_int_equal(hs__box_meets(from, to), common);
}

static void copy_to_each(const hs__box *from, const void *user)
{
    (void)user;
    each_box(assert_copied, from);
}

static void the_intersection_of_two_boxes_is_copied(void **state)
{
    (void)state;
    each_box(copy_to_each, NULL);
}

static void runs_are_as_long_as_possible(void **state)
{
    (void)state;
    const hs__box all = hs__box_of(&shape), rows = {3, {1}, {2, 2, 4}}, columns = {3, {0}, {3, 1, 4}};
    hs__runs runs = hs__runs_begin(&all, &all, 2);
    assert_int_equal(runs.remaining, 1);
    assert_int_equal(runs.run, 48);
    runs = hs__runs_begin(&all, &rows, 2);
    assert_int_equal(runs.remaining, 1);
    assert_int_equal(runs.from, 16);
    assert_int_equal(runs.run, 32);
    runs = hs__runs_begin(&all, &columns, 2);
    assert_int_equal(runs.remaining, 3);
    assert_int_equal(runs.run, 8);
    assert_int_equal(hs__runs_end(&runs), 40);
}

static void a_scalar_is_one_run(void **state)
{
    (void)state;
    const hs__box scalar = {.rank = 0};
    hs__runs runs = hs__runs_begin(&scalar, &scalar, 8);
    assert_int_equal(runs.remaining, 1);
    assert_int_equal(runs.run, 8);
}

static void empty_boxes_have_no_intersection(void **state)
{
    (void)state;
    const hs__box empty = {3, {1}, {0, 2, 4}}, all = hs__box_of(&shape);
    assert_int_equal(hs__runs_begin(&empty, &all, 2).remaining, 0);
    assert_int_equal(hs__runs_begin(&all, &empty, 2).remaining, 0);
    assert_false(hs__box_meets(&empty, &all));
    assert_false(hs__box_meets(&all, &empty));
}

static void a_length_of_minus_one_means_up_to_the_end(void **state)
{
    (void)state;
    hs__box out;
    assert_true(hs__box_in(&(hs__box){3, {1, 0, 4}, {-1, -1, -1}}, &shape, &out));
    assert_true(out.lengths[0] == 2 && out.lengths[1] == 2 && out.lengths[2] == 0);
}

static void boxes_outside_the_shape_are_found(void **state)
{
    (void)state;
    static const hs__box outside[] = {
        {2, {0}, {3, 2}},
        {4, {0}, {3, 2, 4, 1}},
        {3, {-1}, {1, 1, 1}},
        {3, {0}, {4, 2, 4}},
        {3, {1}, {3, 2, 4}},
        {3, {4}, {-1, -1, -1}},
        {3, {0}, {-2, 2, 4}},
        {3, {1}, {INT64_MAX, 2, 4}},
        {3, {INT64_MAX}, {INT64_MAX, 2, 4}},
        {3, {INT64_MIN}, {INT64_MIN, 2, 4}},
    };
    hs__box out;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_false(hs__box_in(&outside[i], &shape, &out));
}

static void boxes_are_ordered_like_their_keys(void **state)
{
    (void)state;
    static const hs__box ascending[] = {
        {1, {9}, {9}},       {2, {-1, 0}, {5, 5}}, {2, {0, 0}, {-1, 5}},
        {2, {0, 7}, {1, 0}}, {2, {0, 7}, {1, 3}},  {2, {1, 0}, {0, 0}},
    };
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            assert_int_equal(hs__box_order(&ascending[i], &ascending[k]), (i > k) - (i < k));
}

static void boxes_as_text(void **state)
{
    (void)state;
    char text[HS__BOX_TEXT_SIZE];
    assert_string_equal(hs__box_text(&(hs__box){2, {0, 4}, {2, 4}}, text, sizeof text), "[0:2,4:8]");
    assert_string_equal(hs__box_text(&(hs__box){2, {3, 0}, {-1, -1}}, text, sizeof text), "[3:,0:]");
    assert_string_equal(hs__box_text(&(hs__box){.rank = 0}, text, sizeof text), "[]");
    assert_string_equal(hs__box_text(&(hs__box){1, {INT64_MAX}, {INT64_MAX}}, text, sizeof text),
                        "[9223372036854775807:18446744073709551614]");
    assert_string_equal(hs__box_text(&(hs__box){2, {10, 10}, {2, 2}}, text, 6), "[10:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_intersection_of_two_boxes_is_copied),
        cmocka_unit_test(runs_are_as_long_as_possible),
        cmocka_unit_test(a_scalar_is_one_run),
        cmocka_unit_test(empty_boxes_have_no_intersection),
        cmocka_unit_test(a_length_of_minus_one_means_up_to_the_end),
        cmocka_unit_test(boxes_outside_the_shape_are_found),
        cmocka_unit_test(boxes_are_ordered_like_their_keys),
        cmocka_unit_test(boxes_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
