/* SPDX-License-Identifier: Apache-2.0 */
/* Other behaviors of TensorFlow's Saver and checkpoint management. */
#include "checkpoint/model.h"

#include <errno.h>
#include <unistd.h>

static void sa_003_an_invalid_path(void **state)
{
    fixture *f = *state;
    model_set(&f->m, 4);
    assert_int_equal(hs_saver_restore(f->saver, model_raw(&f->m), "invalid path", NULL, &f->err), HS_NOT_FOUND);
    assert_contains(f->err.message, "invalid path");
    assert_true(model_is(&f->m, 4));
}

/* Several pieces, a checking thread, and small ones between. */
static void sa_019_large_tensors(void **state)
{
    fixture *f = *state;
    enum { LARGE = 1500000, SMALL = 20 };
    float *memory[2];
    for (int i = 0; i < 2; i++)
        assert_non_null(memory[i] = calloc(3 * LARGE + 5 * SMALL, sizeof(float)));
    for (size_t i = 0; i < 3 * LARGE + 5 * SMALL; i++)
        memory[0][i] = (float)i * 0.25f;
    for (int run = 0; run < 2; run++) {
        hs_graph *graph = hs_graph_new(&f->t.env);
        float *at = memory[run];
        char name[16];
        for (int i = 0; i < 8; i++) {
            snprintf(name, sizeof name, "t%d", i);
            int64_t n = i % 3 == 1 ? LARGE : SMALL; /* 1, 4, 7 */
            hs_graph_variable(graph, name, HS_FLOAT, HS_SHAPE(n), at);
            at += n;
        }
        hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
        const char *path = test_path(f->directory, "large");
        hs_code code = run ? hs_saver_restore(f->saver, hs_session_raw(session), path, NULL, &f->err)
                           : hs_saver_save(f->saver, hs_session_raw(session), path, -1, NULL, &f->err);
        assert_ok(code, &f->err);
        hs_session_close(session, NULL);
        hs_graph_free(graph);
    }
    assert_memory_equal(memory[0], memory[1], (3 * LARGE + 5 * SMALL) * sizeof(float));
    free(memory[0]);
    free(memory[1]);
}

static hs_code save_nothing(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self, (void)out, (void)err;
    return HS_OK;
}

static hs_code fail_to_load(void *self, hs_state_reader *in, hs_error *err)
{
    (void)in;
    return *(hs_code *)self ? hs_error_set(err, *(hs_code *)self, "the feed is gone") : HS_OK;
}

/* Restores step 1 into another model: with a state, a bias of this type, and optionally another variable. */
static hs_code restore_into(fixture *f, hs_code *fail, const char *also, hs_dtype bias)
{
    model_close(&f->m);
    f->m.graph = hs_graph_new(&f->t.env);
    hs_graph_variable(f->m.graph, "bias", bias, HS_SHAPE(2), f->m.bias);
    if (also)
        hs_graph_variable(f->m.graph, also, HS_INT64, HS_SCALAR, &f->m.step);
    hs_graph_state(f->m.graph, "feed", save_nothing, fail_to_load, fail);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), NULL, &f->err);
    return hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err);
}

/* Each message names the checkpoint. If it does not fit the model, the message says so. The code is that of the cause. */
static void sa_045s_messages_of_failed_restores(void **state)
{
    fixture *f = *state;
    hs_code fail = HS_OK, codes[] = {HS_OUT_OF_RANGE, HS_UNAVAILABLE, HS_INVALID_ARGUMENT, HS_USER + 3};
    restore_into(f, &fail, NULL, HS_DOUBLE);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), file_of(f, 1, NULL), -1, NULL, &f->err), &f->err);
    assert_fails(restore_into(f, &fail, "more", HS_DOUBLE), HS_NOT_FOUND, &f->err, "model.ckpt-1' does not fit the model");
    assert_fails(restore_into(f, &fail, NULL, HS_INT64), HS_INVALID_ARGUMENT, &f->err,
                 "model.ckpt-1' does not fit the model");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        fail = codes[i];
        assert_fails(restore_into(f, &fail, NULL, HS_DOUBLE), codes[i], &f->err, "model.ckpt-1': cannot load state");
        assert_contains(f->err.message, "the feed is gone");
        assert_lacks(f->err.message, "fit");
    }
    flip_bit(file_of(f, 1, DATA), 5);
    assert_fails(restore_into(f, &fail, NULL, HS_DOUBLE), HS_DATA_LOSS, &f->err, "model.ckpt-1.data");
    assert_lacks(f->err.message, "fit");
}

static hs_code keep(void *user, const char *path, hs_error *err)
{
    (void)user;
    return hs_error_set(err, HS_PERMISSION_DENIED, "%s: stays", path);
}

static void sa_051s_a_checkpoint_that_cannot_be_deleted_fails_no_save(void **state)
{
    fixture *f = *state;
    hs_file_system_ops ops = *f->t.env.files.ops;
    hs_env env = f->t.env;
    ops.remove = keep;
    env.files.ops = &ops;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env, .max_to_keep = 1), &f->err);
    for (int64_t step = 1; step <= 2; step++) {
        hs_code code = hs_saver_save(saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, NULL, &f->err);
        assert_ok(code, &f->err);
    }
    assert_contains(f->t.log, "WARNING: ");
    assert_contains(f->t.log, "model.ckpt-1.index: stays");
    hs_saver_free(saver);
}

static void cm_002_relative_paths_from_where_one_stands(void **state)
{
    fixture *f = *state;
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(f->directory), 0);
    for (int64_t step = 0; step <= 2; step++) {
        model_set(&f->m, step);
        assert_ok(hs_saver_save(f->saver, model_raw(&f->m), "train/snapshot", step, NULL, &f->err), &f->err);
    }
    char *latest = hs_checkpoint_latest(&f->t.env, "train", NULL, &f->err);
    assert_string_equal(latest, "train/snapshot-2");
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), latest, NULL, &f->err), &f->err);
    assert_true(model_is(&f->m, 2));
    hs_env_free(&f->t.env, latest);
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void cm_013_the_oldest_goes(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 3));
    for (int64_t step = 1; step <= 4; step++)
        save_at(f, step);
    for (int64_t step = 1; step <= 4; step++)
        assert_int_equal(hs_checkpoint_exists(NULL, file_of(f, step, NULL)), step > 1);
}

static void any_name(void **state)
{
    fixture *f = *state;
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "ckpt_name"), 5, NULL, &f->err), &f->err);
    assert_string_equal(hs_saver_last_path(f->saver), test_path(f->directory, "ckpt_name-5"));
}

static void cm_037s_a_step_that_is_there_moves_to_the_end(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    save_at(f, 1);
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 2, NULL));
    assert_string_equal(hs_saver_checkpoint(f->saver, 1), file_of(f, 1, NULL));
    assert_null(hs_saver_checkpoint(f->saver, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(sa_003_an_invalid_path),
        with_fixture(sa_019_large_tensors),
        with_fixture(sa_045s_messages_of_failed_restores),
        with_fixture(sa_051s_a_checkpoint_that_cannot_be_deleted_fails_no_save),
        with_fixture(cm_002_relative_paths_from_where_one_stands),
        with_fixture(cm_013_the_oldest_goes),
        with_fixture(any_name),
        with_fixture(cm_037s_a_step_that_is_there_moves_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
