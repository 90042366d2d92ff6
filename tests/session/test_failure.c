/* SPDX-License-Identifier: Apache-2.0 */
/* What the session decides about failures of saves, of reported work and of best-effort hooks, by code and errno. */
#include "hooks/stage.h"

#include <errno.h>

/* A hook whose state cannot be saved while `error` is set, and that fails with it in after_run if `in_runs` is set. */
typedef struct {
    hs_error error;
    bool in_runs;
    int calls;
} faulty;

static hs_code fail_as_set(const faulty *f, hs_error *err)
{
    if (f->error.code)
        *err = f->error;
    return f->error.code;
}

static hs_code faulty_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    faulty *f = self;
    (void)run, (void)values;
    f->calls += f->in_runs;
    return f->in_runs ? fail_as_set(f, err) : HS_OK;
}

static hs_code faulty_save(void *self, hs_state_writer *out, hs_error *err)
{
    (void)out;
    return fail_as_set(self, err);
}

static hs_code faulty_load(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

static const hs_hook_ops faulty_ops =
    HS_INIT(hs_hook_ops, .name = "faulty", .after_run = faulty_after, .save_state = faulty_save, .load_state = faulty_load);

/* The rows of the table, in order. */
typedef struct {
    hs_code code;
    int os_error;
    bool save_fails, work_fails;
} row;

static const row rows[] = {
    {HS_ABORTED, 0, true, false},
    {HS_ABORTED, ESTALE, true, false},
    {HS_UNAVAILABLE, 0, true, false},
    {HS_UNAVAILABLE, EIO, true, false},
    {HS_RESOURCE_EXHAUSTED, 0, false, false}, /* memory */
    {HS_RESOURCE_EXHAUSTED, ENOSPC, false, false},
    {HS_RESOURCE_EXHAUSTED, EDQUOT, false, false},
    {HS_RESOURCE_EXHAUSTED, EMFILE, false, false},
    {HS_UNKNOWN, EIO, false, false},
    {HS_PERMISSION_DENIED, EROFS, false, false},
    {HS_DATA_LOSS, EIO, false, false},
    {HS_INVALID_ARGUMENT, EINVAL, false, false},
    {HS_INVALID_ARGUMENT, 0, true, true},
    {HS_UNKNOWN, 0, true, false},
    {HS_DATA_LOSS, 0, true, false},
    {HS_FAILED_PRECONDITION, 0, true, false},
    {HS_OUT_OF_RANGE, 0, true, false},
    {HS_USER, 0, true, false},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static hs_error error_of(const row *r)
{
    hs_error error = {0};
    hs_error_set(&error, r->code, "%s with errno %d", hs_code_name(r->code), r->os_error);
    error.os_error = r->os_error;
    return error;
}

/* Opens a session with the hook and a saver of each step. */
static void open_faulty(stage *s, faulty *f, hs_save_failure on_failure)
{
    const hs_hook hooks[] = {
        {.ops = &faulty_ops, .self = f},
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .on_failure = on_failure)};
    f->error = (hs_error){0};
    test_empty_directory(s->directory);
    hs_script_set_step(s->script, 0);
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
}

static void close_failed(stage *s)
{
    s->outcome = hs_session_close(s->session, NULL);
    s->session = NULL;
}

static void the_table_decides_about_saves(void **state)
{
    stage *s = *state;
    static faulty f; /* until the session is closed, in the teardown if the test fails */
    for (size_t i = 0; i < N_ROWS; i++) {
        open_faulty(s, &f, HS_SAVE_FAILURE_SKIP);
        f.error = error_of(&rows[i]);
        hs_code code = stage_run_once(s, "train");
        if (code != (rows[i].save_fails ? rows[i].code : HS_OK))
            fail_msg("%s: %s", f.error.message, hs_code_name(code));
        f.error = (hs_error){0};
        if (!code)
            stage_run(s, "train", 1, 0);
        close_failed(s);
        assert_int_equal(s->outcome.failures, !rows[i].save_fails);
    }
}

/* Even with a policy that never gives up. */
static void errors_that_no_retry_can_mend_fail_a_save_at_once(void **state)
{
    stage *s = *state;
    static faulty f;
    const int64_t before = s->t.now_ns;
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].save_fails) {
            open_faulty(s, &f, HS_SAVE_FAILURE_PAUSE);
            f.error = error_of(&rows[i]);
            assert_int_equal(stage_run_once(s, "train"), rows[i].code);
            close_failed(s);
        }
    assert_int_equal(s->t.now_ns, before);
}

static void the_table_decides_about_reported_work(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_at_step(.last_step = 100));
    hs_raw_session *raw = hs_session_raw(s->session);
    int failures = 0;
    for (size_t i = 0; i < N_ROWS; i++) {
        hs_error error = error_of(&rows[i]);
        const hs_code code = hs_raw_session_report_result(raw, "upload", error.code, &error);
        if (code != (rows[i].work_fails ? rows[i].code : HS_OK) || error.code != code)
            fail_msg("%s with errno %d: %s", hs_code_name(rows[i].code), rows[i].os_error, hs_code_name(code));
        failures += !code;
    }
    stage_close(s);
    assert_int_equal(s->outcome.failures, failures);
    assert_int_equal(s->outcome.failing_hooks, 1);
}

static void a_best_effort_hook_is_retried_after_any_code(void **state)
{
    stage *s = *state;
    static faulty f;
    for (size_t i = 0; i < N_ROWS; i++) {
        f = (faulty){.in_runs = true, .error = error_of(&rows[i])};
        stage_open(s, hs_hook_best_effort((hs_hook){.ops = &faulty_ops, .self = &f}, 0));
        stage_run(s, "train", 2, 0);
        assert_int_equal(f.calls, 1);
        test_env_advance(&s->t, 1);
        f.error = (hs_error){0};
        stage_run(s, "train", 2, 0);
        assert_int_equal(f.calls, 3);
        stage_close(s);
        assert_int_equal(s->outcome.failures, 1);
    }
}

/* The log. */

static void work_is_logged_once_until_it_recovers(void **state)
{
    stage *s = *state;
    stage_open(s, hs_stop_at_step(.last_step = 100));
    hs_raw_session *raw = hs_session_raw(s->session);
    for (int round = 0; round < 2; round++) {
        stage_run(s, "train", 1, 0);
        test_env_clear_log(&s->t);
        for (int i = 0; i < 3; i++) {
            hs_error error = error_of(&rows[5]);
            assert_int_equal(hs_raw_session_report_result(raw, "upload", error.code, &error), HS_OK);
        }
        assert_int_equal(count_of(s->t.log, "WARNING: "), 1);
        assert_contains(s->t.log, round
                                      ? "WARNING: step 2: upload: RESOURCE_EXHAUSTED with errno 28; training continues\n"
                                      : "WARNING: step 1: upload: RESOURCE_EXHAUSTED with errno 28; training continues\n");
        for (int i = 0; i < 2; i++)
            assert_ok(hs_raw_session_report_result(raw, "upload", HS_OK, &s->err), &s->err);
        assert_int_equal(count_of(s->t.log, "INFO: 'upload' recovered after 3 failures in a row\n"), 1);
    }
    stage_close(s);
    assert_contains(s->t.log, "'upload' failed 6 times, and training continued; last error: RESOURCE_EXHAUSTED");
}

static void each_save_that_is_skipped_is_a_warning(void **state)
{
    stage *s = *state;
    static faulty f;
    open_faulty(s, &f, HS_SAVE_FAILURE_SKIP);
    f.error = error_of(&rows[5]);
    stage_run(s, "train", 3, 0);
    assert_contains(s->t.log, "WARNING: step 1: not saved: ");
    assert_contains(s->t.log, "WARNING: step 3: not saved: ");
    assert_int_equal(count_of(s->t.log, "with errno 28; training continues\n"), 3);
    f.error = (hs_error){0};
    stage_run(s, "train", 1, 0);
    assert_contains(s->t.log, "INFO: 'checkpoint_saver' recovered after 3 failures in a row\n");
    stage_close(s);
}

/* A clock whose sleep mends the hook. */
static faulty *sleeping;
static int rounds;

static void mend_in_sleep(void *user, int64_t ns)
{
    ((test_env *)user)->now_ns += ns;
    if (--rounds == 0)
        sleeping->error.code = HS_OK;
}

static void a_pause_counts_each_attempt_and_warns_once(void **state)
{
    stage *s = *state;
    static faulty f;
    s->t.env.clock.sleep_ns = mend_in_sleep;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    open_faulty(s, &f, HS_SAVE_FAILURE_PAUSE);
    f.error = error_of(&rows[5]);
    sleeping = &f;
    rounds = 3;
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 1);
    assert_int_equal(count_of(s->t.log, "WARNING: step 1: not saved: "), 1);
    assert_int_equal(count_of(s->t.log, "; retrying in 1 s\n"), 3);
    stage_close(s);
    assert_int_equal(s->outcome.failures, 3);
}

/* Several reporters. */

static hs_hook_failure failure_at(stage *s, size_t index)
{
    hs_hook_failure failure = {.hook = NULL};
    assert_true(hs_raw_session_failure(hs_session_raw(s->session), index, &failure));
    return failure;
}

/* A file system on which one directory is full while `full` is set. */
typedef struct {
    hs_file_system under;
    hs_file_system_ops ops;
    const char *full; /* a part of paths */
} half_full;

static hs_code open_unless_full(void *user, const char *path, int mode, void **file, hs_error *err)
{
    half_full *disk = user;
    if (disk->full && strstr(path, disk->full))
        return hs_error_set_errno(err, ENOSPC, "cannot open '%s'", path);
    return disk->under.ops->open(disk->under.user, path, mode, file, err);
}

static void use_half_full(stage *s, half_full *disk)
{
    *disk = (half_full){.under = hs_env_default()->files};
    disk->ops = *disk->under.ops;
    disk->ops.open = open_unless_full;
    s->t.env.files = (hs_file_system){&disk->ops, disk};
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
}

static void two_savers_do_not_share_their_backoff(void **state)
{
    stage *s = *state;
    static half_full disk;
    use_half_full(s, &disk);
    char *a = strdup(test_path(s->directory, "a")), *b = strdup(test_path(s->directory, "b"));
    hs_saver *savers[2];
    for (int i = 0; i < 2; i++)
        savers[i] = hs_saver_new(HS_SAVER_OPTIONS(.env = &s->t.env), &s->err);
    const hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = a, .every_n_steps = 1, .saver = savers[0],
                                                 .on_failure = HS_SAVE_FAILURE_RETRY),
                             hs_checkpoint_saver(.checkpoint_dir = b, .every_n_steps = 1, .saver = savers[1],
                                                 .on_failure = HS_SAVE_FAILURE_RETRY)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    const double waits[] = {1, 2, 4};
    int64_t step = 1;
    disk.full = "/b/";
    stage_run(s, "train", 1, 0);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        assert_int_equal(latest_step(a), step);
        assert_int_equal(failure_at(s, 0).failures, i + 1);
        test_env_advance(&s->t, waits[i] - 0.5);
        stage_run(s, "train", 1, 0); /* not yet */
        assert_int_equal(latest_step(a), ++step);
        assert_int_equal(failure_at(s, 0).failures, i + 1);
        test_env_advance(&s->t, 0.5);
        if (waits[i] == 4)
            disk.full = NULL;
        stage_run(s, "train", 1, 0);
        step++;
    }
    assert_int_equal(latest_step(b), step);
    assert_int_equal(count_of(s->t.log, "'checkpoint_saver' recovered after 3 failures in a row"), 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(b), ++step);
    stage_close(s);
    assert_int_equal(s->outcome.failing_hooks, 1);
    assert_int_equal(s->outcome.failures, 3);
    for (int i = 0; i < 2; i++)
        hs_saver_free(savers[i]);
    free(a);
    free(b);
}

static void two_hooks_of_one_name_do_not_share_their_backoff(void **state)
{
    stage *s = *state;
    static faulty f, g;
    f = (faulty){.in_runs = true, .error = error_of(&rows[5])};
    g = (faulty){.in_runs = true};
    const hs_hook hooks[] = {hs_hook_best_effort((hs_hook){.ops = &faulty_ops, .self = &f}, 0),
                             hs_hook_best_effort((hs_hook){.ops = &faulty_ops, .self = &g}, 2)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 3, 1); /* f fails in the runs at 0 s and 1 s, and waits at 2 s */
    assert_int_equal(f.calls, 2);
    assert_int_equal(g.calls, 3);
    g.error = error_of(&rows[5]);
    stage_run(s, "train", 2, 1); /* g fails at 2 s for the first time, and f at 3 s */
    assert_int_equal(f.calls, 3);
    assert_int_equal(g.calls, 5);
    assert_int_equal(failure_at(s, 0).failures, 3);
    assert_int_equal(failure_at(s, 1).failures, 2);
    stage_run(s, "train", 2, 100);
    assert_int_equal(f.calls, 4);
    assert_int_equal(g.calls, 5); /* disabled after two */
    stage_close(s);
    assert_int_equal(s->outcome.failing_hooks, 2);
}

/* A sink that fails in write, and in flush, while these are set. */
typedef struct {
    bool write_fails, flush_fails;
    int rows;
} sink_state;

static hs_code sink_write(void *self, const hs_scalar_row *line, hs_error *err)
{
    sink_state *sink = self;
    (void)line;
    sink->rows += !sink->write_fails;
    return sink->write_fails ? hs_error_set_errno(err, ENOSPC, "no row") : HS_OK;
}

static hs_code sink_flush(void *self, hs_error *err)
{
    const sink_state *sink = self;
    return sink->flush_fails ? hs_error_set_errno(err, EIO, "no flush") : HS_OK;
}

static hs_code sink_save(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, 1, err);
}

static hs_code sink_load(void *self, hs_state_reader *in, hs_error *err)
{
    char byte;
    (void)self;
    return hs_state_reader_read(in, &byte, 1, err);
}

static const hs_scalar_sink_ops sink_ops = HS_INIT(hs_scalar_sink_ops, .name = "rows", .write = sink_write,
                                                   .flush = sink_flush, .save_state = sink_save, .load_state = sink_load);

static hs_hook sink_hook(sink_state *sink)
{
    return hs_scalars(.tensors = HS_NAMES("global_step"), .every_n_steps = 1, .sink = {.ops = &sink_ops, .self = sink});
}

/* The success of one is not the recovery of the other. A flush before a checkpoint belongs to the sink, not to the saver.
 */
static void two_sinks_of_one_name_do_not_share_their_failures(void **state)
{
    stage *s = *state;
    static sink_state bad, good;
    bad = good = (sink_state){0};
    const hs_hook hooks[] = {sink_hook(&bad), sink_hook(&good),
                             hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 3)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 3), &s->err);
    bad.write_fails = true;
    stage_run(s, "train", 2, 0);
    bad.flush_fails = true;
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 3);
    assert_int_equal(count_of(s->t.log, "WARNING: "), 1);
    assert_contains(s->t.log, "WARNING: step 1: rows: cannot write rows: no row: ");
    assert_int_equal(failure_at(s, 0).failures, 4);
    assert_int_equal(failure_at(s, 0).last.os_error, EIO);
    bad = (sink_state){0};
    stage_run(s, "train", 1, 0);
    assert_int_equal(good.rows, 4);
    assert_int_equal(count_of(s->t.log, "INFO: 'rows' recovered after 4 failures in a row\n"), 1);
    stage_close(s);
    assert_int_equal(s->outcome.failing_hooks, 1);
    assert_int_equal(s->outcome.failures, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(the_table_decides_about_saves),
        with_stage(errors_that_no_retry_can_mend_fail_a_save_at_once),
        with_stage(the_table_decides_about_reported_work),
        with_stage(a_best_effort_hook_is_retried_after_any_code),
        with_stage(work_is_logged_once_until_it_recovers),
        with_stage(each_save_that_is_skipped_is_a_warning),
        with_stage(a_pause_counts_each_attempt_and_warns_once),
        with_stage(two_savers_do_not_share_their_backoff),
        with_stage(two_hooks_of_one_name_do_not_share_their_backoff),
        with_stage(two_sinks_of_one_name_do_not_share_their_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
