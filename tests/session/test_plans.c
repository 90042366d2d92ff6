/* SPDX-License-Identifier: Apache-2.0 */
/* Which fetches reach the backend, run after run, while runs with equal requests share one plan. */
#include "support/test.h"

#include <hooksess/graph.h>
#include <hooksess/testing.h>

enum { HOOKS = 6, NAMES = 6, RUNS = 3000 };

static const char *const names[NAMES] = {"zero", "one", "two", "three", "four", "five"};

typedef struct {
    const char *fetched[3];
    hs_hook_ops ops;
    bool called;     /* in this run */
    bool fails;      /* its next call fails, and the session leaves it out for a while */
    uint64_t random; /* of a hook with before_run */
    hs_run_args args;
} reader;

typedef struct {
    double number;
    bool executed; /* by this run of the graph */
} value;

typedef struct {
    uint64_t random;
    hs_test_system *system;
    hs_script *script; /* the backend is one of the two */
    hs_graph *graph;
    hs_session *session;
    reader readers[HOOKS];
    value values[NAMES];
} world;

static unsigned draw(uint64_t *random, unsigned below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*random >> 33) % below;
}

static unsigned any(world *w, unsigned below)
{
    return draw(&w->random, below);
}

static void check_values(const hs_run_values *values, const char *const *fetched)
{
    size_t n = 0;
    for (; fetched[n]; n++)
        for (int k = 0; k < NAMES; k++)
            if (strcmp(fetched[n], names[k]) == 0)
                assert_true(hs_run_values_number(values, n) == k);
    assert_int_equal(hs_run_values_count(values), n);
}

static hs_code read_values(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    reader *r = self;
    (void)run;
    r->called = true;
    check_values(values, r->fetched);
    bool fails = r->fails;
    r->fails = false;
    return fails ? hs_error_set(err, HS_INTERNAL, "the disk is full") : HS_OK;
}

/* Mostly requests the same as in the run before. */
static hs_code decide(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    reader *r = self;
    (void)run;
    if (draw(&r->random, 4) == 0) {
        r->fetched[0] = draw(&r->random, 3) ? names[draw(&r->random, NAMES)] : NULL;
        r->fetched[1] = draw(&r->random, 2) ? names[draw(&r->random, NAMES)] : NULL;
    }
    r->args = (hs_run_args)HS_INIT(hs_run_args, .names = r->fetched);
    if (r->fetched[0])
        *args = &r->args;
    bool fails = r->fails;
    r->fails = false;
    return fails ? hs_error_set(err, HS_INTERNAL, "the disk is full") : HS_OK;
}

static hs_hook deciding_hook(reader *r, uint64_t random)
{
    r->random = random;
    r->ops = (hs_hook_ops)HS_INIT(hs_hook_ops, .name = "deciding", .before_run = decide, .after_run = read_values);
    return (hs_hook){.ops = &r->ops, .self = r};
}

static hs_hook reader_hook(reader *r, const char *first, const char *second)
{
    r->fetched[0] = first;
    r->fetched[1] = second;
    r->ops = (hs_hook_ops)HS_INIT(hs_hook_ops, .name = "reader", .fetches = r->fetched, .after_run = read_values);
    return (hs_hook){.ops = &r->ops, .self = r};
}

/* Adds what is fetched to the description of the run, each name once. */
static void add_once(char *text, const char *const *fetched)
{
    char item[16];
    for (; *fetched; fetched++) {
        snprintf(item, sizeof item, " %s", *fetched);
        if (!strstr(text, item))
            strcat(text, item);
    }
}

static void check_run(world *w, const hs_run_args *args, const char *fetched)
{
    char expected[256];
    snprintf(expected, sizeof expected, "fetch%s; feed%s", fetched,
             args->options ? "; trace 0 timeout 9 pool 0 graphs 0 oom 0 disk 0 watch" : "");
    if (w->script)
        assert_string_equal(hs_script_last_run(w->script), expected);
    for (int k = 0; w->graph && k < NAMES; k++) {
        assert_int_equal(w->values[k].executed, strstr(fetched, names[k]) != NULL);
        w->values[k].executed = false;
    }
}

/* A run of the program's own names, whose list it changes in place. */
static void make_run(world *w)
{
    static const char *wanted[3];
    static const hs_run_options options = HS_INIT(hs_run_options, .timeout_secs = 9);
    hs_run_args args = HS_INIT(hs_run_args, .names = wanted);
    const hs_run_values *values;
    hs_error err;
    char fetched[128] = "";
    if (any(w, 4) == 0) {
        wanted[0] = names[any(w, NAMES)];
        wanted[1] = any(w, 2) ? names[any(w, NAMES)] : NULL;
    }
    args.kind = any(w, 5) ? HS_RUN_TRAIN : HS_RUN_EVAL;
    args.options = any(w, 10) ? NULL : &options;
    for (int i = 0; i < HOOKS; i++)
        w->readers[i].called = false;
    w->readers[3].fails = any(w, 4) == 0;
    w->readers[5].fails = any(w, 10) == 0;
    assert_ok(hs_session_run_args(w->session, &args, &values, &err), &err);
    check_values(values, wanted);
    add_once(fetched, wanted);
    for (int i = 0; i < HOOKS; i++)
        if (w->readers[i].called)
            add_once(fetched, w->readers[i].fetched);
    check_run(w, &args, fetched);
    assert_int_equal(w->readers[0].called, args.kind == HS_RUN_TRAIN);
    assert_int_equal(w->readers[1].called, args.kind == HS_RUN_EVAL);
}

static void run_many(world *w, hs_backend backend)
{
    hs_error err;
    int periodic = 0, best_effort = 0;
    hs_hook hooks[HOOKS + 1] = {reader_hook(&w->readers[0], "one", NULL),
                                reader_hook(&w->readers[1], "two", "one"),
                                reader_hook(&w->readers[2], "three", "zero"),
                                reader_hook(&w->readers[3], "four", NULL),
                                deciding_hook(&w->readers[4], 3),
                                deciding_hook(&w->readers[5], 4)};
    hooks[1].flags = HS_HOOK_EVAL;
    hooks[2].flags = HS_HOOK_TRAIN | HS_HOOK_EVAL;
    hooks[2].when = (hs_trigger){.every_n_secs = 7};
    hooks[3] = hs_hook_best_effort(hooks[3], 0);
    hooks[5] = hs_hook_best_effort(hooks[5], 0);
    w->session = hs_session_open(backend, HS_SESSION_OPTIONS(.hooks = hooks), &err);
    assert_ok(err.code, &err);
    for (int i = 0; i < RUNS; i++) {
        hs_test_system_advance(w->system, 1);
        make_run(w);
        periodic += w->readers[2].called;
        best_effort += w->readers[3].called;
        if (any(w, 20))
            continue;
        assert_ok(hs_raw_session_run(hs_session_raw(w->session), HS_RUN_ARGS(.names = HS_NAMES("five")), NULL, &err), &err);
        w->values[5].executed = false;
    }
    assert_in_range(periodic, RUNS / 10, RUNS / 7);
    assert_in_range(best_effort, RUNS / 10, RUNS * 9 / 10);
    hs_session_close(w->session, NULL);
}

static void each_run_fetches_what_its_caller_and_its_hooks_request(void **state)
{
    (void)state;
    world w = {.random = 1, .system = hs_test_system_new()};
    hs_tensor values[NAMES];
    w.script = hs_script_new(hs_test_system_env(w.system));
    for (int k = 0; k < NAMES; k++) {
        w.values[k].number = k;
        values[k] = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &w.values[k].number);
        hs_script_constant(w.script, names[k], &values[k]);
    }
    run_many(&w, hs_script_backend(w.script));
    hs_script_free(w.script);
    hs_test_system_free(w.system);
}

static hs_code execute(void *self, hs_op *op, hs_error *err)
{
    value *v = self;
    (void)op, (void)err;
    assert_false(v->executed);
    v->executed = true;
    return HS_OK;
}

static void each_run_of_a_graph_executes_what_its_caller_and_its_hooks_request(void **state)
{
    (void)state;
    world w = {.random = 2, .system = hs_test_system_new()};
    w.graph = hs_graph_new(hs_test_system_env(w.system));
    for (int k = 0; k < NAMES; k++) {
        w.values[k].number = k;
        hs_graph_op(w.graph, .name = names[k], .run = execute, .user = &w.values[k],
                    .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .data = &w.values[k].number}));
    }
    run_many(&w, hs_graph_backend(w.graph));
    hs_graph_free(w.graph);
    hs_test_system_free(w.system);
}

/* Makes a raw run with other fetches than all before: the digits of its number. */
static hs_code fetch_other_names(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const char *digits[15] = {NULL};
    int *number = self;
    (void)values;
    for (int i = 0; i < 14; i++)
        digits[i] = names[*number >> i & 1];
    ++*number;
    return hs_raw_session_run(hs_run_context_session(run), HS_RUN_ARGS(.names = digits), NULL, err);
}

static void raw_runs_with_ever_new_fetches_in_runs_of_one_plan_do_not_fill_the_memory(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "other", .after_run = fetch_other_names);
    enum { MOST_KEPT = 1 << 13, ALL = 1 << 14 };
    static test_env t;
    hs_error err;
    int number = 0;
    size_t live = 0;
    (void)state;
    test_env_init(&t);
    hs_script *script = hs_script_new(&t.env);
    double one = 1;
    const hs_tensor tensor = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &one);
    for (int k = 0; k < 2; k++)
        hs_script_constant(script, names[k], &tensor);
    const hs_hook hooks[] = {{.ops = &ops, .self = &number}, {.ops = NULL}};
    hs_session *session = hs_session_open(hs_script_backend(script), HS_SESSION_OPTIONS(.hooks = hooks), &err);
    assert_ok(err.code, &err);
    while (number < ALL) {
        assert_ok(hs_session_run(session, "zero", &err), &err);
        if (number == MOST_KEPT)
            live = test_env_live(&t);
    }
    assert_in_range(test_env_live(&t), 1, live + 1000);
    hs_session_close(session, NULL);
    hs_script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_fetches_what_its_caller_and_its_hooks_request),
        cmocka_unit_test(each_run_of_a_graph_executes_what_its_caller_and_its_hooks_request),
        cmocka_unit_test(raw_runs_with_ever_new_fetches_in_runs_of_one_plan_do_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
