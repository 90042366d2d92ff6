/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring the variables of a session from a safetensors file. */
#include "checkpoint/weights.h"

#include <errno.h>

static void misfits_are_listed_and_nothing_is_changed(void **state)
{
    fixture *f = *state;
    model_set(&f->m, 3);
    hs_safetensors_options options =
        HS_INIT(hs_safetensors_options, .names = HS_CHECKPOINT_NAMES({"weights", "bias"}, {"bias", "biases"}));
    assert_ok(save_weights_with(f, &options), &f->err);
    assert_fails(load_weights(f, NULL), HS_INVALID_ARGUMENT, &f->err,
                 "'weights' is missing; 'bias' is float [2,3] in the checkpoint, but double [2] in the model; 'biases' is "
                 "not in the model");
    assert_contains(f->err.message, weights_file(f));
    assert_true(model_is(&f->m, 9));
}

static void skipped_variables_are_unchanged(void **state)
{
    fixture *f = *state;
    save_weights(f, 3);
    assert_ok(load_weights(f, HS_RESTORE_OPTIONS(.skip = HS_NAMES("weights", "global_step"))), &f->err);
    assert_came(f, false, true, false);
}

static void options_are_checked(void **state)
{
    fixture *f = *state;
    save_weights(f, 3);
    hs_restore_options unknown = HS_INIT(hs_restore_options, .skip = HS_NAMES("wieghts"));
    assert_fails(load_weights(f, &unknown), HS_INVALID_ARGUMENT, &f->err, "'wieghts', which is not a variable");
    assert_fails(load_weights(f, &(hs_restore_options){.reshape = true}), HS_INVALID_ARGUMENT, &f->err,
                 "HS_INIT(hs_restore_options");
    assert_true(model_is(&f->m, 9));
}

static void another_shape_is_taken_on_purpose(void **state)
{
    fixture *f = *state;
    hs_graph *graph;
    float flat[6] = {0};
    save_weights(f, 3); /* [2,3] */
    hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "weights", .dtype = HS_FLOAT, .shape = HS_SHAPE(6), .data = flat);
    hs_session *session = open_single(f, &graph, &def);
    hs_raw_session *raw = hs_session_raw(session);
    hs_restore_options reshape = HS_INIT(hs_restore_options, .reshape = true);
    assert_fails(hs_safetensors_load(raw, weights_file(f), NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "float [6] in the model");
    assert_ok(hs_safetensors_load(raw, weights_file(f), &reshape, &f->err), &f->err);
    assert_memory_equal(flat, f->m.weights, sizeof flat);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void keep_report(void *user, hs_restore_event event, const char *name, const char *detail)
{
    static const char *const events[] = {"taken", "skipped", "missing", "different", "extra", "rejected"};
    size_t used = strlen(user);
    snprintf((char *)user + used, 1024 - used, "%s %s %s. ", events[event], name, detail);
}

static void everything_is_reported(void **state)
{
    fixture *f = *state;
    char report[1024] = "";
    model_set(&f->m, 3);
    assert_ok(save_weights_with(f, HS_SAFETENSORS_OPTIONS(.variables = HS_NAMES("weights", "bias"))), &f->err);
    hs_restore_options options =
        HS_INIT(hs_restore_options, .skip = HS_NAMES("bias"), .report = keep_report, .user = report, .allow_missing = true);
    assert_ok(load_weights(f, &options), &f->err);
    assert_string_equal(report, "taken weights weights. skipped bias . missing global_step . extra bias . ");
    assert_came(f, true, false, false);
}

/* A load is an import: the session keeps its record of restores and saves. */
static void a_load_does_not_change_the_sessions_record_of_restores(void **state)
{
    fixture *f = *state;
    save_at(f, 5);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 5, NULL), NULL, &f->err), &f->err);
    save_weights(f, 3);
    assert_ok(load_weights(f, NULL), &f->err);
    assert_string_equal(hs_raw_session_restored_from(model_raw(&f->m)), file_of(f, 5, NULL));
    assert_int_equal(hs_raw_session_last_saved_step(model_raw(&f->m)), 5);
}

static hs_code load_between_two_looks(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    fixture *f = self;
    (void)values;
    assert_int_equal(hs_run_context_global_step(run, err), 10);
    assert_ok(hs_safetensors_load(hs_run_context_session(run), weights_file(f), NULL, err), err);
    assert_int_equal(hs_run_context_global_step(run, err), 3);
    return HS_OK;
}

/* The step that was read in this run is out of date. */
static void a_hook_that_loads_sees_the_step_that_it_loaded(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "loader", .after_run = load_between_two_looks);
    fixture *f = *state;
    hs_hook hook = {.ops = &ops, .self = f};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    save_weights(f, 3);
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), &options, &f->err);
    model_set(&f->m, 9);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_true(model_is(&f->m, 3));
}

static void damage_is_found_and_nothing_changed(void **state)
{
    fixture *f = *state;
    size_t bytes;
    save_weights(f, 3);
    char *data = test_read_file(weights_file(f), &bytes);
    for (size_t n = 0; n < bytes; n += 7) {
        test_write_file(weights_file(f), data, n);
        assert_fails(load_weights(f, NULL), HS_DATA_LOSS, &f->err, weights_file(f));
        assert_true(model_is(&f->m, 9));
    }
    free(data);
}

/* State. */

static hs_code save_number(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_number(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static void open_with_state(fixture *f, int64_t *number)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_state(f->m.graph, "loader", save_number, load_number, number);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), NULL, &f->err);
    assert_non_null(f->m.session);
}

/* Files of other programs have no states, which is not logged. */
static void state_is_neither_saved_nor_missed(void **state)
{
    fixture *f = *state;
    int64_t number = 5;
    open_with_state(f, &number);
    save_weights(f, 3);
    assert_false(has_tensor(f, "hooksess/state/loader"));
    number = 6;
    assert_ok(load_weights(f, NULL), &f->err);
    assert_int_equal(number, 6);
    assert_int_equal(f->t.log_used, 0);
}

/* A load restores only variables. A checkpoint that is converted from the file has the state. */
static void state_that_is_there_stays_in_the_file(void **state)
{
    fixture *f = *state;
    int64_t number = 5;
    open_with_state(f, &number);
    save_at(f, 3);
    assert_ok(hs_checkpoint_convert(&f->t.env, file_of(f, 3, NULL), weights_file(f), NULL, &f->err), &f->err);
    number = 6;
    assert_ok(load_weights(f, NULL), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_int_equal(number, 6);
    assert_ok(hs_checkpoint_convert(&f->t.env, weights_file(f), test_path(f->directory, "back"), NULL, &f->err), &f->err);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), test_path(f->directory, "back"), NULL, &f->err), &f->err);
    assert_int_equal(number, 5);
}

/* Failures. */

static hs_code loading(test_env *t, void *user)
{
    fixture *f = user;
    model m = {.step = 0};
    hs_error err = {0};
    model_set(&m, 9);
    hs_code code = model_open(&m, &t->env, NULL);
    if (!code)
        code = hs_safetensors_load(model_raw(&m), weights_file(f), NULL, &err);
    if (m.session)
        assert_true(model_is(&m, code ? 9 : 3));
    model_close(&m);
    return code;
}

static void each_allocation_of_loading(void **state)
{
    save_weights(*state, 3);
    test_each_allocation(loading, *state);
}

static void each_file_call_of_loading(void **state)
{
    save_weights(*state, 3);
    test_each_file_call(loading, NULL, EIO, false, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(misfits_are_listed_and_nothing_is_changed),
        with_fixture(skipped_variables_are_unchanged),
        with_fixture(options_are_checked),
        with_fixture(another_shape_is_taken_on_purpose),
        with_fixture(everything_is_reported),
        with_fixture(a_load_does_not_change_the_sessions_record_of_restores),
        with_fixture(a_hook_that_loads_sees_the_step_that_it_loaded),
        with_fixture(damage_is_found_and_nothing_changed),
        with_fixture(state_is_neither_saved_nor_missed),
        with_fixture(state_that_is_there_stays_in_the_file),
        with_fixture(each_allocation_of_loading),
        with_fixture(each_file_call_of_loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
