/* SPDX-License-Identifier: Apache-2.0 */
/* A stopped and resumed run logs, summarizes and saves at the same steps as an uninterrupted run. */
#include "checkpoint/model.h"
#include "hooks/stage.h"
#include "summary/events.h"

#include "formats/bundle.h"

/* A model that has a loss, which is its step, and a summary of it. */
typedef struct {
    stage *s;
    model m;
    double loss;
    hs_summary *summary;
    hs_string text;
    char saved[256]; /* the steps that were saved */
    int64_t every;   /* in steps. 0: in seconds, which do not pass */
} trainer;

static hs_code step(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    (void)err;
    model_set(&t->m, hs_op_global_step(op, NULL) + 1);
    t->m.step = hs_op_global_step(op, NULL);
    t->loss = (double)hs_op_global_step(op, NULL) + 1;
    return HS_OK;
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    hs_summary_clear(t->summary);
    hs_summary_scalar(t->summary, "loss", t->loss, err);
    t->text = hs_summary_serialized(t->summary);
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &t->text);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code note_save(void *self, hs_raw_session *session, int64_t at, bool *stop, hs_error *err)
{
    trainer *t = self;
    size_t used = strlen(t->saved);
    (void)session, (void)stop, (void)err;
    snprintf(t->saved + used, sizeof t->saved - used, " %lld", (long long)at);
    return HS_OK;
}

static void build(trainer *t)
{
    hs_graph *graph = t->m.graph = hs_graph_new(&t->s->t.env);
    hs_graph_variable(graph, "weights", HS_FLOAT, HS_SHAPE(2, 3), t->m.weights);
    hs_graph_global_step(graph, NULL, &t->m.step);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &t->loss);
    hs_graph_op(graph, .name = "train", .run = step, .user = t, .writes = HS_NAMES("weights", "loss"),
                .advances_step = true);
    hs_graph_op(graph, .name = "summary", .run = summarize, .user = t, .inputs = HS_NAMES("loss"),
                .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
}

/* Trains up to this step in a session in the stage's directory. */
static void train_to(trainer *t, int64_t last)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = note_save);
    const char *directory = t->s->directory;
    int64_t every = t->every;
    double secs = every ? 0 : 60;
    build(t);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = last),
                       hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = every, .every_n_secs = secs),
                       hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_dir = directory,
                                        .every_n_steps = every, .every_n_secs = secs),
                       hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = every, .every_n_secs = secs,
                                           .listeners = HS_LISTENERS({&ops, t})),
                       {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = directory);
    t->m.session = hs_session_open(hs_graph_backend(t->m.graph), &options, &t->m.err);
    while (!hs_session_should_stop(t->m.session))
        assert_ok(hs_session_run(t->m.session, "train", &t->m.err), &t->m.err);
    assert_ok(model_close(&t->m).error.code, &t->m.err);
}

static trainer begin(void **state, int64_t every)
{
    return (trainer){.s = *state, .summary = hs_summary_new(NULL), .every = every};
}

/* The log lines with a loss, without the time. */
static const char *losses_logged(const trainer *t)
{
    static char text[256];
    size_t used = 0;
    double loss;
    for (const char *at = t->s->t.log; (at = strstr(at, ": loss = ")); at++)
        if (sscanf(at, ": loss = %lf", &loss) == 1)
            used += (size_t)snprintf(text + used, sizeof text - used, " %g", loss);
    return text;
}

/* The steps that are summarized. */
static const char *losses_charted(const trainer *t)
{
    static char text[256];
    size_t used = 0;
    double loss;
    for (const char *at = events_text(t->s->directory); (at = strstr(at, " loss=")); at++)
        if (sscanf(at, " loss=%lf", &loss) == 1)
            used += (size_t)snprintf(text + used, sizeof text - used, " %g", loss);
    return text;
}

static void assert_schedule(trainer *t, const char *losses, const char *saved)
{
    assert_string_equal(losses_logged(t), losses);
    assert_string_equal(losses_charted(t), losses);
    assert_string_equal(t->saved, saved);
    hs_summary_free(t->summary);
}

static void a_run_that_is_not_stopped(void **state)
{
    trainer t = begin(state, 4);
    train_to(&t, 15);
    assert_schedule(&t, " 1 5 9 13", " 0 4 8 12 15");
}

static void bh_078s_bh_082s_bh_100s_by_steps_the_schedule_continues(void **state)
{
    trainer t = begin(state, 4);
    train_to(&t, 6);
    train_to(&t, 7);
    train_to(&t, 15);
    assert_schedule(&t, " 1 5 9 13", " 0 4 6 7 8 12 15");
}

/* The time since a hook last acted is not saved. */
static void by_seconds_a_new_interval_starts(void **state)
{
    trainer t = begin(state, 0);
    train_to(&t, 6);
    train_to(&t, 9);
    assert_schedule(&t, " 1 7", " 0 6 9");
}

/* For example, a checkpoint that TensorFlow wrote. */
static void without_saved_state_the_schedule_starts_again(void **state)
{
    trainer t = begin(state, 4);
    hs_error err = {0};
    hs_saver *saver = hs_saver_new(NULL, &err);
    build(&t);
    t.m.session = hs_session_open(hs_graph_backend(t.m.graph), NULL, &err);
    t.m.step = 6;
    assert_ok(hs_saver_save(saver, model_raw(&t.m), test_path(t.s->directory, "model.ckpt"), 6, NULL, &err), &err);
    model_close(&t.m);
    hs_saver_free(saver);
    train_to(&t, 12);
    assert_schedule(&t, " 7 11", " 10 12");
}

/* A checkpoint of step 2 with numbers that no run can have written. */

static void write_checkpoint(trainer *t, const int64_t summary[3], const int64_t logging[3], const int64_t saver[2])
{
    const int64_t step = 2;
    hs__bundle_writer writer;
    const struct {
        const char *name;
        hs_tensor value;
    } tensors[] = {
        {"weights", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), t->m.weights)},
        {"global_step", hs_tensor_of(HS_INT64, HS_SCALAR, &step)},
        {"hooksess/schedule/logging_tensor", hs_tensor_of(HS_UINT8, HS_SHAPE(24), logging)},
        {"hooksess/schedule/summary_saver", hs_tensor_of(HS_UINT8, HS_SHAPE(24), summary)},
        {"hooksess/hook/checkpoint_saver", hs_tensor_of(HS_UINT8, HS_SHAPE(16), saver)},
    };
    assert_int_equal(
        hs__bundle_writer_open(&writer, hs_env_default(), test_path(t->s->directory, "model.ckpt-2." DATA), 0, 1, NULL),
        HS_OK);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        assert_int_equal(hs__bundle_writer_add(&writer, tensors[i].name, &tensors[i].value, NULL), HS_OK);
    assert_int_equal(hs__bundle_writer_finish(&writer, test_path(t->s->directory, "model.ckpt-2.index"), NULL), HS_OK);
    hs__bundle_writer_close(&writer);
}

static void impossible_saved_numbers_are_refused(void **state)
{
    static const int64_t wrong[] = {-1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        trainer t = begin(state, 4);
        const hs_hook hooks[] = {hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 4), {.ops = NULL}};
        write_checkpoint(&t, (int64_t[]){1, -1, 0}, (int64_t[]){1, -1, wrong[i]}, (int64_t[]){0, -1});
        build(&t);
        assert_null(hs_session_open(hs_graph_backend(t.m.graph),
                                    HS_SESSION_OPTIONS(.hooks = hooks, .checkpoint_dir = t.s->directory), &t.m.err));
        assert_says(&t.m.err, HS_DATA_LOSS, "invalid count");
        hs_graph_free(t.m.graph);
        hs_summary_free(t.summary);
    }
}

/* With a mark beyond the step, the hook would not act until the run reached it. */
static void a_mark_beyond_the_step_is_ignored(void **state)
{
    trainer t = begin(state, 4);
    write_checkpoint(&t, (int64_t[]){INT64_MAX, -1, 0}, (int64_t[]){INT64_MAX, -1, 2}, (int64_t[]){INT64_MAX, -1});
    train_to(&t, 8);
    assert_schedule(&t, " 3 7", " 6 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_run_that_is_not_stopped),
        with_stage(bh_078s_bh_082s_bh_100s_by_steps_the_schedule_continues),
        with_stage(by_seconds_a_new_interval_starts),
        with_stage(without_saved_state_the_schedule_starts_again),
        with_stage(impossible_saved_numbers_are_refused),
        with_stage(a_mark_beyond_the_step_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
