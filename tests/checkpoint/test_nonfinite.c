/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint with NaN or infinity never becomes the newest. */
#include "checkpoint/model.h"

#include <math.h>

static hs_code save_poisoned(fixture *f, int64_t step, double poison)
{
    model_set(&f->m, step);
    f->m.weights[4] = (float)poison;
    return hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, NULL, &f->err);
}

static void assert_newest_is(fixture *f, int64_t step)
{
    model_set(&f->m, 9);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, step));
}

static void the_save_fails_and_names_it(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_fails(save_poisoned(f, 2, (double)NAN), HS_FAILED_PRECONDITION, &f->err,
                 "'weights' is not finite, first at index 4 (1 NaN, 0 +infinity, 0 -infinity)");
    assert_contains(f->err.message, "model.ckpt-2' is not saved");
    assert_fails(save_poisoned(f, 3, -HUGE_VAL), HS_FAILED_PRECONDITION, &f->err, "0 NaN, 0 +infinity, 1 -infinity");
    assert_int_equal(test_count_files(f->directory, "model.ckpt-"), 3); /* the first one's */
    assert_newest_is(f, 1);
}

static void over_itself_too(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_int_equal(save_poisoned(f, 1, (double)NAN), HS_FAILED_PRECONDITION);
    assert_newest_is(f, 1);
}

static void nonfinite_values_may_be_allowed(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .allow_nonfinite = true));
    assert_ok(save_poisoned(f, 2, (double)NAN), &f->err);
    assert_true(has_file(f, 2, "index"));
}

/* In the last piece of many, in any type. */
static void wherever_it_is(void **state)
{
    fixture *f = *state;
    enum { N = 300000 };
    double *values = calloc(N, sizeof *values);
    values[N - 1] = (double)NAN;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "large", HS_DOUBLE, HS_SHAPE(N), values);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    hs_code code = hs_saver_save(f->saver, hs_session_raw(session), test_path(f->directory, "x"), -1, NULL, &f->err);
    assert_fails(code, HS_FAILED_PRECONDITION, &f->err, "'large' is not finite, first at index 299999");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(values);
}

/* One variable may be infinite; the others are checked. */

static void open_with_best(fixture *f, float *best)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_add_variable(f->m.graph, HS_VARIABLE_DEF(.name = "best", .dtype = HS_FLOAT, .data = best, .nonfinite = true));
    f->m.session =
        hs_session_open(hs_graph_backend(f->m.graph), HS_SESSION_OPTIONS(.checkpoint_dir = f->directory), &f->err);
    assert_non_null(f->m.session);
}

static void a_single_variable_may_be_infinite(void **state)
{
    fixture *f = *state;
    float best = HUGE_VALF;
    open_with_best(f, &best);
    save_at(f, 1);
    assert_fails(save_poisoned(f, 2, (double)NAN), HS_FAILED_PRECONDITION, &f->err,
                 "'weights' is not finite, first at index 4 (1 NaN, 0 +infinity, 0 -infinity); the previous checkpoint "
                 "remains the newest");
    best = 0;
    open_with_best(f, &best);
    assert_true(best == HUGE_VALF);
    assert_true(model_is(&f->m, 1));
}

static void a_single_variable_may_be_infinite_in_shards_and_in_the_background(void **state)
{
    fixture *f = *state;
    float best = HUGE_VALF;
    open_with_best(f, &best);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .shards = 3));
    save_at(f, 1);
    model_set(&f->m, 2);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 2,
                            HS_SAVE_OPTIONS(.background = true), &f->err),
              &f->err);
    hs_saver_wait(f->saver);
    hs_save_result result;
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_ok(result.error.code, &result.error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(the_save_fails_and_names_it),
        with_fixture(over_itself_too),
        with_fixture(nonfinite_values_may_be_allowed),
        with_fixture(wherever_it_is),
        with_fixture(a_single_variable_may_be_infinite),
        with_fixture(a_single_variable_may_be_infinite_in_shards_and_in_the_background),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
