/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint of a group holds: shared states once, and states of each rank. */
#include "base/file_spy.h"
#include "replicas/ranks.h"

enum { N = 4, FIRST = 6, ALL = 12 };

static int setup(void **state)
{
    static ranks r;
    r = (ranks){.directory = test_make_directory(), .rank_count = N, .seed = 1, .steps = ALL};
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    const ranks *r = *state;
    test_remove_directory((char *)r->directory);
    return 0;
}

static const hs_outcome *train_to(ranks *r, int32_t rank_count, int64_t steps)
{
    r->rank_count = rank_count;
    r->steps = steps;
    ranks_run(r);
    return ranks_outcome(r);
}

static void is_at(const hs_outcome *outcome, int64_t step)
{
    if (outcome->reason != HS_REASON_STOPPED)
        fail_msg("%s", outcome->error.message);
    assert_int_equal(outcome->step, step);
    assert_int_equal(outcome->last_saved_step, step);
}

static void resumes_as_undisturbed(ranks *r)
{
    double wanted[RANKS_PARAMETERS];
    is_at(train_to(r, N, ALL), ALL);
    memcpy(wanted, r->parameters[0], sizeof wanted);
    test_empty_directory(r->directory);
    is_at(train_to(r, N, FIRST), FIRST);
    is_at(train_to(r, N, ALL), ALL);
    for (int i = 0; i < N; i++)
        assert_int_equal(r->steps_made[i], ALL - FIRST);
    ranks_check_parameters(r, wanted);
}

static void rp_013_a_resume_on_the_same_ranks_is_exact(void **state)
{
    ranks *r = *state;
    for (int own = 0; own < 2; own++) {
        r->own_loop = own;
        test_empty_directory(r->directory);
        r->per_rank_position = false;
        r->scope = HS_STATE_SHARED;
        resumes_as_undisturbed(r);
        test_empty_directory(r->directory);
        r->per_rank_position = true;
        r->scope = HS_STATE_PER_RANK;
        resumes_as_undisturbed(r);
    }
}

static void rp_013_a_position_of_each_rank_is_never_given_to_all(void **state)
{
    ranks *r = *state;
    r->per_rank_position = true;
    r->scope = HS_STATE_SHARED;
    const hs_outcome *outcome = train_to(r, N, ALL);
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_FAILED_PRECONDITION);
    assert_non_null(
        strstr(outcome->error.message, "state 'hooksess/state/position' differs between rank 0 and ranks 1, 2, 3"));
    assert_non_null(strstr(outcome->error.message, "HS_STATE_PER_RANK"));
}

/* With a position that all ranks share, each sample is seen once, whatever the numbers of ranks. */
/* Each rank reads its own states, so that only one of them may find the damage. */
static void damage_that_one_rank_finds_makes_all_restore_an_older_checkpoint(void **state)
{
    ranks *r = *state;
    double wanted[RANKS_PARAMETERS];
    size_t size;
    r->scope = HS_STATE_PER_RANK;
    r->per_rank_position = true;
    is_at(train_to(r, N, ALL), ALL);
    memcpy(wanted, r->parameters[0], sizeof wanted);
    test_empty_directory(r->directory);
    is_at(train_to(r, N, FIRST), FIRST);
    char *name = strdup(test_path(r->directory, "model.ckpt-6.data-00000-of-00001"));
    char *data = test_read_file(name, &size);
    for (size_t i = 0; i < size; i++) {
        test_empty_directory(r->directory);
        is_at(train_to(r, N, FIRST), FIRST);
        data[i] ^= 1;
        test_write_file(name, data, size);
        data[i] ^= 1;
        is_at(train_to(r, N, ALL), ALL);
        for (int rank = 0; rank < N; rank++)
            assert_int_equal(r->steps_made[rank], ALL - RANKS_SAVE_STEPS);
        ranks_check_parameters(r, wanted);
    }
    free(data);
    free(name);
}

/* A file system that fails is not damage: the checkpoint may be intact. */
static void a_read_error_on_one_rank_makes_none_restore_an_older_checkpoint(void **state)
{
    ranks *r = *state;
    file_spy spy;
    size_t n = 0, failures = 0;
    r->scope = HS_STATE_PER_RANK;
    r->per_rank_position = true;
    file_spy_init(&spy, hs_env_default());
    spy.what = "read";
    spy.where = "model.ckpt-6";
    do {
        test_empty_directory(r->directory);
        r->env = NULL;
        is_at(train_to(r, N, FIRST), FIRST);
        r->env = &spy.env;
        file_spy_fail(&spy, ++n, HS_DATA_LOSS);
        const hs_outcome *outcome = train_to(r, N, ALL);
        failures += outcome->error.code == HS_DATA_LOSS;
        if (outcome->error.code != HS_DATA_LOSS) {
            is_at(outcome, ALL);
            assert_int_equal(r->steps_made[0], ALL - FIRST);
        }
    } while (spy.matches >= n);
    assert_true(failures > 4 * N);
}

static void rp_014_a_resume_on_another_number_of_ranks_loses_no_sample(void **state)
{
    static const int32_t counts[] = {1, 2, 4, 8};
    ranks *r = *state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            test_empty_directory(r->directory);
            r->scope = HS_STATE_SHARED;
            r->per_rank_position = false;
            is_at(train_to(r, counts[i], FIRST), FIRST);
            is_at(train_to(r, counts[k], ALL), ALL);
            int64_t n = FIRST * counts[i] + (ALL - FIRST) * counts[k];
            for (int rank = 0; rank < counts[k]; rank++)
                assert_int_equal(r->samples[rank], n * (n - 1) / 2);
        }
}

static void rp_014_a_reshard_function_divides_the_states_of_other_ranks(void **state)
{
    static const int32_t counts[] = {1, 2, 4};
    ranks *r = *state;
    r->scope = HS_STATE_PER_RANK;
    r->per_rank_position = r->reshards = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            test_empty_directory(r->directory);
            is_at(train_to(r, counts[i], FIRST), FIRST);
            is_at(train_to(r, counts[k], ALL), ALL);
            int64_t n = FIRST * counts[i] + (ALL - FIRST) * counts[k];
            assert_int_equal(r->samples[0], n * (n - 1) / 2);
        }
}

static void rp_014_without_one_the_restore_is_refused_and_names_both_numbers(void **state)
{
    ranks *r = *state;
    r->scope = HS_STATE_PER_RANK;
    r->per_rank_position = true;
    is_at(train_to(r, 4, FIRST), FIRST);
    const hs_outcome *outcome = train_to(r, 2, ALL);
    assert_int_equal(outcome->reason, HS_REASON_FAILED);
    assert_int_equal(outcome->error.code, HS_FAILED_PRECONDITION);
    assert_non_null(strstr(outcome->error.message,
                           "state 'hooksess/state/position' was saved by 4 ranks, and cannot be divided "
                           "among 2; resume with 4 ranks"));
    is_at(train_to(r, 4, ALL), ALL); /* nothing is lost */
}

static void the_states_of_all_ranks_are_in_the_checkpoint(void **state)
{
    ranks *r = *state;
    char path[512], name[64];
    hs_error err = {0};
    r->scope = HS_STATE_PER_RANK;
    r->per_rank_position = true;
    is_at(train_to(r, N, FIRST), FIRST);
    snprintf(path, sizeof path, "%s/model.ckpt-%d", r->directory, FIRST);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, &err);
    assert_non_null(reader);
    for (int i = 0; i < N; i++) {
        int64_t position;
        snprintf(name, sizeof name, "hooksess/state/position/%05d-of-%05d", i, N);
        assert_ok(hs_checkpoint_read(reader, name, &position, sizeof position, &err), &err);
        assert_int_equal(position, FIRST * N + i);
    }
    hs_checkpoint_close(reader);
}

/* Three hooks with a state: the first is on rank 0 alone, the second has the same on all ranks, the third one of each. */

typedef struct {
    const char *directory;
    const char *names[3];
    int64_t first;        /* saved: first + index, of the third hook also + 10 * rank */
    int64_t values[N][3]; /* after the opening */
} named;

static hs_code save_value(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_value(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static int run_named(void *user, const hs_group *group)
{
    named *run = user;
    const int32_t rank = group->ops->rank(group->self);
    const uint32_t flags[] = {HS_HOOK_CHIEF_ONLY, 0, HS_HOOK_PER_RANK | HS_HOOK_ANY_RANK_COUNT};
    int64_t step = 0, values[3];
    hs_hook_ops ops[3];
    hs_hook hooks[5] = {{.ops = NULL}};
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    hs_graph_global_step(graph, NULL, &step);
    hs_graph_op(graph, .name = "train", .advances_step = true);
    for (int i = 0; i < 3; i++) {
        values[i] = run->first + i + (i == 2 ? 10 * rank : 0);
        ops[i] =
            (hs_hook_ops)HS_INIT(hs_hook_ops, .name = run->names[i], .save_state = save_value, .load_state = load_value);
        hooks[i] = (hs_hook){.ops = &ops[i], .self = &values[i], .flags = HS_HOOK_TRAIN | flags[i]};
    }
    hooks[3] = hs_checkpoint_saver(.checkpoint_dir = run->directory, .every_n_steps = 1);
    hs_session *session =
        hs_session_open(hs_graph_backend(graph),
                        HS_SESSION_OPTIONS(.hooks = hooks, .checkpoint_dir = run->directory, .group = group), &err);
    if (session)
        memcpy(run->values[rank], values, sizeof values);
    if (session)
        hs_session_run(session, "train", &err);
    const hs_outcome outcome = hs_session_close(session, NULL);
    hs_graph_free(graph);
    return outcome.error.code || err.code ? 1 : 0;
}

static void run_named_on(named *run, int32_t rank_count)
{
    int result;
    hs_error err = {0};
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = rank_count, .seed = 1, .main = run_named, .user = run), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    for (int32_t rank = 0; rank < rank_count; rank++)
        assert_true(hs_simulation_result(simulation, rank, &result) && !result);
    hs_simulation_free(simulation);
}

static void assert_values(const named *run, int32_t rank_count, int64_t first)
{
    assert_int_equal(run->values[0][0], first);
    for (int32_t rank = 0; rank < rank_count; rank++) {
        assert_int_equal(run->values[rank][1], first + 1);
        assert_int_equal(run->values[rank][2], first + 2 + 10 * rank);
    }
}

/* A hook of rank 0 alone counts on all ranks, so that they agree on the number of the next hook of its name. */
static void hooks_of_one_name_have_the_same_keys_on_all_ranks(void **state)
{
    const ranks *r = *state;
    named run = {.directory = r->directory, .names = {"cursor", "cursor", "cursor"}, .first = 100};
    run_named_on(&run, N);
    run.first = 200;
    run_named_on(&run, N);
    assert_values(&run, N, 100);
}

/* Older checkpoints have NAME_1 and NAME_2. */
static void hooks_of_one_name_restore_the_states_of_ranks_from_an_older_checkpoint(void **state)
{
    const ranks *r = *state;
    for (int32_t rank_count = N; rank_count >= 1; rank_count /= 2) {
        named run = {.directory = r->directory, .names = {"cursor", "cursor_1", "cursor_2"}, .first = 100};
        test_empty_directory(r->directory);
        run_named_on(&run, N);
        run = (named){.directory = r->directory, .names = {"cursor", "cursor", "cursor"}, .first = 200};
        run_named_on(&run, rank_count);
        assert_values(&run, rank_count, 100);
    }
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(rp_013_a_resume_on_the_same_ranks_is_exact),
        ranked(damage_that_one_rank_finds_makes_all_restore_an_older_checkpoint),
        ranked(a_read_error_on_one_rank_makes_none_restore_an_older_checkpoint),
        ranked(rp_013_a_position_of_each_rank_is_never_given_to_all),
        ranked(rp_014_a_resume_on_another_number_of_ranks_loses_no_sample),
        ranked(rp_014_a_reshard_function_divides_the_states_of_other_ranks),
        ranked(rp_014_without_one_the_restore_is_refused_and_names_both_numbers),
        ranked(the_states_of_all_ranks_are_in_the_checkpoint),
        ranked(hooks_of_one_name_have_the_same_keys_on_all_ranks),
        ranked(hooks_of_one_name_restore_the_states_of_ranks_from_an_older_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
