/* SPDX-License-Identifier: Apache-2.0 */
/* Shared variables that differ between the ranks of a group are found: at the opening, and at each save. */
#include "support/test.h"

#include <hooksess/testing.h>

enum { N = 4, SEEDS = 4, STEPS = 8, SAVE_STEPS = 3 };

/* What each rank does. `weights` and `moments` are in the program's memory; the library initializes `bias`. */
typedef struct {
    char *directory;
    double first[N];          /* first value of `weights` */
    double bias[N];           /* and of `bias` */
    hs_initial_values values; /* hs_replica_options.initial_values */
    bool own_moments;         /* each rank updates its own */
    bool own_memory;          /* only rank 1 allocates memory for them, in its first step */
    int32_t drifts;           /* this rank computes another last bit in step SAVE_STEPS. 0: none */
    bool background, overlap; /* saves */
    int64_t shards;           /* data files of a checkpoint */
    const char *const *saved; /* variables that are saved. NULL: all */
    /* Results. */
    bool opened[N];
    double weights[N], biases[N]; /* after the opening */
    hs_error errors[N];
    hs_outcome outcomes[N];
} run;

typedef struct {
    const run *of;
    int32_t rank;
    double weights, bias, moments_memory, *moments;
    int64_t step;
} program;

static hs_code train(void *user, hs_op *op, hs_error *err)
{
    program *p = user;
    (void)op, (void)err;
    p->weights += 0.1;
    p->bias = p->weights;
    if (p->of->drifts && p->of->drifts == p->rank && p->step == SAVE_STEPS - 1)
        ((unsigned char *)&p->weights)[0] ^= 1;
    if (p->of->own_memory && p->rank == 1)
        p->moments = &p->moments_memory;
    if (p->moments)
        *p->moments = p->of->own_moments ? p->rank + 1.0 : 1.0;
    return HS_OK;
}

static hs_code set_bias(void *user, const hs_tensor *value, hs_error *err)
{
    const program *p = user;
    (void)err;
    *(double *)value->data = p->of->bias[p->rank];
    return HS_OK;
}

static int run_rank(void *user, const hs_group *group)
{
    run *r = user;
    const int32_t rank = group->ops->rank(group->self);
    program p = {.of = r, .rank = rank, .weights = r->first[rank]};
    p.moments = r->own_memory ? NULL : &p.moments_memory;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    if (rank % 2) /* local variables may differ: then the indexes of the others do, too */
        hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "local", .dtype = HS_DOUBLE, .flags = HS_VARIABLE_LOCAL));
    hs_graph_add_variable(
        graph, HS_VARIABLE_DEF(.name = "bias", .dtype = HS_DOUBLE, .data = &p.bias, .user = &p, .initialize = set_bias));
    hs_graph_variable(graph, "weights", HS_DOUBLE, HS_SCALAR, &p.weights);
    hs_graph_variable_at(graph, "moments", HS_DOUBLE, HS_SCALAR, &p.moments);
    hs_graph_global_step(graph, NULL, &p.step);
    hs_graph_op(graph, .name = "train", .run = train, .user = &p, .advances_step = true);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.variables = r->saved, .shards = r->shards), NULL);
    const hs_hook hooks[] = {hs_stop_at_step(.last_step = STEPS),
                             hs_checkpoint_saver(.checkpoint_dir = r->directory, .every_n_steps = SAVE_STEPS,
                                                 .saver = saver, .background = r->background, .overlap = r->overlap),
                             {0}};
    const hs_replica_options replicas = HS_INIT(hs_replica_options, .initial_values = r->values);
    hs_session *session =
        hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = hooks, .group = group, .replicas = &replicas),
                        &r->errors[rank]);
    r->opened[rank] = session != NULL;
    r->weights[rank] = p.weights;
    r->biases[rank] = p.bias;
    while (session && !hs_session_should_stop(session))
        if (hs_session_run(session, "train", NULL) != HS_OK)
            break;
    r->outcomes[rank] = hs_session_close(session, NULL);
    hs_graph_free(graph);
    hs_saver_free(saver);
    return 0;
}

static void train_all(run *r, uint64_t seed)
{
    hs_error err = {0};
    test_empty_directory(r->directory);
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.main = run_rank, .user = r, .seed = seed, .rank_count = N), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    hs_simulation_free(simulation);
}

static void completes(run *r)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        train_all(r, seed);
        for (int i = 0; i < N; i++) {
            if (r->outcomes[i].reason != HS_REASON_STOPPED)
                fail_msg("rank %d: %s", i, r->outcomes[i].error.message);
            assert_int_equal(r->outcomes[i].last_saved_step, STEPS);
        }
    }
}

static void is_refused(run *r, const char *message)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        train_all(r, seed);
        for (int i = 0; i < N; i++) {
            assert_false(r->opened[i]);
            assert_says(&r->errors[i], HS_DATA_LOSS, message);
        }
    }
}

/* All ranks fail with the exit code of a failure, and only the checkpoint of the opening exists. */
static void save_fails(run *r, const char *message)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        train_all(r, seed);
        for (int i = 0; i < N; i++) {
            assert_int_equal(r->outcomes[i].reason, HS_REASON_FAILED);
            assert_says(&r->outcomes[i].error, HS_DATA_LOSS, message);
            assert_int_equal(hs_outcome_exit_code(&r->outcomes[i]), 1);
            assert_int_equal(r->outcomes[i].last_saved_step, 0);
        }
        assert_false(test_exists(r->directory, "model.ckpt-3.index"));
    }
}

static void first_values_of_the_program_must_be_equal(void **state)
{
    run *r = *state;
    r->first[2] = 1e-9;
    is_refused(r,
               "rank 2: variable 'weights' differs on rank 2 from rank 0; set the same first values on all ranks, or let "
               "those of rank 0 count (hs_replica_options.initial_values = HS_FROM_CHIEF)");
    r->first[3] = 2;
    is_refused(r, "rank 2: variable 'weights' differs on ranks 2, 3 from rank 0");
    r->first[2] = r->first[3] = r->first[1] = 1;
    is_refused(r, "rank 0: variable 'weights' differs on rank 0 from the other ranks");
}

static void those_of_rank_0_count_if_the_program_says_so(void **state)
{
    run *r = *state;
    r->values = HS_FROM_CHIEF;
    for (int i = 0; i < N; i++)
        r->first[i] = 5 + i;
    completes(r);
    for (int i = 0; i < N; i++)
        assert_true(r->weights[i] == 5);
}

static void variables_of_the_library_come_from_rank_0(void **state)
{
    run *r = *state;
    for (int i = 0; i < N; i++)
        r->bias[i] = 5 + i;
    completes(r);
    for (int i = 0; i < N; i++)
        assert_true(r->biases[i] == 5);
}

/* In the foreground, in the background, with several data files. */
static void each_save_fails(run *r, const char *message)
{
    for (int way = 0; way < 4; way++) {
        r->background = way == 1 || way == 2;
        r->overlap = way == 2;
        r->shards = way == 3 ? 3 : 0;
        save_fails(r, message);
    }
}

static void a_save_finds_a_variable_of_which_each_rank_has_its_own_part(void **state)
{
    run *r = *state;
    r->own_moments = true;
    each_save_fails(r,
                    "variable 'moments' differs on ranks 1, 2, 3 from rank 0, and only that of rank 0 would be saved; if "
                    "each rank has its own, save it as state of each rank (HS_STATE_PER_RANK)");
}

static void a_save_finds_a_variable_in_memory_of_another_rank_only(void **state)
{
    run *r = *state;
    r->own_memory = true;
    each_save_fails(r, "variable 'moments' differs on rank 1 from rank 0");
}

static void a_save_finds_a_rank_that_has_drifted_by_one_bit(void **state)
{
    run *r = *state;
    r->drifts = 3;
    each_save_fails(r, "variable 'weights' differs on rank 3 from rank 0");
}

static void variables_that_are_not_saved_may_differ(void **state)
{
    static const char *const saved[] = {"weights", "bias", "global_step", NULL};
    run *r = *state;
    r->own_moments = true;
    r->saved = saved;
    for (int way = 0; way < 2; way++) {
        r->background = way;
        completes(r);
    }
}

static int setup(void **state)
{
    static run r;
    r = (run){.directory = test_make_directory()};
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    test_remove_directory(((run *)*state)->directory);
    return 0;
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(first_values_of_the_program_must_be_equal),
        ranked(those_of_rank_0_count_if_the_program_says_so),
        ranked(variables_of_the_library_come_from_rank_0),
        ranked(a_save_finds_a_variable_of_which_each_rank_has_its_own_part),
        ranked(a_save_finds_a_variable_in_memory_of_another_rank_only),
        ranked(a_save_finds_a_rank_that_has_drifted_by_one_bit),
        ranked(variables_that_are_not_saved_may_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
