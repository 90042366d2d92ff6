/* SPDX-License-Identifier: Apache-2.0 */
/* Stop requests while a run waits for input that never comes: the run ends, and a checkpoint is saved. */
#include "tensorflow/graphs.h"
#include "tensorflow/threads.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* Source of the stop request. */
typedef enum { BY_REQUEST, BY_SIGNAL, BY_COORDINATOR, NONE } way;

/* A hook whose thread requests a stop during a run. */
typedef struct {
    way way;
    int64_t from; /* the number of the run to stop, from 0 */
    int64_t runs;
    hs_session *session;
    hs_coordinator *coordinator;
    sem_t entered;
    pthread_t thread;
} stopper;

static void *request_stop(void *user)
{
    stopper *s = user;
    while (sem_wait(&s->entered) != 0)
        continue;
    if (s->way == BY_REQUEST)
        hs_session_interrupt(s->session);
    else if (s->way == BY_SIGNAL)
        kill(getpid(), SIGTERM);
    else if (s->way == BY_COORDINATOR)
        hs_coordinator_request_stop(s->coordinator, NULL);
    return NULL;
}

static hs_code created(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)session, (void)err;
    ((stopper *)self)->coordinator = coordinator;
    return HS_OK;
}

static hs_code before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    stopper *s = self;
    (void)run, (void)args, (void)err;
    if (s->runs++ == s->from)
        sem_post(&s->entered);
    return HS_OK;
}

static const hs_hook_ops stopper_ops =
    HS_INIT(hs_hook_ops, .name = "stopper", .after_create_session = created, .before_run = before);

static void begin(stopper *s, way by, int64_t from)
{
    *s = (stopper){.way = by, .from = from};
    assert_int_equal(sem_init(&s->entered, 0, 0), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, request_stop, s), 0);
}

static void end(stopper *s)
{
    sem_post(&s->entered);
    pthread_join(s->thread, NULL);
    sem_destroy(&s->entered);
}

static hs_session *open_session(hs_backend backend, const char *directory, stopper *s)
{
    hs_error err = {0};
    hs_hook hook = {.ops = &stopper_ops, .self = s};
    s->session = hs_training_session_open(
        backend, HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .hooks = HS_HOOKS(hook), .signals = true), &err);
    assert_ok(err.code, &err);
    return s->session;
}

static hs_code give(hs_session *session, float value, hs_error *err)
{
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("give"), .kind = HS_RUN_AUX,
                               .feeds = HS_FEEDS({"given", hs_tensor_of(HS_FLOAT, HS_SCALAR, &value)}));
    return hs_session_run_args(session, &args, NULL, err);
}

/* Makes one step, and a second step that never gets its input. */
static void ends_the_run(const char *graph, way by)
{
    hs_error err = {0};
    stopper s;
    char *directory = make_directory();
    hs_backend backend = open_graph(graph);
    begin(&s, by, 1);
    hs_session *session = open_session(backend, directory, &s);
    assert_ok(give(session, 1, &err), &err);
    assert_ok(hs_session_run(session, "train_op", &err), &err);
    assert_false(hs_session_should_stop(session));
    assert_fails(hs_session_run(session, "train_op", &err), HS_STOP, &err, "waited for a queue");
    assert_true(hs_session_should_stop(session));
    hs_outcome outcome = hs_session_close(session, &err);
    end(&s);
    assert_int_equal(outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(outcome.error.code, HS_OK);
    assert_int_equal(outcome.signal, by == BY_SIGNAL ? SIGTERM : 0);
    assert_int_equal(outcome.step, 1);
    assert_int_equal(outcome.last_saved_step, 1);
    hs_tensorflow_free(backend);
    remove_directory(directory);
}

static void a_request_ends_the_run(void **state)
{
    (void)state;
    static const char *const graphs[] = {"alone_fifo.meta",    "alone_padding.meta", "alone_priority.meta",
                                         "alone_shuffle.meta", "alone_old.meta",     "barrier.meta"};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        ends_the_run(graphs[i], BY_REQUEST);
}

static void a_signal_ends_the_run(void **state)
{
    (void)state;
    ends_the_run("alone_fifo.meta", BY_SIGNAL);
}

static void a_coordinators_stop_ends_the_run(void **state)
{
    (void)state;
    ends_the_run("alone_fifo.meta", BY_COORDINATOR);
}

/* The run waits for a queue whose runner waits for another one. */
static void runners_that_wait_end_too(void **state)
{
    (void)state;
    ends_the_run("starving.meta", BY_REQUEST);
    ends_the_run("starving.meta", BY_SIGNAL);
    ends_the_run("starving.meta", BY_COORDINATOR);
}

/* An enqueue op that waits ends with the same stop, which is not a failure. */
static void runners_whose_queues_are_full_end_too(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        ends_the_run("full.meta", BY_REQUEST);
        ends_the_run("full.meta", BY_SIGNAL);
    }
}

static void note_warning(void *user, hs_log_level level, const char *text)
{
    test_check_line(text);
    if (level >= HS_LOG_WARNING && strstr(text, "abandoned"))
        atomic_fetch_add((atomic_int *)user, 1);
}

/* Closing the session stops the runners without a request. */
static void runners_that_wait_end_with_the_session(void **state)
{
    (void)state;
    hs_error err = {0};
    atomic_int abandoned = 0;
    hs_env env = HS_INIT(hs_env, .logger = {note_warning, &abandoned});
    hs_backend backend = hs_tensorflow_open(graph_path("starving.meta"), HS_TENSORFLOW_OPTIONS(.env = &env), &err);
    hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.stop_grace_secs = 30), &err);
    assert_ok(err.code, &err);
    assert_ok(give(session, 1, &err), &err);
    assert_ok(hs_session_run(session, "train_op", &err), &err);
    assert_int_equal(hs_session_close(session, &err).reason, HS_REASON_CLOSED);
    assert_int_equal(atomic_load(&abandoned), 0);
    hs_tensorflow_free(backend);
}

/* A run that waits to enqueue. */
static void a_full_queue_ends_the_run(void **state)
{
    (void)state;
    hs_error err = {0};
    stopper s;
    hs_backend backend = open_graph("alone_fifo.meta");
    begin(&s, NONE, INT64_MAX);
    hs_session *session = open_session(backend, NULL, &s);
    assert_ok(give(session, 1, &err), &err);
    assert_ok(give(session, 1, &err), &err);
    hs_session_interrupt(session);
    assert_fails(give(session, 1, &err), HS_STOP, &err, "waited for a queue");
    hs_session_close(session, &err);
    end(&s);
    hs_tensorflow_free(backend);
}

/* After a stop, a new session of the same graph begins with new queues. */
static void the_next_session_has_queues_that_are_open(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("alone_fifo.meta");
    for (int64_t part = 0; part < 3; part++) {
        stopper s;
        begin(&s, BY_REQUEST, 1);
        hs_session *session = open_session(backend, NULL, &s);
        assert_ok(give(session, 1, &err), &err);
        assert_ok(hs_session_run(session, "train_op", &err), &err);
        assert_fails(hs_session_run(session, "train_op", &err), HS_STOP, &err, "");
        hs_session_close(session, &err);
        end(&s);
    }
    hs_tensorflow_free(backend);
}

/* A run that finds elements in the queue does not wait. */
static void a_stop_does_not_end_a_run_that_does_not_wait(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("alone_fifo.meta");
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(give(session, 1, &err), &err);
    hs_session_interrupt(session);
    assert_ok(hs_session_run(session, "train_op", &err), &err);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_STOPPED);
    hs_tensorflow_free(backend);
}

/* Returns the number of threads of a new session. */
static long threads_of(const char *graph)
{
    hs_error err = {0};
    void *session;
    hs_backend backend = open_graph(graph);
    long before = count_threads();
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    long n = count_threads() - before;
    assert_ok(backend.ops->close(session, &err), &err);
    assert_true(threads_fall_to(before));
    hs_tensorflow_free(backend);
    return n;
}

static void only_graphs_with_queues_have_a_thread(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("resource.meta");
    hs_session_close(hs_session_open(backend, NULL, &err), &err); /* starts TensorFlow's own threads */
    hs_tensorflow_free(backend);
    assert_int_equal(threads_of("resource.meta"), 0);
    assert_int_equal(threads_of("one_shot.meta"), 0);
    assert_int_equal(threads_of("alone_fifo.meta"), 1);
    assert_int_equal(threads_of("starving.meta"), 1);
}

/* The end of the input does not become HS_STOP. */
static void an_end_of_input_stays_one(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("types.meta");
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(hs_session_run(session, "close", &err), &err);
    assert_fails(hs_session_run(session, "dequeue", &err), HS_OUT_OF_RANGE, &err, "queue");
    assert_int_equal(hs_session_close(session, &err).reason, HS_REASON_END_OF_INPUT);
    hs_tensorflow_free(backend);
}

/* A timeout ends a run, and the session can be used again. */
static void a_timeout_is_named(void **state)
{
    (void)state;
    static const char *const graphs[] = {"alone_fifo.meta", "barrier.meta", "waiting_iterator.meta"};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        hs_error err = {0};
        hs_backend backend = open_graph(graphs[i]);
        hs_session *session = hs_session_open(backend, NULL, &err);
        assert_ok(err.code, &err);
        hs_run_args args =
            HS_INIT(hs_run_args, .names = HS_NAMES("train_op"), .options = HS_RUN_OPTIONS(.timeout_secs = 0.04));
        assert_fails(hs_session_run_args(session, &args, NULL, &err), HS_DEADLINE_EXCEEDED, &err, "timeout_secs (0.04 s)");
        assert_null(strchr(err.message, '\n'));
        assert_false(hs_session_should_stop(session));
        if (i == 0) {
            assert_ok(give(session, 1, &err), &err);
            assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("train_op")), NULL, &err), &err);
        }
        hs_outcome outcome = hs_session_close(session, &err);
        assert_int_equal(outcome.reason, i == 0 ? HS_REASON_CLOSED : HS_REASON_FAILED);
        assert_int_equal(outcome.error.code, i == 0 ? HS_OK : HS_DEADLINE_EXCEEDED);
        hs_tensorflow_free(backend);
    }
}

enum { GIVEN = 5 };

/* A session, or a fork of it for another thread. */
typedef struct {
    const hs_backend_ops *ops;
    void *handle;
    hs_node give, given;
    hs_code code;
} giver;

static hs_code give_once(giver *g, hs_error *err)
{
    float one = 1;
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SCALAR, &one), none;
    hs_backend_feed feed = {g->given, &value};
    hs_backend_call call = {
        .size = sizeof call, .fetches = &g->give, .n_fetches = 1, .feeds = &feed, .n_feeds = 1, .values = &none};
    return g->ops->run(g->handle, &call, err);
}

static void *give_several(void *user)
{
    giver *g = user;
    for (int i = 0; !g->code && i < GIVEN; i++)
        g->code = give_once(g, NULL);
    return NULL;
}

/* Meanwhile the session adds the op that reads the step of its run. */
static void a_fork_is_fed_during_runs(void **state)
{
    (void)state;
    hs_error err = {0};
    pthread_t thread;
    const char *init;
    hs_node node;
    hs_tensor none;
    hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .values = &none};
    hs_backend backend = open_graph("alone_fifo.meta");
    giver own = {.ops = backend.ops};
    assert_ok(own.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &own.handle, &err), &err);
    assert_ok(own.ops->default_op(backend.self, HS_INIT_OP, &init, &err), &err);
    assert_ok(hs_backend_find(backend, init, &node, &err), &err);
    assert_ok(own.ops->run(own.handle, &call, &err), &err);
    assert_ok(hs_backend_find(backend, "give", &own.give, &err), &err);
    assert_ok(hs_backend_find(backend, "given", &own.given, &err), &err);
    assert_ok(hs_backend_find(backend, "train_op", &node, &err), &err);
    giver other = own;
    assert_ok(own.ops->fork(own.handle, &other.handle, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, give_several, &other), 0);
    for (int i = 0; i < GIVEN; i++)
        assert_ok(own.ops->run(own.handle, &call, &err), &err);
    pthread_join(thread, NULL);
    assert_int_equal(other.code, HS_OK);
    assert_ok(own.ops->close(other.handle, &err), &err);
    assert_ok(own.ops->close(own.handle, &err), &err);
    hs_tensorflow_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_ends_the_run),
        cmocka_unit_test(a_signal_ends_the_run),
        cmocka_unit_test(a_coordinators_stop_ends_the_run),
        cmocka_unit_test(runners_that_wait_end_too),
        cmocka_unit_test(runners_whose_queues_are_full_end_too),
        cmocka_unit_test(runners_that_wait_end_with_the_session),
        cmocka_unit_test(a_full_queue_ends_the_run),
        cmocka_unit_test(the_next_session_has_queues_that_are_open),
        cmocka_unit_test(a_stop_does_not_end_a_run_that_does_not_wait),
        cmocka_unit_test(only_graphs_with_queues_have_a_thread),
        cmocka_unit_test(an_end_of_input_stays_one),
        cmocka_unit_test(a_timeout_is_named),
        cmocka_unit_test(a_fork_is_fed_during_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
