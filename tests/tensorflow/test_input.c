/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that read their own input: queues with runners, readers, iterators and tables, and the end of their input. */
#include "tensorflow/graphs.h"
#include "tensorflow/threads.h"

static hs_session *open_training(hs_backend backend, const char *directory)
{
    hs_error err = {0};
    hs_session *session = hs_training_session_open(backend, HS_TRAINING_OPTIONS(.checkpoint_dir = directory), &err);
    assert_ok(err.code, &err);
    return session;
}

/* Returns the sum of the training op's inputs. Also works after the end of the input. */
static double total(hs_session *session)
{
    hs_error err = {0};
    const hs_run_values *values;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("total"));
    assert_ok(hs_raw_session_run(hs_session_raw(session), &args, &values, &err), &err);
    return hs_run_values_number(values, 0);
}

/* Trains until the end of the input. */
static void reads_all(const char *graph, int64_t steps, double sum)
{
    hs_error err = {0};
    char *directory = make_directory();
    hs_backend backend = open_graph(graph);
    hs_session *session = open_training(backend, directory);
    while (!hs_session_should_stop(session))
        hs_session_run(session, "train_op", &err);
    assert_says(&err, HS_OUT_OF_RANGE, "");
    assert_true(total(session) == sum);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(outcome.error.code, HS_OK);
    assert_int_equal(outcome.step, steps);
    assert_int_equal(outcome.last_saved_step, steps);
    hs_tensorflow_free(backend);
    remove_directory(directory);
}

static void a_reader_of_files_ends_with_its_last_epoch(void **state)
{
    (void)state;
    reads_all("reader.meta", 7, 110); /* twenty numbers by threes */
}

static void several_ops_fill_and_end_each_in_its_own_way(void **state)
{
    (void)state;
    reads_all("several.meta", 8, 3 * 1 + 4 * 10 + 100);
}

static void iterators_and_tables_are_initialized(void **state)
{
    (void)state;
    reads_all("iterator.meta", 8, 2 * (1 + 2 + 3 + 2));
    reads_all("one_shot.meta", 5, 15);
}

/* An iterator's position is not saved: after a restart it begins at the first element. */
static void an_iterators_position_is_not_saved(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_variable variable;
    char *directory = make_directory();
    hs_backend backend = open_graph("iterator.meta");
    for (size_t i = 0; hs_backend_variable(backend, i, &variable); i++)
        assert_true(strcmp(variable.name, "total") == 0 || strcmp(variable.name, "global_step") == 0);
    for (int64_t part = 1; part <= 2; part++) {
        hs_session *session = open_training(backend, directory);
        for (int i = 0; i < 3; i++)
            assert_ok(hs_session_run(session, "train_op", &err), &err);
        assert_true(total(session) == (double)part * (1 + 2 + 3));
        hs_outcome outcome = hs_session_close(session, &err);
        assert_int_equal(outcome.last_saved_step, 3 * part);
    }
    hs_tensorflow_free(backend);
    remove_directory(directory);
}

static void train_a_little(const char *graph)
{
    hs_error err = {0};
    hs_backend backend = open_graph(graph);
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    for (int i = 0; i < 3; i++)
        assert_ok(hs_session_run(session, "train_op", &err), &err);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_CLOSED);
    assert_int_equal(outcome.error.code, HS_OK);
    hs_tensorflow_free(backend);
}

/* Three threads wait for a full queue when the session is closed. */
static void closing_cancels_pending_enqueues(void **state)
{
    (void)state;
    train_a_little("endless.meta"); /* starts TensorFlow's own threads */
    train_a_little("endless.meta");
    long before = count_threads();
    for (int i = 0; i < 10; i++)
        train_a_little("endless.meta");
    if (!threads_fall_to(before))
        fail_msg("%ld threads after ten sessions, %ld before", count_threads(), before);
}

static void a_runner_that_makes_no_sense(void **state)
{
    (void)state;
    static const struct {
        const char *graph, *text;
    } cases[] = {{"runner_no_such_op.meta", "'gone'"}, {"runner_no_close.meta", "'input/close'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_error err = {0};
        hs_backend backend = open_graph(cases[i].graph);
        assert_null(hs_session_open(backend, NULL, &err));
        assert_says(&err, HS_NOT_FOUND, "queue runner 'input'");
        assert_contains(err.message, cases[i].text);
        hs_tensorflow_free(backend);
    }
    train_a_little("runner_strange_codes.meta");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_of_files_ends_with_its_last_epoch),
        cmocka_unit_test(several_ops_fill_and_end_each_in_its_own_way),
        cmocka_unit_test(iterators_and_tables_are_initialized),
        cmocka_unit_test(an_iterators_position_is_not_saved),
        cmocka_unit_test(closing_cancels_pending_enqueues),
        cmocka_unit_test(a_runner_that_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
