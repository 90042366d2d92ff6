/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions whose steps dequeue elements that threads have produced. */
#include "support/test.h"

#include <semaphore.h>
#include <stdatomic.h>

enum { CAPACITY = 4 };

/* A thread produces the numbers from 1 to `last`. The steps record the numbers that they get. */
typedef struct {
    test_env t;
    hs_graph *graph;
    hs_session *session;
    hs_outcome outcome;
    hs_error err;
    char *directory;
    int64_t next, last;
    atomic_llong fails_at; /* instead of this number, once; 0: never */
    hs_code fails_with;
    int64_t got[64];
    size_t n_got;
    bool interrupts; /* at the end: once take_number waits, interrupts the session, and waits until the loop has ended */
    sem_t waits, loop_ended;
} reading;

static hs_code produce(void *self, hs_op *op, hs_error *err)
{
    reading *r = self;
    long long failing = r->next;
    if (r->next > r->last && r->interrupts) {
        sem_wait(&r->waits);
        hs_session_interrupt(r->session);
        sem_wait(&r->loop_ended);
    }
    if (r->next > r->last)
        return hs_error_set(err, HS_OUT_OF_RANGE, "there are %lld numbers", (long long)r->last);
    if (r->fails_with && atomic_compare_exchange_strong(&r->fails_at, &failing, 0))
        return hs_error_set(err, r->fails_with, "page %lld is torn", failing);
    *(int64_t *)hs_op_output(op, 0)->data = r->next++;
    return HS_OK;
}

static hs_code save(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((reading *)self)->next, sizeof(int64_t), err);
}

static hs_code load(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((reading *)self)->next, sizeof(int64_t), err);
}

static hs_code consume(void *self, hs_op *op, hs_error *err)
{
    reading *r = self;
    (void)err;
    r->got[r->n_got++ % 64] = *(const int64_t *)hs_op_input(op, 0)->data;
    return HS_OK;
}

/* Gets a number at the beginning of a step that the program computes. */
static hs_code take_number(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    const hs_run_args number = HS_INIT(hs_run_args, .names = HS_NAMES("numbers/dequeue"));
    const hs_run_values *values;
    reading *r = self;
    (void)args;
    if ((int64_t)r->n_got == r->last)
        sem_post(&r->waits);
    hs_code code = hs_raw_session_run(hs_run_context_session(run), &number, &values, err);
    if (!code)
        r->got[r->n_got++ % 64] = *(const int64_t *)hs_run_values_tensor(values, 0)->data;
    return code;
}

static hs_graph *make_graph(reading *r)
{
    const hs_state_provider position = HS_INIT(hs_state_provider, .name = "numbers", .save = save, .load = load, .self = r);
    hs_graph *graph = hs_graph_new(&r->t.env);
    hs_graph_queue(graph, .name = "numbers", .capacity = CAPACITY, .components = HS_OUTPUTS({.dtype = HS_INT64}),
                   .produce = produce, .user = r, .position = &position);
    hs_graph_op(graph, .name = "train", .run = consume, .user = r, .inputs = HS_NAMES("numbers/dequeue"),
                .advances_step = true);
    return graph;
}

static int setup(void **state)
{
    reading *r = calloc(1, sizeof *r);
    if (!r)
        return -1;
    test_env_init(&r->t);
    r->next = 1;
    r->last = 1000;
    sem_init(&r->waits, 0, 0);
    sem_init(&r->loop_ended, 0, 0);
    r->directory = test_make_directory();
    r->graph = make_graph(r);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    reading *r = *state;
    if (r->session)
        hs_session_close(r->session, NULL);
    hs_graph_free(r->graph);
    test_remove_directory(r->directory);
    size_t live = r->t.live;
    sem_destroy(&r->waits);
    sem_destroy(&r->loop_ended);
    free(r);
    return live ? -1 : 0;
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Opens a training session with the hook, or none, that saves every second step. */
static void open_with(reading *r, hs_hook hook)
{
    const hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = r->directory, .save_checkpoint_steps = 2,
                .log_step_count_steps = HS_NEVER, .save_summaries_steps = HS_NEVER, .hooks = HS_HOOKS(hook));
    r->session = hs_training_session_open(hs_graph_backend(r->graph), &options, &r->err);
    if (!r->session)
        fail_msg("%s", r->err.message);
}

static void open_session(reading *r)
{
    open_with(r, (hs_hook){0});
}

static const hs_outcome *close_session(reading *r)
{
    r->outcome = hs_session_close(r->session, &r->err);
    r->session = NULL;
    return &r->outcome;
}

static hs_code train(reading *r, int times)
{
    hs_code code = HS_OK;
    for (int i = 0; !code && i < times; i++)
        code = hs_session_run(r->session, "train", &r->err);
    return code;
}

static void assert_got(const reading *r, size_t from, int64_t first, size_t n)
{
    assert_int_equal(r->n_got, from + n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(r->got[from + i], first + (int64_t)i);
}

static void each_step_gets_the_next_element(void **state)
{
    reading *r = *state;
    open_session(r);
    assert_ok(train(r, 20), &r->err);
    assert_got(r, 0, 1, 20);
    assert_int_equal(close_session(r)->reason, HS_REASON_CLOSED);
}

static void the_end_of_the_numbers_is_the_end_of_the_input(void **state)
{
    reading *r = *state;
    r->last = 10;
    open_session(r);
    assert_int_equal(train(r, 20), HS_OUT_OF_RANGE);
    assert_true(hs_session_should_stop(r->session));
    assert_got(r, 0, 1, 10);
    assert_int_equal(close_session(r)->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(r->outcome.last_saved_step, 10);
}

/* Makes own steps to the end of the 11 numbers. */
static const hs_outcome *train_by_own_steps(reading *r)
{
    static const hs_hook_ops input = HS_INIT(hs_hook_ops, .name = "input", .before_run = take_number);
    r->last = 11;
    open_with(r, HS_HOOK(.ops = &input, .self = r));
    while (hs_step_begin(r->session))
        assert_int_equal(hs_step_end(r->session), HS_OK);
    sem_post(&r->loop_ended);
    close_session(r);
    assert_got(r, 0, 1, 11);
    assert_int_equal(r->outcome.step, 11);
    assert_int_equal(r->outcome.last_saved_step, 11);
    return &r->outcome;
}

static void own_steps_that_a_hook_gives_numbers_end_with_them(void **state)
{
    const hs_outcome *outcome = train_by_own_steps(*state);
    assert_int_equal(outcome->reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(hs_outcome_exit_code(outcome), 0);
}

static void a_stop_ends_the_wait_of_an_own_step_for_its_number(void **state)
{
    reading *r = *state;
    r->interrupts = true;
    const hs_outcome *outcome = train_by_own_steps(r);
    assert_int_equal(outcome->reason, HS_REASON_STOPPED);
    assert_int_equal(hs_outcome_exit_code(outcome), 75);
}

static void a_step_returns_the_producers_error(void **state)
{
    reading *r = *state;
    r->fails_with = HS_DATA_LOSS;
    atomic_store(&r->fails_at, 7);
    open_session(r);
    assert_fails(train(r, 20), HS_DATA_LOSS, &r->err, "page 7 is torn");
    assert_contains(r->err.message, "numbers");
    assert_true(r->n_got <= 6);
    close_session(r);
    assert_says(&r->outcome.error, HS_DATA_LOSS, "page 7 is torn");
}

/* A resumed session reads the elements again that were only read ahead, and no step sees an element twice. */
static void elements_that_were_read_ahead_are_not_lost(void **state)
{
    reading *r = *state;
    open_session(r);
    assert_ok(train(r, 5), &r->err);
    close_session(r);
    r->next = -100; /* shows that the restore sets it */
    open_session(r);
    assert_int_equal(hs_session_global_step(r->session, NULL), 5);
    assert_ok(train(r, 5), &r->err);
    assert_got(r, 5, 6, 5);
}

/* The producer loses the session at the 7th number. The newest checkpoint is of step 6, or an earlier one if the threads
 * were fast. */
static void a_producer_that_loses_the_session_is_recovered_from(void **state)
{
    reading *r = *state;
    r->fails_with = HS_UNAVAILABLE;
    atomic_store(&r->fails_at, 7);
    open_session(r);
    assert_ok(train(r, 12), &r->err);
    assert_int_equal(hs_session_recoveries(r->session), 1);
    int64_t step = hs_session_global_step(r->session, NULL);
    assert_int_equal(r->got[r->n_got - 1], step); /* each step has trained with its number */
    assert_ok(train(r, 1), &r->err);
    assert_int_equal(r->got[r->n_got - 1], step + 1);
}

static hs_code lose_it(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)run, (void)args;
    return ++*(int *)self == 6 ? hs_error_set(err, HS_ABORTED, "gone") : HS_OK;
}

static void what_a_lost_session_had_read_is_read_again(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "loser", .before_run = lose_it);
    reading *r = *state;
    int runs = 0;
    hs_hook hook = {.ops = &ops, .self = &runs};
    const hs_training_options options =
        HS_INIT(hs_training_options, .hooks = HS_HOOKS(hook)); /* recovers from a copy, without checkpoints */
    r->session = hs_training_session_open(hs_graph_backend(r->graph), &options, &r->err);
    assert_ok(train(r, 8), &r->err);
    assert_got(r, 5, 1, 3);
    assert_int_equal(hs_session_global_step(r->session, NULL), 3);
}

static hs_queue_runner *numbers_runner(reading *r)
{
    const void *runner = NULL;
    assert_true(hs_backend_collection_item(hs_graph_backend(r->graph), HS_QUEUE_RUNNERS, 0, &runner));
    return (hs_queue_runner *)runner;
}

static void the_session_starts_the_producers_itself(void **state)
{
    reading *r = *state;
    hs_threads threads = {0};
    r->last = 0; /* its thread may have ended already */
    open_session(r);
    assert_ok(hs_queue_runner_create_threads(numbers_runner(r), hs_session_raw(r->session), NULL, true, &threads, &r->err),
              &r->err);
    assert_null(threads.items);
    hs_threads_free(&threads);
}

static void the_program_may_start_the_producers(void **state)
{
    reading *r = *state;
    hs_threads threads = {0};
    const hs_session_options options = HS_INIT(hs_session_options, .no_queue_runners = true);
    r->session = hs_session_open(hs_graph_backend(r->graph), &options, &r->err);
    assert_non_null(r->session);
    assert_ok(hs_queue_runner_create_threads(numbers_runner(r), hs_session_raw(r->session),
                                             hs_session_coordinator(r->session), true, &threads, &r->err),
              &r->err);
    assert_non_null(threads.items); /* the session had started none */
    hs_threads_free(&threads);
    assert_ok(train(r, 3), &r->err);
    assert_got(r, 0, 1, 3);
}

static hs_code run_and_recover(test_env *t, void *user)
{
    static reading r; /* large */
    r = (reading){.next = 1, .last = 3, .fails_with = HS_UNAVAILABLE};
    (void)user;
    test_tolerate_harmless(t); /* the copy grows instead */
    test_tolerate(t, "recovery is impossible until a checkpoint is saved: ");
    atomic_init(&r.fails_at, 2);
    const hs_state_provider position =
        HS_INIT(hs_state_provider, .name = "numbers", .save = save, .load = load, .self = &r);
    hs_graph *graph = hs_graph_new(&t->env);
    hs_graph_queue(graph, .name = "numbers", .components = HS_OUTPUTS({.dtype = HS_INT64}), .produce = produce, .user = &r,
                   .position = &position);
    hs_graph_op(graph, .name = "train", .run = consume, .user = &r, .inputs = HS_NAMES("numbers/dequeue"),
                .advances_step = true);
    hs_session *session = hs_training_session_open(hs_graph_backend(graph), NULL, &r.err);
    hs_code code = session ? HS_OK : r.err.code;
    while (!code)
        code = hs_session_run(session, "train", &r.err);
    hs_outcome outcome = hs_session_close(session, &r.err);
    hs_graph_free(graph);
    return code == HS_OUT_OF_RANGE ? outcome.error.code : code;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(run_and_recover, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(each_step_gets_the_next_element),
        test(the_end_of_the_numbers_is_the_end_of_the_input),
        test(own_steps_that_a_hook_gives_numbers_end_with_them),
        test(a_stop_ends_the_wait_of_an_own_step_for_its_number),
        test(a_step_returns_the_producers_error),
        test(elements_that_were_read_ahead_are_not_lost),
        test(a_producer_that_loses_the_session_is_recovered_from),
        test(what_a_lost_session_had_read_is_read_again),
        test(the_session_starts_the_producers_itself),
        test(the_program_may_start_the_producers),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
