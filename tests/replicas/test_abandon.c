/* SPDX-License-Identifier: Apache-2.0 */
/* An engine ends the process while the session's thread waits elsewhere: the hooks record the outcome before. */
#include "support/group_of_one.h"
#include "support/test.h"

#include <hooksess/hooksess.h>

#include <pthread.h>

/* An engine, which calls the function that the session has installed. */
typedef struct {
    hs_abandon_fn abandon;
    void *user;
    int installed, removed, exit_code;
} engine;

static void set_abandon(void *self, hs_abandon_fn abandon, void *user)
{
    engine *e = self;
    e->abandon = abandon;
    e->user = user;
    *(abandon ? &e->installed : &e->removed) += 1;
}

static void *end_process(void *self)
{
    engine *e = self;
    hs_error why;
    hs_error_set(&why, HS_UNAVAILABLE, "rank 3 (host): killed");
    e->exit_code = e->abandon(e->user, 3, &why);
    return NULL;
}

/* As the engine's own thread, while this one is in the program's step. */
static void abandon(engine *e)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_process, e), 0);
    pthread_join(thread, NULL);
}

typedef struct {
    char *directory;
    engine engine;
    hs_group_ops ops;
    hs_group group;
    hs_graph *graph;
    float weight;
} fixture;

static hs_session *open_session(fixture *f, bool no_run_status)
{
    hs_error err;
    hs_session *session =
        hs_training_session_open(hs_graph_backend(f->graph),
                                 HS_TRAINING_OPTIONS(.checkpoint_dir = f->directory, .save_checkpoint_steps = 2,
                                                     .group = &f->group, .no_run_status = no_run_status),
                                 &err);
    if (!session)
        fail_msg("%s", err.message);
    return session;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->directory = test_make_directory();
    f->ops = group_of_one_ops;
    f->ops.set_abandon = set_abandon;
    f->group = (hs_group){.ops = &f->ops, .self = &f->engine};
    f->graph = hs_graph_new(NULL);
    hs_graph_variable(f->graph, "weight", HS_FLOAT, HS_SCALAR, &f->weight);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs_graph_free(f->graph);
    test_remove_directory(f->directory);
    free(f);
    return 0;
}

static char *read_outcome(const fixture *f)
{
    size_t bytes;
    return test_read_file(test_path(f->directory, "outcome.json"), &bytes);
}

static void the_outcome_is_written_while_the_thread_is_in_a_step(void **state)
{
    fixture *f = *state;
    hs_session *session = open_session(f, false);
    for (int i = 0; i < 3; i++) {
        assert_true(hs_step_begin(session));
        hs_step_end(session);
    }
    assert_true(hs_step_begin(session));
    abandon(&f->engine);
    assert_int_equal(f->engine.exit_code, 75);
    char *outcome = read_outcome(f);
    assert_contains(outcome, "\"reason\": \"failed\"");
    assert_contains(outcome, "\"step\": 3,");
    assert_contains(outcome, "\"last_saved_step\": 2,");
    assert_contains(outcome, "rank 3 (host): killed");
    assert_contains(outcome, "\"cause_rank\": 3,");
    assert_contains(outcome, "\"exit_code\": 75");
    free(outcome);
    hs_step_end(session);
    hs_session_close(session, NULL);
    assert_int_equal(f->engine.installed, 1);
    assert_int_equal(f->engine.removed, 1);
    assert_null(f->engine.abandon);
}

static void without_run_status_no_file_is_written(void **state)
{
    fixture *f = *state;
    hs_session *session = open_session(f, true);
    abandon(&f->engine);
    assert_false(test_exists(f->directory, "outcome.json"));
    hs_session_close(session, NULL);
}

static void without_a_checkpoint_the_exit_code_is_1(void **state)
{
    fixture *f = *state;
    hs_error err;
    hs_session *session = hs_session_open(hs_graph_backend(f->graph), HS_SESSION_OPTIONS(.group = &f->group), &err);
    assert_non_null(session);
    abandon(&f->engine);
    assert_int_equal(f->engine.exit_code, 1);
    hs_session_close(session, NULL);
}

#define with_engine(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {with_engine(the_outcome_is_written_while_the_thread_is_in_a_step),
                                       with_engine(without_run_status_no_file_is_written),
                                       with_engine(without_a_checkpoint_the_exit_code_is_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
