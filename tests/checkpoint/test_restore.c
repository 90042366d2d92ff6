/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring one checkpoint, and variables that do not fit. */
#include "checkpoint/model.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static hs_code restore(fixture *f, int64_t step)
{
    return hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, step, NULL), NULL, &f->err);
}

static void everything_comes_back(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    model_set(&f->m, 9);
    assert_ok(restore(f, 3), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_string_equal(hs_saver_last_path(f->saver), file_of(f, 3, NULL));
    assert_string_equal(hs_raw_session_restored_from(model_raw(&f->m)), file_of(f, 3, NULL));
}

static void training_resumes_from_the_checkpoint(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    model_set(&f->m, 9);
    assert_ok(restore(f, 3), &f->err);
    assert_ok(model_train(&f->m, 2), &f->m.err);
    assert_true(model_is(&f->m, 5));
}

static void only_the_savers_variables_are_touched(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    model_set(&f->m, 9);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = HS_NAMES("global_step")));
    assert_ok(restore(f, 3), &f->err);
    assert_int_equal(f->m.step, 3);
    f->m.step = 9;
    assert_true(model_is(&f->m, 9));
}

static void tensors_without_a_variable_are_ignored(void **state)
{
    fixture *f = *state;
    int64_t step = 0;
    save_at(f, 3);
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_global_step(graph, NULL, &step);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_ok(hs_saver_restore(f->saver, hs_session_raw(session), file_of(f, 3, NULL), NULL, &f->err), &f->err);
    assert_int_equal(step, 3);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void null_arguments(void **state)
{
    fixture *f = *state;
    hs_raw_session *raw = model_raw(&f->m);
    assert_fails(hs_saver_restore(NULL, raw, "x", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "saver is NULL");
    assert_fails(hs_saver_restore(f->saver, NULL, "x", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "session is NULL");
    assert_fails(hs_saver_restore(f->saver, raw, NULL, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "is missing");
    assert_fails(hs_saver_restore(f->saver, raw, "", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "is missing");
}

static void a_missing_checkpoint(void **state)
{
    fixture *f = *state;
    model_set(&f->m, 9);
    assert_fails(restore(f, 4), HS_NOT_FOUND, &f->err, "model.ckpt-4");
    assert_true(model_is(&f->m, 9));
    assert_null(hs_saver_last_path(f->saver));
    assert_null(hs_raw_session_restored_from(model_raw(&f->m)));
}

static void a_variable_that_is_not_there_anymore(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = HS_NAMES("gone")));
    assert_fails(restore(f, 3), HS_INVALID_ARGUMENT, &f->err, "'gone'");
}

/* Models that a checkpoint does not fit. */

typedef struct {
    hs_graph *graph;
    hs_session *session;
    float memory[256];
    int64_t step;
} other;

static void other_begin(other *o, const hs_env *env)
{
    memset(o, 0x5a, sizeof *o);
    o->graph = hs_graph_new(env);
    o->step = 77;
    hs_graph_global_step(o->graph, NULL, &o->step);
}

/* Tries to restore step 3, and checks that the model is unchanged. */
static void other_refuses(other *o, fixture *f, hs_code expected, const char *message)
{
    other before;
    o->session = hs_session_open(hs_graph_backend(o->graph), NULL, &f->err);
    assert_non_null(o->session);
    before = *o;
    hs_code code = hs_saver_restore(f->saver, hs_session_raw(o->session), file_of(f, 3, NULL), NULL, &f->err);
    assert_memory_equal(&before, o, sizeof *o);
    hs_session_close(o->session, NULL);
    hs_graph_free(o->graph);
    assert_fails(code, expected, &f->err, message);
}

static void all_that_does_not_fit_is_listed(void **state)
{
    fixture *f = *state;
    other o;
    save_at(f, 3);
    other_begin(&o, &f->t.env);
    hs_graph_variable(o.graph, "weights", HS_FLOAT, HS_SHAPE(3, 2), o.memory);
    hs_graph_variable(o.graph, "bias", HS_FLOAT, HS_SHAPE(2), o.memory + 6);
    hs_graph_variable(o.graph, "momentum", HS_FLOAT, HS_SHAPE(3), o.memory + 8);
    other_refuses(&o, f, HS_INVALID_ARGUMENT, "1 missing, 2 different");
    assert_contains(f->err.message, "'weights' is float [2,3] in the checkpoint, but float [3,2] in the model");
    assert_contains(f->err.message, "'bias' is double [2] in the checkpoint, but float [2] in the model");
    assert_contains(f->err.message, "'momentum' is missing");
    assert_lacks(f->err.message, "is not in the model");
}

static void missing_tensors_alone_are_not_found(void **state)
{
    fixture *f = *state;
    other o;
    save_at(f, 3);
    other_begin(&o, &f->t.env);
    hs_graph_variable(o.graph, "momentum", HS_FLOAT, HS_SHAPE(3), o.memory);
    hs_graph_variable(o.graph, "velocity", HS_FLOAT, HS_SHAPE(3), o.memory + 3);
    other_refuses(&o, f, HS_NOT_FOUND, "'momentum' is missing; 'velocity' is missing");
}

/* The message is limited; the log has all of it. */
static void a_long_list_goes_to_the_log_whole(void **state)
{
    fixture *f = *state;
    other o;
    char name[64];
    save_at(f, 3);
    other_begin(&o, &f->t.env);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "layer_with_a_long_name_%02d", i);
        hs_graph_variable(o.graph, name, HS_FLOAT, HS_SCALAR, o.memory + i);
    }
    other_refuses(&o, f, HS_NOT_FOUND, "40 missing");
    assert_contains(f->err.message, "(40 missing, 0 different): see the log");
    assert_lacks(f->err.message, "name_00");
    assert_contains(f->t.log, "ERROR: ");
    assert_contains(f->t.log, "'layer_with_a_long_name_00' is missing");
    assert_contains(f->t.log, "'layer_with_a_long_name_39' is missing");
}

/* Files of other programs may have any names. */
static void names_with_control_characters_are_logged_on_one_line(void **state)
{
    static const char begin[] = "evil\n\x1b[2J";
    fixture *f = *state;
    char name[HS_MESSAGE_SIZE];
    memset(name, 'x', sizeof name);
    memcpy(name, begin, sizeof begin - 1);
    name[sizeof name - 1] = '\0';
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .names = HS_CHECKPOINT_NAMES({"weights", name})));
    save_at(f, 3);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_fails(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL), NULL, &f->err), HS_NOT_FOUND, &f->err,
                 "(1 missing, 0 different): see the log");
    assert_contains(f->t.log, "'weights' is missing; 'evil\\x0a\\x1b[2Jxxx");
}

static void other_add(other *o, int n, hs_shape shape)
{
    char name[64];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "layer_with_a_long_name_%03d", i);
        hs_graph_variable(o->graph, name, HS_FLOAT, shape, o->memory + i);
    }
}

/* Saves another model as the checkpoint of step 3. */
static void other_saves(other *o, fixture *f, const char *prefix)
{
    o->session = hs_session_open(hs_graph_backend(o->graph), NULL, &f->err);
    assert_non_null(o->session);
    assert_ok(hs_saver_save(f->saver, hs_session_raw(o->session), prefix, 3, NULL, &f->err), &f->err);
    hs_session_close(o->session, NULL);
    hs_graph_free(o->graph);
}

/* Half of them are different, half are missing; all are in one line. */
static void two_hundred_that_do_not_fit_are_all_in_the_log(void **state)
{
    enum { N = 200 };
    fixture *f = *state;
    other o;
    char wanted[128];
    other_begin(&o, &f->t.env);
    other_add(&o, N / 2, HS_SCALAR);
    other_saves(&o, f, test_path(f->directory, "model.ckpt"));
    other_begin(&o, &f->t.env);
    other_add(&o, N, HS_SHAPE(1));
    other_refuses(&o, f, HS_INVALID_ARGUMENT, "100 missing, 100 different");
    const char *line = strstr(f->t.log, "ERROR: checkpoint '"), *end = line ? strchr(line, '\n') : NULL;
    assert_non_null(end);
    for (int i = 0; i < N; i++) {
        snprintf(wanted, sizeof wanted, "'layer_with_a_long_name_%03d' is %s", i,
                 i < N / 2 ? "float [] in the checkpoint, but float [1] in the model" : "missing");
        const char *found = strstr(line, wanted);
        if (!found || found > end)
            fail_msg("%s: not in the log", wanted);
    }
}

/* Few enough for the message, except with a long path. */
static void a_message_that_a_long_path_cuts_is_in_the_log(void **state)
{
    fixture *f = *state;
    other o;
    char path[700];
    int length = snprintf(path, sizeof path, "%s/", f->directory);
    for (; length < 600; length++)
        path[length] = length % 200 ? 'd' : '/';
    path[length] = '\0';
    for (int level = 1; level < 3; level++) {
        path[200 * level] = '\0';
        assert_int_equal(mkdir(path, 0700), 0);
        path[200 * level] = '/';
    }
    other_begin(&o, &f->t.env);
    other_saves(&o, f, path);
    other_begin(&o, &f->t.env);
    other_add(&o, 8, HS_SCALAR);
    o.session = hs_session_open(hs_graph_backend(o.graph), NULL, &f->err);
    hs_code code = hs_saver_restore(f->saver, hs_session_raw(o.session), hs_saver_last_path(f->saver), NULL, &f->err);
    hs_session_close(o.session, NULL);
    hs_graph_free(o.graph);
    assert_int_equal(code, HS_NOT_FOUND);
    assert_true(strstr(f->err.message, "name_007' is missing") || strstr(f->t.log, "name_007' is missing"));
}

/* Opening a session on one checkpoint. */

static hs_code open_at(fixture *f, const char *directory, const char *path)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = directory, .checkpoint_prefix = path);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), &options, &f->err);
    return f->err.code;
}

static void a_session_on_a_path(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    save_at(f, 4);
    assert_ok(open_at(f, NULL, file_of(f, 3, NULL)), &f->err);
    assert_true(model_is(&f->m, 3));
}

static void a_session_on_a_path_that_is_not_there(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_fails(open_at(f, NULL, file_of(f, 4, NULL)), HS_NOT_FOUND, &f->err, "model.ckpt-4");
    assert_true(model_is(&f->m, 3));
}

static void a_session_on_a_damaged_path(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    save_at(f, 4);
    flip_bit(file_of(f, 4, DATA), 100);
    assert_fails(open_at(f, NULL, file_of(f, 4, NULL)), HS_DATA_LOSS, &f->err, "model.ckpt-4.data");
    assert_contains(f->err.message, "checksum");
    assert_true(model_is(&f->m, 4)); /* not the one before, as the call names one checkpoint */
}

static void a_session_takes_one_of_path_and_directory(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_fails(open_at(f, f->directory, file_of(f, 3, NULL)), HS_INVALID_ARGUMENT, &f->err,
                 "give at most one of the two");
}

/* Reading fails between the check and the copy. */
static void failing_midway_leaves_the_model_as_it_was(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    size_t before = f->t.file_calls;
    assert_ok(restore(f, 3), &f->err);
    size_t calls = f->t.file_calls - before;
    f->t.fail_file_errno = EIO;
    f->t.fail_file_on = true;
    for (size_t n = 1; n <= calls; n++) {
        model_set(&f->m, 9);
        f->t.fail_file_at = f->t.file_calls + n;
        hs_code code = restore(f, 3);
        f->t.fail_file_at = 0;
        assert_true(code ? model_is(&f->m, 9) : model_is(&f->m, 3));
    }
}

/* The saver's record is unchanged. */
static void without_memory_the_model_stays_as_it_was(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    save_at(f, 4);
    size_t n = 0;
    bool failed;
    do {
        model_set(&f->m, 9);
        f->t.fail_alloc_at = f->t.allocations + ++n;
        hs_code code = restore(f, 3);
        failed = f->t.allocations >= f->t.fail_alloc_at;
        f->t.fail_alloc_at = 0;
        assert_true(code == HS_OK || code == HS_RESOURCE_EXHAUSTED);
        assert_true(model_is(&f->m, code ? 9 : 3));
        assert_string_equal(hs_saver_last_path(f->saver), file_of(f, code ? 4 : 3, NULL));
        assert_ok(restore(f, 4), &f->err);
        assert_true(model_is(&f->m, 4));
    } while (failed);
    assert_true(n > 10);
}

static void without_memory_for_what_does_not_fit(void **state)
{
    fixture *f = *state;
    other o;
    save_at(f, 3);
    other_begin(&o, &f->t.env);
    hs_graph_variable(o.graph, "momentum", HS_FLOAT, HS_SHAPE(3), o.memory);
    o.session = hs_session_open(hs_graph_backend(o.graph), NULL, &f->err);
    assert_non_null(o.session);
    size_t n = 0;
    bool failed;
    do {
        f->t.fail_alloc_at = f->t.allocations + ++n;
        hs_code code = hs_saver_restore(f->saver, hs_session_raw(o.session), file_of(f, 3, NULL), NULL, &f->err);
        failed = f->t.allocations >= f->t.fail_alloc_at;
        f->t.fail_alloc_at = 0;
        assert_int_equal(code, failed ? HS_RESOURCE_EXHAUSTED : HS_NOT_FOUND);
    } while (failed);
    assert_true(n > 5);
    hs_session_close(o.session, NULL);
    hs_graph_free(o.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(everything_comes_back),
        with_fixture(training_resumes_from_the_checkpoint),
        with_fixture(only_the_savers_variables_are_touched),
        with_fixture(tensors_without_a_variable_are_ignored),
        with_fixture(null_arguments),
        with_fixture(a_missing_checkpoint),
        with_fixture(a_variable_that_is_not_there_anymore),
        with_fixture(all_that_does_not_fit_is_listed),
        with_fixture(missing_tensors_alone_are_not_found),
        with_fixture(a_long_list_goes_to_the_log_whole),
        with_fixture(names_with_control_characters_are_logged_on_one_line),
        with_fixture(two_hundred_that_do_not_fit_are_all_in_the_log),
        with_fixture(a_message_that_a_long_path_cuts_is_in_the_log),
        with_fixture(a_session_on_a_path),
        with_fixture(a_session_on_a_path_that_is_not_there),
        with_fixture(a_session_on_a_damaged_path),
        with_fixture(a_session_takes_one_of_path_and_directory),
        with_fixture(failing_midway_leaves_the_model_as_it_was),
        with_fixture(without_memory_the_model_stays_as_it_was),
        with_fixture(without_memory_for_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
