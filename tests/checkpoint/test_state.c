/* SPDX-License-Identifier: Apache-2.0 */
/* States of the graph and of hooks in checkpoints. */
#include "checkpoint/model.h"

#include "formats/bundle.h"

#include <errno.h>

/* A position in the data, say. */
typedef struct {
    int64_t value;
    size_t bytes; /* how many of its 8 are written and read */
    hs_code fail_save, fail_load;
    hs_code writes; /* code that save returns; 0: success */
    bool silent;
} cursor;

static hs_code fail_as(const cursor *c, hs_code code, hs_error *err)
{
    if (code && !c->silent)
        hs_error_set(err, c->writes ? c->writes : code, "the disk of the data is gone");
    return code;
}

static hs_code save_cursor(void *self, hs_state_writer *out, hs_error *err)
{
    const cursor *c = self;
    return c->fail_save ? fail_as(c, c->fail_save, err) : hs_state_writer_write(out, &c->value, c->bytes, err);
}

static hs_code load_cursor(void *self, hs_state_reader *in, hs_error *err)
{
    cursor *c = self;
    return c->fail_load ? fail_as(c, c->fail_load, err) : hs_state_reader_read(in, &c->value, c->bytes, err);
}

static const hs_hook_ops hook_ops =
    HS_INIT(hs_hook_ops, .name = "counter", .save_state = save_cursor, .load_state = load_cursor);

/* Opens the model with a state and with hooks. */
static hs_code open_hooks(fixture *f, cursor *graphs, const hs_hook *hooks)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    if (graphs)
        hs_graph_state(f->m.graph, "loader", save_cursor, load_cursor, graphs);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = f->directory);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), &options, &f->err);
    return f->err.code;
}

/* The same with n hooks that have a state. */
static hs_code open_with(fixture *f, cursor *graphs, cursor *hooks, size_t n)
{
    hs_hook list[3] = {{.ops = NULL}};
    for (size_t i = 0; i < n; i++)
        list[i] = (hs_hook){.ops = &hook_ops, .self = &hooks[i]};
    return open_hooks(f, graphs, list);
}

/* The same with three hooks of these names. */
static void open_named(fixture *f, const char *const names[3], cursor hooks[3])
{
    static hs_hook_ops ops[3];
    hs_hook list[4] = {{.ops = NULL}};
    for (int i = 0; i < 3; i++) {
        ops[i] = hook_ops;
        ops[i].name = names[i];
        list[i] = (hs_hook){.ops = &ops[i], .self = &hooks[i]};
    }
    assert_ok(open_hooks(f, NULL, list), &f->err);
}

static bool has_state(const fixture *f, int64_t step, const char *key)
{
    hs_error err;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, step, NULL), &err);
    assert_non_null(reader);
    hs_code code = hs_checkpoint_find(reader, key, NULL, &err);
    hs_checkpoint_close(reader);
    return code == HS_OK;
}

static void the_graphs_state_comes_back(void **state)
{
    fixture *f = *state;
    cursor saved = {.value = 41, .bytes = 8}, loaded = {.bytes = 8};
    assert_ok(open_with(f, &saved, NULL, 0), &f->err);
    save_at(f, 1);
    saved.value = 42; /* after the save */
    assert_ok(open_with(f, &loaded, NULL, 0), &f->err);
    assert_int_equal(loaded.value, 41);
}

static void hooks_of_one_name_each_get_their_own_back(void **state)
{
    fixture *f = *state;
    cursor saved[2] = {{.value = 5, .bytes = 8}, {.value = 6, .bytes = 8}}, loaded[2] = {{.bytes = 8}, {.bytes = 8}};
    assert_ok(open_with(f, NULL, saved, 2), &f->err);
    save_at(f, 1);
    assert_ok(open_with(f, NULL, loaded, 2), &f->err);
    assert_int_equal(loaded[0].value, 5);
    assert_int_equal(loaded[1].value, 6);
}

static const char *const counters[] = {"counter", "counter", "counter"};

static void hooks_of_one_name_have_numbered_keys_in_the_order_of_the_list(void **state)
{
    fixture *f = *state;
    cursor saved[3] = {{.bytes = 8}, {.bytes = 8}, {.bytes = 8}};
    open_named(f, counters, saved);
    save_at(f, 1);
    assert_true(has_state(f, 1, "hooksess/hook/counter"));
    assert_true(has_state(f, 1, "hooksess/hook/counter#2"));
    assert_true(has_state(f, 1, "hooksess/hook/counter#3"));
    hs_hook hooks[] = {{.ops = &hook_ops, .self = &saved[0]}, {.ops = &hook_ops, .self = &saved[1]}, {.ops = NULL}};
    static const hs_hook_ops none = HS_INIT(hs_hook_ops, .name = "counter"); /* counts, too */
    hooks[0].ops = &none;
    assert_ok(open_hooks(f, NULL, hooks), &f->err);
    assert_ok(model_train(&f->m, 1), &f->m.err); /* drops the others */
    save_at(f, 2);
    assert_false(has_state(f, 2, "hooksess/hook/counter"));
    assert_true(has_state(f, 2, "hooksess/hook/counter#2"));
}

/* Older checkpoints have NAME, NAME_1 and NAME_2. */
static void hooks_of_one_name_are_restored_from_an_older_checkpoint(void **state)
{
    fixture *f = *state;
    cursor saved[3] = {{.value = 5, .bytes = 8}, {.value = 6, .bytes = 8}, {.value = 7, .bytes = 8}};
    cursor loaded[3] = {{.bytes = 8}, {.bytes = 8}, {.bytes = 8}};
    open_named(f, (const char *const[]){"counter", "counter_1", "counter_2"}, saved);
    save_at(f, 1);
    open_named(f, counters, loaded);
    for (int i = 0; i < 3; i++)
        assert_int_equal(loaded[i].value, 5 + i);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_lacks(f->t.log, "counter");
    loaded[2].value = 8;
    save_at(f, 2);
    assert_false(has_state(f, 2, "hooksess/hook/counter_1"));
    open_named(f, counters, loaded);
    assert_int_equal(loaded[2].value, 8);
}

/* Today, that is the key of a hook named "counter_1". */
static void the_key_of_older_checkpoints_is_not_read_if_it_is_that_of_another_hook(void **state)
{
    static const char *const names[] = {"counter", "counter", "counter_1"};
    fixture *f = *state;
    cursor saved[3] = {{.value = 5, .bytes = 8}, {.value = 6, .bytes = 8}, {.value = 7, .bytes = 8}};
    cursor loaded[3] = {{.bytes = 8}, {.bytes = 8}, {.bytes = 8}};
    open_named(f, names, saved);
    save_at(f, 1);
    open_named(f, counters, loaded); /* the checkpoint has counter#2 */
    assert_int_equal(loaded[1].value, 6);
    test_empty_directory(f->directory);
    open_named(f, (const char *const[]){"counter", "other", "counter_1"}, saved);
    save_at(f, 1);
    loaded[1].value = 9;
    open_named(f, names, loaded); /* the session has counter_1 */
    assert_int_equal(loaded[1].value, 9);
    assert_int_equal(loaded[2].value, 7);
}

static void states_are_listed_under_the_reserved_prefix(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8}, h = {.value = 6, .bytes = 4};
    hs_tensor info;
    assert_ok(open_with(f, &c, &h, 1), &f->err);
    save_at(f, 1);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, 1, NULL), &f->err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_find(reader, "hooksess/state/loader", &info, &f->err), &f->err);
    assert_int_equal(info.dtype, HS_UINT8);
    assert_int_equal(info.rank, 1);
    assert_int_equal(info.dims[0], 8);
    assert_ok(hs_checkpoint_find(reader, "hooksess/hook/counter", &info, &f->err), &f->err);
    assert_int_equal(info.dims[0], 4);
    hs_checkpoint_close(reader);
}

static void state_may_be_empty(void **state)
{
    fixture *f = *state;
    cursor saved = {.value = 5}, loaded = {.value = 6};
    assert_ok(open_with(f, &saved, NULL, 0), &f->err);
    save_at(f, 1);
    assert_ok(open_with(f, &loaded, NULL, 0), &f->err);
    assert_int_equal(loaded.value, 6);
    assert_lacks(f->t.log, "keeps its initial value");
}

/* The log has this warning about the checkpoint of step 1, once. */
static void assert_warns(const fixture *f, const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "WARNING: checkpoint '%s' %s\n", file_of(f, 1, NULL), text);
    const char *found = strstr(f->t.log, line);
    if (!found)
        fail_msg("'%s' is not in '%s'", line, f->t.log);
    assert_null(strstr(found + 1, line));
}

static void a_checkpoint_without_the_state_is_restored(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8};
    save_at(f, 1);
    model_set(&f->m, 9);
    assert_ok(open_with(f, &c, NULL, 0), &f->err);
    assert_true(model_is(&f->m, 1));
    assert_int_equal(c.value, 5);
    assert_warns(f, "has no state 'hooksess/state/loader'; it keeps its initial value");
}

static void unclaimed_states_are_reported(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8};
    assert_ok(open_with(f, &c, &c, 1), &f->err);
    save_at(f, 1);
    assert_ok(open_with(f, NULL, NULL, 0), &f->err);
    assert_true(model_is(&f->m, 1));
    assert_lacks(f->t.log, "no provider loads"); /* a provider may still be added */
    assert_ok(model_train(&f->m, 2), &f->m.err);
    assert_warns(f, "has the state 'hooksess/state/loader', but no provider loads it; later checkpoints omit it");
    assert_warns(f, "has the state 'hooksess/hook/counter', but no provider loads it; later checkpoints omit it");
}

/* The checkpoint has states of two hooks of that name, the session has one. */
static void claimed_states_are_not_reported(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8}, hooks[2] = {{.value = 6, .bytes = 8}, {.value = 7, .bytes = 8}};
    assert_ok(open_with(f, &c, hooks, 2), &f->err);
    save_at(f, 1);
    assert_ok(open_with(f, &c, hooks, 1), &f->err);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_warns(f, "has the state 'hooksess/hook/counter#2', but no provider loads it; later checkpoints omit it");
    assert_lacks(f->t.log, "'hooksess/state/loader'");
    assert_lacks(f->t.log, "'hooksess/hook/counter'");
}

/* A hook that has a state in older checkpoints only. */
static void a_state_that_its_hook_does_not_need_is_dropped_without_a_warning(void **state)
{
    fixture *f = *state;
    cursor hooks[3] = {{.value = 6, .bytes = 8}, {.value = 7, .bytes = 8}, {.value = 8, .bytes = 8}};
    static const hs_hook_ops none = HS_INIT(hs_hook_ops, .name = "counter");
    open_named(f, (const char *const[]){"counter", "counter_1", "counters"}, hooks);
    save_at(f, 1);
    assert_ok(open_hooks(f, NULL, (hs_hook[]){{.ops = &none}, {.ops = NULL}}), &f->err);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_warns(f, "has the state 'hooksess/hook/counters', but no provider loads it; later checkpoints omit it");
    assert_lacks(f->t.log, "'hooksess/hook/counter', but");
    assert_lacks(f->t.log, "'hooksess/hook/counter_1', but");
    save_at(f, 2);
    assert_false(has_state(f, 2, "hooksess/hook/counter"));
    assert_false(has_state(f, 2, "hooksess/hook/counter_1"));
}

/* The position of a hook's schedule may be lost: it begins again. */
static void a_missing_or_left_position_is_logged_without_a_warning(void **state)
{
    fixture *f = *state;
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "periodic");
    hs_hook hooks[] = {{.ops = &ops, .when = HS_EVERY_STEPS(2)}, {.ops = NULL}};
    save_at(f, 1);
    assert_ok(open_hooks(f, NULL, hooks), &f->err);
    save_at(f, 2);
    assert_true(has_state(f, 2, "hooksess/schedule/periodic"));
    assert_ok(open_hooks(f, NULL, NULL), &f->err);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_lacks(f->t.log, "WARNING");
}

/* Failures. */

static void a_failing_save_fails_the_checkpoint(void **state)
{
    fixture *f = *state;
    cursor c = {.fail_save = HS_UNAVAILABLE};
    assert_ok(open_with(f, &c, NULL, 0), &f->err);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err);
    assert_fails(code, HS_UNAVAILABLE, &f->err, "cannot save state 'hooksess/state/loader': the disk of the data is gone");
    assert_int_equal(test_count_files(f->directory, "model.ckpt"), 0);
    c.silent = true;
    code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err);
    assert_fails(code, HS_UNAVAILABLE, &f->err, "it failed with UNAVAILABLE");
}

/* Saves a state of `bytes` bytes, and tries to load it with `c`. */
static hs_code load_by(fixture *f, size_t bytes, cursor *c)
{
    cursor saved = {.value = 5, .bytes = bytes};
    assert_ok(open_with(f, &saved, NULL, 0), &f->err);
    save_at(f, 1);
    model_set(&f->m, 9);
    return open_with(f, c, NULL, 0);
}

static void a_failing_load_fails_the_restore(void **state)
{
    fixture *f = *state;
    cursor c = {.fail_load = HS_UNAVAILABLE};
    assert_fails(load_by(f, 8, &c), HS_UNAVAILABLE, &f->err, "the disk of the data is gone");
    assert_contains(f->err.message, "model.ckpt-1': cannot load state 'hooksess/state/loader'");
    assert_true(model_is(&f->m, 9));
}

static void a_failing_load_without_a_message(void **state)
{
    fixture *f = *state;
    cursor c = {.fail_load = HS_USER + 3, .silent = true};
    assert_fails(load_by(f, 8, &c), HS_USER + 3, &f->err, "it failed with USER");
}

/* The return value decides. */
static void a_provider_that_returns_one_code_and_writes_another(void **state)
{
    fixture *f = *state;
    cursor c = {.fail_load = HS_UNAVAILABLE, .writes = HS_OUT_OF_RANGE};
    assert_fails(load_by(f, 8, &c), HS_UNAVAILABLE, &f->err, "the disk of the data is gone");
    assert_true(model_is(&f->m, 9));
    c = (cursor){.fail_save = HS_UNAVAILABLE, .writes = HS_OUT_OF_RANGE};
    test_remove_directory(strdup(f->directory));
    assert_ok(open_with(f, &c, NULL, 0), &f->err);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err);
    assert_fails(code, HS_UNAVAILABLE, &f->err, "cannot save state 'hooksess/state/loader': the disk of the data is gone");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

/* A provider that sets an error and returns success has succeeded. */
static hs_code save_and_complain(void *self, hs_state_writer *out, hs_error *err)
{
    hs_code code = save_cursor(self, out, err);
    hs_error_set(err, HS_ABORTED, "not meant");
    return code;
}

static hs_code load_and_complain(void *self, hs_state_reader *in, hs_error *err)
{
    hs_code code = load_cursor(self, in, err);
    hs_error_set(err, HS_ABORTED, "not meant");
    return code;
}

static void a_provider_that_succeeds_and_complains(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8};
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_state(f->m.graph, "loader", save_and_complain, load_and_complain, &c);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), NULL, &f->err);
    save_at(f, 1);
    assert_says(&f->err, HS_OK, "");
    c.value = 6;
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
    assert_int_equal(f->err.code, HS_OK);
    assert_string_equal(f->err.message, "");
    assert_int_equal(c.value, 5);
}

/* An error that one provider set and ignored is not the error of the next one. */
static void a_complaint_is_not_the_next_ones(void **state)
{
    fixture *f = *state;
    cursor good = {.value = 5, .bytes = 8}, bad = {.value = 6, .bytes = 8};
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_state(f->m.graph, "first", save_and_complain, load_and_complain, &good);
    hs_graph_state(f->m.graph, "second", save_cursor, load_cursor, &bad);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), NULL, &f->err);
    save_at(f, 1);
    bad.fail_save = bad.fail_load = HS_UNAVAILABLE;
    bad.silent = true;
    assert_fails(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), HS_UNAVAILABLE, &f->err,
                 "failed with UNAVAILABLE");
    assert_fails(hs_saver_save(f->saver, model_raw(&f->m), file_of(f, 1, NULL), 1, NULL, &f->err), HS_UNAVAILABLE, &f->err,
                 "'hooksess/state/second': it failed with UNAVAILABLE");
}

static void bytes_that_are_not_read(void **state)
{
    fixture *f = *state;
    cursor c = {.bytes = 3};
    assert_fails(load_by(f, 8, &c), HS_INVALID_ARGUMENT, &f->err, "load left 5 of 8 bytes unread");
    assert_true(model_is(&f->m, 9));
}

static void bytes_that_are_not_there(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 3, .bytes = 8};
    assert_fails(load_by(f, 7, &c), HS_DATA_LOSS, &f->err, "has only 7 more bytes");
    assert_int_equal(c.value, 3);
}

/* A model with two states, at step 9, and a checkpoint of it from step 1. */
static void begin_with_two(fixture *f, cursor c[2])
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_state(f->m.graph, "loader", save_cursor, load_cursor, &c[0]);
    hs_graph_state(f->m.graph, "shuffle", save_cursor, load_cursor, &c[1]);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), NULL, &f->err);
    c[0] = c[1] = (cursor){.value = 1, .bytes = 8};
    save_at(f, 1);
}

/* Asserts that all is of step 9 after a failure and of step 1 after a success, and sets all to step 9 again. */
static hs_code restore_all_or_nothing(fixture *f, cursor c[2])
{
    c[0].value = c[1].value = 9;
    model_set(&f->m, 9);
    hs_code code = hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err);
    int64_t wanted = code ? 9 : 1;
    assert_true(model_is(&f->m, wanted));
    assert_int_equal(c[0].value, wanted);
    assert_int_equal(c[1].value, wanted);
    return code;
}

static void without_memory_no_provider_is_called(void **state)
{
    fixture *f = *state;
    cursor c[2];
    begin_with_two(f, c);
    size_t n = 0;
    do {
        f->t.fail_alloc_at = f->t.allocations + ++n;
        hs_code code = restore_all_or_nothing(f, c);
        assert_true(code == HS_OK || code == HS_RESOURCE_EXHAUSTED);
    } while (f->t.allocations >= f->t.fail_alloc_at);
    assert_true(n > 10);
}

static void where_reading_fails_no_provider_is_called(void **state)
{
    fixture *f = *state;
    cursor c[2];
    begin_with_two(f, c);
    f->t.fail_file_errno = EACCES;
    size_t n = 0;
    do {
        f->t.fail_file_at = f->t.file_calls + ++n;
        hs_code code = restore_all_or_nothing(f, c);
        assert_true(code == HS_OK || code == HS_PERMISSION_DENIED);
    } while (f->t.file_calls >= f->t.fail_file_at);
    assert_true(n > 5);
}

/* A bundle that fits the model, except for a state of another type. */
static void write_foreign(const fixture *f)
{
    const hs_env *env = hs_env_default();
    hs__bundle_writer writer;
    float numbers[2] = {1, 2};
    const struct {
        const char *name;
        hs_tensor value;
    } tensors[] = {
        {"weights", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), f->m.weights)},
        {"bias", hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), f->m.bias)},
        {"global_step", hs_tensor_of(HS_INT64, HS_SCALAR, &f->m.step)},
        {"hooksess/state/loader", hs_tensor_of(HS_FLOAT, HS_SHAPE(2), numbers)},
    };
    assert_int_equal(hs__bundle_writer_open(&writer, env, file_of(f, 1, DATA), 0, 1, NULL), HS_OK);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        assert_int_equal(hs__bundle_writer_add(&writer, tensors[i].name, &tensors[i].value, NULL), HS_OK);
    assert_int_equal(hs__bundle_writer_finish(&writer, file_of(f, 1, "index"), NULL), HS_OK);
    hs__bundle_writer_close(&writer);
}

static void state_of_another_type_is_damage(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8};
    write_foreign(f);
    assert_fails(open_with(f, &c, NULL, 0), HS_DATA_LOSS, &f->err, "'hooksess/state/loader' is not a vector of uint8");
    assert_int_equal(c.value, 5);
}

static void damaged_state_gives_way_to_the_checkpoint_before(void **state)
{
    fixture *f = *state;
    cursor c = {.value = 5, .bytes = 8};
    size_t bytes;
    assert_ok(open_with(f, &c, NULL, 0), &f->err);
    save_at(f, 1);
    c.value = 6;
    save_at(f, 2);
    free(test_read_file(file_of(f, 2, DATA), &bytes));
    flip_bit(file_of(f, 2, DATA), 8 * (bytes - 1)); /* the states come last */
    assert_ok(open_with(f, &c, NULL, 0), &f->err);
    assert_true(model_is(&f->m, 1));
    assert_int_equal(c.value, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(the_graphs_state_comes_back),
        with_fixture(hooks_of_one_name_each_get_their_own_back),
        with_fixture(hooks_of_one_name_have_numbered_keys_in_the_order_of_the_list),
        with_fixture(hooks_of_one_name_are_restored_from_an_older_checkpoint),
        with_fixture(the_key_of_older_checkpoints_is_not_read_if_it_is_that_of_another_hook),
        with_fixture(states_are_listed_under_the_reserved_prefix),
        with_fixture(state_may_be_empty),
        with_fixture(a_checkpoint_without_the_state_is_restored),
        with_fixture(unclaimed_states_are_reported),
        with_fixture(claimed_states_are_not_reported),
        with_fixture(a_state_that_its_hook_does_not_need_is_dropped_without_a_warning),
        with_fixture(a_missing_or_left_position_is_logged_without_a_warning),
        with_fixture(a_failing_save_fails_the_checkpoint),
        with_fixture(a_failing_load_fails_the_restore),
        with_fixture(a_failing_load_without_a_message),
        with_fixture(a_provider_that_returns_one_code_and_writes_another),
        with_fixture(a_provider_that_succeeds_and_complains),
        with_fixture(a_complaint_is_not_the_next_ones),
        with_fixture(bytes_that_are_not_read),
        with_fixture(bytes_that_are_not_there),
        with_fixture(without_memory_no_provider_is_called),
        with_fixture(where_reading_fails_no_provider_is_called),
        with_fixture(state_of_another_type_is_damage),
        with_fixture(damaged_state_gives_way_to_the_checkpoint_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
