/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that a thread still runs at the end of the grace period. */
#include "tf1/supervised.h"
#include "support/waits.h"

#include <sched.h>
#include <stdatomic.h>

static atomic_bool may_end, has_begun;

/* A loop of the program that ignores stop requests and runs the session until it is released. */
static hs_code run_on(void *user, hs_error *err)
{
    supervised *f = user;
    hs_code code = HS_OK;
    atomic_store(&has_begun, true);
    while (!code && !atomic_load(&may_end))
        code = hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES("v")), NULL, err);
    return code;
}

static hs_thread *start_to_run_on(supervised *f)
{
    atomic_store(&may_end, false);
    atomic_store(&has_begun, false);
    hs_thread *thread = hs_supervisor_loop(f->sv, 0, run_on, f, &f->err);
    assert_non_null(thread);
    while (!atomic_load(&has_begun))
        sched_yield();
    return thread;
}

static hs_thread *begin(supervised *f)
{
    add_v(f, 0);
    supervise(f, OPTIONS(.stop_grace_secs = .01));
    prepare(f, NULL);
    return start_to_run_on(f);
}

/* The session was left open. It still runs. It is closed after the thread has ended. */
static void close_later(supervised *f, hs_thread *thread)
{
    assert_true(hs_thread_alive(thread));
    assert_true(v_is_123(f));
    atomic_store(&may_end, true);
    assert_true(hs_thread_wait(thread, 1e9));
    hs_thread_free(thread);
    close_session(f);
}

static hs_code never(void *user, hs_error *err)
{
    (void)user;
    return hs_error_set(err, HS_DATA_LOSS, "it was called");
}

/* Returns false if a function of the parent's supervisor does anything. */
static bool is_refused(supervised *f, hs_code code)
{
    bool is = code == HS_FAILED_PRECONDITION && strstr(f->err.message, "the supervisor belongs to the parent process");
    hs_error_clear(&f->err);
    return is;
}

static bool all_are_refused(supervised *f)
{
    hs_threads threads = {0};
    return is_refused(f, hs_supervisor_save(f->sv, f->session, &f->err)) &&
           is_refused(f, hs_supervisor_summary_computed(f->sv, f->session, three(f), 1, &f->err)) &&
           is_refused(f, run_op(f, "v")) &&
           is_refused(f, hs_supervisor_start_standard_services(f->sv, f->session, &f->err)) &&
           is_refused(f, hs_supervisor_start_queue_runners(f->sv, f->session, &threads, &f->err)) &&
           !hs_supervisor_loop(f->sv, 0, never, NULL, &f->err) && is_refused(f, f->err.code) &&
           !hs_supervisor_managed_session(f->sv, NULL, &f->err) && is_refused(f, f->err.code) &&
           hs_supervisor_request_stop(f->sv, NULL) == HS_FAILED_PRECONDITION;
}

static int stop_and_free(void *user)
{
    supervised *f = user;
    if (!all_are_refused(f))
        return 1;
    hs_code code = hs_session_close(f->session, &f->err).error.code;
    if (code != HS_FAILED_PRECONDITION || !strstr(f->err.message, "forked child"))
        return 1;
    if (hs_supervisor_stop(f->sv, NULL, NULL) != HS_FAILED_PRECONDITION ||
        hs_supervisor_leave(f->sv, f->session, HS_OK, NULL, NULL) != HS_FAILED_PRECONDITION)
        return 1;
    hs_supervisor_free(f->sv);
    return 0;
}

static void a_forked_child_closes_nothing(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER));
    prepare(f, NULL);
    hs_thread *thread = start_to_run_on(f);
    const size_t files = test_count_files(f->directory, "");
    assert_int_equal(test_in_child(stop_and_free, f), 0);
    assert_int_equal(test_count_files(f->directory, ""), files);
    atomic_store(&may_end, true);
    finish(f);
    hs_thread_free(thread);
}

static void sv_042s_a_session_that_is_run_on_stays_open(void **state)
{
    supervised *f = *state;
    size_t left = 9;
    hs_thread *thread = begin(f);
    const hs_supervisor_stop_options options = HS_INIT(hs_supervisor_stop_options, .n_live_threads = &left);
    hs_code code = hs_supervisor_leave(f->sv, f->session, HS_OK, &options, &f->err);
    assert_fails(code, HS_FAILED_PRECONDITION, &f->err, "the session stays open, because threads still run (1): ");
    assert_contains(f->err.message, "'loop'");
    assert_int_equal(left, 1);
    close_later(f, thread);
}

static void an_error_is_reported_before_live_threads(void **state)
{
    supervised *f = *state;
    hs_thread *thread = begin(f);
    hs_error_set(&f->err, HS_INTERNAL, "mine");
    hs_code code = hs_supervisor_leave(f->sv, f->session, HS_INTERNAL, NULL, &f->err);
    assert_fails(code, HS_INTERNAL, &f->err, "stays open, because threads still run (1): mine");
    close_later(f, thread);
}

static void ignored_threads_are_counted(void **state)
{
    supervised *f = *state;
    size_t left = 9;
    hs_thread *thread = begin(f);
    const hs_supervisor_stop_options options =
        HS_INIT(hs_supervisor_stop_options, .ignore_live_threads = true, .n_live_threads = &left);
    assert_ok(hs_supervisor_leave(f->sv, f->session, HS_OK, &options, &f->err), &f->err);
    assert_string_equal(f->err.message, "");
    assert_int_equal(left, 1);
    assert_contains(f->t.log, "WARNING: the session stays open, because threads still run");
    close_later(f, thread);
}

static void a_stop_names_the_threads_that_still_run(void **state)
{
    supervised *f = *state;
    size_t left = 9;
    hs_thread *thread = begin(f);
    hs_supervisor_stop_options options = HS_INIT(hs_supervisor_stop_options, .n_live_threads = &left);
    assert_fails(hs_supervisor_stop(f->sv, &options, &f->err), HS_FAILED_PRECONDITION, &f->err, "'loop'");
    assert_int_equal(left, 1);
    options.threads = HS_THREADS(thread); /* names the abandoned thread again */
    assert_fails(hs_supervisor_leave(f->sv, f->session, HS_OK, &options, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "stays open");
    assert_int_equal(left, 1);
    close_later(f, thread);
}

static void leaving_waits_for_the_services(void **state)
{
    supervised *f = *state;
    size_t left = 9;
    const hs_supervisor_stop_options options = HS_INIT(hs_supervisor_stop_options, .n_live_threads = &left);
    add_v(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    assert_ok(hs_supervisor_leave(f->sv, f->session, HS_OK, &options, &f->err), &f->err);
    f->session = NULL;
    assert_int_equal(left, 0);
}

/* Services. */

/* A summary op that takes longer than the grace period: until the stopping thread has waited that long and waits again. */
static size_t waits_before;

static hs_code outlive_the_grace(void *self, hs_op *op, hs_error *err)
{
    supervised *f = self;
    static hs_string value;
    atomic_store(&has_begun, true);
    await_stop(f);
    while (waits_of_main() < waits_before + 2)
        sched_yield();
    value = three(f);
    hs_tensor tensor = hs_tensor_of(HS_STRING, HS_SCALAR, &value);
    return hs_op_set_output(op, 0, &tensor, err);
}

static void begin_slow_service(supervised *f)
{
    atomic_store(&has_begun, false);
    hs_graph_op(f->graph, .name = "slow", .run = outlive_the_grace, .user = f, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .summary_op = "slow", .stop_grace_secs = 1e-3));
    prepare(f, NULL);
    while (!atomic_load(&has_begun))
        sched_yield();
    waits_before = waits_of_main();
}

static void leaving_waits_for_services_that_outlive_the_grace(void **state)
{
    supervised *f = *state;
    begin_slow_service(f);
    assert_ok(leave(f, HS_OK), &f->err);
}

static void services_that_outlive_a_stop_can_be_waited_for(void **state)
{
    supervised *f = *state;
    size_t left = 0;
    const hs_supervisor_stop_options options = HS_INIT(hs_supervisor_stop_options, .n_live_threads = &left);
    begin_slow_service(f);
    assert_fails(hs_supervisor_stop(f->sv, &options, &f->err), HS_FAILED_PRECONDITION, &f->err, "'summaries'");
    assert_int_equal(left, 1);
    assert_true(hs_thread_wait(hs_supervisor_service(f->sv, 0), HS_NEVER));
    assert_null(hs_supervisor_service(f->sv, 1));
    close_session(f);
}

/* The loop. */

static hs_thread *straggler;

static hs_code leave_one_behind(void *user, hs_session *session, hs_error *err)
{
    supervised *f = user;
    f->session = session;
    f->runs++;
    straggler = start_to_run_on(f);
    return hs_error_set(err, HS_ABORTED, "gone");
}

static void the_loop_opens_no_session_while_threads_run_another(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.stop_grace_secs = .01));
    assert_fails(hs_basic_train_loop(f->sv, NULL, leave_one_behind, f, &f->err), HS_ABORTED, &f->err, "stays open");
    assert_int_equal(f->runs, 1);
    close_later(f, straggler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        supervised_test(a_forked_child_closes_nothing),
        supervised_test(sv_042s_a_session_that_is_run_on_stays_open),
        supervised_test(an_error_is_reported_before_live_threads),
        supervised_test(ignored_threads_are_counted),
        supervised_test(a_stop_names_the_threads_that_still_run),
        supervised_test(leaving_waits_for_the_services),
        supervised_test(leaving_waits_for_services_that_outlive_the_grace),
        supervised_test(services_that_outlive_a_stop_can_be_waited_for),
        supervised_test(the_loop_opens_no_session_while_threads_run_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
