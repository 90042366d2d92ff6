/* SPDX-License-Identifier: Apache-2.0 */
/* Background saves. */
#include "checkpoint/model.h"

#include <pthread.h>
#include <sched.h>

/* A file system that blocks writes until a gate is opened. */
typedef struct {
    hs_env env;
    hs_file_system_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed, waiting;
} gate;

static gate the_gate;

static hs_code gated_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    gate *g = &the_gate;
    pthread_mutex_lock(&g->lock);
    g->waiting = true;
    pthread_cond_broadcast(&g->changed);
    while (g->closed)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    (void)user;
    return hs_env_default()->files.ops->write(NULL, file, data, bytes, err);
}

static void set_gate(bool closed)
{
    gate *g = &the_gate;
    pthread_mutex_lock(&g->lock);
    g->closed = closed;
    g->waiting = false;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void *open_gate(void *user)
{
    (void)user;
    for (int i = 0; i < 100; i++)
        sched_yield(); /* let the other be first, mostly */
    set_gate(false);
    return NULL;
}

static void wait_at_gate(void)
{
    gate *g = &the_gate;
    pthread_mutex_lock(&g->lock);
    while (!g->waiting)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

/* A saver on it. */
static void use_gated_saver(fixture *f, hs_saver_options options)
{
    gate *g = &the_gate;
    *g = (gate){.env = f->t.env, .ops = *hs_env_default()->files.ops};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->ops.write = gated_write;
    g->env.files = (hs_file_system){&g->ops, NULL};
    options.env = &g->env;
    hs_saver_free(f->saver);
    f->saver = hs_saver_new(&options, &f->err);
    assert_non_null(f->saver);
}

static hs_code save_behind(fixture *f, int64_t step, hs_busy_policy busy)
{
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .busy = busy);
    model_set(&f->m, step);
    return hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, &options, &f->err);
}

static void assert_finished(fixture *f, int64_t expected)
{
    hs_save_result result;
    hs_saver_wait(f->saver);
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_ok(result.error.code, &result.error);
    assert_int_equal(result.step, expected);
    assert_false(hs_saver_poll(f->saver, NULL, &result)); /* it was reported */
}

static void a_background_save_writes_the_values_at_its_call(void **state)
{
    fixture *f = *state;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    set_gate(true);
    assert_ok(save_behind(f, 1, HS_BUSY_WAIT), &f->err);
    wait_at_gate();
    assert_false(hs_saver_poll(f->saver, NULL, NULL));
    assert_int_equal(test_count_files(f->directory, ".index"), 0);
    model_set(&f->m, 77); /* training continues during the save */
    set_gate(false);
    assert_finished(f, 1);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

/* Variables that several threads copy. */
enum { LARGE_VARIABLES = 5, LARGE_ELEMENTS = (2 << 20) / sizeof(float) + 1 };

/* From the end, so that a copy that is still being made does not stay ahead of it. */
static void set_all(float *values, float value)
{
    for (size_t i = (size_t)LARGE_VARIABLES * LARGE_ELEMENTS; i-- > 0;)
        values[i] = value + (float)(i / LARGE_ELEMENTS);
}

static void large_variables_are_copied_before_the_call_returns(void **state)
{
    fixture *f = *state;
    static const char *const names[LARGE_VARIABLES] = {"a", "b", "c", "d", "e"};
    const hs_save_options options = HS_INIT(hs_save_options, .background = true, .no_meta_graph = true);
    float *values = malloc(sizeof *values * LARGE_VARIABLES * LARGE_ELEMENTS),
          *saved = malloc(sizeof *saved * LARGE_ELEMENTS);
    hs_graph *graph = hs_graph_new(&f->t.env);
    for (size_t i = 0; i < LARGE_VARIABLES; i++)
        hs_graph_variable(graph, names[i], HS_FLOAT, HS_SHAPE(LARGE_ELEMENTS), values + i * LARGE_ELEMENTS);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_ok(f->err.code, &f->err);
    for (int step = 1; step <= 2; step++) { /* into fresh memory, and into memory of the save before */
        set_all(values, (float)step);
        assert_ok(hs_saver_save(f->saver, hs_session_raw(session), test_path(f->directory, "model.ckpt"), step, &options,
                                &f->err),
                  &f->err);
        set_all(values, -1);
        assert_finished(f, step);
        hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, step, NULL), &f->err);
        for (size_t v = 0; v < LARGE_VARIABLES; v++) {
            assert_ok(hs_checkpoint_read(reader, names[v], saved, sizeof *saved * LARGE_ELEMENTS, &f->err), &f->err);
            for (size_t i = 0; i < LARGE_ELEMENTS; i++)
                if (saved[i] != (float)step + (float)v)
                    fail_msg("element %zu of %s is %g", i, names[v], saved[i]);
        }
        hs_checkpoint_close(reader);
    }
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(values);
    free(saved);
}

static void a_background_save_writes_the_same_file_as_a_foreground_save(void **state)
{
    fixture *f = *state;
    size_t n[2];
    char *data[2], *index[2];
    save_at(f, 3);
    const int64_t bytes = hs_saver_last_bytes(f->saver);
    data[0] = test_read_file(file_of(f, 3, DATA), &n[0]);
    index[0] = test_read_file(file_of(f, 3, "index"), NULL);
    assert_ok(hs_checkpoint_remove(NULL, file_of(f, 3, NULL), &f->err), &f->err);
    assert_ok(save_behind(f, 3, HS_BUSY_WAIT), &f->err);
    assert_finished(f, 3);
    assert_int_equal(hs_saver_last_bytes(f->saver), bytes); /* of variables and states, without the graph */
    data[1] = test_read_file(file_of(f, 3, DATA), &n[1]);
    index[1] = test_read_file(file_of(f, 3, "index"), NULL);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(data[0], data[1], n[0]);
    assert_string_equal(index[0], index[1]);
    assert_true(has_file(f, 3, "meta"));
    for (int i = 0; i < 2; i++)
        free(data[i]), free(index[i]);
}

static void a_save_waits_for_the_previous_one(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    for (int64_t step = 1; step <= 20; step++)
        assert_ok(save_behind(f, step, HS_BUSY_WAIT), &f->err);
    assert_finished(f, 20);
    assert_int_equal(test_count_files(f->directory, ".index"), 2);
    assert_string_equal(hs_saver_last_path(f->saver), file_of(f, 20, NULL));
}

static void a_busy_saver_may_skip_a_save(void **state)
{
    fixture *f = *state;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    set_gate(true);
    assert_ok(save_behind(f, 1, HS_BUSY_SKIP), &f->err);
    wait_at_gate();
    assert_false(hs_saver_poll(f->saver, NULL, NULL));
    size_t allocations = f->t.allocations;
    assert_fails(save_behind(f, 2, HS_BUSY_SKIP), HS_CANCELLED, &f->err, "is still being saved");
    assert_int_equal(f->t.allocations, allocations); /* nothing was listed that could fail otherwise */
    set_gate(false);
    assert_finished(f, 1);
    assert_false(has_file(f, 2, "index"));
}

/* Starts a save while another one is at the gate. Returns true if that was replaced; it may complete before. */
static bool replace(fixture *f, int64_t step)
{
    set_gate(true);
    assert_ok(save_behind(f, step, HS_BUSY_REPLACE), &f->err);
    wait_at_gate();
    pthread_t opener;
    pthread_create(&opener, NULL, open_gate, NULL);
    assert_ok(save_behind(f, step + 1, HS_BUSY_REPLACE), &f->err);
    pthread_join(opener, NULL);
    assert_finished(f, step + 1);
    assert_true(has_file(f, step + 1, "index"));
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
    return !has_file(f, step, "index");
}

static void a_busy_saver_may_replace_a_save(void **state)
{
    fixture *f = *state;
    enum { MOST = 1000 };
    int64_t step = 1;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    while (!replace(f, step) && step < MOST)
        step += 2;
    assert_true(step < MOST);
}

static void everything_else_waits(void **state)
{
    fixture *f = *state;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_ok(save_behind(f, 1, HS_BUSY_WAIT), &f->err);
    save_at(f, 2);
    assert_ok(save_behind(f, 3, HS_BUSY_WAIT), &f->err);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL), NULL, &f->err), &f->err);
    assert_ok(save_behind(f, 4, HS_BUSY_WAIT), &f->err);
    assert_string_equal(hs_saver_checkpoint(f->saver, 3), file_of(f, 4, NULL));
    assert_ok(save_behind(f, 5, HS_BUSY_WAIT), &f->err);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 5, NULL), true, &f->err), &f->err);
}

/* In a child that is forked during a background save. */
static int use_and_free(void *user)
{
    fixture *f = user;
    hs_save_options options = HS_INIT(hs_save_options);
    hs_saver_wait(f->saver);
    if (hs_saver_poll(f->saver, NULL, NULL))
        return 1;
    for (int background = 0; background < 2; background++) {
        options.background = background;
        if (hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "child"), 9, &options, &f->err) !=
                HS_FAILED_PRECONDITION ||
            !strstr(f->err.message, "forked child"))
            return 2;
    }
    hs_saver_last_path(f->saver);
    hs_saver_free(f->saver);
    return 0;
}

static void a_forked_child_neither_uses_nor_frees_a_saver_with_a_thread(void **state)
{
    fixture *f = *state;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    set_gate(true);
    assert_ok(save_behind(f, 1, HS_BUSY_WAIT), &f->err);
    wait_at_gate();
    assert_int_equal(test_in_child(use_and_free, f), 0);
    set_gate(false);
    assert_finished(f, 1);
    assert_int_equal(test_in_child(use_and_free, f), 0);
    assert_ok(save_behind(f, 2, HS_BUSY_WAIT), &f->err);
    assert_finished(f, 2);
    assert_int_equal(test_count_files(f->directory, ".index"), 2);
    assert_int_equal(test_count_files(f->directory, "child"), 0);
}

static void freeing_the_saver_waits(void **state)
{
    fixture *f = *state;
    assert_ok(save_behind(f, 1, HS_BUSY_WAIT), &f->err);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_true(has_file(f, 1, "index"));
}

/* Failures. */

static hs_code poison(fixture *f, int64_t step)
{
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    model_set(&f->m, step);
    f->m.weights[0] *= 1e30f * 1e30f;
    return hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, &options, &f->err);
}

static void poll_returns_the_failure(void **state)
{
    fixture *f = *state;
    hs_save_result result;
    assert_ok(poison(f, 5), &f->err);
    hs_saver_wait(f->saver);
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_says(&result.error, HS_FAILED_PRECONDITION, "'weights' is not finite");
    assert_int_equal(result.step, 5);
    assert_ok(save_behind(f, 6, HS_BUSY_WAIT), &f->err);
    assert_finished(f, 6);
}

static void a_file_system_that_cancels_a_call_fails_the_save(void **state)
{
    fixture *f = *state;
    hs_save_result result;
    f->t.fail_file_code = HS_CANCELLED;
    f->t.fail_file_on = true;
    f->t.fail_file_at = f->t.file_calls + 3;
    assert_ok(save_behind(f, 1, HS_BUSY_WAIT), &f->err);
    hs_saver_wait(f->saver);
    f->t.fail_file_at = 0;
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_says(&result.error, HS_CANCELLED, "injected");
}

static void a_failure_that_was_not_polled_is_returned_by_the_next_save(void **state)
{
    fixture *f = *state;
    assert_ok(poison(f, 5), &f->err);
    hs_saver_wait(f->saver);
    assert_fails(save_behind(f, 6, HS_BUSY_WAIT), HS_FAILED_PRECONDITION, &f->err, "model.ckpt-5' is not saved");
    assert_ok(save_behind(f, 7, HS_BUSY_WAIT), &f->err);
    assert_finished(f, 7);
}

static void invalid_options_fail_immediately(void **state)
{
    fixture *f = *state;
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .busy = 3);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "x"), 1, &options, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "hs_busy_policy");
    assert_false(hs_saver_poll(f->saver, NULL, NULL));
    assert_false(hs_saver_poll(NULL, NULL, NULL));
    hs_saver_wait(NULL);
}

static hs_code save_and_wait(test_env *t, void *user)
{
    fixture *f = user;
    hs_error err = {0};
    test_tolerate_harmless(t); /* failures without effect: the copy grows instead, and the sweep is skipped */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_empty_directory(f->directory);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env), &err);
    if (!saver)
        return err.code;
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    hs_code code = hs_saver_save(saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1, &options, &err);
    hs_saver_wait(saver);
    hs_save_result result;
    if (!code && hs_saver_poll(saver, NULL, &result))
        code = result.error.code;
    hs_saver_free(saver);
    return code;
}

static void any_allocation_may_fail(void **state)
{
    test_each_allocation(save_and_wait, *state);
}

/* Frequent saves that replace each other: some must complete. */
static void a_save_that_replaced_another_is_not_replaced(void **state)
{
    fixture *f = *state;
    pthread_t opener;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    set_gate(true);
    assert_ok(save_behind(f, 1, HS_BUSY_WAIT), &f->err);
    wait_at_gate();
    assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
    assert_ok(save_behind(f, 2, HS_BUSY_REPLACE), &f->err);
    pthread_join(opener, NULL);
    assert_ok(save_behind(f, 3, HS_BUSY_REPLACE), &f->err);
    hs_saver_wait(f->saver);
    assert_true(has_file(f, 1, "index") || has_file(f, 2, "index"));
    assert_true(has_file(f, 3, "index"));
}

static void another_saver_sweeps_nothing_that_is_on_its_way(void **state)
{
    fixture *f = *state;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    set_gate(true);
    assert_ok(save_behind(f, 5, HS_BUSY_WAIT), &f->err);
    wait_at_gate();
    hs_saver_options options = HS_INIT(hs_saver_options, .env = &the_gate.env);
    hs_saver *second = hs_saver_new(&options, &f->err);
    assert_ok(hs_saver_hold(second, NULL, test_path(f->directory, "model.ckpt"), &f->err), &f->err);
    set_gate(false);
    hs_saver_wait(f->saver);
    hs_saver_free(second);
    hs_save_result result;
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_ok(result.error.code, &result.error);
    assert_true(has_file(f, 5, "index"));
}

static void a_state_over_the_limit_is_saved_at_once(void **state)
{
    fixture *f = *state;
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .copy_limit = 1);
    hs_save_result result;
    model_set(&f->m, 3);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 3, &options, &f->err),
              &f->err);
    assert_true(has_file(f, 3, "index"));
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_int_equal(result.step, 3);
    assert_ok(result.error.code, &result.error);
    assert_false(hs_saver_poll(f->saver, NULL, &result));
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 3));
}

static void a_state_under_the_limit_is_copied(void **state)
{
    fixture *f = *state;
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    set_gate(true);
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .copy_limit = 1 << 20);
    model_set(&f->m, 4);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 4, &options, &f->err),
              &f->err);
    assert_false(hs_saver_poll(f->saver, NULL, NULL));
    set_gate(false);
    hs_saver_wait(f->saver);
    assert_true(has_file(f, 4, "index"));
}

static void without_a_limit_any_state_is_copied(void **state)
{
    fixture *f = *state;
    const int64_t none[] = {0, HS_NEVER};
    use_gated_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        hs_save_options options = HS_INIT(hs_save_options, .background = true, .copy_limit = none[i]);
        set_gate(true);
        assert_ok(
            hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), (int64_t)i, &options, &f->err),
            &f->err);
        assert_false(hs_saver_poll(f->saver, NULL, NULL));
        set_gate(false);
        hs_saver_wait(f->saver);
        assert_true(hs_saver_poll(f->saver, NULL, NULL));
    }
}

static void a_limit_is_not_negative(void **state)
{
    fixture *f = *state;
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .copy_limit = -2);
    assert_fails(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 4, &options, &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "copy_limit is -2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_background_save_writes_the_values_at_its_call),
        with_fixture(large_variables_are_copied_before_the_call_returns),
        with_fixture(a_background_save_writes_the_same_file_as_a_foreground_save),
        with_fixture(a_save_waits_for_the_previous_one),
        with_fixture(a_busy_saver_may_skip_a_save),
        with_fixture(a_busy_saver_may_replace_a_save),
        with_fixture(everything_else_waits),
        with_fixture(a_forked_child_neither_uses_nor_frees_a_saver_with_a_thread),
        with_fixture(freeing_the_saver_waits),
        with_fixture(poll_returns_the_failure),
        with_fixture(a_file_system_that_cancels_a_call_fails_the_save),
        with_fixture(a_failure_that_was_not_polled_is_returned_by_the_next_save),
        with_fixture(invalid_options_fail_immediately),
        with_fixture(any_allocation_may_fail),
        with_fixture(a_state_over_the_limit_is_saved_at_once),
        with_fixture(a_state_under_the_limit_is_copied),
        with_fixture(without_a_limit_any_state_is_copied),
        with_fixture(a_limit_is_not_negative),
        with_fixture(another_saver_sweeps_nothing_that_is_on_its_way),
        with_fixture(a_save_that_replaced_another_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
