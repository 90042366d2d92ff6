/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas/ranks.h"

#include "session/session.h"

#include <math.h>

typedef struct {
    ranks *r;
    const hs_group *group;
    int32_t rank;
    double parameters[RANKS_PARAMETERS], gradients[RANKS_PARAMETERS], loss;
    int64_t position, samples, step;
    hs_session *session;
    bool was_lost;
    hs_env env;
} program;

static void count(program *p, double loss)
{
    p->loss = loss;
    p->r->steps_made[p->rank]++;
}

static bool is_at(const program *p, ranks_event event, int64_t step)
{
    const ranks *r = p->r;
    bool found = r->event == event && r->event_rank == p->rank && r->event_step == step;
    for (int i = 0; i < RANKS_MORE; i++)
        found |= r->more[i].event == event && r->more[i].rank == p->rank && r->more[i].step == step;
    return found;
}

static bool happens(const program *p, ranks_event event)
{
    return is_at(p, event, hs_session_global_step(p->session, NULL));
}

/* Events of losses happen once, so that a recovery ends them. */
static hs_code lose(program *p, bool here, hs_error *err)
{
    if (!here || p->was_lost)
        return HS_OK;
    p->was_lost = true;
    return hs_error_set(err, HS_UNAVAILABLE, "the device is lost");
}

/* From this step on. */
static bool input_is_over(const program *p)
{
    const int64_t step = hs_session_global_step(p->session, NULL);
    const ranks *r = p->r;
    bool found = r->event == INPUT_ENDS && r->event_rank == p->rank && r->event_step <= step;
    for (int i = 0; i < RANKS_MORE; i++)
        found |= r->more[i].event == INPUT_ENDS && r->more[i].rank == p->rank && r->more[i].step <= step;
    return found;
}

/* The events in a step, before the gate. */
static hs_code before_gate(program *p, hs_error *err)
{
    if (happens(p, REQUESTS_STOP))
        hs_session_interrupt(p->session);
    if (happens(p, REQUESTS_STOP_UNSAVED))
        hs__add_stops(p->session, HS__STOP_OUTSIDE); /* as the second signal */
    if (happens(p, OP_FAILS))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the op has failed");
    if (input_is_over(p) && hs_session_has_input(p->session)) {
        if (!p->r->own_loop)
            return hs_error_set(err, HS_OUT_OF_RANGE, "no more samples");
        hs_session_end_input(p->session);
    }
    if (happens(p, IS_LOST_ALWAYS))
        return hs_error_set(err, HS_UNAVAILABLE, "the device is lost");
    return lose(p, happens(p, IS_LOST), err);
}

static void compute_gradients(program *p)
{
    int64_t sample = p->position + (p->r->per_rank_position ? 0 : p->rank);
    double x = (double)(sample % 7) - 3, target = 2 * x + 1, y = 0;
    for (int i = 0; i < RANKS_PARAMETERS; i++)
        y += p->parameters[i] * pow(x, i);
    for (int i = 0; i < RANKS_PARAMETERS; i++)
        p->gradients[i] = (y - target) * pow(x, i);
    if (!hs_session_has_input(p->session))
        memset(p->gradients, 0, sizeof p->gradients);
    count(p, happens(p, LOSS_IS_NAN) ? (double)NAN : (y - target) * (y - target));
}

static hs_code update(program *p, hs_error *err)
{
    double sum[RANKS_PARAMETERS + 1];
    memcpy(sum, p->gradients, sizeof p->gradients);
    sum[RANKS_PARAMETERS] =
        !hs_session_has_input(p->session) ? 0 : (double)(p->position + (p->r->per_rank_position ? 0 : p->rank));
    if (happens(p, OP_FAILS_LATE))
        return hs_error_set(err, HS_INTERNAL, "failed behind the gate");
    hs_code code = hs_simulation_sum(p->group, sum, RANKS_PARAMETERS + 1, err);
    if (code)
        return code;
    for (int i = 0; i < RANKS_PARAMETERS; i++)
        p->parameters[i] -= 0.001 * sum[i] / p->r->rank_count;
    p->samples += (int64_t)sum[RANKS_PARAMETERS];
    p->position += p->r->rank_count;
    return HS_OK;
}

static hs_code train(void *user, hs_op *op, hs_error *err)
{
    program *p = user;
    hs_code code = before_gate(p, err);
    if (code)
        return code;
    compute_gradients(p);
    if (!p->r->no_gate && (code = hs_op_pass_gate(op, err)))
        return code;
    return update(p, err);
}

/* A hook that every rank has. */

static hs_code hook_before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)run, (void)args;
    if (happens(self, BEFORE_RUN_STOPS))
        return HS_STOP;
    if (happens(self, BEFORE_RUN_FAILS))
        return hs_error_set(err, HS_INTERNAL, "before_run failed");
    return lose(self, happens(self, BEFORE_RUN_IS_LOST), err);
}

static hs_code hook_after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    program *p = self;
    int64_t step = hs_run_context_global_step(run, NULL);
    (void)values;
    if (is_at(p, HOOK_STOPS, step))
        hs_run_context_request_stop(run);
    if (is_at(p, BOUNDARY_FAILS, step) || is_at(p, BOUNDARY_STOPS, step) || is_at(p, IS_LOST_IN_BOUNDARY, step))
        hs_run_context_request_boundary(run);
    if (is_at(p, AFTER_RUN_FAILS, step))
        return hs_error_set(err, HS_INTERNAL, "after_run failed");
    return is_at(p, AFTER_RUN_STOPS, step) ? HS_STOP : lose(p, is_at(p, AFTER_RUN_IS_LOST, step), err);
}

static hs_code hook_boundary(void *self, hs_run_context *run, hs_error *err)
{
    program *p = self;
    int64_t step = hs_run_context_global_step(run, NULL);
    hs_boundary which = hs_run_context_boundary(run);
    if (which == HS_BOUNDARY_CREATED && is_at(p, OPENING_FAILS, step))
        return hs_error_set(err, HS_INTERNAL, "boundary failed");
    if (which == HS_BOUNDARY_END && is_at(p, CLOSING_FAILS, step))
        return hs_error_set(err, HS_INTERNAL, "boundary failed");
    p->r->stopped[p->rank] |= which == HS_BOUNDARY_STOP;
    if (which == HS_BOUNDARY_STOP && is_at(p, STOPPING_FAILS, step))
        return hs_error_set(err, HS_INTERNAL, "boundary failed");
    if (which != HS_BOUNDARY_RUN)
        return HS_OK;
    if (is_at(p, BOUNDARY_FAILS, step))
        return hs_error_set(err, HS_INTERNAL, "boundary failed");
    return is_at(p, BOUNDARY_STOPS, step) ? HS_STOP : lose(p, is_at(p, IS_LOST_IN_BOUNDARY, step), err);
}

static const hs_hook_ops hook_ops = HS_INIT(hs_hook_ops, .name = "event", .before_run = hook_before_run,
                                            .after_run = hook_after_run, .boundary = hook_boundary);

/* hs_session_run_step_fn */
static hs_code run_and_fail(void *user, hs_step_context *step, hs_error *err)
{
    (void)user;
    hs_code code = hs_step_context_run_with_hooks(step, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
    return code ? code : hs_error_set(err, HS_INTERNAL, "the step has failed");
}

static void run_own_loop(program *p)
{
    hs_error err;
    while (hs_step_begin(p->session)) {
        if (happens(p, LEAVES_STEP))
            return;
        hs_code code = before_gate(p, &err);
        if (!code) {
            compute_gradients(p);
            if (p->r->no_gate || hs_step_pass_gate(p->session) == HS_OK)
                code = update(p, &err);
            else if (happens(p, LEAVES_AT_GATE))
                return;
        }
        if (code) {
            hs_session_fail(p->session, &err);
            return;
        }
        if (happens(p, FAILS_IN_STEP))
            hs_session_fail(p->session, test_error(HS_INTERNAL, "the step has failed"));
        if (hs_step_end(p->session) == HS_OK && happens(p, LEAVES_LOOP))
            return;
    }
}

static void run_ops(program *p)
{
    while (!hs_session_should_stop(p->session)) {
        hs_code code = happens(p, FAILS_IN_STEP) ? hs_session_run_step(p->session, run_and_fail, p, NULL)
                                                 : hs_session_run(p->session, "train", NULL);
        if (code == HS_ABORTED && p->r->repeats)
            continue;
        if (code || happens(p, LEAVES_LOOP))
            return;
        if (happens(p, FAILS_SESSION)) {
            hs_session_fail(p->session, test_error(HS_INTERNAL, "the program has failed"));
            return;
        }
    }
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((program *)self)->position, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((program *)self)->position, sizeof(int64_t), err);
}

/* The smallest of the saved positions is the first sample that no rank has seen. */
static hs_code reshard_position(void *self, hs_state_reader *const *saved, int32_t n_saved, int32_t rank,
                                int32_t rank_count, hs_error *err)
{
    program *p = self;
    int64_t first = INT64_MAX, position;
    hs_code code = HS_OK;
    for (int32_t i = 0; !code && i < n_saved; i++)
        if (!(code = hs_state_reader_read(saved[i], &position, sizeof position, err)) && position < first)
            first = position;
    assert_int_equal(rank_count, p->r->rank_count);
    p->position = first + rank;
    return code;
}

static hs_graph *make_graph(program *p)
{
    const ranks *r = p->r;
    hs_graph *graph = hs_graph_new(&p->env);
    hs_graph_variable(graph, "parameters", HS_DOUBLE, HS_SHAPE(RANKS_PARAMETERS), p->parameters);
    if (r->reshards)
        hs_graph_add_state(graph, HS_STATE_PROVIDER(.name = "position", .save = save_position, .load = load_position,
                                                    .self = p, .scope = r->scope, .reshard = reshard_position));
    else
        hs_graph_bytes(graph, "position", &p->position, sizeof p->position, r->scope);
    hs_graph_bytes(graph, "samples", &p->samples, sizeof p->samples);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &p->loss);
    hs_graph_global_step(graph, NULL, &p->step);
    if (!r->own_loop)
        hs_graph_op(graph, .name = "train", .run = train, .user = p, .writes = HS_NAMES("parameters", "loss"),
                    .advances_step = true);
    return graph;
}

static hs_session *open_session(program *p, hs_graph *graph, hs_error *err)
{
    ranks *r = p->r;
    const hs_hook stop = hs_stop_at_step(.last_step = r->steps), nan = hs_nan_tensor(.tensor = "loss");
    const hs_hook own = HS_HOOK(.ops = &hook_ops, .self = p);
    const hs_hook hooks[] = {own, nan, r->chief_stops ? (hs_hook){0} : stop, {0}};
    const hs_hook chief_only[] = {r->chief_stops ? stop : (hs_hook){0}, {0}};
    const hs_recovery recovery = HS_INIT(hs_recovery, .max_attempts = 3, .return_aborted = r->repeats);
    const hs_replica_options replicas =
        HS_INIT(hs_replica_options, .end_of_input = r->end_of_input, .initial_values = HS_FROM_CHIEF,
                .agree_every_n_steps = r->every_n, .step_secs = HS_LEARNED);
    return hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = r->directory, .save_checkpoint_steps = RANKS_SAVE_STEPS,
                            .log_step_count_steps = HS_NEVER, .save_summaries_steps = HS_NEVER, .no_graph_def = true,
                            .background = r->background, .recovery = &recovery, .group = p->group, .replicas = &replicas,
                            .hooks = hooks, .chief_only_hooks = chief_only),
        err);
}

static int run_rank(void *user, const hs_group *group)
{
    ranks *r = user;
    program *p = calloc(1, sizeof *p);
    hs_error err = {0};
    p->r = r;
    p->group = group;
    p->rank = group->ops->rank(group->self);
    p->parameters[0] = p->rank; /* the chief's values count */
    p->position = r->per_rank_position ? p->rank : 0;
    hs_test_system *system = hs_test_system_new();
    assert_non_null(system);
    p->env = *hs_simulation_env(group);
    p->env.allocator = hs_test_system_env(system)->allocator;
    hs_test_system_fail_allocation(system, r->alloc_rank == p->rank ? r->alloc_at : 0);
    hs_graph *graph = make_graph(p);
    p->session = open_session(p, graph, &err);
    r->opened[p->rank] = !p->session ? 0 : hs_session_should_stop(p->session) ? 2 : 1;
    r->saved_at_opening[p->rank] = hs_raw_session_last_saved_step(hs_session_raw(p->session));
    if (p->session && r->own_loop)
        run_own_loop(p);
    else if (p->session)
        run_ops(p);
    if (r->stopped[p->rank])
        p->position += 1000; /* what a program changes after a stop is not saved */
    hs_outcome outcome = hs_session_close(p->session, &err);
    hs_graph_free(graph);
    r->allocations[p->rank] = hs_test_system_allocations(system);
    r->leaks += hs_test_system_live_blocks(system);
    hs_test_system_free(system);
    if (!hs_simulation_is_killed(group)) {
        r->ended[p->rank] = true;
        r->outcomes[p->rank] = outcome;
        r->samples[p->rank] = p->samples;
        memcpy(r->parameters[p->rank], p->parameters, sizeof p->parameters);
    }
    free(p);
    return 0;
}

uint64_t ranks_number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

void ranks_run(ranks *r)
{
    memset(r->ended, 0, sizeof r->ended);
    memset(r->steps_made, 0, sizeof r->steps_made);
    memset(r->opened, 0, sizeof r->opened);
    memset(r->stopped, 0, sizeof r->stopped);
    r->leaks = 0;
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.main = run_rank, .user = r, .seed = r->seed, .rank_count = r->rank_count, .env = r->env),
        &r->error);
    assert_non_null(simulation);
    if (r->arrange)
        r->arrange(r, simulation);
    r->code = hs_simulation_run(simulation, &r->error);
    for (int32_t i = 0; i < r->rank_count; i++) {
        r->collectives[i] = hs_simulation_collectives(simulation, i);
        r->file_calls[i] = hs_simulation_file_calls(simulation, i);
    }
    r->timed_out = strstr(hs_simulation_trace(simulation), " has waited for ");
    if (r->code && getenv("RANKS_TRACE"))
        fputs(hs_simulation_trace(simulation), stderr);
    hs_simulation_free(simulation);
}

static bool is_loss(ranks_event event)
{
    return event == IS_LOST || event == IS_LOST_ALWAYS || event == IS_LOST_IN_BOUNDARY || event == BEFORE_RUN_IS_LOST ||
           event == AFTER_RUN_IS_LOST;
}

/* True if only some ranks may have restored their state, in a recovery that fails; or if a rank may have left the group in
 * a step that the others make. */
static bool steps_may_differ(const ranks *r, const hs_outcome *outcome)
{
    bool may = is_loss(r->event) || (r->own_loop && r->event == FAILS_IN_STEP);
    for (int i = 0; i < RANKS_MORE; i++)
        may |= is_loss(r->more[i].event) || (r->own_loop && r->more[i].event == FAILS_IN_STEP);
    return may && outcome->reason == HS_REASON_FAILED;
}

const hs_outcome *ranks_outcome(const ranks *r)
{
    const hs_outcome *first = NULL;
    if (r->code)
        fail_msg("seed %llu: %s", (unsigned long long)r->seed, r->error.message);
    for (int32_t i = 0; i < r->rank_count; i++) {
        const hs_outcome *outcome = &r->outcomes[i];
        if (!r->ended[i])
            continue;
        assert_int_equal(outcome->rank, r->opened[i] ? i : 0);
        if (!first)
            first = outcome;
        /* if a rank dies during a save, rank 0 may still complete it */
        bool same_save = outcome->last_saved_step == first->last_saved_step || outcome->error.code == HS_UNAVAILABLE;
        bool same_step = outcome->step == first->step || steps_may_differ(r, outcome);
        bool same_error = strcmp(outcome->error.message, first->error.message) == 0 &&
                          hs_outcome_exit_code(outcome) == hs_outcome_exit_code(first);
        /* if a rank dies at the opening, some ranks may already know why the others cannot open */
        if (!r->opened[i] && (outcome->error.code == HS_UNAVAILABLE || first->error.code == HS_UNAVAILABLE))
            same_error = true;
        if (outcome->reason != first->reason || !same_step || !same_save || !same_error ||
            outcome->interrupted != first->interrupted || outcome->cause_rank != first->cause_rank ||
            strcmp(outcome->hook, first->hook) != 0)
            fail_msg(
                "seed %llu: rank %d: %s at %lld, saved %lld, interrupted %d, cause %d, hook '%s', exit %d: %s; rank %d: %s "
                "at %lld, saved %lld, interrupted %d, cause %d, hook '%s', exit %d: %s (%s)",
                (unsigned long long)r->seed, (int)i, hs_reason_name(outcome->reason), (long long)outcome->step,
                (long long)outcome->last_saved_step, (int)outcome->interrupted, (int)outcome->cause_rank, outcome->hook,
                hs_outcome_exit_code(outcome), outcome->error.message, (int)first->rank, hs_reason_name(first->reason),
                (long long)first->step, (long long)first->last_saved_step, (int)first->interrupted, (int)first->cause_rank,
                first->hook, hs_outcome_exit_code(first), first->error.message, r->what ? r->what : "");
    }
    assert_non_null(first);
    return first;
}

void ranks_check_parameters(const ranks *r, const double *wanted)
{
    for (int32_t i = 0; i < r->rank_count; i++)
        if (r->ended[i])
            assert_memory_equal(r->parameters[i], wanted, sizeof r->parameters[i]);
}
