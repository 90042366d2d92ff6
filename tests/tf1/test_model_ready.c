/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a model is ready, and waiting until it is. */
#include "tf1/served.h"

static void sm_007_waiting_for_an_initialized_model_times_out(void **state)
{
    served *s = *state;
    int64_t before = s->b->t.now_ns;
    assert_false(served_wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "v");
    assert_int_equal((s->b->t.now_ns - before + 1000000) / 1000000000, 3);
    assert_int_equal(s->opened, 4); /* at 0, 1, 2, 3 */
}

static void sm_031s_each_poll_opens_a_new_session(void **state)
{
    served *s = *state;
    assert_false(served_wait(s, 2));
    assert_int_equal(s->opened, 3);
    assert_int_equal(s->closed, 3);
}

/* The chief initializes v after the third poll. */
static void initialize_v(void *user)
{
    served *s = user;
    if (s->opened == 3)
        s->v = 1;
}

static void sm_013_another_process_initializes(void **state)
{
    served *s = *state;
    s->on_open = initialize_v;
    s->check_w = true;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(served_wait(s, 3));
    assert_true(served_number(s, "v_now") == 1);
    assert_true(served_number(s, "w_now") == 1);
    assert_int_equal(s->local_inits, 1);
}

static void sm_014_a_check_that_never_succeeds(void **state)
{
    served *s = *state;
    s->v = 1;
    s->check_w = true;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready";
    assert_false(served_wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "ready for local_init_op");
    assert_int_equal(s->local_inits, 0);
}

static void sm_015_no_check_and_nothing_initialized(void **state)
{
    served *s = *state;
    s->options.local_init_op = "local_init";
    assert_false(served_wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "the session did not become ready within 3 s");
}

static void sm_016_several_local_inits(void **state)
{
    served *s = *state;
    s->check_w = true;
    s->options.local_init_op = "local_init_all";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(served_prepare(s, PREPARE(.init_op = "init")));
    assert_true(s->v == 1 && s->w == 1 && s->x == 3);
}

static void sm_018_sm_035s_something_is_left_uninitialized(void **state)
{
    served *s = *state;
    s->check_w = true;
    assert_false(served_prepare(s, PREPARE(.init_op = "init")));
    assert_int_equal(s->b->err.code, HS_FAILED_PRECONDITION);
    assert_string_equal(s->b->err.message,
                        "after initialization: the model is not ready; 1 variables are not initialized: w");
    assert_int_equal(s->closed, 1);
}

static void sm_019_not_ready_for_the_local_init_op(void **state)
{
    served *s = *state;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_false(served_prepare(s, PREPARE(.init_op = "init_x")));
    assert_int_equal(s->b->err.code, HS_FAILED_PRECONDITION);
    assert_string_equal(
        s->b->err.message,
        "after initialization: the model is not ready for local_init_op; 1 variables are not initialized: v");
    assert_int_equal(s->local_inits, 0);
}

/* Returns many names, for which the message has no room, and then one. The second message must not have the first names. */
static hs_code list_many_then_one(void *self, hs_op *op, hs_error *err)
{
    static hs_string names[100];
    int64_t n = ((served *)self)->checks++ ? 1 : 100;
    for (int i = 0; i < 100; i++)
        names[i] = (hs_string){"layer/weights", 13};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(n), names);
    return hs_op_set_output(op, 0, &value, err);
}

static void names_are_listed_as_far_as_there_is_room(void **state)
{
    served *s = *state;
    hs_graph_op(s->b->graph, .name = "list", .run = list_many_then_one, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    s->options.ready_op = "list";
    assert_false(served_prepare(s, PREPARE(.init_op = "init")));
    const char *message = s->b->err.message, *end = message + strlen(message);
    assert_contains(message, "; 100 variables are not initialized: layer/weights, layer/weights, ");
    assert_string_equal(end - 20, ", layer/weights, ...");
    assert_true(strlen(message) < HS_MESSAGE_SIZE - 1); /* the list was cut, not the message */
    assert_false(served_prepare(s, PREPARE(.init_op = "init")));
    assert_string_equal(s->b->err.message,
                        "after initialization: the model is not ready; 1 variables are not initialized: layer/weights");
}

static void sm_020_without_that_check(void **state)
{
    served *s = *state;
    s->options.local_init_op = "local_init";
    assert_false(served_prepare(s, PREPARE(.saver = NULL)));
    assert_says(&s->b->err, HS_FAILED_PRECONDITION, "the model is not ready; 1 variables are not initialized: v");
    assert_int_equal(s->local_inits, 1);
}

static void sm_022_a_check_that_fails_is_not_ready(void **state)
{
    served *s = *state;
    s->options.ready_op = "assert_ready";
    assert_false(served_wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "v is uninitialized");
}

static void sm_029s_what_counts_as_ready(void **state)
{
    served *s = *state;
    s->options.ready_op = "numbers"; /* not a list of names */
    assert_true(served_prepare(s, PREPARE(.init_op = "init_x")));
    served_close(s);
    s->options.ready_op = NULL;
    assert_true(served_prepare(s, PREPARE(.init_op = "init_x")));
    served_close(s);
    s->options.ready_op = "init_x"; /* no value */
    assert_true(served_prepare(s, PREPARE(.init_op = "init_x")));
    served_close(s);
    s->options.ready_op = "ready";
    s->check_w = true;
    assert_false(served_prepare(s, PREPARE(.init_op = "init_x")));
    assert_says(&s->b->err, HS_FAILED_PRECONDITION, "v, w");
}

static void initialize_late(void *user)
{
    served *s = user;
    if (s->opened == 5000)
        s->v = 1;
}

static void sm_032s_waiting_may_have_no_limit(void **state)
{
    served *s = *state;
    s->on_open = initialize_late;
    assert_true(served_wait(s, HS_NEVER));
    assert_int_equal(s->opened, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        served_test(sm_007_waiting_for_an_initialized_model_times_out),
        served_test(sm_013_another_process_initializes),
        served_test(sm_014_a_check_that_never_succeeds),
        served_test(sm_015_no_check_and_nothing_initialized),
        served_test(sm_016_several_local_inits),
        served_test(sm_018_sm_035s_something_is_left_uninitialized),
        served_test(sm_019_not_ready_for_the_local_init_op),
        served_test(names_are_listed_as_far_as_there_is_room),
        served_test(sm_020_without_that_check),
        served_test(sm_022_a_check_that_fails_is_not_ready),
        served_test(sm_029s_what_counts_as_ready),
        served_test(sm_031s_each_poll_opens_a_new_session),
        served_test(sm_032s_waiting_may_have_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
