/* SPDX-License-Identifier: Apache-2.0 */
/* In which runs the session calls a hook: hs_hook.when. */
#include "support/test.h"

#include <hooksess/testing.h>

enum { LAST = 20 };

/* Where an actor has callbacks, and how it fetches. */
typedef enum { AFTER_ONLY, FETCHES, BEFORE, BEFORE_ONLY } shape;

/* A hook that records its callbacks. */
typedef struct actor {
    const char *name;
    shape shape;
    hs_trigger when;
    uint32_t flags;
    char text[512];          /* the steps of its after_run, or of before_run if it has only this */
    char before[512];        /* the steps of its before_run */
    char values[512];        /* its fetches */
    int64_t fails_at;        /* after_run at this step fails once. 0: never */
    hs_code code;            /* with this code */
    hs_code fails_before;    /* before_run fails once with this code */
    int64_t due_at_creation; /* hs_raw_session_due_from in after_create_session, before_run, after_run. 0: no call */
    int64_t due_in_before, due_in_after;
    int64_t requests_at;     /* after_run at this step requests a save. 0: never */
    int64_t restores_at;     /* after_run at this step restores `copy` */
    int64_t restores_before; /* the same for before_run */
    const char *makes_run;   /* after_run at the step runs_at runs this op. NULL: none */
    int64_t runs_at;
    int ends; /* after_run calls before the call of `end` */
    struct world *w;
    hs_hook_ops ops;
} actor;

/* A program: its step is in its own memory, and a run makes `by` steps. */
typedef struct world {
    hs_test_system *system;
    hs_graph *graph;
    hs_session *session;
    char *directory; /* NULL: nothing is saved */
    int64_t step, by;
    int64_t reads;    /* executions of the op "loss" */
    double secs;      /* between the runs */
    double secs_in;   /* in each run */
    int64_t fails_at; /* the run from this step fails once. -1: none */
    hs_code code;
    bool requests_then; /* a save is requested in that run; with HS_OK, it does not fail */
    hs_state_copy *copy;
    hs_outcome outcome;
    hs_error err;
    bool has_step, recovers;
    const hs_group *group; /* NULL: none */
    hs_env env;
} world;

static void note(char *to, int64_t number)
{
    size_t used = strlen(to);
    snprintf(to + used, 512 - used, " %lld", (long long)number);
}

/* The hook. */

static hs_code actor_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    actor *a = self;
    (void)coordinator;
    if (!a->due_at_creation)
        return HS_OK;
    hs_code code = hs_raw_session_run(session, NULL, NULL, err); /* a run of its own does not end the callback */
    hs_raw_session_due_from(session, a->due_at_creation);
    return code;
}

static int64_t step_of(actor *a, hs_run_context *run)
{
    return a->w->has_step ? hs_run_context_global_step(run, NULL) : 0;
}

static const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));

static hs_code actor_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    actor *a = self;
    note(a->before, step_of(a, run));
    if (a->due_in_before)
        hs_raw_session_due_from(hs_run_context_session(run), a->due_in_before);
    if (a->restores_before && step_of(a, run) == a->restores_before) {
        a->restores_before = 0;
        return hs_raw_session_restore_copy(hs_run_context_session(run), a->w->copy, err);
    }
    if (a->fails_before) {
        hs_code code = a->fails_before;
        a->fails_before = HS_OK;
        return hs_error_set(err, code, "before_run failed");
    }
    if (a->shape == BEFORE)
        *args = &wanted;
    return HS_OK;
}

static hs_code actor_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    actor *a = self;
    int64_t step = step_of(a, run);
    if (a->fails_at && step >= a->fails_at) {
        a->fails_at = 0;
        if (a->code == HS_STOP)
            note(a->text, step);
        return a->code == HS_STOP ? HS_STOP : hs_error_set(err, a->code, "after_run failed");
    }
    note(a->text, step);
    if (a->shape == FETCHES || a->shape == BEFORE)
        note(a->values, (int64_t)hs_run_values_number(values, 0));
    if (a->requests_at && step == a->requests_at)
        hs_run_context_request_save(run);
    if (a->due_in_after)
        hs_raw_session_due_from(hs_run_context_session(run), a->due_in_after);
    if (a->makes_run && step == a->runs_at)
        return hs_raw_session_run(hs_run_context_session(run), HS_RUN_ARGS(.names = (const char *[]){a->makes_run, NULL}),
                                  NULL, err);
    if (a->restores_at && step == a->restores_at) {
        a->restores_at = 0;
        return hs_raw_session_restore_copy(hs_run_context_session(run), a->w->copy, err);
    }
    return HS_OK;
}

static hs_code actor_end(void *self, hs_raw_session *session, hs_error *err)
{
    actor *a = self;
    (void)session, (void)err;
    a->ends++;
    return HS_OK;
}

static hs_hook hook_of(world *w, actor *a)
{
    static const char *const loss[] = {"loss", NULL};
    a->w = w;
    a->ops =
        (hs_hook_ops)HS_INIT(hs_hook_ops, .name = a->name ? a->name : "actor", .fetches = a->shape == FETCHES ? loss : NULL,
                             .after_create_session = actor_create, .before_run = a->shape >= BEFORE ? actor_before : NULL,
                             .after_run = a->shape == BEFORE_ONLY ? NULL : actor_after, .end = actor_end);
    return (hs_hook){.ops = &a->ops, .self = a, .flags = a->flags, .when = a->when};
}

/* The program. */

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    world *w = self;
    (void)op;
    hs_test_system_advance(w->system, w->secs_in);
    if (w->step == w->fails_at) {
        w->fails_at = -1;
        if (w->requests_then)
            hs_session_request_save(w->session);
        if (w->code)
            return hs_error_set(err, w->code, "the run failed");
    }
    w->step += w->by;
    return HS_OK;
}

static hs_code back(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ((world *)self)->step = 2;
    return HS_OK;
}

static hs_code read_loss(void *self, hs_op *op, hs_error *err)
{
    world *w = self;
    (void)err;
    w->reads++;
    *(double *)hs_op_output(op, 0)->data = 100 + (double)w->step;
    return HS_OK;
}

static void init(world *w)
{
    *w = (world){.system = hs_test_system_new(), .by = 1, .fails_at = -1, .has_step = true};
    w->env = *hs_test_system_env(w->system);
}

static int setup(void **state)
{
    world *w = calloc(1, sizeof *w);
    init(w);
    w->directory = test_make_directory();
    *state = w;
    return w->system ? 0 : -1;
}

static hs_outcome shut(world *w)
{
    w->outcome = hs_session_close(w->session, &w->err);
    hs_graph_free(w->graph);
    w->session = NULL;
    w->graph = NULL;
    return w->outcome;
}

static int teardown(void **state)
{
    world *w = *state;
    if (w->graph)
        shut(w);
    hs_state_copy_free(w->copy);
    size_t live = hs_test_system_live_blocks(w->system);
    hs_test_system_free(w->system);
    test_remove_directory(w->directory);
    free(w);
    return live ? -1 : 0;
}

/* Opens a session from the newest checkpoint in the directory, and saves there when it stops. */
static hs_code try_open(world *w, const hs_hook *hooks, size_t n)
{
    static const hs_recovery recovery = HS_INIT(hs_recovery);
    const bool saves = w->has_step && w->directory;
    hs_hook all[40] = {{.ops = NULL}};
    for (size_t i = 0; i < n; i++)
        all[i] = hooks[i];
    if (saves)
        all[n] = hs_checkpoint_saver(.checkpoint_dir = w->directory, .every_n_steps = w->recovers ? 3 : 1000);
    w->step = 0;
    w->graph = hs_graph_new(&w->env);
    if (w->has_step)
        hs_graph_global_step(w->graph, NULL, &w->step);
    const char *const writes[] = {w->has_step ? "global_step" : NULL, NULL};
    hs_graph_op(w->graph, .name = "train", .run = train, .user = w, .writes = writes);
    hs_graph_op(w->graph, .name = "back", .run = back, .user = w, .writes = writes);
    hs_graph_op(w->graph, .name = "loss", .run = read_loss, .user = w, .inputs = w->has_step ? writes : NULL,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SCALAR}), .writes = HS_NAMES(NULL));
    w->session = hs_session_open(hs_graph_backend(w->graph),
                                 HS_SESSION_OPTIONS(.hooks = all, .checkpoint_dir = saves ? w->directory : NULL,
                                                    .recovery = w->recovers ? &recovery : NULL, .group = w->group),
                                 &w->err);
    return w->err.code;
}

static void open_all(world *w, const hs_hook *hooks, size_t n)
{
    assert_ok(try_open(w, hooks, n), &w->err);
}

static void open_one(world *w, actor *a)
{
    const hs_hook hook = hook_of(w, a);
    open_all(w, &hook, 1);
}

static hs_code run_once(world *w, hs_run_kind kind)
{
    hs_code code = hs_session_run_args(w->session, HS_RUN_ARGS(.names = HS_NAMES("train"), .kind = kind), NULL, &w->err);
    hs_test_system_advance(w->system, w->secs);
    return code;
}

static void run_kind(world *w, hs_run_kind kind, int n)
{
    for (int i = 0; i < n; i++)
        assert_ok(run_once(w, kind), &w->err);
}

static void run_to(world *w, int64_t step)
{
    while (w->step < step)
        run_kind(w, HS_RUN_TRAIN, 1);
}

static void end_well(world *w)
{
    shut(w);
    assert_ok(w->outcome.error.code, &w->outcome.error);
}

/* Trains to a step with this hook in a session, from the newest checkpoint. */
static void train_to(world *w, actor *a, int64_t step)
{
    open_one(w, a);
    run_to(w, step);
    end_well(w);
}

static void fresh(world *w)
{
    test_empty_directory(w->directory);
}

/* Trains to LAST with an actor of each shape, which must act at these steps. */
static void assert_acts(world *w, hs_trigger when, const char *after_only, const char *before)
{
    for (int s = AFTER_ONLY; s <= BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = when};
        fresh(w);
        train_to(w, &a, LAST);
        if (s != BEFORE_ONLY)
            assert_string_equal(a.text, s == AFTER_ONLY ? after_only : before);
    }
}

/* One hook. */

static void fixed_fetches_are_fetched_in_the_runs_in_which_the_hook_acts_and_in_no_other(void **state)
{
    world *w = *state;
    actor a = {.shape = FETCHES, .when = HS_EVERY_STEPS(4)};
    open_one(w, &a);
    run_to(w, 3);
    assert_int_equal(w->reads, 0);
    run_to(w, 4);
    assert_int_equal(w->reads, 1);
    run_to(w, 7);
    assert_int_equal(w->reads, 1);
    run_to(w, 11);
    end_well(w);
    assert_string_equal(a.text, " 4 8");
    assert_string_equal(a.values, " 104 108");
    assert_int_equal(w->reads, 2);
    assert_int_equal(a.ends, 1);
}

static void before_run_and_after_run_are_called_only_in_the_runs_in_which_the_hook_acts(void **state)
{
    world *w = *state;
    actor a = {.shape = BEFORE, .when = HS_EVERY_STEPS(4)};
    train_to(w, &a, 11);
    assert_string_equal(a.before, " 3 7");
    assert_string_equal(a.text, " 4 8");
    assert_string_equal(a.values, " 104 108");
    assert_int_equal(w->reads, 2);
}

static void a_hook_without_conditions_is_called_in_each_run(void **state)
{
    world *w = *state;
    actor a = {.shape = FETCHES};
    train_to(w, &a, 3);
    assert_string_equal(a.text, " 1 2 3");
    assert_string_equal(a.values, " 101 102 103");
}

static void a_hook_without_after_run_is_called_when_it_is_due(void **state)
{
    world *w = *state;
    actor a = {.shape = BEFORE_ONLY, .when = HS_EVERY_STEPS(4)};
    train_to(w, &a, 11);
    assert_string_equal(a.before, " 3 7");
    train_to(w, &a, 13);
    assert_string_equal(a.before, " 3 7 11");
}

static void a_hook_with_neither_before_run_nor_after_run_may_have_conditions(void **state)
{
    static const hs_hook_ops idle = HS_INIT(hs_hook_ops, .name = "idle");
    world *w = *state;
    const hs_hook hook = {.ops = &idle, .when = HS_EVERY_STEPS(2)};
    open_all(w, &hook, 1);
    run_to(w, 5);
    end_well(w);
}

/* Steps. */

static void every_n_steps_counts_from_the_first_step_of_the_session(void **state)
{
    world *w = *state;
    assert_acts(w, HS_EVERY_STEPS(4), " 4 8 12 16 20", " 4 8 12 16 20");
    assert_acts(w, HS_TRIGGER(.every_n_steps = 4, .first = true), " 1 5 9 13 17", " 1 5 9 13 17");
    assert_acts(w, HS_EVERY_STEPS(1000), "", "");
}

static void listed_steps_are_sorted_and_act_once_each(void **state)
{
    world *w = *state;
    assert_acts(w, HS_AT_STEPS(9, 3, 0, 20, 9), " 1 3 9 20", " 1 3 9 20");
    assert_acts(w, HS_AT_STEPS(1, 2), " 1 2", " 1 2");
    assert_acts(w, HS_TRIGGER(.every_n_steps = 6, .at_steps = HS_STEPS(3, 12, 13)), " 3 6 12 13 18", " 3 6 12 13 18");
}

/* A hook decided before the run expects one step: in a run that makes more, it may act one run later. */
static void a_run_that_makes_five_steps_jumps_over_intervals_and_lists(void **state)
{
    world *w = *state;
    w->by = 5;
    assert_acts(w, HS_EVERY_STEPS(4), " 5 10 15 20", " 10 20");
    assert_acts(w, HS_EVERY_STEPS(5), " 5 10 15 20", " 10 20");
    assert_acts(w, HS_EVERY_STEPS(6), " 10 20", " 10 20");
    assert_acts(w, HS_AT_STEPS(3, 7), " 5 10", " 10");
    assert_acts(w, HS_AT_STEPS(3, 12), " 5 15", " 10 20");
    assert_acts(w, HS_AT_STEPS(1, 6, 11), " 5 10 15", " 5 10 15");
    assert_acts(w, HS_TRIGGER(.every_n_steps = 8, .at_steps = HS_STEPS(1)), " 5 10 20", " 5 15");
}

static void a_hook_called_before_a_run_is_called_after_it_whatever_the_step_became(void **state)
{
    world *w = *state;
    actor a = {.shape = BEFORE, .when = HS_EVERY_STEPS(4)}, b = {.shape = AFTER_ONLY, .when = HS_EVERY_STEPS(4)};
    const hs_hook hooks[] = {hook_of(w, &a), hook_of(w, &b)};
    open_all(w, hooks, 2);
    run_to(w, 3);
    w->by = 0; /* decided for step 4, but the run makes no step */
    run_kind(w, HS_RUN_TRAIN, 1);
    assert_string_equal(a.before, " 3");
    assert_string_equal(a.text, " 3");
    assert_string_equal(b.text, "");
    w->by = 1; /* it acted at 3, so that the next is decided for 7 */
    run_to(w, 12);
    assert_string_equal(a.before, " 3 6 10");
    assert_string_equal(a.text, " 3 7 11");
    assert_string_equal(b.text, " 4 8 12");
    w->by = -9; /* to 3 */
    run_kind(w, HS_RUN_TRAIN, 1);
    w->by = 1;
    run_to(w, 12);
    end_well(w);
    assert_string_equal(b.text, " 4 8 12 7 11");
}

static void each_hook_of_thirty_acts_at_its_own_steps(void **state)
{
    enum { N = 30 };
    world *w = *state;
    static actor a[N];
    hs_hook hooks[N];
    char names[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "hook%d", i);
        a[i] = (actor){.name = names[i], .shape = (shape)(i % 3), .when = HS_EVERY_STEPS(i + 1)};
        hooks[i] = hook_of(w, &a[i]);
    }
    open_all(w, hooks, N);
    run_to(w, 60);
    end_well(w);
    for (int i = 0; i < N; i++) {
        char expected[512] = "";
        for (int64_t step = i + 1; step <= 60; step += i + 1)
            note(expected, step);
        assert_string_equal(a[i].text, expected);
    }
}

/* First and last. */

static void first_acts_in_the_first_run_only(void **state)
{
    world *w = *state;
    assert_acts(w, HS_TRIGGER(.first = true), " 1", " 1");
    assert_acts(w, HS_TRIGGER(.first = true, .at_steps = HS_STEPS(6)), " 1 6", " 1 6");
}

static void first_alone_acts_again_in_a_resumed_session_and_after_a_recovery(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.first = true)};
        fresh(w);
        train_to(w, &a, 4);
        train_to(w, &a, 8);
        assert_string_equal(a.text, " 1 5");
        w->recovers = true;
        w->fails_at = 13;
        w->code = HS_ABORTED;
        train_to(w, &a, LAST);
        assert_string_equal(a.text, " 1 5 9 13"); /* restored at 12 */
        w->recovers = false;
    }
}

static void last_acts_when_the_session_ends_and_a_raw_run_makes_the_fetches(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.last = true)};
        fresh(w);
        open_one(w, &a);
        run_to(w, 7);
        assert_string_equal(a.text, "");
        end_well(w);
        assert_string_equal(a.text, " 7");
        assert_string_equal(a.values, s == AFTER_ONLY ? "" : " 107");
        assert_string_equal(a.before, s == BEFORE ? " 7" : "");
        assert_int_equal(a.ends, 1);
    }
}

static void last_does_not_act_again_at_a_step_at_which_the_hook_has_acted(void **state)
{
    world *w = *state;
    assert_acts(w, HS_TRIGGER(.every_n_steps = 5, .last = true), " 5 10 15 20", " 5 10 15 20");
    assert_acts(w, HS_TRIGGER(.every_n_steps = 8, .last = true), " 8 16 20", " 8 16 20");
    assert_acts(w, HS_TRIGGER(.first = true, .last = true), " 1 20", " 1 20");
    for (int s = AFTER_ONLY; s <= FETCHES; s++) {
        actor one = {.shape = (shape)s, .when = HS_TRIGGER(.first = true, .last = true)};
        fresh(w);
        train_to(w, &one, 1);
        assert_string_equal(one.text, " 1");
    }
    actor a = {.when = HS_TRIGGER(.every_n_steps = 4, .last = true), .fails_at = 4, .code = HS_STOP};
    fresh(w);
    open_one(w, &a);
    while (!hs_session_should_stop(w->session))
        hs_session_run(w->session, "train", &w->err);
    end_well(w);
    assert_string_equal(a.text, " 4");
}

static void last_acts_at_a_step_that_another_than_a_hooked_run_has_made(void **state)
{
    world *w = *state;
    for (int backwards = 0; backwards < 2; backwards++) {
        actor a = {.when = HS_TRIGGER(.every_n_steps = 4, .last = true)};
        fresh(w);
        open_one(w, &a);
        run_to(w, 4);
        if (backwards)
            assert_ok(hs_session_run(w->session, "back", &w->err), &w->err);
        else
            assert_ok(
                hs_raw_session_run(hs_session_raw(w->session), HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, &w->err),
                &w->err);
        end_well(w);
        assert_string_equal(a.text, backwards ? " 4 2" : " 4 5");
    }
}

static void last_acts_after_runs_that_make_no_step(void **state)
{
    world *w = *state;
    actor a = {.when = HS_TRIGGER(.last = true)};
    w->by = 0;
    open_one(w, &a);
    run_kind(w, HS_RUN_TRAIN, 2);
    end_well(w);
    assert_string_equal(a.text, " 0");
}

static void last_does_not_act_before_any_run_nor_after_a_failure(void **state)
{
    world *w = *state;
    actor a = {.shape = FETCHES, .when = HS_TRIGGER(.last = true)};
    open_one(w, &a);
    end_well(w);
    train_to(w, &a, 4);
    assert_string_equal(a.text, " 4");
    open_one(w, &a); /* complete: no run */
    end_well(w);
    assert_string_equal(a.text, " 4");
    open_one(w, &a);
    run_to(w, 6);
    w->fails_at = 6;
    w->code = HS_INTERNAL;
    assert_int_equal(run_once(w, HS_RUN_TRAIN), HS_INTERNAL);
    shut(w);
    assert_int_equal(w->outcome.reason, HS_REASON_FAILED);
    assert_string_equal(a.text, " 4");
}

static void last_does_not_shift_the_interval_of_the_next_session(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .last = true)};
        fresh(w);
        train_to(w, &a, 6);
        train_to(w, &a, 13);
        assert_string_equal(a.text, " 4 6 8 12 13");
    }
}

/* Requests. */

static void a_request_acts_once_and_does_not_shift_the_interval(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .on_request = true)};
        actor deaf = {.name = "deaf", .shape = (shape)s, .when = HS_EVERY_STEPS(4)};
        const hs_hook hooks[] = {hook_of(w, &a), hook_of(w, &deaf)};
        fresh(w);
        open_all(w, hooks, 2);
        hs_session_request_save(w->session);
        run_to(w, 6);
        hs_session_request_save(w->session);
        hs_session_request_save(w->session);
        run_to(w, 11);
        hs_session_request_save(w->session);
        run_to(w, 13);
        end_well(w);
        assert_string_equal(a.text, " 1 4 7 8 12");
        assert_string_equal(deaf.text, " 4 8 12");
    }
}

static void a_request_in_a_run_acts_after_it_or_in_the_next_run(void **state)
{
    world *w = *state;
    w->requests_then = true;
    w->code = HS_OK;
    for (int s = AFTER_ONLY; s <= FETCHES; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.on_request = true)};
        fresh(w);
        w->fails_at = 4;
        train_to(w, &a, 8);
        assert_string_equal(a.text, s == AFTER_ONLY ? " 5" : " 6");
    }
}

static void a_request_that_comes_while_the_hook_acts_acts_in_the_next_run(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .on_request = true), .requests_at = 4};
        fresh(w);
        open_one(w, &a);
        run_to(w, 9);
        end_well(w);
        assert_string_equal(a.text, " 4 5 8");
    }
}

static void a_request_waits_for_a_run_of_the_hooks_kind(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.on_request = true)};
        fresh(w);
        open_one(w, &a);
        run_to(w, 2);
        hs_session_request_save(w->session);
        run_kind(w, HS_RUN_EVAL, 2);
        assert_string_equal(a.text, "");
        run_to(w, 7);
        end_well(w);
        assert_string_equal(a.text, " 5");
    }
}

static void a_request_that_no_hook_has_seen_survives_a_recovery(void **state)
{
    world *w = *state;
    w->recovers = w->requests_then = true;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.on_request = true)};
        fresh(w);
        w->fails_at = 7;
        w->code = HS_ABORTED;
        train_to(w, &a, 12);
        assert_string_equal(a.text, " 7"); /* restored at 6 */
    }
}

/* Seconds. The clock is read at the beginning of a run. */

static void every_n_secs_counts_from_the_last_act_by_the_clock_at_the_beginning_of_a_run(void **state)
{
    world *w = *state;
    w->secs = 6;
    assert_acts(w, HS_EVERY_SECS(10), " 3 5 7 9 11 13 15 17 19", " 3 5 7 9 11 13 15 17 19");
    assert_acts(w, HS_TRIGGER(.every_n_secs = 50, .first = true), " 1 10 19", " 1 10 19");
    w->secs = 0;
    w->secs_in = 6; /* a run that takes long is seen by the next one */
    assert_acts(w, HS_EVERY_SECS(10), " 3 5 7 9 11 13 15 17 19", " 3 5 7 9 11 13 15 17 19");
    w->secs_in = 11;
    actor a = {.when = HS_EVERY_SECS(10)};
    fresh(w);
    train_to(w, &a, 1);
    assert_string_equal(a.text, "");
}

static void a_hook_decided_after_the_run_waits_with_its_seconds_until_the_step_advances(void **state)
{
    world *w = *state;
    actor a = {.when = HS_EVERY_SECS(10)}, b = {.name = "b", .shape = FETCHES, .when = HS_EVERY_SECS(10)};
    const hs_hook hooks[] = {hook_of(w, &a), hook_of(w, &b)};
    w->secs = 10;
    open_all(w, hooks, 2);
    run_to(w, 3);
    w->by = 0;
    run_kind(w, HS_RUN_TRAIN, 3);
    assert_string_equal(a.text, " 2 3");
    assert_string_equal(b.text, " 2 3 3 3 3");
    w->by = 1;
    run_kind(w, HS_RUN_TRAIN, 1);
    end_well(w);
    assert_string_equal(a.text, " 2 3 4");
}

static void each_condition_restarts_the_seconds_and_seconds_do_not_shift_the_steps(void **state)
{
    world *w = *state;
    w->secs = 6;
    assert_acts(w, HS_TRIGGER(.every_n_steps = 4, .every_n_secs = 10), " 3 4 6 8 10 12 14 16 18 20",
                " 3 4 6 8 10 12 14 16 18 20");
    assert_acts(w, HS_TRIGGER(.every_n_secs = 30, .at_steps = HS_STEPS(4, 15)), " 4 9 14 15 20", " 4 9 14 15 20");
}

static void after_a_resume_the_seconds_begin_again(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 100, .every_n_secs = 10)};
        fresh(w);
        w->secs = 6;
        train_to(w, &a, 4);
        hs_test_system_advance(w->system, 1000);
        train_to(w, &a, 8);
        assert_string_equal(a.text, " 3 7");
    }
}

static void without_a_global_step_seconds_requests_first_last_and_runs_work(void **state)
{
    world *w = *state;
    w->has_step = false;
    w->secs = 6;
    actor a[] = {{.name = "secs", .when = HS_EVERY_SECS(10)},
                 {.name = "request", .when = HS_TRIGGER(.on_request = true)},
                 {.name = "ends", .when = HS_TRIGGER(.first = true, .last = true)},
                 {.name = "runs", .when = HS_TRIGGER(.every_n_steps = 3, .counts_runs = true)}};
    const hs_hook hooks[] = {hook_of(w, &a[0]), hook_of(w, &a[1]), hook_of(w, &a[2]), hook_of(w, &a[3])};
    open_all(w, hooks, 4);
    run_kind(w, HS_RUN_TRAIN, 4);
    hs_session_request_save(w->session);
    run_kind(w, HS_RUN_TRAIN, 5);
    end_well(w);
    assert_string_equal(a[0].text, " 0 0 0 0");
    assert_string_equal(a[1].text, " 0");
    assert_string_equal(a[2].text, " 0 0");
    assert_string_equal(a[3].text, " 0 0 0");
}

/* Runs instead of steps. */

static void counts_runs_counts_the_successful_runs_of_the_hooks_kinds(void **state)
{
    world *w = *state;
    actor a[] = {
        {.name = "train", .when = HS_TRIGGER(.every_n_steps = 3, .counts_runs = true)},
        {.name = "eval", .flags = HS_HOOK_EVAL, .when = HS_TRIGGER(.every_n_steps = 2, .counts_runs = true)},
        {.name = "aux",
         .flags = HS_HOOK_AUX,
         .shape = FETCHES,
         .when = HS_TRIGGER(.at_steps = HS_STEPS(2, 3), .counts_runs = true)},
        {.name = "both",
         .flags = HS_HOOK_TRAIN | HS_HOOK_EVAL,
         .shape = FETCHES,
         .when = HS_TRIGGER(.every_n_steps = 4, .first = true, .counts_runs = true)},
        {.name = "steps", .flags = HS_HOOK_EVAL, .when = HS_EVERY_STEPS(4)},
    };
    const hs_hook hooks[] = {hook_of(w, &a[0]), hook_of(w, &a[1]), hook_of(w, &a[2]), hook_of(w, &a[3]), hook_of(w, &a[4])};
    open_all(w, hooks, 5);
    w->by = 0; /* the runs make no step */
    run_kind(w, HS_RUN_TRAIN, 3);
    assert_string_equal(a[0].text, " 0");
    w->by = 1;
    run_kind(w, HS_RUN_EVAL, 3);
    assert_string_equal(a[1].text, " 2");
    run_kind(w, HS_RUN_AUX, 4);
    assert_string_equal(a[2].text, " 5 6");
    assert_string_equal(a[3].text, " 0 2");
    run_kind(w, HS_RUN_TRAIN, 3);
    assert_string_equal(a[0].text, " 0 10");
    assert_string_equal(a[3].text, " 0 2 10");
    run_kind(w, HS_RUN_EVAL, 1);
    end_well(w);
    assert_string_equal(a[1].text, " 2 11");
    assert_string_equal(a[4].text, " 11");
}

static void a_failed_run_is_not_counted(void **state)
{
    world *w = *state;
    actor a = {.shape = FETCHES, .when = HS_TRIGGER(.every_n_steps = 3, .counts_runs = true)};
    open_one(w, &a);
    run_to(w, 2);
    w->fails_at = 2;
    w->code = HS_INTERNAL;
    assert_int_equal(run_once(w, HS_RUN_TRAIN), HS_INTERNAL);
    run_to(w, 7);
    shut(w);
    assert_string_equal(a.text, " 3 6");
}

/* Refusals. */

static void assert_refused(world *w, actor a, hs_code code, const char *message)
{
    const hs_hook hook = hook_of(w, &a);
    assert_fails(try_open(w, &hook, 1), code, &w->err, message);
    assert_null(w->session);
    hs_graph_free(w->graph);
    w->graph = NULL;
}

static void invalid_conditions_are_refused_with_the_name_of_the_hook(void **state)
{
    static const char *const lost[] = {"lost", NULL};
    world *w = *state;
    const hs_code invalid = HS_INVALID_ARGUMENT;
    assert_refused(w, (actor){.when = HS_EVERY_STEPS(-1)}, invalid, "hook 'actor': when: every_n_steps is -1");
    assert_refused(w, (actor){.when = HS_EVERY_SECS(-1)}, invalid, "hook 'actor': when: every_n_secs is -1");
    assert_refused(w, (actor){.when = HS_EVERY_SECS(2e9)}, invalid, "hook 'actor': when: every_n_secs is 2e+09");
    assert_refused(w, (actor){.when = HS_AT_STEPS(3, -5)}, invalid, "hook 'actor': when: at_steps[1] is -5");
    assert_refused(w, (actor){.when = {.at_steps = HS_STEPS(-1)}}, invalid, "hook 'actor': when: it never fires");
    actor a = {.name = "reader", .when = HS_EVERY_STEPS(2)};
    hs_hook hook = hook_of(w, &a);
    a.ops.fetches = lost;
    assert_fails(try_open(w, &hook, 1), HS_NOT_FOUND, &w->err, "hook 'reader'");
    assert_contains(w->err.message, "'lost'");
    hs_graph_free(w->graph);
    w->graph = NULL;
    w->has_step = false;
    assert_refused(w, (actor){.when = HS_EVERY_STEPS(2)}, HS_FAILED_PRECONDITION, "hook 'actor': ");
    assert_refused(w, (actor){.when = HS_AT_STEPS(2)}, HS_FAILED_PRECONDITION, "no global step");
}

/* Resumes. */

typedef struct {
    hs_trigger when;
    const char *acts;
} plan;

static const plan plans[] = {
    {{.every_n_steps = 4}, " 4 8 12 16 20"},
    {{.every_n_steps = 4, .first = true}, " 1 5 9 13 17"},
    {{.at_steps = HS_STEPS(0, 4, 5, 9, 19)}, " 1 4 5 9 19"},
    {{.at_steps = HS_STEPS(6), .first = true}, " 1 6"},
    {{.every_n_steps = 4, .at_steps = HS_STEPS(3, 5)}, " 3 4 5 8 12 16 20"},
    {{.every_n_steps = 3, .counts_runs = true}, " 3 6 9 12 15 18"},
    {{.at_steps = HS_STEPS(2, 7, 8), .counts_runs = true}, " 2 7 8"},
    {{.every_n_steps = 5, .at_steps = HS_STEPS(6), .first = true, .counts_runs = true}, " 1 6 11 16"},
};
enum { N_PLANS = sizeof plans / sizeof *plans };

static void a_training_resumed_at_any_step_acts_as_an_uninterrupted_one(void **state)
{
    world *w = *state;
    for (int i = 0; i < N_PLANS; i++)
        for (int s = AFTER_ONLY; s <= FETCHES; s++)
            for (int64_t at = 0; at <= LAST; at++) {
                actor a = {.shape = (shape)s, .when = plans[i].when};
                fresh(w);
                train_to(w, &a, at);
                if (at % 5 == 4)
                    train_to(w, &a, at); /* without a run */
                train_to(w, &a, LAST);
                if (strcmp(a.text, plans[i].acts) != 0)
                    fail_msg("plan %d, shape %d, resumed at %lld: '%s'", i, s, (long long)at, a.text);
            }
}

static void a_training_resumed_after_each_step_acts_as_an_uninterrupted_one(void **state)
{
    world *w = *state;
    for (int i = 0; i < N_PLANS; i++)
        for (int s = AFTER_ONLY; s <= FETCHES; s++) {
            actor a = {.shape = (shape)s, .when = plans[i].when};
            fresh(w);
            for (int64_t at = 1; at <= LAST; at++)
                train_to(w, &a, at);
            assert_string_equal(a.text, plans[i].acts);
        }
}

static void two_hooks_of_one_name_keep_their_own_positions(void **state)
{
    world *w = *state;
    for (int64_t at = 1; at < LAST; at++) {
        actor none = {.when = HS_TRIGGER(.last = true)}; /* has no position */
        actor a = {.when = HS_EVERY_STEPS(6)}, b = {.when = HS_TRIGGER(.every_n_steps = 7, .first = true)};
        const hs_hook hooks[] = {hook_of(w, &none), hook_of(w, &a), hook_of(w, &b)};
        fresh(w);
        open_all(w, hooks, 3);
        run_to(w, at);
        end_well(w);
        open_all(w, hooks, 3);
        run_to(w, LAST);
        end_well(w);
        assert_string_equal(a.text, " 6 12 18");
        assert_string_equal(b.text, " 1 8 15");
    }
}

static void assert_position(const char *prefix, const char *key, int64_t counts_from, int64_t next_listed, int64_t runs)
{
    hs_error err;
    int64_t position[3];
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, prefix, &err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_read(reader, key, position, sizeof position, &err), &err);
    hs_checkpoint_close(reader);
    assert_int_equal(position[0], counts_from);
    assert_int_equal(position[1], next_listed);
    assert_int_equal(position[2], runs);
}

static void checkpoints_have_the_positions_as_the_page_of_file_formats_says(void **state)
{
    world *w = *state;
    w->secs = 6;
    actor a[] = {{.when = HS_TRIGGER(.every_n_steps = 4, .every_n_secs = 10)},
                 {.when = HS_TRIGGER(.at_steps = HS_STEPS(5, 11, 15), .every_n_secs = 10)},
                 {.when = HS_TRIGGER(.every_n_steps = 3, .first = true, .counts_runs = true)},
                 {.name = "secs", .when = HS_EVERY_SECS(10)}};
    const hs_hook hooks[] = {hook_of(w, &a[0]), hook_of(w, &a[1]), hook_of(w, &a[2]), hook_of(w, &a[3])};
    open_all(w, hooks, 4);
    run_to(w, 10);
    end_well(w);
    char prefix[512];
    snprintf(prefix, sizeof prefix, "%s/model.ckpt-0", w->directory); /* before the first run */
    assert_position(prefix, "hooksess/schedule/actor", -1, -1, 0);
    assert_position(prefix, "hooksess/schedule/actor#2", -1, -1, 0);
    snprintf(prefix, sizeof prefix, "%s/model.ckpt-10", w->directory);
    assert_position(prefix, "hooksess/schedule/actor", 8, -1, 0);
    assert_position(prefix, "hooksess/schedule/actor#2", 0, 11, 0);
    assert_position(prefix, "hooksess/schedule/actor#3", 10, -1, 10);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, prefix, &w->err);
    assert_int_equal(hs_checkpoint_find(reader, "hooksess/schedule/secs", NULL, &w->err), HS_NOT_FOUND);
    hs_checkpoint_close(reader);
}

static void from_a_checkpoint_without_positions_the_conditions_begin_at_its_step(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(3, 9))};
        fresh(w);
        open_all(w, NULL, 0);
        run_to(w, 6);
        end_well(w);
        train_to(w, &a, LAST);
        assert_string_equal(a.text, " 9 10 14 18");
    }
}

static void newly_listed_steps_act_if_they_are_still_to_come(void **state)
{
    world *w = *state;
    actor a = {.when = HS_AT_STEPS(2)};
    train_to(w, &a, 5);
    a.when = HS_AT_STEPS(2, 3, 8);
    train_to(w, &a, 9);
    a.when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(10)); /* counts from the begin of the first session */
    train_to(w, &a, LAST);
    assert_string_equal(a.text, " 2 8 10 12 16 20");
}

static void who_stopped_the_training_and_who_acted_before_do_not_act_again_after_the_resume(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.name = "a", .shape = (shape)s, .when = HS_EVERY_STEPS(4)};
        actor stop = {.name = "stop", .shape = (shape)s, .when = HS_EVERY_STEPS(4), .fails_at = 4, .code = HS_STOP};
        actor late = {.name = "late", .shape = (shape)s, .when = HS_EVERY_STEPS(4)};
        actor listed = {.name = "listed", .shape = (shape)s, .when = HS_AT_STEPS(4, 7)};
        const hs_hook hooks[] = {hook_of(w, &a), hook_of(w, &stop), hook_of(w, &late), hook_of(w, &listed)};
        fresh(w);
        open_all(w, hooks, 4);
        while (!hs_session_should_stop(w->session))
            hs_session_run(w->session, "train", &w->err);
        end_well(w);
        assert_int_equal(w->outcome.reason, HS_REASON_STOPPED);
        assert_string_equal(w->outcome.hook, "stop");
        open_all(w, hooks, 4);
        run_to(w, 9);
        end_well(w);
        assert_string_equal(a.text, " 4 8");
        assert_string_equal(stop.text, " 4 8");
        assert_string_equal(late.text, " 5 9"); /* it was skipped at 4 */
        assert_string_equal(listed.text, " 5 7");
    }
}

static void a_run_that_a_hook_makes_counts_for_the_hooks_behind_it(void **state)
{
    world *w = *state;
    actor front = {.name = "front", .when = HS_EVERY_STEPS(4)}, runs = {.name = "runs", .makes_run = "train", .runs_at = 3};
    actor behind = {.name = "behind", .when = HS_EVERY_STEPS(4)};
    actor before = {.name = "before", .shape = FETCHES, .when = HS_EVERY_STEPS(4)};
    const hs_hook hooks[] = {hook_of(w, &front), hook_of(w, &runs), hook_of(w, &behind), hook_of(w, &before)};
    open_all(w, hooks, 4);
    run_to(w, 9);
    end_well(w);
    assert_string_equal(front.text, " 5 9");
    assert_string_equal(runs.text, " 1 2 3 5 6 7 8 9");
    assert_string_equal(behind.text, " 4 8");
    assert_string_equal(before.text, " 5 9");
    front.text[0] = runs.text[0] = behind.text[0] = before.text[0] = '\0';
    runs.makes_run = "back"; /* to 2: the intervals begin again */
    runs.runs_at = 5;
    fresh(w);
    open_all(w, hooks, 4);
    run_to(w, 4);
    run_kind(w, HS_RUN_TRAIN, 1);
    runs.makes_run = NULL;
    run_to(w, 7);
    end_well(w);
    assert_string_equal(runs.text, " 1 2 3 4 5 3 4 5 6 7");
    assert_string_equal(front.text, " 4 6");
    assert_string_equal(behind.text, " 4 6");
    assert_string_equal(before.text, " 4 6");
}

/* Recoveries, rollbacks, failures. */

/* Adds the steps of a text that are above `from` and not above `to`. */
static void note_between(char *to_text, const char *text, int64_t from, int64_t to)
{
    for (char *end; *text; text = end) {
        const int64_t step = strtoll(text, &end, 10);
        if (step > from && step <= to)
            note(to_text, step);
    }
}

static void after_a_recovery_the_hook_acts_again_at_the_steps_that_are_made_again(void **state)
{
    world *w = *state;
    w->recovers = true; /* with a checkpoint at 3, 6, 9 ... */
    w->code = HS_ABORTED;
    for (int i = 0; i < 5; i++)
        for (int s = AFTER_ONLY; s <= FETCHES; s++) {
            actor whole = {.shape = (shape)s, .when = plans[i].when};
            fresh(w);
            train_to(w, &whole, LAST);
            for (int64_t at = 1; at < LAST; at += 2) {
                actor a = {.shape = (shape)s, .when = plans[i].when};
                char expected[512] = "";
                fresh(w);
                w->fails_at = at;
                train_to(w, &a, LAST);
                note_between(expected, whole.text, 0, at);
                note_between(expected, whole.text, at - at % 3, LAST); /* from the checkpoint on */
                if (strcmp(a.text, expected) != 0)
                    fail_msg("plan %d, shape %d, lost at %lld: '%s', not '%s'", i, s, (long long)at, a.text, expected);
            }
        }
}

static void after_a_rollback_the_hook_acts_by_the_restored_position(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(7))};
        fresh(w);
        open_one(w, &a);
        run_to(w, 6);
        assert_ok(hs_raw_session_copy_state(hs_session_raw(w->session), &w->copy, &w->err), &w->err);
        run_to(w, 10);
        assert_string_equal(a.text, " 4 7 8");
        assert_ok(hs_raw_session_restore_copy(hs_session_raw(w->session), w->copy, &w->err), &w->err);
        assert_int_equal(w->step, 6);
        run_to(w, 13);
        end_well(w);
        assert_string_equal(a.text, " 4 7 8 7 8 12");
    }
}

static void after_a_rollback_counted_runs_continue_and_seconds_begin_again(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s <= FETCHES; s++) {
        actor runs = {.name = "runs", .shape = (shape)s, .when = {.every_n_steps = 4, .counts_runs = true}};
        actor secs = {.name = "secs", .shape = (shape)s, .when = {.every_n_steps = 100, .every_n_secs = 10}};
        for (int which = 0; which < 2; which++) {
            actor *a = which ? &secs : &runs;
            fresh(w);
            w->secs = 6;
            open_one(w, a);
            run_to(w, 5);
            assert_ok(hs_raw_session_copy_state(hs_session_raw(w->session), &w->copy, &w->err), &w->err);
            run_to(w, 6);
            assert_ok(hs_raw_session_restore_copy(hs_session_raw(w->session), w->copy, &w->err), &w->err);
            run_to(w, 9);
            end_well(w);
            hs_state_copy_free(w->copy);
            w->copy = NULL;
        }
        assert_string_equal(runs.text, " 4 8");
        assert_string_equal(secs.text, " 3 5 8");
    }
}

static void a_rollback_in_before_run_leaves_the_restored_positions(void **state)
{
    world *w = *state;
    actor a = {.when = HS_AT_STEPS(5)}, b = {.name = "b", .when = HS_EVERY_STEPS(3)};
    actor rolls = {.name = "rolls", .shape = BEFORE_ONLY, .restores_before = 1};
    const hs_hook hooks[] = {hook_of(w, &a), hook_of(w, &rolls), hook_of(w, &b)};
    open_all(w, hooks, 3);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(w->session), &w->copy, &w->err), &w->err);
    run_kind(w, HS_RUN_TRAIN, 2);
    assert_int_equal(w->step, 1);
    run_to(w, 8);
    end_well(w);
    assert_string_equal(a.text, " 5");
    assert_string_equal(b.text, " 4 7"); /* counted from the first step after the rollback */
}

/* The hooks act in the run of the rollback, in front of the hook that makes it and behind it. */
static void a_rollback_by_a_hook_leaves_the_restored_positions_of_all_hooks(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor front = {.name = "front", .shape = (shape)s, .when = HS_EVERY_STEPS(5)};
        actor rolls = {.name = "rolls", .shape = (shape)s, .when = HS_EVERY_STEPS(5), .restores_at = 10};
        actor behind = {.name = "behind", .shape = (shape)s, .when = HS_EVERY_STEPS(5)};
        const hs_hook hooks[] = {hook_of(w, &front), hook_of(w, &rolls), hook_of(w, &behind)};
        fresh(w);
        open_all(w, hooks, 3);
        run_to(w, 7);
        assert_ok(hs_raw_session_copy_state(hs_session_raw(w->session), &w->copy, &w->err), &w->err);
        run_to(w, 9);
        run_kind(w, HS_RUN_TRAIN, 1);
        assert_int_equal(w->step, 7);
        run_to(w, 16);
        end_well(w);
        assert_string_equal(front.text, " 5 10 10 15");
        assert_string_equal(rolls.text, " 5 10 10 15");
        /* decided before the run, it is called after it, and reads the restored step */
        assert_string_equal(behind.text, s == AFTER_ONLY ? " 5 10 15" : " 5 7 10 15");
    }
}

static void first_alone_acts_again_after_a_rollback(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++)
        for (int secs = 0; secs < 2; secs++) {
            actor a = {.shape = (shape)s, .when = HS_TRIGGER(.first = true, .every_n_secs = secs ? 1e6 : 0)};
            fresh(w);
            open_one(w, &a);
            assert_ok(hs_raw_session_copy_state(hs_session_raw(w->session), &w->copy, &w->err), &w->err);
            run_to(w, 4);
            assert_string_equal(a.text, " 1");
            assert_ok(hs_raw_session_restore_copy(hs_session_raw(w->session), w->copy, &w->err), &w->err);
            assert_int_equal(w->step, 0);
            run_to(w, 6);
            end_well(w);
            assert_string_equal(a.text, " 1 1");
            hs_state_copy_free(w->copy);
            w->copy = NULL;
        }
}

static void after_a_rollback_and_no_further_run_last_acts_at_the_restored_step(void **state)
{
    world *w = *state;
    actor a = {.shape = FETCHES, .when = HS_TRIGGER(.every_n_steps = 4, .last = true)};
    open_one(w, &a);
    run_to(w, 6);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(w->session), &w->copy, &w->err), &w->err);
    run_to(w, 9);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(w->session), w->copy, &w->err), &w->err);
    end_well(w);
    assert_string_equal(a.text, " 4 8 6");
    assert_string_equal(a.values, " 104 108 106");
}

static void after_the_program_sets_the_step_back_the_intervals_begin_again(void **state)
{
    world *w = *state;
    for (int in_run = 0; in_run < 2; in_run++)
        for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
            actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(5, 7))};
            fresh(w);
            open_one(w, &a);
            run_to(w, 10);
            assert_string_equal(a.text, " 4 5 7 8");
            if (in_run)
                assert_ok(hs_session_run(w->session, "back", &w->err), &w->err);
            else
                assert_ok(
                    hs_raw_session_run(hs_session_raw(w->session), HS_RUN_ARGS(.names = HS_NAMES("back")), NULL, &w->err),
                    &w->err);
            run_to(w, 11);
            end_well(w);
            assert_string_equal(a.text, " 4 5 7 8 5 6 7 10");
        }
}

static void after_a_failed_run_the_hook_is_still_due(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(10))};
        fresh(w);
        w->code = HS_INTERNAL;
        open_one(w, &a);
        for (int64_t at = 3; at < 12; at += 3) { /* the runs to 4, 7 and 10 */
            w->fails_at = at;
            run_to(w, at);
            assert_int_equal(run_once(w, HS_RUN_TRAIN), HS_INTERNAL);
        }
        run_to(w, 13);
        shut(w);
        assert_string_equal(a.text, " 4 8 10 12");
        assert_string_equal(a.before, s == BEFORE ? " 3 3 7 9 9 11" : "");
    }
}

static void a_hook_that_fails_has_acted_and_the_hooks_behind_it_are_due_again(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor front = {.name = "front", .shape = (shape)s, .when = HS_EVERY_STEPS(4)};
        actor fails = {.name = "fails", .shape = (shape)s, .when = HS_EVERY_STEPS(4), .fails_at = 4, .code = HS_INTERNAL};
        actor behind = {.name = "behind", .shape = (shape)s, .when = HS_EVERY_STEPS(4)};
        const hs_hook hooks[] = {hook_of(w, &front), hook_of(w, &fails), hook_of(w, &behind)};
        fresh(w);
        open_all(w, hooks, 3);
        run_to(w, 3);
        assert_fails(run_once(w, HS_RUN_TRAIN), HS_INTERNAL, &w->err, "hook 'fails'");
        run_to(w, 8);
        shut(w);
        assert_string_equal(front.text, " 4 8");
        assert_string_equal(fails.text, " 8");
        assert_string_equal(behind.text, " 5");
    }
}

static void a_best_effort_hook_continues_its_schedule_after_its_backoff(void **state)
{
    world *w = *state;
    for (int in_before = 0; in_before < 2; in_before++)
        for (int s = in_before ? BEFORE : AFTER_ONLY; s < BEFORE_ONLY; s++) {
            actor a = {.shape = (shape)s, .when = HS_EVERY_STEPS(4), .fails_at = in_before ? 0 : 4, .code = HS_INTERNAL};
            actor b = {.name = "b", .shape = (shape)s, .when = HS_EVERY_STEPS(4)};
            const hs_hook hooks[] = {hs_hook_best_effort(hook_of(w, &a), 0), hook_of(w, &b)};
            a.fails_before = in_before ? HS_INTERNAL : HS_OK;
            fresh(w);
            open_all(w, hooks, 2);
            run_to(w, 6);
            assert_string_equal(a.text, "");
            hs_test_system_advance(w->system, 1);
            run_to(w, 12);
            end_well(w);
            assert_string_equal(a.text, in_before ? " 7 11" : " 8 12"); /* what failed before a run is due again */
            assert_string_equal(b.text, " 4 8 12");
        }
}

/* The next due step, set by the hook itself. */

static void due_from_calls_the_hook_in_each_run_at_or_past_the_step(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .due_at_creation = 6};
        fresh(w);
        train_to(w, &a, 4);
        assert_string_equal(a.text, "");
        train_to(w, &a, 8);
        assert_string_equal(a.text, " 6 7 8");
        w->by = 10;
        train_to(w, &a, 28); /* resumed past it */
        assert_string_equal(a.text, " 6 7 8 18 28");
        w->by = 1;
    }
    w->by = 5; /* a jump over the step */
    actor a = {.due_at_creation = 8};
    fresh(w);
    train_to(w, &a, LAST);
    assert_string_equal(a.text, " 10 15 20");
}

static void due_from_comes_besides_the_conditions_and_is_replaced(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .when = HS_EVERY_STEPS(4), .due_at_creation = 6, .due_in_after = HS_NEVER};
        fresh(w);
        train_to(w, &a, 13);
        assert_string_equal(a.text, " 4 8 12"); /* cleared at 4 */
        a = (actor){.shape = (shape)s, .when = HS_EVERY_STEPS(8), .due_at_creation = 3, .due_in_after = 5};
        fresh(w);
        train_to(w, &a, 8);
        assert_string_equal(a.text, " 3 5 6 7 8");
        a = (actor){.shape = (shape)s, .when = HS_EVERY_STEPS(4), .due_at_creation = HS_NEVER};
        fresh(w);
        train_to(w, &a, 9);
        assert_string_equal(a.text, " 4 8");
    }
}

static void due_from_in_a_callback_of_a_hook_without_conditions_counts_from_the_next_run(void **state)
{
    world *w = *state;
    actor a = {.shape = BEFORE, .due_in_before = 5}, b = {.name = "b", .due_in_after = 7};
    actor c = {.name = "c", .shape = FETCHES, .due_at_creation = HS_NEVER}, d = {.name = "d", .due_in_after = HS_NEVER};
    const hs_hook hooks[] = {hook_of(w, &a), hook_of(w, &b), hook_of(w, &c), hook_of(w, &d)};
    open_all(w, hooks, 4);
    run_to(w, 8);
    end_well(w);
    assert_string_equal(a.before, " 0 4 5 6 7");
    assert_string_equal(a.text, " 1 5 6 7 8");
    assert_string_equal(b.text, " 1 7 8");
    assert_string_equal(c.text, "");
    assert_int_equal(w->reads, 5); /* a alone */
    assert_string_equal(d.text, " 1");
    hs_raw_session_due_from(NULL, 1);
}

static void due_from_by_the_program_changes_no_hook(void **state)
{
    world *w = *state;
    actor a = {.when = HS_EVERY_STEPS(4), .due_at_creation = HS_NEVER};
    char *directory = w->directory;
    w->directory = NULL; /* no saver, whose callbacks would be the last ones */
    open_one(w, &a);
    w->directory = directory;
    hs_raw_session_due_from(hs_session_raw(w->session), 1);
    run_to(w, 5);
    hs_raw_session_due_from(hs_session_raw(w->session), 1);
    run_to(w, 9);
    end_well(w);
    assert_string_equal(a.text, " 4 8");
}

static void due_from_a_step_that_has_passed_is_each_run_and_without_a_global_step_none(void **state)
{
    world *w = *state;
    for (int s = AFTER_ONLY; s < BEFORE_ONLY; s++) {
        actor a = {.shape = (shape)s, .due_at_creation = INT64_MIN};
        fresh(w);
        train_to(w, &a, 2);
        assert_string_equal(a.text, " 1 2");
        actor b = {.shape = (shape)s, .due_at_creation = 2};
        w->has_step = false;
        open_one(w, &b);
        run_kind(w, HS_RUN_TRAIN, 5);
        end_well(w);
        assert_string_equal(b.text, "");
        w->has_step = true;
    }
}

/* Groups. */

enum { RANKS = 3, ACTORS = 6 };

typedef struct member {
    world w;
    actor actors[ACTORS];
    hs_code code; /* of the opening, or of the first run that failed */
} member;

typedef struct {
    member members[RANKS];
    int64_t requested_before; /* rank `requesting` requests a save before the run to this step. 0: never */
    int32_t requesting;
    int64_t stops_at; /* of the uneven ranks: a hook on rank 1 stops at this step. 0: never */
    char *directory;
    int64_t last_step; /* of the saving ranks */
    hs_trigger other;  /* of the first hook on rank 1, if it is set */
} team;

/* A world on a rank of the simulation, with the clock and the log of its own system. */
static void init_rank(world *w, const hs_group *group)
{
    init(w);
    w->env = *hs_simulation_env(group);
    w->env.clock = hs_test_system_env(w->system)->clock;
    w->env.logger = hs_test_system_env(w->system)->logger;
    w->group = group;
}

static int end_rank(world *w)
{
    shut(w);
    hs_test_system_free(w->system);
    return 0;
}

/* Rank 0's clock is ahead, and advances by 6 s in a run; the others' clocks advance by 1 s and by 50 s. */
static int run_rank(void *user, const hs_group *group)
{
    const int32_t rank = group->ops->rank(group->self);
    team *t = user;
    member *m = &t->members[rank];
    world *w = &m->w;
    actor *a = m->actors;
    init_rank(w, group);
    w->secs = rank == 0 ? 6 : rank == 1 ? 1 : 50;
    hs_test_system_advance(w->system, 1e6 * (RANKS - rank));
    a[0] = (actor){.name = "secs", .when = HS_EVERY_SECS(10)};
    a[1] = (actor){.name = "before", .shape = FETCHES, .when = HS_EVERY_SECS(10)};
    a[2] = (actor){.name = "request", .when = HS_TRIGGER(.on_request = true)};
    a[3] = (actor){.name = "fetched", .shape = FETCHES, .when = HS_TRIGGER(.on_request = true, .last = true)};
    a[4] = (actor){.name = "steps", .shape = BEFORE, .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(6))};
    a[5] = (actor){.name = "chief", .flags = HS_HOOK_TRAIN | HS_HOOK_CHIEF_ONLY, .when = HS_EVERY_SECS(10)};
    if (t->other.every_n_steps && rank == 1)
        a[4].when = t->other;
    hs_hook hooks[ACTORS];
    for (int i = 0; i < ACTORS; i++)
        hooks[i] = hook_of(w, &a[i]);
    m->code = try_open(w, hooks, ACTORS);
    while (!m->code && w->step < 12) {
        if (w->step + 1 == t->requested_before && rank == t->requesting)
            hs_session_request_save(w->session);
        m->code = run_once(w, HS_RUN_TRAIN);
    }
    return end_rank(w);
}

static void run_simulation(team *t, uint64_t seed, int (*run)(void *user, const hs_group *group))
{
    hs_error err;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = RANKS, .seed = seed, .main = run, .user = t), &err);
    assert_non_null(simulation);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    hs_simulation_free(simulation);
}

static void assert_team_acts(const team *t, int which, const char *text)
{
    for (int rank = 0; rank < RANKS; rank++) {
        const member *m = &t->members[rank];
        assert_int_equal(m->code, HS_OK);
        assert_ok(m->w.outcome.error.code, &m->w.outcome.error);
        assert_string_equal(m->actors[which].text, text);
    }
}

static void in_a_group_all_ranks_act_by_the_clock_of_rank_0_in_the_next_run(void **state)
{
    (void)state;
    team t = {.requested_before = 0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_simulation(&t, seed, run_rank);
        assert_team_acts(&t, 0, " 4 6 8 10 12");
        assert_team_acts(&t, 1, " 4 6 8 10 12");
        assert_team_acts(&t, 2, "");
        assert_team_acts(&t, 3, " 12");
        assert_team_acts(&t, 4, " 4 6 8 12");
        assert_string_equal(t.members[0].actors[5].text, " 3 5 7 9 11"); /* by its own clock */
        assert_string_equal(t.members[1].actors[5].text, "");
    }
}

static void in_a_group_a_request_on_any_rank_acts_on_all_ranks_in_the_next_run(void **state)
{
    (void)state;
    team t = {.requested_before = 5};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        t.requesting = (int32_t)seed % RANKS;
        run_simulation(&t, seed, run_rank);
        assert_team_acts(&t, 2, " 6");
        assert_team_acts(&t, 3, " 6 12");
    }
}

/* Rank 0 has another hook of the same name in front. Files are outside of the simulation. */
static int run_saving_rank(void *user, const hs_group *group)
{
    team *t = user;
    member *m = &t->members[group->ops->rank(group->self)];
    world *w = &m->w;
    init(w);
    w->group = group;
    w->directory = t->directory;
    m->actors[0] = (actor){.flags = HS_HOOK_TRAIN | HS_HOOK_CHIEF_ONLY, .when = HS_EVERY_STEPS(4)};
    m->actors[1] = (actor){.when = HS_EVERY_STEPS(3)};
    m->actors[2] = (actor){.name = "stop", .fails_at = t->stops_at && m == &t->members[1] ? t->stops_at : 0};
    m->actors[2].code = HS_STOP;
    const hs_hook hooks[] = {hook_of(w, &m->actors[2]), hook_of(w, &m->actors[0]), hook_of(w, &m->actors[1])};
    m->code = try_open(w, hooks, 3);
    while (!m->code && w->step < t->last_step && !hs_session_should_stop(w->session))
        m->code = run_once(w, HS_RUN_TRAIN);
    m->code = m->code == HS_STOP ? HS_OK : m->code;
    return end_rank(w);
}

static void in_a_group_all_ranks_restore_the_position_of_the_same_hook(void **state)
{
    team t = {.directory = ((world *)*state)->directory, .last_step = 5};
    run_simulation(&t, 1, run_saving_rank);
    assert_team_acts(&t, 1, " 3");
    t.last_step = 12;
    run_simulation(&t, 1, run_saving_rank);
    assert_team_acts(&t, 1, " 6 9 12");
    assert_string_equal(t.members[0].actors[0].text, " 8 12");
}

static void in_a_group_a_stop_that_skips_the_hook_on_one_rank_leaves_the_position_of_rank_0(void **state)
{
    team t = {.directory = ((world *)*state)->directory, .last_step = 5, .stops_at = 3};
    run_simulation(&t, 1, run_saving_rank);
    assert_string_equal(t.members[0].actors[1].text, " 3");
    assert_string_equal(t.members[1].actors[1].text, "");
    for (int rank = 0; rank < RANKS; rank++)
        assert_ok(t.members[rank].w.outcome.error.code, &t.members[rank].w.outcome.error);
    t.last_step = 7;
    t.stops_at = 0;
    run_simulation(&t, 1, run_saving_rank);
    assert_team_acts(&t, 1, " 6");
}

static void in_a_group_different_conditions_are_refused(void **state)
{
    (void)state;
    team t = {.other = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(7))};
    run_simulation(&t, 1, run_rank);
    for (int rank = 0; rank < RANKS; rank++)
        assert_says(&t.members[rank].w.err, HS_INVALID_ARGUMENT, "rank 1 differs from rank 0: it has hook 'steps'");
    t.other = HS_EVERY_STEPS(5);
    run_simulation(&t, 1, run_rank);
    assert_int_equal(t.members[0].code, HS_INVALID_ARGUMENT);
}

/* A hook of all ranks that may stop on rank 1 alone, hooks behind it, and one of rank 0 that needs the step. The run from
 * step 6 goes back to 3. */
static int run_uneven_rank(void *user, const hs_group *group)
{
    const int32_t rank = group->ops->rank(group->self);
    team *t = user;
    member *m = &t->members[rank];
    world *w = &m->w;
    actor *a = m->actors;
    init_rank(w, group);
    w->secs = 1;
    a[0] = (actor){.name = "stop", .when = HS_EVERY_SECS(1), .fails_at = t->stops_at && rank == 1 ? t->stops_at : 0};
    a[0].code = HS_STOP;
    a[1] = (actor){.name = "last", .shape = FETCHES, .when = HS_TRIGGER(.every_n_secs = 1, .last = true)};
    a[2] = (actor){.name = "first", .when = HS_TRIGGER(.first = true)};
    a[3] = (actor){.name = "secs", .shape = FETCHES, .when = HS_EVERY_SECS(4)};
    a[4] = (actor){.name = "chief", .flags = HS_HOOK_TRAIN | HS_HOOK_CHIEF_ONLY, .when = HS_EVERY_STEPS(4)};
    const int from = t->stops_at ? 0 : 2; /* the first two act in each run, and so see each step */
    hs_hook hooks[5];
    for (int i = from; i < 5; i++)
        hooks[i] = hook_of(w, &a[i]);
    m->code = try_open(w, hooks + from, 5 - (size_t)from);
    for (bool was_set_back = false; !m->code && w->step < 12 && !hs_session_should_stop(w->session);) {
        w->by = w->step == 6 && !was_set_back ? -3 : 1;
        was_set_back |= w->by < 0;
        m->code = run_once(w, HS_RUN_TRAIN);
        m->code = m->code == HS_STOP ? HS_OK : m->code;
    }
    return end_rank(w);
}

static void in_a_group_all_ranks_see_that_the_step_is_set_back(void **state)
{
    (void)state;
    team t = {.stops_at = 0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_simulation(&t, seed, run_uneven_rank);
        assert_team_acts(&t, 2, " 1 3");
        assert_team_acts(&t, 3, t.members[0].actors[3].text);
    }
}

static void in_a_group_all_ranks_act_last_together_also_if_one_has_stopped_before_its_act(void **state)
{
    (void)state;
    team t = {.stops_at = 5};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_simulation(&t, seed, run_uneven_rank);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_ok(t.members[rank].w.outcome.error.code, &t.members[rank].w.outcome.error);
            assert_string_equal(t.members[rank].actors[1].text, rank == 1 ? " 3 4 5" : " 3 4 5 5");
        }
    }
}

#define when_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        when_test(fixed_fetches_are_fetched_in_the_runs_in_which_the_hook_acts_and_in_no_other),
        when_test(before_run_and_after_run_are_called_only_in_the_runs_in_which_the_hook_acts),
        when_test(a_hook_without_conditions_is_called_in_each_run),
        when_test(a_hook_without_after_run_is_called_when_it_is_due),
        when_test(a_hook_with_neither_before_run_nor_after_run_may_have_conditions),
        when_test(every_n_steps_counts_from_the_first_step_of_the_session),
        when_test(listed_steps_are_sorted_and_act_once_each),
        when_test(a_run_that_makes_five_steps_jumps_over_intervals_and_lists),
        when_test(a_hook_called_before_a_run_is_called_after_it_whatever_the_step_became),
        when_test(each_hook_of_thirty_acts_at_its_own_steps),
        when_test(first_acts_in_the_first_run_only),
        when_test(first_alone_acts_again_in_a_resumed_session_and_after_a_recovery),
        when_test(last_acts_when_the_session_ends_and_a_raw_run_makes_the_fetches),
        when_test(last_does_not_act_again_at_a_step_at_which_the_hook_has_acted),
        when_test(last_acts_at_a_step_that_another_than_a_hooked_run_has_made),
        when_test(last_acts_after_runs_that_make_no_step),
        when_test(last_does_not_act_before_any_run_nor_after_a_failure),
        when_test(last_does_not_shift_the_interval_of_the_next_session),
        when_test(a_request_acts_once_and_does_not_shift_the_interval),
        when_test(a_request_in_a_run_acts_after_it_or_in_the_next_run),
        when_test(a_request_that_comes_while_the_hook_acts_acts_in_the_next_run),
        when_test(a_request_waits_for_a_run_of_the_hooks_kind),
        when_test(a_request_that_no_hook_has_seen_survives_a_recovery),
        when_test(every_n_secs_counts_from_the_last_act_by_the_clock_at_the_beginning_of_a_run),
        when_test(a_hook_decided_after_the_run_waits_with_its_seconds_until_the_step_advances),
        when_test(each_condition_restarts_the_seconds_and_seconds_do_not_shift_the_steps),
        when_test(after_a_resume_the_seconds_begin_again),
        when_test(without_a_global_step_seconds_requests_first_last_and_runs_work),
        when_test(counts_runs_counts_the_successful_runs_of_the_hooks_kinds),
        when_test(a_failed_run_is_not_counted),
        when_test(invalid_conditions_are_refused_with_the_name_of_the_hook),
        when_test(a_training_resumed_at_any_step_acts_as_an_uninterrupted_one),
        when_test(a_training_resumed_after_each_step_acts_as_an_uninterrupted_one),
        when_test(two_hooks_of_one_name_keep_their_own_positions),
        when_test(checkpoints_have_the_positions_as_the_page_of_file_formats_says),
        when_test(from_a_checkpoint_without_positions_the_conditions_begin_at_its_step),
        when_test(newly_listed_steps_act_if_they_are_still_to_come),
        when_test(who_stopped_the_training_and_who_acted_before_do_not_act_again_after_the_resume),
        when_test(a_run_that_a_hook_makes_counts_for_the_hooks_behind_it),
        when_test(after_a_recovery_the_hook_acts_again_at_the_steps_that_are_made_again),
        when_test(after_a_rollback_the_hook_acts_by_the_restored_position),
        when_test(after_a_rollback_counted_runs_continue_and_seconds_begin_again),
        when_test(a_rollback_in_before_run_leaves_the_restored_positions),
        when_test(a_rollback_by_a_hook_leaves_the_restored_positions_of_all_hooks),
        when_test(first_alone_acts_again_after_a_rollback),
        when_test(after_a_rollback_and_no_further_run_last_acts_at_the_restored_step),
        when_test(after_the_program_sets_the_step_back_the_intervals_begin_again),
        when_test(after_a_failed_run_the_hook_is_still_due),
        when_test(a_hook_that_fails_has_acted_and_the_hooks_behind_it_are_due_again),
        when_test(a_best_effort_hook_continues_its_schedule_after_its_backoff),
        when_test(due_from_calls_the_hook_in_each_run_at_or_past_the_step),
        when_test(due_from_comes_besides_the_conditions_and_is_replaced),
        when_test(due_from_in_a_callback_of_a_hook_without_conditions_counts_from_the_next_run),
        when_test(due_from_by_the_program_changes_no_hook),
        when_test(due_from_a_step_that_has_passed_is_each_run_and_without_a_global_step_none),
        cmocka_unit_test(in_a_group_all_ranks_act_by_the_clock_of_rank_0_in_the_next_run),
        cmocka_unit_test(in_a_group_a_request_on_any_rank_acts_on_all_ranks_in_the_next_run),
        when_test(in_a_group_all_ranks_restore_the_position_of_the_same_hook),
        cmocka_unit_test(in_a_group_all_ranks_see_that_the_step_is_set_back),
        cmocka_unit_test(in_a_group_all_ranks_act_last_together_also_if_one_has_stopped_before_its_act),
        when_test(in_a_group_a_stop_that_skips_the_hook_on_one_rank_leaves_the_position_of_rank_0),
        cmocka_unit_test(in_a_group_different_conditions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
