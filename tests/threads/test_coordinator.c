/* SPDX-License-Identifier: Apache-2.0 */
/* Stop requests of a coordinator, and the error that it keeps. */
#include "threads/coordinated.h"

#include <math.h>

static void co_001_a_stop_is_requested_and_seen(void **state)
{
    assert_false(hs_coordinator_should_stop(*state));
    assert_false(hs_coordinator_wait_for_stop(*state, .01));
    hs_coordinator_request_stop(*state, NULL);
    assert_true(hs_coordinator_should_stop(*state));
    assert_true(hs_coordinator_wait_for_stop(*state, .01));
}

static void co_002_a_thread_requests_a_stop(void **state)
{
    event go = EVENT;
    hs_error err;
    assert_ok(hs_coordinator_start(*state, &err, .name = "stops", .run = wait_then_stop, .user = &go), &err);
    assert_false(hs_coordinator_should_stop(*state));
    assert_false(hs_coordinator_wait_for_stop(*state, .01));
    event_add(&go);
    assert_true(hs_coordinator_wait_for_stop(*state, LONG));
    assert_true(hs_coordinator_should_stop(*state));
    assert_ok(join(*state, &err), &err);
}

static void a_new_coordinator_has_no_error(void **state)
{
    hs_error err = {.code = HS_INTERNAL};
    assert_int_equal(hs_coordinator_error(*state, &err), HS_OK);
    assert_int_equal(err.code, HS_OK);
    assert_false(hs_coordinator_joined(*state));
    assert_false(hs_coordinator_clean_stop(*state));
}

static void the_end_of_the_work_is_not_an_error(void **state)
{
    const hs_code clean[] = {HS_OK, HS_OUT_OF_RANGE, HS_STOP};
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        assert_int_equal(stop_with(*state, clean[i], "done"), HS_OK);
        assert_true(hs_coordinator_should_stop(*state));
        assert_true(hs_coordinator_clean_stop(*state));
        assert_int_equal(hs_coordinator_error(*state, NULL), HS_OK);
        hs_coordinator_clear_stop(*state);
    }
}

/* A session recovers from an error even if threads then request stops because of it, but not if a stop was requested
 * before. */
static void an_error_is_not_a_requested_stop(void **state)
{
    stop_with(*state, HS_ABORTED, "lost");
    hs_coordinator_request_stop(*state, NULL);
    assert_false(hs_coordinator_clean_stop(*state));
    hs_coordinator_clear_stop(*state);
    hs_coordinator_request_stop(*state, NULL);
    stop_with(*state, HS_ABORTED, "lost");
    assert_true(hs_coordinator_clean_stop(*state));
    assert_int_equal(hs_coordinator_error(*state, NULL), HS_ABORTED);
    hs_coordinator_clear_stop(*state);
    assert_false(hs_coordinator_clean_stop(*state));
}

static void co_008_the_first_error_is_kept_whole(void **state)
{
    hs_error first = {.code = HS_DATA_LOSS, .os_error = 5, .message = "first"}, err = {0};
    hs_coordinator_request_stop(*state, NULL); /* without an error */
    hs_coordinator_request_stop(*state, &first);
    stop_with(*state, HS_ABORTED, "second");
    first.message[0] = '?'; /* it was copied */
    assert_fails(hs_coordinator_error(*state, &err), HS_DATA_LOSS, &err, "first");
    assert_int_equal(err.os_error, 5);
}

static void co_019s_clean_codes_replace_the_default(void **state)
{
    (void)state;
    hs_coordinator *made = make_clean(HS_CODES(HS_CANCELLED, HS_ABORTED));
    stop_with(made, HS_CANCELLED, "clean");
    stop_with(made, HS_ABORTED, "clean");
    stop_with(made, HS_STOP, "clean");
    assert_int_equal(hs_coordinator_error(made, NULL), HS_OK);
    stop_with(made, HS_OUT_OF_RANGE, "the end");
    assert_int_equal(hs_coordinator_error(made, NULL), HS_OUT_OF_RANGE);
    hs_coordinator_free(made);
    made = make_clean(HS_CODES(HS_OK));
    stop_with(made, HS_OUT_OF_RANGE, "the end");
    assert_int_equal(hs_coordinator_error(made, NULL), HS_OUT_OF_RANGE);
    hs_coordinator_free(made);
}

static void co_025s_clear_stop_resets_all(void **state)
{
    static event go = EVENT; /* lives longer than the test */
    hs_error err;
    assert_ok(join(*state, &err), &err);
    hs_coordinator_clear_stop(*state);
    assert_false(hs_coordinator_joined(*state));
    assert_ok(hs_coordinator_start(*state, &err, .name = "stays", .run = wait_for_event, .user = &go), &err);
    stop_with(*state, HS_ABORTED, "lost");
    hs_coordinator_clear_stop(*state);
    assert_false(hs_coordinator_should_stop(*state));
    assert_int_equal(hs_coordinator_error(*state, NULL), HS_OK);
    hs_coordinator_request_stop(*state, NULL);
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10); /* still registered */
    assert_fails(hs_coordinator_join(*state, &soon, &err), HS_FAILED_PRECONDITION, &err, "'stays'");
    event_add(&go);
}

static void co_026s_the_error_stays_when_it_is_read(void **state)
{
    hs_error err;
    stop_with(*state, HS_ABORTED, "lost");
    for (int i = 0; i < 2; i++)
        assert_fails(hs_coordinator_error(*state, &err), HS_ABORTED, &err, "lost");
}

static void co_028s_zero_does_not_wait_and_never_has_no_limit(void **state)
{
    event go = EVENT;
    hs_error err;
    assert_false(hs_coordinator_wait_for_stop(*state, 0));
    assert_false(hs_coordinator_wait_for_stop(*state, -2));
    assert_false(hs_coordinator_wait_for_stop(*state, (double)NAN));
    assert_ok(hs_coordinator_start(*state, &err, .name = "stops", .run = wait_then_stop, .user = &go), &err);
    event_add(&go);
    assert_true(hs_coordinator_wait_for_stop(*state, HS_NEVER));
    assert_true(hs_coordinator_wait_for_stop(*state, 0));
    assert_ok(join(*state, &err), &err);
}

/* A thread that sees the stop finds its cause. */
static hs_code wait_for_the_cause(void *user, hs_coordinator *coordinator, hs_error *err)
{
    while (!hs_coordinator_should_stop(coordinator))
        ;
    if (hs_coordinator_error(coordinator, err) == HS_UNAVAILABLE && strstr(err->message, "one of four"))
        event_add(user);
    return HS_OK;
}

static void threads_report_and_look_at_once(void **state)
{
    event found = EVENT;
    hs_error one = {.code = HS_UNAVAILABLE, .message = "one of four"}, err;
    for (int i = 0; i < 4; i++)
        assert_ok(hs_coordinator_start(*state, &err, .name = "looks", .run = wait_for_the_cause, .user = &found), &err);
    for (int i = 0; i < 4; i++)
        assert_ok(hs_coordinator_start(*state, &err, .name = "fails", .run = fail_with, .user = &one), &err);
    assert_fails(join(*state, &err), HS_UNAVAILABLE, &err, "thread 'fails': one of four");
    assert_int_equal(found.n, 4);
}

/* As in a hook without a coordinator, or a session that was not opened. */
static void no_coordinator_has_stopped(void **state)
{
    (void)state;
    hs_error err = {.code = HS_INTERNAL, .message = "of old"};
    assert_int_equal(hs_coordinator_request_stop(NULL, NULL), HS_OK);
    assert_int_equal(hs_coordinator_request_stop(NULL, &err), HS_INTERNAL);
    assert_true(hs_coordinator_should_stop(NULL));
    assert_true(hs_coordinator_wait_for_stop(NULL, LONG));
    assert_int_equal(hs_coordinator_error(NULL, &err), HS_OK);
    assert_string_equal(err.message, "");
    assert_int_equal(hs_coordinator_error(NULL, NULL), HS_OK);
    assert_fails(join(NULL, &err), HS_INVALID_ARGUMENT, &err, "coordinator is NULL");
    hs_coordinator_clear_stop(NULL);
    hs_coordinator_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        coordinated_test(co_001_a_stop_is_requested_and_seen),
        coordinated_test(co_002_a_thread_requests_a_stop),
        coordinated_test(a_new_coordinator_has_no_error),
        coordinated_test(the_end_of_the_work_is_not_an_error),
        coordinated_test(an_error_is_not_a_requested_stop),
        coordinated_test(co_008_the_first_error_is_kept_whole),
        coordinated_test(co_019s_clean_codes_replace_the_default),
        coordinated_test(co_025s_clear_stop_resets_all),
        coordinated_test(co_026s_the_error_stays_when_it_is_read),
        coordinated_test(co_028s_zero_does_not_wait_and_never_has_no_limit),
        coordinated_test(threads_report_and_look_at_once),
        coordinated_test(no_coordinator_has_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
