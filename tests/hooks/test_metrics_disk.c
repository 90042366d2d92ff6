/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics files on disks that fail or lose power. */
#include "base/file_spy.h"
#include "hooks/stage.h"
#include "support/disk.h"

#include "base/state.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A session on a faulty disk, with a wrapper that hides the hook's failures, as for a best-effort hook. */
typedef struct {
    disk d;
    bool keeps_quiet; /* also of its creation; the disk already exists */
    hs_hook inner;
    hs_hook_ops ops;
    hs_error last;
} muted;

static hs_code muted_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    muted *m = self;
    (void)err;
    hs_error_clear(&m->last);
    if (m->inner.ops->before_run(m->inner.self, run, args, &m->last))
        *args = NULL;
    return HS_OK;
}

static hs_code muted_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    muted *m = self;
    (void)err;
    if (!m->last.code)
        m->inner.ops->after_run(m->inner.self, run, values, &m->last);
    return HS_OK;
}

static hs_code muted_begin(void *self, hs_backend backend, hs_error *err)
{
    const muted *m = self;
    return m->inner.ops->begin(m->inner.self, backend, err);
}

static hs_code muted_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    const muted *m = self;
    hs_code code = m->inner.ops->after_create_session(m->inner.self, session, coordinator, err);
    return m->keeps_quiet ? HS_OK : code;
}

static void muted_close(void *self, const hs_outcome *outcome)
{
    const muted *m = self;
    m->inner.ops->close(m->inner.self, outcome);
}

static void muted_destroy(void *self)
{
    hs_hook_free(((muted *)self)->inner);
}

static void open_muted(stage *s, muted *m)
{
    if (!m->keeps_quiet)
        disk_init(&m->d);
    s->t.env.files = m->d.files;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    m->inner = hs_metrics_file(.path = "/run/log.csv", .tensors = HS_NAMES("global_step"), .labels = HS_NAMES("x"),
                               .every_n_steps = 1, .no_wall_time = true);
    m->ops = (hs_hook_ops)HS_INIT(hs_hook_ops, .name = "muted", .begin = muted_begin, .after_create_session = muted_create,
                                  .before_run = muted_before, .after_run = muted_after, .close = muted_close,
                                  .destroy = muted_destroy);
    hs_hook hook = {.ops = &m->ops, .self = m};
    assert_ok(stage_try(s, hs_script_backend(s->script), &hook, 1), &s->err);
}

static void assert_on_disk(const disk *d, const char *text)
{
    char found[256] = {0};
    void *file;
    size_t got;
    hs_error err;
    const hs_file_system_ops *ops = d->files.ops;
    assert_ok(ops->open(d->files.user, "/run/log.csv", HS_OPEN_READ, &file, &err), &err);
    assert_ok(ops->read(d->files.user, file, 0, found, sizeof found - 1, &got, &err), &err);
    assert_ok(ops->close(d->files.user, file, &err), &err);
    assert_string_equal(found, text);
}

static void a_full_disk_leaves_no_incomplete_row(void **state)
{
    stage *s = *state;
    static muted m; /* until the session is closed, in the teardown if the test fails */
    m = (muted){0};
    open_muted(s, &m);
    stage_run(s, "train", 10, 0);
    m.d.room = 50; /* within the row of step 11 */
    stage_run(s, "train", 2, 0);
    assert_ok(m.last.code, &m.last);
    assert_contains(s->t.log, "WARNING: step 11: metrics_file: cannot write rows: /run/log.csv");
    m.d.room = 0;
    stage_run(s, "train", 1, 0);
    assert_contains(s->t.log, "INFO: 'metrics_file' recovered after 2 failures in a row");
    assert_on_disk(&m.d, "step,x\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n7,7\n8,8\n9,9\n10,10\n11,11\n13,13\n");
    stage_close(s);
    disk_free(&m.d);
}

static void a_full_disk_does_not_end_the_training(void **state)
{
    stage *s = *state;
    disk d;
    disk_init(&d);
    s->t.env.files = d.files;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    stage_open(s, hs_metrics_file(.path = "/run/log.csv", .tensors = HS_NAMES("global_step"), .labels = HS_NAMES("x"),
                                  .every_n_steps = 10, .no_wall_time = true));
    stage_run(s, "train", 10, 0);
    d.room = 14; /* within the row of step 11 */
    stage_run(s, "train", 30, 0);
    d.room = 0;
    stage_run(s, "train", 20, 0);
    stage_close(s);
    assert_int_equal(hs_outcome_exit_code(&s->outcome), 0);
    assert_int_equal(s->outcome.failures, 3);
    assert_int_equal(count_of(s->t.log, "WARNING: step 11: metrics_file: cannot write rows"), 1);
    assert_on_disk(&d, "step,x\n1,1\n11,11\n41,41\n51,51\n");
    disk_free(&d);
}

static void a_file_that_cannot_be_opened_at_first_fails_the_session(void **state)
{
    stage *s = *state;
    disk d;
    disk_init(&d);
    d.room = 1;
    s->t.env.files = d.files;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    stage_refuses(s, hs_metrics_file(.path = "/run/log.csv", .tensors = HS_NAMES("global_step")), HS_RESOURCE_EXHAUSTED,
                  "/run/log.csv");
    disk_free(&d);
}

/* The steps that it missed are not counted as one run. */
static void a_hook_that_is_called_again_continues_its_schedule(void **state)
{
    stage *s = *state;
    disk d;
    disk_init(&d);
    s->t.env.files = d.files;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    stage_open(s, hs_hook_best_effort(hs_metrics_file(.path = "/run/log.csv", .tensors = HS_NAMES("global_step"),
                                                      .labels = HS_NAMES("x"), .every_n_steps = 100, .no_wall_time = true),
                                      0));
    stage_run(s, "train", 100, 0);
    d.room = 14; /* within the row of step 101 */
    stage_run(s, "train", 65, 0);
    d.room = 0;
    test_env_advance(&s->t, 2);
    stage_run(s, "train", 150, 0);
    stage_close(s);
    assert_on_disk(&d, "step,x\n1,1\n101,101\n201,201\n301,301\n");
    disk_free(&d);
}

static void a_file_that_cannot_be_cut_gets_no_row(void **state)
{
    stage *s = *state;
    disk d;
    hs_state_copy *copy = NULL;
    disk_init(&d);
    s->t.env.files = d.files;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    stage_open(s, hs_metrics_file(.path = "/run/log.csv", .tensors = HS_NAMES("global_step"), .labels = HS_NAMES("x"),
                                  .every_n_steps = 1, .no_wall_time = true));
    stage_run(s, "train", 3, 0);
    hs_raw_session *raw = hs_session_raw(s->session);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &s->err), &s->err);
    stage_run(s, "train", 2, 0);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &s->err), &s->err);
    d.fail_what = "open";
    d.fail_at = d.calls + 1;
    d.fail_until = SIZE_MAX;
    d.fail_code = HS_RESOURCE_EXHAUSTED;
    stage_run(s, "train", 3, 0);
    d.fail_at = d.fail_until = 0;
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_int_equal(s->outcome.failures, 3);
    assert_on_disk(&d, "step,x\n1,1\n2,2\n3,3\n7,7\n");
    hs_state_copy_free(copy);
    disk_free(&d);
}

/* After a failed sync, the system regards unwritten data as written. */
static void a_failed_sync_is_repaired(void **state)
{
    stage *s = *state;
    static muted m; /* until the session is closed, in the teardown if the test fails */
    m = (muted){0};
    hs__buffer state_bytes;
    hs__buffer_init(&state_bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&state_bytes);
    open_muted(s, &m);
    stage_run(s, "train", 2, 0);
    m.d.fail_what = "sync";
    m.d.fail_at = m.d.fail_until = m.d.calls + 1;
    m.d.fail_code = HS_DATA_LOSS;
    assert_ok(m.inner.ops->save_state(m.inner.self, &out, &s->err),
              &s->err); /* a checkpoint is more important than the rows */
    assert_contains(s->t.log, "WARNING: step 2: metrics_file: cannot write rows: /run/log.csv");
    m.d.fail_at = 0;
    assert_ok(m.inner.ops->save_state(m.inner.self, &out, &s->err), &s->err);
    stage_close(s);
    disk_lose_power(&m.d, (disk_loss){.contents = DISK_ZEROES, .names = DISK_LOSES_NAMES});
    assert_on_disk(&m.d, "step,x\n1,1\n2,2\n");
    disk_free(&m.d);
    hs__buffer_free(&state_bytes);
}

/* The state of a held hook may be saved before its next session is created. */
static void a_closed_hook_asks_its_session_nothing(void **state)
{
    stage *s = *state;
    const hs_outcome outcome = {0};
    hs__buffer state_bytes;
    hs_backend backend = hs_script_backend(s->script);
    hs_hook hook =
        hs_metrics_file(.path = test_path(s->directory, "log.csv"), .metrics = HS_NAMES("m"), .every_n_steps = 1);
    hs__buffer_init(&state_bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&state_bytes);
    assert_ok(stage_try(s, backend, NULL, 0), &s->err);
    hs_raw_session *raw = hs_session_raw(s->session);
    assert_ok(hook.ops->begin(hook.self, backend, &s->err), &s->err);
    assert_ok(hook.ops->after_create_session(hook.self, raw, NULL, &s->err), &s->err);
    hook.ops->close(hook.self, &outcome);
    assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
    size_t bytes = state_bytes.size;
    assert_ok(hs_raw_session_set_metric(raw, "m", 5, 1, &s->err), &s->err);
    assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
    assert_int_equal(state_bytes.size, 2 * bytes);
    assert_memory_equal(state_bytes.data, state_bytes.data + bytes, bytes);
    hs__buffer_free(&state_bytes);
    hs_hook_free(hook);
    stage_close(s);
}

static void write_on_disk(disk *d, const char *text)
{
    hs_error err;
    void *file;
    const hs_file_system_ops *ops = d->files.ops;
    assert_ok(ops->open(d->files.user, "/run/log.csv", HS_OPEN_NEW, &file, &err), &err);
    assert_ok(ops->write(d->files.user, file, text, strlen(text), &err), &err);
    assert_ok(ops->sync(d->files.user, file, &err), &err);
    assert_ok(ops->close(d->files.user, file, &err), &err);
    assert_ok(ops->sync_directory(d->files.user, "/run", &err), &err);
}

static void put_on_disk(disk *d, const char *text)
{
    hs_error err;
    const hs_file_system_ops *ops = d->files.ops;
    assert_ok(ops->make_directory(d->files.user, "/run", &err), &err);
    assert_ok(ops->sync_directory(d->files.user, "/", &err), &err);
    write_on_disk(d, text);
}

/* Resumes at step 5 until the disk loses power at this change. False: it lost no power. */
static bool resume_until(stage *s, size_t change, disk_loss loss)
{
    disk d;
    hs_env env = s->t.env;
    disk_init(&d);
    env.files = d.files;
    put_on_disk(&d, "step,x\n1,1\n5,5\n6,6\n7,7\n");
    hs_script *script = hs_script_new(&env);
    hs_script_set_step(script, 5);
    d.cut_at = d.changes + change;
    hs_hook hook = hs_metrics_file(.path = "/run/log.csv", .tensors = HS_NAMES("global_step"), .labels = HS_NAMES("x"),
                                   .every_n_steps = 1, .no_wall_time = true);
    hs_code code = stage_try(s, hs_script_backend(script), &hook, 1);
    if (!code)
        stage_run_once(s, "train");
    if (s->session)
        hs_session_close(s->session, NULL);
    s->session = NULL;
    hs_script_free(script);
    bool went = d.off;
    disk_lose_power(&d, loss);
    const disk_file *file = disk_find(&d, "/run/log.csv");
    assert_non_null(file);
    assert_true(file->cached.size >= 15);
    assert_memory_equal(file->cached.data, "step,x\n1,1\n5,5\n", 15);
    disk_free(&d);
    return went;
}

static void a_power_cut_while_rows_are_cut_loses_no_other_row(void **state)
{
    for (int contents = 0; contents < DISK_CONTENTS_LOSSES; contents++)
        for (int names = 0; names < DISK_NAMES_LOSSES; names++) {
            size_t change = 1;
            while (resume_until(*state, change, (disk_loss){contents, names, change}))
                change++;
            assert_true(change > 4);
        }
}

/* If the first creation of a best-effort hook fails, it is created later. It keeps the rows that it decided to keep at
 * first. */
static void a_failed_opening_is_retried_with_the_same_rows(void **state)
{
    stage *s = *state;
    static muted m;
    m = (muted){.keeps_quiet = true};
    disk_init(&m.d);
    put_on_disk(&m.d, "step,x\n1,9\n");
    m.d.fail_what = "rename";
    m.d.fail_at = m.d.calls + 1;
    m.d.fail_until = SIZE_MAX;
    m.d.fail_code = HS_UNKNOWN;
    open_muted(s, &m);
    stage_run(s, "train", 1, 0);
    assert_says(&m.last, HS_UNKNOWN, "/run/log.csv");
    m.d.fail_at = m.d.fail_until = 0;
    stage_run(s, "train", 2, 0);
    assert_on_disk(&m.d, "step,x\n2,2\n3,3\n");
    assert_true(disk_exists(&m.d, "/run/log.csv.1"));
    stage_close(s);
    disk_free(&m.d);
}

/* A checkpoint that is saved before the file could be opened again has the decision which rows to keep. */
static void a_state_that_is_saved_after_a_failed_opening_keeps_the_rows(void **state)
{
    stage *s = *state;
    static muted m; /* until the session is closed, in the teardown if the test fails */
    m = (muted){0};
    hs__buffer bytes;
    hs__buffer_init(&bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&bytes);
    open_muted(s, &m);
    hs_raw_session *raw = hs_session_raw(s->session);
    const hs_hook hook = m.inner;
    stage_run(s, "train", 3, 0);
    hs_script_set_step(s->script, 2);
    m.d.fail_what = "open";
    m.d.fail_at = m.d.calls + 1;
    m.d.fail_until = SIZE_MAX;
    m.d.fail_code = HS_UNKNOWN;
    assert_ok(hook.ops->after_create_session(hook.self, raw, NULL, &s->err), &s->err);
    stage_run(s, "train", 1, 0);
    assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
    m.d.fail_at = m.d.fail_until = 0;
    hs_state_reader in = {.at = bytes.data, .left = bytes.size, .version = hook.ops->state_version};
    assert_ok(hook.ops->load_state(hook.self, &in, &s->err), &s->err);
    assert_ok(hook.ops->after_create_session(hook.self, raw, NULL, &s->err), &s->err);
    stage_run(s, "train", 1, 0);
    assert_on_disk(&m.d, "step,x\n1,1\n2,2\n4,4\n");
    stage_close(s);
    disk_free(&m.d);
    hs__buffer_free(&bytes);
}

/* The system's limit of file sizes. In a child process, because it applies to all files. */
static void a_file_size_limit_does_not_end_the_training(void **state)
{
    stage *s = *state;
    int status;
    pid_t child = fork();
    if (!child) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 40, .rlim_max = 40});
        signal(SIGXFSZ, SIG_DFL);
        hs_hook hook = hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("global_step"),
                                       .every_n_steps = 1, .labels = HS_NAMES("at"));
        hs_code code = stage_try(s, hs_script_backend(s->script), &hook, 1);
        for (int i = 0; i < 10 && !code; i++)
            code = stage_run_once(s, "train");
        _exit(!code && strstr(s->t.log, ": metrics_file: cannot write rows: ") && strstr(s->t.log, "x.csv") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Returns the file calls of some saves of the hook's state. */
static const char *calls_of_saves(stage *s, file_spy *spy, hs_hook hook, int saves)
{
    hs__buffer bytes;
    hs__buffer_init(&bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&bytes);
    file_spy_forget(spy);
    for (int i = 0; i < saves; i++)
        assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
    hs__buffer_free(&bytes);
    return spy->calls;
}

static void after_a_sync_that_failed_rows_are_copied_once(void **state)
{
    stage *s = *state;
    file_spy spy;
    file_spy_init(&spy, &s->t.env);
    spy.noted = "sync rename";
    spy.what = "sync";
    hs_script_free(s->script);
    s->script = hs_script_new(&spy.env);
    hs_hook hook =
        hs_hook_hold(hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("global_step"),
                                     .labels = HS_NAMES("x"), .every_n_steps = 1, .no_wall_time = true));
    stage_open(s, hook);
    stage_run(s, "train", 2, 0);
    assert_string_equal(calls_of_saves(s, &spy, hook, 1), "sync:x.csv");
    file_spy_fail(&spy, 1, HS_DATA_LOSS);
    assert_string_equal(calls_of_saves(s, &spy, hook, 1), "sync:x.csv");
    assert_contains(s->t.log, "x.csv: injected");
    assert_string_equal(calls_of_saves(s, &spy, hook, 2), "sync:x.csv.tmp rename:x.csv sync:x.csv sync:x.csv");
    stage_close(s);
    hs_hook_free(hook);
}

/* Another process changes the file after a row was written only in part. */
static void assert_continues_after(stage *s, const char *found, const char *expected)
{
    static muted m; /* until the session is closed, in the teardown if the test fails */
    m = (muted){0};
    test_env_clear_log(&s->t);
    open_muted(s, &m);
    stage_run(s, "train", 3, 0);
    m.d.room = 20; /* within the row of step 4 */
    stage_run(s, "train", 1, 0);
    m.d.room = 0;
    assert_ok(m.d.files.ops->remove(m.d.files.user, "/run/log.csv", &s->err), &s->err);
    if (found)
        write_on_disk(&m.d, found);
    stage_run(s, "train", 1, 0);
    assert_on_disk(&m.d, expected);
    assert_int_equal(count_of(s->t.log, "/run/log.csv: another process has changed it"), 1);
    stage_close(s);
    disk_free(&m.d);
}

static void a_file_that_another_process_has_changed_keeps_its_whole_rows(void **state)
{
    assert_continues_after(*state, "step,x\n1,1\n2,", "step,x\n1,1\n4,4\n5,5\n");
    assert_continues_after(*state, "step,x\n1,1\n2,2\n3,3\n4,4\n5,9\n", "step,x\n1,1\n2,2\n3,3\n4,4\n5,5\n");
    assert_continues_after(*state, NULL, "step,x\n4,4\n5,5\n");
}

static int next_descriptor(void)
{
    int next = dup(1);
    close(next);
    return next;
}

static void a_file_that_is_opened_again_is_closed_first(void **state)
{
    stage *s = *state;
    hs_state_copy *copy = NULL;
    const int before = next_descriptor();
    stage_open(s, hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("global_step"),
                                  .every_n_steps = 1));
    hs_raw_session *raw = hs_session_raw(s->session);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &s->err), &s->err);
    for (int i = 0; i < 3; i++) {
        assert_ok(hs_raw_session_restore_copy(raw, copy, &s->err), &s->err);
        stage_run(s, "train", 1, 0);
    }
    hs_state_copy_free(copy);
    stage_close(s);
    assert_int_equal(next_descriptor(), before);
}

/* A resumed run in a failing environment. */
static hs_code run_and_resume(test_env *t, void *user)
{
    hs_error err = {0};
    char *directory = user;
    test_tolerate(t, "; the last lines may be missing"); /* a close returns no error */
    test_tolerate(t, "'metrics_file' failed 1 time, and training continued");
    unlink(test_path(directory, "x.csv"));
    for (int round = 0; round < 2 && !err.code; round++) {
        hs_script *script = hs_script_new(&t->env);
        if (!script)
            return HS_RESOURCE_EXHAUSTED;
        hs_script_set_step(script, round ? 5 : 0);
        hs_hook hook = hs_metrics_file(.path = test_path(directory, "x.csv"), .tensors = HS_NAMES("global_step"),
                                       .labels = HS_NAMES("at"), .metrics = HS_NAMES("m"), .every_n_steps = 1);
        hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
        hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
        for (int i = 0; i < 8 && session && !err.code; i++)
            hs_session_run(session, "train", &err);
        hs_session_close(session, err.code ? NULL : &err);
        hs_script_free(script);
    }
    return err.code;
}

static void whole_lines_are_left(void *user)
{
    size_t bytes;
    char *text = test_read_file(test_path(user, "x.csv"), &bytes);
    if (text && bytes && text[bytes - 1] == '\n')
        assert_memory_equal(text, "step,wall_time,at,m\n", 20);
    free(text);
}

static void each_allocation_and_each_file_call(void **state)
{
    stage *s = *state;
    test_each_allocation(run_and_resume, s->directory);
    test_each_file_call(run_and_resume, whole_lines_are_left, ENOSPC, false, s->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_full_disk_leaves_no_incomplete_row),
        with_stage(a_full_disk_does_not_end_the_training),
        with_stage(a_file_that_cannot_be_opened_at_first_fails_the_session),
        with_stage(a_hook_that_is_called_again_continues_its_schedule),
        with_stage(a_file_that_cannot_be_cut_gets_no_row),
        with_stage(a_failed_sync_is_repaired),
        with_stage(a_closed_hook_asks_its_session_nothing),
        with_stage(after_a_sync_that_failed_rows_are_copied_once),
        with_stage(a_file_that_another_process_has_changed_keeps_its_whole_rows),
        with_stage(a_file_that_is_opened_again_is_closed_first),
        with_stage(a_power_cut_while_rows_are_cut_loses_no_other_row),
        with_stage(a_failed_opening_is_retried_with_the_same_rows),
        with_stage(a_state_that_is_saved_after_a_failed_opening_keeps_the_rows),
        with_stage(a_file_size_limit_does_not_end_the_training),
        with_stage(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
