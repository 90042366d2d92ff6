/* SPDX-License-Identifier: Apache-2.0 */
/* Default hooks of a chief's and of a worker's session. */
#include "hooks/stage.h"
#include "summary/events.h"

#include <hooksess/hooks/step_counter.h>

/* A script with a summary op "merged", which returns my_summary_tag. */
typedef struct {
    hs_summary *summary;
    hs_string bytes;
    hs_tensor value;
    hs_scaffold *scaffold;
} summed;

static void begin(summed *m, stage *s, hs_training_options options)
{
    *m = (summed){.summary = hs_summary_new(NULL)};
    hs_summary_scalar(m->summary, "my_summary_tag", 0.5, NULL);
    m->bytes = hs_summary_serialized(m->summary);
    m->value = hs_tensor_of(HS_STRING, HS_SCALAR, &m->bytes);
    hs_script_constant(s->script, "merged", &m->value);
    m->scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.summary_op = "merged"), NULL);
    options.scaffold = m->scaffold;
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    if (!s->session)
        fail_msg("%s", s->err.message);
}

static void finish(summed *m, stage *s)
{
    stage_close(s);
    hs_scaffold_free(m->scaffold);
    hs_summary_free(m->summary);
}

/* Makes `runs` runs of a training that writes to the stage's directory. */
static void train(stage *s, hs_training_options options, int runs, double secs)
{
    summed m;
    begin(&m, s, options);
    stage_run(s, "train", runs, secs);
    finish(&m, s);
}

static void ms_013_summaries_and_rates_by_steps(void **state)
{
    stage *s = *state;
    train(s, *HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .save_summaries_steps = 100, .log_step_count_steps = 10),
          101, 0.5);
    const char *events = events_text(s->directory);
    assert_int_equal(count_of(events, "my_summary_tag=0.5"), 2);
    assert_int_equal(count_of(events, "global_step/sec=2@"), 10);
}

static void ms_014_summaries_by_seconds(void **state)
{
    stage *s = *state;
    train(s,
          *HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .save_summaries_steps = HS_NEVER, .save_summaries_secs = 0.1,
                               .log_step_count_steps = 10),
          102, 0.05);
    const char *events = events_text(s->directory);
    assert_true(count_of(events, "my_summary_tag=0.5") > 40);
    assert_contains(events, "global_step/sec=20@");
}

/* The defaults. */

static void ms_126s_every_hundred_steps(void **state)
{
    stage *s = *state;
    train(s, *HS_TRAINING_OPTIONS(.summary_dir = s->directory), 301, 1);
    const char *events = events_text(s->directory);
    assert_int_equal(count_of(events, "my_summary_tag=0.5"), 4);
    assert_int_equal(count_of(events, "global_step/sec=1@"), 3);
    assert_contains(s->t.log, "steps/s");
}

static void ms_126s_never_is_off_for_each(void **state)
{
    stage *s = *state;
    train(s,
          *HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .log_step_count_steps = HS_NEVER,
                               .save_summaries_steps = HS_NEVER, .save_checkpoint_secs = HS_NEVER, .no_run_status = true),
          301, 1);
    assert_int_equal(test_count_files(s->directory, ""), 2);
}

static void ms_128s_summaries_without_checkpoints(void **state)
{
    stage *s = *state;
    train(s, *HS_TRAINING_OPTIONS(.summary_dir = s->directory), 101, 1);
    assert_contains(events_text(s->directory), "global_step/sec=1@101");
    assert_int_equal(test_count_files(s->directory, "ckpt"), 0);
}

static void ms_126s_invalid_numbers_are_refused(void **state)
{
    stage *s = *state;
    const hs_training_options wrong[] = {
        HS_INIT(hs_training_options, .log_step_count_steps = -3), HS_INIT(hs_training_options, .max_wait_secs = -3),
        HS_INIT(hs_training_options, .recovery_wait_secs = -3), HS_INIT(hs_training_options, .stop_grace_secs = -3)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(hs_training_session_open(hs_script_backend(s->script), &wrong[i], &s->err));
        assert_int_equal(s->err.code, HS_INVALID_ARGUMENT);
    }
}

static hs_code lost_once(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)run, (void)args;
    return ++*(int *)self == 2 ? hs_error_set(err, HS_UNAVAILABLE, "gone") : HS_OK;
}

static const hs_hook_ops loses_it = HS_INIT(hs_hook_ops, .name = "loser", .before_run = lost_once);

static void it_recovers_by_default(void **state)
{
    stage *s = *state;
    int runs = 0;
    hs_hook hook = {.ops = &loses_it, .self = &runs};
    hs_training_options options = HS_INIT(hs_training_options, .hooks = HS_HOOKS(hook));
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    stage_run(s, "train", 2, 0);
    assert_int_equal(hs_session_recoveries(s->session), 1);
    stage_close(s);
    runs = 0;
    const hs_recovery none = HS_INIT(hs_recovery, .max_attempts = HS_NEVER);
    options.recovery = &none;
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    stage_run(s, "train", 1, 0);
    assert_int_equal(hs_session_run(s->session, "train", &s->err), HS_UNAVAILABLE);
    hs_session_close(s->session, NULL);
    s->session = NULL;
}

/* START makes TensorBoard drop the events of repeated steps. It is written once for each creation of the session. */
static void a_recovered_session_writes_start_again(void **state)
{
    stage *s = *state;
    summed m;
    int runs = -1; /* the third run loses the session */
    hs_hook hook = {.ops = &loses_it, .self = &runs};
    begin(&m, s, *HS_TRAINING_OPTIONS(.summary_dir = s->directory, .save_summaries_steps = 1, .hooks = HS_HOOKS(hook)));
    stage_run(s, "train", 3, 0);
    finish(&m, s);
    assert_string_equal(events_text(s->directory), "version start@1 my_summary_tag=0.5@1 my_summary_tag=0.5@2 start@1 "
                                                   "my_summary_tag=0.5@1");
}

/* TensorFlow writes none until the step is above that of the last point. */
static void a_recovered_session_writes_the_points_of_repeated_steps_again(void **state)
{
    stage *s = *state;
    summed m;
    int runs = -2; /* the fourth run loses the session */
    hs_hook hook = {.ops = &loses_it, .self = &runs};
    begin(&m, s, *HS_TRAINING_OPTIONS(.summary_dir = s->directory, .save_summaries_steps = 2, .hooks = HS_HOOKS(hook)));
    stage_run(s, "train", 6, 0);
    finish(&m, s);
    assert_string_equal(events_text(s->directory), "version start@1 my_summary_tag=0.5@1 my_summary_tag=0.5@3 start@1 "
                                                   "my_summary_tag=0.5@1 my_summary_tag=0.5@3");
}

/* Workers. */

static void count_destroy(void *self)
{
    ++*(int *)self;
}

static void ms_125s_a_worker_gets_only_the_common_hooks(void **state)
{
    stage *s = *state;
    int destroyed = 0;
    hs_hook mine = hs_script_watch(s->script, "mine", hs_stop_at_step(.last_step = 100));
    static const hs_hook_ops counted_ops = HS_INIT(hs_hook_ops, .name = "counted", .destroy = count_destroy);
    hs_hook chief = {.ops = &counted_ops, .self = &destroyed};
    train(s,
          *HS_TRAINING_OPTIONS(.is_worker = true, .checkpoint_dir = s->directory, .hooks = HS_HOOKS(mine),
                               .chief_only_hooks = HS_HOOKS(chief)),
          50, 700);
    assert_contains(hs_script_calls(s->script), "mine.begin mine.create");
    assert_int_equal(test_count_files(s->directory, ""), 2);
    assert_int_equal(destroyed, 1);
}

static void ms_018_a_worker_may_write_summaries(void **state)
{
    stage *s = *state;
    train(s,
          *HS_TRAINING_OPTIONS(.is_worker = true, .worker_saves_summaries = true, .checkpoint_dir = s->directory,
                               .log_step_count_steps = 10),
          101, 1);
    assert_contains(events_text(s->directory), "my_summary_tag=0.5");
    assert_contains(events_text(s->directory), "global_step/sec=1@");
}

static void ms_019_a_worker_writes_no_summaries_by_default(void **state)
{
    stage *s = *state;
    train(s, *HS_TRAINING_OPTIONS(.is_worker = true, .checkpoint_dir = s->directory, .log_step_count_steps = 10), 101, 1);
    assert_string_equal(events_text(s->directory), "");
}

static void ms_020_a_chief_saves_and_restores(void **state)
{
    stage *s = *state;
    hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = 100);
    summed m;
    train(s, options, 100, 0);
    hs_script_set_step(s->script, 0);
    begin(&m, s, options);
    assert_int_equal(hs_session_global_step(s->session, NULL), 100);
    finish(&m, s);
}

static void ms_021_a_worker_saves_nothing(void **state)
{
    stage *s = *state;
    train(s, *HS_TRAINING_OPTIONS(.is_worker = true, .checkpoint_dir = s->directory, .save_checkpoint_steps = 100), 100, 0);
    assert_int_equal(latest_step(s->directory), -1);
}

static void ms_022_a_worker_that_saves_has_a_separate_directory(void **state)
{
    stage *s = *state;
    train(s,
          *HS_TRAINING_OPTIONS(.is_worker = true, .worker_saves_checkpoints = true, .worker_index = 1,
                               .checkpoint_dir = s->directory, .save_checkpoint_steps = 100),
          100, 0);
    assert_int_equal(latest_step(s->directory), -1);
    assert_int_equal(latest_step(test_path(s->directory, "tmp_worker_1")), 100);
}

/* A worker waits until another process has initialized the model. With this driver it waits for two hours. */

typedef struct {
    stage *s;
    hs_string name;
} unready;

static hs_code never_ready(void *self, hs_op *op, hs_error *err)
{
    unready *u = self;
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(1), &u->name);
    return hs_op_set_output(op, 0, &value, err);
}

static int64_t secs_until_given_up(stage *s, hs_session *(*open)(hs_backend backend, hs_scaffold *scaffold, hs_error *err))
{
    unready u = {s, {"v", 1}};
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_op(graph, .name = "ready", .run = never_ready, .user = &u,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.ready_op = "ready"), NULL);
    int64_t before = s->t.now_ns;
    assert_null(open(hs_graph_backend(graph), scaffold, &s->err));
    assert_says(&s->err, HS_DEADLINE_EXCEEDED, "v");
    hs_scaffold_free(scaffold);
    hs_graph_free(graph);
    return (s->t.now_ns - before) / 1000000000;
}

static hs_session *open_worker(hs_backend backend, hs_scaffold *scaffold, hs_error *err)
{
    const hs_session_options options = HS_INIT(hs_session_options, .is_worker = true, .scaffold = scaffold);
    return hs_session_open(backend, &options, err);
}

static hs_session *open_training_worker(hs_backend backend, hs_scaffold *scaffold, hs_error *err)
{
    const hs_training_options options = HS_INIT(hs_training_options, .is_worker = true, .scaffold = scaffold);
    return hs_training_session_open(backend, &options, err);
}

static hs_session *open_impatient_worker(hs_backend backend, hs_scaffold *scaffold, hs_error *err)
{
    const hs_training_options options =
        HS_INIT(hs_training_options, .is_worker = true, .scaffold = scaffold, .max_wait_secs = 10, .recovery_wait_secs = 4);
    return hs_training_session_open(backend, &options, err);
}

static void ms_137s_how_long_a_worker_waits(void **state)
{
    assert_int_equal(secs_until_given_up(*state, open_worker), 1800);
    assert_int_equal(secs_until_given_up(*state, open_training_worker), 7200);
    assert_int_equal(secs_until_given_up(*state, open_impatient_worker), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(ms_013_summaries_and_rates_by_steps),
        with_stage(ms_014_summaries_by_seconds),
        with_stage(ms_018_a_worker_may_write_summaries),
        with_stage(ms_019_a_worker_writes_no_summaries_by_default),
        with_stage(ms_020_a_chief_saves_and_restores),
        with_stage(ms_021_a_worker_saves_nothing),
        with_stage(ms_022_a_worker_that_saves_has_a_separate_directory),
        with_stage(ms_125s_a_worker_gets_only_the_common_hooks),
        with_stage(ms_126s_every_hundred_steps),
        with_stage(ms_126s_never_is_off_for_each),
        with_stage(ms_126s_invalid_numbers_are_refused),
        with_stage(ms_128s_summaries_without_checkpoints),
        with_stage(ms_137s_how_long_a_worker_waits),
        with_stage(it_recovers_by_default),
        with_stage(a_recovered_session_writes_start_again),
        with_stage(a_recovered_session_writes_the_points_of_repeated_steps_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
