/* SPDX-License-Identifier: Apache-2.0 */
/* event_reader.h: event files and directories, which may grow; the contents of events. */
#include "summary/event_samples.h"

#include <errno.h>

/* Files. */

static void files_are_read_in_the_order_of_their_names(void **state)
{
    (void)state;
    write_steps(3, 5, 6);
    write_steps(1, 1, 3);
    write_steps(2, 3, 5);
    test_write_file(test_path(directory, "checkpoint"), "no events", 9);
    hs_event_reader *reader = open_reader(false);
    for (int step = 1; step < 6; step++)
        assert_step(reader, step);
    assert_stops(reader, HS_OUT_OF_RANGE);
    assert_int_equal(reported.n, 0);
    hs_event_reader_close(reader);
}

static void an_event_has_its_path_and_offset(void **state)
{
    (void)state;
    const hs_event *event;
    write_steps(1, 1, 3);
    hs_event_reader *reader = open_reader(false);
    assert_step(reader, 1);
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_string_equal(event->path, name(1));
    assert_int_equal(event->offset, STEP_BYTES);
    assert_int_equal(event->record.size, 2);
    hs_event_reader_close(reader);
}

static void later_files_are_not_read_without_follow(void **state)
{
    (void)state;
    write_steps(1, 1, 2);
    hs_event_reader *reader = open_reader(false);
    write_steps(2, 2, 3);
    assert_step(reader, 1);
    assert_stops(reader, HS_OUT_OF_RANGE);
    hs_event_reader_close(reader);
}

static void growing_files_and_new_ones_are_followed(void **state)
{
    (void)state;
    hs_event_reader *reader = open_reader(true);
    assert_stops(reader, HS_UNAVAILABLE);
    write_steps(1, 1, 3);
    assert_step(reader, 1);
    assert_step(reader, 2);
    assert_stops(reader, HS_UNAVAILABLE);
    write_steps(1, 1, 4);
    assert_step(reader, 3);
    write_steps(1, 1, 5); /* written before the next file is created */
    write_steps(2, 7, 8);
    write_steps(3, 8, 9);
    assert_step(reader, 4);
    assert_step(reader, 7);
    assert_step(reader, 8);
    assert_stops(reader, HS_UNAVAILABLE);
    assert_int_equal(reported.n, 0);
    hs_event_reader_close(reader);
}

static void a_record_that_is_being_written_is_not_damage(void **state)
{
    (void)state;
    write_steps(1, 1, 3);
    hs_event_reader *reader = open_reader(true);
    for (size_t cut = STEP_BYTES + 1; cut < 2 * STEP_BYTES; cut++) {
        write_first(1, cut);
        if (cut == STEP_BYTES + 1)
            assert_step(reader, 1);
        assert_stops(reader, HS_UNAVAILABLE);
    }
    write_first(1, file.size);
    assert_step(reader, 2);
    assert_int_equal(reported.n, 0);
    hs_event_reader_close(reader);
}

/* A file whose last record becomes whole just before one of the reads. */
static size_t reads_left;

static hs_code read_late(void *user, void *handle, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *error)
{
    (void)user;
    if (reads_left && --reads_left == 0)
        write_first(1, file.size);
    return hs_env_default()->files.ops->read(NULL, handle, offset, data, bytes, got, error);
}

static void a_record_may_become_whole_at_any_moment(void **state)
{
    (void)state;
    enum { MOST_READS = 10 };
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    ops.read = read_late;
    t.env.files = (hs_file_system){&ops, NULL};
    write_steps(1, 1, 4);
    for (size_t cut = STEP_BYTES + 1; cut < 2 * STEP_BYTES; cut++)
        for (size_t at = 1; at <= MOST_READS; at++) {
            const hs_event *event;
            int64_t step = 0;
            write_first(1, cut);
            reads_left = at;
            hs_event_reader *reader = open_reader(true);
            for (size_t i = 0; i < MOST_READS && step < 3; i++)
                if (hs_event_reader_next(reader, &event, &err) == HS_OK)
                    assert_int_equal(event->step, ++step);
            assert_int_equal(step, 3);
            assert_int_equal(reported.n, 0);
            hs_event_reader_close(reader);
        }
}

static void a_torn_end_is_damage_if_a_later_file_exists(void **state)
{
    (void)state;
    write_steps(1, 1, 3);
    write_first(1, file.size - 5);
    hs_event_reader *reader = open_reader(true);
    assert_step(reader, 1);
    assert_stops(reader, HS_UNAVAILABLE);
    assert_int_equal(reported.n, 0);
    write_steps(2, 7, 8);
    assert_step(reader, 7);
    assert_int_equal(reported.n, 1);
    assert_true(reported.is_truncated);
    assert_int_equal(reported.offset, STEP_BYTES);
    assert_int_equal(reported.bytes, STEP_BYTES - 5);
    assert_contains(reported.text, name(1));
    hs_event_reader_close(reader);
}

static void a_deleted_file_is_skipped(void **state)
{
    (void)state;
    write_steps(1, 1, 2);
    write_steps(2, 2, 3);
    hs_event_reader *reader = open_reader(false);
    remove(name(1));
    assert_step(reader, 2);
    assert_contains(t.log, "was deleted");
    hs_event_reader_close(reader);
}

static void a_single_file_is_followed(void **state)
{
    (void)state;
    hs_event_reader_options options = HS_INIT(hs_event_reader_options, .env = &t.env, .follow = true);
    write_steps(1, 1, 2);
    write_steps(2, 7, 8);
    hs_event_reader *reader = hs_event_reader_open(name(1), &options, &err);
    assert_step(reader, 1);
    assert_stops(reader, HS_UNAVAILABLE);
    write_steps(1, 1, 3);
    assert_step(reader, 2);
    hs_event_reader_close(reader);
}

/* Events. */

static const hs_event *only_event(hs_event_reader **reader, const void *data, size_t bytes)
{
    const hs_event *event;
    add_event(data, bytes);
    write_first(1, file.size);
    *reader = open_reader(false);
    assert_ok(hs_event_reader_next(*reader, &event, &err), &err);
    return event;
}

static void assert_text(hs_string string, const char *text)
{
    assert_int_equal(string.bytes, strlen(text));
    assert_memory_equal(string.data, text, string.bytes);
}

static void events_of_the_library_come_back(void **state)
{
    (void)state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &t.env);
    const hs_event *event;
    t.now_ns = 1500000000;
    hs_summary_writer *writer = hs_summary_writer_open(directory, &options, &err);
    assert_ok(hs_summary_writer_scalar(writer, "loss", 0.25, -3, &err), &err);
    assert_ok(hs_summary_writer_session_log(writer, HS_SESSION_LOG_CHECKPOINT, "model-1", "saved", 5, &err), &err);
    assert_ok(hs_summary_writer_run_metadata(writer, "step_5", (hs_bytes){"\x1a\0", 2}, 5, &err), &err);
    assert_ok(hs_summary_writer_graph(writer, (hs_bytes){"\x1a\0", 2}, 0, &err), &err);
    assert_ok(hs_summary_writer_close(writer, &err), &err);
    hs_event_reader *reader = open_reader(false);
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_int_equal(event->kind, HS_EVENT_FILE_VERSION);
    assert_text(event->text, "brain.Event:2");
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_int_equal(event->kind, HS_EVENT_SUMMARY);
    assert_int_equal(event->step, -3);
    assert_int_equal(event->n_values, 1);
    assert_text(event->values[0].tag, "loss");
    assert_true(event->values[0].has_scalar && event->values[0].scalar == 0.25);
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_int_equal(event->kind, HS_EVENT_SESSION_LOG);
    assert_int_equal(event->status, HS_SESSION_LOG_CHECKPOINT);
    assert_text(event->checkpoint_path, "model-1");
    assert_text(event->message, "saved");
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_int_equal(event->kind, HS_EVENT_RUN_METADATA);
    assert_text(event->text, "step_5");
    assert_int_equal(event->bytes.size, 2);
    assert_ok(hs_event_reader_next(reader, &event, &err), &err);
    assert_int_equal(event->kind, HS_EVENT_GRAPH);
    hs_event_reader_close(reader);
}

static void a_tensor_of_one_number_is_a_scalar(void **state)
{
    (void)state;
    static const unsigned char event_bytes[] = {
        5 << 3 | 2, 21, 1 << 3 | 2, 19, 1 << 3 | 2, 1,  'a',                 /* a summary, a value, its tag */
        8 << 3 | 2, 4,  1 << 3,     9,  10 << 3,    42,                      /* a tensor: int64, 42 */
        9 << 3 | 2, 8,  1 << 3 | 2, 6,  1 << 3 | 2, 4,  'n', 'a', 'm', 'e'}; /* its plugin */
    unsigned char bytes[sizeof event_bytes];
    memcpy(bytes, event_bytes, sizeof bytes);
    bytes[1] = sizeof bytes - 2;
    bytes[3] = sizeof bytes - 4;
    hs_event_reader *reader;
    const hs_event *event = only_event(&reader, bytes, sizeof bytes);
    assert_int_equal(event->values[0].kind, HS_EVENT_VALUE_TENSOR);
    assert_int_equal(event->values[0].dtype, HS_INT64);
    assert_int_equal(event->values[0].shape.rank, 0);
    assert_true(event->values[0].has_scalar && event->values[0].scalar == 42);
    assert_text(event->values[0].plugin, "name");
    hs_event_reader_close(reader);
}

/* The value of an event with a TensorProto of these bytes, fewer than 100. Opens another reader. */
static hs_event_value tensor_value(const hs__buffer *tensor)
{
    unsigned char bytes[128] = {
        5 << 3 | 2, (unsigned char)(tensor->size + 7), 1 << 3 | 2, (unsigned char)(tensor->size + 5), 1 << 3 | 2, 1, 'a',
        8 << 3 | 2, (unsigned char)tensor->size};
    hs_event_reader *reader;
    memcpy(bytes + 9, tensor->data, tensor->size);
    hs__buffer_clear(&file);
    hs_event_value value = only_event(&reader, bytes, 9 + tensor->size)->values[0];
    assert_int_equal(value.kind, HS_EVENT_VALUE_TENSOR);
    hs_event_reader_close(reader);
    return value;
}

/* Some writers do not pack repeated fields. */
static void the_number_of_a_tensor_is_in_the_field_of_its_type(void **state)
{
    (void)state;
    enum { VARINT = 0, FIXED64 = 1, FIXED32 = 5 };
    static const struct {
        hs_dtype dtype;
        unsigned field;
        int wire;
        uint64_t bits;
        double number;
    } rows[] = {
        {HS_FLOAT, 5, FIXED32, 0x40000000, 2},
        {HS_DOUBLE, 6, FIXED64, UINT64_C(0x4008000000000000), 3},
        {HS_INT32, 7, VARINT, (uint64_t)-5, -5},
        {HS_INT16, 7, VARINT, (uint64_t)-6, -6},
        {HS_INT8, 7, VARINT, (uint64_t)-7, -7},
        {HS_UINT8, 7, VARINT, 200, 200},
        {HS_UINT16, 7, VARINT, 50000, 50000},
        {HS_INT64, 10, VARINT, (uint64_t)-8, -8},
        {HS_BOOL, 11, VARINT, 1, 1},
        {HS_HALF, 13, VARINT, 0x4200, 3},
        {HS_BFLOAT16, 13, VARINT, 0x4040, 3},
        {HS_UINT32, 16, VARINT, 4000000000, 4000000000},
        {HS_UINT64, 17, VARINT, UINT64_C(1) << 63, 9223372036854775808.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hs__buffer tensor;
        hs__buffer_init(&tensor, &t.env);
        hs__buffer_varint(&tensor, 1 << 3);
        hs__buffer_varint(&tensor, (uint64_t)rows[i].dtype);
        hs__buffer_varint(&tensor, rows[i].field << 3 | (unsigned)rows[i].wire);
        if (rows[i].wire == VARINT)
            hs__buffer_varint(&tensor, rows[i].bits);
        else
            hs__buffer_append(&tensor, &rows[i].bits, rows[i].wire == FIXED64 ? 8 : 4);
        hs_event_value value = tensor_value(&tensor);
        assert_int_equal(value.dtype, rows[i].dtype);
        assert_true(value.has_scalar && value.scalar == rows[i].number);
        hs__buffer_free(&tensor);
    }
}

/* A TensorShapeProto has dimensions (field 2) with a size (field 1), or an unknown rank (field 3). */
static void other_fields_of_a_shape_are_not_dimensions(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        size_t bytes;
        int rank;
    } rows[] = {
        {"", 0, 0},
        {"\x18\0", 2, 0},                          /* known rank */
        {"\x18\1", 2, -1},                         /* unknown rank */
        {"\x18\1\x12\2\x08\1", 6, -1},             /* unknown rank and a dimension */
        {"\x10\7", 2, 0},                          /* a number instead of a dimension */
        {"\x22\1x", 3, 0},                         /* a field of a later version */
        {"\x12\2\x08\1", 4, 1},                    /* [1] */
        {"\x12\4\x08\1\x12\0\x12\2\x08\1", 10, 2}, /* [1,1]: the first has a name */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hs__buffer tensor;
        hs__buffer_init(&tensor, &t.env);
        hs__buffer_append(&tensor, "\x08\3\x38\5\x12", 5); /* int32, 5, a shape */
        hs__buffer_varint(&tensor, rows[i].bytes);
        hs__buffer_append(&tensor, rows[i].shape, rows[i].bytes);
        hs_event_value value = tensor_value(&tensor);
        assert_int_equal(value.shape.rank, rows[i].rank);
        assert_int_equal(value.has_scalar, rows[i].rank >= 0);
        hs__buffer_free(&tensor);
    }
}

static void a_shape_of_too_many_dimensions_has_rank_minus_one(void **state)
{
    (void)state;
    for (int n = HS_MAX_RANK; n <= HS_MAX_RANK + 2; n++) {
        hs__buffer tensor;
        hs__buffer_init(&tensor, &t.env);
        hs__buffer_append(&tensor, "\x08\3\x12", 3);
        hs__buffer_varint(&tensor, (uint64_t)n * 4);
        for (int i = 0; i < n; i++)
            hs__buffer_append(&tensor, "\x12\2\x08\1", 4);
        assert_int_equal(tensor_value(&tensor).shape.rank, n > HS_MAX_RANK ? -1 : n);
        hs__buffer_free(&tensor);
    }
}

static void a_tensor_has_its_shape(void **state)
{
    (void)state;
    static const unsigned char event_bytes[] = {
        5 << 3 | 2, 20, 1 << 3 | 2, 18, 1 << 3 | 2, 1, 'm',                    /* a summary, a value, its tag */
        8 << 3 | 2, 13, 1 << 3,     1,  2 << 3 | 2, 8,                         /* a tensor: float, its shape: */
        2 << 3 | 2, 2,  1 << 3,     2,  2 << 3 | 2, 2, 1 << 3, 3, 4 << 3 | 2}; /* [2,3]; no content */
    unsigned char bytes[sizeof event_bytes + 1] = {0};
    memcpy(bytes, event_bytes, sizeof event_bytes);
    bytes[1] = sizeof bytes - 2;
    bytes[3] = sizeof bytes - 4;
    bytes[8] = sizeof bytes - 9;
    hs_event_reader *reader;
    const hs_event *event = only_event(&reader, bytes, sizeof bytes);
    assert_int_equal(event->values[0].kind, HS_EVENT_VALUE_TENSOR);
    assert_int_equal(event->values[0].dtype, HS_FLOAT);
    assert_int_equal(event->values[0].shape.rank, 2);
    assert_int_equal(event->values[0].shape.dims[0], 2);
    assert_int_equal(event->values[0].shape.dims[1], 3);
    assert_false(event->values[0].has_scalar);
    hs_event_reader_close(reader);
}

static void any_bytes_can_be_read(void **state)
{
    (void)state;
    uint32_t noise = 1;
    for (int i = 0; i < 20000; i++) {
        unsigned char bytes[40];
        size_t n = noise % sizeof bytes;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (unsigned char)((noise = noise * 1664525u + 1013904223u) >> 24);
        noise = noise * 1664525u + 1013904223u;
        if (n > 2) { /* begins like a summary more often than random bytes */
            bytes[0] = 5 << 3 | 2;
            bytes[1] = (unsigned char)(n - 2);
        }
        add_event(bytes, n);
    }
    write_first(1, file.size);
    hs_event_reader *reader = open_reader(false);
    const hs_event *event;
    size_t sound = 0;
    while (hs_event_reader_next(reader, &event, &err) == HS_OK)
        sound++;
    assert_int_equal(err.code, HS_OUT_OF_RANGE);
    assert_int_equal(sound + reported.n, 20000);
    hs_event_reader_close(reader);
}

static void kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(hs_event_kind_name(HS_EVENT_SESSION_LOG), "session_log");
    assert_string_equal(hs_event_kind_name((hs_event_kind)-1), "other");
    assert_string_equal(hs_event_kind_name((hs_event_kind)1000), "other");
    assert_string_equal(hs_event_value_kind_name(HS_EVENT_VALUE_HISTOGRAM), "histogram");
    assert_string_equal(hs_event_value_kind_name((hs_event_value_kind)3), "other");
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    const hs_event *event;
    assert_null(hs_event_reader_open(NULL, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "path is missing");
    assert_null(hs_event_reader_open(name(1), NULL, &err));
    assert_says(&err, HS_NOT_FOUND, name(1));
    assert_null(hs_event_reader_open(directory, &(hs_event_reader_options){.size = 0}, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "HS_INIT(hs_event_reader_options");
    assert_fails(hs_event_reader_next(NULL, &event, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    hs_event_reader *reader = open_reader(false);
    assert_fails(hs_event_reader_next(reader, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    hs_event_reader_close(reader);
    hs_event_reader_close(NULL);
}

/* Failures of memory and files. */

static hs_code read_all(test_env *env, void *user)
{
    hs_event_reader_options options = HS_INIT(hs_event_reader_options, .env = &env->env, .damaged = on_damage);
    const hs_event *event;
    hs_error error = {0};
    hs_event_reader *reader = hs_event_reader_open(directory, &options, &error);
    hs_code code = error.code;
    size_t n = 0;
    while (!code && !(code = hs_event_reader_next(reader, &event, NULL)))
        n++;
    hs_event_reader_close(reader);
    if (code == HS_OUT_OF_RANGE)
        assert_true(n == *(size_t *)user); /* a failure is not the end */
    return code == HS_OUT_OF_RANGE ? HS_OK : code;
}

static void reading_may_fail_anywhere(void **state)
{
    (void)state;
    static const unsigned char summary[] = {5 << 3 | 2, 5, 1 << 3 | 2, 3, 1 << 3 | 2, 1, 'a'};
    size_t n = 5;
    add_event(summary, sizeof summary);
    write_first(1, file.size);
    write_steps(2, 1, 3);
    write_steps(3, 3, 5);
    test_each_allocation(read_all, &n);
    test_each_file_call(read_all, NULL, EIO, false, &n);
    test_each_file_call(read_all, NULL, EACCES, true, &n);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(files_are_read_in_the_order_of_their_names),
        TEST(an_event_has_its_path_and_offset),
        TEST(later_files_are_not_read_without_follow),
        TEST(growing_files_and_new_ones_are_followed),
        TEST(a_record_that_is_being_written_is_not_damage),
        TEST(a_record_may_become_whole_at_any_moment),
        TEST(a_torn_end_is_damage_if_a_later_file_exists),
        TEST(a_deleted_file_is_skipped),
        TEST(a_single_file_is_followed),
        TEST(events_of_the_library_come_back),
        TEST(a_tensor_of_one_number_is_a_scalar),
        TEST(the_number_of_a_tensor_is_in_the_field_of_its_type),
        TEST(other_fields_of_a_shape_are_not_dimensions),
        TEST(a_shape_of_too_many_dimensions_has_rank_minus_one),
        TEST(a_tensor_has_its_shape),
        TEST(any_bytes_can_be_read),
        TEST(kinds_have_names),
        TEST(bad_arguments_are_refused),
        TEST(reading_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
