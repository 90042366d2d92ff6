/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in hooks that decide something act alike on all ranks of a group. */
#include "replicas/device.h"
#include "replicas/hooked.h"

#include <math.h>
#include <sys/stat.h>

enum { SEEDS = 6, AT = 5 };

static int64_t last_step(const hooked *h, int32_t rank)
{
    return h->ranks[rank].outcome.step;
}

/* Runs with several seeds. */
static void try_seeds(hooked *h, void (*check)(hooked *h, const hs_outcome *outcome))
{
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        check(h, hooked_run(h));
    }
}

/* Control. */

static double seen[HOOKED_RANKS][32]; /* the rate in each step */

static hs_code refuse_negative(void *user, hs_knob_value value, hs_error *err)
{
    (void)user;
    return value.number >= 0 ? HS_OK : hs_error_set(err, HS_INVALID_ARGUMENT, "the rate is negative");
}

static hs_code refuse_on_rank_2(void *user, hs_knob_value value, hs_error *err)
{
    return value.number == 0.5 && ((hooked_rank *)user)->rank == 2
               ? hs_error_set(err, HS_INVALID_ARGUMENT, "not on this rank")
               : HS_OK;
}

static hs_code (*set_rate)(void *user, hs_knob_value value, hs_error *err);

static void add_control(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    hooks[0] = hs_control(.path = hooked_path(rank->of, "control"),
                          .knobs = HS_KNOBS({.name = "rate", .value = &rank->rate, .set = set_rate, .user = rank}));
}

static const char *orders;

/* Rank 0 gives the orders during step AT. Step AT + 1 is the first with the new rate. */
static void give_orders(hooked_rank *rank, int64_t step)
{
    seen[rank->rank][step] = rank->rate;
    if (rank->rank || step != AT)
        return;
    char path[512];
    snprintf(path, sizeof path, "%s", hooked_path(rank->of, "tmp"));
    test_write_file(path, orders, strlen(orders));
    chmod(path, 0600);
    rename(path, hooked_path(rank->of, "control"));
    hs_env_sleep_ns(hs_simulation_env(rank->group), 2000000000); /* until the next poll */
}

static void is_set_on_all(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->step, h->steps);
    for (int32_t i = 0; i < h->rank_count; i++)
        for (int64_t step = 0; step < h->steps; step++)
            assert_true(seen[i][step] == (step > AT ? 0.25 : 1));
    assert_contains(h->ranks[0].log, "'rate' set from 1 to 0.25");
    assert_contains(h->ranks[0].log, "'set other=1' ignored");
    hooked again = *h; /* a resumed run continues with the value */
    again.steps = h->steps + 2;
    hooked_run(&again);
    for (int32_t i = 0; i < h->rank_count; i++)
        assert_true(again.ranks[i].rate == 0.25);
}

static void a_value_is_set_on_all_ranks(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_control;
    h->in_step = give_orders;
    set_rate = NULL;
    orders = "set rate=0.25\nset other=1\n";
    try_seeds(h, is_set_on_all);
}

static void is_set_nowhere(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->step, h->steps);
    for (int32_t i = 0; i < h->rank_count; i++)
        assert_true(h->ranks[i].rate == 1);
    assert_contains(h->ranks[0].log, "ignored: the rate is negative");
}

static void a_value_that_rank_0_refuses_is_set_nowhere(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_control;
    h->in_step = give_orders;
    set_rate = refuse_negative;
    orders = "set rate=-1\n";
    try_seeds(h, is_set_nowhere);
}

static void has_failed_on_rank_2(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->cause_rank, 2);
    assert_contains(outcome->error.message, "knob 'rate' is set to 0.5 on rank 0, but not on this rank: not on this rank");
}

static void a_value_that_another_rank_refuses_fails_the_run(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_control;
    h->in_step = give_orders;
    set_rate = refuse_on_rank_2;
    orders = "set rate=0.5\n";
    try_seeds(h, has_failed_on_rank_2);
}

static void has_saved_and_stopped(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_true(outcome->interrupted);
    assert_int_equal(outcome->step, AT + 1);
    assert_int_equal(outcome->last_saved_step, AT + 1);
}

static void an_order_to_save_and_stop_holds_for_all_ranks(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_control;
    h->in_step = give_orders;
    set_rate = NULL;
    orders = "save\nstop\n";
    try_seeds(h, has_saved_and_stopped);
}

/* NaN. */

static void add_nan_stop(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    hooks[0] = hs_nan_tensor(.tensor = "loss", .on_nan = HS_NAN_STOP);
}

static void lose_on_rank_2(hooked_rank *rank, int64_t step)
{
    if (rank->rank == 2 && step == AT)
        rank->loss = (double)NAN;
}

static void has_stopped_unsaved(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_string_equal(outcome->hook, "nan_tensor");
    assert_int_equal(outcome->step, AT + 1);
    assert_int_equal(outcome->last_saved_step, HOOKED_SAVE_STEPS);
}

static void a_nan_on_one_rank_stops_all_without_a_save(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_nan_stop;
    h->in_step = lose_on_rank_2;
    try_seeds(h, has_stopped_unsaved);
}

static void add_late_nan_stop(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    add_nan_stop(rank, hooks, chief);
    hooks[0] = hs_hook_late(hooks[0]);
}

static void lose_in_the_second_save(hooked_rank *rank, int64_t step)
{
    if (rank->rank == 2 && step == 2 * HOOKED_SAVE_STEPS - 1)
        rank->loss = (double)NAN;
}

static void has_not_saved_nan(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_string_equal(outcome->hook, "nan_tensor");
    assert_int_equal(outcome->step, 2 * HOOKED_SAVE_STEPS);
    assert_int_equal(outcome->last_saved_step, HOOKED_SAVE_STEPS);
}

static void a_late_hook_is_not_late_in_a_group(void **state)
{
    hooked *h = *state;
    h->memory_of_loss = &device;
    h->add_hooks = add_late_nan_stop;
    h->in_step = lose_in_the_second_save;
    try_seeds(h, has_not_saved_nan);
}

/* Evaluation and early stopping. */

static bool at_end;

static void add_evaluation(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    hooks[0] = hs_evaluation(.metrics = HS_NAMES("loss", "batches"), .reset_ops = HS_NAMES("clear"), .eval_op = "eval",
                             .every_n_steps = at_end ? 0 : 4, .at_end = at_end);
    hooks[1] = hs_early_stopping(.metric = "eval/loss", .patience = 2, .larger_is_better = true, .restore_best = true);
}

/* The loss of rank 0 falls, so that the first of its values is the best; those of the other ranks do not count. */
static void grow_elsewhere(hooked_rank *rank, int64_t step)
{
    if (rank->rank)
        rank->loss = (double)step;
    if (step == 5) /* the metric of step 4 */
        hs_raw_session_metric(hs_session_raw(rank->session), "eval/loss", &seen[rank->rank][0], NULL);
}

static void stops_with_the_first_evaluation(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_string_equal(outcome->hook, "early_stopping");
    assert_int_equal(outcome->step, 4); /* restored; stopped in step 12 */
    assert_int_equal(outcome->last_saved_step, 4);
    for (int32_t i = 0; i < h->rank_count; i++) {
        assert_int_equal(h->ranks[i].step, 4);
        assert_true(seen[i][0] == 0.25);
        assert_int_equal(h->ranks[i].batches, i + 2); /* each rank has evaluated its batches */
        assert_int_equal(hooked_count(h->ranks[i].log, "eval: loss = "), i ? 0 : 3);
        assert_contains(h->ranks[i].log, "step 12: stopping: eval/loss was not better");
    }
}

static void the_metrics_of_rank_0_stop_all_ranks(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_evaluation;
    h->in_step = grow_elsewhere;
    h->steps = 30;
    at_end = false;
    try_seeds(h, stops_with_the_first_evaluation);
}

static void evaluates_at_the_end(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->step, h->steps);
    for (int32_t i = 0; i < h->rank_count; i++)
        assert_int_equal(h->ranks[i].batches, i + 2);
    assert_int_equal(hooked_count(h->ranks[0].log, "eval: loss = "), 1);
}

static void all_ranks_evaluate_at_the_end(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_evaluation;
    at_end = true;
    try_seeds(h, evaluates_at_the_end);
}

static void request_stop(hooked_rank *rank, int64_t step)
{
    if (rank->rank == 3 && step == 3)
        hs_session_interrupt(rank->session);
}

static void abandons_the_evaluation(hooked *h, const hs_outcome *outcome)
{
    assert_true(outcome->interrupted);
    assert_int_equal(outcome->step, 4);
    assert_int_equal(hooked_count(h->ranks[0].log, "eval: loss = "), 0);
    for (int32_t i = 0; i < h->rank_count; i++) {
        assert_contains(h->ranks[i].log, "abandoned: a stop was requested");
        assert_true(h->ranks[i].batches == 0);
    }
}

static void all_ranks_abandon_an_evaluation_together(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_evaluation;
    h->in_step = request_stop;
    at_end = false;
    try_seeds(h, abandons_the_evaluation);
}

static void add_early_stopping(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    hooks[0] = hs_early_stopping(.tensor = "loss", .patience = 3, .restore_best = true);
}

/* Rank 0 is best in step AT; the other ranks never stop improving. */
static void be_best_once(hooked_rank *rank, int64_t step)
{
    rank->loss = rank->rank ? -(double)step : fabs((double)(step + 1 - AT));
}

static void stops_with_rank_0(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_string_equal(outcome->hook, "early_stopping");
    assert_int_equal(outcome->step, AT); /* the best step, restored */
    assert_int_equal(outcome->last_saved_step, AT);
    for (int32_t i = 0; i < h->rank_count; i++) {
        assert_int_equal(last_step(h, i), AT);
        assert_contains(h->ranks[i].log, "step 8: stopping: loss was not better than 0 (step 5) 3 times in a row");
        assert_contains(h->ranks[i].log, "step 5: restored the best state");
    }
    hooked again = *h;
    assert_int_equal(hooked_run(&again)->reason, HS_REASON_ALREADY_DONE);
}

static void the_tensor_of_rank_0_stops_all_ranks(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_early_stopping;
    h->in_step = be_best_once;
    h->steps = 30;
    try_seeds(h, stops_with_rank_0);
}

static void be_best_in_the_first_save(hooked_rank *rank, int64_t step)
{
    rank->loss = fabs((double)(step + 1 - HOOKED_SAVE_STEPS));
}

/* The copy of the best step is gone with the process. */
static void after_a_resume_all_ranks_restore_the_checkpoint_of_the_best_step(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_early_stopping;
    h->in_step = be_best_in_the_first_save;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        h->steps = HOOKED_SAVE_STEPS + 2;
        assert_int_equal(hooked_run(h)->step, h->steps);
        h->steps = 30;
        const hs_outcome *outcome = hooked_run(h);
        assert_int_equal(outcome->reason, HS_REASON_STOPPED);
        assert_int_equal(outcome->step, HOOKED_SAVE_STEPS);
        assert_int_equal(outcome->last_saved_step, HOOKED_SAVE_STEPS);
        for (int32_t i = 0; i < h->rank_count; i++)
            assert_contains(h->ranks[i].log, "step 4: restored the best state");
    }
}

/* In the second run, rank DAMAGED finds the checkpoint of the best step missing, or damaged. */
enum { DAMAGED = 2 };
static bool is_missing;

static void be_best_and_damage(hooked_rank *rank, int64_t step)
{
    be_best_in_the_first_save(rank, step);
    if (rank->rank != DAMAGED || step != HOOKED_SAVE_STEPS + 2)
        return;
    if (is_missing)
        rank->of->apart_rank = DAMAGED;
    else
        hooked_damage_part(rank->of, HOOKED_SAVE_STEPS, DAMAGED);
}

static void nothing_is_restored_if_one_rank_cannot_read_the_checkpoint_of_the_best_step(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_early_stopping;
    h->in_step = be_best_and_damage;
    h->parts = true;
    for (h->seed = 1; h->seed <= 2 * SEEDS; h->seed++) {
        is_missing = h->seed % 2;
        h->apart_rank = 0;
        test_empty_directory(h->directory);
        h->steps = HOOKED_SAVE_STEPS + 2;
        assert_int_equal(hooked_run(h)->step, h->steps);
        h->steps = 30;
        const hs_outcome *outcome = hooked_run(h); /* compares the ranks */
        assert_int_equal(outcome->reason, HS_REASON_STOPPED);
        assert_string_equal(outcome->hook, "early_stopping");
        assert_int_equal(outcome->step, HOOKED_SAVE_STEPS + 3);
        assert_int_equal(outcome->last_saved_step, HOOKED_SAVE_STEPS + 3);
        assert_false(hooked_exists(h, "model.ckpt-6.abandoned.index"));
        for (int32_t i = 0; i < h->rank_count; i++) {
            assert_lacks(h->ranks[i].log, "restored the best state");
            assert_int_equal(hooked_count(h->ranks[i].log, "/model.ckpt-4' skipped: "), i == DAMAGED || !is_missing);
            assert_contains(h->ranks[i].log,
                            "step 7: the best state, of step 4 (loss = 0), is neither in memory nor in a checkpoint");
        }
    }
}

static void has_failed_in_the_evaluation(hooked *h, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->cause_rank, h->failing_rank);
    assert_string_equal(outcome->hook, "evaluation");
    assert_int_equal(outcome->last_saved_step, at_end ? h->steps : 0); /* the last boundary saves */
    assert_contains(outcome->error.message, "the batch is bad");
}

static void an_evaluation_that_fails_on_one_rank_fails_on_all(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_evaluation;
    h->failing_rank = 2;
    for (int i = 0; i < 2; i++) {
        at_end = i;
        try_seeds(h, has_failed_in_the_evaluation);
    }
}

/* A rank that dies. */

static void add_all(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    hooks[0] =
        hs_control(.path = hooked_path(rank->of, "control"), .knobs = HS_KNOBS({.name = "rate", .value = &rank->rate}));
    hooks[1] = hs_finite_guard(.losses = HS_NAMES("loss"), .policy = HS_GUARD_ROLLBACK, .skip_op = "skip");
    hooks[2] = hs_evaluation(.metrics = HS_NAMES("loss"), .eval_op = "eval", .every_n_steps = 3, .n_batches = 1);
    hooks[3] = hs_early_stopping(.tensor = "loss", .patience = 100);
    hooks[4] = hs_replica_check(.every_n_steps = 2, .on_divergence = HS_DIVERGENCE_SEND_VALUES);
}

static void disturb(hooked_rank *rank, int64_t step)
{
    give_orders(rank, step);
    if (rank->rank == 2 && step == 3)
        rank->weights[0] += 1;
    if (rank->rank == 1 && step == 2 && !rank->disturbed++)
        rank->loss = (double)NAN;
}

/* Requests each boundary. */

static hs_code always(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values, (void)err;
    hs_run_context_request_boundary(run);
    return HS_OK;
}

static const hs_hook_ops busy_ops = HS_INIT(hs_hook_ops, .name = "busy", .after_run = always);

static void add_many(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    for (int i = 0; i < HOOKED_HOOKS - 1; i++)
        hooks[i] = HS_HOOK(.ops = &busy_ops);
}

static void with_many_hooks_the_saver_saves_only_when_it_is_due(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_many;
    h->steps = 7;
    const hs_outcome *outcome = hooked_run(h);
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(hooked_count(h->ranks[0].log, ": saved "), 3); /* steps 0, 4 and 7 */
}

static void a_rank_that_dies_in_any_call_leaves_no_rank_waiting(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_all;
    h->in_step = disturb;
    h->steps = 7;
    orders = "set rate=0.25\n";
    const hs_outcome *outcome = hooked_run(h);
    if (outcome->reason != HS_REASON_STOPPED)
        fail_msg("%s", outcome->error.message);
    assert_int_equal(outcome->step, h->steps);
    assert_contains(h->ranks[0].log, "rolled back to step 0");
    assert_contains(h->ranks[0].log, "all ranks have the values of rank 0");
    assert_contains(h->ranks[3].log, "rolled back to step 0");
    assert_true(h->ranks[3].rate == 0.25);
    int64_t n = h->ranks[1].collectives;
    for (h->killed_at = 1; h->killed_at <= n; h->killed_at++) {
        h->seed = (uint64_t)h->killed_at;
        h->killed_rank = (int32_t)(h->killed_at % h->rank_count);
        test_empty_directory(h->directory);
        outcome = hooked_run(h);
        bool late = outcome->reason != HS_REASON_FAILED; /* the others had completed their last call */
        if (outcome->error.code != (late ? HS_OK : HS_UNAVAILABLE))
            fail_msg("call %lld: %s", (long long)h->killed_at, outcome->error.message);
    }
}

/* Best-effort hooks. */

static void add_best_effort(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    hooks[0] = hs_hook_best_effort(hs_evaluation(.metrics = HS_NAMES("loss"), .every_n_steps = 3), 0);
}

static void refuses_best_effort(hooked *h, const hs_outcome *outcome)
{
    (void)h;
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_INVALID_ARGUMENT);
    assert_contains(outcome->error.message, "hook 'evaluation' acts together on all ranks, so that it cannot be a "
                                            "best-effort hook in a group");
}

static void a_hook_that_acts_on_all_ranks_is_not_best_effort(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_best_effort;
    try_seeds(h, refuses_best_effort);
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, hooked_setup, hooked_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(a_value_is_set_on_all_ranks),
        ranked(a_value_that_rank_0_refuses_is_set_nowhere),
        ranked(a_value_that_another_rank_refuses_fails_the_run),
        ranked(an_order_to_save_and_stop_holds_for_all_ranks),
        ranked(a_nan_on_one_rank_stops_all_without_a_save),
        ranked(a_late_hook_is_not_late_in_a_group),
        ranked(the_metrics_of_rank_0_stop_all_ranks),
        ranked(all_ranks_evaluate_at_the_end),
        ranked(all_ranks_abandon_an_evaluation_together),
        ranked(the_tensor_of_rank_0_stops_all_ranks),
        ranked(after_a_resume_all_ranks_restore_the_checkpoint_of_the_best_step),
        ranked(nothing_is_restored_if_one_rank_cannot_read_the_checkpoint_of_the_best_step),
        ranked(an_evaluation_that_fails_on_one_rank_fails_on_all),
        ranked(with_many_hooks_the_saver_saves_only_when_it_is_due),
        ranked(a_rank_that_dies_in_any_call_leaves_no_rank_waiting),
        ranked(a_hook_that_acts_on_all_ranks_is_not_best_effort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
