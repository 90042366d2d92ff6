/* SPDX-License-Identifier: Apache-2.0 */
/* The order of callbacks, as strings. */
#include "session/probe.h"

#define BEGUN   "a.begin b.begin"
#define CREATED BEGUN " a.create b.create"
#define OPENED  CREATED " a.boundary b.boundary"
#define RUN     "a.before b.before run a.after b.after"
#define BOUND   "a.boundary b.boundary"
#define CLOSED  "b.close a.close"

static void ms_094s_all_go_forward_and_close_goes_back(void **state)
{
    play *p = *state;
    play_open_probes(p, 2);
    assert_string_equal(play_calls(p), OPENED);
    play_train(p);
    assert_string_equal(play_calls(p), RUN);
    play_close(p);
    assert_string_equal(play_calls(p), "a.end b.end " BOUND " " CLOSED);
}

/* A session with one run, in which one callback of one hook fails. */
static void any_callback_may_fail(void **state)
{
    static const struct {
        probe_point point;
        int hook;
        const char *calls;
    } cases[] = {
        {PROBE_BEGIN, 0, "a.begin a.close"},
        {PROBE_BEGIN, 1, BEGUN " " CLOSED},
        {PROBE_CREATE, 0, BEGUN " a.create " CLOSED},
        {PROBE_CREATE, 1, CREATED " " CLOSED},
        {PROBE_BOUNDARY, 0, CREATED " a.boundary " CLOSED},
        {PROBE_BOUNDARY, 1, OPENED " " CLOSED},
        {PROBE_BEFORE, 0, OPENED " a.before " CLOSED},
        {PROBE_BEFORE, 1, OPENED " a.before b.before " CLOSED},
        {PROBE_AFTER, 0, OPENED " a.before b.before run a.after " CLOSED},
        {PROBE_AFTER, 1, OPENED " " RUN " " CLOSED},
        {PROBE_END, 0, OPENED " " RUN " a.end b.end " BOUND " " CLOSED},
        {PROBE_END, 1, OPENED " " RUN " a.end b.end " BOUND " " CLOSED},
    };
    play *p = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probe hooks[] = {{.name = "a"}, {.name = "b"}};
        probe *failing = &hooks[cases[i].hook];
        failing->fails_in = cases[i].point;
        failing->fails_at = 1;
        failing->message = "test failure";
        if (play_try_open(p, (hs_hook[]){play_watch(p, &hooks[0]), play_watch(p, &hooks[1])}, 2))
            hs_session_run(p->session, "train", &p->err);
        play_close(p);
        assert_string_equal(play_calls(p), cases[i].calls);
        assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
        assert_says(&p->outcome.error, HS_INTERNAL, "test failure");
        assert_contains(p->outcome.error.message, failing->name);
        assert_int_equal(hooks[0].destroyed + hooks[1].destroyed, 2);
    }
}

/* Every hook's close gets the outcome of the failure. */
static void close_gets_the_outcome(void **state)
{
    play *p = *state;
    play_probe(p, b, .fails_in = PROBE_AFTER, .fails_at = 2, .message = "test failure");
    play_open_probes(p, 2);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    play_close(p);
    assert_int_equal(p->a.outcome.reason, HS_REASON_FAILED);
    assert_string_equal(p->a.outcome.hook, "b");
    assert_string_equal(p->a.outcome.error.message, "hook 'b', after_run at step 2: test failure");
    assert_int_equal(p->b.outcome.step, 2);
}

static hs_code ask_for_a_boundary(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER && p->calls[PROBE_AFTER] == 2)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void a_boundary_comes_after_every_after_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = ask_for_a_boundary);
    play_open_probes(p, 2);
    play_train(p);
    play_calls(p);
    play_train(p);
    assert_string_equal(play_calls(p), RUN " " BOUND);
    play_train(p);
    assert_string_equal(play_calls(p), RUN);
}

static hs_code ask_in_before(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BEFORE)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void a_boundary_may_be_requested_before_the_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = ask_in_before);
    play_open_probes(p, 2);
    play_calls(p);
    play_train(p);
    assert_string_equal(play_calls(p), RUN " " BOUND);
}

/* A failed run has no boundary, even if a hook requested one. */
static void no_boundary_comes_after_a_failed_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = ask_in_before);
    play_probe(p, b, .fails_in = PROBE_AFTER, .fails_at = 1);
    play_open_probes(p, 2);
    play_calls(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_string_equal(play_calls(p), RUN);
}

static void a_failing_boundary_fails_its_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = ask_in_before, .fails_in = PROBE_BOUNDARY, .fails_at = 2, .message = "disk full");
    play_open_probes(p, 2);
    play_calls(p);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_INTERNAL, &p->err,
                 "hook 'a', boundary at step 1: disk full");
    assert_string_equal(play_calls(p), RUN " a.boundary");
    play_close(p);
    assert_string_equal(play_calls(p), CLOSED);
}

static void the_last_boundary_is_called_for_all_hooks(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BOUNDARY, .fails_at = 2, .message = "disk full");
    play_open_probes(p, 2);
    play_calls(p);
    play_close(p);
    assert_string_equal(play_calls(p), "a.end b.end " BOUND " " CLOSED);
    assert_says(&p->outcome.error, HS_INTERNAL, "disk full");
}

static void ms_097s_a_failing_end_does_not_skip_the_others(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1, .message = "first");
    play_probe(p, b, .fails_in = PROBE_END, .fails_at = 1, .message = "second");
    play_open_probes(p, 2);
    play_calls(p);
    play_close(p);
    assert_string_equal(play_calls(p), "a.end b.end " BOUND " " CLOSED);
    assert_says(&p->err, HS_INTERNAL, "hook 'a', end at step 0: first");
    assert_string_equal(p->outcome.hook, "a");
    assert_contains(p->t.log, "ERROR: hook 'b', end at step 0: second");
}

/* The second failure is logged. */
static void a_failing_last_boundary_after_a_failing_end_is_logged(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_END, .fails_at = 1, .message = "first");
    play_probe(p, b, .fails_in = PROBE_BOUNDARY, .fails_at = 2, .message = "second");
    play_open_probes(p, 2);
    play_close(p);
    assert_says(&p->err, HS_INTERNAL, "hook 'a', end at step 0: first");
    assert_contains(p->t.log, "ERROR: hook 'b', boundary at step 0: second");
}

static hs_code stop_in_before(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BEFORE)
        hs_run_context_request_stop(call->run);
    return HS_OK;
}

static void ms_101s_a_stop_in_before_run_does_not_prevent_the_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = stop_in_before);
    play_open_probes(p, 2);
    play_calls(p);
    assert_true(play_number(p, "five") == 5);
    assert_string_equal(play_calls(p), RUN " a.boundary b.boundary");
    assert_true(hs_session_should_stop(p->session));
}

static void ms_102s_a_failing_after_run_hides_the_result(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_AFTER, .fails_at = 1);
    play_open_probes(p, 2);
    play_calls(p);
    p->values = NULL;
    assert_int_equal(play_run(p, HS_NAMES("train"), NULL), HS_INTERNAL);
    assert_string_equal(play_calls(p), "a.before b.before run a.after");
    assert_null(p->values);
    assert_int_equal(hs_session_global_step(p->session, NULL), 1); /* the run was made */
    assert_false(hs_session_should_stop(p->session));
}

static void ms_104s_a_failing_before_run_ends_the_run(void **state)
{
    play *p = *state;
    play_probe(p, b, .fails_in = PROBE_BEFORE, .fails_at = 1);
    play_open_probes(p, 3);
    play_calls(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_string_equal(play_calls(p), "a.before b.before");
    play_train(p); /* the next run succeeds */
    assert_string_equal(play_calls(p), "a.before b.before c.before run a.after b.after c.after");
}

static void ms_104s_a_feed_conflict_ends_the_run(void **state)
{
    play *p = *state;
    const double one = 1;
    hs_run_args feed = HS_INIT(hs_run_args, .feeds = (hs_feed[]){play_feed("a", &one), {NULL}});
    play_probe(p, a, .wants = &feed);
    play_probe(p, b, .wants = &feed);
    play_open_probes(p, 3);
    play_calls(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_FAILED_PRECONDITION);
    assert_string_equal(play_calls(p), "a.before b.before");
}

static void ms_105s_the_end_of_input_has_no_after_run_but_an_end(void **state)
{
    play *p = *state;
    hs_script_fail_at(p->script, 1, HS_OUT_OF_RANGE, "no more");
    play_open_probes(p, 2);
    play_calls(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_OUT_OF_RANGE);
    assert_string_equal(play_calls(p), "a.before b.before run");
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(p->err.code, HS_OK);
    assert_string_equal(play_calls(p), "a.end b.end " BOUND " " CLOSED);
}

static void ms_106s_any_other_error_calls_no_end(void **state)
{
    play *p = *state;
    hs_script_fail_at(p->script, 1, HS_DATA_LOSS, "bad input");
    play_open_probes(p, 2);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_DATA_LOSS);
    play_calls(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_says(&p->err, HS_DATA_LOSS, "bad input");
    assert_string_equal(play_calls(p), CLOSED);
}

static void missing_callbacks_are_skipped(void **state)
{
    play *p = *state;
    static const hs_hook_ops nothing = HS_INIT(hs_hook_ops, .name = "nothing");
    play_open(p, (hs_hook[]){{.ops = &nothing}, play_watch(p, &p->a), {.ops = &nothing}}, 3);
    play_train(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_string_equal(play_calls(p), "a.begin a.create a.boundary a.before run a.after a.end a.boundary a.close");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_094s_all_go_forward_and_close_goes_back),
        play_test(any_callback_may_fail),
        play_test(close_gets_the_outcome),
        play_test(a_boundary_comes_after_every_after_run),
        play_test(a_boundary_may_be_requested_before_the_run),
        play_test(no_boundary_comes_after_a_failed_run),
        play_test(a_failing_boundary_fails_its_run),
        play_test(the_last_boundary_is_called_for_all_hooks),
        play_test(ms_097s_a_failing_end_does_not_skip_the_others),
        play_test(a_failing_last_boundary_after_a_failing_end_is_logged),
        play_test(ms_101s_a_stop_in_before_run_does_not_prevent_the_run),
        play_test(ms_102s_a_failing_after_run_hides_the_result),
        play_test(ms_104s_a_failing_before_run_ends_the_run),
        play_test(ms_104s_a_feed_conflict_ends_the_run),
        play_test(ms_105s_the_end_of_input_has_no_after_run_but_an_end),
        play_test(ms_106s_any_other_error_calls_no_end),
        play_test(missing_callbacks_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
