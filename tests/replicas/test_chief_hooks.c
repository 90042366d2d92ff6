/* SPDX-License-Identifier: Apache-2.0 */
/* A group whose rank 0 has a hook that the other ranks do not have: what the program and a recovery do after its callbacks
 * is no call of this hook, and all ranks make it together. */
#include "support/test.h"

#include <hooksess/testing.h>

enum { RANKS = 3, SEEDS = 6, LAST_STEP = 6, LOST = 2, LOST_AT = 5, LOG = 1 << 14 };

struct group;

typedef struct {
    struct group *of;
    const hs_group *group;
    int32_t rank;
    hs_session *session;
    double weight;
    int losses; /* how often the op fails at step LOST_AT */
    bool opened;
    hs_outcome outcome;
    char log[LOG];
} member;

typedef struct group {
    char *directory;
    uint64_t seed;
    hs_session_run_step_fn step; /* NULL: runs "train" */
    int32_t lost_rank;           /* -1: none */
    const char *prefix;          /* hs_session_options.checkpoint_prefix */
    bool copies[RANKS];          /* the rank keeps a copy of the opening for a recovery */
    bool recovers, saves, own_loop;
    int64_t last_step;
    member members[RANKS];
} group;

static void write_log(void *user, hs_log_level level, const char *text)
{
    member *m = user;
    size_t used = strlen(m->log);
    if (level >= HS_LOG_INFO)
        snprintf(m->log + used, sizeof m->log - used, "%s\n", text);
}

static hs_code train(void *user, hs_op *op, hs_error *err)
{
    member *m = user;
    double gradient = 1;
    if (m->losses && hs_op_global_step(op, err) == LOST_AT) {
        m->losses--;
        return hs_error_set(err, HS_UNAVAILABLE, "lost");
    }
    hs_code code = hs_op_pass_gate(op, err);
    if (!code)
        code = hs_simulation_sum(m->group, &gradient, 1, err);
    m->weight += code ? 0 : gradient;
    return code;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)args, (void)err;
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)values, (void)err;
    return HS_OK;
}

static const hs_hook_ops of_all = HS_INIT(hs_hook_ops, .name = "of_all", .before_run = before_run, .after_run = after_run);
static const hs_hook_ops of_chief =
    HS_INIT(hs_hook_ops, .name = "of_chief", .before_run = before_run, .after_run = after_run);

/* Before any restore the weight is rank + 1, so that ranks that begin without the values of rank 0 differ. */
static hs_graph *make_graph(member *m, const hs_env *env)
{
    static const double initial[RANKS] = {1, 2, 3};
    hs_graph *graph = hs_graph_new(env);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "weight", .dtype = HS_DOUBLE, .shape = HS_SCALAR,
                                                 .data = &m->weight, .initial = &initial[m->rank]));
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "train", .run = train, .user = m, .advances_step = true, .collective = true,
                .writes = HS_NAMES("weight"));
    return graph;
}

/* The program asks before and in each step. */
static void run_own_loop(member *m, hs_error *err)
{
    double gradient = 1;
    bool any[2] = {true, true};
    while (any[0] && any[1] && !hs_raw_session_any(hs_session_raw(m->session), m->rank == 1, &any[0], err) &&
           hs_step_begin(m->session)) {
        if (hs_raw_session_any(hs_session_raw(m->session), m->rank == 1, &any[1], err) || hs_step_pass_gate(m->session) ||
            hs_simulation_sum(m->group, &gradient, 1, err))
            break;
        m->weight += gradient;
        gradient = 1;
        hs_step_end(m->session);
    }
}

static int run_member(void *user, const hs_group *of)
{
    group *g = user;
    const int32_t rank = of->ops->rank(of->self);
    member *m = &g->members[rank];
    hs_error err = {0};
    hs_env env = *hs_simulation_env(of);
    env.logger = (hs_logger){.write = write_log, .user = m};
    *m = (member){.of = g, .group = of, .rank = rank, .losses = g->lost_rank == rank};
    hs_graph *graph = make_graph(m, &env);
    const hs_recovery recovery = HS_INIT(hs_recovery, .snapshot_limit = g->copies[rank] ? 0 : 1);
    hs_hook hooks[5] = {HS_HOOK(.ops = &of_all), hs_stop_at_step(.last_step = g->last_step)};
    size_t n = 2;
    if (g->saves)
        hooks[n++] = hs_checkpoint_saver(.checkpoint_dir = g->directory, .every_n_steps = 2);
    hooks[n] = HS_HOOK(.ops = &of_chief, .flags = HS_HOOK_CHIEF_ONLY); /* called last */
    m->session = hs_session_open(hs_graph_backend(graph),
                                 HS_SESSION_OPTIONS(.group = of, .hooks = hooks, .checkpoint_prefix = g->prefix,
                                                    .recovery = g->recovers ? &recovery : NULL),
                                 &err);
    m->opened = m->session != NULL;
    hs_code code = HS_OK;
    if (g->own_loop)
        run_own_loop(m, &err);
    while (!code && !hs_session_should_stop(m->session))
        code = g->step ? hs_session_run_step(m->session, g->step, m, &err) : hs_session_run(m->session, "train", &err);
    m->outcome = hs_session_close(m->session, &err);
    hs_graph_free(graph);
    return 0;
}

/* Trains until the last step, and asserts that all ranks end there with this weight. */
static void train_all(group *g, double weight)
{
    hs_error err;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.main = run_member, .user = g, .seed = g->seed, .rank_count = RANKS), &err);
    assert_non_null(simulation);
    hs_code code = hs_simulation_run(simulation, &err);
    hs_simulation_free(simulation);
    if (code)
        fail_msg("seed %d: %s", (int)g->seed, err.message);
    for (int32_t i = 0; i < RANKS; i++) {
        const member *m = &g->members[i];
        if (!m->opened || m->outcome.reason != HS_REASON_STOPPED || m->outcome.step != g->last_step || m->weight != weight)
            fail_msg("seed %d: rank %d: %s at %lld with %g instead of %g: %s\n%s", (int)g->seed, (int)i,
                     hs_reason_name(m->outcome.reason), (long long)m->outcome.step, m->weight, weight,
                     m->outcome.error.message, m->log);
    }
}

/* Calls of the program in a step function. */

static hs_code ask(void *user, hs_step_context *step, hs_error *err)
{
    member *m = user;
    bool any = false;
    hs_code code = hs_step_context_run_with_hooks(step, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
    if (!code)
        code = hs_raw_session_any(hs_step_context_session(step), m->rank == 1, &any, err);
    return code || any ? code : hs_error_set(err, HS_INTERNAL, "rank 1 was not asked");
}

static hs_code save(void *user, hs_step_context *step, hs_error *err)
{
    const member *m = user;
    hs_raw_session *raw = hs_step_context_session(step);
    char path[512];
    hs_code code = hs_step_context_run_with_hooks(step, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
    if (code)
        return code;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = hs_backend_env(hs_raw_session_backend(raw))), err);
    snprintf(path, sizeof path, "%s/model.ckpt", m->of->directory);
    code = hs_saver_save(saver, raw, path, hs_raw_session_global_step(raw, NULL), NULL, err);
    hs_saver_free(saver);
    return code;
}

static void a_step_function_asks_all_ranks_after_its_run(void **state)
{
    group *g = *state;
    g->step = ask;
    for (g->seed = 1; g->seed <= SEEDS; g->seed++)
        train_all(g, 1 + RANKS * LAST_STEP);
}

static void a_step_function_saves_on_all_ranks_after_its_run(void **state)
{
    group *g = *state;
    g->step = save;
    for (g->seed = 1; g->seed <= SEEDS; g->seed++) {
        test_empty_directory(g->directory);
        train_all(g, 1 + RANKS * LAST_STEP);
        assert_true(test_exists(g->directory, "model.ckpt-6.index"));
    }
}

static void a_loop_of_the_program_asks_all_ranks_before_and_in_its_steps(void **state)
{
    group *g = *state;
    g->own_loop = true;
    for (g->seed = 1; g->seed <= SEEDS; g->seed++)
        train_all(g, 1 + RANKS * LAST_STEP);
}

/* Recoveries. */

static void a_recovery_without_a_copy_sends_the_initial_values_of_rank_0(void **state)
{
    group *g = *state;
    g->recovers = true;
    for (g->seed = 1; g->seed <= SEEDS; g->seed++)
        for (g->lost_rank = 0; g->lost_rank < RANKS; g->lost_rank++) {
            train_all(g, 1 + RANKS * LAST_STEP);
            for (int32_t i = 0; i < RANKS; i++)
                assert_contains(g->members[i].log, "recovered from a failure");
        }
}

/* Only some ranks have a copy: rank 0 decides whether all restore the checkpoint of checkpoint_prefix. */
static void a_recovery_with_copies_on_some_ranks_ends_with_one_state(void **state)
{
    group *g = *state;
    char prefix[512];
    snprintf(prefix, sizeof prefix, "%s/model.ckpt-4", g->directory);
    g->seed = 1;
    g->last_step = 4;
    g->saves = true;
    train_all(g, 1 + RANKS * 4);
    g->prefix = prefix;
    g->recovers = true;
    g->saves = false;
    g->last_step = 8;
    for (g->seed = 1; g->seed <= SEEDS; g->seed++)
        for (int with = 0; with < 1 << RANKS; with++)
            for (g->lost_rank = 0; g->lost_rank < RANKS; g->lost_rank++) {
                for (int32_t i = 0; i < RANKS; i++)
                    g->copies[i] = with >> i & 1;
                train_all(g, 1 + RANKS * 8);
                for (int32_t i = 0; i < RANKS; i++)
                    assert_contains(g->members[i].log, "step 4: recovered from a failure at step 5");
            }
}

static int set_up(void **state)
{
    group *g = calloc(1, sizeof *g);
    *g = (group){.directory = test_make_directory(), .seed = 1, .lost_rank = -1, .last_step = LAST_STEP};
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    group *g = *state;
    test_remove_directory(g->directory);
    free(g);
    return 0;
}

#define grouped(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        grouped(a_step_function_asks_all_ranks_after_its_run),
        grouped(a_step_function_saves_on_all_ranks_after_its_run),
        grouped(a_loop_of_the_program_asks_all_ranks_before_and_in_its_steps),
        grouped(a_recovery_without_a_copy_sends_the_initial_values_of_rank_0),
        grouped(a_recovery_with_copies_on_some_ranks_ends_with_one_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
