/* SPDX-License-Identifier: Apache-2.0 */
/* The hook replica_check finds variables that differ between the ranks of a group. */
#include "replicas/hooked.h"

enum { SEEDS = 6, AT = 5 };

static hs_on_divergence on_divergence;
static int64_t interval;
static bool wrong[HOOKED_RANKS]; /* these ranks change a weight in step AT */

static void add_check(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    hooks[0] = hs_replica_check(.every_n_steps = interval, .on_divergence = on_divergence);
}

static void change_weight(hooked_rank *rank, int64_t step)
{
    if (step == AT && wrong[rank->rank])
        ((unsigned char *)&rank->weights[1])[4] ^= 1; /* one bit */
}

static const hs_outcome *run(hooked *h, uint64_t seed)
{
    h->add_hooks = add_check;
    h->in_step = change_weight;
    h->seed = seed;
    test_empty_directory(h->directory);
    return hooked_run(h);
}

static void choose(int a, int b, int c)
{
    memset(wrong, 0, sizeof wrong);
    wrong[a] = wrong[b] = wrong[c] = true;
}

static void fails_with(hooked *h, int32_t cause, const char *text)
{
    on_divergence = HS_DIVERGENCE_FAIL;
    interval = 2;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hs_outcome *outcome = run(h, seed);
        assert_int_equal(outcome->reason, HS_REASON_FAILED);
        assert_int_equal(outcome->error.code, HS_DATA_LOSS);
        assert_int_equal(outcome->cause_rank, cause);
        assert_contains(outcome->error.message, text);
        assert_int_equal(outcome->step, AT + 1);
        assert_int_equal(outcome->last_saved_step, HOOKED_SAVE_STEPS);
    }
}

static void one_wrong_rank_is_named(void **state)
{
    choose(2, 2, 2);
    fails_with(*state, 2,
               "rank 2: hook 'replica_check', boundary at step 6: variable 'weights' differs on rank 2 from rank 0");
}

static void rank_0_can_be_the_wrong_one(void **state)
{
    choose(0, 0, 0);
    fails_with(*state, 0, "variable 'weights' differs on rank 0 from the other ranks");
}

static void the_minority_is_named(void **state)
{
    choose(1, 2, 3);
    fails_with(*state, 0, "variable 'weights' differs on rank 0 from the other ranks");
}

static void of_two_halves_that_of_rank_0_is_right(void **state)
{
    choose(1, 3, 3);
    fails_with(*state, 1, "variable 'weights' differs on ranks 1, 3 from rank 0");
}

static void values_of_rank_0_are_sent(void **state)
{
    hooked *h = *state;
    double right[HOOKED_WEIGHTS];
    on_divergence = HS_DIVERGENCE_SEND_VALUES;
    interval = 1;
    memset(wrong, 0, sizeof wrong);
    run(h, 1);
    memcpy(right, h->ranks[0].weights, sizeof right);
    assert_lacks(h->ranks[0].log, "differs");
    choose(1, 3, 3);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_int_equal(run(h, seed)->step, h->steps);
        for (int32_t i = 0; i < h->rank_count; i++)
            assert_memory_equal(h->ranks[i].weights, right, sizeof right);
        assert_int_equal(
            hooked_count(
                h->ranks[0].log,
                "step 6: variable 'weights' differs on ranks 1, 3 from rank 0; all ranks have the values of rank 0 now"),
            1);
        assert_lacks(h->ranks[1].log, "differs");
    }
}

static void without_other_ranks_nothing_is_checked(void **state)
{
    hooked *h = *state;
    on_divergence = HS_DIVERGENCE_FAIL;
    interval = 1;
    choose(0, 0, 0);
    h->rank_count = 1;
    assert_int_equal(run(h, 1)->step, h->steps);
}

static void invalid_options_are_refused(void **state)
{
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(NULL);
    const hs_trigger last = HS_TRIGGER(.every_n_steps = 2, .last = true);
    (void)state;
    hs_graph_global_step(graph, NULL, NULL);
    assert_null(hs_session_open(
        hs_graph_backend(graph),
        HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hs_replica_check(.on_divergence = (hs_on_divergence)7))), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "on_divergence is 7");
    assert_null(hs_session_open(hs_graph_backend(graph),
                                HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hs_replica_check(.when = last))), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "when: last is set");
    hs_graph_free(graph);
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, hooked_setup, hooked_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(one_wrong_rank_is_named),
        ranked(rank_0_can_be_the_wrong_one),
        ranked(the_minority_is_named),
        ranked(of_two_halves_that_of_rank_0_is_right),
        ranked(values_of_rank_0_are_sent),
        ranked(without_other_ranks_nothing_is_checked),
        cmocka_unit_test(invalid_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
