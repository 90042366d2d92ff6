/* SPDX-License-Identifier: Apache-2.0 */
/* One run: the call of the backend, its results and its errors. */
#include "session/probe.h"

static void ms_027_ms_028_a_run_forwards_fetches_and_feeds(void **state)
{
    play *p = *state;
    const double fed[] = {51, 42};
    play_open_probes(p, 2);
    for (int i = 0; i < 2; i++) {
        assert_ok(play_run(p, HS_NAMES("a"), (hs_feed[]){play_feed("a", &fed[i]), {NULL}}), &p->err);
        assert_true(hs_run_values_number(p->values, 0) == fed[i]);
    }
}

/* A backend that records the call. */
static hs_backend_call seen_call;
static const hs_tensor *seen_feed;

static hs_code see(void *session, hs_backend_call *call, hs_error *err)
{
    seen_call = *call;
    seen_feed = call->n_feeds ? call->feeds[0].value : NULL;
    return hs_script_backend(NULL).ops->run(session, call, err);
}

static void see_calls(play *p)
{
    p->spied = *p->backend.ops;
    p->spied.run = see;
    p->backend.ops = &p->spied;
}

static void ms_046_without_hooks_the_callers_own_objects_are_passed_on(void **state)
{
    play *p = *state;
    const double one = 1;
    hs_feed feeds[] = {play_feed("a", &one), {NULL}};
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1);
    see_calls(p);
    play_open(p, NULL, 0);
    hs_script_metadata_at(p->script, 1, (hs_bytes){"meta", 4});
    assert_ok(play_args(p, HS_RUN_ARGS(.names = HS_NAMES("a"), .feeds = feeds, .options = &options)), &p->err);
    assert_ptr_equal(seen_call.options, &options);
    assert_ptr_equal(seen_feed, &feeds[0].value);
    assert_ptr_equal(hs_run_values_options(p->values), &options);
    assert_string_equal(hs_run_values_metadata(p->values).data, "meta");
}

static void a_run_of_nothing_runs_the_backend_once(void **state)
{
    play *p = *state;
    see_calls(p);
    play_open_probes(p, 1);
    play_calls(p);
    assert_ok(hs_session_run_args(p->session, NULL, NULL, &p->err), &p->err);
    assert_string_equal(play_calls(p), "a.before run a.after");
    assert_int_equal(seen_call.n_fetches, 0);
    assert_null(seen_call.options);
    assert_int_equal(seen_call.level, 0);
}

static void ms_049_each_hook_gets_its_fetches(void **state)
{
    play *p = *state;
    const double zero = 0;
    play_probe(p, a, .wants = HS_RUN_ARGS(.names = HS_NAMES("five")));
    play_probe(p, b, .wants = HS_RUN_ARGS(.names = HS_NAMES("ten")));
    play_open_probes(p, 2);
    assert_ok(play_run(p, HS_NAMES("a"), (hs_feed[]){play_feed("a", &zero), {NULL}}), &p->err);
    assert_string_equal(hs_script_last_run(p->script), "fetch a five ten; feed a");
    assert_int_equal(hs_run_values_count(p->values), 1);
    assert_true(hs_run_values_number(p->values, 0) == 0);
    assert_true(p->a.number == 5 && p->b.number == 10);
}

static void ms_031_a_bad_fetch_fails_the_run_and_stops_nothing(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_train(p);
    play_train(p);
    play_calls(p);
    const hs_run_args invalid = HS_INIT(hs_run_args, .fetches = &(const hs_fetch){.kind = (hs_fetch_kind)99});
    assert_fails(hs_session_run_args(p->session, &invalid, NULL, &p->err), HS_INVALID_ARGUMENT, &p->err,
                 "a node is not a leaf, list or dict");
    assert_fails(hs_session_run(p->session, "lost", &p->err), HS_NOT_FOUND, &p->err, "'lost'");
    assert_string_equal(play_calls(p), "");
    assert_false(hs_session_should_stop(p->session));
    assert_false(hs_coordinator_should_stop(hs_session_coordinator(p->session)));
    assert_int_equal(play_train(p), 3);
}

static void ms_034_the_backends_error_is_returned_unchanged(void **state)
{
    play *p = *state;
    hs_script_fail_at(p->script, 1, HS_INVALID_ARGUMENT, "matrices do not fit");
    play_open_probes(p, 2);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INVALID_ARGUMENT);
    assert_string_equal(p->err.message, "matrices do not fit");
    play_close(p);
    assert_string_equal(p->outcome.error.message, "matrices do not fit");
    assert_string_equal(p->outcome.hook, "");
}

static hs_code fail_wordlessly(void *session, hs_backend_call *call, hs_error *err)
{
    (void)session, (void)call, (void)err;
    return HS_USER + 2;
}

static void an_error_without_a_message_gets_one(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.run = fail_wordlessly;
    p->backend.ops = &p->spied;
    play_open(p, NULL, 0);
    assert_fails(hs_session_run(p->session, "lost", &p->err), HS_NOT_FOUND, &p->err, "'lost'"); /* which has one */
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_USER + 2, &p->err, "the run failed with USER");
}

static void a_hook_that_fails_without_a_message_is_named(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BEFORE, .fails_at = 1, .code = HS_USER);
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_USER);
    assert_string_equal(p->err.message, "hook 'a', before_run at step 0: it failed with USER");
}

static hs_code write_a_code_only(probe *p, const probe_call *call)
{
    (void)p;
    call->err->code = HS_NOT_FOUND;
    return call->point == PROBE_AFTER ? HS_DATA_LOSS : HS_OK;
}

static void a_hook_that_writes_a_code_alone_is_named_too(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    p->a.act = write_a_code_only;
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_DATA_LOSS);
    assert_string_equal(p->err.message, "hook 'a', after_run at step 1: it failed with DATA_LOSS");
    p->a.act = NULL;
}

/* The returned code counts, independent of the error in `err`. */
static hs_code say_one_thing_and_do_another(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point != PROBE_AFTER)
        return HS_OK;
    hs_error_set(call->err, HS_NOT_FOUND, "a file");
    return HS_UNAVAILABLE;
}

static void the_code_is_the_one_returned(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = say_one_thing_and_do_another);
    play_open_probes(p, 1);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_UNAVAILABLE, &p->err, "a file");
    assert_int_equal(p->err.code, HS_UNAVAILABLE);
    assert_int_equal(play_close(p)->error.code, HS_UNAVAILABLE);
}

static hs_code get_over_it(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BEFORE)
        hs_error_set(call->err, HS_NOT_FOUND, "nothing of importance");
    return HS_OK;
}

static void an_error_that_a_hook_recovers_from_is_not_the_next_ones(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = get_over_it);
    play_probe(p, b, .fails_in = PROBE_BEFORE, .fails_at = 1, .code = HS_UNAVAILABLE);
    play_open_probes(p, 2);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_UNAVAILABLE);
    assert_string_equal(p->err.message, "hook 'b', before_run at step 0: it failed with UNAVAILABLE");
    play_train(p);
    assert_int_equal(p->err.code, HS_OK);
}

/* In one callback, one hook sets an error but returns HS_OK, and the next one fails without a message. */
static hs_code leave_an_error(probe *p, const probe_call *call)
{
    if (call->point == *(const probe_point *)p->user)
        hs_error_set(call->err, HS_NOT_FOUND, "nothing of importance");
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void a_hooks_stale_error_is_not_the_next_hooks(void **state)
{
    play *p = *state;
    static const struct {
        probe_point point;
        size_t call; /* the second boundary is that of a run, the third the last */
        const char *says;
    } cases[] = {
        {PROBE_BEGIN, 1, "begin"},
        {PROBE_CREATE, 1, "after_create_session at step 0"},
        {PROBE_BOUNDARY, 1, "boundary at step 0"},
        {PROBE_BEFORE, 1, "before_run at step 0"},
        {PROBE_AFTER, 1, "after_run at step 1"},
        {PROBE_BOUNDARY, 2, "boundary at step 1"},
        {PROBE_END, 1, "end at step 1"},
        {PROBE_BOUNDARY, 3, "boundary at step 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probe_point point = cases[i].point;
        char message[128];
        hs_script_set_step(p->script, 0);
        play_probe(p, a, .act = leave_an_error, .user = &point);
        play_probe(p, b, .fails_in = point, .fails_at = cases[i].call, .code = HS_UNAVAILABLE);
        if (play_try_open(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2))
            hs_session_run(p->session, "train", &p->err);
        snprintf(message, sizeof message, "hook 'b', %s: it failed with UNAVAILABLE", cases[i].says);
        assert_string_equal(play_close(p)->error.message, message);
        assert_int_equal(p->err.code, HS_UNAVAILABLE);
    }
}

static hs_code not_opened(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)self, (void)target, (void)config, (void)session, (void)err;
    return HS_UNAVAILABLE;
}

/* It is not the backend's error either. */
static void a_hooks_stale_error_is_not_the_backends(void **state)
{
    play *p = *state;
    probe_point point = PROBE_BEGIN;
    p->spied = *p->backend.ops;
    p->spied.open = not_opened;
    p->backend.ops = &p->spied;
    play_probe(p, a, .act = leave_an_error, .user = &point);
    assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a)}, 1));
    assert_string_equal(p->err.message, "opening the backend's session failed with UNAVAILABLE");
}

static void an_error_may_go_unread(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_AFTER, .fails_at = 1, .message = "unread");
    play_open_probes(p, 1);
    assert_int_equal(hs_session_run(p->session, "train", NULL), HS_INTERNAL);
    hs_outcome outcome = hs_session_close(p->session, NULL);
    p->session = NULL;
    assert_contains(outcome.error.message, "unread"); /* the session has it nevertheless */
}

static void success_clears_the_error(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    hs_error_set(&p->err, HS_INTERNAL, "of old");
    play_train(p);
    assert_int_equal(p->err.code, HS_OK);
    assert_string_equal(p->err.message, "");
}

static void invalid_args_are_refused(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_fails(hs_session_run(p->session, NULL, &p->err), HS_INVALID_ARGUMENT, &p->err, "op is NULL");
    assert_fails(play_args(p, &(hs_run_args){.names = HS_NAMES("five")}), HS_INVALID_ARGUMENT, &p->err,
                 "HS_INIT(hs_run_args");
    assert_fails(play_args(p, HS_RUN_ARGS(.kind = 3)), HS_INVALID_ARGUMENT, &p->err, "kind is 3");
    assert_fails(play_args(p, HS_RUN_ARGS(.kind = -1)), HS_INVALID_ARGUMENT, &p->err, "kind is -1");
    assert_int_equal(hs_script_runs(p->script), 0);
}

/* A caller that was compiled against headers with more members. */
static void args_of_a_later_version_are_taken(void **state)
{
    play *p = *state;
    struct {
        hs_run_args args;
        void *more;
    } newer = {.args = {.size = sizeof newer, .names = HS_NAMES("five")}};
    play_probe(p, a, .wants = HS_RUN_ARGS(.names = HS_NAMES("ten")));
    play_open_probes(p, 1);
    assert_ok(play_args(p, &newer.args), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 5 && p->a.number == 10);
    newer.more = &newer;
    assert_int_equal(play_args(p, &newer.args), HS_INVALID_ARGUMENT);
}

static void no_session_runs_nothing(void **state)
{
    play *p = *state;
    assert_fails(hs_session_run(NULL, "train", &p->err), HS_FAILED_PRECONDITION, &p->err, "session is NULL");
    assert_int_equal(hs_session_run(NULL, NULL, NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_session_run_args(NULL, NULL, NULL, NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_session_run_step(NULL, NULL, NULL, NULL), HS_FAILED_PRECONDITION);
    assert_true(hs_session_should_stop(NULL));
    assert_null(hs_session_raw(NULL));
    assert_null(hs_session_coordinator(NULL));
    assert_int_equal(hs_session_global_step(NULL, NULL), -1);
    assert_int_equal(hs_raw_session_run(NULL, NULL, NULL, NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_raw_session_global_step(NULL, NULL), -1);
    hs_session_interrupt(NULL);
    hs_session_fail(NULL, test_error(HS_INTERNAL, "x"));
}

/* After a failed run the values of an earlier run must not be readable. */

static void assert_no_values(play *p, const hs_run_args *args, hs_code code)
{
    const hs_run_values *values = (const hs_run_values *)p;
    assert_int_equal(hs_session_run_args(p->session, args, &values, &p->err), code);
    assert_null(values);
    assert_int_equal(hs_run_values_count(values), 0);
}

static void a_failed_run_has_no_values(void **state)
{
    play *p = *state;
    const hs_run_args five = HS_INIT(hs_run_args, .names = HS_NAMES("five"));
    hs_script_fail_at(p->script, 1, HS_DATA_LOSS, "bad input");
    play_probe(p, a, .fails_in = PROBE_AFTER, .fails_at = 1);
    play_open_probes(p, 1);
    assert_no_values(p, &five, HS_DATA_LOSS);                                  /* the backend */
    assert_no_values(p, &five, HS_INTERNAL);                                   /* a hook fails after the run */
    assert_no_values(p, HS_RUN_ARGS(.names = HS_NAMES("lost")), HS_NOT_FOUND); /* before it */
    assert_no_values(p, HS_RUN_ARGS(.kind = 9), HS_INVALID_ARGUMENT);
    assert_no_values(p, &(hs_run_args){.names = five.names}, HS_INVALID_ARGUMENT);
    assert_ok(play_args(p, &five), &p->err);
    assert_int_equal(hs_run_values_count(p->values), 1);
}

static void a_refused_run_has_no_values(void **state)
{
    play *p = *state;
    const hs_run_args five = HS_INIT(hs_run_args, .names = HS_NAMES("five"));
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    assert_no_values(p, &five, HS_FAILED_PRECONDITION);
    play_close(p);
    assert_no_values(p, &five, HS_FAILED_PRECONDITION);
}

/* Calls from inside of a run. */

static hs_code run_again(probe *p, const probe_call *call)
{
    play *all = p->user;
    if (call->point == PROBE_BEGIN || call->point == PROBE_CREATE || !all->session)
        return HS_OK;
    hs_error err = {0};
    assert_fails(hs_session_run(all->session, "train", &err), HS_FAILED_PRECONDITION, &err,
                 "a session cannot run in its own callbacks");
    hs_outcome outcome = hs_session_close(all->session, &err);
    assert_says(&err, HS_FAILED_PRECONDITION, "a session cannot be closed from");
    assert_int_equal(outcome.error.code, HS_FAILED_PRECONDITION);
    if (call->run && call->point != PROBE_BOUNDARY)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void a_callback_neither_runs_nor_closes_its_session(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = run_again, .user = p);
    play_open_probes(p, 1);
    play_train(p);
    assert_int_equal(p->a.calls[PROBE_BOUNDARY], 2);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_int_equal(p->a.calls[PROBE_END], 1);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 1);
    assert_int_equal(hs_script_runs(p->script), 1);
}

static hs_code run_in_the_backend(void *session, hs_backend_call *call, hs_error *err)
{
    play *p = (play *)(intptr_t)call->options->inter_op_thread_pool; /* the only pointer that the call has */
    assert_int_equal(hs_session_run(p->session, "train", err), HS_FAILED_PRECONDITION);
    assert_fails(hs_raw_session_run(hs_session_raw(p->session), NULL, NULL, err), HS_FAILED_PRECONDITION, err,
                 "an op cannot run");
    assert_int_equal(hs_session_close(p->session, err).error.code, HS_FAILED_PRECONDITION);
    return hs_script_backend(NULL).ops->run(session, call, err);
}

static void an_op_neither_runs_nor_closes_its_session(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.run = run_in_the_backend;
    p->backend.ops = &p->spied;
    play_open(p, NULL, 0);
    hs_run_options options = HS_INIT(hs_run_options, .inter_op_thread_pool = (intptr_t)p);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train"), .options = &options);
    assert_ok(play_args(p, &args), &p->err);
    assert_ok(hs_raw_session_run(hs_session_raw(p->session), &args, NULL, &p->err), &p->err);
    assert_int_equal(hs_session_global_step(p->session, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_027_ms_028_a_run_forwards_fetches_and_feeds),
        play_test(ms_046_without_hooks_the_callers_own_objects_are_passed_on),
        play_test(a_run_of_nothing_runs_the_backend_once),
        play_test(ms_049_each_hook_gets_its_fetches),
        play_test(ms_031_a_bad_fetch_fails_the_run_and_stops_nothing),
        play_test(ms_034_the_backends_error_is_returned_unchanged),
        play_test(an_error_without_a_message_gets_one),
        play_test(a_hook_that_fails_without_a_message_is_named),
        play_test(a_hook_that_writes_a_code_alone_is_named_too),
        play_test(the_code_is_the_one_returned),
        play_test(an_error_that_a_hook_recovers_from_is_not_the_next_ones),
        play_test(a_hooks_stale_error_is_not_the_next_hooks),
        play_test(a_hooks_stale_error_is_not_the_backends),
        play_test(an_error_may_go_unread),
        play_test(success_clears_the_error),
        play_test(invalid_args_are_refused),
        play_test(args_of_a_later_version_are_taken),
        play_test(no_session_runs_nothing),
        play_test(a_failed_run_has_no_values),
        play_test(a_refused_run_has_no_values),
        play_test(a_callback_neither_runs_nor_closes_its_session),
        play_test(an_op_neither_runs_nor_closes_its_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
