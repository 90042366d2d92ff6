/* SPDX-License-Identifier: Apache-2.0 */
/* Forked children of a process that has a session. They neither run nor close it, and its files are unharmed. */
#include "summary/events.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAST = 6 };

/* A training whose steps the program computes. */
typedef struct {
    char *directory;
    hs_graph *graph;
    hs_session *session;
    double weight;
    hs_error err;
} training;

static int set_up(void **state)
{
    training *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->directory = test_make_directory();
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    training *t = *state;
    test_remove_directory(t->directory);
    free(t);
    return 0;
}

static void build(training *t)
{
    t->weight = 0;
    t->graph = hs_graph_new(NULL);
    hs_graph_variable(t->graph, "weight", HS_DOUBLE, HS_SCALAR, &t->weight);
}

static void open_session(training *t, hs_hook hook)
{
    t->session = hs_training_session_open(hs_graph_backend(t->graph),
                                          HS_TRAINING_OPTIONS(.checkpoint_dir = t->directory, .save_checkpoint_steps = 2,
                                                              .background = true, .signals = true,
                                                              .scalars = HS_NAMES("weight"), .save_summaries_steps = 1,
                                                              .hooks = HS_HOOKS(hook, hs_stop_at_step(.last_step = LAST))),
                                          &t->err);
}

static void begin(training *t)
{
    build(t);
    open_session(t, hs_stop_after(.this_run_secs = 1e9));
    if (!t->session)
        fail_msg("%s", t->err.message);
}

/* Makes the remaining steps, and checks that nothing is lost, added or written twice. */
static void finish(training *t)
{
    while (hs_step_begin(t->session)) {
        t->weight++;
        hs_step_end(t->session);
    }
    hs_outcome outcome = hs_session_close(t->session, &t->err);
    hs_graph_free(t->graph);
    assert_ok(outcome.error.code, &outcome.error);
    assert_int_equal(outcome.last_saved_step, LAST);
    for (int step = 1; step <= LAST; step++) {
        char scalar[64];
        snprintf(scalar, sizeof scalar, " weight=%d@%d", step, step);
        const char *text = events_text(t->directory), *found = strstr(text, scalar);
        assert_non_null(found);
        assert_null(strstr(found + 1, scalar));
    }
    assert_int_equal(test_count_files(t->directory, "events"), 1);
    assert_int_equal(test_count_files(t->directory, ".tmp"), 0);
}

/* What the program does in the child, if it does not know that it is in one. */

static bool is_refused(hs_code code, const hs_error *err)
{
    return code == HS_FAILED_PRECONDITION && strstr(err->message, "forked child");
}

static int run_and_close(void *user)
{
    training *t = user;
    hs_error err = {0};
    if (!hs_session_should_stop(t->session) || hs_step_begin(t->session) || !hs_step_end(t->session) ||
        hs_step_pass_gate(t->session) != HS_FAILED_PRECONDITION)
        return 1;
    if (!is_refused(hs_session_run(t->session, "weight", &err), &err) ||
        !is_refused(hs_session_run(t->session, NULL, &err), &err) ||
        !is_refused(hs_session_run_step(t->session, NULL, NULL, &err), &err))
        return 2;
    for (int i = 0; i < 2; i++) {
        hs_outcome outcome = hs_session_close(t->session, i ? NULL : &err);
        if (!is_refused(outcome.error.code, &outcome.error) || hs_outcome_exit_code(&outcome) != 1 ||
            outcome.last_saved_step != -1)
            return 3;
    }
    hs_graph_free(t->graph);
    return is_refused(err.code, &err) ? 0 : 4;
}

static void a_forked_child_neither_runs_nor_closes_the_session(void **state)
{
    training *t = *state;
    begin(t);
    for (int step = 0; step < 3; step++) {
        assert_true(hs_step_begin(t->session));
        t->weight++;
        if (step == 1)
            assert_int_equal(test_in_child(run_and_close, t), 0);
        assert_int_equal(hs_step_end(t->session), HS_OK);
        assert_int_equal(test_in_child(run_and_close, t), 0); /* the last save may be in progress */
    }
    finish(t);
}

/* A hook that forks in a callback. In the child the callback fails, and returns to the program through the library. */

typedef struct {
    pid_t child; /* -1: not forked yet. 0: this is the child */
    bool in_begin;
} forking;

static hs_code fork_once(forking *f, hs_error *err)
{
    if (f->child != -1)
        return HS_OK;
    fflush(NULL);
    f->child = fork();
    if (f->child)
        return HS_OK;
    alarm(50);
    return hs_error_set(err, HS_INTERNAL, "the worker has no data");
}

static hs_code fork_in_begin(void *self, hs_backend backend, hs_error *err)
{
    (void)backend;
    return ((forking *)self)->in_begin ? fork_once(self, err) : HS_OK;
}

static hs_code fork_in_after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values;
    return fork_once(self, err);
}

static const hs_hook_ops forks =
    HS_INIT(hs_hook_ops, .name = "forks", .begin = fork_in_begin, .after_run = fork_in_after_run);

static void a_child_that_returns_from_a_callback_changes_no_file(void **state)
{
    training *t = *state;
    int status;
    for (int in_begin = 0; in_begin < 2; in_begin++) {
        forking f = {.child = -1, .in_begin = in_begin};
        build(t);
        open_session(t, (hs_hook){.ops = &forks, .self = &f});
        if (f.child && !t->session)
            fail_msg("%s", t->err.message);
        bool begun = f.child && hs_step_begin(t->session);
        t->weight++;
        hs_code code = begun ? hs_step_end(t->session) : HS_OK;
        if (!f.child)
            _exit(in_begin ? t->session || t->err.code != HS_FAILED_PRECONDITION : code == HS_OK || run_and_close(t));
        assert_int_equal(waitpid(f.child, &status, 0), f.child);
        assert_int_equal(status, 0);
        finish(t);
        test_empty_directory(t->directory);
    }
}

/* A child may train on its own. */

static int train_elsewhere(void *user)
{
    training *parent = user, own = {.directory = test_make_directory()};
    begin(&own);
    if (!hs_step_begin(own.session))
        return 1;
    raise(SIGTERM);
    hs_step_end(own.session);
    hs_outcome outcome = hs_session_close(own.session, &own.err);
    hs_graph_free(own.graph);
    test_remove_directory(own.directory);
    return outcome.signal == SIGTERM && hs_outcome_exit_code(&outcome) == 75 ? run_and_close(parent) : 2;
}

static void the_session_of_a_forked_child_handles_signals(void **state)
{
    training *t = *state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    test_skip("sanitizers do not support threads and memory in a child of several threads");
#endif
    begin(t);
    assert_true(hs_step_begin(t->session));
    t->weight++;
    assert_int_equal(test_in_child(train_elsewhere, t), 0);
    assert_int_equal(hs_step_end(t->session), HS_OK);
    assert_false(hs_session_should_stop(t->session));
    finish(t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_forked_child_neither_runs_nor_closes_the_session),
        TEST(a_child_that_returns_from_a_callback_changes_no_file),
        TEST(the_session_of_a_forked_child_handles_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
