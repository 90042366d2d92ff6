/* SPDX-License-Identifier: Apache-2.0 */
/* Where a stop takes effect, the session saves: the program may change its state before it closes the session. */
#include "session/own.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

enum { BATCHES = 4, AT_STEP = 2 }; /* AT_STEP: the stop comes in the second batch of the first epoch */

/* Nested loops, as programs have them: the loops' variables also change after the last step. */
typedef struct {
    int64_t epoch, batch;
} place;

static place *loops(own *o)
{
    static place p;
    (void)o;
    return &p;
}

static hs_hook saver(own *o)
{
    return hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 100);
}

static void open_loops(own *o, hs_hook hook)
{
    hs_hook hooks[] = {hook, saver(o)};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory, .signals = true), hook.ops ? hooks : hooks + 1,
             hook.ops ? 2 : 1);
}

static int nested_setup(void **state)
{
    int failed = own_setup(state);
    own *o = *state;
    *loops(o) = (place){0, 0};
    hs_graph_bytes(o->graph, "loops", loops(o), sizeof(place));
    return failed;
}

/* One epoch after the other. `act` is called within step AT_STEP. Returns the number of steps. */
static int train_epochs(own *o, int64_t epochs, void (*act)(own *o))
{
    int steps = 0;
    place *at = loops(o);
    for (; at->epoch < epochs; at->epoch++, at->batch = 0)
        while (at->batch < BATCHES && hs_step_begin(o->session)) {
            own_compute(o);
            at->batch++;
            if (++steps == AT_STEP && act)
                act(o);
            hs_step_end(o->session);
        }
    return steps;
}

/* Closes the session, forgets everything, and opens it again, as the next process does. */
static void restart(own *o)
{
    own_close(o);
    own_forget(o);
    *loops(o) = (place){-1, -1};
    open_loops(o, (hs_hook){.ops = NULL});
}

static void assert_at(own *o, int64_t epoch, int64_t batch)
{
    assert_int_equal(loops(o)->epoch, epoch);
    assert_int_equal(loops(o)->batch, batch);
}

/* A stop within a step. */

static void get_signal(own *o)
{
    (void)o;
    raise(SIGTERM);
}

static void interrupt(own *o)
{
    hs_session_interrupt(o->session);
}

static void complete(own *o)
{
    hs_session_request_stop(o->session);
}

static void end_input(own *o)
{
    hs_session_end_input(o->session);
}

static void nested_loops_resume_after_the_step_in_which_they_were_stopped(void **state)
{
    own *o = *state;
    void (*const stops[])(own *) = {get_signal, interrupt, complete};
    for (size_t i = 0; i < 3; i++) {
        test_empty_directory(o->directory);
        own_forget(o);
        *loops(o) = (place){0, 0};
        open_loops(o, (hs_hook){.ops = NULL});
        assert_int_equal(train_epochs(o, 3, stops[i]), AT_STEP);
        assert_at(o, 3, 0); /* the loops have run out */
        restart(o);
        assert_int_equal(o->outcome.last_saved_step, AT_STEP);
        assert_at(o, 0, AT_STEP);
        assert_int_equal(train_epochs(o, 3, NULL), 3 * BATCHES - AT_STEP);
        own_close(o);
    }
}

static void nested_loops_resume_after_the_step_in_which_a_hook_stopped_them(void **state)
{
    own *o = *state;
    open_loops(o, hs_stop_at_step(.last_step = AT_STEP));
    train_epochs(o, 3, NULL);
    restart(o);
    assert_at(o, 0, AT_STEP);
    own_close(o);
}

/* The step in which the input ended is not made, so its changes are saved with the previous step. */
static void the_end_of_the_input_saves_when_it_ends_the_loop(void **state)
{
    own *o = *state;
    open_loops(o, (hs_hook){.ops = NULL});
    assert_int_equal(train_epochs(o, 3, end_input), AT_STEP);
    restart(o);
    assert_int_equal(o->outcome.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(o->outcome.last_saved_step, AT_STEP - 1);
    assert_at(o, 0, AT_STEP);
    own_close(o);
}

static void the_signal_is_logged_when_it_takes_effect(void **state)
{
    own *o = *state;
    open_loops(o, (hs_hook){.ops = NULL});
    assert_true(hs_step_begin(o->session));
    raise(SIGTERM);
    assert_lacks(o->t.log, "SIGTERM");
    hs_step_end(o->session);
    assert_contains(o->t.log, "INFO: SIGTERM: stopping after step 1");
    test_env_clear_log(&o->t);
    own_close(o);
    assert_lacks(o->t.log, "SIGTERM");
    assert_contains(o->t.log, "INFO: saved step 1; start again to continue");
}

/* A stop between steps. */

static void the_first_step_that_does_not_begin_saves(void **state)
{
    own *o = *state;
    open_loops(o, (hs_hook){.ops = NULL});
    assert_int_equal(own_loop(o, 3), 3);
    loops(o)->epoch = 7; /* an evaluation, in which the signal comes, then the end of the epoch */
    hs_session_interrupt(o->session);
    assert_false(hs_step_begin(o->session));
    loops(o)->epoch = 8;
    assert_false(hs_step_begin(o->session));
    restart(o);
    assert_at(o, 7, 0);
    own_close(o);
}

static void a_loop_that_only_polls_is_saved_when_it_is_closed(void **state)
{
    own *o = *state;
    open_loops(o, (hs_hook){.ops = NULL});
    assert_int_equal(own_loop(o, 3), 3);
    hs_session_interrupt(o->session);
    assert_true(hs_session_should_stop(o->session));
    loops(o)->epoch = 8;
    restart(o);
    assert_at(o, 8, 0);
    own_close(o);
}

static void a_loop_that_ends_without_a_stop_is_saved_when_it_is_closed(void **state)
{
    own *o = *state;
    open_loops(o, (hs_hook){.ops = NULL});
    assert_int_equal(train_epochs(o, 2, NULL), 2 * BATCHES);
    restart(o);
    assert_at(o, 2, 0);
    own_close(o);
}

static void stop_then_leave(own *o, const hs_error *failure)
{
    open_loops(o, (hs_hook){.ops = NULL});
    assert_int_equal(own_loop(o, 1), 1);
    if (failure)
        hs_session_fail(o->session, failure);
    hs_session_interrupt(o->session);
    hs_step_begin(o->session);
}

static void a_program_that_has_failed_is_not_saved(void **state)
{
    own *o = *state;
    stop_then_leave(o, test_error(HS_INTERNAL, "the device is gone"));
    assert_int_equal(own_close(o)->last_saved_step, 0);
    assert_int_equal(o->outcome.reason, HS_REASON_FAILED);
}

static void a_failure_after_the_stop_prevents_the_ends(void **state)
{
    own *o = *state;
    own_open_probes(o, NULL);
    own_calls(o);
    hs_session_interrupt(o->session);
    assert_false(hs_step_begin(o->session));
    hs_session_fail(o->session, test_error(HS_INTERNAL, "no room for the model"));
    own_close(o);
    assert_string_equal(own_calls(o), "a.boundary b.boundary b.close a.close");
}

/* Runs. */

static hs_code add_one(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    own_compute(self);
    return HS_OK;
}

static int op_setup(void **state)
{
    int failed = nested_setup(state);
    own *o = *state;
    hs_graph_op(o->graph, .name = "train", .run = add_one, .user = o, .writes = HS_NAMES("weight"), .advances_step = true);
    return failed;
}

static void a_run_saves_in_which_a_stop_was_requested(void **state)
{
    own *o = *state;
    open_loops(o, hs_stop_at_step(.last_step = 2));
    while (!hs_session_should_stop(o->session))
        assert_ok(hs_session_run(o->session, "train", &o->err), &o->err);
    loops(o)->epoch = 8;
    restart(o);
    assert_at(o, 0, 0);
    own_close(o);
}

static void runs_after_an_interrupt_are_saved_when_it_is_closed(void **state)
{
    own *o = *state;
    open_loops(o, (hs_hook){.ops = NULL});
    hs_session_interrupt(o->session);
    assert_ok(hs_session_run(o->session, "train", &o->err), &o->err);
    assert_true(own_saved(o, "weight") == 1);
    assert_ok(hs_session_run(o->session, "train", &o->err), &o->err);
    loops(o)->epoch = 8;
    restart(o);
    assert_int_equal(o->outcome.last_saved_step, 2);
    assert_at(o, 8, 0);
    own_close(o);
}

/* A caller may use the values of its last run, whatever the hooks run when they save. */
static hs_code run_in_the_boundary(probe *p, const probe_call *call)
{
    const hs_run_values *values;
    (void)p;
    if (call->point != PROBE_BOUNDARY || hs_run_context_boundary(call->run) != HS_BOUNDARY_STOP)
        return HS_OK;
    hs_code code =
        hs_raw_session_run(hs_run_context_session(call->run), HS_RUN_ARGS(.names = HS_NAMES("loss")), &values, call->err);
    p->number = code ? 0 : hs_run_values_number(values, 0);
    return code;
}

static void the_values_of_the_last_run_stay(void **state)
{
    own *o = *state;
    const hs_run_values *values;
    own_probe(o, a, .act = run_in_the_boundary);
    open_loops(o, probe_hook(&o->a));
    hs_session_interrupt(o->session);
    assert_ok(hs_session_run_args(o->session, HS_RUN_ARGS(.names = HS_NAMES("train", "weight")), &values, &o->err),
              &o->err);
    assert_true(o->a.number == -1);
    assert_true(hs_run_values_number(values, 1) == 1);
}

typedef struct {
    own *o;
    bool stops;
} two_runs;

static hs_code make_two_runs(void *user, hs_step_context *step, hs_error *err)
{
    two_runs *t = user;
    const hs_run_args train = HS_INIT(hs_run_args, .names = HS_NAMES("train"));
    hs_code code = hs_step_context_run_with_hooks(step, &train, NULL, err);
    if (code)
        return code;
    hs_session_interrupt(t->o->session);
    if ((code = hs_step_context_run_with_hooks(step, &train, NULL, err)))
        return code;
    loops(t->o)->batch = 5;
    return t->stops ? hs_step_context_request_stop(step) : HS_OK;
}

static void a_step_function_is_saved_when_it_returns(void **state)
{
    own *o = *state;
    for (int stops = 0; stops < 2; stops++) {
        test_empty_directory(o->directory);
        own_forget(o);
        *loops(o) = (place){0, 0};
        two_runs t = {o, stops};
        open_loops(o, (hs_hook){.ops = NULL});
        assert_int_equal(hs_session_run_step(o->session, make_two_runs, &t, &o->err), stops ? HS_STOP : HS_OK);
        loops(o)->epoch = 8;
        restart(o);
        assert_at(o, 0, 5);
        own_close(o);
    }
}

/* Failures. */

/* The disk fails when the stop saves, and works again at the close. */
static void a_failed_save_of_the_stop_is_not_repeated_when_it_is_closed(void **state)
{
    own *o = *state;
    own_probe(o, a, .code = 0);
    hs_hook hooks[] = {hs_script_watch(o->calls, "a", probe_hook(&o->a)), saver(o)};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 2);
    own_calls(o);
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    hs_session_interrupt(o->session);
    o->t.fail_file_at = o->t.file_calls + 1;
    o->t.fail_file_on = true;
    o->t.fail_file_errno = ENOSPC;
    assert_ok(hs_step_end(o->session), &o->err);
    o->t.fail_file_at = 0;
    loops(o)->epoch = 8;
    own_close(o);
    assert_string_equal(own_calls(o), "a.before a.after a.boundary a.end a.boundary a.close");
    assert_int_equal(o->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(o->outcome.last_saved_step, 0);
    assert_int_equal(o->outcome.step, 1);
    assert_string_equal(o->outcome.hook, "checkpoint_saver");
    assert_says(&o->outcome.error, HS_RESOURCE_EXHAUSTED, "hook 'checkpoint_saver', boundary at step 1: not saved");
    assert_true(own_saved(o, "weight") == 0);
}

/* A save in the background that lasts until the stop, and of which a listener then fails. */
static struct {
    sem_t ended;
    hs_file_system_ops honest;
} late;

static hs_code sync_late(void *user, void *file, hs_error *err)
{
    sem_wait(&late.ended);
    sem_post(&late.ended);
    return late.honest.sync(user, file, err);
}

static hs_code end_save(void *self, hs_run_context *run, hs_error *err)
{
    (void)self, (void)err;
    if (hs_run_context_boundary(run) == HS_BOUNDARY_STOP)
        sem_post(&late.ended);
    return HS_OK;
}

static hs_code refuse_first(void *self, hs_raw_session *session, int64_t step, bool *stops, hs_error *err)
{
    (void)self, (void)session, (void)stops;
    return step == 1 ? hs_error_set(err, HS_INTERNAL, "the listener has failed") : HS_OK;
}

static void a_failure_after_an_earlier_save_does_not_prevent_that_of_the_stop(void **state)
{
    own *o = *state;
    static const hs_saver_listener_ops listener = HS_INIT(hs_saver_listener_ops, .after_save = refuse_first);
    static const hs_hook_ops ender = HS_INIT(hs_hook_ops, .name = "ender", .boundary = end_save);
    hs_env env = o->t.env;
    hs_file_system_ops ops = late.honest = *env.files.ops;
    ops.sync = sync_late;
    env.files.ops = &ops;
    assert_int_equal(sem_init(&late.ended, 0, 1), 0);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &o->err);
    const hs_hook hooks[] = {HS_HOOK(.ops = &ender),
                             hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 100, .background = true,
                                                 .saver = saver, .listeners = HS_LISTENERS({.ops = &listener}))};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 2);
    sem_wait(&late.ended);
    hs_session_request_save(o->session); /* after the first step */
    assert_int_equal(train_epochs(o, 3, interrupt), AT_STEP);
    own_close(o);
    assert_int_equal(o->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(o->outcome.last_saved_step, AT_STEP);
    assert_contains(o->outcome.error.message, "the listener has failed");
    hs_saver_free(saver);
    own_forget(o);
    open_loops(o, (hs_hook){.ops = NULL});
    assert_at(o, 0, AT_STEP);
    own_close(o);
    sem_destroy(&late.ended);
}

/* The best state is another state, which the program could not change. */
static void a_best_state_is_saved_when_it_is_closed(void **state)
{
    own *o = *state;
    hs_hook hooks[] = {hs_early_stopping(.tensor = "loss", .larger_is_better = true, .restore_best = true), saver(o)};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 2);
    assert_int_equal(own_loop(o, 10), 2); /* the loss of step 1 is the best */
    assert_true(own_saved(o, "weight") == 3);
    own_close(o);
    assert_true(own_saved(o, "weight") == 1);
    assert_int_equal(o->outcome.last_saved_step, 1);
}

/* The boundary itself. */

static hs_code note_boundary(probe *p, const probe_call *call)
{
    if (call->point == PROBE_BOUNDARY)
        *(int *)p->user = *(int *)p->user * 10 + (int)hs_run_context_boundary(call->run);
    return HS_OK;
}

static void the_boundary_of_the_stop_comes_once(void **state)
{
    own *o = *state;
    int seen = 0;
    own_probe(o, a, .act = note_boundary, .user = &seen);
    own_open_probes(o, NULL);
    assert_int_equal(own_loop(o, 1), 1);
    hs_session_interrupt(o->session);
    for (int i = 0; i < 3; i++)
        assert_false(hs_step_begin(o->session));
    hs_session_request_stop(o->session);
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_int_equal(seen, HS_BOUNDARY_CREATED * 100 + HS_BOUNDARY_STOP * 10 + HS_BOUNDARY_END);
}

static void all_hooks_get_the_boundary_of_the_stop_whatever_fails(void **state)
{
    own *o = *state;
    own_probe(o, a, .fails_in = PROBE_BOUNDARY, .fails_at = 2, .message = "no");
    own_open_probes(o, NULL);
    own_calls(o);
    hs_session_interrupt(o->session);
    assert_false(hs_step_begin(o->session));
    assert_string_equal(own_calls(o), "a.boundary b.boundary");
    own_close(o);
    assert_string_equal(own_calls(o), "a.end b.end a.boundary b.boundary b.close a.close");
    assert_says(&o->outcome.error, HS_INTERNAL, "hook 'a', boundary at step 0: no");
}

#define nested_test(name) cmocka_unit_test_setup_teardown(name, nested_setup, own_teardown)
#define op_test(name)     cmocka_unit_test_setup_teardown(name, op_setup, own_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        nested_test(nested_loops_resume_after_the_step_in_which_they_were_stopped),
        nested_test(nested_loops_resume_after_the_step_in_which_a_hook_stopped_them),
        nested_test(the_end_of_the_input_saves_when_it_ends_the_loop),
        nested_test(the_signal_is_logged_when_it_takes_effect),
        nested_test(the_first_step_that_does_not_begin_saves),
        nested_test(a_loop_that_only_polls_is_saved_when_it_is_closed),
        nested_test(a_loop_that_ends_without_a_stop_is_saved_when_it_is_closed),
        nested_test(a_program_that_has_failed_is_not_saved),
        own_test(a_failure_after_the_stop_prevents_the_ends),
        op_test(a_run_saves_in_which_a_stop_was_requested),
        op_test(runs_after_an_interrupt_are_saved_when_it_is_closed),
        op_test(the_values_of_the_last_run_stay),
        op_test(a_step_function_is_saved_when_it_returns),
        nested_test(a_failed_save_of_the_stop_is_not_repeated_when_it_is_closed),
        nested_test(a_failure_after_an_earlier_save_does_not_prevent_that_of_the_stop),
        nested_test(a_best_state_is_saved_when_it_is_closed),
        own_test(the_boundary_of_the_stop_comes_once),
        own_test(all_hooks_get_the_boundary_of_the_stop_whatever_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
