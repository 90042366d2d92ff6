/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/event.h"

#include <math.h>

typedef struct {
    hs_coordinator *coordinator;
    event woken;
    char calls[64]; /* 's' for start_loop, 'l' for loop, 'e' for stop_loop */
    size_t n;
    int left;    /* calls until it requests a stop. -1: never */
    char fails;  /* which one */
    bool blocks; /* loop waits until it is woken */
    hs_error err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->coordinator = hs_coordinator_new(NULL, &f->err);
    f->woken = (event)EVENT;
    f->left = -1;
    *state = f;
    return f->coordinator ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs_coordinator_free(f->coordinator);
    free(f);
    return 0;
}

static hs_code note(fixture *f, char which, hs_error *err)
{
    if (f->n + 1 < sizeof f->calls)
        f->calls[f->n++] = which;
    return f->fails == which ? hs_error_set(err, HS_ABORTED, "%c failed", which) : HS_OK;
}

static hs_code start_loop(void *user, hs_error *err)
{
    return note(user, 's', err);
}

static hs_code stop_loop(void *user, hs_error *err)
{
    return note(user, 'e', err);
}

static hs_code loop(void *user, hs_error *err)
{
    fixture *f = user;
    if (f->left-- == 0)
        hs_coordinator_request_stop(f->coordinator, NULL);
    if (f->blocks)
        event_wait(&f->woken, 1);
    return note(f, 'l', err);
}

static void wake(void *user)
{
    event_add(&((fixture *)user)->woken);
}

static hs_thread *make(fixture *f, double interval)
{
    hs_looper_options options =
        HS_INIT(hs_looper_options, .coordinator = f->coordinator, .every_n_secs = interval, .loop = loop,
                .start_loop = start_loop, .stop_loop = stop_loop, .user = f, .wake = wake);
    hs_thread *thread = hs_looper_new(&options, &f->err);
    if (!thread)
        fail_msg("%s", f->err.message);
    return thread;
}

static hs_code run(fixture *f, double interval)
{
    hs_thread *thread = make(f, interval);
    assert_ok(hs_thread_start(thread, &f->err), &f->err);
    hs_code code = hs_coordinator_join(f->coordinator, NULL, &f->err);
    assert_false(hs_thread_alive(thread));
    hs_thread_free(thread);
    return code;
}

static void co_014_it_runs_until_the_stop(void **state)
{
    fixture *f = *state;
    f->left = 3;
    assert_ok(run(f, 0), &f->err);
    assert_string_equal(f->calls, "slllle");
}

static void co_031s_an_interval_makes_as_many_calls(void **state)
{
    fixture *f = *state;
    f->left = 3;
    assert_ok(run(f, .01), &f->err);
    assert_string_equal(f->calls, "slllle");
}

/* The first call is made immediately. The stop ends the wait for the second call. */
static void a_long_interval_does_not_delay_a_stop(void **state)
{
    fixture *f = *state;
    f->left = 0;
    assert_ok(run(f, 1e6), &f->err);
    assert_string_equal(f->calls, "sle");
}

static void co_030s_an_error_stops_the_coordinator(void **state)
{
    fixture *f = *state;
    f->fails = 'l';
    assert_fails(run(f, 0), HS_ABORTED, &f->err, "l failed");
    assert_true(hs_coordinator_should_stop(f->coordinator));
}

static void co_031s_stop_loop_is_left_out_after_an_error(void **state)
{
    fixture *f = *state;
    f->fails = 'l';
    assert_int_equal(run(f, 0), HS_ABORTED);
    assert_string_equal(f->calls, "sl");
}

static void an_error_of_start_loop_leaves_all_out(void **state)
{
    fixture *f = *state;
    f->fails = 's';
    assert_fails(run(f, 0), HS_ABORTED, &f->err, "s failed");
    assert_string_equal(f->calls, "s");
}

static void an_error_of_stop_loop_counts(void **state)
{
    fixture *f = *state;
    f->fails = 'e';
    f->left = 0;
    assert_fails(run(f, 0), HS_ABORTED, &f->err, "e failed");
}

static void co_032s_it_is_registered_before_it_starts(void **state)
{
    fixture *f = *state;
    hs_coordinator *other = hs_coordinator_new(NULL, &f->err);
    hs_thread *thread = make(f, 0);
    assert_string_equal(hs_thread_name(thread), "looper");
    assert_false(hs_thread_alive(thread));
    assert_fails(hs_coordinator_register(other, thread, &f->err), HS_FAILED_PRECONDITION, &f->err, "another coordinator");
    hs_coordinator_free(other);
    hs_thread_free(thread);
}

static void refused(fixture *f, hs_looper_options options, const char *text)
{
    options.size = sizeof options;
    assert_null(hs_looper_new(&options, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, text);
}

static void co_032s_missing_options_are_named(void **state)
{
    fixture *f = *state;
    refused(f, (hs_looper_options){.coordinator = f->coordinator}, "loop is missing");
    refused(f, (hs_looper_options){.loop = loop}, "coordinator is missing");
    refused(f, (hs_looper_options){.coordinator = f->coordinator, .loop = loop, .every_n_secs = -1}, "every_n_secs");
    refused(f, (hs_looper_options){.coordinator = f->coordinator, .loop = loop, .every_n_secs = (double)INFINITY},
            "every_n_secs");
    refused(f, (hs_looper_options){.coordinator = f->coordinator, .loop = loop, .every_n_secs = (double)NAN},
            "every_n_secs");
}

static void co_033s_a_stop_before_the_start_leaves_the_calls_out(void **state)
{
    fixture *f = *state;
    hs_coordinator_request_stop(f->coordinator, NULL);
    assert_ok(run(f, 0), &f->err);
    assert_string_equal(f->calls, "se");
}

static void a_call_that_waits_is_woken(void **state)
{
    fixture *f = *state;
    f->blocks = true;
    f->left = 0;
    assert_ok(run(f, 0), &f->err);
    assert_string_equal(f->calls, "sle");
}

static hs_code make_and_run(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    fixture f = {.woken = EVENT, .left = 0};
    f.coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &t->env), &err);
    if (!f.coordinator)
        return err.code;
    hs_looper_options options = HS_INIT(hs_looper_options, .coordinator = f.coordinator, .loop = loop, .user = &f);
    hs_thread *thread = hs_looper_new(&options, &err);
    if (thread && !hs_thread_start(thread, &err))
        hs_coordinator_join(f.coordinator, NULL, &err);
    hs_thread_free(thread);
    hs_coordinator_free(f.coordinator);
    return err.code;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_and_run, NULL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(co_014_it_runs_until_the_stop),
        test(co_031s_an_interval_makes_as_many_calls),
        test(a_long_interval_does_not_delay_a_stop),
        test(co_030s_an_error_stops_the_coordinator),
        test(co_031s_stop_loop_is_left_out_after_an_error),
        test(an_error_of_start_loop_leaves_all_out),
        test(an_error_of_stop_loop_counts),
        test(co_032s_it_is_registered_before_it_starts),
        test(co_032s_missing_options_are_named),
        test(co_033s_a_stop_before_the_start_leaves_the_calls_out),
        test(a_call_that_waits_is_woken),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
