/* SPDX-License-Identifier: Apache-2.0 */
/* hs_basic_train_loop: steps, errors, attempts to open another session, and stops. */
#include "tf1/supervised.h"

#include <sched.h>

static hs_code stop_at_3(void *user, hs_session *session, hs_error *err)
{
    supervised *f = user;
    assert_non_null(session);
    (void)err;
    if (++f->runs == 3)
        hs_supervisor_request_stop(f->sv, NULL);
    return HS_OK;
}

static void sv_051s_the_basic_loop(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_ok(hs_basic_train_loop(f->sv, NULL, stop_at_3, f, &f->err), &f->err);
    assert_int_equal(f->runs, 3);
}

static hs_code fail_at_3(void *user, hs_session *session, hs_error *err)
{
    (void)session;
    return ++((supervised *)user)->runs == 3 ? hs_error_set(err, HS_INTERNAL, "no luck") : HS_OK;
}

static void sv_052s_an_error_ends_the_basic_loop(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_fails(hs_basic_train_loop(f->sv, NULL, fail_at_3, f, &f->err), HS_INTERNAL, &f->err, "no luck");
    assert_int_equal(f->runs, 3);
}

/* Returns a code without an error, and then another code than that of its error. */
static hs_code fail_carelessly(void *user, hs_session *session, hs_error *err)
{
    (void)session;
    if (((supervised *)user)->runs++)
        hs_error_set(err, HS_NOT_FOUND, "no luck");
    return HS_DATA_LOSS;
}

static void sv_052s_an_error_has_the_code_of_the_step_and_a_message(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_fails(hs_basic_train_loop(f->sv, NULL, fail_carelessly, f, &f->err), HS_DATA_LOSS, &f->err,
                 "the step function failed with DATA_LOSS");
    assert_fails(hs_basic_train_loop(f->sv, NULL, fail_carelessly, f, &f->err), HS_DATA_LOSS, &f->err, "no luck");
}

static hs_code be_unavailable(void *user, hs_session *session, hs_error *err)
{
    (void)session;
    ((supervised *)user)->runs++;
    return hs_error_set(err, HS_UNAVAILABLE, "gone");
}

/* Unlike the recovery of hooked sessions. */
static void sv_051s_an_unavailable_session_ends_the_basic_loop(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_fails(hs_basic_train_loop(f->sv, NULL, be_unavailable, f, &f->err), HS_UNAVAILABLE, &f->err, "gone");
    assert_int_equal(f->runs, 1);
}

static hs_code abort_at_2(void *user, hs_session *session, hs_error *err)
{
    supervised *f = user;
    return f->runs == 1 ? (f->runs++, hs_error_set(err, HS_ABORTED, "gone")) : stop_at_3(user, session, err);
}

static void a_lost_session_is_opened_again(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_ok(hs_basic_train_loop(f->sv, NULL, abort_at_2, f, &f->err), &f->err);
    assert_int_equal(test_count_files(f->directory, "tfevents"), 2);
}

/* Aborts the first attempt to initialize. */
static hs_code abort_first(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)scaffold, (void)session;
    return ((supervised *)user)->runs++ ? HS_OK : hs_error_set(err, HS_ABORTED, "gone");
}

static void an_aborted_opening_is_retried(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.init_fn = abort_first, .user = f));
    assert_ok(hs_basic_train_loop(f->sv, NULL, stop_at_3, f, &f->err), &f->err);
    assert_int_equal(f->runs, 3);
}

static hs_code stop_and_abort(void *user, hs_session *session, hs_error *err)
{
    supervised *f = user;
    (void)session;
    hs_supervisor_request_stop(f->sv, NULL);
    return ++f->runs == 1 ? hs_error_set(err, HS_ABORTED, "gone") : HS_OK;
}

/* The stop is requested only once. */
static void a_stop_is_not_lost_with_the_session(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_fails(hs_basic_train_loop(f->sv, NULL, stop_and_abort, f, &f->err), HS_ABORTED, &f->err, "gone");
    assert_int_equal(f->runs, 1);
}

static hs_code stop_lose_a_thread_and_abort(void *user, hs_session *session, hs_error *err)
{
    supervised *f = user;
    hs_error lost;
    hs_code code = stop_and_abort(user, session, err);
    hs_error_set(&lost, HS_ABORTED, "lost by a thread");
    if (code)
        hs_supervisor_request_stop(f->sv, &lost);
    return code;
}

static void a_stop_is_not_lost_with_a_thread(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_fails(hs_basic_train_loop(f->sv, NULL, stop_lose_a_thread_and_abort, f, &f->err), HS_ABORTED, &f->err,
                 "lost by a thread");
    assert_int_equal(f->runs, 1);
}

/* Attempts and their backoff. */

#define RECOVERY(...) .recovery = &(const hs_recovery)HS_INIT(hs_recovery, __VA_ARGS__)

static hs_code always_abort(void *user, hs_session *session, hs_error *err)
{
    (void)session;
    ((supervised *)user)->runs++;
    return hs_error_set(err, HS_ABORTED, "gone");
}

static void sv_051s_attempts_have_a_limit(void **state)
{
    supervised *f = *state;
    const hs_supervisor_session_options *options = SUPERVISED(RECOVERY(.max_attempts = 3, .backoff_secs = 1e-3));
    supervise(f, OPTIONS(0));
    assert_fails(hs_basic_train_loop(f->sv, options, always_abort, f, &f->err), HS_ABORTED, &f->err,
                 "no progress after 3 recoveries: gone");
    assert_int_equal(f->runs, 4);
    assert_contains(f->t.log, "session lost; opening another, attempt 3 of 3: ABORTED: gone");
}

static void without_attempts_the_first_loss_is_the_last(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_fails(hs_basic_train_loop(f->sv, SUPERVISED(RECOVERY(.max_attempts = HS_NEVER)), always_abort, f, &f->err),
                 HS_ABORTED, &f->err, "gone");
    assert_int_equal(f->runs, 1);
    assert_fails(hs_basic_train_loop(f->sv, SUPERVISED(RECOVERY(.max_attempts = -2)), always_abort, f, &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "max_attempts is -2 and backoff_secs is 0; both must be at least 0");
}

/* Saves each step and loses the session after it. The fifth step requests a stop. */
static hs_code save_and_abort(void *user, hs_session *session, hs_error *err)
{
    supervised *f = user;
    f->session = session;
    assert_ok(run_op(f, "train"), &f->err);
    assert_ok(hs_supervisor_save(f->sv, session, &f->err), &f->err);
    f->session = NULL;
    return ++f->runs < 5 ? hs_error_set(err, HS_ABORTED, "gone") : hs_supervisor_request_stop(f->sv, NULL);
}

static void attempts_with_progress_do_not_count(void **state)
{
    supervised *f = *state;
    hs_graph_global_step(f->graph, NULL, NULL);
    hs_graph_op(f->graph, .name = "train", .advances_step = true);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER));
    assert_ok(hs_basic_train_loop(f->sv, SUPERVISED(RECOVERY(.max_attempts = 1)), save_and_abort, f, &f->err), &f->err);
    assert_true(test_exists(f->directory, "model.ckpt-5.index"));
}

static hs_code stop_in_the_pause(void *user, hs_coordinator *coordinator, hs_error *err)
{
    supervised *f = user;
    (void)err;
    while (!hs_coordinator_should_stop(coordinator)) {
        if (test_env_logged(&f->t, "attempt 2 of"))
            hs_supervisor_request_stop(f->sv, NULL);
        sched_yield();
    }
    return HS_OK;
}

static void a_stop_ends_the_backoff(void **state)
{
    supervised *f = *state;
    hs_coordinator *mine = hs_coordinator_new(NULL, &f->err);
    supervise(f, OPTIONS(0));
    assert_ok(hs_coordinator_start(mine, &f->err, .name = "stops", .run = stop_in_the_pause, .user = f), &f->err);
    assert_fails(hs_basic_train_loop(f->sv, SUPERVISED(RECOVERY(.backoff_secs = 1e8)), always_abort, f, &f->err),
                 HS_ABORTED, &f->err, "gone");
    assert_int_equal(f->runs, 2);
    hs_coordinator_request_stop(mine, NULL);
    assert_ok(hs_coordinator_join(mine, NULL, &f->err), &f->err);
    hs_coordinator_free(mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        supervised_test(sv_051s_the_basic_loop),
        supervised_test(sv_052s_an_error_ends_the_basic_loop),
        supervised_test(sv_052s_an_error_has_the_code_of_the_step_and_a_message),
        supervised_test(sv_051s_an_unavailable_session_ends_the_basic_loop),
        supervised_test(a_lost_session_is_opened_again),
        supervised_test(an_aborted_opening_is_retried),
        supervised_test(a_stop_is_not_lost_with_the_session),
        supervised_test(a_stop_is_not_lost_with_a_thread),
        supervised_test(sv_051s_attempts_have_a_limit),
        supervised_test(without_attempts_the_first_loss_is_the_last),
        supervised_test(attempts_with_progress_do_not_count),
        supervised_test(a_stop_ends_the_backoff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
