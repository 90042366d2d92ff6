/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a restored checkpoint that no variable of the program uses. */
#include "checkpoint/cell.h"

#define LINE "has tensors that no variable of the program uses"

/* Opens a session that continues from the directory. */
static void open_model(fixture *f)
{
    f->m.session =
        hs_session_open(hs_graph_backend(f->m.graph), HS_SESSION_OPTIONS(.checkpoint_dir = f->directory), &f->err);
    if (!f->m.session)
        fail_msg("%s", f->err.message);
}

/* Opens the model with these additional variables. */
static void start(fixture *f, const char *const *names, size_t n)
{
    static float values[16];
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    for (size_t i = 0; i < n; i++)
        hs_graph_variable(f->m.graph, names[i], HS_FLOAT, HS_SCALAR, &values[i]);
    open_model(f);
}

/* Saves a model with these variables, then continues with a program that does not have them. */
static void drop(fixture *f, const char *const *names, size_t n)
{
    start(f, names, n);
    save_at(f, 3);
    start(f, NULL, 0);
    assert_int_equal(f->m.step, 3);
}

static void they_are_logged_once_after_the_first_training_run(void **state)
{
    fixture *f = *state;
    drop(f, (const char *const[]){"head/kernel", "head/bias"}, 2);
    assert_ok(hs_session_run_args(f->m.session, HS_RUN_ARGS(.kind = HS_RUN_EVAL), NULL, &f->err), &f->err);
    assert_int_equal(times_logged(f, LINE), 0);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_contains(f->t.log, "WARNING: checkpoint '");
    assert_contains(f->t.log, "model.ckpt-3' " LINE " ('head/bias', 'head/kernel'); later checkpoints omit them");
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_int_equal(times_logged(f, LINE), 1);
}

static void those_of_a_safetensors_file_are_logged_by_the_load(void **state)
{
    fixture *f = *state;
    const char *path = test_path(f->directory, "m.safetensors");
    start(f, (const char *const[]){"head/kernel", "head/bias"}, 2);
    assert_ok(hs_safetensors_save(hs_session_raw(f->m.session), path, NULL, &f->err), &f->err);
    assert_ok(hs_safetensors_load(hs_session_raw(f->m.session), path, NULL, &f->err), &f->err);
    assert_int_equal(times_logged(f, LINE), 0);
    start(f, NULL, 0);
    assert_ok(hs_safetensors_load(hs_session_raw(f->m.session), path, NULL, &f->err), &f->err);
    assert_contains(f->t.log, "INFO: '");
    assert_contains(f->t.log, "/m.safetensors' " LINE " ('head/bias', 'head/kernel')\n");
}

static void of_many_only_some_are_named(void **state)
{
    fixture *f = *state;
    drop(f, (const char *const[]){"a", "b", "c", "d", "e", "f", "g"}, 7);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_contains(f->t.log, LINE " ('a', 'b', 'c', 'd', 'e' and 2 more); ");
}

static void a_program_that_uses_all_logs_nothing(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    start(f, NULL, 0);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_int_equal(times_logged(f, LINE), 0);
}

static void variables_that_another_saver_restores_are_used(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = HS_NAMES("bias")));
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL), NULL, &f->err), &f->err);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_int_equal(times_logged(f, LINE), 0);
}

static void skipped_variables_are_used(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL),
                               HS_RESTORE_OPTIONS(.skip = HS_NAMES("bias")), &f->err),
              &f->err);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_int_equal(times_logged(f, LINE), 0);
}

/* TensorFlow 2 adds it to each checkpoint of objects. */
static void the_graph_of_objects_is_not_named(void **state)
{
    fixture *f = *state;
    drop(f, (const char *const[]){"_CHECKPOINTABLE_OBJECT_GRAPH"}, 1);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_int_equal(times_logged(f, LINE), 0);
}

/* Checkpoints of programs that added a variable to the open session, which is no longer possible, have a record of it. */

static void write_recorded(fixture *f)
{
    static const float moments[] = {5, 6};
    static const bool yes = true;
    model_set(&f->m, 3);
    write_checkpoint_with(f, 3,
                          (hs_feed[]){{"moments", hs_tensor_of(HS_FLOAT, HS_SHAPE(2), moments)},
                                      {"hooksess/variable/moments:late", hs_tensor_of(HS_BOOL, HS_SCALAR, &yes)},
                                      {.name = NULL}});
}

static void a_variable_that_was_added_to_an_open_session_is_named(void **state)
{
    fixture *f = *state;
    write_recorded(f);
    start(f, NULL, 0);
    assert_true(model_is(&f->m, 3));
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_contains(f->t.log, LINE " ('moments'); ");
    save_at(f, 4);
    assert_false(has_tensor(f, 4, "moments"));
    assert_false(has_tensor(f, 4, "hooksess/variable/moments:late"));
}

static void it_is_restored_if_the_graph_has_it(void **state)
{
    fixture *f = *state;
    float *moments = NULL;
    write_recorded(f);
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_variable_at(f->m.graph, "moments", HS_FLOAT, HS_SHAPE(2), &moments);
    open_model(f);
    assert_true(model_is(&f->m, 3));
    assert_true(moments && moments[0] == 5 && moments[1] == 6);
    assert_ok(model_train(&f->m, 1), &f->m.err);
    assert_int_equal(times_logged(f, LINE), 0);
    save_at(f, 4);
    assert_true(has_tensor(f, 4, "moments"));
    assert_false(has_tensor(f, 4, "hooksess/variable/moments:late"));
    free(moments);
}

static hs_code restore_without(test_env *t, void *user)
{
    model m = {.step = 0};
    hs_code code = model_open(&m, &t->env, ((fixture *)user)->directory);
    model_close(&m);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    drop(f, (const char *const[]){"head/kernel", "head/bias"}, 2);
    test_each_allocation(restore_without, f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(they_are_logged_once_after_the_first_training_run),
        with_fixture(those_of_a_safetensors_file_are_logged_by_the_load),
        with_fixture(of_many_only_some_are_named),
        with_fixture(a_program_that_uses_all_logs_nothing),
        with_fixture(variables_that_another_saver_restores_are_used),
        with_fixture(skipped_variables_are_used),
        with_fixture(the_graph_of_objects_is_not_named),
        with_fixture(a_variable_that_was_added_to_an_open_session_is_named),
        with_fixture(it_is_restored_if_the_graph_has_it),
        with_fixture(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
