/* SPDX-License-Identifier: Apache-2.0 */
/* Each call of the file system and each allocation of a save and a restore fails in turn. */
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include "checkpoint/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* A save into a directory with the checkpoint of step 1. */
typedef struct {
    fixture *f;      /* its environment does not fail */
    int64_t name;    /* the step in the name */
    int64_t content; /* the model's */
    hs_error err;
} scene;

static void begin_scene(scene *s)
{
    fixture *f = s->f;
    test_empty_directory(f->directory);
    test_env_clear_log(&f->t);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 1);
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}}; /* of the state file's list */
    assert_int_equal(utimensat(AT_FDCWD, file_of(f, 1, "index"), times, 0), 0);
}

static hs_code save_as(scene *s, model *m, const hs_env *env)
{
    hs_saver_options options = HS_INIT(hs_saver_options, .env = env);
    hs_saver *saver = hs_saver_new(&options, &s->err);
    if (!saver)
        return s->err.code;
    hs_code code = hs_saver_recover(saver, HS_NAMES(file_of(s->f, 1, NULL)), &s->err);
    if (!code)
        code = hs_saver_save(saver, model_raw(m), test_path(s->f->directory, "model.ckpt"), s->name, NULL, &s->err);
    hs_saver_free(saver);
    return code;
}

static hs_code saving(test_env *t, void *user)
{
    scene *s = user;
    model m = {.step = 0};
    test_tolerate_harmless(t);                        /* looking for leftovers */
    test_tolerate(t, "; a power failure may lose '"); /* the directory was not made here */
    begin_scene(s);
    model_set(&m, s->content);
    hs_code code = model_open(&m, &t->env, NULL);
    if (!code)
        code = save_as(s, &m, &t->env);
    model_close(&m);
    return code;
}

/* Every model of these tests has the same graph. */
static void assert_meta_is_whole(const fixture *f, int64_t step)
{
    size_t bytes;
    hs_bytes wanted;
    char *meta = test_read_file(file_of(f, step, "meta"), &bytes);
    assert_non_null(meta);
    assert_int_equal(hs_backend_export_meta_graph(hs_graph_backend(f->m.graph), f->saver, &wanted, NULL), HS_OK);
    assert_int_equal(bytes, wanted.size);
    assert_memory_equal(meta, wanted.data, bytes);
    hs_env_free(&f->t.env, (void *)wanted.data);
    free(meta);
}

/* A restart restores the old or the new checkpoint, which is intact. */
static void old_or_new(void *user)
{
    scene *s = user;
    assert_ok(restart(s->f), &s->f->err);
    assert_true(model_is(&s->f->m, 1) || model_is(&s->f->m, s->content));
    assert_lacks(s->f->t.log, "WARNING");
    assert_int_equal(test_count_files(s->f->directory, ".tmp"), 0);
    assert_true(has_file(s->f, s->name, "index") || !has_file(s->f, s->name, "meta"));
    assert_meta_is_whole(s->f, 1);
}

static void fail_each_file_call(fixture *f, int64_t name, int os_error)
{
    scene s = {.f = f, .name = name, .content = 2};
    test_each_file_call(saving, old_or_new, os_error, false, &s);
    assert_true(model_is(&f->m, 2));
    test_each_file_call(saving, old_or_new, os_error, true, &s);
    assert_true(model_is(&f->m, 2));
}

static void fresh_save_on_a_full_disk(void **state)
{
    fail_each_file_call(*state, 2, ENOSPC);
}

static void fresh_save_on_a_failing_disk(void **state)
{
    fail_each_file_call(*state, 2, EIO);
}

static void saving_over_a_checkpoint_on_a_full_disk(void **state)
{
    fail_each_file_call(*state, 1, ENOSPC);
}

static void saving_over_a_checkpoint_on_a_failing_disk(void **state)
{
    fail_each_file_call(*state, 1, EIO);
}

/* Includes calls whose failure is allowed: stat, remove. */
static void saving_over_a_checkpoint_with_every_kind_of_call_failing(void **state)
{
    fixture *f = *state;
    scene s = {.f = f, .name = 1, .content = 2};
    file_spy spy;
    size_t n = 0, failures = 0;
    file_spy_init(&spy, &f->t.env);
    do {
        model m = {.step = 0};
        begin_scene(&s);
        model_set(&m, 2);
        assert_ok(model_open(&m, &f->t.env, NULL), &m.err);
        file_spy_fail(&spy, ++n, HS_UNKNOWN);
        hs_code code = save_as(&s, &m, &spy.env);
        assert_true(code == HS_OK || code == HS_UNKNOWN);
        failures += code != HS_OK;
        model_close(&m);
        test_env_clear_log(&f->t); /* of what could not be cleaned up */
        old_or_new(&s);
        assert_true(code || model_is(&f->m, 2));
    } while (spy.matches >= n);
    assert_true(failures > 15);
}

/* A crash: from one call on, all calls fail, also the calls that clean up. */

static hs_code remove_unless_crashed(void *user, const char *path, hs_error *err)
{
    const test_env *t = user;
    if (t->fail_file_at && t->file_calls >= t->fail_file_at)
        return HS_OK;
    return hs_env_default()->files.ops->remove(NULL, path, err);
}

/* Saves until the nth call. Returns false if the save has fewer calls. */
static bool crash_at(scene *s, size_t n)
{
    static test_env t;
    model m = {.step = 0};
    begin_scene(s);
    test_env_init(&t);
    hs_file_system_ops ops = *t.env.files.ops;
    ops.remove = remove_unless_crashed;
    t.env.files.ops = &ops;
    t.fail_file_at = n;
    t.fail_file_on = true;
    model_set(&m, s->content);
    assert_ok(model_open(&m, &t.env, NULL), &m.err);
    save_as(s, &m, &t.env);
    model_close(&m);
    return t.file_calls >= n;
}

static void crash_everywhere(fixture *f, int64_t name)
{
    scene s = {.f = f, .name = name, .content = 2};
    size_t n = 1;
    for (; crash_at(&s, n); n++) {
        assert_ok(restart(f), &f->err);
        assert_true(model_is(&f->m, 1) || model_is(&f->m, 2));
        assert_lacks(f->t.log, "WARNING");
        save_at(f, 3); /* remaining files do not disturb the next save */
        assert_ok(restart(f), &f->err);
        assert_true(model_is(&f->m, 3));
    }
    assert_true(n > 10);
}

static void a_crash_during_a_fresh_save(void **state)
{
    crash_everywhere(*state, 2);
}

static void a_crash_while_saving_over_a_checkpoint(void **state)
{
    crash_everywhere(*state, 1);
}

/* New data must not get the name of the old data file while the old index exists, even if reading the index failed. */
static void an_index_that_cannot_be_read_is_not_saved_over(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    f->t.fail_file_at = f->t.file_calls + 1; /* opening the index */
    f->t.fail_file_errno = EIO;
    model_set(&f->m, 2);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), file_of(f, 1, NULL), -1, NULL, &f->err);
    assert_fails(code, hs_code_from_errno(EIO), &f->err, "injected");
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

/* The files of a damaged checkpoint may be replaced. */
static void a_damaged_index_is_saved_over(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    truncate_to(file_of(f, 1, "index"), 20);
    save_at(f, 1);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

static void saving_over_and_over_leaves_one_data_file(void **state)
{
    fixture *f = *state;
    for (int64_t content = 1; content <= 4; content++) {
        model_set(&f->m, content);
        assert_ok(hs_saver_save(f->saver, model_raw(&f->m), file_of(f, 1, NULL), -1, NULL, &f->err), &f->err);
        assert_int_equal(test_count_files(f->directory, ".data-"), 1);
        assert_ok(restart(f), &f->err);
        assert_true(model_is(&f->m, content));
    }
}

static hs_code save_and_restore(test_env *t, void *user)
{
    fixture *f = user;
    model m = {.step = 0};
    hs_error err = {0};
    char *path = NULL;
    test_tolerate_harmless(t);                     /* looking for leftovers */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_empty_directory(f->directory);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env, .max_to_keep = 1), &err);
    hs_code code = saver ? model_open(&m, &t->env, NULL) : err.code;
    if (saver && !code)
        code = hs_saver_save(saver, model_raw(&m), test_path(f->directory, "model.ckpt"), 5, NULL, &err);
    if (saver && !code)
        code = hs_saver_save(saver, model_raw(&m), test_path(f->directory, "model.ckpt"), 6, NULL, &err);
    if (saver && !code)
        code = hs__restore_newest(saver, model_raw(&m), f->directory, HS_RESTORE_OPTIONS(), &path, &err);
    hs_env_free(&t->env, path);
    hs_saver_free(saver);
    model_close(&m);
    return code;
}

static void each_allocation_of_saving_and_restoring(void **state)
{
    test_each_allocation(save_and_restore, *state);
}

/* If reading the newest fails, the one before may be restored. */
static void each_file_call_of_restoring(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    size_t before = f->t.file_calls;
    assert_ok(restore_newest(f), &f->err);
    size_t calls = f->t.file_calls - before;
    assert_true(calls > 5);
    f->t.fail_file_errno = EIO;
    for (size_t n = 1; n <= calls; n++) {
        f->t.fail_file_at = f->t.file_calls + n;
        hs_code code = restore_newest(f);
        f->t.fail_file_at = 0;
        assert_true(code || model_is(&f->m, 2) || model_is(&f->m, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(fresh_save_on_a_full_disk),
        with_fixture(fresh_save_on_a_failing_disk),
        with_fixture(saving_over_a_checkpoint_on_a_full_disk),
        with_fixture(saving_over_a_checkpoint_on_a_failing_disk),
        with_fixture(saving_over_a_checkpoint_with_every_kind_of_call_failing),
        with_fixture(a_crash_during_a_fresh_save),
        with_fixture(a_crash_while_saving_over_a_checkpoint),
        with_fixture(an_index_that_cannot_be_read_is_not_saved_over),
        with_fixture(a_damaged_index_is_saved_over),
        with_fixture(saving_over_and_over_leaves_one_data_file),
        with_fixture(each_allocation_of_saving_and_restoring),
        with_fixture(each_file_call_of_restoring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
