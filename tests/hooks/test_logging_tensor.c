/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

/* The script has a tensor that is always 42. */
static const double forty_two = 42;

static int setup(void **state)
{
    stage_setup(state);
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &forty_two);
    return hs_script_constant(((stage *)*state)->script, "answer", &value);
}
#define with_answer(test) cmocka_unit_test_setup_teardown(test, setup, stage_teardown)

static const char line[] = ": answer = 42";

/* Returns the number of lines that were logged since the last call. */
static size_t logged(stage *s)
{
    size_t n = count_of(s->t.log, line);
    test_env_clear_log(&s->t);
    return n;
}

static void bh_010_illegal_options(void **state)
{
    const char *const *answer = HS_NAMES("answer");
    stage_refuses(*state, hs_logging_tensor(.tensors = answer, .every_n_steps = -10), HS_INVALID_ARGUMENT,
                  "every_n_steps is -10");
    stage_refuses(*state, hs_logging_tensor(.tensors = answer, .every_n_steps = 5, .every_n_secs = 5), HS_INVALID_ARGUMENT,
                  "each of every_n_secs and every_n_steps");
    stage_refuses(*state, hs_logging_tensor(.tensors = answer, .every_n_steps = 0), HS_INVALID_ARGUMENT,
                  "none of every_n_steps, every_n_secs, when and at_end is given");
}

static void tensors_and_labels_must_make_sense(void **state)
{
    stage_refuses(*state, hs_logging_tensor(.every_n_steps = 1), HS_INVALID_ARGUMENT, "tensors is empty");
    stage_refuses(*state, hs_logging_tensor(.tensors = HS_NAMES(NULL), .every_n_steps = 1), HS_INVALID_ARGUMENT,
                  "tensors is empty");
    stage_refuses(*state,
                  hs_logging_tensor(.tensors = HS_NAMES("answer"), .labels = HS_NAMES("a", "b"), .every_n_steps = 1),
                  HS_INVALID_ARGUMENT, "2 labels are given for 1 tensors");
    stage_refuses(*state, hs_logging_tensor_hook(&(hs_logging_tensor_options){.every_n_steps = 1}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_logging_tensor_options");
}

static void bh_011_at_the_end_only(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .at_end = true));
    stage_run(s, "train", 3, 1);
    assert_int_equal(logged(s), 0);
    stage_close(s);
    assert_int_equal(logged(s), 1);
}

static void ten_by_ten(stage *s)
{
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 10));
    stage_run(s, "train", 1, 0);
    assert_int_equal(logged(s), 1);
    for (int i = 0; i < 3; i++) {
        stage_run(s, "train", 9, 0);
        assert_int_equal(logged(s), 0);
        stage_run(s, "train", 1, 0);
        assert_int_equal(logged(s), 1);
    }
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_int_equal(logged(s), 0);
}

static void bh_012_every_ten_runs(void **state)
{
    ten_by_ten(*state);
    ten_by_ten(*state); /* a new hook on the same graph counts from zero, at any step */
}

static void bh_012_a_reused_hook_counts_from_zero(void **state)
{
    stage *s = *state;
    hs_hook hook = hs_hook_hold(hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 10));
    for (int i = 0; i < 2; i++) {
        stage_open(s, hook);
        stage_run(s, "train", 3, 0);
        stage_close(s);
        assert_int_equal(logged(s), 1);
    }
    hs_hook_free(hook);
}

static void bh_014_the_first_line_has_no_seconds(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 1));
    stage_run(s, "train", 1, 0);
    assert_string_equal(s->t.log, "INFO: step 1: answer = 42\n");
}

static void bh_015_every_second(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_secs = 1));
    stage_run(s, "train", 1, 0);
    assert_int_equal(logged(s), 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(logged(s), 0);
    test_env_advance(&s->t, 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(logged(s), 1);
    stage_close(s);
    assert_int_equal(logged(s), 0);
}

static void bh_016_every_second_and_at_the_end(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_secs = 1, .at_end = true));
    stage_run(s, "train", 2, 0);
    test_env_advance(&s->t, 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(logged(s), 2);
    stage_close(s);
    assert_int_equal(logged(s), 1);
}

static void qqq(void *user, const hs_run_values *values, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s=%.0f", (const char *)user, hs_run_values_number(values, 0));
}

static void bh_017_a_formatter_makes_the_line(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 1, .formatter = qqq, .user = "qqq"));
    stage_run(s, "train", 2, 1);
    assert_string_equal(s->t.log, "INFO: qqq=42\nINFO: qqq=42\n");
}

static void fill_up(void *user, const hs_run_values *values, char *text, size_t bytes)
{
    (void)user, (void)values;
    memset(text, 'x', bytes - 1);
    text[bytes - 1] = '\0';
}

static void a_formatter_may_fill_the_line(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 1, .formatter = fill_up));
    stage_run(s, "train", 1, 0);
    assert_true(strlen(s->t.log) > 1000);
}

static void bh_078s_it_counts_its_own_runs(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 10);
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 5));
    stage_run(s, "train", 5, 0);
    assert_int_equal(logged(s), 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(logged(s), 1);
}

static void bh_078s_later_lines_have_the_seconds_since(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 2));
    stage_run(s, "train", 5, 0.602);
    assert_string_equal(
        s->t.log, "INFO: step 1: answer = 42\nINFO: step 3: answer = 42 (1.20 s)\nINFO: step 5: answer = 42 (1.20 s)\n");
}

static void bh_078s_a_line_begins_with_the_step(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){4, 0.25}, 2);
    hs_script_series(s->script, "accuracy", (double[]){0.5, 0.91}, 2);
    hs_script_set_step(s->script, 1198);
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("loss", "accuracy"), .every_n_steps = 1));
    stage_run(s, "train", 2, 0.18);
    assert_contains(s->t.log, "INFO: step 1200: loss = 0.25, accuracy = 0.91 (0.18 s)\n");
}

/* TensorFlow sorts the tags of a map. */
static void bh_078s_labels_stand_in_their_order(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){0.25}, 1);
    stage_open(s,
               hs_logging_tensor(.tensors = HS_NAMES("loss", "answer"), .labels = HS_NAMES("z", "a"), .every_n_steps = 1));
    stage_run(s, "train", 1, 0);
    assert_string_equal(s->t.log, "INFO: step 1: z = 0.25, a = 42\n");
}

static void bh_080s_the_tensors_are_fetched_only_in_runs_that_log(void **state)
{
    stage *s = *state;
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 2));
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train answer; feed");
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train; feed");
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train answer; feed");
}

static hs_code give_two(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(float *)hs_op_output(op, 0)->data = 1;
    *(float *)hs_op_output(op, 1)->data = 2;
    return HS_OK;
}

static hs_code open_on_pair(stage *s, hs_graph **graph, const char *tensor)
{
    *graph = hs_graph_new(&s->t.env);
    hs_graph_op(*graph, .name = "pair", .run = give_two, .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}, {.dtype = HS_FLOAT}));
    hs_graph_op(*graph, .name = "group");
    hs_hook hook = hs_logging_tensor(.tensors = HS_NAMES(tensor), .every_n_steps = 1);
    return stage_try(s, hs_graph_backend(*graph), &hook, 1);
}

static void bh_081s_a_name_that_is_not_a_tensor_is_refused_in_begin(void **state)
{
    static const struct {
        const char *name;
        hs_code code;
        const char *message;
    } cases[] = {
        {"unknown", HS_NOT_FOUND, "hook 'logging_tensor', begin: 'unknown'"},
        {"pair", HS_INVALID_ARGUMENT, "'pair' has 2 outputs"},
        {"pair:2", HS_NOT_FOUND, "'pair:2'"},
        {"group", HS_INVALID_ARGUMENT, "'group' is an op without outputs, so it has no value"},
    };
    hs_graph *graph;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage *s = *state;
        assert_fails(open_on_pair(s, &graph, cases[i].name), cases[i].code, &s->err, cases[i].message);
        hs_graph_free(graph);
    }
}

static void bh_081s_one_of_several_outputs(void **state)
{
    stage *s = *state;
    hs_graph *graph;
    assert_ok(open_on_pair(s, &graph, "pair:1"), &s->err);
    stage_run(s, "group", 1, 0);
    assert_string_equal(s->t.log, "INFO: pair:1 = 2\n");
    stage_close(s);
    hs_graph_free(graph);
}

/* Tensors that are not one number. */

static void assert_logs(stage *s, const hs_tensor *value, const char *text)
{
    test_env_clear_log(&s->t);
    hs_script_set_step(s->script, 0);
    hs_script_constant(s->script, "value", value);
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("value"), .every_n_steps = 1));
    stage_run(s, "train", 1, 0);
    assert_string_equal(s->t.log, text);
    stage_close(s);
}

static void vectors_and_matrices(void **state)
{
    const int32_t numbers[20] = {1, 2, 3, 4};
    hs_tensor value = hs_tensor_of(HS_INT32, HS_SHAPE(2, 2), numbers);
    assert_logs(*state, &value, "INFO: step 1: value = [1 2 3 4]\n");
    value = hs_tensor_of(HS_INT32, HS_SHAPE(20), numbers);
    assert_logs(*state, &value, "INFO: step 1: value = [1 2 3 4 0 0 0 0 0 0 0 0 0 0 0 0 ...]\n");
    value = hs_tensor_of(HS_INT32, HS_SHAPE(0), NULL);
    assert_logs(*state, &value, "INFO: step 1: value = []\n");
}

static void values_that_are_not_numbers_are_shown_by_type_and_shape(void **state)
{
    const hs_string words[2] = {{"a", 1}, {"b", 1}};
    const float parts[2] = {1, 2};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(2), words);
    assert_logs(*state, &value, "INFO: step 1: value = string [2]\n");
    value = hs_tensor_of(HS_COMPLEX64, HS_SCALAR, parts);
    assert_logs(*state, &value, "INFO: step 1: value = complex64 []\n");
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    memcpy(host, device, bytes);
    return user ? hs_error_set(err, HS_UNAVAILABLE, "no device") : HS_OK;
}

static void memory_of_a_device_is_brought_to_the_host(void **state)
{
    const float number = 2.5;
    hs_memory memory = HS_INIT(hs_memory, .to_host = to_host);
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SCALAR, &number);
    value.memory = &memory;
    assert_logs(*state, &value, "INFO: step 1: value = 2.5\n");
    memory.user = &memory; /* fails from now on, which must not stop the training */
    assert_logs(*state, &value, "INFO: step 1: value = float []\n");
}

static hs_code to_host_a_little(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    size_t *copied = user;
    *copied += bytes;
    return to_host(NULL, host, device, bytes, err);
}

static void of_a_large_tensor_on_a_device_only_what_is_shown_is_copied(void **state)
{
    enum { N = 1 << 15 };
    static int16_t numbers[2 * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    size_t copied = 0;
    const hs_memory memory = HS_INIT(hs_memory, .to_host = to_host_a_little, .user = &copied);
    hs_tensor value = hs_tensor_of(HS_INT16, HS_SHAPE(2, N), numbers);
    value.memory = &memory;
    assert_logs(*state, &value, "INFO: step 1: value = [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 ...]\n");
    assert_int_equal(copied, 16 * sizeof *numbers);
}

static void a_long_line_is_cut(void **state)
{
    stage *s = *state;
    char label[3000];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = '\0';
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer", "answer", "answer"),
                                    .labels = HS_NAMES("short", label, "last"), .every_n_steps = 1));
    stage_run(s, "train", 2, 1);
    assert_contains(s->t.log, "INFO: step 1: short = 42, xxxx");
    assert_lacks(s->t.log, "last");
}

/* The log shows a byte that is not part of a character as \xNN. */
static void a_long_line_is_cut_between_characters(void **state)
{
    stage *s = *state;
    char label[3002] = "";
    for (size_t i = 0; i < 3000; i += 2)
        memcpy(label + i, "\xc3\xb6", 3);
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .labels = HS_NAMES(label), .every_n_steps = 1));
    stage_run(s, "train", 1, 1);
    hs_script_set_step(s->script, 9); /* one digit more */
    stage_run(s, "train", 1, 1);
    assert_contains(s->t.log, "INFO: step 10: \xc3\xb6");
    assert_lacks(s->t.log, "\\x");
    stage_close(s);
}

/* Failures. */

static void a_run_that_fails_logs_nothing_and_does_not_count(void **state)
{
    stage *s = *state;
    hs_script_fail_at(s->script, 1, HS_UNAVAILABLE, "lost");
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .every_n_steps = 2));
    assert_int_equal(stage_run_once(s, "train"), HS_UNAVAILABLE);
    assert_int_equal(logged(s), 0);
    stage_run(s, "train", 3, 0);
    assert_int_equal(logged(s), 2);
}

static void a_last_line_that_cannot_be_fetched(void **state)
{
    stage *s = *state;
    hs_script_fail_at(s->script, 2, HS_UNAVAILABLE, "lost");
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("answer"), .at_end = true));
    stage_run(s, "train", 1, 0);
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_says(&s->err, HS_UNAVAILABLE, "hook 'logging_tensor', end at step 1: lost");
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
}

static hs_code log_twice(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_script *script = hs_script_new(&t->env);
    if (!script || hs_script_series(script, "loss", (double[]){1, 2, 3}, 3)) {
        hs_script_free(script);
        return HS_RESOURCE_EXHAUSTED;
    }
    hs_hook hook =
        hs_logging_tensor(.tensors = HS_NAMES("loss"), .labels = HS_NAMES("l"), .every_n_steps = 1, .at_end = true);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    for (int i = 0; i < 2 && !err.code; i++)
        hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(log_twice, NULL);
}

static void a_run_of_an_evaluation_computes_values(void **state)
{
    stage *s = *state;
    double value = 7;
    const hs_run_args evaluation = HS_INIT(hs_run_args, .kind = HS_RUN_EVAL);
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_value(graph, "error", HS_DOUBLE, HS_SCALAR, &value);
    hs_graph_global_step(graph, NULL, NULL);
    hs_hook hook = hs_logging_tensor(.tensors = HS_NAMES("error"), .every_n_steps = 1);
    hook.flags = HS_HOOK_EVAL;
    assert_ok(stage_try(s, hs_graph_backend(graph), &hook, 1), &s->err);
    assert_ok(hs_session_run_args(s->session, &evaluation, NULL, &s->err), &s->err);
    stage_close(s);
    hs_graph_free(graph);
    assert_contains(s->t.log, "error = 7");
    assert_lacks(s->t.log, "not computed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_answer(bh_010_illegal_options),
        with_answer(tensors_and_labels_must_make_sense),
        with_answer(bh_011_at_the_end_only),
        with_answer(bh_012_every_ten_runs),
        with_answer(bh_012_a_reused_hook_counts_from_zero),
        with_answer(bh_014_the_first_line_has_no_seconds),
        with_answer(bh_015_every_second),
        with_answer(bh_016_every_second_and_at_the_end),
        with_answer(bh_017_a_formatter_makes_the_line),
        with_answer(a_formatter_may_fill_the_line),
        with_answer(bh_078s_it_counts_its_own_runs),
        with_answer(bh_078s_later_lines_have_the_seconds_since),
        with_answer(bh_078s_a_line_begins_with_the_step),
        with_answer(bh_078s_labels_stand_in_their_order),
        with_answer(bh_080s_the_tensors_are_fetched_only_in_runs_that_log),
        with_answer(bh_081s_a_name_that_is_not_a_tensor_is_refused_in_begin),
        with_answer(bh_081s_one_of_several_outputs),
        with_answer(vectors_and_matrices),
        with_answer(values_that_are_not_numbers_are_shown_by_type_and_shape),
        with_answer(memory_of_a_device_is_brought_to_the_host),
        with_answer(of_a_large_tensor_on_a_device_only_what_is_shown_is_copied),
        with_answer(a_long_line_is_cut),
        with_answer(a_long_line_is_cut_between_characters),
        with_answer(a_run_that_fails_logs_nothing_and_does_not_count),
        with_answer(a_last_line_that_cannot_be_fetched),
        with_answer(a_run_of_an_evaluation_computes_values),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
