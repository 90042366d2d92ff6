/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions with hooks on TensorFlow's graphs: training, checkpoints, initialization. */
#include "tensorflow/graphs.h"

#include <math.h>

static const char *const graphs[] = {"ref.meta", "resource.meta", "ref.pb", "resource.pb", "resource.pbtxt"};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

static hs_session *open_training(hs_backend backend, const char *directory, int64_t steps)
{
    hs_error err = {0};
    hs_hook hooks[] = {hs_stop_at_step(.last_step = steps),
                       hs_nan_tensor(.tensor = "loss"),
                       hs_logging_tensor(.every_n_steps = 5, .tensors = HS_NAMES("loss", "global_step")),
                       {.ops = NULL}};
    hs_session *session =
        hs_training_session_open(backend,
                                 HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .hooks = hooks,
                                                     .save_checkpoint_steps = 5, .save_summaries_steps = 5),
                                 &err);
    assert_ok(err.code, &err);
    return session;
}

/* Trains up to a step, and returns the number of losses. */
static size_t train(hs_backend backend, const char *directory, int64_t steps, double *losses)
{
    hs_error err = {0};
    batch b;
    size_t n = 0;
    hs_session *session = open_training(backend, directory, steps);
    while (!hs_session_should_stop(session)) {
        int64_t step = hs_session_global_step(session, NULL);
        fill_batch(&b, step);
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "train_op"), .feeds = b.feeds);
        const hs_run_values *values;
        assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
        losses[n++] = hs_run_values_number(values, 0);
    }
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.step, steps);
    assert_int_equal(outcome.last_saved_step, steps);
    assert_int_equal(hs_outcome_exit_code(&outcome), 0);
    return n;
}

static void a_graph_trains_and_resumes_at_its_last_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < GRAPHS; i++) {
        char *whole = make_directory(), *parts = make_directory();
        double straight[20], resumed[20];
        hs_backend backend = open_graph(graphs[i]);
        assert_int_equal(train(backend, whole, 20, straight), 20);
        assert_int_equal(train(backend, parts, 9, resumed), 9);
        hs_tensorflow_free(backend);
        backend = open_graph(graphs[i]);
        assert_int_equal(train(backend, parts, 20, resumed + 9), 11);
        for (int k = 0; k < 20; k++)
            assert_true(straight[k] == resumed[k]);
        assert_true(straight[19] < straight[0] / 2);
        hs_tensorflow_free(backend);
        remove_directory(whole);
        remove_directory(parts);
    }
}

static void graph_and_summaries_are_written(void **state)
{
    (void)state;
    char *directory = make_directory(), path[1024];
    double losses[20];
    hs_error err = {0};
    hs_backend backend = open_graph("ref.meta");
    train(backend, directory, 10, losses);
    snprintf(path, sizeof path, "%s/graph.pbtxt", directory);
    hs_backend text = hs_tensorflow_open(path, NULL, &err);
    assert_ok(err.code, &err);
    hs_tensorflow_free(text);
    snprintf(path, sizeof path, "%s/model.ckpt-10.meta", directory);
    hs_backend meta = hs_tensorflow_open(path, NULL, &err);
    assert_ok(err.code, &err);
    hs_tensorflow_free(meta);
    hs_tensorflow_free(backend);
    remove_directory(directory);
}

static void a_saver_def_says_how_many_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *graph;
        int kept;
    } cases[] = {{"ref.meta", 5}, {"resource.meta", 3}};
    for (size_t i = 0; i < 2; i++) {
        char *directory = make_directory(), path[1024];
        double losses[40];
        int kept = 0;
        hs_backend backend = open_graph(cases[i].graph);
        train(backend, directory, 40, losses);
        for (int step = 0; step <= 40; step++) {
            snprintf(path, sizeof path, "%s/model.ckpt-%d.index", directory, step);
            FILE *file = fopen(path, "rb");
            kept += file != NULL;
            if (file)
                fclose(file);
        }
        assert_int_equal(kept, cases[i].kept);
        hs_tensorflow_free(backend);
        remove_directory(directory);
    }
}

static void a_nan_stops_the_training(void **state)
{
    (void)state;
    hs_error err = {0};
    batch b;
    hs_backend backend = open_graph("resource.meta");
    hs_session *session = open_training(backend, NULL, 10);
    fill_batch(&b, 0);
    b.x[0][0] = NAN;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train_op"), .feeds = b.feeds);
    hs_code code = hs_session_run_args(session, &args, NULL, &err);
    assert_int_not_equal(code, HS_OK);
    assert_contains(err.message, "loss");
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_FAILED);
    hs_tensorflow_free(backend);
}

static void uninitialized_variables_are_named(void **state)
{
    (void)state;
    hs_error err = {0};
    for (size_t i = 0; i < 2; i++) {
        hs_backend backend = open_graph(graphs[i]);
        hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_op = "x"), &err);
        assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true), &err));
        hs_tensorflow_free(backend);
        backend = open_graph(graphs[i]);
        scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_op = "layer/b/Assign"), &err);
        assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true), &err));
        assert_says(&err, HS_FAILED_PRECONDITION, "layer/w");
        assert_lacks(err.message, "layer/b,");
        hs_tensorflow_free(backend);
    }
}

static void a_variable_that_is_not_initialized_cannot_be_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        hs_error err = {0};
        hs_backend backend = open_graph(graphs[i]);
        void *session;
        hs_tensor value;
        int64_t step;
        const hs_backend_ops *ops = backend.ops;
        assert_ok(ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
        assert_fails(ops->read_variable(session, 0, &value, &err), HS_FAILED_PRECONDITION, &err, "");
        assert_fails(ops->global_step(session, &step, &err), HS_FAILED_PRECONDITION, &err, "global step");
        assert_ok(ops->close(session, &err), &err);
        hs_tensorflow_free(backend);
    }
}

/* Each variable is written and read back, also strings. */
static void variables_are_set_and_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < GRAPHS; i++) {
        hs_error err = {0};
        hs_backend backend = open_graph(graphs[i]);
        const hs_backend_ops *ops = backend.ops;
        hs_variable variable;
        void *session;
        assert_ok(ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
        for (size_t k = 0; hs_backend_variable(backend, k, &variable); k++) {
            const hs_string words[] = {{"x", 1}, {"some text that is longer", 24}};
            float numbers[8] = {1, 2, 3};
            const void *data = variable.dtype == HS_STRING ? (const void *)words : numbers;
            hs_tensor given = hs_tensor_of(variable.dtype, variable.shape, data), found, memory;
            assert_ok(ops->write_variable(session, k, &given, &err), &err);
            if (variable.dtype != HS_STRING) {
                numbers[0] = 5;
                assert_ok(ops->lend_variable(session, k, &memory, &err), &err);
                assert_int_equal(memory.bytes, given.bytes);
                memcpy(memory.data, given.data, given.bytes);
                assert_ok(ops->write_variable(session, k, &memory, &err), &err);
            } else {
                assert_fails(ops->lend_variable(session, k, &memory, &err), HS_UNIMPLEMENTED, &err, variable.name);
            }
            assert_ok(ops->read_variable(session, k, &found, &err), &err);
            assert_int_equal(found.bytes, given.bytes);
            if (variable.dtype == HS_STRING)
                assert_memory_equal(((const hs_string *)found.data)[1].data, words[1].data, words[1].bytes);
            else
                assert_memory_equal(found.data, given.data, given.bytes);
        }
        assert_ok(ops->close(session, &err), &err);
        hs_tensorflow_free(backend);
    }
}

/* Memory that was requested but never written still belongs to the session. */
static void unused_memory_of_a_variable_is_freed(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("resource.meta");
    void *session;
    hs_tensor memory, again;
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    assert_ok(backend.ops->lend_variable(session, 0, &memory, &err), &err);
    assert_ok(backend.ops->lend_variable(session, 0, &again, &err), &err);
    assert_ptr_equal(memory.data, again.data);
    assert_ok(backend.ops->close(session, &err), &err);
    hs_tensorflow_free(backend);
}

static void a_queue_runner_fills_and_ends_the_training(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("queue.meta");
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train_op", &err) != HS_OK)
            break;
    assert_int_equal(err.code, HS_OUT_OF_RANGE);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(outcome.step, 5);
    hs_tensorflow_free(backend);
}

static void closing_early_ends_the_filling(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("queue.meta");
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(hs_session_run(session, "train_op", &err), &err);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_CLOSED);
    hs_tensorflow_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_trains_and_resumes_at_its_last_step),
        cmocka_unit_test(graph_and_summaries_are_written),
        cmocka_unit_test(a_saver_def_says_how_many_are_kept),
        cmocka_unit_test(a_nan_stops_the_training),
        cmocka_unit_test(uninitialized_variables_are_named),
        cmocka_unit_test(a_variable_that_is_not_initialized_cannot_be_read),
        cmocka_unit_test(variables_are_set_and_read),
        cmocka_unit_test(unused_memory_of_a_variable_is_freed),
        cmocka_unit_test(a_queue_runner_fills_and_ends_the_training),
        cmocka_unit_test(closing_early_ends_the_filling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
