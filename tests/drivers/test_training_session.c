/* SPDX-License-Identifier: Apache-2.0 */
/* A session with the usual hooks. */
#include "checkpoint/model.h"
#include "hooks/stage.h"
#include "summary/events.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* The stage, and a model on it. */
typedef struct {
    stage *s;
    model m;
} training;

static void begin_training(training *t, stage *s, hs_training_options options)
{
    *t = (training){.s = s};
    model_set(&t->m, 0);
    model_build(&t->m, &s->t.env);
    t->m.session = s->session = hs_training_session_open(hs_graph_backend(t->m.graph), &options, &s->err);
    if (!s->session)
        fail_msg("%s", s->err.message);
}

static void end_training(training *t)
{
    t->s->session = NULL;
    t->s->outcome = model_close(&t->m);
    assert_ok(t->s->outcome.error.code, &t->s->outcome.error);
}

/* The global step, as a run gives it. */
static int64_t fetch_step(stage *s)
{
    const hs_run_values *values;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("global_step"));
    assert_ok(hs_session_run_args(s->session, &args, &values, &s->err), &s->err);
    return (int64_t)hs_run_values_number(values, 0);
}

/* The global step of a second session on the directory, with default settings. */
static int64_t step_of_second_session(stage *s)
{
    training t;
    begin_training(&t, s, (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory));
    int64_t step = fetch_step(s);
    end_training(&t);
    return step;
}

static void ms_010_saved_at_the_end_and_restored(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory));
    for (int64_t step = 0; step < 2; step++) {
        assert_int_equal(fetch_step(s), step);
        stage_run(s, "train", 1, 0);
    }
    assert_int_equal(fetch_step(s), 2);
    end_training(&t);
    assert_int_equal(step_of_second_session(s), 2);
}

static void ms_011_every_hundred_steps(void **state)
{
    stage *s = *state;
    training t;
    begin_training(
        &t, s,
        (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = 100));
    stage_run(s, "train", 99, 0);
    assert_int_equal(latest_step(s->directory), 0);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 100);
    end_training(&t);
    assert_int_equal(step_of_second_session(s), 100);
}

static void ms_012_every_tenth_of_a_second(void **state)
{
    stage *s = *state;
    training t;
    begin_training(
        &t, s,
        (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_secs = 0.1));
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 0);
    test_env_advance(&s->t, 0.2);
    stage_run(s, "train", 10, 0);
    assert_int_equal(latest_step(s->directory), 2);
    end_training(&t);
    assert_int_equal(step_of_second_session(s), 11);
}

/* TensorFlow's 0 turns saving off. Here it is the default, and HS_NEVER is off. */
static int64_t step_after_saving_every(stage *s, double secs)
{
    training t;
    hs_hook hook = hs_script_watch(s->script, "mine", hs_stop_at_step(.last_step = 100));
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_secs = secs, .chief_only_hooks = HS_HOOKS(hook)));
    assert_int_equal(fetch_step(s), 0);
    stage_run(s, "train", 2, 0);
    assert_int_equal(fetch_step(s), 2);
    end_training(&t);
    assert_int_equal(count_of(hs_script_calls(s->script), "mine.begin"), 1);
    return step_of_second_session(s);
}

static void ms_015_never_is_off(void **state)
{
    assert_int_equal(step_after_saving_every(*state, HS_NEVER), 0);
}

static void ms_015_zero_is_the_default(void **state)
{
    assert_int_equal(step_after_saving_every(*state, 0), 2);
}

static void ms_015_either_of_a_pair_may_be_never(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_steps = HS_NEVER, .save_summaries_secs = HS_NEVER,
                                                .log_step_count_steps = HS_NEVER, .no_run_status = true));
    stage_run(s, "train", 1, 0);
    end_training(&t);
    assert_int_equal(test_count_files(s->directory, ""), 2);
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_secs = HS_NEVER, .save_checkpoint_steps = 1,
                                                .save_summaries_steps = HS_NEVER, .log_step_count_steps = HS_NEVER));
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 1);
    end_training(&t);
    assert_lacks(events_text(s->directory), "start");
}

static void ms_017_no_graph_files(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_steps = 1, .no_graph_def = true));
    for (int i = 0; i < 2; i++) {
        assert_false(test_exists(s->directory, "graph.pbtxt"));
        assert_int_equal(test_count_files(s->directory, ".meta"), 0);
        stage_run(s, "train", 1, 0);
    }
    end_training(&t);
}

/* Options. */

static void refuses(stage *s, hs_training_options options, hs_code code, const char *message)
{
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    assert_null(s->session);
    assert_says(&s->err, code, message);
    assert_int_equal(test_count_files(s->directory, "") - test_count_files(s->directory, "outcome.json"), 2);
}

static void ms_127s_both_secs_and_steps(void **state)
{
    stage *s = *state;
    refuses(s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_secs = 10,
                                         .save_checkpoint_steps = 10),
            HS_INVALID_ARGUMENT, "each of save_checkpoint_secs and save_checkpoint_steps is given");
    refuses(s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_summaries_secs = 10,
                                         .save_summaries_steps = 10),
            HS_INVALID_ARGUMENT, "each of save_summaries_secs and save_summaries_steps is given");
}

static void a_pair_and_a_trigger(void **state)
{
    stage *s = *state;
    const hs_trigger *trigger = HS_TRIGGER(.every_n_steps = 5);
    refuses(s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_secs = 10,
                                         .save_checkpoint_trigger = trigger),
            HS_INVALID_ARGUMENT, "each of save_checkpoint_secs and save_checkpoint_trigger");
    refuses(s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_summaries_steps = 1,
                                         .save_summaries_trigger = trigger),
            HS_INVALID_ARGUMENT, "each of save_summaries_steps and save_summaries_trigger");
}

/* HS_NEVER says nothing more. */
static void triggers_instead_of_the_pairs(void **state)
{
    for (int never = 0; never < 2; never++) {
        stage *s = *state;
        training t;
        const hs_training_options options =
            HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .restore = HS_RESTORE_NEVER,
                    .save_checkpoint_steps = never ? HS_NEVER : 0,
                    .save_checkpoint_trigger = HS_TRIGGER(.at_steps = HS_AT_STEPS(2)),
                    .save_summaries_secs = never ? HS_NEVER : 0, .save_summaries_trigger = HS_TRIGGER(.every_n_steps = 1));
        begin_training(&t, s, options);
        stage_run(s, "train", 3, 0);
        end_training(&t);
        assert_true(test_exists(s->directory, "model.ckpt-2.index") && test_exists(s->directory, "model.ckpt-3.index"));
        assert_false(test_exists(s->directory, "model.ckpt-0.index") || test_exists(s->directory, "model.ckpt-1.index"));
    }
}

static void options_that_make_no_sense(void **state)
{
    stage *s = *state;
    refuses(s, (hs_training_options){.checkpoint_dir = s->directory}, HS_INVALID_ARGUMENT, "HS_INIT(hs_training_options");
    refuses(s, (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_summaries_secs = -2),
            HS_INVALID_ARGUMENT, "HS_NEVER for never");
    refuses(s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = -5),
            HS_INVALID_ARGUMENT, "save_checkpoint_steps is -5");
}

/* In the error, or in the log; whether the driver refuses it, or the session within. */
static void what_keeps_it_from_opening_is_reported_once(void **state)
{
    stage *s = *state;
    const hs_training_options refused[] = {
        {.checkpoint_dir = "without a size"},
        HS_INIT(hs_training_options, .save_summaries_secs = -2),
        HS_INIT(hs_training_options, .stop_grace_secs = -2),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char line[HS_MESSAGE_SIZE + 64];
        test_env_clear_log(&s->t);
        assert_null(hs_training_session_open(hs_script_backend(s->script), &refused[i], &s->err));
        hs_session_close(NULL, &s->err);
        assert_string_equal(s->t.log, "");
        snprintf(line, sizeof line, "ERROR: session not opened: %s\n", s->err.message);
        assert_null(hs_training_session_open(hs_script_backend(s->script), &refused[i], NULL));
        assert_string_equal(s->t.log, line);
    }
}

static hs_code fail_wordlessly(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)self, (void)target, (void)config, (void)session, (void)err;
    return HS_UNAVAILABLE;
}

static void without_a_backend_there_is_no_training(void **state)
{
    stage *s = *state;
    hs_backend_ops ops = *hs_script_backend(s->script).ops;
    assert_null(hs_training_session_open((hs_backend){NULL, NULL}, NULL, NULL));
    assert_null(hs_training_session_open((hs_backend){NULL, NULL}, NULL, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, "hs_backend.ops is NULL");
    ops.open = fail_wordlessly;
    assert_null(hs_training_session_open((hs_backend){&ops, s->script}, NULL, &s->err));
    assert_says(&s->err, HS_UNAVAILABLE, "failed with UNAVAILABLE");
}

/* Its own list, which is empty then, is nobody's mistake. */
static void no_hooks_are_no_reason_for_a_warning(void **state)
{
    stage *s = *state;
    const hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_secs = HS_NEVER, .save_summaries_steps = HS_NEVER);
    s->session = hs_training_session_open(hs_script_backend(s->script), NULL, &s->err);
    stage_close(s);
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    stage_close(s);
    assert_string_equal(s->t.log, "");
}

static void without_options_it_is_a_plain_session(void **state)
{
    stage *s = *state;
    s->session = hs_training_session_open(hs_script_backend(s->script), NULL, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_int_equal(s->outcome.step, 2);
    assert_int_equal(s->outcome.last_saved_step, -1);
}

static void the_target_is_passed_on(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_training_options options = HS_INIT(hs_training_options, .target = "grpc://elsewhere:2222");
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, "grpc://elsewhere:2222");
    hs_graph_free(graph);
}

static void the_scaffold_is_the_callers(void **state)
{
    stage *s = *state;
    training t;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1), NULL);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_steps = 1, .scaffold = scaffold));
    assert_ptr_equal(hs_session_scaffold(s->session), scaffold);
    stage_run(s, "train", 3, 0);
    end_training(&t);
    assert_int_equal(test_count_files(s->directory, ".index"), 1);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

/* The session restores with the scaffold's; the hook's own learns what is there. */
static void a_saver_of_the_hooks_own_goes_on_deleting(void **state)
{
    stage *s = *state;
    for (int i = 0; i < 2; i++) {
        training t;
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 2), NULL);
        hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .saver = saver, .every_n_steps = 1);
        begin_training(&t, s,
                       (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                    .hooks = HS_HOOKS(hook), .save_checkpoint_secs = HS_NEVER));
        stage_run(s, "train", 3, 0);
        end_training(&t);
        hs_saver_free(saver);
        assert_int_equal(test_count_files(s->directory, ".index"), 2);
    }
    assert_int_equal(latest_step(s->directory), 6);
}

static void there_must_be_something_to_take_over(void **state)
{
    stage *s = *state;
    hs_saver *saver = hs_saver_new(NULL, NULL);
    assert_fails(hs_saver_take_over(NULL, "x", &s->err), HS_INVALID_ARGUMENT, &s->err, "saver is NULL");
    assert_fails(hs_saver_take_over(saver, "", &s->err), HS_INVALID_ARGUMENT, &s->err, "is missing");
    assert_fails(hs_saver_take_over(saver, test_path(s->directory, "nothing-1"), &s->err), HS_NOT_FOUND, &s->err,
                 "nothing-1'");
    assert_null(hs_saver_checkpoint(saver, 0));
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1));
    stage_close(s);
    assert_ok(hs_saver_take_over(saver, test_path(s->directory, "model.ckpt-0"), &s->err), &s->err);
    assert_non_null(hs_saver_checkpoint(saver, 0));
    hs_saver_free(saver);
}

/* How checkpoints are saved. */

/* The number of checkpoints that five steps leave, each of which is saved. */
static int64_t kept(stage *s, hs_scaffold *scaffold, int64_t max_to_keep)
{
    training t;
    test_empty_directory(s->directory);
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .scaffold = scaffold,
                                                .save_checkpoint_steps = 1, .max_to_keep = max_to_keep));
    stage_run(s, "train", 6, 0);
    end_training(&t);
    return (int64_t)test_count_files(s->directory, ".index");
}

static void max_to_keep_is_how_many_checkpoints_are_kept(void **state)
{
    stage *s = *state;
    assert_int_equal(kept(s, NULL, 0), 5);
    assert_int_equal(kept(s, NULL, 2), 2);
    assert_int_equal(kept(s, NULL, HS_NEVER), 7);
}

static void it_holds_for_a_saver_of_the_scaffold(void **state)
{
    stage *s = *state;
    for (int64_t given = 0; given < 4; given += 3) {
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1), NULL);
        hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
        assert_int_equal(kept(s, scaffold, given), given ? given : 1);
        hs_scaffold_free(scaffold);
        hs_saver_free(saver);
    }
}

static void step_0_is_not_saved_on_demand(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s,
                   (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_steps = 2, .no_initial_checkpoint = true));
    assert_int_equal(latest_step(s->directory), -1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), -1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 2);
    end_training(&t);
}

static hs_code note_saved(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    (void)session, (void)request_stop, (void)err;
    *(int64_t *)self = step;
    return HS_OK;
}

/* A save in the background is reported in a later step. */
static void saves_are_made_in_the_background_on_demand(void **state)
{
    stage *s = *state;
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = note_saved);
    for (int background = 0; background < 2; background++) {
        training t;
        int64_t saved = -1;
        test_empty_directory(s->directory);
        begin_training(&t, s,
                       (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                    .save_checkpoint_steps = 2, .background = background,
                                                    .listeners = HS_LISTENERS({&ops, &saved})));
        stage_run(s, "train", 2, 0);
        assert_int_equal(saved, background ? 0 : 2);
        end_training(&t);
        assert_int_equal(saved, 2);
    }
}

static const hs_backend_ops *graph_ops;
static hs_backend_ops guarded;
static int guards;

static void note_guard(void *session, hs_write_guard guard)
{
    guards += guard.before_write != NULL;
    graph_ops->guard(session, guard);
}

static hs_code train_nothing(void *user, hs_op *op, hs_error *err)
{
    (void)user, (void)op, (void)err;
    return HS_OK;
}

/* A copy that is made during the runs that follow guards the variables. */
static void copies_overlap_the_next_runs_on_demand(void **state)
{
    stage *s = *state;
    static float large[1 << 15];
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_variable(graph, "large", HS_FLOAT, HS_SHAPE(1 << 15), large);
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "train", .run = train_nothing, .writes = HS_NAMES("large"), .advances_step = true);
    graph_ops = hs_graph_backend(graph).ops;
    guarded = *graph_ops;
    guarded.guard = note_guard;
    for (int overlap = 0; overlap < 2; overlap++) {
        const hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                    .save_checkpoint_steps = 1, .background = true, .overlap = overlap);
        guards = 0;
        s->session = hs_training_session_open((hs_backend){&guarded, hs_graph_backend(graph).self}, &options, &s->err);
        stage_run(s, "train", 2, 0);
        stage_close(s);
        assert_int_equal(guards > 0, overlap);
    }
    hs_graph_free(graph);
}

static void what_saves_needs_somewhere_to_save(void **state)
{
    stage *s = *state;
    const struct {
        hs_training_options options;
        const char *name;
    } rows[] = {
        {HS_INIT(hs_training_options, .max_to_keep = 3), "max_to_keep"},
        {HS_INIT(hs_training_options, .no_initial_checkpoint = true), "no_initial_checkpoint"},
        {HS_INIT(hs_training_options, .background = true), "background"},
        {HS_INIT(hs_training_options, .overlap = true), "overlap"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char says[120];
        hs_training_options options = rows[i].options;
        snprintf(says, sizeof says, "hs_training_options.%s is set, but no checkpoints are saved", rows[i].name);
        refuses(s, options, HS_INVALID_ARGUMENT, says);
        options.checkpoint_dir = s->directory;
        options.save_checkpoint_secs = HS_NEVER;
        refuses(s, options, HS_INVALID_ARGUMENT, says);
    }
    refuses(s, (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .max_to_keep = -2),
            HS_INVALID_ARGUMENT, "hs_training_options.max_to_keep is -2");
    refuses(s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .no_initial_checkpoint = true,
                                         .save_checkpoint_trigger = HS_TRIGGER(.every_n_steps = 1)),
            HS_INVALID_ARGUMENT, "each of no_initial_checkpoint and save_checkpoint_trigger");
}

/* So that all processes of a cluster can have the same options. */
static void a_worker_may_have_the_chiefs_options(void **state)
{
    stage *s = *state;
    const hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .max_to_keep = 3,
                                                .background = true, .is_worker = true);
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_int_equal(latest_step(s->directory), -1);
}

/* Rhythms by default. */

static void checkpoints_are_saved_every_ten_minutes_by_default(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory));
    test_env_advance(&s->t, 599);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 0);
    test_env_advance(&s->t, 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 2);
    end_training(&t);
}

/* A script with a summary op that gives a Summary, in a scaffold. */
static hs_scaffold *with_summary(stage *s, hs_summary *summary, hs_string *bytes, hs_tensor *value)
{
    hs_summary_scalar(summary, "loss", 0.5, NULL);
    *bytes = hs_summary_serialized(summary);
    *value = hs_tensor_of(HS_STRING, HS_SCALAR, bytes);
    hs_script_constant(s->script, "merged", value);
    return hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.summary_op = "merged"), NULL);
}

static void summaries_are_saved_every_hundred_steps_by_default(void **state)
{
    stage *s = *state;
    hs_string bytes;
    hs_tensor value;
    hs_summary *summary = hs_summary_new(NULL);
    hs_scaffold *scaffold = with_summary(s, summary, &bytes, &value);
    hs_training_options options = HS_INIT(hs_training_options, .summary_dir = s->directory, .scaffold = scaffold);
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", 201, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@1 loss=0.5@101 loss=0.5@201");
    hs_scaffold_free(scaffold);
    hs_summary_free(summary);
}

/* Scalars. */

static void scalars_are_written_when_summaries_are(void **state)
{
    stage *s = *state;
    static const double half = 0.5;
    const hs_tensor loss = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &half);
    const hs_training_options options[] = {
        HS_INIT(hs_training_options, .summary_dir = s->directory, .scalars = HS_NAMES("loss")),
        HS_INIT(hs_training_options, .summary_dir = s->directory, .save_summaries_steps = 3, .scalars = HS_NAMES("loss")),
        HS_INIT(hs_training_options, .summary_dir = s->directory, .save_summaries_trigger = HS_TRIGGER(.every_n_steps = 50),
                .scalars = HS_NAMES("loss")),
    };
    static const char *const written[] = {"version start@1 loss=0.5@1", "version start@1 loss=0.5@1 loss=0.5@4",
                                          "version start@1 loss=0.5@50"};
    static const int runs[] = {5, 5, 60};
    assert_ok(hs_script_constant(s->script, "loss", &loss), &s->err);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        s->session = hs_training_session_open(hs_script_backend(s->script), &options[i], &s->err);
        assert_non_null(s->session);
        stage_run(s, "train", runs[i], 0);
        stage_close(s);
        assert_string_equal(events_text(s->directory), written[i]);
        events_remove(s->directory);
        hs_script_set_step(s->script, 0);
    }
}

static void scalars_need_a_directory_and_an_interval(void **state)
{
    stage *s = *state;
    const hs_training_options nowhere = HS_INIT(hs_training_options, .scalars = HS_NAMES("loss"));
    const hs_training_options never = HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                              .save_summaries_steps = HS_NEVER, .scalars = HS_NAMES("loss"));
    assert_null(hs_training_session_open(hs_script_backend(s->script), &nowhere, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, "scalars are named, but no directory for them is given");
    assert_null(hs_training_session_open(hs_script_backend(s->script), &never, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, "hs_training_options: scalars are named, but save_summaries_* is HS_NEVER");
}

/* A loop that computes its steps itself, in a graph that has summaries, but no ops of the program's own. */
static void summaries_are_no_ops_of_the_program(void **state)
{
    stage *s = *state;
    double loss = 0;
    hs_graph *g = hs_graph_new(&s->t.env);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_summary_scalar(g, "loss", "loss");
    hs_graph_merge_all_summaries(g, NULL);
    s->session = hs_training_session_open(hs_graph_backend(g),
                                          HS_TRAINING_OPTIONS(.summary_dir = s->directory, .save_summaries_steps = 2,
                                                              .log_step_count_steps = HS_NEVER,
                                                              .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 4))),
                                          &s->err);
    if (!s->session)
        fail_msg("%s", s->err.message);
    while (hs_step_begin(s->session)) {
        loss += 0.5;
        hs_step_end(s->session);
    }
    stage_close(s);
    assert_int_equal(s->outcome.step, 4);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@1 loss=1.5@3");
    hs_graph_free(g);
}

static hs_code do_nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static void with_an_op_of_the_program_there_is_no_global_step(void **state)
{
    stage *s = *state;
    double loss = 0;
    hs_graph *g = hs_graph_new(&s->t.env);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_summary_scalar(g, "loss", "loss");
    hs_graph_op(g, .name = "evaluate", .run = do_nothing);
    assert_null(hs_training_session_open(hs_graph_backend(g), HS_TRAINING_OPTIONS(.summary_dir = s->directory), &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "global step");
    hs_graph_free(g);
}

static void summaries_have_a_directory_of_their_own(void **state)
{
    stage *s = *state;
    training t;
    char *summaries = strdup(test_path(s->directory, "summaries"));
    char *checkpoints = strdup(test_path(s->directory, "checkpoints"));
    begin_training(
        &t, s, (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = checkpoints, .summary_dir = summaries));
    stage_run(s, "train", 1, 0);
    end_training(&t);
    assert_string_equal(events_text(summaries), "version start@1");
    assert_string_equal(events_text(checkpoints), "version graph meta checkpoint@0 checkpoint@1");
    assert_int_equal(test_count_files(summaries, "ckpt"), 0);
    free(summaries);
    free(checkpoints);
}

/* The hooks' order. */

static void the_programs_hooks_come_first_the_chiefs_before_the_others(void **state)
{
    stage *s = *state;
    hs_hook chief =
        hs_script_watch(s->script, "chief", hs_logging_tensor(.tensors = HS_NAMES("global_step"), .at_end = true));
    hs_hook other =
        hs_script_watch(s->script, "other", hs_logging_tensor(.tensors = HS_NAMES("global_step"), .at_end = true));
    hs_training_options options = HS_INIT(hs_training_options, .hooks = HS_HOOKS(other),
                                          .chief_only_hooks = HS_HOOKS(chief), .checkpoint_dir = s->directory);
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    assert_non_null(s->session);
    assert_contains(hs_script_calls(s->script), "chief.begin other.begin chief.create other.create");
    stage_run(s, "train", 1, 0);
    assert_contains(hs_script_calls(s->script), "chief.before other.before run chief.after other.after");
}

/* All need a global step; the first one says so. */
static void the_step_counter_comes_first_and_the_checkpoint_saver_last(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_op(graph, .name = "train"); /* and nobody advances it */
    hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory);
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "hook 'step_counter', begin");
    options.log_step_count_steps = HS_NEVER;
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "hook 'summary_saver', begin");
    options.save_summaries_steps = HS_NEVER;
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "hook 'checkpoint_saver', begin");
    hs_graph_free(graph);
}

static void count_destroy(void *self)
{
    ++*(int *)self;
}

static void hooks_are_destroyed_once_also_when_opening_fails(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "counted", .destroy = count_destroy);
    stage *s = *state;
    int destroyed[3] = {0};
    hs_hook hooks[] = {{.ops = &ops, .self = &destroyed[0]}, {.ops = &ops, .self = &destroyed[1]}, {.ops = NULL}};
    hs_hook chief[] = {{.ops = &ops, .self = &destroyed[1]}, {.ops = &ops, .self = &destroyed[2]}, {.ops = NULL}};
    hs_training_options options = HS_INIT(hs_training_options, .hooks = hooks, .chief_only_hooks = chief);
    hs_session_close(hs_training_session_open(hs_script_backend(s->script), &options, NULL), NULL);
    assert_true(destroyed[0] == 1 && destroyed[1] == 1 && destroyed[2] == 1);
    options.stop_grace_secs = -2; /* refused by the session */
    assert_null(hs_training_session_open(hs_script_backend(s->script), &options, NULL));
    assert_true(destroyed[0] == 2 && destroyed[1] == 2 && destroyed[2] == 2);
    options.hooks = NULL; /* refused before: those of the list that is there */
    assert_null(hs_training_session_open(hs_script_backend(s->script), &options, NULL));
    assert_true(destroyed[0] == 2 && destroyed[1] == 3 && destroyed[2] == 3);
}

/* From run to run. */

static void a_run_that_crashed_goes_on_from_its_last_checkpoint(void **state)
{
    stage *s = *state;
    training t;
    hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = 5);
    begin_training(&t, s, options);
    stage_run(s, "train", 7, 0);
    hs_session_fail(s->session, test_error(HS_ABORTED, "as if killed"));
    s->session = NULL;
    model_close(&t.m);
    begin_training(&t, s, options);
    assert_true(model_is(&t.m, 5));
    stage_run(s, "train", 2, 0);
    assert_true(model_is(&t.m, 7));
    end_training(&t);
    assert_contains(events_text(s->directory), " start@6 "); /* what TensorBoard has of steps 6 and 7 goes */
}

/* "DIR" and "DIR//" are one place: what was just restored from it is not saved over itself. */
/* Its model is as it was: nothing has been restored into it. */
static void a_second_process_is_refused_before_it_restores(void **state)
{
    stage *s = *state;
    training t;
    int status;
    const hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = 1);
    begin_training(&t, s, options);
    stage_run(s, "train", 4, 0);
    pid_t child = fork();
    if (!child) {
        static model second;
        hs_error err = {0};
        model_set(&second, 9);
        model_build(&second, hs_env_default());
        hs_session *session = hs_training_session_open(hs_graph_backend(second.graph), &options, &err);
        bool refused = !session && strstr(err.message, "another process saves there");
        _exit(refused && model_is(&second, 9) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end_training(&t);
    assert_int_equal(step_of_second_session(s), 4);
}

static void a_directory_may_end_with_slashes(void **state)
{
    stage *s = *state;
    char slashes[1024];
    snprintf(slashes, sizeof slashes, "%s//", s->directory);
    for (int i = 0; i < 2; i++) {
        training t;
        begin_training(&t, s,
                       (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = i ? slashes : s->directory));
        if (i == 0)
            stage_run(s, "train", 2, 0);
        end_training(&t);
    }
    assert_int_equal(s->outcome.last_saved_step, 2);
    assert_int_equal(count_of(events_text(s->directory), "checkpoint@2"), 1);
}

static void what_is_done_is_done(void **state)
{
    stage *s = *state;
    training t;
    for (int i = 0; i < 2; i++) {
        hs_hook hook = hs_stop_at_step(.last_step = 3);
        begin_training(
            &t, s,
            (hs_training_options)HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .hooks = HS_HOOKS(hook)));
        while (!hs_session_should_stop(s->session))
            stage_run(s, "train", 1, 0);
        end_training(&t);
        assert_int_equal(s->outcome.reason, i ? HS_REASON_ALREADY_DONE : HS_REASON_STOPPED);
        assert_int_equal(s->outcome.step, 3);
        assert_int_equal(s->outcome.last_saved_step, 3);
    }
    assert_int_equal(count_of(events_text(s->directory), "checkpoint@3"), 1);
    assert_int_equal(count_of(events_text(s->directory), "start@"), 1);
}

/* Failures. */

static hs_code train_three_steps(test_env *t, void *user)
{
    model m = {.step = 0};
    hs_error err = {0};
    test_tolerate(t, ": not saved, training continues: ");
    test_tolerate(t, "cannot write status.json: ");
    test_tolerate(t, "cannot write outcome.json: ");
    test_tolerate(t, "event file in "); /* it is tried again */
    test_tolerate(t, "'summary writer' failed ");
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_tolerate(t, "; a power failure may lose '");
    test_tolerate_harmless(t); /* looking for leftovers, and for a checkpoint to recover from */
    test_remove_directory(strdup(user));
    model_set(&m, 0);
    model_build(&m, &t->env);
    hs_hook hook = hs_stop_at_step(.last_step = 3, .env = &t->env);
    hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = user, .save_checkpoint_steps = 2, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_training_session_open(hs_graph_backend(m.graph), &options, &err);
    while (!hs_session_should_stop(session) && !hs_session_run(session, "train", &err))
        continue;
    hs_session_close(session, &err);
    hs_graph_free(m.graph);
    return err.code;
}

/* Started again without failures, it ends where it should. */
static void it_can_be_finished(void *user)
{
    static test_env t; /* takes the log */
    model m = {.step = 0};
    test_env_init(&t);
    model_set(&m, 0);
    assert_ok(model_open(&m, &t.env, user), &m.err);
    assert_true(model_is(&m, m.step));
    assert_ok(model_train(&m, 3 - (int)m.step), &m.err);
    assert_true(model_is(&m, 3));
    model_close(&m);
}

static void each_allocation_and_each_file_call(void **state)
{
    const stage *s = *state;
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/run", s->directory);
    test_each_allocation(train_three_steps, directory);
    test_each_file_call(train_three_steps, it_can_be_finished, ENOSPC, false, directory);
    test_each_file_call(train_three_steps, it_can_be_finished, EIO, true, directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(ms_010_saved_at_the_end_and_restored),
        with_stage(ms_011_every_hundred_steps),
        with_stage(ms_012_every_tenth_of_a_second),
        with_stage(ms_015_never_is_off),
        with_stage(ms_015_zero_is_the_default),
        with_stage(ms_015_either_of_a_pair_may_be_never),
        with_stage(ms_017_no_graph_files),
        with_stage(ms_127s_both_secs_and_steps),
        with_stage(a_pair_and_a_trigger),
        with_stage(triggers_instead_of_the_pairs),
        with_stage(options_that_make_no_sense),
        with_stage(what_keeps_it_from_opening_is_reported_once),
        with_stage(without_a_backend_there_is_no_training),
        with_stage(no_hooks_are_no_reason_for_a_warning),
        with_stage(without_options_it_is_a_plain_session),
        with_stage(the_target_is_passed_on),
        with_stage(the_scaffold_is_the_callers),
        with_stage(a_saver_of_the_hooks_own_goes_on_deleting),
        with_stage(there_must_be_something_to_take_over),
        with_stage(max_to_keep_is_how_many_checkpoints_are_kept),
        with_stage(it_holds_for_a_saver_of_the_scaffold),
        with_stage(step_0_is_not_saved_on_demand),
        with_stage(saves_are_made_in_the_background_on_demand),
        with_stage(copies_overlap_the_next_runs_on_demand),
        with_stage(what_saves_needs_somewhere_to_save),
        with_stage(a_worker_may_have_the_chiefs_options),
        with_stage(checkpoints_are_saved_every_ten_minutes_by_default),
        with_stage(summaries_are_saved_every_hundred_steps_by_default),
        with_stage(scalars_are_written_when_summaries_are),
        with_stage(scalars_need_a_directory_and_an_interval),
        with_stage(summaries_are_no_ops_of_the_program),
        with_stage(with_an_op_of_the_program_there_is_no_global_step),
        with_stage(summaries_have_a_directory_of_their_own),
        with_stage(the_programs_hooks_come_first_the_chiefs_before_the_others),
        with_stage(the_step_counter_comes_first_and_the_checkpoint_saver_last),
        with_stage(hooks_are_destroyed_once_also_when_opening_fails),
        with_stage(a_run_that_crashed_goes_on_from_its_last_checkpoint),
        with_stage(a_second_process_is_refused_before_it_restores),
        with_stage(a_directory_may_end_with_slashes),
        with_stage(what_is_done_is_done),
        with_stage(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
