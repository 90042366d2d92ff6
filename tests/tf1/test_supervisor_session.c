/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a supervisor: managed sessions, errors, queues, and event files. */
#include "tf1/supervised.h"

#include <sys/wait.h>
#include <unistd.h>

#include "backends/queued.h"
#include "summary/events.h"

#include <sched.h>
#include <sys/stat.h>

static void sv_001_from_preparing_to_the_stop(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    for (int i = 0; i < 10; i++)
        assert_true(v_is_123(f));
    finish(f);
}

static void sv_016_without_a_logdir(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    finish(f);
    assert_int_equal(test_count_files(f->directory, ""), 2);
}

/* Leaving. */

static void manage(supervised *f)
{
    f->session = hs_supervisor_managed_session(f->sv, NULL, &f->err);
    if (!f->session)
        fail_msg("%s", f->err.message);
}

static void sv_002_left_well(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    manage(f);
    for (int i = 0; i < 10; i++)
        assert_true(v_is_123(f));
    assert_false(hs_supervisor_should_stop(f->sv));
    assert_ok(leave(f, HS_OK), &f->err);
    assert_true(hs_supervisor_should_stop(f->sv));
}

/* Runs a body that fails in iteration `at`. Returns the number of iterations. */
static int iterate(supervised *f, int at, hs_code code)
{
    int n = 0;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    manage(f);
    while (!hs_supervisor_should_stop(f->sv) && n++ < at)
        continue;
    leave(f, code);
    return n;
}

static hs_code fail_in_the_second(void *self, hs_op *op, hs_error *err)
{
    supervised *f = self;
    (void)op;
    return f->runs++ == 1 ? hs_error_set(err, HS_INTERNAL, "mine") : HS_OK;
}

static void sv_003_left_because_of_an_error(void **state)
{
    supervised *f = *state;
    hs_code code = HS_OK;
    hs_graph_op(f->graph, .name = "body", .run = fail_in_the_second, .user = f);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    manage(f);
    while (!code && !hs_supervisor_should_stop(f->sv))
        code = run_op(f, "body");
    assert_int_equal(hs_supervisor_leave(f->sv, f->session, code, NULL, &f->err), HS_INTERNAL);
    f->session = NULL;
    assert_says(&f->err, HS_INTERNAL, "mine");
    assert_true(hs_supervisor_should_stop(f->sv));
    assert_int_equal(f->runs, 2); /* iterations 0 and 1 */
}

static void sv_004_the_end_of_the_input_is_not_an_error(void **state)
{
    supervised *f = *state;
    assert_int_equal(iterate(f, 3, HS_OUT_OF_RANGE), 4);
    assert_ok(f->err.code, &f->err);
    assert_true(hs_supervisor_should_stop(f->sv));
}

static hs_code fail_to_close(void *session, hs_error *err)
{
    supervised *f = session;
    f->runs++;
    return hs_error_set(err, HS_UNAVAILABLE, "it does not close");
}

static hs_code open_nothing(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    supervised *f = self;
    (void)err;
    *session = f;
    assert_string_equal(target, "there");
    assert_int_equal(config.size, 3);
    assert_memory_equal(config.data, "cfg", 3);
    return HS_OK;
}

static hs_code find_nothing(void *self, const char *name, hs_node *node, hs_error *err)
{
    (void)self, (void)node;
    return hs_error_set(err, HS_NOT_FOUND, "'%s'", name);
}

static const hs_env *env_of(void *self)
{
    return &((supervised *)self)->t.env;
}

static hs_code run_nothing(void *session, hs_backend_call *call, hs_error *err)
{
    (void)session, (void)call, (void)err;
    return HS_OK;
}

static hs_code no_more(void *user, hs_error *err)
{
    (void)user;
    return hs_error_set(err, HS_DATA_LOSS, "the thread's");
}

/* A backend without nodes, whose sessions fail to close. */
static const hs_backend_ops bare_ops = HS_INIT(hs_backend_ops, .name = "bare", .env = env_of, .find = find_nothing,
                                               .open = open_nothing, .run = run_nothing, .close = fail_to_close);

static void manage_bare(supervised *f, const hs_supervisor_options *options)
{
    f->sv = hs_supervisor_new((hs_backend){&bare_ops, f}, options, &f->err);
    assert_non_null(f->sv);
    f->session = hs_supervisor_managed_session(f->sv, SUPERVISED(.target = "there", .config = {"cfg", 3}), &f->err);
    assert_non_null(f->session);
}

static hs_code initialize(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)user, (void)scaffold, (void)session, (void)err;
    return HS_OK;
}

static void sv_010_the_configuration_is_passed_on(void **state)
{
    supervised *f = *state;
    manage_bare(f, &OPTIONS(.init_fn = initialize));
    leave(f, HS_OK);
}

static void sv_042s_left_with_the_first_error_and_closed_whatever_fails(void **state)
{
    supervised *f = *state;
    manage_bare(f, &OPTIONS(.init_fn = initialize));
    hs_thread_free(hs_supervisor_loop(f->sv, 0, no_more, NULL, &f->err));
    await_stop(f);
    assert_fails(leave(f, HS_INTERNAL), HS_DATA_LOSS, &f->err, "the thread's");
    assert_int_equal(f->runs, 1);
    assert_contains(f->t.log, "it does not close");
    assert_true(hs_coordinator_joined(hs_supervisor_coordinator(f->sv)));
}

static hs_code never(void *user, hs_session *session, hs_error *err)
{
    (void)user, (void)session;
    return hs_error_set(err, HS_DATA_LOSS, "it was called");
}

static void leaving_without_a_session_returns_the_error_of_the_opening(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.init_op = HS_NONE, .local_init_op = HS_NONE));
    f->session = hs_supervisor_managed_session(f->sv, NULL, &f->err);
    assert_null(f->session);
    hs_code code = hs_supervisor_leave(f->sv, NULL, f->err.code, NULL, &f->err);
    assert_fails(
        code, HS_FAILED_PRECONDITION, &f->err,
        "cannot initialize the model: no checkpoint was restored, and init_op, init_fn and local_init_op are missing");
}

/* A failure after the session was created is returned, too: by the opening and by the loop. */
static void a_failure_after_the_session_was_created_is_returned(void **state)
{
    supervised *f = *state;
    const char *graph = test_path(f->directory, "graph.pbtxt");
    assert_int_equal(mkdir(graph, 0700), 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_null(hs_supervisor_managed_session(f->sv, NULL, &f->err));
    hs_code code = f->err.code;
    assert_int_not_equal(code, HS_OK);
    assert_int_equal(hs_supervisor_leave(f->sv, NULL, code, NULL, &f->err), code);
    assert_contains(f->err.message, "graph.pbtxt");
    assert_int_equal(hs_basic_train_loop(f->sv, NULL, never, f, &f->err), code);
}

static void an_error_after_the_stop_is_returned(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    assert_ok(hs_supervisor_stop(f->sv, NULL, &f->err), &f->err);
    assert_fails(leave(f, HS_INTERNAL), HS_INTERNAL, &f->err, "mine");
}

static void a_failed_opening_requests_a_stop(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .init_op = HS_NONE, .local_init_op = HS_NONE));
    assert_null(hs_supervisor_managed_session(f->sv, NULL, &f->err));
    assert_true(hs_supervisor_should_stop(f->sv));
    assert_null(hs_supervisor_summary_writer(f->sv));
}

static hs_code run_v(void *user, hs_error *err)
{
    supervised *f = user;
    return hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES("v")), NULL, err);
}

/* No thread runs a closed session, whatever the stop options are. */
static void invalid_stop_options_still_join_all_threads(void **state)
{
    supervised *f = *state;
    const hs_supervisor_stop_options bad = {.size = 1};
    add_v(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    hs_thread *thread = hs_supervisor_loop(f->sv, 0, run_v, f, &f->err);
    hs_code code = hs_supervisor_leave(f->sv, f->session, HS_OK, &bad, &f->err);
    f->session = NULL;
    assert_false(hs_thread_alive(thread));
    assert_int_equal(code, HS_INVALID_ARGUMENT);
    hs_thread_free(thread);
}

/* Queues. */

static void add_input(supervised *f, counter *c)
{
    *c = COUNTER(9);
    hs_graph_queue(f->graph, .name = "q", .capacity = 3, .components = QUEUED_NUMBER, .produce = counter_produce,
                   .user = c);
}

/* Runs the op until it fails, a stop is requested, or `most` runs were made. Returns the number of runs. */
static int read_all(supervised *f, const char *op, int most)
{
    int n = 0;
    hs_error_clear(&f->err);
    while (n < most && !hs_supervisor_should_stop(f->sv) && !run_op(f, op))
        n++;
    return n;
}

static void sv_007_the_end_of_a_queue_ends_the_session_well(void **state)
{
    supervised *f = *state;
    counter c;
    add_input(f, &c);
    supervise(f, OPTIONS(0));
    manage(f);
    assert_int_equal(read_all(f, "q/dequeue", 100), 9);
    assert_int_equal(f->err.code, HS_OUT_OF_RANGE);
    hs_code left = hs_supervisor_leave(f->sv, f->session, f->err.code, NULL, &f->err);
    assert_ok(left, &f->err);
    f->session = NULL;
}

static void add_two_queues(supervised *f, counter *c)
{
    add_input(f, c);
    hs_graph_queue(f->graph, .name = "second", .capacity = 3, .components = QUEUED_NUMBER,
                   .inputs = HS_NAMES("q/dequeue:0"));
}

static void sv_008_the_end_of_two_queues(void **state)
{
    supervised *f = *state;
    counter c;
    add_two_queues(f, &c);
    supervise(f, OPTIONS(0));
    manage(f);
    assert_int_equal(read_all(f, "second/dequeue", 100), 9);
    hs_code left = hs_supervisor_leave(f->sv, f->session, f->err.code, NULL, &f->err);
    assert_ok(left, &f->err);
    f->session = NULL;
}

static void sv_009_the_bodys_error_and_not_the_queues(void **state)
{
    supervised *f = *state;
    counter c;
    add_two_queues(f, &c);
    supervise(f, OPTIONS(0));
    manage(f);
    assert_int_equal(read_all(f, "second/dequeue", 3), 3);
    assert_fails(leave(f, HS_INTERNAL), HS_INTERNAL, &f->err, "mine");
}

static void sv_030_no_queue_runners(void **state)
{
    supervised *f = *state;
    hs_threads threads = {0};
    add_v(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    assert_ok(hs_supervisor_start_queue_runners(f->sv, f->session, &threads, &f->err), &f->err);
    assert_null(threads.items);
    finish(f);
}

static void sv_043s_without_the_services_nothing_is_started(void **state)
{
    supervised *f = *state;
    counter c;
    add_input(f, &c);
    add_step(f, 5);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, SUPERVISED(.no_standard_services = true));
    assert_null(hs_supervisor_service(f->sv, 0));
    finish(f);
    assert_int_equal(atomic_load(&c.n), 0);
    assert_string_equal(events_text(f->directory), "version graph meta stop@0");
    assert_true(test_exists(f->directory, "graph.pbtxt"));
}

/* Records which services and files exist when the queue is filled for the first time. */
typedef struct {
    supervised *f;
    atomic_bool was_asked;
    bool has_services, has_graph;
} onlooker;

static hs_code look_at_the_services(void *self, hs_op *op, hs_error *err)
{
    onlooker *o = self;
    (void)op;
    o->has_services = hs_supervisor_service(o->f->sv, 1) && !hs_supervisor_service(o->f->sv, 2);
    o->has_graph = test_exists(o->f->directory, "graph.pbtxt");
    atomic_store(&o->was_asked, true);
    return hs_error_set(err, HS_OUT_OF_RANGE, "no input");
}

static void sv_043s_queue_runners_are_started_after_the_services(void **state)
{
    supervised *f = *state;
    onlooker o = {.f = f};
    hs_graph_queue(f->graph, .name = "q", .components = QUEUED_NUMBER, .produce = look_at_the_services, .user = &o);
    add_step(f, 5);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    while (!atomic_load(&o.was_asked))
        sched_yield();
    finish(f);
    assert_true(o.has_services && o.has_graph);
    assert_int_equal(strncmp(events_text(f->directory), "version graph meta start@6 ", 27), 0);
}

static void sv_043s_an_earlier_stop_is_taken_back_and_the_writer_opened_again(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER));
    hs_supervisor_request_stop(f->sv, NULL);
    for (int i = 0; i < 2; i++) {
        prepare(f, NULL);
        assert_false(hs_supervisor_should_stop(f->sv));
        assert_non_null(hs_supervisor_summary_writer(f->sv));
        finish(f);
        assert_null(hs_supervisor_summary_writer(f->sv));
    }
    assert_string_equal(events_text(f->directory), "version graph meta stop@0 version graph meta stop@0");
}

static void sv_032_a_worker_may_prepare_again_after_a_stop(void **state)
{
    supervised *f = *state;
    add_v(f, HS_VARIABLE_LOCAL);
    supervise(f, OPTIONS(.is_worker = true));
    for (int i = 0; i < 2; i++) {
        prepare(f, NULL);
        assert_false(hs_supervisor_should_stop(f->sv));
        finish(f);
        assert_true(hs_supervisor_should_stop(f->sv));
    }
}

/* Summaries of the program. */

#define BEGINNING "version graph meta "
#define THREE     "c1=1,c2=2,c3=3"

static void compute(supervised *f, int64_t step)
{
    assert_ok(hs_supervisor_summary_computed(f->sv, f->session, three(f), step, &f->err), &f->err);
}

static void sv_005_each_session_has_an_event_file(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    for (int i = 0; i < 2; i++) {
        prepare(f, SUPERVISED(.no_standard_services = true));
        compute(f, -1);
        assert_ok(leave(f, HS_OK), &f->err);
    }
    assert_int_equal(test_count_files(f->directory, "tfevents"), 2);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@0 stop@0 " BEGINNING THREE "@0 stop@0");
}

static void a_kept_writer_is_used_by_the_next_session(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    compute(f, 1);
    const hs_supervisor_stop_options keep = HS_INIT(hs_supervisor_stop_options, .no_summary_writer_close = true);
    assert_ok(hs_supervisor_leave(f->sv, f->session, HS_OK, &keep, &f->err), &f->err);
    prepare(f, NULL);
    finish(f);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@1 stop@1");
}

static void freeing_the_supervisor_writes_no_stop_to_a_kept_writer(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    compute(f, 1);
    const hs_supervisor_stop_options keep = HS_INIT(hs_supervisor_stop_options, .no_summary_writer_close = true);
    assert_ok(hs_supervisor_leave(f->sv, f->session, HS_OK, &keep, &f->err), &f->err);
    hs_supervisor_free(f->sv);
    f->sv = NULL;
    f->session = NULL;
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@1");
}

static hs_session *supervise_weight(hs_supervisor **sv, hs_graph *graph, float *weight, const char *directory,
                                    hs_error *err)
{
    const hs_supervisor_options options =
        HS_INIT(hs_supervisor_options, .checkpoint_dir = directory, .summary_op = HS_NONE);
    hs_graph_variable(graph, "weight", HS_FLOAT, HS_SCALAR, weight);
    hs_graph_global_step(graph, NULL, NULL);
    *sv = hs_supervisor_new(hs_graph_backend(graph), &options, err);
    return hs_supervisor_prepare_or_wait_for_session(*sv, NULL, err);
}

static void a_second_process_is_refused_before_it_restores(void **state)
{
    supervised *f = *state;
    int status;
    float weight = 4;
    hs_supervisor *sv;
    hs_graph *graph = hs_graph_new(NULL);
    hs_session *session = supervise_weight(&sv, graph, &weight, f->directory, &f->err);
    assert_non_null(session);
    assert_ok(hs_supervisor_save(sv, session, &f->err), &f->err);
    pid_t child = fork();
    if (!child) {
        float second = 9;
        hs_supervisor *other;
        hs_error err = {0};
        bool refused = !supervise_weight(&other, hs_graph_new(NULL), &second, f->directory, &err) &&
                       strstr(err.message, "another process saves there");
        _exit(refused && second == 9 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(hs_supervisor_leave(sv, session, HS_OK, NULL, &f->err), &f->err);
    hs_supervisor_free(sv);
    hs_graph_free(graph);
}

static void sv_011_a_chief_writes_events(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .summary_op = HS_NONE));
    prepare(f, NULL);
    compute(f, -1);
    finish(f);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@0 stop@0");
}

static void computing_fails(supervised *f, hs_supervisor_options options, const char *message)
{
    supervise(f, options);
    prepare(f, NULL);
    assert_fails(hs_supervisor_summary_computed(f->sv, f->session, three(f), -1, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 message);
}

static void sv_013_a_summary_without_a_logdir(void **state)
{
    computing_fails(*state, OPTIONS(.checkpoint_dir = ""), "has no summary writer");
}

static void sv_014_a_logdir_and_no_writer(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    computing_fails(f, OPTIONS(.checkpoint_dir = f->directory, .no_summary_writer = true), "has no summary writer");
    await_file(f, "model.ckpt.index");
    finish(f);
    assert_int_equal(test_count_files(f->directory, "tfevents"), 0);
}

static void a_summary_of_a_worker(void **state)
{
    supervised *f = *state;
    add_v(f, HS_VARIABLE_LOCAL);
    computing_fails(f, OPTIONS(.is_worker = true, .checkpoint_dir = f->directory), "the chief's supervisor writes");
}

static void a_summary_between_sessions(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_fails(hs_supervisor_summary_computed(f->sv, NULL, three(f), 1, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "the summary writer is not open: preparing a session opens it, and hs_supervisor_stop closes it");
}

static void sv_015_a_writer_of_the_programs(void **state)
{
    supervised *f = *state;
    hs_summary_writer *mine = hs_summary_writer_open(f->directory, NULL, &f->err);
    supervise(f, OPTIONS(.summary_writer = mine));
    prepare(f, NULL);
    assert_ptr_equal(hs_supervisor_summary_writer(f->sv), mine);
    compute(f, -1);
    finish(f);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@0 stop@0");
    prepare(f, NULL);
    compute(f, -1);
    finish(f);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@0 stop@0 " THREE "@0 stop@0");
    assert_ok(hs_summary_writer_close(mine, &f->err), &f->err);
}

static void sv_046s_the_step_of_a_summary(void **state)
{
    supervised *f = *state;
    add_step(f, 9);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, SUPERVISED(.no_standard_services = true));
    compute(f, 3);
    compute(f, -1);
    finish(f);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@3 " THREE "@9 stop@9");
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    supervised *f = self;
    static hs_string value; /* borrowed until the next run */
    value = three(f);
    hs_tensor tensor = hs_tensor_of(HS_STRING, HS_SCALAR, &value);
    return hs_op_set_output(op, 0, &tensor, err);
}

/* If the backend has no global step, reading the step is a run. The summary may be a value of the previous run. */
static void sv_046s_a_summary_that_a_run_gave(void **state)
{
    supervised *f = *state;
    static const int64_t seven = 7;
    const hs_run_values *values;
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "own", .dtype = HS_INT64, .initial = &seven));
    hs_graph_op(f->graph, .name = "summary", .run = summarize, .user = f, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .global_step = "own"));
    prepare(f, SUPERVISED(.no_standard_services = true));
    assert_ok(hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES("summary")), &values, &f->err), &f->err);
    const hs_string *summary = hs_run_values_tensor(values, 0)->data;
    assert_ok(hs_supervisor_summary_computed(f->sv, f->session, *summary, -1, &f->err), &f->err);
    finish(f);
    assert_string_equal(events_text(f->directory), BEGINNING THREE "@7 stop@7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        supervised_test(sv_001_from_preparing_to_the_stop),
        supervised_test(sv_016_without_a_logdir),
        supervised_test(sv_002_left_well),
        supervised_test(sv_003_left_because_of_an_error),
        supervised_test(sv_004_the_end_of_the_input_is_not_an_error),
        supervised_test(sv_010_the_configuration_is_passed_on),
        supervised_test(sv_042s_left_with_the_first_error_and_closed_whatever_fails),
        supervised_test(leaving_without_a_session_returns_the_error_of_the_opening),
        supervised_test(a_failure_after_the_session_was_created_is_returned),
        supervised_test(an_error_after_the_stop_is_returned),
        supervised_test(a_failed_opening_requests_a_stop),
        supervised_test(invalid_stop_options_still_join_all_threads),
        supervised_test(sv_007_the_end_of_a_queue_ends_the_session_well),
        supervised_test(sv_008_the_end_of_two_queues),
        supervised_test(sv_009_the_bodys_error_and_not_the_queues),
        supervised_test(sv_030_no_queue_runners),
        supervised_test(sv_043s_without_the_services_nothing_is_started),
        supervised_test(sv_043s_queue_runners_are_started_after_the_services),
        supervised_test(sv_043s_an_earlier_stop_is_taken_back_and_the_writer_opened_again),
        supervised_test(sv_032_a_worker_may_prepare_again_after_a_stop),
        supervised_test(sv_005_each_session_has_an_event_file),
        supervised_test(a_kept_writer_is_used_by_the_next_session),
        supervised_test(freeing_the_supervisor_writes_no_stop_to_a_kept_writer),
        supervised_test(a_second_process_is_refused_before_it_restores),
        supervised_test(sv_011_a_chief_writes_events),
        supervised_test(sv_013_a_summary_without_a_logdir),
        supervised_test(sv_014_a_logdir_and_no_writer),
        supervised_test(a_summary_of_a_worker),
        supervised_test(a_summary_between_sessions),
        supervised_test(sv_015_a_writer_of_the_programs),
        supervised_test(sv_046s_the_step_of_a_summary),
        supervised_test(sv_046s_a_summary_that_a_run_gave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
