/* SPDX-License-Identifier: Apache-2.0 */
/* Joining the threads of a coordinator. */
#include "support/waits.h"
#include "threads/coordinated.h"

#include <sched.h>

static hs_code add_event(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator, (void)err;
    event_add(user);
    return HS_OK;
}

/* Runs one thread to its end, so that the order of reports is known. */
static void run_one(hs_coordinator *coordinator, hs_thread_fn run, void *user)
{
    hs_error err;
    hs_thread *thread = hs_thread_new(HS_THREAD_OPTIONS(.name = "one", .run = run, .user = user), &err);
    assert_non_null(thread);
    assert_ok(hs_coordinator_register(coordinator, thread, &err), &err);
    assert_ok(hs_thread_start(thread, &err), &err);
    assert_true(hs_thread_wait(thread, LONG));
    hs_thread_free(thread);
}

static void fail_in_thread(hs_coordinator *coordinator, hs_code code, const char *message)
{
    hs_error error;
    hs_error_set(&error, code, "%s", message);
    run_one(coordinator, fail_with, &error);
}

enum { THREADS = 3 };

static void co_003_threads_that_are_not_registered_are_joined(void **state)
{
    event ended = EVENT;
    hs_error err;
    hs_thread *threads[THREADS + 1] = {NULL};
    hs_thread_options options = HS_INIT(hs_thread_options, .name = "short", .run = add_event, .user = &ended);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = hs_thread_new(&options, &err);
        assert_ok(hs_thread_start(threads[i], &err), &err);
    }
    hs_join_options joined = HS_INIT(hs_join_options, .threads = threads);
    assert_ok(hs_coordinator_join(*state, &joined, &err), &err);
    for (int i = 0; i < THREADS; i++) {
        assert_false(hs_thread_alive(threads[i]));
        hs_thread_free(threads[i]);
    }
    assert_int_equal(ended.n, THREADS);
    assert_false(hs_coordinator_should_stop(*state));
}

typedef struct {
    hs_coordinator *coordinator;
    hs_thread *thread;
    event registered, done;
} registering;

static hs_code register_itself(void *user, hs_coordinator *coordinator, hs_error *err)
{
    registering *r = user;
    assert_null(coordinator);
    hs_code code = hs_coordinator_register(r->coordinator, r->thread, err);
    event_add(&r->registered);
    event_wait(&r->done, 1);
    return code ? code : HS_OUT_OF_RANGE; /* the coordinator gets it */
}

static void co_004_threads_register_themselves(void **state)
{
    registering each[THREADS];
    hs_error err;
    for (int i = 0; i < THREADS; i++) {
        each[i] = (registering){*state, NULL, EVENT, EVENT};
        hs_thread_options options = HS_INIT(hs_thread_options, .name = "self", .run = register_itself, .user = &each[i]);
        each[i].thread = hs_thread_new(&options, &err);
        assert_ok(hs_thread_start(each[i].thread, &err), &err);
        event_wait(&each[i].registered, 1);
        event_add(&each[i].done);
    }
    assert_ok(join(*state, &err), &err);
    for (int i = 0; i < THREADS; i++) {
        assert_false(hs_thread_alive(each[i].thread));
        hs_thread_free(each[i].thread);
    }
    assert_true(hs_coordinator_should_stop(*state));
}

/* Joins the threads "stops" and "stays". The second one runs until `go`. */
static hs_code join_with_straggler(hs_coordinator *coordinator, event *go, double grace, bool ignore, hs_error *err)
{
    event now = EVENT;
    event_add(&now);
    hs_join_options options = HS_INIT(hs_join_options, .stop_grace_secs = grace, .ignore_live_threads = ignore);
    assert_ok(hs_coordinator_start(coordinator, err, .name = "stops", .run = wait_then_stop, .user = &now), err);
    assert_ok(hs_coordinator_start(coordinator, err, .name = "stays", .run = wait_for_event, .user = go), err);
    assert_true(hs_coordinator_wait_for_stop(coordinator, LONG));
    hs_code code = hs_coordinator_join(coordinator, &options, err);
    assert_true(hs_coordinator_joined(coordinator));
    return code;
}

/* Ends the stragglers of the next test, at the end of the program, when their coordinators are freed. */
static event go_on = EVENT;

static void co_006_the_grace_period_ends(void **state)
{
    static const double graces[] = {1e-10, .002, 1};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hs_error err;
        hs_coordinator *made = hs_coordinator_new(NULL, &err);
        assert_fails(join_with_straggler(made, &go_on, graces[i], false, &err), HS_FAILED_PRECONDITION, &err, "'stays'");
        hs_coordinator_free(made);
    }
}

/* `awaited` ends after the grace period, which begins with the stop. */
static hs_code outlive_the_grace(void *user, hs_coordinator *coordinator, hs_error *err)
{
    const size_t before = *(const size_t *)user;
    (void)err;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    while (waits_of_main() < before + 2) /* the joining thread has waited that long, and waits again */
        sched_yield();
    return HS_OK;
}

static void awaited_threads_have_no_limit(void **state)
{
    hs_error err;
    size_t n_live = 9, before = waits_of_main();
    hs_thread *slow = hs_thread_new(HS_THREAD_OPTIONS(.name = "slow", .run = outlive_the_grace, .user = &before), &err);
    assert_ok(hs_coordinator_register(*state, slow, &err), &err);
    assert_ok(hs_thread_start(slow, &err), &err);
    hs_coordinator_request_stop(*state, NULL);
    const hs_join_options options =
        HS_INIT(hs_join_options, .awaited = HS_THREADS(slow), .stop_grace_secs = 1e-3, .n_live_threads = &n_live);
    assert_ok(hs_coordinator_join(*state, &options, &err), &err);
    assert_int_equal(n_live, 0);
    assert_false(hs_thread_alive(slow));
    hs_thread_free(slow);
}

static hs_code end_during_the_join(void *user, hs_coordinator *coordinator, hs_error *err)
{
    const size_t before = *(const size_t *)user;
    (void)coordinator, (void)err;
    while (waits_of_main() == before)
        sched_yield();
    return HS_OK;
}

static void awaited_threads_need_not_be_registered(void **state)
{
    hs_error err;
    size_t before = waits_of_main();
    hs_thread *thread =
        hs_thread_new(HS_THREAD_OPTIONS(.name = "short", .run = end_during_the_join, .user = &before), &err);
    assert_ok(hs_thread_start(thread, &err), &err);
    const hs_join_options options = HS_INIT(hs_join_options, .awaited = HS_THREADS(thread));
    assert_ok(hs_coordinator_join(*state, &options, &err), &err);
    assert_false(hs_thread_alive(thread));
    assert_false(hs_coordinator_should_stop(*state));
    hs_thread_free(thread);
}

static void co_007_live_threads_may_be_ignored(void **state)
{
    test_env *t = calloc(1, sizeof *t);
    hs_error err;
    (void)state;
    test_env_init(t);
    hs_env env = *hs_env_default();
    env.logger = t->env.logger;
    hs_coordinator *made = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &env), &err);
    assert_ok(join_with_straggler(made, &go_on, .01, true, &err), &err);
    assert_contains(t->log, "WARNING: ");
    assert_contains(t->log, "'stays'");
    hs_coordinator_free(made);
    free(t);
}

static void after_a_second_the_log_names_the_threads(void **state)
{
    test_env *t = calloc(1, sizeof *t);
    hs_error err;
    (void)state;
    test_env_init(t);
    hs_env env = *hs_env_default();
    env.logger = t->env.logger;
    hs_coordinator *made = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &env), &err);
    assert_ok(join_with_straggler(made, &go_on, 1.1, true, &err), &err);
    assert_contains(t->log, "INFO: stop requested; waiting up to 1.1 s for these threads: 'stays'");
    hs_coordinator_free(made);
    free(t);
}

typedef struct {
    hs_coordinator *coordinator;
    hs_thread *thread, *looper;
} inheritance;

static int join_and_free(void *user)
{
    const inheritance *i = user;
    hs_error err;
    if (hs_thread_alive(i->thread) || !hs_thread_wait(i->thread, HS_NEVER) || !hs_thread_wait(i->looper, HS_NEVER))
        return 1;
    hs_coordinator_request_stop(i->coordinator, NULL);
    const hs_join_options options = HS_INIT(hs_join_options, .stop_grace_secs = HS_NEVER);
    if (hs_coordinator_join(i->coordinator, &options, &err))
        return 2;
    hs_thread_free(i->looper);
    hs_thread_free(i->thread);
    hs_coordinator_free(i->coordinator);
    return 0;
}

static hs_code do_nothing(void *user, hs_error *err)
{
    (void)user, (void)err;
    return HS_OK;
}

/* Its threads do not exist in the child. */
static void in_a_forked_child_no_thread_of_the_parent_is_alive(void **state)
{
    event go = EVENT;
    hs_error err;
    inheritance i = {.coordinator = *state};
    i.thread = hs_thread_new(HS_THREAD_OPTIONS(.name = "waits", .run = wait_for_event, .user = &go), &err);
    i.looper = hs_looper_new(
        HS_LOOPER_OPTIONS(.coordinator = i.coordinator, .every_n_secs = LONG, .loop = do_nothing, .user = NULL), &err);
    assert_non_null(i.looper);
    assert_ok(hs_coordinator_register(i.coordinator, i.thread, &err), &err);
    assert_ok(hs_thread_start(i.thread, &err), &err);
    assert_ok(hs_thread_start(i.looper, &err), &err);
    await_waiting(2);
    assert_int_equal(test_in_child(join_and_free, &i), 0);
    assert_true(hs_thread_alive(i.thread));
    event_add(&go);
    hs_coordinator_request_stop(i.coordinator, NULL);
    assert_ok(join(i.coordinator, &err), &err);
    hs_thread_free(i.looper);
    hs_thread_free(i.thread);
}

static void live_threads_have_names(void **state)
{
    char text[80], little[40];
    hs_error err;
    event go = EVENT;
    assert_int_equal(hs_coordinator_live_threads(NULL, text, sizeof text), 0);
    assert_int_equal(hs_coordinator_live_threads(*state, text, sizeof text), 0);
    assert_string_equal(text, "");
    for (int i = 0; i < 3; i++)
        assert_ok(hs_coordinator_start(*state, &err, .name = i ? "more" : "reader", .run = wait_for_event, .user = &go),
                  &err);
    assert_int_equal(hs_coordinator_live_threads(*state, text, sizeof text), 3);
    assert_string_equal(text, "'reader', 'more', 'more'");
    assert_int_equal(hs_coordinator_live_threads(*state, little, sizeof little), 3);
    assert_string_equal(little, "'reader' and 2 more");
    assert_int_equal(hs_coordinator_live_threads(*state, NULL, 0), 3);
    event_add(&go);
    assert_ok(join(*state, &err), &err);
    assert_int_equal(hs_coordinator_live_threads(*state, text, sizeof text), 0);
}

static void an_error_comes_before_stragglers(void **state)
{
    static event go = EVENT;
    hs_error err;
    stop_with(*state, HS_ABORTED, "lost");
    assert_fails(join_with_straggler(*state, &go, .01, false, &err), HS_ABORTED, &err, "lost");
    event_add(&go);
}

static void co_008_join_gives_the_first_error(void **state)
{
    hs_error err;
    fail_in_thread(*state, HS_INTERNAL, "First");
    fail_in_thread(*state, HS_INTERNAL, "Too late");
    assert_fails(join(*state, &err), HS_INTERNAL, &err, "First");
}

static void co_009_the_end_of_the_input_is_not_an_error(void **state)
{
    hs_error err;
    fail_in_thread(*state, HS_OUT_OF_RANGE, "First");
    assert_ok(join(*state, &err), &err);
    assert_true(hs_coordinator_should_stop(*state));
}

static void co_010_a_clean_stop_code_is_not_an_error(void **state)
{
    hs_error err;
    (void)state;
    hs_coordinator *made = make_clean(HS_CODES(HS_INVALID_ARGUMENT));
    fail_in_thread(made, HS_INVALID_ARGUMENT, "First");
    assert_ok(join(made, &err), &err);
    hs_coordinator_free(made);
}

static void co_011_bodies_of_the_programs_own_threads_report(void **state)
{
    hs_error first = {.code = HS_INTERNAL, .message = "First"}, late = {.code = HS_INTERNAL, .message = "Too late"}, err;
    assert_ok(hs_coordinator_stop_on_error(*state, fail_with, &first, &err), &err);
    assert_ok(hs_coordinator_stop_on_error(*state, fail_with, &late, &err), &err);
    assert_fails(join(*state, &err), HS_INTERNAL, &err, "First");
}

static void co_013_after_the_join_an_error_comes_back(void **state)
{
    hs_error err;
    assert_ok(join(*state, &err), &err);
    assert_int_equal(stop_with(*state, HS_ABORTED, "Too late"), HS_ABORTED);
    assert_false(hs_coordinator_should_stop(*state));
    hs_coordinator_clear_stop(*state);
    assert_int_equal(stop_with(*state, HS_ABORTED, "After clear"), HS_OK);
    assert_fails(join(*state, &err), HS_ABORTED, &err, "After clear");
}

static void co_016s_threads_end_without_a_stop(void **state)
{
    event ended = EVENT;
    hs_error err;
    assert_ok(hs_coordinator_start(*state, &err, .name = "short", .run = add_event, .user = &ended), &err);
    assert_ok(join(*state, &err), &err);
    assert_true(hs_coordinator_joined(*state));
    assert_false(hs_coordinator_should_stop(*state));
}

static void co_017s_each_join_gives_the_error(void **state)
{
    hs_error err;
    stop_with(*state, HS_ABORTED, "lost");
    for (int i = 0; i < 2; i++)
        assert_fails(join(*state, &err), HS_ABORTED, &err, "lost");
    hs_coordinator_clear_stop(*state);
    assert_ok(join(*state, &err), &err);
}

/* Runs until the join waits for it. */
static hs_code outlast_the_beginning_of_the_join(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user, (void)err;
    while (!threads_waiting() && !hs_coordinator_should_stop(coordinator))
        sched_yield();
    return hs_coordinator_should_stop(coordinator) ? HS_INTERNAL : HS_OK;
}

static void co_021s_the_grace_period_begins_with_the_stop(void **state)
{
    hs_error err;
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10);
    assert_ok(hs_coordinator_start(*state, &err, .name = "slow", .run = outlast_the_beginning_of_the_join), &err);
    assert_ok(hs_coordinator_join(*state, &soon, &err), &err);
}

/* Its wake function, called by the join, starts another thread. */
static event woken = EVENT, go_later = EVENT;

static hs_code start_another(void *user, hs_coordinator *coordinator, hs_error *err)
{
    event_wait(user, 1);
    return hs_coordinator_start(coordinator, err, .name = "later", .run = wait_for_event, .user = &go_later);
}

static void wake_by_event(void *user)
{
    event_add(user);
}

static void co_023s_threads_registered_during_a_join_are_not_joined(void **state)
{
    hs_error err;
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10);
    assert_ok(
        hs_coordinator_start(*state, &err, .name = "starts", .run = start_another, .user = &woken, .wake = wake_by_event),
        &err);
    hs_coordinator_request_stop(*state, NULL);
    assert_ok(join(*state, &err), &err);
    assert_ok(hs_coordinator_join(*state, &soon, &err), &err); /* no thread is registered */
    event_add(&go_later);
}

static void co_024s_a_thread_is_registered_once(void **state)
{
    event go = EVENT;
    hs_error err;
    hs_thread_options options = HS_INIT(hs_thread_options, .name = "twice", .run = wait_for_event, .user = &go);
    hs_thread *thread = hs_thread_new(&options, &err);
    assert_ok(hs_thread_start(thread, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_ok(hs_coordinator_register(*state, thread, &err), &err);
    hs_coordinator_request_stop(*state, NULL);
    hs_thread *const given[] = {thread, thread, NULL};
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10, .threads = given);
    for (int i = 0; i < 2; i++) /* first registered and given, then only given */
        assert_fails(hs_coordinator_join(*state, &soon, &err), HS_FAILED_PRECONDITION, &err, "still run: 'twice'; ");
    event_add(&go);
    assert_true(hs_thread_wait(thread, LONG));
    hs_thread_free(thread);
}

static void co_027s_an_error_is_the_coordinators_unless_it_was_joined(void **state)
{
    hs_error error = {.code = HS_ABORTED, .message = "lost"}, err;
    assert_ok(hs_coordinator_stop_on_error(*state, fail_with, &error, &err), &err);
    assert_fails(join(*state, &err), HS_ABORTED, &err, "lost");
    assert_fails(hs_coordinator_stop_on_error(*state, fail_with, &error, &err), HS_ABORTED, &err, "lost");
    assert_fails(hs_coordinator_stop_on_error(*state, NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "body is NULL");
}

static void a_join_counts_the_threads_that_still_run(void **state)
{
    event go = EVENT;
    hs_error err;
    size_t left = 9;
    hs_thread_options options = HS_INIT(hs_thread_options, .name = "stays", .run = wait_for_event, .user = &go);
    hs_thread *thread = hs_thread_new(&options, &err);
    hs_join_options soon =
        HS_INIT(hs_join_options, .stop_grace_secs = 1e-10, .threads = HS_THREADS(thread), .n_live_threads = &left);
    assert_ok(hs_thread_start(thread, &err), &err);
    assert_ok(hs_coordinator_register(*state, thread, &err), &err);
    stop_with(*state, HS_ABORTED, "lost");
    assert_fails(hs_coordinator_join(*state, &soon, &err), HS_ABORTED, &err, "lost");
    assert_int_equal(left, 1);
    hs_coordinator_clear_stop(*state);
    hs_coordinator_request_stop(*state, NULL);
    soon.ignore_live_threads = true;
    assert_ok(hs_coordinator_join(*state, &soon, &err), &err);
    assert_int_equal(left, 1);
    event_add(&go);
    assert_true(hs_thread_wait(thread, LONG));
    assert_ok(hs_coordinator_join(*state, &soon, &err), &err);
    assert_int_equal(left, 0);
    hs_thread_free(thread);
}

static void join_refuses_invalid_options(void **state)
{
    hs_error err;
    hs_join_options never = HS_INIT(hs_join_options, .stop_grace_secs = HS_NEVER);
    hs_join_options negative = HS_INIT(hs_join_options, .stop_grace_secs = -2);
    assert_ok(hs_coordinator_join(*state, &never, &err), &err);
    assert_fails(hs_coordinator_join(*state, &negative, &err), HS_INVALID_ARGUMENT, &err, "stop_grace_secs");
}

/* Many threads are registered, end and are pruned, while several threads request stops and join. */

static hs_code join_too(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator, (void)err;
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = .01, .ignore_live_threads = true);
    return hs_coordinator_join(user, &soon, NULL);
}

static void many_threads_start_and_end(void **state)
{
    static event ended = EVENT; /* a thread that another join awaits may end after the test */
    static hs_error one = {.code = HS_OUT_OF_RANGE, .message = "the end"};
    hs_error err;
    hs_coordinator *other = hs_coordinator_new(NULL, &err);
    for (int i = 0; i < 40; i++) {
        assert_ok(hs_coordinator_start(*state, &err, .name = "short", .run = add_event, .user = &ended), &err);
        if (i % 10 == 5)
            assert_ok(hs_coordinator_start(other, &err, .name = "joins", .run = join_too, .user = *state), &err);
    }
    assert_ok(hs_coordinator_start(*state, &err, .name = "ends", .run = fail_with, .user = &one), &err);
    for (int i = 0; i < 20; i++) /* during joins */
        assert_ok(hs_coordinator_start(*state, &err, .name = "short", .run = add_event, .user = &ended), &err);
    assert_ok(join(other, &err), &err);
    assert_ok(join(*state, &err), &err);
    event_wait(&ended, 60);
    hs_coordinator_free(other);
}

/* The list of threads grows and drops ended threads. */
static void the_first_thread_is_joined_after_many_others(void **state)
{
    char text[80];
    hs_error err;
    event go = EVENT, ended = EVENT;
    assert_ok(hs_coordinator_start(*state, &err, .name = "first", .run = wait_for_event, .user = &go), &err);
    for (int i = 0; i < 40; i++)
        assert_ok(hs_coordinator_start(*state, &err, .name = "short", .run = add_event, .user = &ended), &err);
    event_wait(&ended, 40);
    hs_coordinator_live_threads(*state, text, sizeof text);
    assert_int_equal(strncmp(text, "'first'", 7), 0);
    event_add(&go);
    assert_ok(join(*state, &err), &err);
}

static hs_code make_and_join(test_env *t, void *user)
{
    event ended = EVENT;
    hs_error err = {0};
    (void)user;
    hs_coordinator_options options =
        HS_INIT(hs_coordinator_options, .env = &t->env, .clean_stop_codes = HS_CODES(HS_ABORTED));
    hs_coordinator *made = hs_coordinator_new(&options, &err);
    if (!made)
        return err.code;
    hs_code code = HS_OK;
    for (int i = 0; !code && i < 10; i++)
        code = hs_coordinator_start(made, &err, .name = "short", .run = add_event, .user = &ended);
    hs_code joined = join(made, NULL);
    hs_coordinator_free(made);
    return code ? code : joined;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_and_join, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        coordinated_test(co_003_threads_that_are_not_registered_are_joined),
        coordinated_test(co_004_threads_register_themselves),
        coordinated_test(co_006_the_grace_period_ends),
        coordinated_test(awaited_threads_have_no_limit),
        coordinated_test(awaited_threads_need_not_be_registered),
        coordinated_test(co_007_live_threads_may_be_ignored),
        coordinated_test(after_a_second_the_log_names_the_threads),
        coordinated_test(in_a_forked_child_no_thread_of_the_parent_is_alive),
        coordinated_test(live_threads_have_names),
        coordinated_test(an_error_comes_before_stragglers),
        coordinated_test(co_008_join_gives_the_first_error),
        coordinated_test(co_009_the_end_of_the_input_is_not_an_error),
        coordinated_test(co_010_a_clean_stop_code_is_not_an_error),
        coordinated_test(co_011_bodies_of_the_programs_own_threads_report),
        coordinated_test(co_013_after_the_join_an_error_comes_back),
        coordinated_test(co_016s_threads_end_without_a_stop),
        coordinated_test(co_017s_each_join_gives_the_error),
        coordinated_test(co_021s_the_grace_period_begins_with_the_stop),
        coordinated_test(co_023s_threads_registered_during_a_join_are_not_joined),
        coordinated_test(co_024s_a_thread_is_registered_once),
        coordinated_test(co_027s_an_error_is_the_coordinators_unless_it_was_joined),
        coordinated_test(a_join_counts_the_threads_that_still_run),
        coordinated_test(join_refuses_invalid_options),
        coordinated_test(many_threads_start_and_end),
        coordinated_test(the_first_thread_is_joined_after_many_others),
        coordinated_test(each_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    event_add(&go_on); /* ends the stragglers */
    return failed;
}
