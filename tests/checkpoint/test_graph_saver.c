/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that the graph's own ops write and read. */
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include "checkpoint/merged_file.h"
#include "formats/bundle.h"
#include "graph.pb-c.h"

#include <errno.h>
#include <math.h>

/* A SaverDef: the placeholder "file", the ops "save" and "restore", version V2. */
static const unsigned char saver_def[] = "\x0a\x04"
                                         "file\x12\x04save\x1a\x07restore\x38\x02";

/* Like TensorFlow's ops, it does not use hs_env.files, and does not sync. */
static hs_code save_model(void *self, hs_op *op, hs_error *err)
{
    const model *m = self;
    const hs_string *prefix = hs_op_input(op, 0)->data;
    char data[1024], index[1024];
    hs__bundle_writer writer;
    const hs_tensor weights = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), (void *)m->weights),
                    bias = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), (void *)m->bias),
                    step = hs_tensor_of(HS_INT64, HS_SCALAR, (void *)&m->step);
    snprintf(data, sizeof data, "%.*s." DATA, (int)prefix->bytes, prefix->data);
    snprintf(index, sizeof index, "%.*s.index", (int)prefix->bytes, prefix->data);
    hs_code code = hs__bundle_writer_open(&writer, hs_env_default(), data, 0, 1, err);
    if (!code && !(code = hs__bundle_writer_add(&writer, "weights", &weights, err)) &&
        !(code = hs__bundle_writer_add(&writer, "bias", &bias, err)) &&
        !(code = hs__bundle_writer_add(&writer, "global_step", &step, err)))
        code = hs__bundle_writer_finish(&writer, index, err);
    hs__bundle_writer_close(&writer);
    return code;
}

static hs_code restore_model(void *self, hs_op *op, hs_error *err)
{
    model *m = self;
    const hs_string *prefix = hs_op_input(op, 0)->data;
    char path[1024];
    snprintf(path, sizeof path, "%.*s", (int)prefix->bytes, prefix->data);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, err);
    hs_code code = reader ? hs_checkpoint_read(reader, "weights", m->weights, sizeof m->weights, err) : err->code;
    if (!code && !(code = hs_checkpoint_read(reader, "bias", m->bias, sizeof m->bias, err)))
        code = hs_checkpoint_read(reader, "global_step", &m->step, sizeof m->step, err);
    hs_checkpoint_close(reader);
    return code;
}

static hs_code open_model(model *m, const hs_env *env, hs_op_fn save)
{
    model_build(m, env);
    hs_graph_placeholder(m->graph, "file", HS_STRING, HS_SCALAR);
    hs_graph_op(m->graph, .name = "save", .run = save, .user = m, .inputs = HS_NAMES("file"), .writes = HS_NAMES(NULL));
    hs_graph_op(m->graph, .name = "restore", .run = restore_model, .user = m, .inputs = HS_NAMES("file"));
    m->session = hs_session_open(hs_graph_backend(m->graph), NULL, &m->err);
    return m->session ? HS_OK : m->err.code;
}

static hs_saver *new_saver(const hs_env *env, hs_error *err)
{
    const hs_saver_options options = HS_INIT(hs_saver_options, .env = env, .saver_def = {saver_def, sizeof saver_def - 1},
                                             .graph_saves = true, .graph_restores = true);
    return hs_saver_new(&options, err);
}

static hs_code save_by_graph(const hs_env *env, const fixture *f, int64_t step)
{
    model m = {.step = 0};
    hs_error err = {0};
    hs_code code = open_model(&m, env, save_model);
    hs_saver *saver = code ? NULL : new_saver(env, &err);
    model_set(&m, step);
    if (saver)
        hs_saver_save(saver, model_raw(&m), test_path(f->directory, "model.ckpt"), step, NULL, &err);
    hs_saver_free(saver);
    model_close(&m);
    return code ? code : err.code;
}

static void a_checkpoint_of_the_graphs_op_is_like_any_other(void **state)
{
    fixture *f = *state;
    assert_ok(save_by_graph(&f->t.env, f, 4), &f->err);
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 4));
}

static void the_graph_restores_it(void **state)
{
    fixture *f = *state;
    model m = {.step = 0};
    save_at(f, 3);
    assert_ok(open_model(&m, &f->t.env, save_model), &m.err);
    hs_saver *saver = new_saver(&f->t.env, &f->err);
    assert_ok(hs_saver_restore(saver, model_raw(&m), file_of(f, 3, NULL), NULL, &f->err), &f->err);
    assert_true(model_is(&m, 3));
    hs_saver_free(saver);
    model_close(&m);
}

static hs_code save_nothing(void *self, hs_op *op, hs_error *err)
{
    const hs_string *prefix = hs_op_input(op, 0)->data;
    char data[1024], index[1024];
    hs__bundle_writer writer;
    (void)self;
    snprintf(data, sizeof data, "%.*s." DATA, (int)prefix->bytes, prefix->data);
    snprintf(index, sizeof index, "%.*s.index", (int)prefix->bytes, prefix->data);
    hs_code code = hs__bundle_writer_open(&writer, hs_env_default(), data, 0, 1, err);
    if (!code)
        code = hs__bundle_writer_finish(&writer, index, err);
    hs__bundle_writer_close(&writer);
    return code;
}

/* A checkpoint without data has an empty data file. */
static void a_graph_may_save_nothing(void **state)
{
    fixture *f = *state;
    model m = {.step = 0};
    assert_ok(open_model(&m, &f->t.env, save_nothing), &m.err);
    hs_saver *saver = new_saver(&f->t.env, &f->err);
    assert_ok(hs_saver_save(saver, model_raw(&m), file_of(f, 4, NULL), -1, NULL, &f->err), &f->err);
    assert_true(has_file(f, 4, DATA));
    assert_ok(hs__verify_checkpoint(&f->t.env, file_of(f, 4, NULL), &f->err), &f->err);
    hs_saver_free(saver);
    model_close(&m);
}

/* The graph's file is synced first, and all files before the index gets its name. */
static void files_of_the_graphs_op_are_synced(void **state)
{
    fixture *f = *state;
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    spy.noted = "sync rename";
    spy.strip = "model.ckpt-4.";
    assert_ok(save_by_graph(&spy.env, f, 4), &f->err);
    assert_string_equal(spy.calls, "sync:tmp-graph-state." DATA " sync:tmp-graph-state.index "
                                   "sync:tmp-graph." DATA " rename:data-00000-of-00001.tmp sync:index.tmp sync:meta.tmp "
                                   "rename:" DATA " rename:meta rename:index sync:checkpoint.tmp rename:checkpoint");
}

static hs_code save_over(test_env *t, void *user)
{
    fixture *f = user;
    test_tolerate_harmless(t); /* looking for leftovers */
    test_tolerate(t, "': no memory for its path");
    test_tolerate(t, "; a power failure may lose '"); /* the directory was not made here */
    test_empty_directory(f->directory);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options)); /* lets go of the directory */
    return save_by_graph(&t->env, f, 2);
}

static void old_or_new(void *user)
{
    fixture *f = user;
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1) || model_is(&f->m, 2));
}

static void anything_may_fail(void **state)
{
    test_each_allocation(save_over, *state);
    test_each_file_call(save_over, old_or_new, ENOSPC, false, *state);
    test_each_file_call(save_over, old_or_new, EIO, true, *state);
}

/* Larger than the pieces that are read back. */
static hs_code save_large(void *self, hs_op *op, hs_error *err)
{
    enum { N = 100000 };
    static float values[N];
    const hs_string *prefix = hs_op_input(op, 0)->data;
    char data[1024], index[1024];
    hs__bundle_writer writer;
    const hs_tensor large = hs_tensor_of(HS_FLOAT, HS_SHAPE(N), values);
    (void)self;
    values[N - 1] = NAN;
    snprintf(data, sizeof data, "%.*s." DATA, (int)prefix->bytes, prefix->data);
    snprintf(index, sizeof index, "%.*s.index", (int)prefix->bytes, prefix->data);
    hs_code code = hs__bundle_writer_open(&writer, hs_env_default(), data, 0, 1, err);
    if (!code && !(code = hs__bundle_writer_add(&writer, "large", &large, err)))
        code = hs__bundle_writer_finish(&writer, index, err);
    hs__bundle_writer_close(&writer);
    return code;
}

static void nan_is_found_in_any_piece(void **state)
{
    fixture *f = *state;
    model m = {.step = 0};
    assert_ok(open_model(&m, &f->t.env, save_large), &m.err);
    hs_saver *saver = new_saver(&f->t.env, &f->err);
    assert_fails(hs_saver_save(saver, model_raw(&m), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err),
                 HS_FAILED_PRECONDITION, &f->err, "'large' is not finite, first at index 99999");
    hs_saver_free(saver);
    model_close(&m);
}

/* The meta graph names the ops. */
static hs_code export(test_env *t, void *user)
{
    hs_error err = {0};
    hs_bytes meta = {0};
    model m = {.step = 0};
    (void)user;
    hs_code code = open_model(&m, &t->env, save_model);
    hs_saver *saver = code ? NULL : new_saver(&t->env, &err);
    if (saver && !hs_backend_export_meta_graph(hs_graph_backend(m.graph), saver, &meta, &err)) {
        Hs__Pb__MetaGraphDef *read = hs__pb__meta_graph_def__unpack(NULL, meta.size, meta.data);
        assert_non_null(read);
        assert_string_equal(read->saver_def->save_tensor_name, "save");
        assert_int_equal(read->saver_def->max_to_keep, 5);
        hs__pb__meta_graph_def__free_unpacked(read, NULL);
    }
    hs_env_free(&t->env, (void *)meta.data);
    hs_saver_free(saver);
    model_close(&m);
    return code ? code : err.code;
}

static void its_meta_graph_names_the_ops(void **state)
{
    test_each_allocation(export, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_checkpoint_of_the_graphs_op_is_like_any_other),
        with_fixture(the_graph_restores_it),
        with_fixture(a_graph_may_save_nothing),
        with_fixture(files_of_the_graphs_op_are_synced),
        with_fixture(anything_may_fail),
        with_fixture(nan_is_found_in_any_piece),
        with_fixture(its_meta_graph_names_the_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
