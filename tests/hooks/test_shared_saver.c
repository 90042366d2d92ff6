/* SPDX-License-Identifier: Apache-2.0 */
/* Two checkpoint savers of a session, and sessions that save in one directory. */
#include "hooks/stage.h"

#include <sys/wait.h>
#include <unistd.h>

static const char *slow_directory(const stage *s)
{
    return test_path(s->directory, "slow");
}

/* Two hooks without savers: both use the saver of the graph. */
static void open_two(stage *s, bool background)
{
    const hs_hook hooks[] = {
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .max_to_keep = 3, .background = background),
        hs_checkpoint_saver(.checkpoint_dir = slow_directory(s), .every_n_steps = 5, .background = background)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
}

static bool can_hold_elsewhere(const char *directory)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(hs_saver_hold(hs_saver_new(NULL, NULL), NULL, test_path(directory, "model.ckpt"), NULL) == HS_OK ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 0;
}

static void each_hook_keeps_its_number_of_checkpoints(void **state)
{
    stage *s = *state;
    for (int background = 0; background < 2; background++) {
        test_empty_directory(s->directory);
        test_env_clear_log(&s->t);
        open_two(s, background);
        for (int i = 0; i < 40; i++) {
            stage_run(s, "train", 1, 1);
            assert_true(background || !(can_hold_elsewhere(s->directory) || can_hold_elsewhere(slow_directory(s))));
        }
        int64_t last = hs_session_global_step(s->session, NULL);
        char line[600];
        stage_close(s);
        assert_int_equal(test_count_files(s->directory, ".index"), 3);
        assert_int_equal(test_count_files(slow_directory(s), ".index"), 5);
        assert_int_equal(latest_step(s->directory), last);
        snprintf(line, sizeof line, "step %lld: saved %s/model.ckpt-%lld (", (long long)last, slow_directory(s),
                 (long long)last);
        assert_contains(s->t.log, line);
        assert_int_equal(count_of(s->t.log, "slow/model.ckpt-"), 9 + (last % 5 != 0));
        hs_script_set_step(s->script, 0);
    }
}

/* For the thread sanitizer: the thread of the saver and the training use its directories. */
static void two_hooks_save_in_the_background_at_each_step(void **state)
{
    enum { N = 1 << 18 };
    stage *s = *state;
    float *weights = calloc(N, sizeof *weights);
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_variable(graph, "weights", HS_FLOAT, HS_SHAPE(N), weights);
    hs_graph_global_step(graph, NULL, NULL);
    const hs_hook hooks[] = {
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .background = true),
        hs_checkpoint_saver(.checkpoint_dir = slow_directory(s), .every_n_steps = 1, .background = true)};
    assert_ok(stage_try(s, hs_graph_backend(graph), hooks, 2), &s->err);
    for (int i = 0; i < 20 && hs_step_begin(s->session); i++)
        hs_step_end(s->session);
    stage_close(s);
    hs_graph_free(graph);
    free(weights);
    assert_int_equal(latest_step(s->directory), 20);
    assert_int_equal(latest_step(slow_directory(s)), 20);
}

/* Sessions of two graphs in one directory. The test's environment has its own locks, which know of no sessions. */
typedef struct {
    hs_graph *graph;
    hs_session *session;
} training;

static training open_training(stage *s, const char *directory)
{
    training t = {.graph = hs_graph_new(NULL)};
    hs_graph_global_step(t.graph, NULL, NULL);
    t.session = hs_training_session_open(hs_graph_backend(t.graph),
                                         HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .no_graph_def = true), &s->err);
    return t;
}

static void close_training(training *t)
{
    hs_session_close(t->session, NULL);
    hs_graph_free(t->graph);
}

/* The status and outcome files stay those of the first session. */
static void a_second_session_in_the_directory_of_an_open_one_is_refused(void **state)
{
    stage *s = *state;
    training first = open_training(s, s->directory);
    test_env_clear_log(&s->t);
    training second = open_training(s, s->directory);
    assert_non_null(first.session);
    assert_null(second.session);
    assert_says(&s->err, HS_FAILED_PRECONDITION,
                "another session of this process saves there; close it first, or use another directory");
    assert_contains(s->err.message, "begin"); /* before it has restored anything */
    assert_false(test_exists(s->directory, "outcome.json"));
    close_training(&second);
    close_training(&first);
    assert_true(test_exists(s->directory, "outcome.json"));
    second = open_training(s, s->directory);
    assert_non_null(second.session);
    close_training(&second);
}

static void sessions_that_are_closed_leave_their_directories_unlocked(void **state)
{
    stage *s = *state;
    const char *directories[] = {strdup(test_path(s->directory, "a")), strdup(test_path(s->directory, "b"))};
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_global_step(graph, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        hs_session *session = hs_training_session_open(
            hs_graph_backend(graph), HS_TRAINING_OPTIONS(.checkpoint_dir = directories[i], .no_graph_def = true), &s->err);
        assert_non_null(session);
        hs_session_close(session, NULL);
    }
    assert_true(can_hold_elsewhere(directories[0])); /* the graph's saver holds at most the last one */
    hs_graph_free(graph);
    free((void *)directories[0]);
    free((void *)directories[1]);
}

static void two_hooks_of_a_session_may_save_in_one_directory(void **state)
{
    stage *s = *state;
    const hs_hook hooks[] = {
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1),
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .checkpoint_basename = "other")};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 2, 1);
    stage_close(s);
    assert_true(test_exists(s->directory, "other-2.index"));
    assert_true(test_exists(s->directory, "model.ckpt-2.index"));
}

/* max_to_keep of a training session is that of its hook, and not of the saver, which other sessions use. */
static void max_to_keep_of_a_session_ends_with_it(void **state)
{
    stage *s = *state;
    const int64_t limits[] = {2, 0};
    hs_graph *graph = hs_graph_new(&s->t.env);
    for (size_t i = 0; i < 2; i++) {
        hs_session *session = hs_training_session_open(
            hs_graph_backend(graph),
            HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .save_checkpoint_steps = 1, .max_to_keep = limits[i]),
            &s->err);
        for (int n = 0; n < 8 && hs_step_begin(session); n++)
            hs_step_end(session);
        hs_session_close(session, &s->err);
        assert_ok(s->err.code, &s->err);
        assert_int_equal(test_count_files(s->directory, ".index"), limits[i] ? limits[i] : 5);
    }
    hs_graph_free(graph);
}

/* An evaluation of an older checkpoint, on the graph of a training that continues. */
static void an_evaluation_of_an_older_checkpoint_abandons_nothing(void **state)
{
    stage *s = *state;
    char prefix[512];
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "w", .dtype = HS_FLOAT)); /* in memory of each session */
    hs_session *session = hs_training_session_open(
        hs_graph_backend(graph), HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .save_checkpoint_steps = 1), &s->err);
    for (int n = 0; n < 4 && hs_step_begin(session); n++)
        hs_step_end(session);
    snprintf(prefix, sizeof prefix, "%s/model.ckpt-2", s->directory);
    hs_evaluation_result_free(hs_evaluate_once(
        hs_graph_backend(graph), HS_EVALUATE_ONCE_OPTIONS(.checkpoint_prefix = prefix, .metrics = HS_NAMES("w")), &s->err));
    assert_ok(s->err.code, &s->err);
    if (hs_step_begin(session))
        hs_step_end(session);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    assert_int_equal(test_count_files(s->directory, "abandoned"), 0);
    assert_int_equal(test_count_files(s->directory, ".index"), 5);
}

/* The step after a background save is not part of its time. */
static void the_time_of_a_save_ends_with_the_save(void **state)
{
    stage *s = *state;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &s->t.env), &s->err);
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .background = true, .saver = saver));
    stage_run(s, "train", 2, 1);
    hs_saver_wait(saver);
    stage_run(s, "train", 1, 40);
    assert_contains(s->t.log, "model.ckpt-2 (");
    assert_true(hs_raw_session_save_secs(hs_session_raw(s->session)) < 1);
    stage_close(s);
    hs_saver_free(saver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(each_hook_keeps_its_number_of_checkpoints),
        with_stage(two_hooks_save_in_the_background_at_each_step),
        with_stage(a_second_session_in_the_directory_of_an_open_one_is_refused),
        with_stage(sessions_that_are_closed_leave_their_directories_unlocked),
        with_stage(two_hooks_of_a_session_may_save_in_one_directory),
        with_stage(max_to_keep_of_a_session_ends_with_it),
        with_stage(an_evaluation_of_an_older_checkpoint_abandons_nothing),
        with_stage(the_time_of_a_save_ends_with_the_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
