/* SPDX-License-Identifier: Apache-2.0 */
/* event_reader.h: truncated and damaged files. */
#include "summary/event_samples.h"

static void every_wrong_byte_costs_one_event(void **state)
{
    (void)state;
    write_steps(1, 1, 4);
    for (size_t at = 0; at < file.size; at++) {
        file.data[at] ^= 0x81;
        write_first(1, file.size);
        file.data[at] ^= 0x81;
        hs_event_reader *reader = open_reader(false);
        reported.n = 0;
        for (int step = 1; step < 4; step++)
            if ((size_t)step != 1 + at / STEP_BYTES)
                assert_step(reader, step);
        assert_stops(reader, HS_OUT_OF_RANGE);
        assert_int_equal(reported.n, 1);
        assert_int_equal(reported.offset, at / STEP_BYTES * STEP_BYTES);
        assert_int_equal(reported.bytes, STEP_BYTES);
        assert_false(reported.is_truncated);
        hs_event_reader_close(reader);
    }
}

static void every_truncation_costs_the_truncated_events(void **state)
{
    (void)state;
    write_steps(1, 1, 4);
    write_steps(1, 1, 4);
    for (size_t cut = 0; cut <= file.size; cut++) {
        write_first(1, cut);
        hs_event_reader *reader = open_reader(false);
        reported.n = 0;
        for (size_t step = 1; step <= cut / STEP_BYTES; step++)
            assert_step(reader, (int64_t)step);
        assert_stops(reader, HS_OUT_OF_RANGE);
        assert_int_equal(reported.n, cut % STEP_BYTES != 0);
        if (reported.n) {
            assert_true(reported.is_truncated);
            assert_int_equal(reported.bytes, cut % STEP_BYTES);
        }
        hs_event_reader_close(reader);
    }
}

static void records_after_a_torn_one_are_found(void **state)
{
    (void)state;
    add_step(1);
    add_step(2);
    file.size -= 7; /* a writer was killed, and another one appended to its file */
    for (unsigned char step = 3; step < 6; step++)
        add_step(step);
    write_first(1, file.size);
    hs_event_reader *reader = open_reader(false);
    assert_step(reader, 1);
    assert_step(reader, 3);
    assert_step(reader, 4);
    assert_step(reader, 5);
    assert_stops(reader, HS_OUT_OF_RANGE);
    assert_int_equal(reported.n, 1);
    assert_int_equal(reported.bytes, STEP_BYTES - 7);
    hs_event_reader_close(reader);
}

static void events_written_later_after_damage_are_found(void **state)
{
    (void)state;
    add_step(1);
    file.data[0] ^= 1;  /* the length */
    file.data[12] ^= 1; /* and the data */
    add_step(2);
    hs_event_reader *reader = open_reader(true);
    for (size_t bytes = HS__RECORD_HEADER; bytes < 2 * STEP_BYTES; bytes++) {
        write_first(1, bytes);
        assert_stops(reader, HS_UNAVAILABLE);
    }
    write_first(1, file.size);
    assert_step(reader, 2);
    assert_int_equal(reported.n, 1);
    assert_int_equal(reported.bytes, STEP_BYTES);
    hs_event_reader_close(reader);
}

static void a_tail_of_zeros_is_one_damage(void **state)
{
    (void)state;
    static const char zeros[1000];
    add_step(1);
    hs__buffer_append(&file, zeros, sizeof zeros);
    write_first(1, file.size);
    write_steps(2, 2, 3);
    hs_event_reader *reader = open_reader(false);
    assert_step(reader, 1);
    assert_step(reader, 2);
    assert_int_equal(reported.n, 1);
    assert_int_equal(reported.bytes, sizeof zeros);
    hs_event_reader_close(reader);
}

static void records_that_are_not_events_are_skipped(void **state)
{
    (void)state;
    static const unsigned char bad[][8] = {
        {0xff, 0xff},                   /* a key that does not end */
        {2 << 3},                       /* a missing number */
        {5 << 3 | 2, 100},              /* a summary beyond the end */
        {5 << 3 | 2, 2, 1 << 3 | 2, 9}, /* a value beyond the end */
        {7 << 3 | 2, 1, 0xff},          /* a damaged session log */
        {3},                            /* a group */
        {0, 1},                         /* field number 0 */
    };
    static const size_t sizes[] = {2, 1, 2, 4, 3, 1, 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add_event(bad[i], sizes[i]);
    add_step(1);
    write_first(1, file.size);
    hs_event_reader *reader = open_reader(false);
    assert_step(reader, 1);
    assert_int_equal(reported.n, 7);
    assert_contains(reported.text, "not an Event");
    hs_event_reader_close(reader);
}

static void records_beyond_the_limit_are_skipped(void **state)
{
    (void)state;
    hs_event_reader_options options =
        HS_INIT(hs_event_reader_options, .env = &t.env, .max_record_bytes = 10, .damaged = on_damage);
    unsigned char large[100] = {0};
    add_event(large, sizeof large);
    add_step(1);
    write_first(1, file.size);
    hs_event_reader *reader = hs_event_reader_open(directory, &options, &err);
    assert_step(reader, 1);
    assert_int_equal(reported.n, 1);
    assert_contains(reported.text, "bytes; the limit is 10");
    hs_event_reader_close(reader);
}

static void damage_is_logged_if_no_callback_gets_it(void **state)
{
    (void)state;
    hs_event_reader_options options = HS_INIT(hs_event_reader_options, .env = &t.env);
    write_steps(1, 1, 2);
    write_first(1, 5);
    hs_event_reader *reader = hs_event_reader_open(directory, &options, &err);
    assert_stops(reader, HS_OUT_OF_RANGE);
    assert_contains(t.log, "5 bytes skipped");
    hs_event_reader_close(reader);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_wrong_byte_costs_one_event),     TEST(every_truncation_costs_the_truncated_events),
        TEST(records_after_a_torn_one_are_found),   TEST(events_written_later_after_damage_are_found),
        TEST(a_tail_of_zeros_is_one_damage),        TEST(records_that_are_not_events_are_skipped),
        TEST(records_beyond_the_limit_are_skipped), TEST(damage_is_logged_if_no_callback_gets_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
