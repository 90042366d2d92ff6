/* SPDX-License-Identifier: Apache-2.0 */
/* Best-effort hooks: failures, backoff, and the session's report of them. */
#include "session/probe.h"

/* Opens a session with the hooks a, b and c. b is best-effort. */
static void open_with_b(play *p, int64_t max_failures)
{
    hs_hook hooks[] = {play_watch(p, &p->a), hs_hook_best_effort(play_watch(p, &p->b), max_failures), play_watch(p, &p->c)};
    play_open(p, hooks, 3);
}

static hs_hook_failure failure_of(play *p, size_t index)
{
    hs_hook_failure failure = {.hook = NULL};
    assert_true(hs_raw_session_failure(hs_session_raw(p->session), index, &failure));
    return failure;
}

static const hs_run_args five = HS_INIT(hs_run_args, .names = HS_NAMES("five"));
static const hs_run_args nothing_there = HS_INIT(hs_run_args, .names = HS_NAMES("nowhere"));

/* A hook that fails in one callback while `fails` is true. */
typedef struct {
    probe_point point;
    bool fails;
} failing;

static hs_code fail_if_set(probe *p, const probe_call *call)
{
    const failing *f = p->user;
    return f->fails && call->point == f->point ? hs_error_set(call->err, HS_RESOURCE_EXHAUSTED, "the disk is full") : HS_OK;
}

static void open_failing(play *p, failing *f, int64_t max_failures)
{
    play_probe(p, b, .act = fail_if_set, .user = f);
    open_with_b(p, max_failures);
    play_calls(p);
}

static void training_continues_without_the_hook(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_AFTER, true};
    open_failing(p, &f, 0);
    assert_int_equal(play_train(p), 1);
    assert_string_equal(play_calls(p), "a.before b.before c.before run a.after b.after c.after");
    assert_int_equal(play_train(p), 2);
    assert_string_equal(play_calls(p), "a.before c.before run a.after c.after");
    assert_contains(p->t.log,
                    "WARNING: hook 'b', after_run at step 1: the disk is full; training continues, retrying in 1 s\n");
}

static void a_hook_whose_before_run_fails_is_left_out_of_the_run(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_BEFORE, true};
    open_failing(p, &f, 0);
    p->b.wants = &five;
    play_train(p);
    assert_string_equal(play_calls(p), "a.before b.before c.before run a.after c.after");
    assert_string_equal(hs_script_last_run(p->script), "fetch train; feed");
}

static void a_missing_fetch_is_the_hooks_failure(void **state)
{
    play *p = *state;
    play_probe(p, b, .wants = &nothing_there);
    open_with_b(p, 0);
    assert_int_equal(play_train(p), 1);
    assert_int_equal(failure_of(p, 0).last.code, HS_NOT_FOUND);
    assert_int_equal(p->b.calls[PROBE_AFTER], 0);
}

static void it_is_retried_after_a_growing_backoff(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_AFTER, true};
    open_failing(p, &f, 0);
    const double waits[] = {1, 2, 4, 8, 16, 32, 64, 64};
    play_train(p);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        hs_script_advance(p->script, waits[i] - 0.5);
        play_train(p);
        assert_int_equal(p->b.calls[PROBE_AFTER], i + 1);
        hs_script_advance(p->script, 0.5);
        play_train(p);
        assert_int_equal(p->b.calls[PROBE_AFTER], i + 2);
    }
    assert_int_equal(failure_of(p, 0).failures, 9);
}

static void it_resumes_when_it_works_again(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_AFTER, true};
    open_failing(p, &f, 0);
    play_train(p);
    assert_true(failure_of(p, 0).muted);
    f.fails = false;
    hs_script_advance(p->script, 1);
    play_train(p);
    assert_contains(p->t.log, "hook 'b' recovered after 1 failure in a row");
    assert_false(failure_of(p, 0).muted);
    f.fails = true; /* the backoff begins with 1 s again */
    play_train(p);
    hs_script_advance(p->script, 1);
    play_train(p);
    assert_int_equal(failure_of(p, 0).failures, 3);
}

/* Its after_run is good each time. */
static void good_runs_do_not_end_a_failure_in_boundaries(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_BOUNDARY, true};
    play_probe(p, b, .act = fail_if_set, .user = &f);
    open_with_b(p, 0);
    assert_int_equal(p->b.calls[PROBE_BOUNDARY], 1);
    hs_script_advance(p->script, 1);
    play_train(p);
    assert_int_equal(p->b.calls[PROBE_AFTER], 1);
    assert_lacks(p->t.log, "recovered after");
}

static void after_max_failures_the_hook_is_disabled(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_AFTER, true};
    open_failing(p, &f, 2);
    play_train(p);
    hs_script_advance(p->script, 1);
    play_train(p);
    assert_contains(p->t.log, "the disk is full; training continues without this hook");
    f.fails = false;
    hs_script_advance(p->script, 1e6);
    play_train(p);
    assert_int_equal(p->b.calls[PROBE_AFTER], 2);
    assert_true(failure_of(p, 0).muted);
    play_calls(p);
    play_close(p);
    assert_string_equal(play_calls(p), "a.end c.end a.boundary c.boundary c.close b.close a.close");
}

static void a_begin_that_fails_is_final(void **state)
{
    play *p = *state;
    play_probe(p, b, .fails_in = PROBE_BEGIN, .fails_at = 1, .message = "no such directory");
    open_with_b(p, 0);
    hs_script_advance(p->script, 1e6);
    play_train(p);
    assert_string_equal(play_calls(p), "a.begin b.begin c.begin a.create c.create a.boundary c.boundary "
                                       "a.before c.before run a.after c.after");
    play_close(p);
    assert_int_equal(p->b.calls[PROBE_CLOSE], 1);
    assert_int_equal(p->outcome.reason, HS_REASON_CLOSED);
    assert_int_equal(p->outcome.failing_hooks, 1);
}

static void a_failed_after_create_session_is_called_again_later(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_CREATE, true};
    play_probe(p, b, .act = fail_if_set, .user = &f);
    open_with_b(p, 0);
    hs_script_advance(p->script, 1);
    play_train(p);
    assert_int_equal(p->b.calls[PROBE_CREATE], 2);
    assert_int_equal(p->b.calls[PROBE_BEFORE], 0);
    f.fails = false;
    hs_script_advance(p->script, 2);
    play_train(p);
    assert_int_equal(p->b.calls[PROBE_CREATE], 3);
    assert_int_equal(p->b.calls[PROBE_AFTER], 1);
    assert_contains(p->t.log, "recovered after 2 failures in a row");
}

static hs_code fail_then_stop(probe *p, const probe_call *call)
{
    if (call->point != PROBE_CREATE)
        return HS_OK;
    return p->calls[PROBE_CREATE] == 1 ? hs_error_set(call->err, HS_UNKNOWN, "not yet") : HS_STOP;
}

/* HS_STOP means that the training is complete, as in the first call. */
static void a_later_after_create_session_may_stop_the_training(void **state)
{
    play *p = *state;
    play_probe(p, b, .act = fail_then_stop);
    open_with_b(p, 0);
    play_train(p);
    assert_false(hs_session_should_stop(p->session));
    hs_script_advance(p->script, 1);
    play_train(p);
    assert_int_equal(p->b.calls[PROBE_CREATE], 2);
    assert_true(hs_session_should_stop(p->session));
    play_close(p);
    assert_int_equal(p->outcome.failures, 1);
    assert_int_equal(p->outcome.reason, HS_REASON_STOPPED);
}

static void a_failing_end_does_not_fail_the_session(void **state)
{
    play *p = *state;
    play_probe(p, b, .fails_in = PROBE_END, .fails_at = 1);
    open_with_b(p, 0);
    play_train(p);
    play_close(p);
    assert_int_equal(p->outcome.reason, HS_REASON_CLOSED);
    assert_int_equal(p->outcome.failures, 1);
    assert_string_equal(p->outcome.hook, "");
    assert_int_equal(p->c.calls[PROBE_END], 1);
}

static void the_outcome_and_the_log_count_failures(void **state)
{
    play *p = *state;
    static failing f; /* its session is closed by the teardown */
    f = (failing){PROBE_AFTER, true};
    open_failing(p, &f, 0);
    for (int i = 0; i < 3; i++, hs_script_advance(p->script, 10))
        play_train(p);
    hs_raw_session *raw = hs_session_raw(p->session);
    hs_error full = {.code = HS_RESOURCE_EXHAUSTED, .message = "no space left"};
    assert_int_equal(hs_raw_session_report_result(raw, "saver", full.code, &full), HS_OK);
    assert_true(test_is_clear(&full));
    assert_int_equal(hs_raw_session_report_result(raw, "saver", HS_UNKNOWN, NULL), HS_OK);
    hs_hook_failure of_b = failure_of(p, 0), of_saver = failure_of(p, 1);
    assert_string_equal(of_b.hook, "b");
    assert_int_equal(of_b.first_step, 1);
    assert_int_equal(of_b.last_step, 3);
    assert_string_equal(of_saver.hook, "saver");
    assert_int_equal(of_saver.failures, 2);
    assert_int_equal(of_saver.last.code, HS_UNKNOWN);
    assert_false(of_saver.muted);
    assert_false(hs_raw_session_failure(hs_session_raw(p->session), 2, &of_b));
    play_close(p);
    assert_int_equal(p->outcome.failing_hooks, 2);
    assert_int_equal(p->outcome.failures, 5);
    assert_int_equal(p->a.outcome.failures, 5); /* the hooks' close gets the number as well */
    assert_contains(p->t.log, "'b' failed 3 times, and training continued; last error: hook 'b', after_run at step 3");
}

static void other_hooks_still_fail_the_run(void **state)
{
    play *p = *state;
    play_probe(p, c, .fails_in = PROBE_AFTER, .fails_at = 1);
    open_with_b(p, 0);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    play_close(p);
    assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
    assert_string_equal(p->outcome.hook, "c");
}

/* State. */

static hs_code save_no_state(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self;
    hs_state_writer_write(out, "half", 4, err);
    return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "its file is full");
}

static hs_code load_no_state(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in;
    return hs_error_set(err, HS_DATA_LOSS, "its file has changed");
}

static void its_state_does_not_fail_a_copy_of_the_rest(void **state)
{
    play *p = *state;
    hs_hook hook = probe_hook(&p->b);
    hs_state_copy *copy = NULL;
    p->b.ops.save_state = save_no_state;
    p->b.ops.load_state = load_no_state;
    hook = hs_hook_best_effort(hook, 0);
    play_open(p, &hook, 1);
    play_train(p);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(p->session), &copy, &p->err), &p->err);
    assert_contains(p->t.log, "hook 'b', save_state at step 1: its file is full; training continues");
    play_train(p);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(p->session), copy, &p->err), &p->err);
    assert_int_equal(hs_session_global_step(p->session, NULL), 1);
    assert_int_equal(failure_of(p, 0).failures, 1); /* an empty state is not loaded */
    hs_state_copy_free(copy);
}

static int n_saves;

static hs_code count_saves(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self, (void)out;
    n_saves++;
    return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "its file is full");
}

/* It may have no state to save. */
static void a_disabled_hook_saves_no_state(void **state)
{
    play *p = *state;
    hs_state_copy *copy = NULL;
    n_saves = 0;
    play_probe(p, a, .fails_in = PROBE_BEGIN, .fails_at = 1);
    play_probe(p, b, .fails_in = PROBE_AFTER, .fails_at = 1);
    hs_hook hooks[] = {probe_hook(&p->a), probe_hook(&p->b)};
    p->a.ops.save_state = p->b.ops.save_state = count_saves;
    p->a.ops.load_state = p->b.ops.load_state = load_no_state;
    hooks[0] = hs_hook_best_effort(hooks[0], 0);
    hooks[1] = hs_hook_best_effort(hooks[1], 1);
    play_open(p, hooks, 2);
    play_train(p);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(p->session), &copy, &p->err), &p->err);
    hs_state_copy_free(copy);
    assert_int_equal(n_saves, 0);
    assert_int_equal(failure_of(p, 0).failures, 1);
    assert_int_equal(failure_of(p, 1).failures, 1);
}

/* The feeds and fetches that it requested before it failed are not in the run. */
static void fetches_requested_before_a_failure_are_left_out(void **state)
{
    play *p = *state;
    static const double mine = 1, callers = 2;
    const hs_feed feeds[] = {play_feed("b", &mine), play_feed("a", &mine), {NULL}},
                  given[] = {play_feed("a", &callers), {NULL}};
    const hs_run_args wants = HS_INIT(hs_run_args, .names = HS_NAMES("five"), .feeds = feeds);
    play_probe(p, b, .wants = &wants);
    open_with_b(p, 0);
    assert_ok(play_run(p, (const char *const[]){"a", NULL}, given), &p->err);
    assert_contains(p->t.log, "'a' is fed twice: by the caller and by b; training continues");
    assert_string_equal(hs_script_last_run(p->script), "fetch a; feed a");
    assert_true(hs_run_values_number(p->values, 0) == 2);
}

static void another_hook_may_feed_the_tensor_of_a_failed_hook(void **state)
{
    play *p = *state;
    static const double mine = 1, anothers = 3;
    const hs_feed feeds[] = {play_feed("b", &mine), {NULL}}, other[] = {play_feed("b", &anothers), {NULL}};
    const hs_run_args wants = HS_INIT(hs_run_args, .feeds = feeds, .options = &(hs_run_options){.size = 1}),
                      fed = HS_INIT(hs_run_args, .names = HS_NAMES("b"), .feeds = other);
    play_probe(p, b, .wants = &wants);
    play_probe(p, c, .wants = &fed);
    open_with_b(p, 0);
    play_train(p);
    assert_contains(p->t.log, "hs_run_options.size is 1");
    assert_string_equal(hs_script_last_run(p->script), "fetch train b; feed b");
}

static void it_is_not_blamed_for_the_failure_of_another(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1);
    play_probe(p, b, .fails_in = PROBE_END, .fails_at = 1);
    open_with_b(p, 0);
    play_train(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_string_equal(p->outcome.hook, "a");
}

static void a_null_session_has_no_failures(void **state)
{
    (void)state;
    hs_hook_failure failure;
    assert_int_equal(hs_raw_session_report_result(NULL, "a", HS_UNKNOWN, NULL), HS_UNKNOWN);
    assert_false(hs_raw_session_failure(NULL, 0, &failure));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(training_continues_without_the_hook),
        play_test(a_hook_whose_before_run_fails_is_left_out_of_the_run),
        play_test(a_missing_fetch_is_the_hooks_failure),
        play_test(it_is_retried_after_a_growing_backoff),
        play_test(it_resumes_when_it_works_again),
        play_test(good_runs_do_not_end_a_failure_in_boundaries),
        play_test(after_max_failures_the_hook_is_disabled),
        play_test(a_begin_that_fails_is_final),
        play_test(a_failed_after_create_session_is_called_again_later),
        play_test(a_later_after_create_session_may_stop_the_training),
        play_test(a_failing_end_does_not_fail_the_session),
        play_test(the_outcome_and_the_log_count_failures),
        play_test(other_hooks_still_fail_the_run),
        play_test(its_state_does_not_fail_a_copy_of_the_rest),
        play_test(a_disabled_hook_saves_no_state),
        play_test(fetches_requested_before_a_failure_are_left_out),
        play_test(another_hook_may_feed_the_tensor_of_a_failed_hook),
        play_test(it_is_not_blamed_for_the_failure_of_another),
        play_test(a_null_session_has_no_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
