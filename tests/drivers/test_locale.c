/* SPDX-License-Identifier: Apache-2.0 */
/* A training writes the same files, log lines and status line under a locale with a decimal comma. */
#include "support/test.h"

#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

enum { STEPS = 6, N_FILES = 9 };

static const char *const files[N_FILES] = {"heartbeat.json", "rows.csv",    "rows.jsonl", "progress", "status.json",
                                           "outcome.json",   "graph.pbtxt", "checkpoint", "error"};

/* What a training writes. */
typedef struct {
    char *log, *files[N_FILES];
} output;

static hs_code evaluate(void *user, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)user;
    return hs_raw_session_set_metric(session, "eval/accuracy", 0.125 * (double)(step % 3), step, err);
}

static void train(test_env *t, const char *directory)
{
    static double loss, rate, pause;
    int64_t step = 0;
    float weights[3] = {0.5F, 1.5F, 2.5F};
    hs_error err = {0};
    int progress = open(test_path(directory, "progress"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(progress >= 0);
    rate = 0.5;
    hs_graph *graph = hs_graph_new(&t->env);
    hs_graph_variable(graph, "weights", HS_FLOAT, HS_SHAPE(3), weights);
    hs_graph_global_step(graph, NULL, &step);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    test_write_file(test_path(directory, "control"), "set rate=0.25\n", 14);
    const hs_hook hooks[] = {
        hs_control(.path = test_path(directory, "control"),
                   .knobs = HS_KNOBS({.name = "rate", .value = &rate, .max = 0.75})),
        hs_watchdog(.heartbeat = test_path(directory, "heartbeat.json"), .heartbeat_secs = 0.01),
        hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 1),
        hs_step_counter(.every_n_steps = 2, .unit = "tokens", .units_per_step = 1.5, .flops_per_step = 1e6,
                        .peak_flops = 7e6),
        hs_metrics_file(.path = test_path(directory, "rows.csv"), .tensors = HS_NAMES("loss"), .every_n_steps = 1),
        hs_metrics_file(.path = test_path(directory, "rows.jsonl"), .tensors = HS_NAMES("loss"), .every_n_steps = 1),
        hs_progress(.descriptor = progress, .tensors = HS_NAMES("loss"), .every_n_steps = 1),
        hs_finite_guard(.losses = HS_NAMES("loss"), .spike_window = 2, .spike_zscore = 2.5, .policy = HS_GUARD_WARN),
        hs_evaluation(.evaluate = evaluate, .every_n_steps = 2),
        hs_early_stopping(.metric = "eval/accuracy", .patience = 1, .restore_best = true),
    };
    hs_session *session = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_steps = 2, .scalars = HS_NAMES("loss"),
                            .hooks = test_hooks(hooks, sizeof hooks / sizeof *hooks)),
        &err);
    if (!session)
        fail_msg("%s", err.message);
    for (pause = 0.25; hs_step_begin(session) && step < STEPS; pause *= 1.5) {
        loss = step == 4 ? 1000.25 : 1.5 / (double)(step + 7);
        test_env_advance(t, pause);
        assert_ok(hs_step_end(session), &err);
    }
    hs_outcome outcome = hs_session_close(session, &err);
    assert_ok(outcome.error.code, &outcome.error);
    assert_true(hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.stop_grace_secs = -0.5), &err) == NULL);
    test_write_file(test_path(directory, "error"), err.message, strlen(err.message));
    hs_graph_free(graph);
    close(progress);
}

/* Removes a number whose value depends on when the watchdog's threads ran. A decimal comma would remain. */
static void remove_number(char *text, const char *key)
{
    char *number = strstr(text, key);
    assert_non_null(number);
    number += strlen(key);
    char *end = number + strspn(number, "0123456789.");
    memmove(number, end, strlen(end) + 1);
}

/* Trains in the directory, and empties it. */
static output outputs_in(const char *directory)
{
    static test_env t;
    output out;
    test_env_init(&t);
    train(&t, directory);
    assert_int_equal(t.live, 0);
    out.log = strdup(t.log);
    for (int i = 0; i < N_FILES; i++)
        if (!(out.files[i] = test_read_file(test_path(directory, files[i]), NULL)))
            fail_msg("no file %s", files[i]);
    remove_number(out.files[0], "\"progress\": ");
    remove_number(out.files[0], "\"still_secs\": ");
    test_empty_directory(directory);
    return out;
}

static void output_free(const output *out)
{
    free(out->log);
    for (int i = 0; i < N_FILES; i++)
        free(out->files[i]);
}

static void a_decimal_comma_changes_no_file_and_no_line(void **state)
{
    (void)state;
    char *directory = test_make_directory();
    output point = outputs_in(directory);
    if (!test_use_comma()) {
        output_free(&point);
        test_remove_directory(directory);
        test_skip("localedef is missing");
    }
    output comma = outputs_in(directory);
    setlocale(LC_ALL, "C");
    assert_string_equal(comma.log, point.log);
    for (int i = 0; i < N_FILES; i++)
        assert_string_equal(comma.files[i], point.files[i]);
    output_free(&point);
    output_free(&comma);
    test_remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decimal_comma_changes_no_file_and_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
