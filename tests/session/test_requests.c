/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from outside: stop, done, save; and the session's outcome. */
#include "session/probe.h"

#include "session/services.h"

#include <hooksess/graph.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static int code_of(play *p)
{
    return hs_outcome_exit_code(play_close(p));
}

static hs_code save_each_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BOUNDARY)
        hs_raw_session_record_save(hs_run_context_session(call->run), hs_run_context_global_step(call->run, NULL));
    return HS_OK;
}

static hs_code interrupt_in_after_run(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER)
        hs_run_context_interrupt(call->run);
    return save_each_boundary(p, call);
}

static void a_stopped_and_saved_training_can_resume(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = save_each_boundary);
    play_open_probes(p, 1);
    play_train(p);
    hs_session_interrupt(p->session);
    assert_int_equal(code_of(p), 75);
    assert_int_equal(p->outcome.reason, HS_REASON_STOPPED);
    assert_true(p->outcome.interrupted);
    assert_int_equal(p->outcome.last_saved_step, 1);
    assert_true(p->a.outcome.interrupted);
}

static void a_stop_without_any_checkpoint_exits_with_0(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    play_train(p);
    hs_session_interrupt(p->session);
    assert_int_equal(code_of(p), 0);
    assert_true(p->outcome.interrupted);
}

static void the_program_may_declare_the_training_done(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = save_each_boundary);
    play_open_probes(p, 1);
    play_train(p);
    hs_session_request_stop(p->session);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(code_of(p), 0);
    assert_int_equal(p->outcome.reason, HS_REASON_STOPPED);
    assert_false(p->outcome.interrupted);
    assert_int_equal(p->outcome.last_saved_step, 1);
    assert_string_equal(p->outcome.hook, "");
}

/* Requested before or after the stop, or by a hook. */
static void the_programs_done_counts_more_than_an_interruption(void **state)
{
    play *p = *state;
    for (int first = 0; first < 2; first++) {
        play_probe(p, a, .act = save_each_boundary);
        play_open_probes(p, 1);
        play_train(p);
        if (first)
            hs_session_interrupt(p->session);
        hs_session_request_stop(p->session);
        hs_session_interrupt(p->session);
        assert_int_equal(code_of(p), 0);
    }
    play_probe(p, a, .act = interrupt_in_after_run);
    play_open_probes(p, 1);
    play_train(p);
    hs_session_request_stop(p->session);
    assert_int_equal(code_of(p), 0);
}

static void a_training_declared_done_at_first_makes_no_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = save_each_boundary);
    play_open_probes(p, 1);
    hs_session_request_stop(p->session);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(code_of(p), 0);
    assert_int_equal(p->outcome.step, 0);
}

/* As in a cluster in which other workers continue. */
static hs_code save_before_others_go_on(probe *p, const probe_call *call)
{
    save_each_boundary(p, call);
    if (call->point == PROBE_BOUNDARY && hs_run_context_boundary(call->run) == HS_BOUNDARY_END)
        hs_script_set_step(p->user, 7);
    return HS_OK;
}

static void steps_of_others_after_the_last_save_are_not_its_own(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = save_before_others_go_on, .user = p->script);
    play_open_probes(p, 1);
    play_train(p);
    hs_session_interrupt(p->session);
    assert_int_equal(code_of(p), 75);
    assert_int_equal(p->outcome.step, 1);
}

static hs_code save_at_the_creation(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_CREATE)
        hs_raw_session_record_save(call->raw, 0);
    return HS_OK;
}

static void a_stop_with_an_unsaved_last_step_is_a_failure(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = save_at_the_creation);
    play_open_probes(p, 1);
    play_train(p);
    hs_session_interrupt(p->session);
    assert_int_equal(code_of(p), 1);
    assert_int_equal(p->outcome.reason, HS_REASON_STOPPED);
}

/* Both in the same step. */
static void a_hook_that_is_done_counts_more_than_a_request(void **state)
{
    play *p = *state;
    play_probe(p, a, .stops_at = 1, .act = save_each_boundary);
    play_open_probes(p, 1);
    hs_session_interrupt(p->session);
    play_train(p);
    assert_int_equal(code_of(p), 0);
    assert_false(p->outcome.interrupted);
    assert_string_equal(p->outcome.hook, "a");
}

static void a_hook_can_interrupt(void **state)
{
    play *p = *state;
    play_probe(p, b, .act = interrupt_in_after_run);
    play_open_probes(p, 2);
    play_train(p);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(code_of(p), 75);
    assert_string_equal(p->outcome.hook, "b");
}

static void a_request_to_stop_overrides_a_request_to_interrupt(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = interrupt_in_after_run);
    play_probe(p, b, .stops_at = 1);
    play_open_probes(p, 2);
    play_train(p);
    assert_int_equal(code_of(p), 0);
    assert_string_equal(p->outcome.hook, "b");
    play_probe(p, a, .stops_at = 1);
    play_probe(p, b, .act = interrupt_in_after_run);
    play_open_probes(p, 2);
    play_train(p);
    assert_int_equal(code_of(p), 0);
    assert_string_equal(p->outcome.hook, "a");
}

static void a_stop_of_a_step_function_is_not_an_interruption(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_coordinator_request_stop(hs_session_coordinator(p->session), NULL);
    assert_int_equal(code_of(p), 0);
    assert_false(p->outcome.interrupted);
}

static hs_code count_call(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    ++*(int *)self;
    return HS_OK;
}

static void requests_by_the_session_and_by_its_raw_session_are_answered(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "answers", .after_run = count_call);
    play *p = *state;
    int acts = 0;
    play_open(p, &HS_HOOK(.ops = &ops, .self = &acts, .when = HS_TRIGGER(.on_request = true)), 1);
    play_train(p);
    assert_int_equal(acts, 0);
    hs_session_request_save(p->session);
    play_train(p);
    assert_int_equal(acts, 1);
    hs_raw_session_request_save(hs_session_raw(p->session));
    play_train(p);
    play_train(p);
    assert_int_equal(acts, 2);
    hs_session_request_save(NULL);
}

static void raw_sessions_have_the_same_requests(void **state)
{
    play *p = *state;
    for (int interrupts = 0; interrupts < 2; interrupts++) {
        play_open_probes(p, 1);
        (interrupts ? hs_raw_session_interrupt : hs_raw_session_request_stop)(hs_session_raw(p->session));
        assert_true(hs_session_should_stop(p->session));
        hs_outcome outcome = hs_session_close(p->session, NULL);
        p->session = NULL;
        assert_int_equal(outcome.interrupted, interrupts);
    }
    hs_raw_session_request_stop(NULL);
    hs_raw_session_interrupt(NULL);
}

static void polling_is_should_stop_for_any_thread(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    assert_false(hs_session_poll(p->session));
    hs_raw_session_interrupt(hs_session_raw(p->session));
    assert_true(hs_session_poll(p->session));
    assert_true(hs_session_poll(NULL));
}

static void the_seconds_of_a_save_are_known_once_set(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_true(hs_raw_session_save_secs(raw) == 0);
    hs__raw_session_set_save_secs(raw, 1.5);
    hs__raw_session_set_save_secs(raw, -1);
    assert_true(hs_raw_session_save_secs(raw) == 1.5);
    assert_true(hs__raw_session_grace_secs(raw) == 0); /* no signals */
    assert_int_equal(hs_raw_session_last_saved_step(raw), -1);
}

static hs_code look_at_phase(probe *p, const probe_call *call)
{
    const char *hook;
    if (call->point == PROBE_CLOSE || call->point == PROBE_BEGIN)
        return HS_OK;
    hs_phase phase = hs_raw_session_phase(p->raw, &hook, NULL);
    snprintf((char *)p->user + strlen(p->user), 200 - strlen(p->user), "%s:%s ", hs_phase_name(phase), hook);
    return HS_OK;
}

static void other_threads_see_its_phase(void **state)
{
    play *p = *state;
    char seen[200] = "";
    int64_t before, after;
    const char *hook;
    play_probe(p, b, .act = look_at_phase, .user = seen);
    play_open_probes(p, 3);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_int_equal(hs_raw_session_phase(raw, &hook, &before), HS_PHASE_DATA);
    assert_string_equal(hook, "");
    play_train(p);
    assert_int_equal(hs_raw_session_phase(raw, NULL, &after), HS_PHASE_DATA);
    assert_true(after != before);
    assert_int_equal(hs_raw_session_enter_phase(raw, HS_PHASE_EVAL), HS_PHASE_DATA);
    assert_int_equal(hs_raw_session_phase(raw, NULL, NULL), HS_PHASE_EVAL);
    play_close(p);
    assert_string_equal(seen, "init:b init:b step:b step:b end:b end:b ");
    assert_string_equal(hs_phase_name((hs_phase)77), "unknown");
}

/* Waiting for data. */

typedef struct {
    hs_session *session;
    bool fails; /* instead of requesting a stop */
    atomic_bool entered, over;
} outsider;

static void *ask_to_stop(void *user)
{
    outsider *o = user;
    while (!atomic_load(&o->entered))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    if (o->fails)
        hs_coordinator_request_stop(hs_session_coordinator(o->session), &(hs_error){.code = HS_INTERNAL});
    else
        hs_session_interrupt(o->session);
    return NULL;
}

static hs_code note_entry(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    atomic_store(&((outsider *)self)->entered, true);
    return HS_OK;
}

/* As a disk that does not respond. */
static hs_code produce_nothing(void *self, hs_op *op, hs_error *err)
{
    (void)op;
    while (!atomic_load(&((outsider *)self)->over))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return hs_error_set(err, HS_OUT_OF_RANGE, "no more");
}

static hs_code wait_for_a_stop(void *self, hs_op *op, hs_error *err)
{
    note_entry(self, op, err);
    while (!hs_op_stop_requested(op))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return hs_error_set(err, HS_STOP, "it was asked to stop");
}

/* The session's thread runs `op`, which waits until another thread requests a stop. */
static hs_outcome stop_in(hs_graph *graph, outsider *o, const char *op)
{
    hs_error err = {0};
    pthread_t thread;
    o->session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    assert_ok(err.code, &err);
    assert_int_equal(pthread_create(&thread, NULL, ask_to_stop, o), 0);
    assert_int_equal(hs_session_run(o->session, op, &err), HS_STOP);
    pthread_join(thread, NULL);
    assert_true(hs_session_should_stop(o->session));
    atomic_store(&o->over, true);
    hs_outcome outcome = hs_session_close(o->session, &err);
    assert_int_equal(err.code, o->fails ? HS_INTERNAL : HS_OK);
    hs_graph_free(graph);
    return outcome;
}

static void a_run_that_waits_for_data_ends_with_the_stop(void **state)
{
    (void)state;
    outsider o = {.session = NULL};
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "enter", .run = note_entry, .user = &o);
    hs_graph_queue(graph, .name = "input", .capacity = 1, .produce = produce_nothing, .user = &o,
                   .components = HS_OUTPUTS({.dtype = HS_FLOAT}));
    hs_graph_op(graph, .name = "train", .inputs = HS_NAMES("input/dequeue:0"), .control_inputs = HS_NAMES("enter"));
    hs_outcome outcome = stop_in(graph, &o, "train");
    assert_int_equal(outcome.reason, HS_REASON_STOPPED);
    assert_true(outcome.interrupted);
}

static hs_code produce_next(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(int64_t *)hs_op_output(op, 0)->data = ++*(int64_t *)self;
    return HS_OK;
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static int64_t loaded;

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    hs_code code = hs_state_reader_read(in, self, sizeof(int64_t), err);
    loaded = *(int64_t *)self;
    return code;
}

/* The step is not made. The element that it has taken from the other queue is for the next step, also after a resume. */
static void an_interrupted_run_puts_back_the_elements_it_has_taken(void **state)
{
    (void)state;
    int64_t position = 0;
    outsider o = {.session = NULL};
    hs_state_copy *copy = NULL;
    const hs_run_values *values;
    pthread_t thread;
    hs_error err = {0};
    const hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "reader", .save = save_position, .load = load_position, .self = &position);
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_queue(graph, .name = "x", .capacity = 2, .produce = produce_next, .user = &position, .position = &provider,
                   .components = HS_OUTPUTS({.dtype = HS_INT64}));
    hs_graph_op(graph, .name = "enter", .run = note_entry, .user = &o, .control_inputs = HS_NAMES("x/dequeue"));
    hs_graph_queue(graph, .name = "y", .capacity = 1, .produce = produce_nothing, .user = &o,
                   .components = HS_OUTPUTS({.dtype = HS_INT64}));
    hs_graph_op(graph, .name = "train", .inputs = HS_NAMES("x/dequeue:0", "y/dequeue:0"),
                .control_inputs = HS_NAMES("enter"));
    o.session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    assert_ok(err.code, &err);
    hs_raw_session *raw = hs_session_raw(o.session);
    assert_ok(hs_session_run(o.session, "x/dequeue", &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, ask_to_stop, &o), 0);
    assert_int_equal(hs_session_run(o.session, "train", &err), HS_STOP);
    pthread_join(thread, NULL);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &err), &err);
    assert_ok(hs_raw_session_run(raw, HS_RUN_ARGS(.names = HS_NAMES("x/dequeue:0")), &values, &err), &err);
    assert_true(hs_run_values_number(values, 0) == 2);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &err), &err);
    assert_int_equal(loaded, 1);
    hs_state_copy_free(copy);
    atomic_store(&o.over, true);
    hs_session_close(o.session, NULL);
    hs_graph_free(graph);
}

static void a_long_op_can_query_for_a_stop(void **state)
{
    (void)state;
    outsider o = {.session = NULL};
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "train", .run = wait_for_a_stop, .user = &o);
    assert_true(stop_in(graph, &o, "train").interrupted);
    assert_false(hs_op_stop_requested(NULL));
}

/* Otherwise it might wait forever. */
static void an_op_sees_that_a_thread_has_failed(void **state)
{
    (void)state;
    outsider o = {.fails = true};
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "train", .run = wait_for_a_stop, .user = &o);
    hs_outcome outcome = stop_in(graph, &o, "train");
    assert_int_equal(outcome.reason, HS_REASON_FAILED);
    assert_int_equal(outcome.error.code, HS_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(a_stopped_and_saved_training_can_resume),
        play_test(a_stop_without_any_checkpoint_exits_with_0),
        play_test(the_program_may_declare_the_training_done),
        play_test(the_programs_done_counts_more_than_an_interruption),
        play_test(a_training_declared_done_at_first_makes_no_run),
        play_test(steps_of_others_after_the_last_save_are_not_its_own),
        play_test(a_stop_with_an_unsaved_last_step_is_a_failure),
        play_test(a_hook_that_is_done_counts_more_than_a_request),
        play_test(a_hook_can_interrupt),
        play_test(a_request_to_stop_overrides_a_request_to_interrupt),
        play_test(a_stop_of_a_step_function_is_not_an_interruption),
        play_test(requests_by_the_session_and_by_its_raw_session_are_answered),
        play_test(raw_sessions_have_the_same_requests),
        play_test(polling_is_should_stop_for_any_thread),
        play_test(the_seconds_of_a_save_are_known_once_set),
        play_test(other_threads_see_its_phase),
        cmocka_unit_test(a_run_that_waits_for_data_ends_with_the_stop),
        cmocka_unit_test(an_interrupted_run_puts_back_the_elements_it_has_taken),
        cmocka_unit_test(a_long_op_can_query_for_a_stop),
        cmocka_unit_test(an_op_sees_that_a_thread_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
