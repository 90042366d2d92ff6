/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the checkpoint saver, and resuming from them. */
#include "checkpoint/model.h"
#include "hooks/stage.h"
#include "summary/events.h"

#include "graph.pb-c.h"

#include <errno.h>
#include <sys/stat.h>

/* A session on the model that restores from a directory, with this hook. */
static void open_model(stage *s, model *m, const char *restore_from, hs_hook hook)
{
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .checkpoint_dir = restore_from);
    model_set(m, 0);
    model_build(m, &s->t.env);
    s->session = m->session = hs_session_open(hs_graph_backend(m->graph), &options, &s->err);
    if (!s->session)
        fail_msg("%s", s->err.message);
}

static void close_model(stage *s, model *m)
{
    s->session = NULL;
    s->outcome = model_close(m);
    assert_ok(s->outcome.error.code, &s->outcome.error);
}

/* Graphs. */

typedef struct {
    size_t n;
    bool has_train;
    int max_to_keep;
} meta_graphs;

static void take_meta_graph(const Hs__Pb__Event *event, void *user)
{
    meta_graphs *seen = user;
    if (event->what_case != HS__PB__EVENT__WHAT_META_GRAPH_DEF)
        return;
    Hs__Pb__MetaGraphDef *meta =
        hs__pb__meta_graph_def__unpack(NULL, event->meta_graph_def.len, event->meta_graph_def.data);
    assert_non_null(meta);
    seen->n++;
    seen->max_to_keep = meta->saver_def->max_to_keep;
    for (size_t i = 0; i < meta->graph_def->n_node; i++)
        seen->has_train |= strcmp(meta->graph_def->node[i]->name, "train") == 0;
    hs__pb__meta_graph_def__free_unpacked(meta, NULL);
}

static void bh_033_one_meta_graph_with_the_savers_definition(void **state)
{
    stage *s = *state;
    model m;
    meta_graphs seen = {0};
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 17), NULL);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
    open_model(s, &m, NULL, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .scaffold = scaffold));
    stage_run(s, "train", 1, 0);
    close_model(s, &m);
    assert_true(events_each(s->directory, take_meta_graph, &seen));
    assert_int_equal(seen.n, 1);
    assert_true(seen.has_train);
    assert_int_equal(seen.max_to_keep, 17);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

static void bh_035_the_graph_is_written(void **state)
{
    stage *s = *state;
    model m;
    open_model(s, &m, NULL, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1));
    assert_true(test_exists(s->directory, "graph.pbtxt"));
    assert_int_equal(test_count_files(s->directory, ".meta"), 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(test_count_files(s->directory, ".meta"), 2);
    close_model(s, &m);
}

static void bh_036_bh_092s_no_graph_files_but_the_events(void **state)
{
    stage *s = *state;
    model m;
    open_model(s, &m, NULL, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .no_graph_def = true));
    stage_run(s, "train", 1, 0);
    close_model(s, &m);
    assert_false(test_exists(s->directory, "graph.pbtxt"));
    assert_int_equal(test_count_files(s->directory, ".meta"), 0);
    assert_string_equal(events_text(s->directory), "version graph meta checkpoint@0 checkpoint@1");
}

/* TensorFlow leaves the last event in memory. */
static void bh_090s_the_last_event_is_in_the_file(void **state)
{
    stage *s = *state;
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100));
    stage_run(s, "train", 3, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version checkpoint@0 checkpoint@3");
}

static void take_path(const Hs__Pb__Event *event, void *user)
{
    if (event->what_case == HS__PB__EVENT__WHAT_SESSION_LOG)
        snprintf(user, 1024, "%s", event->session_log->checkpoint_path);
}

static void bh_085s_the_event_names_the_checkpoint(void **state)
{
    stage *s = *state;
    char path[1024] = "";
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100));
    stage_close(s);
    assert_true(events_each(s->directory, take_path, path));
    assert_string_equal(path, test_path(s->directory, "model.ckpt-0"));
}

/* Names. */

static void the_directory_is_created_and_the_basename_is_used(void **state)
{
    stage *s = *state;
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = test_path(s->directory, "new//"), .every_n_steps = 1,
                                      .checkpoint_basename = "weights"));
    stage_close(s);
    assert_true(test_exists(s->directory, "new/weights-0.index"));
    assert_int_equal(latest_step(test_path(s->directory, "new")), 0);
}

/* Resuming. */

static void training_resumes_at_the_saved_step(void **state)
{
    stage *s = *state;
    model m;
    for (int64_t begun = 0; begun < 6; begun += 3) {
        open_model(s, &m, s->directory, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2));
        assert_true(model_is(&m, begun));
        stage_run(s, "train", 3, 0);
        assert_true(model_is(&m, begun + 3));
        close_model(s, &m);
        assert_int_equal(s->outcome.last_saved_step, begun + 3);
    }
}

/* TensorFlow writes it over itself. */
static void bh_082s_a_restored_step_is_not_saved_again(void **state)
{
    stage *s = *state;
    model m;
    struct stat before, after;
    open_model(s, &m, s->directory, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2));
    stage_run(s, "train", 2, 0);
    close_model(s, &m);
    stat(test_path(s->directory, "model.ckpt-2.index"), &before);
    open_model(s, &m, s->directory, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2));
    assert_int_equal(hs_session_global_step(s->session, NULL), 2);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 2); /* the interval begins at the restored step */
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 4);
    close_model(s, &m);
    stat(test_path(s->directory, "model.ckpt-2.index"), &after);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(count_of(events_text(s->directory), "checkpoint@2"), 1);
}

static void a_restored_step_is_durable(void **state)
{
    stage *s = *state;
    model m;
    open_model(s, &m, s->directory, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2));
    stage_run(s, "train", 2, 0);
    close_model(s, &m);
    open_model(s, &m, s->directory, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2));
    close_model(s, &m); /* without a step, and without a save */
    assert_int_equal(s->outcome.last_saved_step, 2);
    assert_int_equal(count_of(events_text(s->directory), "checkpoint@2"), 1);
}

static void a_step_restored_from_another_directory_is_saved_here(void **state)
{
    stage *s = *state;
    model m;
    char *other = strdup(test_path(s->directory, "other"));
    open_model(s, &m, NULL, hs_checkpoint_saver(.checkpoint_dir = other, .every_n_steps = 2));
    stage_run(s, "train", 2, 0);
    close_model(s, &m);
    open_model(s, &m, other, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2));
    assert_int_equal(latest_step(s->directory), 2);
    close_model(s, &m);
    free(other);
}

/* A checkpoint is of one moment. */

typedef struct {
    int64_t runs;
    const char *directory;
} run_counter;

static hs_code count_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)values;
    run_counter *c = self;
    hs_summary_writer *writer;
    c->runs++;
    hs_code code = hs_raw_session_summary_writer(hs_run_context_session(run), c->directory, &writer, err);
    return code ? code : hs_summary_writer_scalar(writer, "runs", (double)c->runs, c->runs, err);
}

static hs_code save_runs(void *self, hs_state_writer *out, hs_error *err)
{
    const run_counter *c = self;
    return hs_state_writer_write(out, &c->runs, sizeof c->runs, err);
}

static hs_code load_runs(void *self, hs_state_reader *in, hs_error *err)
{
    run_counter *c = self;
    return hs_state_reader_read(in, &c->runs, sizeof c->runs, err);
}

static const hs_hook_ops counter_ops =
    HS_INIT(hs_hook_ops, .name = "run_counter", .after_run = count_run, .save_state = save_runs, .load_state = load_runs);

/* The counter is after the saver in the list, but the checkpoint of step 3 has its count of step 3. */
static void a_checkpoint_holds_every_hooks_state_of_its_step(void **state)
{
    stage *s = *state;
    run_counter counters[2] = {{0, s->directory}, {0, s->directory}};
    for (int i = 0; i < 2; i++) {
        hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 3),
                           {.ops = &counter_ops, .self = &counters[i]},
                           {.ops = NULL}};
        hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory);
        s->session = hs_session_open(hs_script_backend(s->script), &options, &s->err);
        assert_non_null(s->session);
        if (i == 0)
            stage_run(s, "train", 4, 0);
        hs_session_fail(s->session, test_error(HS_ABORTED, "as if killed"));
        hs_session_close(s->session, NULL);
        s->session = NULL;
    }
    assert_int_equal(counters[0].runs, 4);
    assert_int_equal(counters[1].runs, 3);
}

static hs_code events_are_there(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)session, (void)err;
    const stage *s = self;
    char event[32];
    snprintf(event, sizeof event, " runs=%lld@", (long long)step);
    if (step)
        assert_contains(events_text(s->directory), event);
    return HS_OK;
}

static void events_are_in_the_file_before_a_checkpoint_is_saved(void **state)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .before_save = events_are_there);
    stage *s = *state;
    const hs_saver_listener given = {&ops, s};
    run_counter counter = {0, s->directory};
    hs_hook hooks[] = {
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .listeners = HS_LISTENERS(given)),
        {.ops = &counter_ops, .self = &counter}};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 5, 0);
    stage_close(s);
}

/* Failures. */

typedef struct {
    const char *directory;
    int64_t durable; /* the last saved step of the outcome */
} failing_run;

static hs_code train_and_save(test_env *t, void *user)
{
    failing_run *f = user;
    model m = {.step = 0};
    hs_error err = {0};
    test_tolerate(t, ": not saved: ");
    test_tolerate(t, "event file in "); /* it is retried */
    test_tolerate(t, "'summary writer' failed ");
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_tolerate(t, "; a power failure may lose '");
    test_tolerate_harmless(t); /* the search for old temporary files */
    test_remove_directory(strdup(f->directory));
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = f->directory, .every_n_steps = 1);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .checkpoint_dir = f->directory);
    model_set(&m, 0);
    model_build(&m, &t->env);
    hs_session *session = hs_session_open(hs_graph_backend(m.graph), &options, &err);
    for (int i = 0; i < 2 && session && !err.code; i++)
        hs_session_run(session, "train", &err);
    f->durable = hs_session_close(session, &err).last_saved_step;
    hs_graph_free(m.graph);
    return err.code;
}

/* The step that was reported as durable, or a newer one, can be restored. */
static void nothing_is_lost(void *user)
{
    static test_env t; /* receives the log */
    const failing_run *f = user;
    model m = {.step = 0};
    test_env_init(&t);
    model_set(&m, 0);
    assert_ok(model_open(&m, &t.env, f->directory), &m.err);
    assert_true(model_is(&m, m.step));
    assert_true(m.step >= f->durable);
    model_close(&m);
}

static void each_file_call(void **state)
{
    const stage *s = *state;
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/run", s->directory);
    failing_run f = {.directory = directory};
    test_each_file_call(train_and_save, nothing_is_lost, ENOSPC, false, &f);
    assert_int_equal(f.durable, 2);
    test_each_file_call(train_and_save, nothing_is_lost, EIO, true, &f);
}

static void each_allocation(void **state)
{
    const stage *s = *state;
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/run", s->directory);
    failing_run f = {.directory = directory};
    test_each_allocation(train_and_save, &f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_033_one_meta_graph_with_the_savers_definition),
        with_stage(bh_035_the_graph_is_written),
        with_stage(bh_036_bh_092s_no_graph_files_but_the_events),
        with_stage(bh_090s_the_last_event_is_in_the_file),
        with_stage(bh_085s_the_event_names_the_checkpoint),
        with_stage(the_directory_is_created_and_the_basename_is_used),
        with_stage(training_resumes_at_the_saved_step),
        with_stage(bh_082s_a_restored_step_is_not_saved_again),
        with_stage(a_restored_step_is_durable),
        with_stage(a_step_restored_from_another_directory_is_saved_here),
        with_stage(a_checkpoint_holds_every_hooks_state_of_its_step),
        with_stage(events_are_in_the_file_before_a_checkpoint_is_saved),
        with_stage(each_file_call),
        with_stage(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
