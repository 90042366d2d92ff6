/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas/hooked.h"

#include <unistd.h>

static void write_log(void *user, hs_log_level level, const char *text)
{
    hooked_rank *rank = user;
    size_t used = strlen(rank->log);
    if (level >= HS_LOG_INFO)
        snprintf(rank->log + used, sizeof rank->log - used, "%s\n", text);
}

static hs_code open_file(void *user, const char *path, int mode, void **file, hs_error *err)
{
    const hooked_rank *rank = user;
    if (rank->of->apart_rank && rank->of->apart_rank == rank->rank)
        return hs_error_set(err, HS_NOT_FOUND, "%s: is not here", path);
    return hs_env_default()->files.ops->open(hs_env_default()->files.user, path, mode, file, err);
}

static void compute_gradient(hooked_rank *rank, int64_t step)
{
    rank->loss = 100.0 * rank->rank + 1 / (double)(step + 1);
    rank->gradient = (double)(rank->position + rank->rank) * rank->rate;
    if (rank->of->in_step)
        rank->of->in_step(rank, step);
}

static hs_code compute(void *user, hs_op *op, hs_error *err)
{
    compute_gradient(user, hs_op_global_step(op, err));
    return hs_op_pass_gate(op, err);
}

static hs_code update(void *user, hs_op *op, hs_error *err)
{
    hooked_rank *rank = user;
    double gradient = rank->gradient;
    (void)op;
    hs_code code = hs_simulation_sum(rank->group, &gradient, 1, err);
    for (int i = 0; !code && i < HOOKED_WEIGHTS; i++)
        rank->weights[i] -= 0.001 * (i + 1) * gradient;
    rank->position += code ? 0 : rank->of->rank_count;
    return code;
}

static hs_code train(void *user, hs_op *op, hs_error *err)
{
    hs_code code = compute(user, op, err);
    return code ? code : update(user, op, err);
}

static hs_code sum_ranks(void *user, hs_op *op, hs_error *err)
{
    const hooked_rank *rank = user;
    double *out = hs_op_output(op, 0)->data;
    *out = rank->rank;
    return hs_simulation_sum(rank->group, out, 1, err);
}

static hs_code halve(void *user, hs_op *op, hs_error *err)
{
    (void)user, (void)err;
    *(double *)hs_op_output(op, 0)->data = *(const double *)hs_op_input(op, 0)->data / 2;
    return HS_OK;
}

static hs_code clear(void *user, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ((hooked_rank *)user)->batches = 0;
    return HS_OK;
}

static hs_code eval(void *user, hs_op *op, hs_error *err)
{
    hooked_rank *rank = user;
    (void)op;
    if (rank->of->failing_rank && rank->of->failing_rank == rank->rank && rank->batches == 1)
        return hs_error_set(err, HS_INTERNAL, "the batch is bad");
    if (rank->batches >= rank->rank + 2)
        return hs_error_set(err, HS_OUT_OF_RANGE, "no more batches");
    rank->batches++;
    return HS_OK;
}

static hs_code skip_batch(void *user, hs_op *op, hs_error *err)
{
    hooked_rank *rank = user;
    (void)op, (void)err;
    rank->position += rank->of->rank_count;
    return HS_OK;
}

static hs_graph *make_graph(hooked_rank *rank, const hs_env *env)
{
    hs_graph *g = hs_graph_new(env);
    if (rank->rank % 2) /* local variables may differ between the ranks */
        hs_graph_add_variable(g, HS_VARIABLE_DEF(.name = "local", .dtype = HS_DOUBLE, .flags = HS_VARIABLE_LOCAL));
    hs_graph_variable(g, "weights", HS_DOUBLE, HS_SHAPE(HOOKED_WEIGHTS), rank->weights);
    hs_graph_bytes(g, "position", &rank->position, sizeof rank->position);
    memset(rank->part, 0xa0 + rank->rank, sizeof rank->part);
    if (rank->of->parts)
        hs_graph_bytes(g, "part", rank->part, sizeof rank->part, HS_STATE_PER_RANK);
    rank->loss_pointer = &rank->loss;
    hs_graph_variable_at(g, "loss", HS_DOUBLE, HS_SCALAR, &rank->loss_pointer, .memory = rank->of->memory_of_loss,
                         .flags = HS_VARIABLE_LOCAL);
    hs_graph_value(g, "batches", HS_DOUBLE, HS_SCALAR, &rank->batches);
    hs_graph_global_step(g, NULL, &rank->step);
    hs_graph_op(g, .name = "train", .run = train, .user = rank, .writes = HS_NAMES("weights", "loss"),
                .advances_step = true, .collective = true);
    hs_graph_op(g, .name = "compute", .run = compute, .user = rank, .writes = HS_NAMES("weights", "loss"));
    hs_graph_op(g, .name = "update", .run = update, .user = rank, .writes = HS_NAMES("weights"), .advances_step = true);
    hs_graph_op(g, .name = "sum", .run = sum_ranks, .user = rank, .writes = HS_NAMES(NULL), .collective = true,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SCALAR}));
    hs_graph_op(g, .name = "half", .run = halve, .inputs = HS_NAMES("sum:0"), .writes = HS_NAMES(NULL),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SCALAR}));
    hs_graph_op(g, .name = "clear", .run = clear, .user = rank, .writes = HS_NAMES("batches"));
    hs_graph_op(g, .name = "eval", .run = eval, .user = rank, .writes = HS_NAMES("batches"));
    hs_graph_op(g, .name = "skip", .run = skip_batch, .user = rank, .writes = HS_NAMES(NULL));
    return g;
}

static hs_code call_init(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    hooked_rank *rank = user;
    (void)scaffold;
    return rank->of->init ? rank->of->init(rank, session, err) : HS_OK;
}

static void open_session(hooked_rank *rank, hs_graph *graph, hs_scaffold *scaffold, hs_error *err)
{
    hooked *h = rank->of;
    hs_hook hooks[HOOKED_HOOKS + 2] = {{.ops = NULL}}, chief[HOOKED_HOOKS + 1] = {{.ops = NULL}};
    size_t n = 0;
    if (h->add_hooks)
        h->add_hooks(rank, hooks, chief);
    while (hooks[n].ops)
        n++;
    hooks[n] = hs_stop_at_step(.last_step = h->steps);
    rank->session = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = h->no_checkpoints ? NULL : h->directory,
                            .save_checkpoint_steps = HOOKED_SAVE_STEPS, .log_step_count_steps = HS_NEVER,
                            .save_summaries_steps = HS_NEVER, .no_graph_def = true, .no_run_status = true,
                            .group = rank->group, .hooks = hooks, .chief_only_hooks = chief, .scaffold = scaffold),
        err);
}

/* Makes one step. Returns false if the training ends. */
static bool make_step(hooked_rank *rank, hs_error *err)
{
    const hooked *h = rank->of;
    hs_session *session = rank->session;
    if (h->before_run && h->before_run(rank, err)) {
        hs_session_fail(session, err);
        return false;
    }
    if (!h->own_loop)
        return (h->run_step ? hs_session_run_step(session, h->run_step, rank, err)
                            : hs_session_run(session, h->run_op ? h->run_op : "train", err)) == HS_OK;
    if (!hs_step_begin(session))
        return false;
    compute_gradient(rank, hs_session_global_step(session, NULL));
    if (hs_step_pass_gate(session) || update(rank, NULL, err))
        return false;
    hs_step_end(session);
    return true;
}

static int run_rank(void *user, const hs_group *group)
{
    hooked *h = user;
    int32_t number = group->ops->rank(group->self);
    hooked_rank *rank = &h->ranks[number];
    hs_error err = {0};
    hs_env env = *hs_simulation_env(group);
    hs_file_system_ops files = *hs_env_default()->files.ops; /* which do not use their `user` */
    files.open = open_file;
    env.files = (hs_file_system){&files, rank};
    env.logger = (hs_logger){.write = write_log, .user = rank};
    *rank = (hooked_rank){.of = h, .group = group, .rank = number, .rate = 1};
    hs_graph *graph = make_graph(rank, &env);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = call_init, .user = rank, .env = &env), &err);
    open_session(rank, graph, scaffold, &err);
    rank->opened = rank->session != NULL;
    while (!hs_session_should_stop(rank->session) && make_step(rank, &err))
        continue;
    rank->outcome = hs_session_close(rank->session, &err);
    rank->killed = hs_simulation_is_killed(group);
    hs_graph_free(graph);
    hs_scaffold_free(scaffold);
    return 0;
}

const hs_outcome *hooked_run(hooked *h)
{
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.main = run_rank, .user = h, .seed = h->seed, .rank_count = h->rank_count), &h->error);
    assert_non_null(simulation);
    if (h->killed_at)
        assert_ok(hs_simulation_kill(simulation, h->killed_rank, h->killed_at), &h->error);
    hs_code code = hs_simulation_run(simulation, &h->error);
    for (int32_t i = 0; i < h->rank_count; i++)
        h->ranks[i].collectives = hs_simulation_collectives(simulation, i);
    if (code && getenv("RANKS_TRACE"))
        fputs(hs_simulation_trace(simulation), stderr);
    hs_simulation_free(simulation);
    if (code)
        fail_msg("seed %llu: %s", (unsigned long long)h->seed, h->error.message);
    const hooked_rank *living = &h->ranks[h->killed_at && h->killed_rank == 0];
    const hs_outcome *first = &living->outcome;
    for (int32_t i = living->rank + 1; i < h->rank_count; i++) {
        const hs_outcome *outcome = &h->ranks[i].outcome;
        if (h->ranks[i].killed)
            continue;
        bool equal_steps = !h->killed_at && !h->rollback_fails;
        bool died = outcome->error.code == HS_UNAVAILABLE; /* rank 0 may have completed a save that others do not know */
        if (outcome->reason != first->reason || (equal_steps && outcome->step != first->step) ||
            (!died && outcome->last_saved_step != first->last_saved_step) || outcome->interrupted != first->interrupted ||
            strcmp(outcome->hook, first->hook) != 0 || strcmp(outcome->error.message, first->error.message) != 0)
            fail_msg(
                "seed %llu: rank %d: %s at %lld, saved %lld, hook '%s': %s; the first: %s at %lld, saved %lld, hook '%s': %s",
                (unsigned long long)h->seed, (int)i, hs_reason_name(outcome->reason), (long long)outcome->step,
                (long long)outcome->last_saved_step, outcome->hook, outcome->error.message, hs_reason_name(first->reason),
                (long long)first->step, (long long)first->last_saved_step, first->hook, first->error.message);
        if (first->reason != HS_REASON_FAILED)
            assert_memory_equal(h->ranks[i].weights, h->ranks[0].weights, sizeof h->ranks[0].weights);
    }
    return first;
}

int hooked_setup(void **state)
{
    hooked *h = calloc(1, sizeof *h);
    *h = (hooked){.directory = test_make_directory(), .rank_count = HOOKED_RANKS, .seed = 1, .steps = 10};
    *state = h;
    return 0;
}

int hooked_teardown(void **state)
{
    hooked *h = *state;
    test_remove_directory(h->directory);
    free(h);
    return 0;
}

const char *hooked_path(const hooked *h, const char *name)
{
    static _Thread_local char path[512];
    snprintf(path, sizeof path, "%s/%s", h->directory, name);
    return path;
}

bool hooked_exists(const hooked *h, const char *name)
{
    return access(hooked_path(h, name), F_OK) == 0;
}

int hooked_count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

void hooked_damage_part(const hooked *h, int64_t step, int32_t rank)
{
    char name[64];
    unsigned char part[HOOKED_PART];
    size_t bytes;
    snprintf(name, sizeof name, "model.ckpt-%lld.data-00000-of-00001", (long long)step);
    char *data = test_read_file(hooked_path(h, name), &bytes), *found = NULL;
    memset(part, 0xa0 + rank, sizeof part);
    for (size_t i = 0; !found && i + sizeof part <= bytes; i++)
        if (memcmp(data + i, part, sizeof part) == 0)
            found = data + i;
    assert_non_null(found);
    found[7] = 0;
    test_write_file(hooked_path(h, name), data, bytes);
    free(data);
}
