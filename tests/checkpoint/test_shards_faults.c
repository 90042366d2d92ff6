/* SPDX-License-Identifier: Apache-2.0 */
/* Saves of several data files that fail or are cancelled. */
#include "checkpoint/wall.h"

#include "checkpoint/commit.h"
#include "checkpoint/save.h"
#include "checkpoint/snapshot.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>

/* Threads that cannot be started. */
static size_t threads_left = SIZE_MAX;
int __real_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);
int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    if (!threads_left)
        return EAGAIN;
    threads_left--;
    return __real_hs__thread_start(thread, body, user);
}

static void without_threads_the_caller_writes(void **state)
{
    fixture *f = *state;
    wall w;
    assert_ok(wall_open(&w, &f->t.env, (wall_kind){.no_state = false}), &w.err);
    use_shards(f, 4);
    for (size_t threads = 0; threads <= 3; threads++) {
        threads_left = threads;
        assert_ok(wall_save(&w, f, (int64_t)threads, NULL), &f->err);
        assert_int_equal(threads_left, 0); /* it would have had more */
        threads_left = SIZE_MAX;
        assert_wall(&w, f, (int64_t)threads);
    }
    wall_close(&w);
}

/* Each allocation, in the foreground and in the background. */
typedef struct {
    fixture *f;
    bool background;
} scene;

static hs_code save_with(hs_saver *saver, const wall *w, const scene *s, hs_error *err)
{
    hs_save_options options = HS_INIT(hs_save_options, .background = s->background);
    hs_code code = hs_saver_save(saver, hs_session_raw(w->session), test_path(s->f->directory, "wall"), -1, &options, err);
    hs_save_result result;
    hs_saver_wait(saver);
    if (!code && s->background && hs_saver_poll(saver, NULL, &result))
        code = (*err = result.error).code;
    return code;
}

/* Twice, with another number of files. */
static hs_code save_again(test_env *t, void *user)
{
    const scene *s = user;
    wall w;
    hs_error err = {0};
    test_tolerate_harmless(t); /* failures without effect: the copy grows instead, and the sweep is skipped */
    test_tolerate(t, "': no memory for its path");    /* old data */
    test_tolerate(t, "; a power failure may lose '"); /* the directory was not made here */
    hs_code code = wall_open(&w, &t->env, (wall_kind){.on_device[3] = true});
    wall_set(&w, 2);
    for (int64_t shards = 2; shards <= 3 && !code; shards++) {
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env, .shards = shards), &err);
        code = saver ? save_with(saver, &w, s, &err) : err.code;
        hs_saver_free(saver);
    }
    assert_lacks(err.message, "the bundle is finished or has failed"); /* the error is the first cause */
    wall_close(&w);
    return code;
}

static hs_code save_first(test_env *t, void *user)
{
    const scene *s = user;
    test_empty_directory(s->f->directory);
    return save_again(t, user);
}

static void any_allocation_may_fail(void **state)
{
    scene s = {.f = *state};
    test_each_allocation(save_first, &s);
    s.background = true;
    test_each_allocation(save_first, &s);
}

/* Each call of the file system. The existing checkpoint has content 1. */

static hs_code save_over(test_env *t, void *user)
{
    const scene *s = user;
    wall w;
    test_empty_directory(s->f->directory);
    assert_ok(wall_open(&w, &s->f->t.env, (wall_kind){.no_state = false}), &w.err);
    use_shards(s->f, 2);
    assert_ok(wall_save(&w, s->f, 1, NULL), &s->f->err);
    use_shards(s->f, 2); /* lets go of the directory */
    wall_close(&w);
    return save_again(t, user);
}

static void old_or_new(void *user)
{
    const scene *s = user;
    wall w;
    assert_ok(wall_open(&w, &s->f->t.env, (wall_kind){.no_state = false}), &w.err);
    assert_ok(
        hs_saver_restore(s->f->saver, hs_session_raw(w.session), test_path(s->f->directory, "wall"), NULL, &s->f->err),
        &s->f->err);
    assert_true(wall_is(&w, 1) || wall_is(&w, 2));
    assert_int_equal(test_count_files(s->f->directory, ".tmp"), 0);
    assert_ok(hs_saver_hold(s->f->saver, NULL, test_path(s->f->directory, "wall"), &s->f->err), &s->f->err);
    size_t files = test_count_files(s->f->directory, "wall.data-"); /* and the others have gone */
    hs__bundle_reader reader;
    open_bundle(s->f, "wall", &reader);
    assert_int_equal(files, shard_bytes(s->f, "wall", 0, reader.shards) >= 0 ? reader.shards : reader.shards - 1);
    hs__bundle_reader_close(&reader);
    wall_close(&w);
}

static void any_file_call_may_fail(void **state)
{
    scene s = {.f = *state};
    for (int i = 0; i < 4; i++) {
        s.background = i / 2;
        test_each_file_call(save_over, old_or_new, i % 2 ? EIO : ENOSPC, i % 2, &s);
    }
}

/* The error is returned, and no files remain. */
static void a_failing_file_fails_the_save(void **state)
{
    fixture *f = *state;
    wall w;
    assert_ok(wall_open(&w, &f->t.env, (wall_kind){.no_state = false}), &w.err);
    use_shards(f, 4);
    assert_ok(hs_saver_hold(f->saver, NULL, test_path(f->directory, "wall"), &f->err), &f->err);
    for (size_t call = 0; call < 12; call++) { /* opening, writing, syncing and closing */
        f->t.fail_file_at = f->t.file_calls + 3 + call;
        f->t.fail_file_on = true;
        assert_fails(wall_save(&w, f, 1, NULL), HS_RESOURCE_EXHAUSTED, &f->err, "injected into call");
        f->t.fail_file_at = 0;
        assert_int_equal(test_count_files(f->directory, "wall"), 0);
    }
    wall_close(&w);
}

/* Saves that are not wanted any more. */

static atomic_int checks_left = INT_MAX;
static atomic_bool cancel;
hs_code __real_hs__new_checkpoint_check_cancel(const hs__new_checkpoint *files, hs_error *err);
hs_code __wrap_hs__new_checkpoint_check_cancel(const hs__new_checkpoint *files, hs_error *err);

hs_code __wrap_hs__new_checkpoint_check_cancel(const hs__new_checkpoint *files, hs_error *err)
{
    if (files->cancel && atomic_fetch_sub(&checks_left, 1) <= 0)
        atomic_store(&cancel, true);
    return __real_hs__new_checkpoint_check_cancel(files, err);
}

static void a_save_may_be_cancelled_at_any_tensor(void **state)
{
    fixture *f = *state;
    wall w;
    hs__snapshot snapshot;
    hs__save_list list;
    hs_code code = HS_CANCELLED;
    int asked = 0;
    assert_ok(wall_open(&w, &f->t.env, (wall_kind){.no_state = false}), &w.err);
    wall_set(&w, 6);
    use_shards(f, 3);
    assert_int_equal(hs__snapshot_init(&snapshot, &f->t.env), 0);
    assert_ok(hs__save_list_make(&list, &f->t.env, &f->saver->selection, hs_session_raw(w.session), &f->err), &f->err);
    assert_ok(hs__snapshot_take(&snapshot, &list, false, &f->err), &f->err);
    hs__save_list_free(&list);
    hs__item_source source = hs__snapshot_source(&snapshot);
    hs__save_request request = {.prefix = test_path(f->directory, "wall"),
                                .step = -1,
                                .options = HS_INIT(hs_save_options, .state_file = "checkpoint"),
                                .branch_step = -1,
                                .cancel = &cancel};
    assert_non_null(request.directory = hs__saver_use_directory(f->saver, request.prefix, &f->err));
    for (; code; asked++) {
        atomic_store(&checks_left, asked);
        atomic_store(&cancel, false);
        code = hs__save(&request, &source, &f->err);
        if (code)
            assert_says(&f->err, HS_CANCELLED, "is not saved: a later save replaces it");
        assert_true(!code || test_count_files(f->directory, "wall") == 0);
    }
    assert_true(asked > BRICKS);
    assert_wall(&w, f, 6);
    hs__snapshot_free(&snapshot);
    wall_close(&w);
}

/* Two variables of one name, in two files. */
static void a_name_is_there_once_in_all_files(void **state)
{
    fixture *f = *state;
    use_saver(f,
              (hs_saver_options)HS_INIT(hs_saver_options, .shards = 3, .names = HS_CHECKPOINT_NAMES({"weights", "bias"})));
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model"), -1, NULL, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "two tensors to save have the name 'bias'");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(without_threads_the_caller_writes),
        with_fixture(any_allocation_may_fail),
        with_fixture(any_file_call_may_fail),
        with_fixture(a_failing_file_fails_the_save),
        with_fixture(a_save_may_be_cancelled_at_any_tensor),
        with_fixture(a_name_is_there_once_in_all_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
