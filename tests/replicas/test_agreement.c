/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a simulated group stop, fail, recover and end together. Each test runs with several seeds, over ops and over
 * steps that the program computes itself. */
#include "replicas/ranks.h"
#include "support/group_of_one.h"

enum { N = 4, STEPS = 14, AT = 7 };

static uint64_t seeds; /* of each case */

static int setup(void **state)
{
    static ranks r;
    r = (ranks){.directory = test_make_directory(), .rank_count = N, .steps = STEPS, .event_step = AT};
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    const ranks *r = *state;
    test_remove_directory((char *)r->directory);
    return 0;
}

/* The parameters after an undisturbed training. */
static const double *undisturbed(const ranks *like)
{
    static double parameters[RANKS_PARAMETERS];
    ranks r = *like;
    r.event = NO_EVENT;
    memset(r.more, 0, sizeof r.more);
    r.arrange = NULL;
    test_empty_directory(r.directory);
    ranks_run(&r);
    const hs_outcome *outcome = ranks_outcome(&r);
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(outcome->step, r.steps);
    assert_int_equal(outcome->last_saved_step, r.steps);
    memcpy(parameters, r.parameters[0], sizeof parameters);
    ranks_check_parameters(&r, parameters);
    return parameters;
}

/* An event of another rank, in addition. */
static void add_event(ranks *r, ranks_event event, int32_t rank, int64_t step)
{
    r->more[0] = (ranks_fault){event, rank, step};
}

typedef void (*check_fn)(ranks *r, const hs_outcome *outcome);

/* Runs with each seed, with ops and, unless the event can only happen in an op, with an own loop. */
static void try_all(ranks *r, check_fn check)
{
    bool in_op = r->event == IS_LOST || r->event == IS_LOST_ALWAYS;
    for (int own = 0; own < (in_op ? 1 : 2); own++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            r->own_loop = own;
            r->seed = seed;
            test_empty_directory(r->directory);
            ranks_run(r);
            const hs_outcome *outcome = ranks_outcome(r);
            check(r, outcome);
        }
}

/* Continues in the same directory without an event: the result is that of an undisturbed training. */
static void resumes_exactly(ranks *r, int64_t from)
{
    ranks again = *r;
    again.event = NO_EVENT;
    memset(again.more, 0, sizeof again.more);
    again.arrange = NULL;
    ranks_run(&again);
    const hs_outcome *outcome = ranks_outcome(&again);
    assert_int_equal(outcome->step, STEPS);
    assert_int_equal(hs_outcome_exit_code(outcome), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(again.steps_made[i], STEPS - from);
    ranks_check_parameters(&again, undisturbed(r));
}

static void is_complete(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_string_equal(outcome->hook, "stop_at_step");
    assert_int_equal(outcome->step, STEPS);
    assert_int_equal(outcome->last_saved_step, STEPS);
    assert_int_equal(hs_outcome_exit_code(outcome), 0);
    for (int i = 0; i < N; i++)
        assert_memory_equal(r->parameters[i], r->parameters[0], sizeof r->parameters[0]);
}

static void rp_001_a_hook_of_the_chief_stops_all_ranks(void **state)
{
    ranks *r = *state;
    r->chief_stops = true;
    try_all(r, is_complete);
}

static void is_done_already(ranks *r, const hs_outcome *outcome)
{
    (void)outcome;
    ranks_run(r);
    const hs_outcome *again = ranks_outcome(r);
    assert_int_equal(again->reason, HS_REASON_ALREADY_DONE);
    assert_int_equal(again->step, STEPS);
    assert_int_equal(hs_outcome_exit_code(again), 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r->opened[i], 2);
        assert_int_equal(r->steps_made[i], 0);
    }
}

static void rp_002_a_training_that_is_complete_is_so_on_all_ranks(void **state)
{
    ranks *r = *state;
    r->chief_stops = true;
    try_all(r, is_done_already);
}

static void is_interrupted(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(outcome->step, AT + 1);
    assert_int_equal(outcome->last_saved_step, AT + 1);
    assert_int_equal(hs_outcome_exit_code(outcome), 75);
    for (int32_t i = 0; i < r->rank_count; i++)
        assert_true(r->stopped[i]);
    if (r->seed == 1)
        resumes_exactly(r, AT + 1);
}

static void rp_003_a_stop_request_on_one_rank_stops_all_after_the_same_step(void **state)
{
    ranks *r = *state;
    r->event = REQUESTS_STOP;
    for (r->event_rank = 0; r->event_rank < 2; r->event_rank++)
        try_all(r, is_interrupted);
}

static void has_failed(const ranks *r, const hs_outcome *outcome, const char *message)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "rank %d: %s", (int)r->event_rank, message);
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->cause_rank, r->event_rank);
    if (strncmp(outcome->error.message, wanted, strlen(wanted)) != 0)
        fail_msg("'%s' does not begin with '%s'", outcome->error.message, wanted);
    assert_int_equal(hs_outcome_exit_code(outcome), 1);
    assert_int_equal(outcome->last_saved_step, RANKS_SAVE_STEPS);
}

static void nan_failed(ranks *r, const hs_outcome *outcome)
{
    has_failed(r, outcome, "hook 'nan_tensor'");
    assert_string_equal(outcome->hook, "nan_tensor");
    if (r->seed == 1)
        resumes_exactly(r, RANKS_SAVE_STEPS);
}

static void rp_004_nan_on_one_rank_fails_all_and_names_it(void **state)
{
    ranks *r = *state;
    r->event = LOSS_IS_NAN;
    r->event_rank = 2;
    try_all(r, nan_failed);
}

static void op_failed(ranks *r, const hs_outcome *outcome)
{
    has_failed(r, outcome, r->own_loop ? "the op has failed" : "op 'train'");
    assert_int_equal(outcome->step, AT);
    if (r->seed == 1)
        resumes_exactly(r, RANKS_SAVE_STEPS);
}

static void rp_005_a_step_that_fails_on_one_rank_fails_on_all(void **state)
{
    ranks *r = *state;
    r->event = OP_FAILS;
    r->event_rank = 2;
    try_all(r, op_failed);
}

static void input_ended(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(outcome->step, AT);
    assert_int_equal(outcome->last_saved_step, AT);
    assert_int_equal(hs_outcome_exit_code(outcome), 0);
    if (r->seed == 1)
        resumes_exactly(r, AT);
}

static void rp_006_the_first_end_of_an_input_ends_the_training_of_all(void **state)
{
    ranks *r = *state;
    r->event = INPUT_ENDS;
    r->event_rank = 2;
    try_all(r, input_ended);
}

static void trained_on(ranks *r, const hs_outcome *outcome)
{
    is_complete(r, outcome);
    int64_t samples = 0;
    for (int64_t step = 0; step < STEPS; step++)
        for (int rank = 0; rank < N; rank++)
            samples += rank == r->event_rank && step >= AT ? 0 : step * N + rank;
    assert_int_equal(r->samples[0], samples);
}

static void rp_006_with_the_policy_last_a_rank_trains_on_without_input(void **state)
{
    ranks *r = *state;
    r->event = INPUT_ENDS;
    r->event_rank = 2;
    r->end_of_input = HS_END_WITH_LAST_RANK;
    try_all(r, trained_on);
}

static void all_inputs_ended(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(outcome->step, AT);
    assert_int_equal(outcome->last_saved_step, AT);
    (void)r;
}

static void rp_006_with_the_policy_last_the_last_end_of_an_input_ends_the_training(void **state)
{
    ranks *r = *state;
    r->event = INPUT_ENDS;
    r->rank_count = 1; /* this one is the last */
    r->end_of_input = HS_END_WITH_LAST_RANK;
    try_all(r, all_inputs_ended);
}

static void recovered(ranks *r, const hs_outcome *outcome)
{
    is_complete(r, outcome);
    if (r->seed == 1) {
        double parameters[RANKS_PARAMETERS];
        memcpy(parameters, r->parameters[0], sizeof parameters);
        assert_memory_equal(parameters, undisturbed(r), sizeof parameters);
    }
}

static void rp_007_a_transient_failure_of_the_chief_recovers_all_ranks_exactly(void **state)
{
    ranks *r = *state;
    r->event = IS_LOST;
    r->event_rank = 0;
    try_all(r, recovered);
}

static void rp_008_a_transient_failure_of_another_rank_recovers_all_ranks_exactly(void **state)
{
    ranks *r = *state;
    r->event = IS_LOST;
    r->event_rank = 2;
    try_all(r, recovered);
    r->event_step = 2; /* before the first save but the initial one */
    try_all(r, recovered);
    r->event = IS_LOST_IN_BOUNDARY;
    r->event_step = AT;
    try_all(r, recovered);
}

static void kill_one(ranks *r, hs_simulation *simulation)
{
    hs_simulation_kill(simulation, r->event_rank, (int64_t)r->seed * 13 % 60 + 1);
}

static void ended_by_a_death(ranks *r, const hs_outcome *outcome)
{
    assert_false(r->ended[r->event_rank]);
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_UNAVAILABLE);
    assert_int_equal(outcome->cause_rank, r->opened[0] ? r->event_rank : -1);
    assert_int_equal(hs_outcome_exit_code(outcome), outcome->last_saved_step >= 0 || !r->opened[0] ? 75 : 1);
}

static void rp_009_the_death_of_a_rank_ends_all_others(void **state)
{
    ranks *r = *state;
    r->arrange = kill_one;
    r->event_rank = 1;
    try_all(r, ended_by_a_death);
}

static void ended_without_it(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_UNAVAILABLE);
    assert_int_equal(hs_outcome_exit_code(outcome), 75);
    (void)r;
}

static void freeze_one(ranks *r, hs_simulation *simulation)
{
    hs_simulation_freeze(simulation, r->event_rank, 40);
}

static void rp_010_a_frozen_rank_ends_all_others(void **state)
{
    ranks *r = *state;
    r->arrange = freeze_one;
    r->event_rank = 1;
    try_all(r, ended_without_it);
}

static void rp_011_a_failure_behind_the_gate_ends_all_ranks(void **state)
{
    ranks *r = *state;
    r->event = OP_FAILS_LATE;
    r->event_rank = 2;
    for (int own = 0; own < 2; own++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            r->own_loop = own;
            r->seed = seed;
            test_empty_directory(r->directory);
            ranks_run(r);
            assert_int_equal(r->code, HS_OK);
            for (int i = 0; i < N; i++) {
                assert_true(r->ended[i]);
                assert_int_equal(r->outcomes[i].reason, HS_REASON_FAILED);
                assert_int_equal(r->outcomes[i].last_saved_step, RANKS_SAVE_STEPS);
                assert_int_equal(r->outcomes[i].cause_rank, r->event_rank);
                assert_contains(r->outcomes[i].error.message, "failed behind the gate");
                assert_int_equal(hs_outcome_exit_code(&r->outcomes[i]), 75);
            }
        }
}

static void left_the_loop(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_CLOSED);
    assert_int_equal(outcome->step, AT);
    assert_int_equal(outcome->last_saved_step, AT);
    if (r->seed == 1)
        resumes_exactly(r, AT);
}

static void left_the_step(ranks *r, const hs_outcome *outcome)
{
    if (!r->own_loop)
        return;
    assert_int_equal(outcome->step, AT);
    assert_true(outcome->interrupted);
    resumes_exactly(r, RANKS_SAVE_STEPS);
}

static void session_failed(ranks *r, const hs_outcome *outcome)
{
    if (!r->own_loop)
        has_failed(r, outcome, "the program has failed");
}

static void rp_012_a_rank_that_leaves_its_loop_ends_the_training_of_all(void **state)
{
    ranks *r = *state;
    r->event_rank = 3;
    r->event = LEAVES_LOOP;
    try_all(r, left_the_loop);
    r->event = LEAVES_STEP;
    try_all(r, left_the_step);
    r->event = FAILS_SESSION;
    try_all(r, session_failed);
}

static void callback_failed(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->cause_rank, r->event_rank);
    assert_string_equal(outcome->hook, "event");
}

static void a_callback_that_fails_on_one_rank_fails_on_all(void **state)
{
    ranks *r = *state;
    r->event_rank = 1;
    r->event = BEFORE_RUN_FAILS;
    try_all(r, callback_failed);
    r->event = AFTER_RUN_FAILS;
    try_all(r, callback_failed);
    r->event = BOUNDARY_FAILS;
    try_all(r, callback_failed);
}

static void hook_stopped(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_string_equal(outcome->hook, "event");
    assert_int_equal(outcome->step, r->event_step);
    assert_int_equal(outcome->last_saved_step, r->event_step);
    for (int i = 0; i < r->rank_count; i++)
        assert_true(r->stopped[i]); /* the program could change the state afterwards */
}

static void a_hook_that_stops_on_one_rank_stops_all(void **state)
{
    ranks *r = *state;
    r->event_rank = 2;
    r->event = HOOK_STOPS;
    try_all(r, hook_stopped);
}

static void step_failed(ranks *r, const hs_outcome *outcome)
{
    if (r->own_loop) { /* behind the gate: the rank has left the group */
        assert_int_equal(outcome->cause_rank, r->event_rank);
        assert_contains(outcome->error.message, " has failed: the step has failed");
        assert_int_equal(hs_outcome_exit_code(outcome), 75);
    } else {
        has_failed(r, outcome, "the step has failed");
    }
    if (r->seed == 1)
        resumes_exactly(r, RANKS_SAVE_STEPS);
}

/* The other ranks are in the boundary of the stop, in which they would save. */
static void a_rank_that_fails_in_the_step_of_a_stop_fails_all(void **state)
{
    ranks *r = *state;
    add_event(r, HOOK_STOPS, 2, AT + 1);
    r->event = FAILS_IN_STEP;
    for (r->event_rank = 0; r->event_rank < 3; r->event_rank++)
        try_all(r, step_failed);
}

/* The other ranks agree next after the step in which they know of the stop. It must not take effect earlier. */
static void a_rank_that_fails_when_all_know_of_the_stop_fails_all(void **state)
{
    ranks *r = *state;
    add_event(r, REQUESTS_STOP, 1, AT);
    r->event = LOSS_IS_NAN;
    r->event_rank = 1;
    r->every_n = 3;
    for (int own = 0; own < 2; own++) {
        test_empty_directory(r->directory);
        r->own_loop = own;
        ranks_run(r);
        assert_int_equal(ranks_outcome(r)->reason, HS_REASON_FAILED);
        assert_string_equal(ranks_outcome(r)->hook, "nan_tensor");
        assert_false(ranks_outcome(r)->interrupted);
    }
}

/* The other ranks would save in this boundary. */
static void stopped_without_boundary(ranks *r, const hs_outcome *outcome)
{
    hook_stopped(r, outcome);
    if (r->seed == 1)
        resumes_exactly(r, r->event_step);
}

static void a_hook_that_stops_on_one_rank_when_all_would_save_stops_all(void **state)
{
    static const ranks_event events[] = {BEFORE_RUN_STOPS, AFTER_RUN_STOPS, BOUNDARY_STOPS};
    ranks *r = *state;
    r->event_step = RANKS_SAVE_STEPS;
    for (r->event_rank = 0; r->event_rank < 3; r->event_rank += 2)
        for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
            r->event = events[i];
            try_all(r, stopped_without_boundary);
        }
}

static void a_boundary_is_called_on_all_ranks_or_on_none(void **state)
{
    ranks *r = *state;
    r->event = AFTER_RUN_STOPS;
    r->event_rank = 2;
    r->event_step = RANKS_SAVE_STEPS;
    add_event(r, BOUNDARY_FAILS, 1, RANKS_SAVE_STEPS);
    try_all(r, hook_stopped);
}

static void a_loss_in_the_boundary_of_a_save_recovers_all_ranks_exactly(void **state)
{
    ranks *r = *state;
    r->event = IS_LOST_IN_BOUNDARY;
    r->event_step = RANKS_SAVE_STEPS;
    for (r->event_rank = 0; r->event_rank < 3; r->event_rank += 2)
        try_all(r, recovered);
}

static void a_failure_in_the_boundary_of_a_save_a_stop_or_the_close_is_that_of_all(void **state)
{
    ranks *r = *state;
    for (r->event_rank = 0; r->event_rank < 3; r->event_rank += 2) {
        r->event = BOUNDARY_FAILS;
        r->event_step = RANKS_SAVE_STEPS;
        try_all(r, callback_failed);
        r->event_step = STEPS;
        r->event = STOPPING_FAILS;
        try_all(r, callback_failed);
        r->event = CLOSING_FAILS;
        try_all(r, callback_failed);
    }
}

static void an_input_that_ends_in_a_step_of_the_program_ends_the_training_of_all(void **state)
{
    ranks *r = *state;
    r->event = INPUT_ENDS;
    r->own_loop = true;
    add_event(r, LEAVES_LOOP, 1, AT); /* it closes its session in the same agreement */
    for (r->event_rank = 0; r->event_rank < 3; r->event_rank += 2) {
        test_empty_directory(r->directory);
        ranks_run(r);
        const hs_outcome *outcome = ranks_outcome(r);
        assert_int_equal(outcome->reason, HS_REASON_END_OF_INPUT);
        assert_int_equal(outcome->step, AT);
        assert_int_equal(hs_outcome_exit_code(outcome), 0);
    }
}

static void a_rank_that_leaves_its_loop_at_a_failed_gate_has_failed_too(void **state)
{
    ranks *r = *state;
    r->event = OP_FAILS;
    r->event_rank = 2;
    add_event(r, LEAVES_AT_GATE, 3, AT);
    try_all(r, op_failed);
}

/* Rank 3 leaves at the gate that reports the loss, before all recover. */
static void not_recovered(ranks *r, const hs_outcome *outcome)
{
    if (!r->own_loop)
        return;
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_UNAVAILABLE);
    assert_contains(outcome->error.message, "the device is lost");
    resumes_exactly(r, RANKS_SAVE_STEPS);
}

static void a_rank_that_leaves_when_all_recover_ends_the_recovery(void **state)
{
    ranks *r = *state;
    r->event = BEFORE_RUN_IS_LOST;
    r->event_rank = 1;
    add_event(r, LEAVES_AT_GATE, 3, AT);
    try_all(r, not_recovered);
}

static void ended_after_15(ranks *r, const hs_outcome *outcome)
{
    (void)r;
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(outcome->step, 15);
}

static void the_ranks_agree_at_the_same_steps_after_a_recovery(void **state)
{
    static const ranks_event events[] = {BEFORE_RUN_IS_LOST, AFTER_RUN_IS_LOST};
    ranks *r = *state;
    r->every_n = 3;
    r->event_rank = 1;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        r->event = events[i];
        try_all(r, ended_after_15);
    }
}

static int64_t kill_at;

static void kill_at_call(ranks *r, hs_simulation *simulation)
{
    hs_simulation_kill(simulation, r->event_rank, kill_at);
}

static int64_t newest_step(const ranks *r)
{
    char *path = hs_checkpoint_latest(NULL, r->directory, NULL, NULL);
    int64_t step = path ? strtoll(strrchr(path, '-') + 1, NULL, 10) : -1;
    hs_env_free(NULL, path);
    return step;
}

static void killed_at_any_call(ranks *r)
{
    test_empty_directory(r->directory);
    r->arrange = NULL;
    ranks_run(r);
    int64_t calls = r->collectives[r->event_rank];
    r->arrange = kill_at_call;
    for (kill_at = 1; kill_at <= calls; kill_at++) {
        test_empty_directory(r->directory);
        ranks_run(r);
        const hs_outcome *outcome = ranks_outcome(r);
        assert_int_equal(outcome->reason, HS_REASON_FAILED);
        if (r->opened[0] && !r->background)
            assert_int_equal(r->outcomes[0].last_saved_step, newest_step(r));
        for (int i = 0; i < N; i++)
            if (r->ended[i] && outcome->step > 2 * RANKS_SAVE_STEPS) /* the save before the last one is complete, */
                assert_in_range(r->outcomes[i].last_saved_step,
                                r->background ? 0 /* unless a thread is late */ : RANKS_SAVE_STEPS, STEPS);
    }
}

static void a_death_at_any_call_ends_all_other_ranks_with_the_same_outcome(void **state)
{
    ranks *r = *state;
    r->event_rank = 2;
    for (r->seed = 1; r->seed <= 2; r->seed++)
        killed_at_any_call(r);
    r->background = true;
    killed_at_any_call(r);
    for (int i = 0; i < N; i++)
        assert_int_equal(r->saved_at_opening[i], 0);
    r->background = false;
    r->own_loop = true;
    add_event(r, LEAVES_STEP, 3, AT);
    killed_at_any_call(r);
}

/* A hook that each rank asks in each boundary, behind a hook that saves in some of them. */

typedef struct {
    const hs_group *group;
    const char *directory;
    int n_agreed[N];
} asking;

static hs_code ask_for_boundary(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values, (void)err;
    hs_run_context_request_boundary(run);
    return HS_OK;
}

static hs_code count_agreed(void *self, hs_run_context *run, hs_error *err)
{
    bool any = false;
    hs_raw_session *session = hs_run_context_session(run);
    hs_code code = HS_OK;
    if (hs_run_context_boundary(run) == HS_BOUNDARY_RUN) /* this hook is called after a hook that saves */
        code = hs_raw_session_any(session, hs_raw_session_rank(session) == 1, &any, err);
    *(int *)self += any;
    return code;
}

static int ask_in_rank(void *user, const hs_group *group)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "asking", .after_run = ask_for_boundary, .boundary = count_agreed);
    asking *a = user;
    hs_error err;
    int64_t step = 0;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    hs_graph_global_step(graph, NULL, &step);
    hs_graph_op(graph, .name = "train", .advances_step = true);
    hs_session *session = hs_session_open(
        hs_graph_backend(graph),
        HS_SESSION_OPTIONS(.group = group,
                           .hooks = HS_HOOKS(hs_checkpoint_saver(.checkpoint_dir = a->directory, .every_n_steps = 2),
                                             HS_HOOK(.ops = &ops, .self = &a->n_agreed[group->ops->rank(group->self)]))),
        &err);
    hs_code code = session ? HS_OK : err.code;
    while (!code && step < STEPS)
        code = hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_graph_free(graph);
    return code;
}

static void a_hook_asks_the_other_ranks_also_behind_a_save(void **state)
{
    asking a = {.directory = ((const ranks *)*state)->directory};
    hs_error err;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.main = ask_in_rank, .user = &a, .rank_count = N, .seed = 1), &err);
    assert_non_null(simulation);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    for (int i = 0; i < N; i++) {
        int result = -1;
        assert_true(hs_simulation_result(simulation, i, &result));
        assert_int_equal(result, 0);
        assert_int_equal(a.n_agreed[i], STEPS);
    }
    hs_simulation_free(simulation);
}

/* A step function that ends the loop of one rank. */

static hs_code stop_on_rank_1(void *user, hs_step_context *step, hs_error *err)
{
    if (*(int32_t *)user == 1 && hs_raw_session_global_step(hs_step_context_session(step), NULL) == 3)
        return hs_step_context_request_stop(step);
    return hs_step_context_run_with_hooks(step, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
}

static int run_step_functions(void *user, const hs_group *group)
{
    hs_outcome *outcomes = user;
    int32_t rank = group->ops->rank(group->self);
    int64_t step = 0;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    hs_graph_global_step(graph, NULL, &step);
    hs_graph_op(graph, .name = "train", .advances_step = true);
    hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.group = group), NULL);
    while (!hs_session_should_stop(session))
        hs_session_run_step(session, stop_on_rank_1, &rank, NULL);
    outcomes[rank] = hs_session_close(session, NULL);
    hs_graph_free(graph);
    return 0;
}

static void a_step_function_that_stops_on_one_rank_stops_all(void **state)
{
    hs_outcome outcomes[N];
    hs_error err;
    (void)state;
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.main = run_step_functions, .user = outcomes, .rank_count = N, .seed = 1), &err);
    assert_non_null(simulation);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    for (int i = 0; i < N; i++)
        assert_int_equal(outcomes[i].reason, HS_REASON_STOPPED);
    hs_simulation_free(simulation);
}

/* Loops of the program in which rank `odd` differs from the others at step AT. */

typedef enum {
    MISSES_GATE,
    MISSES_GATE_AND_AGREEMENT,
    ADVANCES_STEP,
    FAILS_BEFORE_GATE,
    FAILS_BEHIND_GATE
} difference_in_loop;

typedef struct {
    difference_in_loop how;
    int32_t odd;
    hs_outcome outcomes[N];
} loops;

static void run_steps(const loops *all, hs_session *session, const hs_group *group, bool is_odd)
{
    while (hs_step_begin(session)) {
        double one = 1;
        const bool differs = is_odd && hs_session_global_step(session, NULL) == AT, fails = all->how >= FAILS_BEFORE_GATE;
        hs_code gate = !differs || all->how == FAILS_BEHIND_GATE ? hs_step_pass_gate(session) : HS_OK;
        if (!gate && !differs)
            hs_simulation_sum(group, &one, 1, NULL);
        if (differs && fails)
            hs_session_fail(session, test_error(HS_INTERNAL, "no data"));
        hs_code code = hs_step_end(session);
        assert_true(code || !differs || !fails);
    }
}

static void run_op(hs_session *session, bool is_odd)
{
    while (!hs_session_should_stop(session)) {
        if (is_odd && hs_session_global_step(session, NULL) == AT)
            hs_raw_session_run(hs_session_raw(session), HS_RUN_ARGS(.names = HS_NAMES("advance")), NULL, NULL);
        if (hs_session_run(session, "advance", NULL))
            break;
    }
}

static int run_loop(void *user, const hs_group *group)
{
    loops *all = user;
    const int32_t rank = group->ops->rank(group->self);
    const int64_t every_n = all->how == MISSES_GATE_AND_AGREEMENT ? STEPS : 1;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "advance", .advances_step = true);
    hs_session *session =
        hs_session_open(hs_graph_backend(graph),
                        HS_SESSION_OPTIONS(.group = group, .replicas = HS_REPLICA_OPTIONS(.agree_every_n_steps = every_n),
                                           .hooks = HS_HOOKS(hs_stop_at_step(.last_step = STEPS))),
                        NULL);
    if (all->how == ADVANCES_STEP)
        run_op(session, rank == all->odd);
    else
        run_steps(all, session, group, rank == all->odd);
    all->outcomes[rank] = hs_session_close(session, NULL);
    hs_graph_free(graph);
    return 0;
}

/* The error names the rank and the call, and not what follows from it. */
static void a_loop_that_differs_on_one_rank_ends_all(void **state)
{
    static const char *const messages[][2] = {
        [MISSES_GATE] = {"rank 0 has not passed the gate of step 8, at which rank 1 waits; all ranks must make the same",
                         "rank 2 has not passed the gate of step 8, at which rank 0 waits; all ranks must make the same"},
        [MISSES_GATE_AND_AGREEMENT] = {"rank 0 has not passed the gate of step 8, at which rank 1 waits",
                                       "rank 2 has not passed the gate of step 8, at which rank 0 waits"},
        [ADVANCES_STEP] =
            {"rank 1 has called the end of step 8, and rank 0 the end of step 9; all ranks must make the same",
             "rank 2 has called the end of step 9, and rank 0 the end of step 8; all ranks must make the same"},
        [FAILS_BEFORE_GATE] = {"rank 0: no data", "rank 2: no data"},
        [FAILS_BEHIND_GATE] = {"rank 0 has failed: no data", "rank 2 has failed: no data"}};
    (void)state;
    for (difference_in_loop how = MISSES_GATE; how <= FAILS_BEHIND_GATE; how++)
        for (uint64_t seed = 1; seed <= 2 * seeds; seed++) {
            loops all = {.how = how, .odd = seed % 2 ? 0 : 2};
            hs_error err;
            hs_simulation *simulation = hs_simulation_new(
                HS_SIMULATION_OPTIONS(.main = run_loop, .user = &all, .rank_count = N, .seed = seed), &err);
            assert_non_null(simulation);
            assert_ok(hs_simulation_run(simulation, &err), &err);
            for (int i = 0; i < N; i++) {
                if (how != FAILS_BEHIND_GATE || i != all.odd)
                    assert_contains(all.outcomes[i].error.message, messages[how][all.odd / 2]);
                assert_int_equal(all.outcomes[i].cause_rank, how == ADVANCES_STEP && !all.odd ? 1 : all.odd);
            }
            hs_simulation_free(simulation);
        }
}

static void exhausted(ranks *r, const hs_outcome *outcome)
{
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_UNAVAILABLE);
    assert_int_equal(outcome->cause_rank, r->event_rank);
}

static void a_rank_that_is_lost_again_and_again_ends_all(void **state)
{
    ranks *r = *state;
    r->event_rank = 1;
    r->event = IS_LOST_ALWAYS;
    try_all(r, exhausted);
}

static void the_ranks_may_agree_every_few_steps_only(void **state)
{
    ranks *r = *state;
    r->every_n = 7;
    try_all(r, is_complete);
}

/* A run that ended at step 8 and is resumed, and an uninterrupted run. A gate would stop all ranks earlier. */
static void a_resumed_run_ends_at_the_same_step(void **state)
{
    ranks *r = *state;
    r->no_gate = true;
    for (int own = 0; own < 2; own++)
        for (int resumes = 0; resumes < 2; resumes++) {
            test_empty_directory(r->directory);
            r->own_loop = own;
            if (resumes) {
                r->steps = AT + 1;
                r->every_n = 1;
                ranks_run(r);
                assert_int_equal(ranks_outcome(r)->last_saved_step, AT + 1);
            }
            r->steps = STEPS;
            r->every_n = 5;
            ranks_run(r);
            ended_after_15(r, ranks_outcome(r));
        }
}

static void one_rank_trains_as_a_session_without_a_group(void **state)
{
    ranks *r = *state;
    r->rank_count = 1;
    for (int own = 0; own < 2; own++) {
        r->own_loop = own;
        test_empty_directory(r->directory);
        ranks_run(r);
        const hs_outcome *outcome = ranks_outcome(r);
        assert_int_equal(outcome->step, STEPS);
        assert_int_equal(hs_outcome_exit_code(outcome), 0);
    }
    r->event = OP_FAILS;
    r->own_loop = false;
    test_empty_directory(r->directory);
    ranks_run(r);
    assert_null(strstr(ranks_outcome(r)->error.message, "rank"));
}

static hs_code pass_gate(void *user, hs_op *op, hs_error *err)
{
    (void)user, (void)err;
    hs_error error;
    assert_ok(hs_op_pass_gate(op, &error), &error);
    return HS_OK;
}

static void without_a_group_the_gate_is_open(void **state)
{
    (void)state;
    hs_error err;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "train", .run = pass_gate);
    hs_graph_global_step(graph, NULL, NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    hs_raw_session *raw = hs_session_raw(session);
    bool any;
    assert_int_equal(hs_raw_session_rank(raw), 0);
    assert_int_equal(hs_raw_session_rank_count(raw), 1);
    assert_int_equal(hs_session_rank(session), 0);
    assert_int_equal(hs_session_rank_count(session), 1);
    assert_ok(hs_raw_session_any(raw, true, &any, &err), &err);
    assert_true(any);
    assert_ok(hs_raw_session_any(raw, false, &any, &err), &err);
    assert_false(any);
    assert_ok(hs_raw_session_from_chief(raw, &any, sizeof any, &err), &err);
    assert_ok(hs_session_run(session, "train", &err), &err);
    assert_int_equal(hs_step_pass_gate(session), HS_FAILED_PRECONDITION);
    hs_session_close(session, NULL);
    hs_graph_free(graph);

    assert_int_equal(hs_op_pass_gate(NULL, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_step_pass_gate(NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_raw_session_rank(NULL), 0);
    assert_int_equal(hs_raw_session_rank_count(NULL), 1);
    assert_int_equal(hs_session_rank(NULL), 0);
    assert_int_equal(hs_session_rank_count(NULL), 1);
    assert_int_equal(hs_raw_session_any(NULL, true, &any, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_raw_session_from_chief(NULL, &any, 1, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_raw_session_gather(NULL, (hs_bytes){0}, NULL, NULL, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_raw_session_send_variable(NULL, "w", &err), HS_INVALID_ARGUMENT);
}

static void without_a_group_an_own_loop_can_report_the_end_of_its_input(void **state)
{
    (void)state;
    int64_t steps = 0;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_global_step(graph, NULL, NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, NULL);
    assert_true(hs_session_has_input(session));
    while (hs_step_begin(session)) {
        if (steps == 3)
            hs_session_end_input(session);
        hs_code gate = hs_step_pass_gate(session);
        assert_int_equal(gate, steps == 3 ? HS_OUT_OF_RANGE : HS_OK);
        steps += gate == HS_OK;
        assert_int_equal(hs_step_end(session), gate);
    }
    assert_false(hs_session_has_input(session));
    hs_outcome outcome = hs_session_close(session, NULL);
    assert_int_equal(outcome.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(outcome.step, 3);
    hs_graph_free(graph);
    hs_session_end_input(NULL);
    assert_false(hs_session_has_input(NULL));
    assert_true(hs_op_has_input(NULL));
}

static hs_code request_stop(void *user, hs_op *op, hs_error *err)
{
    hs_session *session = *(hs_session **)user;
    (void)op, (void)err;
    hs_session_interrupt(session);
    assert_true(hs_session_poll(session));
    assert_false(hs_session_should_stop(session)); /* not agreed yet */
    return HS_OK;
}

static void long_work_ends_before_a_stop_is_agreed(void **state)
{
    (void)state;
    hs_error err;
    hs_session *session = NULL;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "train", .run = request_stop, .user = &session);
    session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.group = &group_of_one), &err);
    assert_ok(hs_session_run(session, "train", &err), &err);
    assert_true(hs_session_should_stop(session));
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* Each run without a new step is followed by an agreement: a stop does not wait for one. */
static void a_run_that_does_not_advance_the_step_ends_with_an_agreement(void **state)
{
    (void)state;
    hs_error err;
    hs_session *session = NULL;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "train", .run = request_stop, .user = &session);
    session = hs_session_open(
        hs_graph_backend(graph),
        HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = HS_REPLICA_OPTIONS(.agree_every_n_steps = 100)), &err);
    assert_ok(hs_session_run(session, "train", &err), &err);
    assert_true(hs_session_should_stop(session));
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* The limit of a step, as an engine gets it. */

typedef struct {
    int64_t now_ns;
    hs_step_place place;
    int64_t step;
    double secs;
} limits;

static int64_t read_clock(void *user)
{
    return ((const limits *)user)->now_ns;
}

static void do_not_sleep(void *user, int64_t ns)
{
    (void)user, (void)ns;
}

static void keep_limit(void *self, hs_step_place place, int64_t step, double secs)
{
    limits *l = self;
    l->place = place;
    l->step = step;
    l->secs = secs;
}

/* Makes steps that take so long. Returns the limit of the last one. */
static double make_steps(limits *l, hs_session *session, int n, double secs)
{
    double limit = 0;
    for (int i = 0; i < n; i++) {
        assert_true(hs_step_begin(session));
        l->now_ns += (int64_t)1000000000000; /* counts from the gate on */
        assert_int_equal(hs_step_pass_gate(session), HS_OK);
        assert_int_equal(l->place, HS_BEHIND_GATE);
        assert_int_equal(l->step, hs_session_global_step(session, NULL) + 1);
        limit = l->secs;
        l->now_ns += (int64_t)(secs * 1e9);
        assert_int_equal(hs_step_end(session), HS_OK);
        assert_int_equal(l->place, HS_BEFORE_GATE);
        assert_int_equal(l->step, hs_session_global_step(session, NULL) + 1);
        assert_true(l->secs == 0);
    }
    return limit;
}

static void the_limit_of_a_step_is_learned(void **state)
{
    (void)state;
    limits l = {.now_ns = 1};
    hs_group_ops ops = group_of_one_ops;
    ops.report_step = keep_limit;
    const hs_group group = {&ops, &l};
    const hs_env env = HS_INIT(
        hs_env, .clock = {.monotonic_ns = read_clock, .realtime_ns = read_clock, .sleep_ns = do_not_sleep, .user = &l});
    static const double options[] = {HS_LEARNED, 2.5};
    for (size_t i = 0; i < 2; i++) {
        hs_graph *graph = hs_graph_new(&env);
        hs_graph_global_step(graph, NULL, NULL);
        hs_session *session = hs_session_open(
            hs_graph_backend(graph),
            HS_SESSION_OPTIONS(.group = &group, .replicas = HS_REPLICA_OPTIONS(.step_secs = options[i])), NULL);
        const bool fixed = options[i] > 0;
        assert_true(make_steps(&l, session, 1, 7) == (fixed ? 2.5 : 600));
        assert_true(make_steps(&l, session, 9, 0.5) == (fixed ? 2.5 : 600));
        assert_true(make_steps(&l, session, 1, 0.5) == (fixed ? 2.5 : 70));
        assert_true(make_steps(&l, session, 90, 0.5) == (fixed ? 2.5 : 70)); /* the last hundred */
        assert_true(make_steps(&l, session, 101, 0.5) == (fixed ? 2.5 : 60));
        assert_true(make_steps(&l, session, 1, 20) == (fixed ? 2.5 : 60));
        assert_true(make_steps(&l, session, 1, 1) == (fixed ? 2.5 : 200));
        hs_session_close(session, NULL);
        hs_graph_free(graph);
    }
}

/* Opens a session in a group of one. */
static hs_code open_code(const hs_session_options *options, hs_error *err)
{
    hs_graph *graph = hs_graph_new(NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), options, err);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    return session ? HS_OK : err->code;
}

static void invalid_options_are_refused(void **state)
{
    (void)state;
    hs_error err;
    const hs_replica_options negative = HS_INIT(hs_replica_options, .agree_every_n_steps = -1);
    const hs_replica_options no_policy = HS_INIT(hs_replica_options, .end_of_input = (hs_end_of_input)7);
    const hs_replica_options no_values = HS_INIT(hs_replica_options, .initial_values = (hs_initial_values)7);
    const hs_replica_options limited = HS_INIT(hs_replica_options, .step_secs = 1);
    const hs_replica_options no_limit = HS_INIT(hs_replica_options, .step_secs = -1);
    const hs_group incomplete = {.ops = NULL};
    assert_ok(open_code(HS_SESSION_OPTIONS(.group = &group_of_one), &err), &err);
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = &negative), &err), HS_INVALID_ARGUMENT,
                 &err, "agree_every_n_steps is -1; it must be at least 0");
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = &no_policy), &err), HS_INVALID_ARGUMENT,
                 &err, "end_of_input is 7, not an hs_end_of_input");
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = &no_values), &err), HS_INVALID_ARGUMENT,
                 &err, "initial_values is 7, not an hs_initial_values");
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = &no_limit), &err), HS_INVALID_ARGUMENT,
                 &err, "step_secs is -1; it must be 0 to 1e9, or HS_LEARNED");
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = &limited), &err), HS_UNIMPLEMENTED, &err,
                 "has no failure detector, which limits steps");
    assert_fails(open_code(HS_SESSION_OPTIONS(.replicas = &negative), &err), HS_INVALID_ARGUMENT, &err, "without a group");
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &incomplete), &err), HS_INVALID_ARGUMENT, &err, "group");
    assert_fails(open_code(HS_SESSION_OPTIONS(.group = &group_of_one, .is_worker = true), &err), HS_INVALID_ARGUMENT, &err,
                 "is_worker");
}

/* A rank whose program differs. */

typedef enum {
    ANOTHER_HOOK,
    ANOTHER_KIND,
    ANOTHER_SHAPE,
    ANOTHER_END,
    INVALID_OPTIONS,
    ALONE,
    BEST_EFFORT,
    NO_VARIABLE,
    ANOTHER_STEP,
    ANOTHER_POLICY,
    ANOTHER_INTERVAL,
    ANOTHER_RECOVERY,
    ANOTHER_IDENTITY,
    ANOTHER_RATE
} difference;

static char units_and_1[] = "units m\nrate 1", units_and_2[] = "units m\nrate 2";

static const char *rate(void *self)
{
    return self;
}

typedef struct {
    difference which;
    hs_error errors[N];
} differing;

/* Longer than an error shows. */
#define DIGITS    "0123456789012345678901234567890123456789012345678901234567890123456789"
#define VERSION   "version 1\n"
#define ARGUMENTS DIGITS DIGITS DIGITS DIGITS DIGITS " --layers "

static int open_differing(void *user, const hs_group *group)
{
    differing *d = user;
    static double values[N][4];
    int32_t rank = group->ops->rank(group->self);
    bool differs = rank == 2;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    const hs_replica_options invalid = HS_INIT(hs_replica_options, .agree_every_n_steps = -1);
    const hs_replica_options last = HS_INIT(hs_replica_options, .end_of_input = HS_END_WITH_LAST_RANK);
    const hs_replica_options identity =
        HS_INIT(hs_replica_options, .identity = differs ? VERSION ARGUMENTS "5" : VERSION ARGUMENTS "4");
    const hs_recovery recovery = HS_INIT(hs_recovery, .max_attempts = differs ? 3 : 4);
    const hs_hook_ops own = HS_INIT(hs_hook_ops, .name = "own", .rank_identity = rate);
    const hs_replica_options *replicas = d->which == ANOTHER_IDENTITY  ? &identity
                                         : !differs                    ? NULL
                                         : d->which == INVALID_OPTIONS ? &invalid
                                         : d->which == ANOTHER_END     ? &last
                                                                       : NULL;
    hs_hook hook = hs_stop_at_step(.last_step = 9);
    if (differs && d->which == ANOTHER_HOOK) {
        hs_hook_free(hook);
        hook = hs_nan_tensor(.tensor = "w");
    }
    if (differs && d->which == ANOTHER_KIND)
        hook.flags = HS_HOOK_TRAIN | HS_HOOK_EVAL;
    if (d->which == ANOTHER_STEP) {
        hs_hook_free(hook);
        hook = hs_stop_at_step(.last_step = differs ? 10 : 9);
    }
    if (d->which == ANOTHER_POLICY || d->which == ANOTHER_INTERVAL) {
        hs_hook_free(hook);
        hook = d->which == ANOTHER_POLICY ? hs_nan_tensor(.tensor = "w", .on_nan = differs ? HS_NAN_STOP : HS_NAN_FAIL)
                                          : hs_nan_tensor(.tensor = "w", .every_n_steps = differs ? 7 : 8);
    }
    if (d->which == ANOTHER_RATE) {
        hs_hook_free(hook);
        hook = HS_HOOK(.ops = &own, .self = differs ? units_and_2 : units_and_1);
    }
    if (d->which == ALONE || d->which == BEST_EFFORT) { /* on all ranks */
        hs_hook_free(hook);
        hook = hs_replica_check(.every_n_steps = 1);
        hook.flags |= d->which == ALONE ? HS_HOOK_CHIEF_ONLY : HS_HOOK_BEST_EFFORT;
    }
    if (!differs || d->which != NO_VARIABLE)
        hs_graph_variable(graph, "w", HS_DOUBLE, HS_SHAPE(differs && d->which == ANOTHER_SHAPE ? 3 : 4), values[rank]);
    hs_session *session =
        hs_training_session_open(hs_graph_backend(graph),
                                 HS_TRAINING_OPTIONS(.group = group, .replicas = replicas, .hooks = HS_HOOKS(hook),
                                                     .recovery = d->which == ANOTHER_RECOVERY ? &recovery : NULL),
                                 &d->errors[rank]);
    assert_null(session);
    hs_graph_free(graph);
    return 0;
}

static void ranks_with_different_programs_are_refused(void **state)
{
    (void)state;
    static const char *const messages[] = {
        [ANOTHER_HOOK] = "rank 2 differs from rank 0: it has hook 'nan_tensor', and rank 0 has hook 'stop_at_step'",
        [ANOTHER_KIND] =
            "rank 2 differs from rank 0: it has hook 'stop_at_step', kinds 3, and rank 0 has hook 'stop_at_step'",
        [ANOTHER_END] = "rank 2 differs from rank 0: it has end_of_input 1, and rank 0 has end_of_input 0",
        [ALONE] = "hook 'replica_check' acts together on all ranks, so that it cannot be called on rank 0 alone",
        [BEST_EFFORT] = "hook 'replica_check' acts together on all ranks, so that it cannot be a best-effort hook",
        [ANOTHER_SHAPE] =
            "rank 2 differs from rank 0: it has variable 'w', double [3], and rank 0 has variable 'w', double [4]",
        [INVALID_OPTIONS] = "rank 2: hs_replica_options.agree_every_n_steps is -1",
        [ANOTHER_STEP] = "it has hook 'stop_at_step', last_step 10, and rank 0 has hook 'stop_at_step', last_step 9",
        [ANOTHER_POLICY] = "it has hook 'nan_tensor', on_nan 1, and rank 0 has hook 'nan_tensor', on_nan 0",
        [ANOTHER_INTERVAL] =
            "it has hook 'nan_tensor', every 7 runs, first, and rank 0 has hook 'nan_tensor', every 8 runs",
        [ANOTHER_RECOVERY] = "it has recovery.max_attempts 3, and rank 0 has recovery.max_attempts 4",
        [ANOTHER_IDENTITY] = "0123456789 --layers 5, and rank 0 has ...",
        [ANOTHER_RATE] = "it has hook 'own', rate 2, and rank 0 has hook 'own', rate 1",
        [NO_VARIABLE] = "rank 2 differs from rank 0: it has variable 'global_step', int64 [], and rank 0 has variable 'w'"};
    for (difference which = ANOTHER_HOOK; which <= ANOTHER_RATE; which++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            differing d = {.which = which};
            hs_error err;
            hs_simulation *simulation = hs_simulation_new(
                HS_SIMULATION_OPTIONS(.main = open_differing, .user = &d, .seed = seed, .rank_count = N), &err);
            assert_ok(hs_simulation_run(simulation, &err), &err);
            for (int i = 0; i < N; i++)
                if (!strstr(d.errors[i].message, messages[which]))
                    fail_msg("rank %d: '%s' lacks '%s'", i, d.errors[i].message, messages[which]);
            hs_simulation_free(simulation);
        }
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    seeds = ranks_number("HOOKSESS_SEEDS", 8);
    const struct CMUnitTest tests[] = {
        ranked(rp_001_a_hook_of_the_chief_stops_all_ranks),
        ranked(rp_002_a_training_that_is_complete_is_so_on_all_ranks),
        ranked(rp_003_a_stop_request_on_one_rank_stops_all_after_the_same_step),
        ranked(rp_004_nan_on_one_rank_fails_all_and_names_it),
        ranked(rp_005_a_step_that_fails_on_one_rank_fails_on_all),
        ranked(rp_006_the_first_end_of_an_input_ends_the_training_of_all),
        ranked(rp_006_with_the_policy_last_a_rank_trains_on_without_input),
        ranked(rp_006_with_the_policy_last_the_last_end_of_an_input_ends_the_training),
        ranked(rp_007_a_transient_failure_of_the_chief_recovers_all_ranks_exactly),
        ranked(rp_008_a_transient_failure_of_another_rank_recovers_all_ranks_exactly),
        ranked(rp_009_the_death_of_a_rank_ends_all_others),
        ranked(rp_010_a_frozen_rank_ends_all_others),
        ranked(rp_011_a_failure_behind_the_gate_ends_all_ranks),
        ranked(rp_012_a_rank_that_leaves_its_loop_ends_the_training_of_all),
        ranked(a_callback_that_fails_on_one_rank_fails_on_all),
        ranked(a_hook_that_stops_on_one_rank_stops_all),
        ranked(a_rank_that_fails_in_the_step_of_a_stop_fails_all),
        ranked(a_rank_that_fails_when_all_know_of_the_stop_fails_all),
        ranked(a_hook_that_stops_on_one_rank_when_all_would_save_stops_all),
        ranked(a_boundary_is_called_on_all_ranks_or_on_none),
        ranked(a_loss_in_the_boundary_of_a_save_recovers_all_ranks_exactly),
        ranked(a_failure_in_the_boundary_of_a_save_a_stop_or_the_close_is_that_of_all),
        ranked(an_input_that_ends_in_a_step_of_the_program_ends_the_training_of_all),
        ranked(a_rank_that_leaves_its_loop_at_a_failed_gate_has_failed_too),
        ranked(a_rank_that_leaves_when_all_recover_ends_the_recovery),
        ranked(the_ranks_agree_at_the_same_steps_after_a_recovery),
        ranked(a_death_at_any_call_ends_all_other_ranks_with_the_same_outcome),
        ranked(a_hook_asks_the_other_ranks_also_behind_a_save),
        cmocka_unit_test(a_step_function_that_stops_on_one_rank_stops_all),
        cmocka_unit_test(a_loop_that_differs_on_one_rank_ends_all),
        ranked(a_rank_that_is_lost_again_and_again_ends_all),
        ranked(the_ranks_may_agree_every_few_steps_only),
        ranked(a_resumed_run_ends_at_the_same_step),
        ranked(one_rank_trains_as_a_session_without_a_group),
        cmocka_unit_test(without_a_group_the_gate_is_open),
        cmocka_unit_test(without_a_group_an_own_loop_can_report_the_end_of_its_input),
        cmocka_unit_test(long_work_ends_before_a_stop_is_agreed),
        cmocka_unit_test(a_run_that_does_not_advance_the_step_ends_with_an_agreement),
        cmocka_unit_test(the_limit_of_a_step_is_learned),
        cmocka_unit_test(invalid_options_are_refused),
        cmocka_unit_test(ranks_with_different_programs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
