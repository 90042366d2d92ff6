/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the hook best_loss without a model and without waiting. It writes best_loss.txt in the current directory, or the
 * path that is its argument. Ends with 0 if all tests pass. */
#include "best_loss.h"

#include <hooksess/testing.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path; /* of the file that the hook writes */

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);                                       \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* Trains until the hook stops, the script ends or a run fails. A run takes a second. */
static hs_outcome train(hs_script *script, const hs_env *env)
{
    hs_hook hook = hs_script_watch(script, NULL, best_loss(env, path, 3));
    hs_error err;
    hs_session *session = hs_session_open(hs_script_backend(script), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
    if (!session)
        return hs_outcome_from_error(&err);
    while (!hs_session_should_stop(session)) {
        hs_script_advance(script, 1);
        if (hs_session_run(session, "train", &err) != HS_OK)
            break;
    }
    return hs_session_close(session, &err);
}

/* Returns -1 if the file does not exist. */
static double read_loss(void)
{
    double loss = -1;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    CHECK(fscanf(file, "%lf", &loss) == 1);
    fclose(file);
    return loss;
}

static bool has_temporary_file(void)
{
    char tmp[4096];
    CHECK(snprintf(tmp, sizeof tmp, "%s.tmp", path) < (int)sizeof tmp);
    FILE *file = fopen(tmp, "r");
    if (file)
        fclose(file);
    return file != NULL;
}

/* The script's clock stands still unless the test advances it, so the test does not wait for the patience. */
static void stops_when_the_loss_has_not_improved_for_three_seconds(void)
{
    const double losses[] = {5, 4, 4.5, 4.5, 4.5, 3};
    hs_script *script = hs_script_new(NULL);
    hs_script_series(script, "loss", losses, 6);
    hs_outcome outcome = train(script, NULL);
    CHECK(outcome.reason == HS_REASON_STOPPED);
    CHECK(strcmp(outcome.hook, "best_loss") == 0);
    CHECK(outcome.step == 5);
    CHECK(read_loss() == 4);
    hs_script_free(script);
}

/* The script records each callback. If a run fails, neither after_run nor end is called. */
static void a_failed_run_ends_the_training(void)
{
    const double losses[] = {5, 4, 3};
    hs_script *script = hs_script_new(NULL);
    hs_script_series(script, "loss", losses, 3);
    hs_script_fail_at(script, 2, HS_UNAVAILABLE, "worker lost");
    hs_outcome outcome = train(script, NULL);
    CHECK(outcome.reason == HS_REASON_FAILED);
    CHECK(strcmp(hs_script_calls(script), "begin create before run after before run close") == 0);
    CHECK(read_loss() == 5);
    hs_script_free(script);
}

static void a_graph_without_a_loss_is_refused(void)
{
    hs_script *script = hs_script_new(NULL);
    hs_outcome outcome = train(script, NULL);
    CHECK(outcome.error.code == HS_NOT_FOUND);
    CHECK(strstr(outcome.error.message, "'loss'"));
    hs_script_free(script);
}

/* Trains with the first `n` of the losses 5, 4, 3. */
static void train_with_losses(hs_test_system *system, size_t n)
{
    const double losses[] = {5, 4, 3};
    hs_script *script = hs_script_new(hs_test_system_env(system));
    CHECK(hs_script_series(script, "loss", losses, n) == HS_OK);
    hs_outcome outcome = train(script, hs_test_system_env(system));
    CHECK(outcome.reason == HS_REASON_END_OF_INPUT); /* also if the disk is full */
    CHECK(hs_test_system_open_files(system) == 0);
    hs_script_free(script);
}

/* Files of the test system fail on request. A training with one loss counts the calls that write it. */
static void a_full_disk_is_logged_and_the_file_stays(void)
{
    hs_test_system *system = hs_test_system_new();
    train_with_losses(system, 1);
    size_t calls = hs_test_system_file_calls(system);
    hs_test_system_fail_file_call(system, calls + 1, HS_RESOURCE_EXHAUSTED, true); /* from the second loss on */
    train_with_losses(system, 3);
    CHECK(strstr(hs_test_system_log(system), "WARNING: best_loss: loss 4 not written: open"));
    CHECK(strstr(hs_test_system_log(system), "WARNING: best_loss: loss 3 not written: open"));
    CHECK(read_loss() == 5);
    hs_test_system_free(system);
}

/* Trains with one loss, once for each file call, and lets that call fail. Each time the file has the whole loss or does not
 * exist. */
static void each_file_call_may_fail(void)
{
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        hs_test_system *system = hs_test_system_new();
        remove(path);
        hs_test_system_fail_file_call(system, n, HS_RESOURCE_EXHAUSTED, false);
        train_with_losses(system, 1);
        failed = hs_test_system_file_calls(system) >= n;
        CHECK(read_loss() == (failed ? -1 : 5));
        CHECK(!failed == !strstr(hs_test_system_log(system), "WARNING: best_loss: loss 5 not written"));
        CHECK(!has_temporary_file());
        hs_test_system_free(system);
    }
}

/* Runs the training once for each allocation, and lets that allocation fail. */
static void each_allocation_may_fail(void)
{
    const double losses[] = {5, 4, 3};
    hs_test_system *system = hs_test_system_new();
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        hs_test_system_fail_allocation(system, n);
        hs_script *script = hs_script_new(hs_test_system_env(system));
        hs_script_series(script, "loss", losses, 3);
        train(script, hs_test_system_env(system));
        hs_script_free(script);
        failed = hs_test_system_allocations(system) >= n;
        CHECK(hs_test_system_live_blocks(system) == 0);
    }
    hs_test_system_free(system);
}

int main(int argc, char **argv)
{
    void (*const tests[])(void) = {
        stops_when_the_loss_has_not_improved_for_three_seconds,
        a_failed_run_ends_the_training,
        a_graph_without_a_loss_is_refused,
        a_full_disk_is_logged_and_the_file_stays,
        each_file_call_may_fail,
        each_allocation_may_fail,
    };
    path = argc > 1 ? argv[1] : "best_loss.txt";
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        remove(path); /* each test begins without the file */
        tests[i]();
    }
    remove(path);
    puts("all tests of best_loss pass");
    return 0;
}
