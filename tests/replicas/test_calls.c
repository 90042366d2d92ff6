/* SPDX-License-Identifier: Apache-2.0 */
/* A call that only one rank makes, in each place where ranks talk, ends all ranks with an error that names both calls. */
#include "replicas/hooked.h"

#include <hooksess/checkpoint.h>

enum { SEEDS = 4, AT = 5 }; /* rank `odd` makes the call at step AT */

typedef enum { ANY, FROM_CHIEF, GATHER, SEND_VARIABLE, SAVE, CALLS } odd_call;
static const char *const names[CALLS] = {"hs_raw_session_any", "hs_raw_session_from_chief", "hs_raw_session_gather",
                                         "hs_raw_session_send_variable", "hs_saver_save"};

typedef enum {
    INIT, /* the init_fn */
    CREATE,
    AFTER_RUN,
    CREATED,
    RUN,
    STOP,
    LAST,
    END,
    IN_OP,
    BETWEEN,     /* two runs of the program */
    STEP,        /* in a step function, after its run */
    BETWEEN_OWN, /* two steps of a loop of the program */
    IN_OWN,      /* in such a step */
    PLACES
} place;

static odd_call call;
static place where;
static int32_t odd;
static bool has_chief_hook; /* rank 0 has one more hook, which sends nothing */
static hs_hook (*make_next)(hooked_rank *rank);

static void ignore(void *user, int32_t rank, hs_bytes bytes)
{
    (void)user, (void)rank, (void)bytes;
}

static hs_code make_call(hs_raw_session *session, hs_error *err)
{
    int value = 0;
    bool any;
    switch (call) {
    case ANY:
        return hs_raw_session_any(session, true, &any, err);
    case FROM_CHIEF:
        return hs_raw_session_from_chief(session, &value, sizeof value, err);
    case GATHER:
        return hs_raw_session_gather(session, (hs_bytes){&value, sizeof value}, ignore, NULL, err);
    case SEND_VARIABLE:
        return hs_raw_session_send_variable(session, "weights", err);
    default: {
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = hs_backend_env(hs_raw_session_backend(session))), err);
        hs_code code = hs_saver_save(saver, session, "not-written", AT, NULL, err);
        hs_saver_free(saver);
        return code;
    }
    }
}

static hs_code call_here(hooked_rank *rank, place here, hs_raw_session *session, hs_error *err)
{
    return rank->rank == odd && where == here ? make_call(session, err) : HS_OK;
}

static hs_code after_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator;
    return call_here(self, CREATE, session, err);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)values;
    hs_run_context_request_boundary(run);
    return hs_run_context_global_step(run, err) == AT ? call_here(self, AFTER_RUN, hs_run_context_session(run), err)
                                                      : HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    static const place places[] = {
        [HS_BOUNDARY_CREATED] = CREATED, [HS_BOUNDARY_RUN] = RUN, [HS_BOUNDARY_STOP] = STOP, [HS_BOUNDARY_END] = LAST};
    const hs_boundary which = hs_run_context_boundary(run);
    hs_raw_session *session = hs_run_context_session(run);
    bool any;
    hs_code code = hs_raw_session_any(session, false, &any, err); /* that all make */
    if (code || (which == HS_BOUNDARY_RUN && hs_run_context_global_step(run, err) != AT))
        return code;
    return call_here(self, places[which], session, err);
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    return call_here(self, END, session, err);
}

static hs_code init(hooked_rank *rank, hs_raw_session *session, hs_error *err)
{
    return call_here(rank, INIT, session, err);
}

static void in_step(hooked_rank *rank, int64_t step)
{
    hs_error err;
    if (step == AT)
        call_here(rank, rank->of->own_loop ? IN_OWN : IN_OP, hs_session_raw(rank->session), &err);
}

static hs_code before_run(hooked_rank *rank, hs_error *err)
{
    if (hs_session_global_step(rank->session, NULL) != AT)
        return HS_OK;
    return call_here(rank, rank->of->own_loop ? BETWEEN_OWN : BETWEEN, hs_session_raw(rank->session), err);
}

static hs_code run_step(void *user, hs_step_context *step, hs_error *err)
{
    hs_raw_session *session = hs_step_context_session(step);
    hs_code code = hs_step_context_run_with_hooks(step, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
    return code || hs_raw_session_global_step(session, NULL) != AT ? code : call_here(user, STEP, session, err);
}

static const hs_hook_ops talk_ops = HS_INIT(hs_hook_ops, .name = "talk", .after_create_session = after_create,
                                            .after_run = after_run, .boundary = boundary, .end = end);

static hs_code before_silent(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)args, (void)err;
    return HS_OK;
}

static hs_code after_silent(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)values, (void)err;
    return HS_OK;
}

static hs_code create_silently(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)self, (void)session, (void)coordinator, (void)err;
    return HS_OK;
}

static hs_code end_silently(void *self, hs_raw_session *session, hs_error *err)
{
    (void)self, (void)session, (void)err;
    return HS_OK;
}

static void add_talk(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    static const hs_hook_ops silent_ops =
        HS_INIT(hs_hook_ops, .name = "silent", .after_create_session = create_silently, .before_run = before_silent,
                .after_run = after_silent, .end = end_silently);
    hooks[0] = HS_HOOK(.ops = &talk_ops, .self = rank);
    if (make_next)
        hooks[1] = make_next(rank);
    if (has_chief_hook)
        chief[0] = HS_HOOK(.ops = &silent_ops);
}

static bool is_of_program(void)
{
    return where == INIT || where >= IN_OP;
}

static void fails_on_all(hooked *h)
{
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        char text[100];
        odd = h->seed % 2 ? 1 : 0;
        has_chief_hook = h->seed > 2;
        test_empty_directory(h->directory);
        const hs_outcome *outcome = hooked_run(h); /* compares the ranks, and fails if one waits */
        if (outcome->reason != HS_REASON_FAILED)
            fail_msg("call %d in place %d, odd rank %d, seed %d: not noticed", (int)call, (int)where, (int)odd,
                     (int)h->seed);
        snprintf(text, sizeof text, odd ? "rank %d has called %s of " : ", and rank %d %s of ", (int)odd, names[call]);
        assert_contains(outcome->error.message, text);
        assert_contains(outcome->error.message, odd ? ", and rank 0 " : "rank 1 has called ");
        assert_contains(outcome->error.message, is_of_program() ? " of the program" : " of hook 'talk'");
        assert_contains(outcome->error.message, "; all ranks must make the same calls in the same order");
        assert_int_equal(outcome->error.code, HS_INVALID_ARGUMENT);
        if (h->ranks[0].opened)
            assert_int_equal(outcome->cause_rank, odd ? odd : 1);
    }
}

static void a_call_too_many_in_any_place_names_both_calls(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_talk;
    h->in_step = in_step;
    h->init = init;
    h->before_run = before_run;
    make_next = NULL;
    for (where = 0; where < PLACES; where++) {
        h->own_loop = where == BETWEEN_OWN || where == IN_OWN;
        h->run_step = where == STEP ? run_step : NULL;
        for (call = 0; call < CALLS; call++)
            fails_on_all(h);
    }
}

static hs_hook make_replica_check(hooked_rank *rank)
{
    (void)rank;
    return hs_replica_check(.every_n_steps = 1);
}

static hs_hook make_evaluation(hooked_rank *rank)
{
    (void)rank;
    return hs_evaluation(.every_n_steps = 1, .reset_ops = HS_NAMES("clear"), .eval_op = "eval",
                         .metrics = HS_NAMES("batches"));
}

static hs_hook make_guard(hooked_rank *rank)
{
    (void)rank;
    return hs_finite_guard(.losses = HS_NAMES("loss"), .policy = HS_GUARD_ROLLBACK);
}

static hs_hook make_early_stopping(hooked_rank *rank)
{
    (void)rank;
    return hs_early_stopping(.tensor = "loss", .patience = 100);
}

static hs_hook make_control(hooked_rank *rank)
{
    return hs_control(.path = hooked_path(rank->of, "control"), .knobs = HS_KNOBS({.name = "rate", .value = &rank->rate}));
}

static hs_hook make_saver(hooked_rank *rank)
{
    return hs_checkpoint_saver(.checkpoint_dir = hooked_path(rank->of, "more"), .every_n_steps = 1);
}

static void a_call_too_many_before_a_built_in_hook_names_the_hook(void **state)
{
    static const struct {
        hs_hook (*make)(hooked_rank *rank);
        const char *text;
    } hooks[] = {{make_replica_check, "of hook 'replica_check'"},
                 {make_evaluation, "of hook 'evaluation'"},
                 {make_guard, "of hook 'finite_guard'"},
                 {make_control, "of hook 'control'"},
                 {make_early_stopping, "of hook 'early_stopping'"},
                 {make_saver, "of hook 'checkpoint_saver'"}};
    hooked *h = *state;
    h->add_hooks = add_talk;
    where = RUN;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        for (call = 0; call < CALLS; call++) {
            make_next = hooks[i].make;
            fails_on_all(h);
            assert_contains(h->ranks[0].outcome.error.message, hooks[i].text);
        }
}

/* The values and the order of the verbs, and that they begin again after an error of this rank alone. */

typedef struct {
    int32_t ranks[HOOKED_RANKS];
    int n;
} gathered;

static void note(void *user, int32_t rank, hs_bytes bytes)
{
    gathered *g = user;
    assert_int_equal(rank, g->n);
    assert_int_equal(bytes.size, (size_t)rank * sizeof(int32_t));
    g->n++;
}

static hs_code speak(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const hooked_rank *rank = self;
    hs_raw_session *session = hs_run_context_session(run);
    const int32_t mine[HOOKED_RANKS] = {0}, number = hs_raw_session_rank(session);
    (void)values;
    int32_t from = number + 7;
    bool any = false;
    gathered g = {.n = 0};
    assert_int_equal(number, rank->rank);
    assert_int_equal(hs_raw_session_rank_count(session), HOOKED_RANKS);
    assert_ok(hs_raw_session_any(session, number == 2, &any, err), err);
    assert_true(any);
    assert_ok(hs_raw_session_any(session, false, &any, err), err);
    assert_false(any);
    assert_ok(hs_raw_session_any(session, false, NULL, err), err);
    assert_ok(hs_raw_session_from_chief(session, &from, sizeof from, err), err);
    assert_int_equal(from, 7);
    assert_ok(hs_raw_session_from_chief(session, NULL, 0, err), err);
    assert_ok(hs_raw_session_gather(session, (hs_bytes){mine, (size_t)number * sizeof *mine}, note, &g, err), err);
    assert_int_equal(g.n, number ? 0 : HOOKED_RANKS);
    assert_int_equal(hs_raw_session_send_variable(session, "no such", err), HS_NOT_FOUND);
    assert_int_equal(hs_raw_session_send_variable(session, NULL, err), HS_INVALID_ARGUMENT);
    assert_ok(hs_raw_session_send_variable(session, "weights", err), err);
    assert_int_equal(hs_raw_session_from_chief(session, NULL, 1, err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_raw_session_gather(session, (hs_bytes){mine, 1}, NULL, NULL, err), HS_INVALID_ARGUMENT);
    hs_error_clear(err);
    return HS_OK;
}

static void add_speaker(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "speaker", .after_run = speak);
    (void)chief;
    hooks[0] = HS_HOOK(.ops = &ops, .self = rank);
}

static void all_ranks_get_what_the_verbs_promise(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_speaker;
    assert_int_equal(hooked_run(h)->reason, HS_REASON_STOPPED);
}

static hs_code send_another(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const char *name = ((hooked_rank *)self)->rank == 1 ? "local" : "weights";
    (void)values;
    return hs_raw_session_send_variable(hs_run_context_session(run), name, err);
}

static hs_code send_too_much(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    char bytes[8] = {0};
    (void)values;
    return hs_raw_session_from_chief(hs_run_context_session(run), bytes, ((hooked_rank *)self)->rank == 1 ? 8 : 4, err);
}

static hs_hook_ops unequal_ops = HS_INIT(hs_hook_ops, .name = "unequal");

static void add_unequal(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    hooks[0] = HS_HOOK(.ops = &unequal_ops, .self = rank);
}

static void different_sizes_and_variables_fail_on_all_ranks(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_unequal;
    unequal_ops.after_run = send_too_much;
    const hs_outcome *outcome = hooked_run(h);
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_contains(outcome->error.message, "rank 1 has called hs_raw_session_from_chief of hook 'unequal' (from_chief, 8 bytes), and rank 0 ");
    unequal_ops.after_run = send_another;
    test_empty_directory(h->directory);
    outcome = hooked_run(h);
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_contains(outcome->error.message, "rank 0 sends another variable than 'local'");
}

/* A hook that only rank 0 calls sends nothing. */
static void add_alone(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)hooks;
    where = AFTER_RUN;
    call = ANY;
    chief[0] = HS_HOOK(.ops = &talk_ops, .self = rank);
}

static void a_hook_of_rank_0_alone_sends_nothing(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_alone;
    assert_int_equal(hooked_run(h)->reason, HS_REASON_STOPPED);
}

static void a_backend_that_cannot_read_or_set_variables_sends_none(void **state)
{
    (void)state;
    hs_error err;
    double w = 1;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_variable(graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_backend backend = hs_graph_backend(graph);
    for (int reads = 0; reads < 2; reads++) {
        hs_backend_ops ops = *backend.ops;
        *(reads ? (void **)&ops.write_variable : (void **)&ops.read_variable) = NULL;
        hs_session *session = hs_session_open((hs_backend){&ops, backend.self}, NULL, &err);
        assert_non_null(session);
        assert_fails(hs_raw_session_send_variable(hs_session_raw(session), "w", &err), HS_UNIMPLEMENTED, &err,
                     reads ? "cannot set variables" : "cannot read variables");
        hs_session_close(session, NULL);
    }
    hs_graph_free(graph);
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, hooked_setup, hooked_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(a_call_too_many_in_any_place_names_both_calls),
        ranked(a_call_too_many_before_a_built_in_hook_names_the_hook),
        ranked(all_ranks_get_what_the_verbs_promise),
        ranked(different_sizes_and_variables_fail_on_all_ranks),
        ranked(a_hook_of_rank_0_alone_sends_nothing),
        cmocka_unit_test(a_backend_that_cannot_read_or_set_variables_sends_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
