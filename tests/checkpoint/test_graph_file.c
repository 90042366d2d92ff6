/* SPDX-License-Identifier: Apache-2.0 */
/* Files with the graph: graph.pbtxt and .meta. */
#include "checkpoint/model.h"

#include "graph.pb-c.h"

#include <errno.h>
#include <hooksess/testing.h>

static hs_code write_graph(fixture *f, const char *directory, const char *name, bool as_text)
{
    return hs_backend_write_graph(hs_graph_backend(f->m.graph), directory, name, as_text, &f->err);
}

static void as_text(void **state)
{
    fixture *f = *state;
    assert_ok(write_graph(f, f->directory, "graph.pbtxt", true), &f->err);
    char *text = test_read_file(test_path(f->directory, "graph.pbtxt"), NULL);
    assert_contains(text, "node {\n  name: \"weights\"\n");
    assert_contains(text, "node {\n  name: \"train\"\n");
    free(text);
}

static bool has_node(const Hs__Pb__GraphDef *graph, const char *name)
{
    for (size_t i = 0; graph && i < graph->n_node; i++)
        if (strcmp(graph->node[i]->name, name) == 0)
            return true;
    return false;
}

static void as_bytes(void **state)
{
    fixture *f = *state;
    size_t bytes;
    assert_ok(write_graph(f, f->directory, "graph.pb", false), &f->err);
    char *data = test_read_file(test_path(f->directory, "graph.pb"), &bytes);
    Hs__Pb__GraphDef *graph = hs__pb__graph_def__unpack(NULL, bytes, (const uint8_t *)data);
    assert_non_null(graph);
    assert_true(has_node(graph, "weights") && has_node(graph, "bias") && has_node(graph, "global_step"));
    hs__pb__graph_def__free_unpacked(graph, NULL);
    free(data);
}

static void sa_032_missing_directories_are_made(void **state)
{
    fixture *f = *state;
    assert_ok(write_graph(f, test_path(f->directory, "l1/l2/l3"), "graph.pbtxt", true), &f->err);
    assert_true(test_exists(f->directory, "l1/l2/l3/graph.pbtxt"));
}

static void a_directory_that_cannot_be_made(void **state)
{
    fixture *f = *state;
    test_write_file(test_path(f->directory, "file"), "x", 1);
    assert_fails(write_graph(f, test_path(f->directory, "file/below"), "graph.pbtxt", true), HS_FAILED_PRECONDITION,
                 &f->err, "file");
}

static void missing_arguments(void **state)
{
    fixture *f = *state;
    assert_fails(write_graph(f, NULL, "graph.pbtxt", true), HS_INVALID_ARGUMENT, &f->err, "directory or name");
    assert_fails(write_graph(f, f->directory, NULL, true), HS_INVALID_ARGUMENT, &f->err, "directory or name");
    assert_fails(write_graph(f, f->directory, "", true), HS_INVALID_ARGUMENT, &f->err, "directory or name");
    assert_int_equal(test_count_files(f->directory, ""), 2);
}

static void a_backend_without_a_graph(void **state)
{
    fixture *f = *state;
    hs_bytes meta;
    hs_script *script = hs_script_new(&f->t.env);
    hs_backend backend = hs_script_backend(script);
    assert_int_equal(hs_backend_write_graph(backend, f->directory, "graph.pbtxt", true, &f->err), HS_UNIMPLEMENTED);
    assert_int_equal(hs_backend_export_meta_graph(backend, f->saver, &meta, &f->err), HS_UNIMPLEMENTED);
    assert_null(meta.data);
    assert_int_equal(test_count_files(f->directory, ""), 2);
    hs_script_free(script);
}

/* Meta graphs. */

static Hs__Pb__MetaGraphDef *export_meta(fixture *f, const hs_saver *saver)
{
    hs_bytes bytes;
    assert_ok(hs_backend_export_meta_graph(hs_graph_backend(f->m.graph), saver, &bytes, &f->err), &f->err);
    Hs__Pb__MetaGraphDef *meta = hs__pb__meta_graph_def__unpack(NULL, bytes.size, bytes.data);
    hs_env_free(&f->t.env, (void *)bytes.data);
    assert_non_null(meta);
    return meta;
}

static void a_meta_graph_has_the_graph_and_the_saver(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 3));
    Hs__Pb__MetaGraphDef *meta = export_meta(f, f->saver);
    assert_true(has_node(meta->graph_def, "train"));
    assert_non_null(meta->saver_def);
    assert_int_equal(meta->saver_def->max_to_keep, 3);
    assert_int_equal(meta->saver_def->version, HS__PB__SAVER_DEF__CHECKPOINT_FORMAT_VERSION__V2);
    hs__pb__meta_graph_def__free_unpacked(meta, NULL);
}

static void sa_052s_keeping_all_is_zero_in_a_meta_graph(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    Hs__Pb__MetaGraphDef *meta = export_meta(f, f->saver);
    assert_int_equal(meta->saver_def->max_to_keep, 0);
    hs__pb__meta_graph_def__free_unpacked(meta, NULL);
}

/* With 0 hours TensorFlow's Saver would delete nothing. */
static void sa_052s_hours_are_a_float_and_many_where_none_is_kept_forever(void **state)
{
    fixture *f = *state;
    const double hours[] = {0, 0.7, 24};
    const float written[] = {10000, 0.7f, 24};
    for (int i = 0; i < 3; i++) {
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .keep_checkpoint_every_n_hours = hours[i]));
        Hs__Pb__MetaGraphDef *meta = export_meta(f, f->saver);
        assert_true(meta->saver_def->keep_checkpoint_every_n_hours == written[i]);
        assert_false(meta->saver_def->sharded);
        hs__pb__meta_graph_def__free_unpacked(meta, NULL);
    }
}

static void a_given_saver_def_is_written_unchanged(void **state)
{
    fixture *f = *state;
    static const unsigned char def[] = "\x12\x04save\x1a\x07restore"; /* its ops, and no retention */
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .saver_def = {def, sizeof def - 1}));
    Hs__Pb__MetaGraphDef *meta = export_meta(f, f->saver);
    assert_string_equal(meta->saver_def->save_tensor_name, "save");
    assert_string_equal(meta->saver_def->restore_op_name, "restore");
    assert_int_equal(meta->saver_def->max_to_keep, 0);
    hs__pb__meta_graph_def__free_unpacked(meta, NULL);
}

static void a_meta_graph_without_a_saver(void **state)
{
    Hs__Pb__MetaGraphDef *meta = export_meta(*state, NULL);
    assert_null(meta->saver_def);
    hs__pb__meta_graph_def__free_unpacked(meta, NULL);
}

static void a_saved_meta_file_is_the_meta_graph(void **state)
{
    fixture *f = *state;
    size_t bytes;
    hs_bytes wanted;
    save_at(f, 1);
    char *data = test_read_file(file_of(f, 1, "meta"), &bytes);
    assert_ok(hs_backend_export_meta_graph(hs_graph_backend(f->m.graph), f->saver, &wanted, &f->err), &f->err);
    assert_int_equal(bytes, wanted.size);
    assert_memory_equal(data, wanted.data, bytes);
    hs_env_free(&f->t.env, (void *)wanted.data);
    free(data);
}

/* Also if the name ends like a data file: another checkpoint may have the rest of the name. */
static void cm_030s_a_meta_file_is_called_like_its_checkpoint(void **state)
{
    fixture *f = *state;
    static const char *const prefixes[] = {"m", "m-12-00001-of-00005"};
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "m"), 12, NULL, &f->err), &f->err);
    for (int i = 0; i < 2; i++)
        assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, prefixes[i]), -1, NULL, &f->err),
                  &f->err);
    assert_true(test_exists(f->directory, "m-12.meta"));
    assert_true(test_exists(f->directory, "m.meta"));
    assert_true(test_exists(f->directory, "m-12-00001-of-00005.meta"));
}

/* Failures. */

static hs_code build_and_write(test_env *t, void *user)
{
    const fixture *f = user;
    hs_error err = {0};
    hs_bytes meta = {0};
    model m;
    test_write_file(test_path(f->directory, "graph.pbtxt"), "old", 3);
    model_build(&m, &t->env);
    hs_backend backend = hs_graph_backend(m.graph);
    hs_code code = hs_graph_error(m.graph, NULL);
    if (!code && !(code = hs_backend_write_graph(backend, f->directory, "graph.pbtxt", true, &err)))
        code = hs_backend_export_meta_graph(backend, NULL, &meta, &err);
    hs_env_free(&t->env, (void *)meta.data);
    hs_graph_free(m.graph);
    return code;
}

static void old_or_new(void *user)
{
    const fixture *f = user;
    size_t bytes;
    char *text = test_read_file(test_path(f->directory, "graph.pbtxt"), &bytes);
    assert_true(strcmp(text, "old") == 0 || (bytes > 3 && text[bytes - 1] == '\n'));
    free(text);
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static void each_file_call_leaves_the_old_or_the_new_file(void **state)
{
    test_each_file_call(build_and_write, old_or_new, ENOSPC, false, *state);
    test_each_file_call(build_and_write, old_or_new, EIO, true, *state);
}

static void each_allocation(void **state)
{
    test_each_allocation(build_and_write, *state);
}

static void null_arguments(void **state)
{
    fixture *f = *state;
    const hs_backend none = {NULL, NULL}, no_graph = hs_graph_backend(NULL), good = hs_graph_backend(f->m.graph);
    hs_bytes meta;
    assert_int_equal(hs_backend_export_meta_graph(good, f->saver, NULL, &f->err), HS_INVALID_ARGUMENT);
    assert_says(&f->err, HS_INVALID_ARGUMENT, "out is NULL");
    assert_fails(hs_backend_export_meta_graph(none, NULL, &meta, &f->err), HS_UNIMPLEMENTED, &f->err,
                 "no function graph_def");
    assert_null(meta.data);
    assert_fails(hs_backend_write_graph(none, f->directory, "graph", true, &f->err), HS_UNIMPLEMENTED, &f->err,
                 "no function graph_def");
    assert_int_not_equal(hs_backend_export_meta_graph(no_graph, NULL, &meta, &f->err), HS_OK);
    assert_contains(f->err.message, "graph");
    assert_int_not_equal(hs_backend_write_graph(no_graph, f->directory, "graph", true, &f->err), HS_OK);
    assert_int_equal(hs_backend_write_graph(good, NULL, NULL, true, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(test_count_files(f->directory, ""), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(as_text),
        with_fixture(as_bytes),
        with_fixture(sa_032_missing_directories_are_made),
        with_fixture(a_directory_that_cannot_be_made),
        with_fixture(missing_arguments),
        with_fixture(a_backend_without_a_graph),
        with_fixture(a_meta_graph_has_the_graph_and_the_saver),
        with_fixture(sa_052s_keeping_all_is_zero_in_a_meta_graph),
        with_fixture(sa_052s_hours_are_a_float_and_many_where_none_is_kept_forever),
        with_fixture(a_given_saver_def_is_written_unchanged),
        with_fixture(a_meta_graph_without_a_saver),
        with_fixture(a_saved_meta_file_is_the_meta_graph),
        with_fixture(cm_030s_a_meta_file_is_called_like_its_checkpoint),
        with_fixture(each_file_call_leaves_the_old_or_the_new_file),
        with_fixture(each_allocation),
        with_fixture(null_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
