/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "threads/coordinator.h"

#include <pthread.h>

static int setup(void **state)
{
    *state = hs__coordinator_new(hs_env_default());
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    hs__coordinator_free(*state);
    return 0;
}

static void a_new_coordinator_goes_on(void **state)
{
    hs_error err = {.code = HS_INTERNAL};
    assert_false(hs_coordinator_should_stop(*state));
    assert_int_equal(hs_coordinator_error(*state, &err), HS_OK);
    assert_int_equal(err.code, HS_OK);
}

static void a_stop_without_a_cause_is_no_error(void **state)
{
    hs_coordinator_request_stop(*state, NULL);
    assert_true(hs_coordinator_should_stop(*state));
    assert_int_equal(hs_coordinator_error(*state, NULL), HS_OK);
}

static void the_end_of_the_work_is_no_error(void **state)
{
    const hs_code clean[] = {HS_OK, HS_OUT_OF_RANGE, HS_STOP};
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        hs_error why = {.code = clean[i], .message = "done"};
        hs_coordinator_request_stop(*state, &why);
        assert_true(hs_coordinator_should_stop(*state));
        assert_int_equal(hs_coordinator_error(*state, NULL), HS_OK);
    }
}

static void the_first_error_is_kept(void **state)
{
    hs_error first = {.code = HS_DATA_LOSS, .os_error = 5, .message = "first"};
    hs_error second = {.code = HS_ABORTED, .message = "second"}, err = {0};
    hs_coordinator_request_stop(*state, NULL); /* which is none */
    hs_coordinator_request_stop(*state, &first);
    hs_coordinator_request_stop(*state, &second);
    first.message[0] = '?'; /* it was copied */
    assert_int_equal(hs_coordinator_error(*state, &err), HS_DATA_LOSS);
    assert_string_equal(err.message, "first");
    assert_int_equal(err.os_error, 5);
    assert_int_equal(hs_coordinator_error(*state, NULL), HS_DATA_LOSS);
}

static void *race(void *coordinator)
{
    hs_error mine = {.code = HS_UNAVAILABLE, .message = "one of four"};
    hs_coordinator_request_stop(coordinator, &mine);
    return NULL;
}

/* Whoever sees the stop finds its cause. */
static void *wait_for_the_cause(void *coordinator)
{
    while (!hs_coordinator_should_stop(coordinator))
        ;
    hs_error err;
    bool found = hs_coordinator_error(coordinator, &err) == HS_UNAVAILABLE && !strcmp(err.message, "one of four");
    return found ? coordinator : NULL;
}

static void threads_report_and_look_at_once(void **state)
{
    pthread_t reporters[4], watchers[4];
    void *found;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&watchers[i], NULL, wait_for_the_cause, *state), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&reporters[i], NULL, race, *state), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(reporters[i], NULL);
        pthread_join(watchers[i], &found);
        assert_non_null(found);
    }
}

/* A hook that keeps none, or a session that could not be opened. */
static void no_coordinator_has_stopped(void **state)
{
    (void)state;
    hs_error err = {.code = HS_INTERNAL, .message = "of old"};
    hs_coordinator_request_stop(NULL, NULL);
    hs_coordinator_request_stop(NULL, &err);
    assert_true(hs_coordinator_should_stop(NULL));
    assert_int_equal(hs_coordinator_error(NULL, &err), HS_OK);
    assert_int_equal(err.code, HS_OK);
    assert_string_equal(err.message, "");
    assert_int_equal(hs_coordinator_error(NULL, NULL), HS_OK);
}

static hs_code make_one(test_env *t, void *user)
{
    (void)user;
    hs_coordinator *made = hs__coordinator_new(&t->env);
    hs__coordinator_free(made);
    return made ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

static void there_may_be_no_memory(void **state)
{
    (void)state;
    test_each_allocation(make_one, NULL);
    hs__coordinator_free(NULL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_new_coordinator_goes_on),
        test(a_stop_without_a_cause_is_no_error),
        test(the_end_of_the_work_is_no_error),
        test(the_first_error_is_kept),
        test(threads_report_and_look_at_once),
        cmocka_unit_test(there_may_be_no_memory),
        cmocka_unit_test(no_coordinator_has_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
