/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in event files and in the program's sinks. */
#include "checkpoint/model.h"
#include "hooks/stage.h"
#include "summary/events.h"

#include "base/state.h"

#include <errno.h>
#include <math.h>

static void make_number(stage *s, const char *name, hs_dtype dtype, const void *data)
{
    const hs_tensor tensor = hs_tensor_of(dtype, HS_SCALAR, data);
    assert_ok(hs_script_constant(s->script, name, &tensor), &s->err);
}

static void make_loss(stage *s)
{
    static const double half = 0.5;
    make_number(s, "loss", HS_DOUBLE, &half);
}

/* Opens a session with this hook and these directories. */
static hs_code try_open_with(stage *s, const char *checkpoint_dir, const char *summary_dir, hs_hook hook)
{
    s->session = hs_session_open(
        hs_script_backend(s->script),
        HS_SESSION_OPTIONS(.checkpoint_dir = checkpoint_dir, .summary_dir = summary_dir, .hooks = HS_HOOKS(hook)), &s->err);
    return s->session ? HS_OK : s->err.code;
}

/* Event files. */

static void a_row_is_written_in_the_first_run_and_every_hundred_steps(void **state)
{
    stage *s = *state;
    make_loss(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("loss", "global_step"), .summary_dir = s->directory));
    stage_run(s, "train", 202, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@1 global_step=1@1 loss=0.5@101 "
                                                   "global_step=101@101 loss=0.5@201 global_step=201@201");
}

static void the_numbers_are_fetched_only_for_rows(void **state)
{
    stage *s = *state;
    make_loss(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .summary_dir = s->directory));
    stage_run(s, "train", 1, 0);
    assert_contains(hs_script_last_run(s->script), "loss");
    stage_run(s, "train", 1, 0);
    assert_lacks(hs_script_last_run(s->script), "loss");
    stage_close(s);
}

static void labels_are_the_tags(void **state)
{
    stage *s = *state;
    make_loss(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("loss"), .labels = HS_NAMES("train/größe"), .summary_dir = s->directory));
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 train/größe=0.5@1");
}

static void the_directory_is_the_sessions_by_default(void **state)
{
    stage *s = *state;
    char *summaries = strdup(test_path(s->directory, "summaries"));
    make_loss(s);
    assert_ok(try_open_with(s, s->directory, summaries, hs_scalars(.tensors = HS_NAMES("loss"))), &s->err);
    assert_string_equal(hs_raw_session_summary_dir(hs_session_raw(s->session)), summaries);
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_string_equal(events_text(summaries), "version start@1 loss=0.5@1");
    hs_script_set_step(s->script, 0);
    assert_ok(try_open_with(s, s->directory, NULL, hs_scalars(.tensors = HS_NAMES("loss"))), &s->err);
    assert_string_equal(hs_raw_session_summary_dir(hs_session_raw(s->session)), s->directory);
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@1");
    free(summaries);
}

static void without_a_directory_it_is_refused(void **state)
{
    stage *s = *state;
    make_loss(s);
    assert_null(hs_raw_session_summary_dir(NULL));
    stage_refuses(s, hs_scalars(.tensors = HS_NAMES("loss")), HS_INVALID_ARGUMENT, "no directory for the event file");
}

static void a_writer_of_the_programs_own(void **state)
{
    stage *s = *state;
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, NULL, &s->err);
    make_loss(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("loss"), .summary_writer = writer));
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_ok(hs_summary_writer_close(writer, &s->err), &s->err);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@1");
}

static void a_metric_is_shown_once_at_the_step_at_which_it_was_set(void **state)
{
    stage *s = *state;
    stage_open(s, hs_scalars(.metrics = HS_NAMES("accuracy"), .every_n_steps = 2, .summary_dir = s->directory));
    stage_run(s, "train", 1, 0);
    assert_ok(hs_raw_session_set_metric(hs_session_raw(s->session), "accuracy", 0.25, 1, &s->err), &s->err);
    stage_run(s, "train", 4, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 accuracy=0.25@1");
}

static void a_metric_that_was_never_set_is_logged_at_the_end(void **state)
{
    stage *s = *state;
    const hs_scalars_options options =
        HS_INIT(hs_scalars_options, .metrics = HS_NAMES("accuracy", "acuracy"), .summary_dir = s->directory);
    stage_open(s, hs_scalars_hook(&options));
    stage_close(s); /* a later step might have set them */
    assert_lacks(s->t.log, "never set");
    stage_open(s, hs_scalars_hook(&options));
    stage_run(s, "train", 1, 0);
    assert_ok(hs_raw_session_set_metric(hs_session_raw(s->session), "accuracy", 0.25, 1, &s->err), &s->err);
    stage_close(s);
    assert_contains(s->t.log, "WARNING: scalars: metric 'acuracy' is not a tensor and was never set\n");
    assert_lacks(s->t.log, "'accuracy'");
}

/* The interval begins when a run is chosen, so that each step longer than the interval has a row. */
static hs_code take_long(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    test_env_advance(self, 3);
    return HS_OK;
}

static void by_seconds_each_step_that_takes_longer_has_a_row(void **state)
{
    stage *s = *state;
    static const hs_hook_ops slow = HS_INIT(hs_hook_ops, .name = "slow", .after_run = take_long);
    make_loss(s);
    const hs_hook hooks[] = {{.ops = &slow, .self = &s->t},
                             hs_scalars(.tensors = HS_NAMES("loss"), .every_n_secs = 2, .summary_dir = s->directory)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 3, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@1 loss=0.5@2 loss=0.5@3");
}

static void last_is_a_row_at_the_end(void **state)
{
    stage *s = *state;
    make_loss(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("loss"), .when = HS_TRIGGER(.at_steps = HS_STEPS(2), .last = true),
                             .summary_dir = s->directory));
    stage_run(s, "train", 3, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 loss=0.5@2 loss=0.5@3");
}

static void a_tensor_with_several_elements_is_refused(void **state)
{
    stage *s = *state;
    static const float values[2] = {1, 2};
    const hs_tensor pair = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), values);
    assert_ok(hs_script_constant(s->script, "pair", &pair), &s->err);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("pair"), .summary_dir = s->directory));
    assert_fails(stage_run_once(s, "train"), HS_INVALID_ARGUMENT, &s->err, "'pair' has more than one element");
}

/* A model whose training is stopped and resumed. */
static const char *points_of_runs_to(stage *s, const int64_t *ends)
{
    static char text[4096];
    text[0] = '\0';
    for (; *ends; ends++) {
        model m;
        model_set(&m, 0);
        model_build(&m, &s->t.env);
        s->session = hs_training_session_open(hs_graph_backend(m.graph),
                                              HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .save_summaries_steps = 4,
                                                                  .log_step_count_steps = HS_NEVER, .no_graph_def = true,
                                                                  .scalars = HS_NAMES("global_step"),
                                                                  .hooks = HS_HOOKS(hs_stop_at_step(.last_step = *ends))),
                                              &s->err);
        assert_non_null(s->session);
        while (!hs_session_should_stop(s->session))
            assert_ok(stage_run_once(s, "train"), &s->err);
        stage_close(s);
        hs_graph_free(m.graph);
    }
    for (const char *at = events_text(s->directory); (at = strstr(at, " global_step=")); at++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s", (int)strcspn(at + 1, " ") + 1, at);
    test_empty_directory(s->directory);
    return text;
}

static void a_resumed_run_has_the_points_of_a_whole_one(void **state)
{
    static const int64_t whole[] = {14, 0}, parts[] = {3, 7, 9, 14, 0};
    char wanted[4096];
    snprintf(wanted, sizeof wanted, "%s", points_of_runs_to(*state, whole));
    assert_string_equal(wanted, " global_step=1@1 global_step=5@5 global_step=9@9 global_step=13@13");
    assert_string_equal(points_of_runs_to(*state, parts), wanted);
}

/* A sink that records its calls. */

typedef struct {
    char calls[1024];
    const char *fails; /* the call that fails from now on. NULL: none */
    hs_code code;      /* with this code */
    int os_error;
    int64_t saved;     /* the state to save */
    int64_t loaded;    /* the loaded state */
    hs_scalar last[4]; /* of the last row */
    bool destroyed;
} noted;

HS_PRINTF(3, 4) static hs_code note(noted *n, hs_error *err, const char *format, ...)
{
    size_t used = strlen(n->calls);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(n->calls + used, sizeof n->calls - used, format, arguments);
    va_end(arguments);
    const char *call = n->calls + used;
    if (!n->fails || strncmp(call, n->fails, strlen(n->fails)) != 0)
        return HS_OK;
    hs_error_set(err, n->code, "the sink fails");
    err->os_error = n->os_error;
    return n->code;
}

static hs_code note_open(void *self, hs_raw_session *session, hs_error *err)
{
    return note(self, err, "open@%lld ", (long long)hs_raw_session_global_step(session, err));
}

static hs_code note_write(void *self, const hs_scalar_row *row, hs_error *err)
{
    noted *n = self;
    size_t i = 0;
    for (; row->scalars[i].name; i++)
        n->last[i] = row->scalars[i];
    n->last[i] = (hs_scalar){.name = NULL};
    return note(self, err, "write@%lld ", (long long)row->step);
}

static hs_code note_flush(void *self, hs_error *err)
{
    return note(self, err, "flush ");
}

static hs_code note_end(void *self, const hs_scalar_row *row, hs_error *err)
{
    assert_null(row->scalars[0].name);
    return note(self, err, "end@%lld-%lld ", (long long)row->begin_step, (long long)row->step);
}

static void note_close(void *self)
{
    hs_error err = {0};
    note(self, &err, "close ");
}

static hs_code note_save(void *self, hs_state_writer *out, hs_error *err)
{
    const noted *n = self;
    return hs_state_writer_write(out, &n->saved, sizeof n->saved, err);
}

static hs_code note_load(void *self, hs_state_reader *in, hs_error *err)
{
    noted *n = self;
    return hs_state_reader_read(in, &n->loaded, sizeof n->loaded, err);
}

static void note_destroy(void *self)
{
    ((noted *)self)->destroyed = true;
}

static const hs_scalar_sink_ops noting = HS_INIT(
    hs_scalar_sink_ops, .name = "noting", .open = note_open, .write = note_write, .flush = note_flush, .end = note_end,
    .close = note_close, .save_state = note_save, .load_state = note_load, .destroy = note_destroy);

static hs_hook noting_hook(noted *n)
{
    return hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .sink = {.ops = &noting, .self = n});
}

static void a_sink_is_opened_gets_rows_and_is_closed(void **state)
{
    stage *s = *state;
    noted n = {.saved = 1};
    make_loss(s);
    stage_open(s, noting_hook(&n));
    stage_run(s, "train", 4, 0);
    assert_false(n.destroyed);
    stage_close(s);
    assert_string_equal(n.calls, "open@0 write@1 write@3 end@0-4 flush close ");
    assert_true(n.destroyed);
}

static void a_session_without_a_run_has_no_end(void **state)
{
    stage *s = *state;
    noted n = {.saved = 1};
    make_loss(s);
    stage_open(s, noting_hook(&n));
    stage_close(s);
    assert_string_equal(n.calls, "open@0 flush close ");
}

static void only_write_is_required(void **state)
{
    stage *s = *state;
    static const hs_scalar_sink_ops bare = HS_INIT(hs_scalar_sink_ops, .name = "bare", .write = note_write);
    noted n = {.saved = 1};
    hs_state_copy *copy = NULL;
    make_loss(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .sink = {.ops = &bare, .self = &n}));
    stage_run(s, "train", 3, 0);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(s->session), &copy, &s->err), &s->err);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(s->session), copy, &s->err), &s->err);
    hs_state_copy_free(copy);
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(n.calls, "write@1 write@3 write@5 ");
}

static void after_a_restore_it_is_opened_again(void **state)
{
    stage *s = *state;
    noted n = {.saved = 7};
    hs_state_copy *copy = NULL;
    make_loss(s);
    stage_open(s, noting_hook(&n));
    stage_run(s, "train", 2, 0);
    hs_raw_session *raw = hs_session_raw(s->session);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &s->err), &s->err);
    n.saved = 8;
    stage_run(s, "train", 3, 0);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &s->err), &s->err);
    assert_int_equal(n.loaded, 7);
    hs_state_copy_free(copy);
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(n.calls, "open@0 write@1 flush write@3 write@5 open@2 write@3 end@2-4 flush close ");
}

static void numbers_are_exact(void **state)
{
    stage *s = *state;
    static const int64_t large = INT64_MAX;
    static const uint64_t larger = UINT64_MAX;
    static const float third = 1.0F / 3;
    noted n = {.saved = 1};
    make_number(s, "large", HS_INT64, &large);
    make_number(s, "larger", HS_UINT64, &larger);
    make_number(s, "third", HS_FLOAT, &third);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("large", "larger"), .labels = HS_NAMES("a", "b"),
                             .metrics = HS_NAMES("accuracy"), .sink = {.ops = &noting, .self = &n}));
    stage_run(s, "train", 1, 0);
    assert_string_equal(n.last[0].name, "a");
    assert_true(n.last[0].known && n.last[0].integer == INT64_MAX && n.last[0].dtype == HS_INT64 && n.last[0].step == 1);
    assert_true((uint64_t)n.last[1].integer == UINT64_MAX && n.last[1].dtype == HS_UINT64);
    assert_string_equal(n.last[2].name, "accuracy");
    assert_true(!n.last[2].known && isnan(n.last[2].value) && n.last[2].dtype == HS_DOUBLE);
    assert_null(n.last[3].name);
    stage_close(s);
    stage_open(s, hs_scalars(.tensors = HS_NAMES("third"), .sink = {.ops = &noting, .self = &n}));
    stage_run(s, "train", 1, 0);
    assert_true(n.last[0].value == (double)third && n.last[0].integer == 0 && n.last[0].dtype == HS_FLOAT);
    stage_close(s);
}

/* Failures. */

static void a_sink_that_cannot_be_opened_at_first_fails_the_session(void **state)
{
    noted n = {.fails = "open", .code = HS_UNKNOWN};
    make_loss(*state);
    stage_refuses(*state, noting_hook(&n), HS_UNKNOWN, "the sink fails");
    assert_string_equal(n.calls, "open@0 close ");
    assert_true(n.destroyed);
}

/* UNAVAILABLE of a sink does not mean that the session is lost. */
static void a_failed_row_does_not_end_the_training(void **state)
{
    stage *s = *state;
    noted n = {.saved = 1};
    make_loss(s);
    stage_open(s, noting_hook(&n));
    stage_run(s, "train", 2, 0);
    n.fails = "write";
    n.code = HS_UNAVAILABLE;
    stage_run(s, "train", 4, 0);
    n.fails = NULL;
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_string_equal(n.calls, "open@0 write@1 write@3 write@5 write@7 end@0-8 flush close ");
    assert_int_equal(count_of(s->t.log, "WARNING: step 3: noting: cannot write rows: the sink fails; training continues\n"),
                     1);
    assert_contains(s->t.log, "INFO: 'noting' recovered after 2 failures in a row\n");
    assert_int_equal(s->outcome.failures, 2);
    assert_int_equal(hs_outcome_exit_code(&s->outcome), 0);
}

static void a_metric_of_a_failed_row_is_in_the_next_row(void **state)
{
    stage *s = *state;
    noted n = {.saved = 1};
    make_loss(s);
    stage_open(s, hs_scalars(.metrics = HS_NAMES("accuracy"), .every_n_steps = 1, .sink = {.ops = &noting, .self = &n}));
    stage_run(s, "train", 1, 0);
    assert_ok(hs_raw_session_set_metric(hs_session_raw(s->session), "accuracy", 0.25, 1, &s->err), &s->err);
    n.fails = "write";
    n.code = HS_UNAVAILABLE;
    stage_run(s, "train", 2, 0);
    n.fails = NULL;
    for (int i = 0; i < 2; i++) {
        stage_run(s, "train", 1, 0);
        assert_true(n.last[0].known == !i);
        assert_true(i || (n.last[0].value == 0.25 && n.last[0].step == 1));
    }
    stage_close(s);
}

static void an_opening_that_fails_later_is_tried_again_before_the_next_row(void **state)
{
    stage *s = *state;
    noted n = {.saved = 1};
    hs_state_copy *copy = NULL;
    make_loss(s);
    stage_open(s, noting_hook(&n));
    stage_run(s, "train", 2, 0);
    hs_raw_session *raw = hs_session_raw(s->session);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &s->err), &s->err);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &s->err), &s->err);
    hs_state_copy_free(copy);
    n.fails = "open";
    n.code = HS_UNKNOWN;
    n.calls[0] = '\0';
    stage_run(s, "train", 1, 0);
    assert_string_equal(n.calls, "open@2 ");
    stage_run(s, "train", 2, 0);
    assert_string_equal(n.calls, "open@2 open@4 ");
    n.fails = NULL;
    stage_run(s, "train", 2, 0);
    assert_string_equal(n.calls, "open@2 open@4 open@6 write@7 ");
    stage_close(s);
    assert_int_equal(s->outcome.failures, 2);
}

static void flush_and_end_may_fail(void **state)
{
    for (int i = 0; i < 2; i++) {
        stage *s = *state;
        noted n = {.saved = 1, .fails = i ? "end" : "flush", .code = HS_UNKNOWN, .os_error = EIO};
        make_loss(s);
        stage_open(s, noting_hook(&n));
        stage_run(s, "train", 1, 0);
        stage_close(s);
        assert_int_equal(s->outcome.failures, 1);
    }
}

static void a_mistake_ends_the_training(void **state)
{
    stage *s = *state;
    noted n = {.fails = "write", .code = HS_INVALID_ARGUMENT};
    make_loss(s);
    stage_open(s, noting_hook(&n));
    assert_fails(stage_run_once(s, "train"), HS_INVALID_ARGUMENT, &s->err, "hook 'scalars'");
    assert_contains(s->err.message, "the sink fails");
    hs_session_close(s->session, NULL);
    s->session = NULL;
}

static void a_sink_that_is_full_gets_no_more_rows(void **state)
{
    stage *s = *state;
    noted n = {.fails = "write", .code = HS_STOP};
    make_loss(s);
    stage_open(s, noting_hook(&n));
    stage_run(s, "train", 3, 0);
    assert_lacks(hs_script_last_run(s->script), "loss");
    stage_close(s);
    assert_string_equal(n.calls, "open@0 write@1 end@0-3 flush close ");
    assert_int_equal(s->outcome.failures, 0);
    assert_string_equal(s->t.log, "");
}

/* The state of a sink. */

static hs_code load_into(hs_hook hook, const hs__buffer *from, hs_error *err)
{
    hs_state_reader in = {.at = (const unsigned char *)from->data, .left = from->size, .version = hook.ops->state_version};
    hs_code code = hook.ops->load_state(hook.self, &in, err);
    assert_int_equal(hs_state_reader_remaining(&in), 0);
    hs_hook_free(hook);
    return code;
}

static void the_state_of_another_sink_is_skipped(void **state)
{
    stage *s = *state;
    noted n = {.saved = 7};
    hs__buffer bytes;
    hs__buffer_init(&bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&bytes);
    hs_hook hook = noting_hook(&n);
    make_loss(s);
    assert_ok(hook.ops->begin(hook.self, hs_script_backend(s->script), &s->err), &s->err);
    assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
    hs_hook_free(hook);
    assert_ok(load_into(hs_scalars(.tensors = HS_NAMES("loss"), .summary_dir = "x"), &bytes, &s->err), &s->err);
    assert_ok(load_into(noting_hook(&n), &bytes, &s->err), &s->err);
    assert_int_equal(n.loaded, 7);
    hs__buffer_free(&bytes);
}

/* Before the metrics it had 32 bytes of the schedule, which the session saves now. */
static void a_state_of_version_0_is_read(void **state)
{
    stage *s = *state;
    noted n = {.saved = 7};
    hs__buffer bytes;
    hs__buffer_init(&bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&bytes);
    const int64_t position[] = {3, 41, -1, 41};
    assert_ok(hs_state_writer_write(&out, position, sizeof position, &s->err), &s->err);
    hs_hook hook = noting_hook(&n);
    make_loss(s);
    assert_ok(hook.ops->begin(hook.self, hs_script_backend(s->script), &s->err), &s->err);
    assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
    hs_state_reader in = {.at = (const unsigned char *)bytes.data, .left = bytes.size};
    assert_ok(hook.ops->load_state(hook.self, &in, &s->err), &s->err);
    assert_int_equal(n.loaded, 7);
    hs_hook_free(hook);
    hs__buffer_free(&bytes);
}

/* Options. */

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    const char *const *step = HS_NAMES("global_step");
    static const hs_scalar_sink_ops nameless = HS_INIT(hs_scalar_sink_ops, .write = note_write, .destroy = note_destroy);
    static const hs_scalar_sink_ops idle = HS_INIT(hs_scalar_sink_ops, .name = "idle");
    noted n = {.saved = 1};
    stage_refuses(s, hs_scalars(.summary_dir = "x"), HS_INVALID_ARGUMENT, "neither tensors nor metrics");
    stage_refuses(s, hs_scalars(.tensors = step, .labels = HS_NAMES("a", "b")), HS_INVALID_ARGUMENT,
                  "2 labels are given for 1 tensors");
    stage_refuses(s, hs_scalars(.tensors = step, .summary_dir = "x", .sink = {.ops = &noting, .self = &n}),
                  HS_INVALID_ARGUMENT, "more than one of summary_dir, summary_writer and sink");
    assert_true(n.destroyed);
    n.destroyed = false;
    stage_refuses(s, hs_scalars(.tensors = step, .sink = {.ops = &nameless, .self = &n}), HS_INVALID_ARGUMENT,
                  "the sink has no name");
    assert_true(n.destroyed);
    stage_refuses(s, hs_scalars(.tensors = step, .sink = {.ops = &idle}), HS_INVALID_ARGUMENT, "the sink has no write");
    stage_refuses(s, hs_scalars(.tensors = HS_NAMES("lost"), .summary_dir = "x"), HS_NOT_FOUND, "'lost'");
    stage_refuses(s, hs_scalars(.tensors = step, .summary_dir = "x", .every_n_steps = 1, .every_n_secs = 1),
                  HS_INVALID_ARGUMENT, "each of every_n_secs and every_n_steps");
}

static hs_code chart_three(test_env *t, void *user)
{
    hs_error err = {0};
    const stage *s = user;
    noted n = {.saved = 1};
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    test_tolerate(t, "cannot write rows");
    test_tolerate(t, "event");
    hs_hook events = hs_scalars(.tensors = HS_NAMES("global_step"), .labels = HS_NAMES("at"), .metrics = HS_NAMES("m"),
                                .every_n_steps = 1, .summary_dir = s->directory);
    hs_hook sink = hs_scalars(.tensors = HS_NAMES("global_step"), .every_n_steps = 1, .sink = {.ops = &noting, .self = &n});
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(events, sink));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    for (int i = 0; i < 3 && session && !err.code; i++)
        hs_session_run(session, "train", &err);
    hs_session_close(session, err.code ? NULL : &err);
    hs_script_free(script);
    assert_true(n.destroyed);
    return err.code;
}

static void each_allocation(void **state)
{
    test_each_allocation(chart_three, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_row_is_written_in_the_first_run_and_every_hundred_steps),
        with_stage(the_numbers_are_fetched_only_for_rows),
        with_stage(labels_are_the_tags),
        with_stage(the_directory_is_the_sessions_by_default),
        with_stage(without_a_directory_it_is_refused),
        with_stage(a_writer_of_the_programs_own),
        with_stage(a_metric_is_shown_once_at_the_step_at_which_it_was_set),
        with_stage(a_metric_that_was_never_set_is_logged_at_the_end),
        with_stage(by_seconds_each_step_that_takes_longer_has_a_row),
        with_stage(last_is_a_row_at_the_end),
        with_stage(a_tensor_with_several_elements_is_refused),
        with_stage(a_resumed_run_has_the_points_of_a_whole_one),
        with_stage(a_sink_is_opened_gets_rows_and_is_closed),
        with_stage(a_session_without_a_run_has_no_end),
        with_stage(only_write_is_required),
        with_stage(after_a_restore_it_is_opened_again),
        with_stage(numbers_are_exact),
        with_stage(a_sink_that_cannot_be_opened_at_first_fails_the_session),
        with_stage(a_failed_row_does_not_end_the_training),
        with_stage(a_metric_of_a_failed_row_is_in_the_next_row),
        with_stage(an_opening_that_fails_later_is_tried_again_before_the_next_row),
        with_stage(flush_and_end_may_fail),
        with_stage(a_mistake_ends_the_training),
        with_stage(a_sink_that_is_full_gets_no_more_rows),
        with_stage(the_state_of_another_sink_is_skipped),
        with_stage(a_state_of_version_0_is_read),
        with_stage(invalid_options_are_refused),
        with_stage(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
