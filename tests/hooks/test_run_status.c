/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* fork, kill */
#include "checkpoint/model.h"
#include "hooks/stage.h"

#include "support/json.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads a file of the directory as JSON. NULL: not found. The caller frees *text. */
static hs__json_value read_json(const stage *s, const char *name, char **text)
{
    size_t bytes;
    *text = test_read_file(test_path(s->directory, name), &bytes);
    return *text ? json_root(*text, bytes) : (hs__json_value){NULL, 0};
}

static int64_t number(const stage *s, const char *file, const char *key)
{
    char *text;
    int64_t found = json_int(read_json(s, file, &text), key);
    free(text);
    return found;
}

static void assert_text(const stage *s, const char *file, const char *key, const char *expected)
{
    char *text;
    assert_string_equal(json_text(read_json(s, file, &text), key), expected);
    free(text);
}

static hs_hook status(const stage *s)
{
    return hs_run_status(.status_dir = s->directory);
}

/* Opens a session whose saves take `secs`. The first one is made before the first run. */
static void open_with_saver(stage *s, double secs)
{
    const hs_hook hooks[] = {status(s), stage_slow_saver(s, secs)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
}

/* Records that the present step is durable. */
static void save(const stage *s)
{
    hs_raw_session_record_save(hs_session_raw(s->session), hs_session_global_step(s->session, NULL));
}

static void a_directory_is_needed(void **state)
{
    stage_refuses(*state, hs_run_status(.status_dir = ""), HS_INVALID_ARGUMENT, "status_dir is missing");
    stage_refuses(*state, hs_run_status_hook(&(hs_run_status_options){.status_dir = "x"}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_run_status_options");
}

/* The status. */

static void it_is_written_when_the_session_is_created(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 4);
    stage_open(s, status(s));
    assert_int_equal(number(s, "status.json", "step"), 4);
    assert_int_equal(number(s, "status.json", "last_durable_step"), -1);
    assert_int_equal(number(s, "status.json", "pid"), getpid());
    assert_text(s, "status.json", "phase", "init");
    assert_text(s, "status.json", "time", "2023-11-14T22:13:20.000Z");
    stage_run(s, "train", 1, 0);
    assert_text(s, "status.json", "phase", "step");
}

static void it_follows_the_saves(void **state)
{
    stage *s = *state;
    open_with_saver(s, 1.25);
    stage_run(s, "train", 3, 0);
    save(s);
    stage_run(s, "train", 2, 0);
    assert_int_equal(number(s, "status.json", "last_durable_step"), 3);
    assert_int_equal(number(s, "status.json", "step"), 3);
    char *text;
    assert_true(json_number(read_json(s, "status.json", &text), "save_secs") == 1.25);
    free(text);
}

static void a_step_without_a_save_writes_nothing(void **state)
{
    stage *s = *state;
    stage_open(s, status(s));
    stage_run(s, "train", 9, 0);
    hs_script_clear_calls(s->script);
    size_t calls = s->t.file_calls, allocations = s->t.allocations;
    stage_run(s, "train", 9, 0);
    assert_int_equal(s->t.file_calls, calls);
    assert_int_equal(s->t.allocations, allocations);
}

static void at_the_end_the_phase_is_end(void **state)
{
    stage *s = *state;
    stage_open(s, status(s));
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_text(s, "status.json", "phase", "end");
    assert_int_equal(number(s, "status.json", "step"), 2);
    assert_int_equal(test_count_files(s->directory, ".tmp"), 0);
}

static void a_resumed_run_knows_how_long_a_save_takes(void **state)
{
    stage *s = *state;
    open_with_saver(s, 0.25);
    stage_close(s);
    stage_open(s, status(s));
    assert_true(hs_raw_session_save_secs(hs_session_raw(s->session)) == 0.25);
}

static void the_save_time_of_this_run_counts_more(void **state)
{
    stage *s = *state;
    open_with_saver(s, 0.25);
    stage_close(s);
    hs_script_set_step(s->script, 1);
    open_with_saver(s, 3);
    assert_true(hs_raw_session_save_secs(hs_session_raw(s->session)) == 3);
}

static void invalid_save_times_are_ignored(void **state)
{
    static const char *const texts[] = {
        "", "{", "[]", "{\"save_secs\": -1}", "{\"save_secs\": 1e30}", "{\"save_secs\": \"3\"}", "{\"save_secs\": 3"};
    stage *s = *state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_write_file(test_path(s->directory, "status.json"), texts[i], strlen(texts[i]));
        stage_open(s, status(s));
        assert_true(hs_raw_session_save_secs(hs_session_raw(s->session)) == 0);
        stage_close(s);
    }
}

static void without_memory_the_earlier_status_is_not_read(void **state)
{
    stage *s = *state;
    const char *text = "{\"save_secs\": 0.25}";
    int reported = 0;
    for (size_t at = 1, fails = 0; fails <= s->t.allocations; at++) {
        const hs_hook hook = status(s);
        test_write_file(test_path(s->directory, "status.json"), text, strlen(text));
        test_env_clear_log(&s->t);
        s->t.fail_alloc_at = fails = s->t.allocations + at;
        hs_code code = stage_try(s, hs_script_backend(s->script), &hook, 1);
        s->t.fail_alloc_at = 0;
        reported += strstr(s->t.log, "WARNING: cannot read status.json of an earlier run: no memory for ") != NULL;
        if (!code)
            stage_close(s);
    }
    assert_in_range(reported, 1, 2); /* of the path and of the text */
}

/* The outcome. */

static void the_outcome_is_written(void **state)
{
    stage *s = *state;
    hs_hook hooks[] = {status(s), hs_stop_at_step(.last_step = 2)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 2, 0);
    save(s);
    stage_close(s);
    assert_text(s, "outcome.json", "reason", "stopped");
    assert_text(s, "outcome.json", "hook", "stop_at_step");
    assert_text(s, "outcome.json", "time", "2023-11-14T22:13:20.000Z");
    assert_int_equal(number(s, "outcome.json", "step"), 2);
    assert_int_equal(number(s, "outcome.json", "last_saved_step"), 2);
    assert_int_equal(number(s, "outcome.json", "exit_code"), 0);
    assert_int_equal(number(s, "outcome.json", "signal"), 0);
    char *text;
    hs__json_value root = read_json(s, "outcome.json", &text);
    assert_false(json_bool(root, "interrupted"));
    assert_true(hs__json_is(hs__json_member(root, "error"), 'n'));
    assert_int_equal(json_size(hs__json_member(root, "failures")), 0);
    free(text);
}

static void an_interruption_is_written(void **state)
{
    stage *s = *state;
    stage_open(s, status(s));
    stage_run(s, "train", 1, 0);
    save(s);
    hs_session_interrupt(s->session);
    stage_close(s);
    char *text;
    assert_true(json_bool(read_json(s, "outcome.json", &text), "interrupted"));
    free(text);
    assert_int_equal(number(s, "outcome.json", "exit_code"), 75);
}

/* Any message can be read back as JSON. */
static void an_error_is_written_as_valid_json(void **state)
{
    stage *s = *state;
    char *text;
    stage_open(s, status(s));
    stage_run(s, "train", 1, 0);
    hs_session_fail(s->session, test_error(HS_DATA_LOSS, "a \"file\" of\n\\ \x01 \xff\xc3\xa9\xed\xa0\x80 \xe2\x82"));
    hs_session_close(s->session, NULL);
    s->session = NULL;
    hs__json_value root = read_json(s, "outcome.json", &text), error = hs__json_member(root, "error");
    assert_string_equal(json_text(root, "reason"), "failed");
    assert_string_equal(json_text(error, "code"), "DATA_LOSS");
    assert_int_equal(json_int(error, "number"), HS_DATA_LOSS);
    assert_contains(json_text(error, "message"), "a \"file\" of\\x0a\\ \\x01 \\xff\xc3\xa9\\xed\\xa0\\x80 \\xe2\\x82");
    assert_int_equal(json_int(root, "exit_code"), 1);
    free(text);
}

static void report(stage *s, const char *name)
{
    hs_error disk_error = {.code = HS_UNAVAILABLE, .message = "no \"net\"\n\\ \x01 \xff\xc3\xa9\xed\xa0\x80 \xe2\x82"};
    assert_int_equal(hs_raw_session_report_result(hs_session_raw(s->session), name, disk_error.code, &disk_error), HS_OK);
    assert_int_equal(disk_error.code, HS_OK);
}

static void tolerated_failures_are_written(void **state)
{
    stage *s = *state;
    stage_open(s, status(s));
    stage_run(s, "train", 1, 0);
    report(s, "logger");
    stage_run(s, "train", 1, 0);
    report(s, "logger");
    report(s, "other");
    stage_close(s);
    char *text;
    hs__json_value failures = hs__json_member(read_json(s, "outcome.json", &text), "failures");
    hs__json_value first = json_at(failures, 0);
    assert_int_equal(json_size(failures), 2);
    assert_string_equal(json_text(first, "hook"), "logger");
    assert_int_equal(json_int(first, "failures"), 2);
    assert_int_equal(json_int(first, "first_step"), 1);
    assert_int_equal(json_int(first, "last_step"), 2);
    assert_false(json_bool(first, "muted"));
    assert_string_equal(
        json_text(hs__json_member(first, "last"), "message"),
        "no \"net\"\n\\ \x01 \xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd");
    free(text);
}

static void an_earlier_runs_outcome_is_not_this_ones(void **state)
{
    stage *s = *state;
    stage_open(s, status(s));
    stage_close(s);
    assert_true(test_exists(s->directory, "outcome.json"));
    stage_open(s, status(s));
    assert_false(test_exists(s->directory, "outcome.json"));
}

static hs_code refuse(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)self, (void)session, (void)coordinator;
    return hs_error_set(err, HS_ABORTED, "not today");
}

static void a_session_that_is_not_opened_has_an_outcome(void **state)
{
    static const hs_hook_ops refusing = HS_INIT(hs_hook_ops, .name = "refusing", .after_create_session = refuse);
    stage *s = *state;
    hs_hook hooks[] = {status(s), {.ops = &refusing}};
    assert_fails(stage_try(s, hs_script_backend(s->script), hooks, 2), HS_ABORTED, &s->err, "not today");
    assert_text(s, "outcome.json", "reason", "failed");
    assert_text(s, "outcome.json", "hook", "refusing");
}

/* For example, the name was mistyped. */
static void a_session_that_was_not_opened_makes_no_directory(void **state)
{
    stage *s = *state;
    hs_hook hooks[] = {hs_run_status(.status_dir = test_path(s->directory, "none")), hs_stop_at_step(.last_step = -1)};
    stage_try(s, hs_script_backend(s->script), hooks, 2);
    assert_null(s->session);
    assert_false(test_exists(s->directory, "none"));
}

static void a_directory_is_made(void **state)
{
    stage *s = *state;
    stage_open(s, hs_run_status(.status_dir = test_path(s->directory, "a/b")));
    stage_close(s);
    assert_true(test_exists(s->directory, "a/b/outcome.json"));
}

/* Failing. */

static void disk_errors_are_tolerated(void **state)
{
    stage *s = *state;
    hs_hook_failure failure;
    stage_open(s, status(s));
    s->t.fail_file_at = s->t.file_calls + 1;
    s->t.fail_file_on = true;
    s->t.fail_file_errno = EIO;
    for (int i = 0; i < 3; i++) {
        stage_run(s, "train", 1, 0);
        save(s);
    }
    assert_int_equal(count_of(s->t.log, "WARNING: step 0: run_status: cannot write status.json: "), 1);
    assert_int_equal(count_of(s->t.log, "WARNING"), 1);
    assert_true(hs_raw_session_failure(hs_session_raw(s->session), 0, &failure));
    assert_string_equal(failure.hook, "run_status");
    assert_int_equal(failure.failures, 3);
    stage_close(s);
    assert_int_equal(s->outcome.failing_hooks, 1);
    assert_text(s, "status.json", "phase", "init"); /* the last complete file */
}

/* Another process holds the directory until it is killed. */
static pid_t hold(const stage *s)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        void *lock = NULL;
        hs_file_system files = hs_env_default()->files;
        bool held = !files.ops->lock(files.user, test_path(s->directory, ".hooksess.lock"), &lock, NULL);
        if (write(ready[1], held ? "y" : "n", 1) == 1)
            pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(byte, 'y');
    return child;
}

static void a_directory_of_another_process_is_not_written(void **state)
{
    stage *s = *state;
    test_write_file(test_path(s->directory, "outcome.json"), "{}", 2);
    pid_t child = hold(s);
    stage_open(s, status(s));
    stage_run(s, "train", 1, 0);
    stage_close(s);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_contains(s->t.log,
                    "WARNING: status.json and outcome.json are not written: another process or session saves to '");
    assert_false(test_exists(s->directory, "status.json"));
    char *text;
    assert_int_equal(json_size(read_json(s, "outcome.json", &text)), 0);
    free(text);
}

static hs_code each_scenario(test_env *t, void *user)
{
    const stage *s = user;
    hs_error err = {0};
    test_tolerate(t, "cannot write status.json: ");
    test_tolerate(t, "cannot write outcome.json: ");
    test_tolerate(t, "cannot delete outcome.json of an earlier run: ");
    test_tolerate(t, "cannot read status.json of an earlier run: ");
    test_tolerate_harmless(t); /* the save time of an earlier run */
    test_write_file(test_path(s->directory, "outcome.json"), "{}", 2);
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_hook hook = hs_run_status(.status_dir = s->directory);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    for (int i = 0; i < 2 && session && !err.code; i++) {
        hs_session_run(session, "train", &err);
        hs_raw_session_record_save(hs_session_raw(session), hs_session_global_step(session, NULL));
    }
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    test_each_allocation(each_scenario, *state);
}

/* After any failure, the status file is complete. */
static void is_whole(void *user)
{
    char *text;
    read_json(user, "status.json", &text);
    free(text);
    read_json(user, "outcome.json", &text);
    free(text);
}

static void each_file_call(void **state)
{
    test_each_file_call(each_scenario, is_whole, ENOSPC, false, *state);
    test_each_file_call(each_scenario, is_whole, EIO, true, *state);
}

/* In a training session. */

static void train(const stage *s, hs_training_options options)
{
    model m;
    model_set(&m, 0);
    model_build(&m, &s->t.env);
    options.checkpoint_dir = s->directory;
    options.log_step_count_steps = options.save_summaries_steps = HS_NEVER;
    assert_non_null(m.session = hs_training_session_open(hs_graph_backend(m.graph), &options, &m.err));
    assert_ok(model_train(&m, 3), &m.err);
    model_close(&m);
}

static void a_training_session_has_it(void **state)
{
    stage *s = *state;
    train(s, (hs_training_options)HS_INIT(hs_training_options));
    assert_int_equal(number(s, "status.json", "last_durable_step"), 3);
    assert_int_equal(number(s, "outcome.json", "last_saved_step"), 3);
}

/* The save ends during the close. */
static void a_failed_session_counts_the_save_in_the_background(void **state)
{
    stage *s = *state;
    hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .background = true),
                       hs_run_status(.status_dir = s->directory)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 1, 0);
    hs_session_fail(s->session, test_error(HS_INTERNAL, "no more"));
    hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_int_equal(number(s, "outcome.json", "last_saved_step"), 1);
    assert_int_equal(number(s, "status.json", "last_durable_step"), 1);
}

static void a_training_session_may_do_without(void **state)
{
    stage *s = *state;
    train(s, (hs_training_options)HS_INIT(hs_training_options, .no_run_status = true));
    assert_int_equal(test_count_files(s->directory, ".json"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_directory_is_needed),
        with_stage(it_is_written_when_the_session_is_created),
        with_stage(it_follows_the_saves),
        with_stage(a_step_without_a_save_writes_nothing),
        with_stage(at_the_end_the_phase_is_end),
        with_stage(a_resumed_run_knows_how_long_a_save_takes),
        with_stage(the_save_time_of_this_run_counts_more),
        with_stage(invalid_save_times_are_ignored),
        with_stage(without_memory_the_earlier_status_is_not_read),
        with_stage(the_outcome_is_written),
        with_stage(an_interruption_is_written),
        with_stage(an_error_is_written_as_valid_json),
        with_stage(tolerated_failures_are_written),
        with_stage(an_earlier_runs_outcome_is_not_this_ones),
        with_stage(a_session_that_is_not_opened_has_an_outcome),
        with_stage(a_session_that_was_not_opened_makes_no_directory),
        with_stage(a_directory_is_made),
        with_stage(disk_errors_are_tolerated),
        with_stage(a_directory_of_another_process_is_not_written),
        with_stage(each_allocation),
        with_stage(each_file_call),
        with_stage(a_training_session_has_it),
        with_stage(a_failed_session_counts_the_save_in_the_background),
        with_stage(a_training_session_may_do_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
