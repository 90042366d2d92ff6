/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/poisoned.h"

#include "base/state.h"

#include <math.h>

#define GUARD(...) hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_ROLLBACK, __VA_ARGS__)

/* Checks the model: its step, the sum of the batches that it was trained on, and the number of batches drawn. */
static void is_at(const poisoned *p, int64_t step, double weight, int64_t position)
{
    assert_int_equal(hs_session_global_step(p->s->session, NULL), step);
    assert_true((double)p->weight == weight);
    assert_int_equal(p->position, position);
}

static void a_rollback_without_a_checkpoint(void **state)
{
    poisoned *p = *state;
    hs_hook guard = GUARD(.skip_op = "draw");
    p->bad[0] = 3;
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 3), &p->s->err);
    is_at(p, 0, 0, 3);
    assert_contains(p->s->t.log, "WARNING: step 3: gradient 'gradient', float [2,3], is not finite: first at [1,2]");
    assert_contains(p->s->t.log,
                    "; rolled back to step 0 (the copy in memory), rollback 1 of at most 3; 3 batches skipped");
    stage_close(p->s);
}

static void the_copy_is_freed_when_there_is_a_checkpoint(void **state)
{
    poisoned *p = *state;
    hs_hook guard = GUARD(.skip_op = "draw");
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    size_t with_copy = p->s->t.live;
    hs_raw_session_record_save(hs_session_raw(p->s->session), 2);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_true(p->s->t.live < with_copy);
    stage_close(p->s);
}

/* The first run is not checked, but the copy is made before it. */
static void a_guard_that_checks_every_third_run_rolls_back_to_the_copy_of_the_first(void **state)
{
    poisoned *p = *state;
    hs_hook guard = GUARD(.skip_op = "draw", .when = HS_EVERY_STEPS(3));
    p->bad[0] = 1;
    p->bad[1] = 3;
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 2, 1 + 2, 2);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    is_at(p, 0, 0, 3);
    stage_close(p->s);
}

/* Whether or not it still checks runs. */
static void the_copy_of_a_guard_that_does_not_check_each_run_is_freed_too(void **state)
{
    poisoned *p = *state;
    const hs_trigger whens[] = {HS_EVERY_STEPS(100), HS_AT_STEPS(1)};
    for (size_t i = 0; i < 2; i++) {
        hs_hook guard = GUARD(.skip_op = "draw", .when = whens[i]);
        assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
        assert_ok(poisoned_run(p, "train", 3), &p->s->err);
        size_t with_copy = p->s->t.live;
        hs_raw_session_record_save(hs_session_raw(p->s->session), hs_session_global_step(p->s->session, NULL));
        assert_ok(poisoned_run(p, "train", 1), &p->s->err);
        assert_true(p->s->t.live < with_copy);
        stage_close(p->s);
    }
}

/* In any order of saver and guard, the bad state is not saved, and training continues as if the bad batch and those before
 * it had never been drawn. */
static void a_rollback_to_a_checkpoint(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 6;
    for (size_t first = 0; first < 2; first++) {
        p->weight = 0;
        p->position = 0;
        hs_hook hooks[2];
        hooks[first] = poisoned_saver(p, .every_n_steps = 2);
        hooks[1 - first] = GUARD(.skip_op = "draw");
        assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
        assert_ok(poisoned_run(p, "train", 6), &p->s->err);
        is_at(p, 4, 1 + 2 + 3 + 4, 6); /* the save of step 4 */
        assert_int_equal(hs_raw_session_save_refusal(hs_session_raw(p->s->session), NULL), HS_OK);
        assert_int_equal(latest_step(p->s->directory), 4);
        assert_ok(poisoned_run(p, "train", 2), &p->s->err);
        is_at(p, 6, 1 + 2 + 3 + 4 + 7 + 8, 8);
        assert_int_equal(latest_step(p->s->directory), 6);
        stage_close(p->s);
        test_remove_directory(p->s->directory);
        p->s->directory = test_make_directory();
    }
}

static void a_save_in_the_background_is_waited_for(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 5;
    hs_hook hooks[] = {poisoned_saver(p, .every_n_steps = 2, .background = true), GUARD(.skip_op = "draw")};
    assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
    assert_ok(poisoned_run(p, "train", 5), &p->s->err); /* the save of step 4 is pending */
    is_at(p, 4, 1 + 2 + 3 + 4, 5);
    stage_close(p->s);
    assert_int_equal(latest_step(p->s->directory), 4);
}

/* The second rollback must skip the batches of the first one again. */
static void each_rollback_to_one_state_skips_more(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    p->bad[1] = 3;
    p->bad[2] = 5;
    hs_hook guard = GUARD(.skip_op = "draw");
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 0, 0, 2);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    is_at(p, 0, 0, 3);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 0, 0, 5);
    assert_ok(poisoned_run(p, "train", 3), &p->s->err);
    is_at(p, 3, 6 + 7 + 8, 8);
    double rollbacks = 0;
    assert_true(hs_raw_session_metric(hs_session_raw(p->s->session), "finite_guard/rollbacks", &rollbacks, NULL));
    assert_true(rollbacks == 3);
    stage_close(p->s);
}

static void it_skips_skip_batches(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    p->bad[1] = 6;
    hs_hook guard = GUARD(.skip_op = "draw", .skip_batches = 4);
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 0, 0, 4);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 0, 0, 8);
    stage_close(p->s);
}

static void the_learning_rate_shrinks_with_each(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    p->bad[1] = 3;
    hs_hook hooks[] = {GUARD(.skip_op = "draw", .learning_rate = "rate", .learning_rate_factor = 0.25),
                       poisoned_saver(p, .every_n_steps = 1)};
    assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    assert_true(p->rate == 0.25F);
    assert_contains(p->s->t.log, "; rate is 0.25 instead of 1;");
    assert_ok(poisoned_run(p, "train", 1), &p->s->err); /* the same checkpoint, which has 1 rollback */
    assert_true(p->rate == 0.0625F);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    is_at(p, 2, 1 + 4 * 0.0625, 4);
    p->bad[0] = 5; /* later checkpoints have the reduced rate */
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_true(p->rate == 0.015625F);
    stage_close(p->s);
}

static void without_an_op_the_same_batch_comes_again(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    hs_hook guard = GUARD(.max_rollbacks = 2);
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 0, 0, 0);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    assert_fails(poisoned_run(p, "train", 2), HS_FAILED_PRECONDITION, &p->s->err,
                 "all 2 rollbacks (max_rollbacks) are used: step 2 to 0, step 2 to 0");
    assert_int_equal(hs_raw_session_save_refusal(hs_session_raw(p->s->session), NULL), HS_FAILED_PRECONDITION);
}

/* The number of rollbacks is saved in checkpoints, and counts in the next process. */
static void the_budget_is_that_of_the_whole_training(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    hs_hook first[] = {GUARD(.skip_op = "draw", .max_rollbacks = 1), poisoned_saver(p, .every_n_steps = 1)};
    assert_ok(poisoned_open(p, true, first, 2), &p->s->err);
    assert_ok(poisoned_run(p, "train", 3), &p->s->err);
    is_at(p, 2, 1 + 3, 3);
    stage_close(p->s);
    p->bad[0] = 5;
    hs_hook second[] = {GUARD(.skip_op = "draw", .max_rollbacks = 1), poisoned_saver(p, .every_n_steps = 1)};
    assert_ok(poisoned_open(p, true, second, 2), &p->s->err);
    assert_fails(poisoned_run(p, "train", 2), HS_FAILED_PRECONDITION, &p->s->err,
                 "all 1 rollbacks (max_rollbacks) are used");
    hs_session_close(p->s->session, NULL);
    p->s->session = NULL;
    assert_int_equal(latest_step(p->s->directory), 3);
}

static void there_may_be_no_limit(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 1;
    p->all_bad = true;
    hs_hook guard = GUARD(.skip_op = "draw", .max_rollbacks = HS_NEVER);
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 100), &p->s->err);
    is_at(p, 0, 0, 100);
    stage_close(p->s);
}

static void damage_the_data(const char *directory)
{
    test_write_file(test_path(directory, "model.ckpt-4.data-00000-of-00001"), "damage", 6);
}

static void remove_the_index(const char *directory)
{
    assert_int_equal(remove(test_path(directory, "model.ckpt-4.index")), 0);
}

static void make_it_one_of_format_v1(const char *directory)
{
    char *index = strdup(test_path(directory, "model.ckpt-4.index"));
    assert_int_equal(rename(index, test_path(directory, "model.ckpt-4")), 0);
    free(index);
}

/* As in a restart. */
static void a_damaged_checkpoint_is_skipped(void **state)
{
    static void (*const damages[])(const char *directory) = {damage_the_data, remove_the_index, make_it_one_of_format_v1};
    poisoned *p = *state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        hs_hook hooks[] = {GUARD(.skip_op = "draw"), poisoned_saver(p, .every_n_steps = 2)};
        p->bad[0] = 5;
        p->weight = 0;
        p->position = 0;
        test_empty_directory(p->s->directory);
        assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
        assert_ok(poisoned_run(p, "train", 4), &p->s->err);
        assert_int_equal(latest_step(p->s->directory), 4);
        damages[i](p->s->directory);
        assert_ok(poisoned_run(p, "train", 1), &p->s->err);
        assert_contains(p->s->t.log, "/model.ckpt-4' skipped: ");
        is_at(p, 2, 1 + 2, 5);
        stage_close(p->s);
    }
}

/* It may be intact. */
static void a_checkpoint_that_the_system_cannot_read_is_not_skipped(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 5;
    hs_hook hooks[] = {GUARD(.skip_op = "draw"), poisoned_saver(p, .every_n_steps = 2)};
    assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
    assert_ok(poisoned_run(p, "train", 4), &p->s->err);
    p->s->t.fail_file_code = HS_DATA_LOSS;
    p->s->t.fail_file_at = p->s->t.file_calls + 1;
    p->s->t.fail_file_on = true;
    assert_fails(poisoned_run(p, "train", 1), HS_DATA_LOSS, &p->s->err, "injected");
    assert_lacks(p->s->t.log, "skipped");
    p->s->t.fail_file_at = 0;
    hs_session_close(p->s->session, NULL);
    p->s->session = NULL;
}

/* The savers of the session know no checkpoint, but the session was restored from one. */
static void it_rolls_back_to_the_restored_checkpoint(void **state)
{
    poisoned *p = *state;
    hs_hook saver = poisoned_saver(p, .every_n_steps = 10);
    assert_ok(poisoned_open(p, false, &saver, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 3), &p->s->err);
    stage_close(p->s);
    p->bad[0] = 5;
    hs_hook guard = GUARD(.skip_op = "draw");
    assert_ok(poisoned_open(p, true, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 3, 1 + 2 + 3, 5);
    stage_close(p->s);
}

static void more_than_a_gib_is_not_copied_so_that_a_rollback_fails(void **state)
{
    poisoned *p = *state;
    const int64_t gib = 1 << 30;
    void *untouched = calloc((size_t)gib, 1);
    assert_non_null(untouched);
    p->bad[0] = 2;
    hs_hook guard = GUARD(.skip_op = "draw");
    hs_graph_variable(p->graph, "untouched", HS_UINT8, HS_SHAPE(gib), untouched);
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_contains(
        p->s->t.log,
        "WARNING: the initial state is larger than hs_recovery.snapshot_limit (1073741824 bytes) and is not copied; rollback is impossible");
    assert_fails(poisoned_run(p, "train", 1), HS_FAILED_PRECONDITION, &p->s->err,
                 "is not finite: first at [1,2] (element 5)");
    assert_contains(p->s->err.message, "cannot roll back step 2: no checkpoint was saved, and no copy is in memory");
    assert_int_equal(hs_raw_session_save_refusal(hs_session_raw(p->s->session), NULL), HS_FAILED_PRECONDITION);
    hs_session_close(p->s->session, NULL);
    p->s->session = NULL;
    free(untouched);
}

/* If the guard has another saver, it must not start again from the beginning, because that would discard the saved
 * steps. */
static void a_saver_that_the_guard_does_not_know(void **state)
{
    poisoned *p = *state;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->s->t.env), &p->s->err);
    const struct {
        hs_hook guard;
        const char *says;
    } cases[] = {
        {GUARD(.skip_op = "draw"), "step 2 was saved, but no checkpoint was found; give the hook the saver that saves"},
        {GUARD(.skip_op = "draw", .saver = saver), NULL}};
    p->bad[0] = 4;
    for (size_t i = 0; i < 2; i++) {
        p->weight = 0;
        p->position = 0;
        hs_hook hooks[] = {poisoned_saver(p, .every_n_steps = 2, .saver = saver), cases[i].guard};
        assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
        hs_code code = poisoned_run(p, "train", 4);
        if (cases[i].says)
            assert_fails(code, HS_FAILED_PRECONDITION, &p->s->err, cases[i].says);
        else
            is_at(p, 2, 1 + 2, 4);
        hs_session_close(p->s->session, NULL);
        p->s->session = NULL;
    }
    hs_saver_free(saver);
}

/* A queue's thread reads ahead. A rollback restores the queue, too, and its dequeue op skips batches. */

typedef struct {
    int64_t produced;
    float sum;
} numbers;

static hs_code produce(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(float *)hs_op_output(op, 0)->data = (float)++((numbers *)self)->produced;
    return HS_OK;
}

static hs_code save_produced(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((numbers *)self)->produced, sizeof(int64_t), err);
}

static hs_code load_produced(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((numbers *)self)->produced, sizeof(int64_t), err);
}

static hs_code consume(void *self, hs_op *op, hs_error *err)
{
    float number = *(const float *)hs_op_input(op, 0)->data, *loss = hs_op_output(op, 0)->data;
    (void)err;
    *loss = number == 5 ? INFINITY : number;
    ((numbers *)self)->sum += number;
    return HS_OK;
}

static void batches_of_a_queue(void **state)
{
    poisoned *p = *state;
    numbers n = {0};
    hs_graph *g = hs_graph_new(&p->s->t.env);
    hs_state_provider position =
        HS_INIT(hs_state_provider, .name = "produced", .save = save_produced, .load = load_produced, .self = &n);
    hs_graph_variable(g, "sum", HS_FLOAT, HS_SCALAR, &n.sum);
    hs_graph_queue(g, .name = "input", .capacity = 3, .produce = produce, .user = &n,
                   .components = HS_OUTPUTS({.dtype = HS_FLOAT}), .position = &position);
    hs_graph_op(g, .name = "train", .run = consume, .user = &n, .inputs = HS_NAMES("input/dequeue:0"),
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}), .advances_step = true);
    hs_hook hooks[] = {
        hs_finite_guard(.activations = HS_NAMES("train:0"), .policy = HS_GUARD_ROLLBACK, .skip_op = "input/dequeue"),
        poisoned_saver(p, .every_n_steps = 3)};
    assert_ok(stage_try(p->s, hs_graph_backend(g), hooks, 2), &p->s->err);
    assert_ok(poisoned_run(p, "train", 5 + 2), &p->s->err); /* the fifth run rolls back to step 3 and skips 4 and 5 */
    assert_int_equal(hs_session_global_step(p->s->session, NULL), 5);
    assert_true(n.sum == 1 + 2 + 3 + 6 + 7);
    stage_close(p->s);
    hs_graph_free(g);
}

static void the_data_end_while_batches_are_skipped(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 3;
    p->length = 4;
    hs_hook guard = GUARD(.skip_op = "draw", .skip_batches = 9);
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", 9), &p->s->err);
    assert_true(hs_session_should_stop(p->s->session));
    assert_contains(p->s->t.log, "the input ended while skipping batches");
    is_at(p, 0, 0, 4);
    stage_close(p->s);
}

/* If another hook requests a stop in the bad run, the training ends at the restored state, which is saved. */
static void a_stop_in_the_bad_run(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 5;
    hs_hook hooks[] = {poisoned_saver(p, .every_n_steps = 2), GUARD(.skip_op = "draw"), hs_stop_at_step(.last_step = 5)};
    assert_ok(poisoned_open(p, false, hooks, 3), &p->s->err);
    assert_ok(poisoned_run(p, "train", 9), &p->s->err);
    stage_close(p->s);
    assert_int_equal(p->s->outcome.step, 4);
    assert_int_equal(latest_step(p->s->directory), 4);
    assert_true(p->weight == 1 + 2 + 3 + 4);
}

static void a_skip_op_must_not_train(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    hs_hook guard = GUARD(.skip_op = "train");
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_fails(poisoned_run(p, "train", 2), HS_FAILED_PRECONDITION, &p->s->err, "skip_op 'train' advances");
}

static void options_that_are_refused_at_the_opening(void **state)
{
    poisoned *p = *state;
    const struct {
        hs_hook hook;
        hs_code code;
        const char *message;
    } cases[] = {
        {GUARD(.learning_rate = "unknown"), HS_NOT_FOUND, "learning_rate 'unknown' is not a variable"},
        {GUARD(.learning_rate = "global_step"), HS_INVALID_ARGUMENT, "is not a scalar of type float or double"},
        {GUARD(.learning_rate = "passing"), HS_INVALID_ARGUMENT,
         "'passing' is a local variable, which checkpoints do not contain"},
        {GUARD(.skip_op = "unknown"), HS_NOT_FOUND, "'unknown'"},
    };
    hs_graph_add_variable(p->graph, HS_VARIABLE_DEF(.name = "passing", .dtype = HS_DOUBLE, .flags = HS_VARIABLE_LOCAL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(poisoned_open(p, false, &cases[i].hook, 1), cases[i].code, &p->s->err, cases[i].message);
}

static hs_code note_step(void *user, hs_raw_session *session, int64_t step, hs_error *err)
{
    char *steps = user;
    size_t used = strlen(steps);
    (void)session, (void)err;
    snprintf(steps + used, 64 - used, " %lld", (long long)step);
    return HS_OK;
}

/* An evaluation that was due at the bad step is not made at the restored step. */
static void an_evaluation_is_not_made_twice(void **state)
{
    poisoned *p = *state;
    char steps[64] = "";
    hs_hook hooks[] = {GUARD(.skip_op = "draw"), hs_evaluation(.evaluate = note_step, .user = steps, .every_n_steps = 2),
                       poisoned_saver(p, .every_n_steps = 1)};
    p->bad[0] = 4;
    assert_ok(poisoned_open(p, false, hooks, 3), &p->s->err);
    assert_ok(poisoned_run(p, "train", 6), &p->s->err);
    stage_close(p->s);
    assert_string_equal(steps, " 2 4");
}

/* After a rollback, hooks by seconds fire again, but not immediately. */
static void hooks_by_seconds_continue(void **state)
{
    poisoned *p = *state;
    char steps[64] = "";
    const hs_trigger often = HS_EVERY_SECS(10);
    for (size_t round = 0; round < 2; round++) {
        double secs = round ? 10 : 0;
        hs_hook hooks[] = {GUARD(.skip_op = "draw"),
                           hs_evaluation(.evaluate = note_step, .user = steps, .every_n_secs = secs,
                                         .when = round ? (hs_trigger){0} : often),
                           poisoned_saver(p, .every_n_secs = secs, .when = round ? (hs_trigger){0} : often)};
        steps[0] = '\0';
        p->weight = 0;
        p->position = 0;
        p->bad[0] = 4;
        assert_ok(poisoned_open(p, false, hooks, 3), &p->s->err);
        assert_ok(poisoned_run(p, "train", 1), &p->s->err);
        test_env_advance(&p->s->t, 11);
        assert_ok(poisoned_run(p, "train", 2), &p->s->err);
        assert_int_equal(latest_step(p->s->directory), 2);
        assert_ok(poisoned_run(p, "train", 2), &p->s->err);
        assert_int_equal(hs_session_global_step(p->s->session, NULL), 3);
        assert_int_equal(latest_step(p->s->directory), 2);
        test_env_advance(&p->s->t, 11);
        assert_ok(poisoned_run(p, "train", 2), &p->s->err);
        assert_int_equal(latest_step(p->s->directory), 4);
        assert_string_equal(steps, " 2 4");
        stage_close(p->s);
        test_remove_directory(p->s->directory);
        p->s->directory = test_make_directory();
    }
}

static void a_damaged_count_is_refused(void **state)
{
    poisoned *p = *state;
    const int64_t states[][4] = {{INT64_MAX, 0, 0, 0}, {0, INT64_MAX, 0, 0}, {-1, 0, 0, 0}, {0, -1, 0, 0}};
    hs_hook guard = GUARD(.max_rollbacks = HS_NEVER, .skip_op = "draw");
    p->bad[0] = 1;
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        hs_state_reader in = {.at = (const unsigned char *)states[i], .left = sizeof states[i], .version = 1};
        assert_fails(guard.ops->load_state(guard.self, &in, &p->s->err), HS_DATA_LOSS, &p->s->err, "skipped batches");
    }
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    stage_close(p->s);
}

static hs_code train_over_a_bad_batch(test_env *t, void *user)
{
    poisoned p = {.bad = {2}};
    hs_error err = {0};
    (void)user;
    test_tolerate_harmless(t); /* the copy grows instead */
    poisoned_build(&p, &t->env);
    hs_hook hook = GUARD(.skip_op = "draw", .learning_rate = "rate");
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_graph_backend(p.graph), &options, &err);
    for (int i = 0; i < 4 && session && !hs_session_run(session, "train", &err); i++)
        continue;
    hs_session_close(session, &err);
    hs_graph_free(p.graph);
    if (!err.code)
        assert_true(p.weight == 0.5F * (3 + 4));
    return err.code == HS_FAILED_PRECONDITION && strstr(err.message, "no memory") ? HS_RESOURCE_EXHAUSTED : err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(train_over_a_bad_batch, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_poisoned(a_rollback_without_a_checkpoint),
        with_poisoned(the_copy_is_freed_when_there_is_a_checkpoint),
        with_poisoned(a_guard_that_checks_every_third_run_rolls_back_to_the_copy_of_the_first),
        with_poisoned(the_copy_of_a_guard_that_does_not_check_each_run_is_freed_too),
        with_poisoned(a_rollback_to_a_checkpoint),
        with_poisoned(a_save_in_the_background_is_waited_for),
        with_poisoned(each_rollback_to_one_state_skips_more),
        with_poisoned(it_skips_skip_batches),
        with_poisoned(the_learning_rate_shrinks_with_each),
        with_poisoned(without_an_op_the_same_batch_comes_again),
        with_poisoned(the_budget_is_that_of_the_whole_training),
        with_poisoned(there_may_be_no_limit),
        with_poisoned(a_damaged_checkpoint_is_skipped),
        with_poisoned(a_checkpoint_that_the_system_cannot_read_is_not_skipped),
        with_poisoned(it_rolls_back_to_the_restored_checkpoint),
        with_poisoned(more_than_a_gib_is_not_copied_so_that_a_rollback_fails),
        with_poisoned(a_saver_that_the_guard_does_not_know),
        with_poisoned(batches_of_a_queue),
        with_poisoned(the_data_end_while_batches_are_skipped),
        with_poisoned(a_stop_in_the_bad_run),
        with_poisoned(a_skip_op_must_not_train),
        with_poisoned(options_that_are_refused_at_the_opening),
        with_poisoned(an_evaluation_is_not_made_twice),
        with_poisoned(hooks_by_seconds_continue),
        with_poisoned(a_damaged_count_is_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
