/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, summaries and scalars of a training session: options and defaults. */
#include "drivers/trained.h"

#include "summary/events.h"

/* When checkpoints are saved. */

static void ms_011_every_hundred_steps(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, SAVING(.save_checkpoint_steps = 100));
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
    begin_training(&t, s, SAVING(.save_checkpoint_secs = 0.1));
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
    begin_training(&t, s, SAVING(.save_checkpoint_secs = secs, .chief_only_hooks = HS_HOOKS(hook)));
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
                   SAVING(.save_checkpoint_steps = HS_NEVER, .save_summaries_secs = HS_NEVER,
                          .log_step_count_steps = HS_NEVER, .no_run_status = true));
    stage_run(s, "train", 1, 0);
    end_training(&t);
    assert_int_equal(test_count_files(s->directory, ""), 2);
    begin_training(&t, s,
                   SAVING(.save_checkpoint_secs = HS_NEVER, .save_checkpoint_steps = 1, .save_summaries_steps = HS_NEVER,
                          .log_step_count_steps = HS_NEVER));
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 1);
    end_training(&t);
    assert_lacks(events_text(s->directory), "start");
}

static void ms_017_no_graph_files(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, SAVING(.save_checkpoint_steps = 1, .no_graph_def = true));
    for (int i = 0; i < 2; i++) {
        assert_false(test_exists(s->directory, "graph.pbtxt"));
        assert_int_equal(test_count_files(s->directory, ".meta"), 0);
        stage_run(s, "train", 1, 0);
    }
    end_training(&t);
}

/* Options of saves. */

/* Saves step 0 and six more. Returns the number of checkpoints that remain. */
static int64_t kept(stage *s, hs_scaffold *scaffold, int64_t max_to_keep)
{
    training t;
    test_empty_directory(s->directory);
    begin_training(&t, s, SAVING(.scaffold = scaffold, .save_checkpoint_steps = 1, .max_to_keep = max_to_keep));
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

static void max_to_keep_also_limits_the_scaffolds_saver(void **state)
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

static void step_0_is_not_saved_with_no_initial_checkpoint(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, SAVING(.save_checkpoint_steps = 2, .no_initial_checkpoint = true));
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

/* A background save is reported in a later step. */
static void saves_may_be_made_in_the_background(void **state)
{
    stage *s = *state;
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = note_saved);
    for (int background = 0; background < 2; background++) {
        training t;
        int64_t saved = -1;
        test_empty_directory(s->directory);
        begin_training(
            &t, s, SAVING(.save_checkpoint_steps = 2, .background = background, .listeners = HS_LISTENERS({&ops, &saved})));
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

/* A copy that overlaps later runs guards the variables. */
static void copies_may_overlap_the_next_runs(void **state)
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

static void options_for_saving_need_a_directory(void **state)
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
        refuses(s, options, says);
        options.checkpoint_dir = s->directory;
        options.save_checkpoint_secs = HS_NEVER;
        refuses(s, options, says);
    }
    refuses(s, SAVING(.max_to_keep = -2), "hs_training_options.max_to_keep is -2");
    refuses(s, SAVING(.no_initial_checkpoint = true, .save_checkpoint_when = HS_EVERY_STEPS(1)),
            "each of no_initial_checkpoint and save_checkpoint_when");
}

/* All processes of a cluster can have the same options. */
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

/* Default schedules. */

static void checkpoints_are_saved_every_ten_minutes_by_default(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, SAVING());
    test_env_advance(&s->t, 599);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 0);
    test_env_advance(&s->t, 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 2);
    end_training(&t);
}

/* Adds a summary op that returns a Summary to the script, and returns a scaffold with it. */
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
        HS_INIT(hs_training_options, .summary_dir = s->directory, .save_summaries_when = HS_EVERY_STEPS(50),
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

/* A loop that computes its steps itself, in a graph with summaries but without ops of the program. */
static void summaries_do_not_count_as_ops_of_the_program(void **state)
{
    stage *s = *state;
    double loss = 0;
    hs_graph *g = hs_graph_new(&s->t.env);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_summary(g, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
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

static void a_graph_with_ops_of_the_program_gets_no_global_step(void **state)
{
    stage *s = *state;
    double loss = 0;
    hs_graph *g = hs_graph_new(&s->t.env);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_summary(g, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    hs_graph_op(g, .name = "evaluate", .run = do_nothing);
    assert_null(hs_training_session_open(hs_graph_backend(g), HS_TRAINING_OPTIONS(.summary_dir = s->directory), &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "global step");
    hs_graph_free(g);
}

static void summaries_may_have_a_separate_directory(void **state)
{
    stage *s = *state;
    training t;
    char *summaries = strdup(test_path(s->directory, "summaries"));
    char *checkpoints = strdup(test_path(s->directory, "checkpoints"));
    begin_training(&t, s, *HS_TRAINING_OPTIONS(.checkpoint_dir = checkpoints, .summary_dir = summaries));
    stage_run(s, "train", 1, 0);
    end_training(&t);
    assert_string_equal(events_text(summaries), "version start@1");
    assert_string_equal(events_text(checkpoints), "version graph meta checkpoint@0 checkpoint@1");
    assert_int_equal(test_count_files(summaries, "ckpt"), 0);
    free(summaries);
    free(checkpoints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(ms_011_every_hundred_steps),
        with_stage(ms_012_every_tenth_of_a_second),
        with_stage(ms_015_never_is_off),
        with_stage(ms_015_zero_is_the_default),
        with_stage(ms_015_either_of_a_pair_may_be_never),
        with_stage(ms_017_no_graph_files),
        with_stage(max_to_keep_is_how_many_checkpoints_are_kept),
        with_stage(max_to_keep_also_limits_the_scaffolds_saver),
        with_stage(step_0_is_not_saved_with_no_initial_checkpoint),
        with_stage(saves_may_be_made_in_the_background),
        with_stage(copies_may_overlap_the_next_runs),
        with_stage(options_for_saving_need_a_directory),
        with_stage(a_worker_may_have_the_chiefs_options),
        with_stage(checkpoints_are_saved_every_ten_minutes_by_default),
        with_stage(summaries_are_saved_every_hundred_steps_by_default),
        with_stage(scalars_are_written_when_summaries_are),
        with_stage(scalars_need_a_directory_and_an_interval),
        with_stage(summaries_do_not_count_as_ops_of_the_program),
        with_stage(a_graph_with_ops_of_the_program_gets_no_global_step),
        with_stage(summaries_may_have_a_separate_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
