/* SPDX-License-Identifier: Apache-2.0 */
/* The hook finite_guard in a group: all ranks skip, roll back and fail because of a bad value on one. */
#include "replicas/hooked.h"

#include <math.h>

enum { SEEDS = 6, AT = 6, BAD = 2 };

static hs_guard_policy policy;
static int64_t bad_step; /* the global step before it */
static int bad_times;    /* how often the rank BAD gets there with a bad loss */
static int bad[HOOKED_RANKS];

static void add_guard(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    bool skips = policy == HS_GUARD_SKIP_STEP, rolls = policy == HS_GUARD_ROLLBACK;
    bad[rank->rank] = 0;
    hooks[0] = hs_finite_guard(.losses = HS_NAMES("loss"), .policy = policy, .update_op = skips ? "update" : NULL,
                               .max_skips = skips ? 3 : 0, .spike_window = 4, .skip_op = rolls ? "skip" : NULL);
}

static void lose(hooked_rank *rank, int64_t step)
{
    if (rank->rank == BAD && step == bad_step && bad[rank->rank]++ < bad_times)
        rank->loss = (double)NAN;
}

static void try_seeds(hooked *h, void (*check)(hooked *h, const hs_outcome *outcome))
{
    h->add_hooks = add_guard;
    h->in_step = lose;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        check(h, hooked_run(h));
    }
}

/* The samples that were drawn, including those of skipped and repeated steps. */
static void positions_are(const hooked *h, int64_t steps)
{
    for (int32_t i = 0; i < h->rank_count; i++)
        assert_int_equal(h->ranks[i].position, steps * h->rank_count);
}

static void skips_on_all(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(outcome->step, h->steps);
    for (int32_t i = 0; i < h->rank_count; i++) {
        assert_int_equal(hooked_count(h->ranks[i].log, "update skipped, 1 in a row"), 1);
        assert_int_equal(hooked_count(h->ranks[i].log, "update skipped, 2 in a row"), 1);
        assert_int_equal(hooked_count(h->ranks[i].log, "another rank has a bad value"), i == BAD ? 0 : 2);
    }
    positions_are(h, h->steps);
}

static void an_update_that_one_rank_skips_is_skipped_on_all(void **state)
{
    hooked *h = *state;
    h->run_op = "compute";
    policy = HS_GUARD_SKIP_STEP;
    bad_step = AT;
    bad_times = 2;
    try_seeds(h, skips_on_all);
}

static void fails_after_skips(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->step, AT);
    assert_contains(outcome->error.message, "the 3 previous updates were skipped (max_skips)");
    for (int32_t i = 0; i < h->rank_count; i++)
        assert_int_equal(hooked_count(h->ranks[i].log, "update skipped"), 3);
}

static void too_many_skips_fail_on_all_ranks(void **state)
{
    hooked *h = *state;
    h->run_op = "compute";
    policy = HS_GUARD_SKIP_STEP;
    bad_step = AT;
    bad_times = 100;
    try_seeds(h, fails_after_skips);
}

static void rolls_back_on_all(hooked *h, const hs_outcome *outcome)
{
    char line[200];
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(outcome->step, h->steps);
    assert_int_equal(outcome->last_saved_step, h->steps);
    int64_t to = bad_step < HOOKED_SAVE_STEPS ? 0 : HOOKED_SAVE_STEPS, batches = bad_step + 1 - to;
    for (int32_t i = 0; i < h->rank_count; i++) {
        snprintf(line, sizeof line, "rolled back to step %lld", (long long)to);
        assert_int_equal(hooked_count(h->ranks[i].log, line), 1);
        snprintf(line, sizeof line, "step %lld: rank %d: loss 'loss' is NaN", (long long)bad_step + 1, BAD);
        assert_int_equal(hooked_count(h->ranks[i].log, line), 1);
        snprintf(line, sizeof line, "%lld batches skipped", (long long)batches);
        assert_contains(h->ranks[i].log, line);
    }
    positions_are(h, h->steps + batches);
}

static void a_rollback_of_one_rank_is_one_of_all(void **state)
{
    hooked *h = *state;
    policy = HS_GUARD_ROLLBACK;
    bad_times = 1;
    for (bad_step = 1; bad_step <= AT; bad_step += AT - 1)
        try_seeds(h, rolls_back_on_all);
}

static void damage_and_lose(hooked_rank *rank, int64_t step)
{
    if (rank->rank == BAD && step == bad_step && !bad[BAD])
        hooked_damage_part(rank->of, HOOKED_SAVE_STEPS, BAD);
    lose(rank, step);
}

/* As a restart does. */
static void a_rollback_falls_back_if_one_rank_finds_damage(void **state)
{
    hooked *h = *state;
    policy = HS_GUARD_ROLLBACK;
    bad_times = 1;
    bad_step = AT;
    h->add_hooks = add_guard;
    h->in_step = damage_and_lose;
    h->parts = true;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        const hs_outcome *outcome = hooked_run(h);
        assert_int_equal(outcome->reason, HS_REASON_STOPPED);
        assert_int_equal(outcome->last_saved_step, h->steps);
        for (int32_t i = 0; i < h->rank_count; i++)
            assert_int_equal(hooked_count(h->ranks[i].log, "rolled back to step 0"), 1);
        assert_int_equal(hooked_count(h->ranks[0].log, "skipped: another rank found damage, and logged it"), 1);
        assert_int_equal(hooked_count(h->ranks[BAD].log, "checksum mismatch"), 1);
        positions_are(h, h->steps + AT + 1);
    }
}

static void damage_all_and_lose(hooked_rank *rank, int64_t step)
{
    char name[64];
    for (int64_t of = 0; rank->rank == BAD && step == bad_step && !bad[BAD] && of <= step; of++) {
        snprintf(name, sizeof name, "model.ckpt-%lld.index", (long long)of);
        if (hooked_exists(rank->of, name))
            hooked_damage_part(rank->of, of, BAD);
    }
    lose(rank, step);
}

static void a_rollback_fails_if_one_rank_finds_damage_in_all_checkpoints(void **state)
{
    hooked *h = *state;
    policy = HS_GUARD_ROLLBACK;
    bad_times = 1;
    h->add_hooks = add_guard;
    h->in_step = damage_all_and_lose;
    h->parts = h->rollback_fails = true;
    bad_step = AT;
    h->steps = AT;
    assert_int_equal(hooked_run(h)->reason, HS_REASON_STOPPED);
    h->steps = 2 * AT;
    const hs_outcome *outcome = hooked_run(h); /* resumes */
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_contains(outcome->error.message, "none of its 3 checkpoints can be restored");
}

static void hide_and_lose(hooked_rank *rank, int64_t step)
{
    if (rank->rank == BAD && step == bad_step)
        rank->of->apart_rank = BAD;
    lose(rank, step);
}

/* The checkpoint is not damaged, but the ranks cannot restore the same one. */
static void a_rank_with_another_directory_fails_rollback_and_restart(void **state)
{
    hooked *h = *state;
    policy = HS_GUARD_ROLLBACK;
    bad_times = 1;
    bad_step = AT;
    h->add_hooks = add_guard;
    h->in_step = hide_and_lose;
    h->rollback_fails = true;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        h->apart_rank = 0;
        const hs_outcome *outcome = hooked_run(h);
        assert_int_equal(outcome->reason, HS_REASON_FAILED);
        assert_contains(outcome->error.message, "all ranks must share the directory of the checkpoints: ");
        assert_int_equal(hooked_count(h->ranks[0].log, "' skipped: "), 0);
        hooked_run(h);
        assert_false(h->ranks[0].opened);
        assert_contains(h->ranks[BAD].log, "/model.ckpt-4': all ranks must share the directory of the checkpoints: ");
        assert_int_equal(hooked_count(h->ranks[0].log, "' skipped: "), 0);
    }
}

static void add_guard_without_checkpoints(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    bad[rank->rank] = 0;
    hooks[0] = hs_finite_guard(.losses = HS_NAMES("loss"), .policy = HS_GUARD_ROLLBACK);
}

static void all_ranks_restore_their_copies_in_memory(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_guard_without_checkpoints;
    h->in_step = lose;
    h->no_checkpoints = true;
    bad_step = 3;
    bad_times = 1;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        assert_int_equal(hooked_run(h)->step, h->steps);
        for (int32_t i = 0; i < h->rank_count; i++)
            assert_contains(h->ranks[i].log, "rolled back to step 0 (the copy in memory)");
        positions_are(h, h->steps);
    }
}

/* Each rank saves the last values of its losses; rank r of another number of ranks gets those of rank r modulo their
 * number.
 */
static void losses_of_each_rank_are_saved(void **state)
{
    static const int32_t counts[] = {4, 4, 2, 1};
    hooked *h = *state;
    h->add_hooks = add_guard;
    policy = HS_GUARD_FAIL;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        h->rank_count = counts[i];
        h->steps = 6 * (int64_t)(i + 1);
        const hs_outcome *outcome = hooked_run(h);
        if (outcome->reason != HS_REASON_STOPPED)
            fail_msg("%d ranks: %s", (int)counts[i], outcome->error.message);
        assert_int_equal(outcome->last_saved_step, h->steps);
    }
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, hooked_setup, hooked_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(an_update_that_one_rank_skips_is_skipped_on_all),
        ranked(too_many_skips_fail_on_all_ranks),
        ranked(a_rollback_of_one_rank_is_one_of_all),
        ranked(a_rollback_falls_back_if_one_rank_finds_damage),
        ranked(a_rollback_fails_if_one_rank_finds_damage_in_all_checkpoints),
        ranked(a_rank_with_another_directory_fails_rollback_and_restart),
        ranked(all_ranks_restore_their_copies_in_memory),
        ranked(losses_of_each_rank_are_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
