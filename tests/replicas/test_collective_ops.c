/* SPDX-License-Identifier: Apache-2.0 */
/* Collective ops in a group: a run in which only rank 0 would execute one fails instead of waiting forever. */
#include "replicas/hooked.h"

enum { SEEDS = 6 };

static const char *tensor;
static int64_t interval;
static hs_saver *savers[HOOKED_RANKS];
static bool every_rank, is_chief_hook, watched, last, best_effort;

static void add_hooks(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    hs_hook log =
        hs_logging_tensor(.tensors = HS_NAMES(tensor), .every_n_steps = interval, .at_end = last, .every_rank = every_rank);
    (void)rank;
    if (best_effort)
        log = hs_hook_best_effort(log, 0);
    if (watched)
        hooks[1] = hs_nan_tensor(.tensor = "sum:0");
    *(is_chief_hook ? chief : hooks) = log;
    if (is_chief_hook && watched) {
        hooks[0] = hooks[1];
        hooks[1] = (hs_hook){.ops = NULL};
    }
}

static void try_seeds(hooked *h, void (*check)(hooked *h, const hs_outcome *outcome))
{
    h->add_hooks = add_hooks;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        check(h, hooked_run(h));
    }
}

static void is_refused(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_INVALID_ARGUMENT);
    assert_string_equal(outcome->hook, "logging_tensor");
    assert_int_equal(outcome->cause_rank, 0);
    assert_contains(outcome->error.message, "hook 'logging_tensor' fetches '");
    assert_contains(outcome->error.message,
                    ", and so rank 0 would execute the collective op 'sum' without the other ranks");
}

static void a_hook_of_rank_0_that_fetches_one_is_refused(void **state)
{
    hooked *h = *state;
    interval = 3;
    every_rank = watched = last = false;
    for (int chief = 0; chief < 2; chief++) {
        is_chief_hook = chief;
        tensor = "sum:0";
        try_seeds(h, is_refused);
        tensor = "half:0"; /* depends on it */
        try_seeds(h, is_refused);
    }
}

static void a_run_of_the_hook_itself_is_refused(void **state)
{
    hooked *h = *state;
    interval = 0;
    last = true;
    every_rank = watched = is_chief_hook = false;
    tensor = "half:0";
    try_seeds(h, is_refused);
}

static void is_refused_as_best_effort(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_string_equal(outcome->hook, "logging_tensor");
    assert_contains(outcome->error.message, "a rank would execute the collective op 'sum' without the other ranks; do not "
                                            "make it a best-effort hook");
}

static void a_best_effort_hook_that_fetches_one_is_refused(void **state)
{
    hooked *h = *state;
    interval = 3;
    every_rank = best_effort = true;
    watched = is_chief_hook = last = false;
    tensor = "half:0";
    try_seeds(h, is_refused_as_best_effort);
    best_effort = false;
}

static void is_logged(hooked *h, const hs_outcome *outcome)
{
    if (outcome->reason == HS_REASON_FAILED)
        fail_msg("%s", outcome->error.message);
    assert_int_equal(outcome->step, h->steps);
    assert_contains(h->ranks[0].log, "step 1: ");
    assert_contains(h->ranks[0].log, strcmp(tensor, "loss") == 0 ? "loss = 1\n" : "half:0 = 3\n"); /* (0 + 1 + 2 + 3) / 2 */
}

static void a_hook_on_all_ranks_may_fetch_one(void **state)
{
    hooked *h = *state;
    interval = 3;
    every_rank = true;
    watched = is_chief_hook = last = false;
    tensor = "half:0";
    try_seeds(h, is_logged);
}

static void rank_0_may_fetch_what_all_ranks_execute(void **state)
{
    hooked *h = *state;
    interval = 3;
    every_rank = last = false;
    for (int chief = 0; chief < 2; chief++) {
        is_chief_hook = chief;
        watched = false;
        tensor = "loss"; /* set by the collective op that all ranks run */
        try_seeds(h, is_logged);
        watched = true;
        tensor = "half:0"; /* nan_tensor fetches the sum on all ranks */
        try_seeds(h, is_logged);
    }
}

static void one_rank_alone_may_fetch_it(void **state)
{
    hooked *h = *state;
    h->rank_count = 1;
    interval = 3;
    every_rank = watched = is_chief_hook = last = false;
    tensor = "half:0";
    h->add_hooks = add_hooks;
    assert_int_equal(hooked_run(h)->step, h->steps);
    assert_contains(h->ranks[0].log, "half:0 = 0");
}

/* Lists a saver that keeps the checkpoints with the highest half:0, whose collective op all ranks execute. */
static void add_saver(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    savers[rank->rank] = hs_saver_new(HS_SAVER_OPTIONS(.keep_best = 2), NULL);
    hooks[0] = hs_checkpoint_saver(.checkpoint_dir = hooked_path(rank->of, "best"), .every_n_steps = interval,
                                   .saver = savers[rank->rank], .metric = rank->rank == 2 && is_chief_hook ? NULL : tensor);
}

static const hs_outcome *save_with_metric(hooked *h)
{
    interval = 3;
    h->no_checkpoints = true;
    h->add_hooks = add_saver;
    const hs_outcome *outcome = hooked_run(h);
    for (int i = 0; i < HOOKED_RANKS; i++)
        hs_saver_free(savers[i]);
    return outcome;
}

static void a_saver_fetches_its_metric_on_all_ranks(void **state)
{
    hooked *h = *state;
    is_chief_hook = false;
    tensor = "half:0";
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        const hs_outcome *outcome = save_with_metric(h);
        assert_int_equal(outcome->last_saved_step, h->steps);
        assert_true(hooked_exists(h, "best/model.ckpt-10.index"));
    }
}

static void a_saver_without_the_metric_on_one_rank_is_refused(void **state)
{
    hooked *h = *state;
    is_chief_hook = true;
    tensor = "half:0";
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        const hs_outcome *outcome = save_with_metric(h);
        assert_int_equal(outcome->reason, HS_REASON_FAILED);
        assert_contains(outcome->error.message,
                        "rank 2 differs from rank 0: it has hook 'checkpoint_saver', metric '', and rank 0 has hook "
                        "'checkpoint_saver', metric 'half:0'");
    }
    is_chief_hook = false;
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, hooked_setup, hooked_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(a_hook_of_rank_0_that_fetches_one_is_refused),   ranked(a_run_of_the_hook_itself_is_refused),
        ranked(a_best_effort_hook_that_fetches_one_is_refused), ranked(a_hook_on_all_ranks_may_fetch_one),
        ranked(rank_0_may_fetch_what_all_ranks_execute),        ranked(one_rank_alone_may_fetch_it),
        ranked(a_saver_fetches_its_metric_on_all_ranks),        ranked(a_saver_without_the_metric_on_one_rank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
