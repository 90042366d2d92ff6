/* SPDX-License-Identifier: Apache-2.0 */
/* The order of syncs and renames, on which surviving a power cut depends. */
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include <math.h>
#include <unistd.h>

/* The calls of a new lock: the parent directory and the directory are synced. */
#define HELD "directory directory "

static void begin(file_spy *spy, fixture *f)
{
    file_spy_init(spy, &f->t.env);
    spy->noted = "sync rename remove directory";
    spy->strip = "model.ckpt-1.";
}

static void save_on(file_spy *spy, fixture *f, int64_t step, hs_saver_options options, bool no_meta)
{
    options.env = &spy->env;
    hs_saver *saver = hs_saver_new(&options, &f->err);
    hs_save_options save = HS_INIT(hs_save_options, .no_meta_graph = no_meta);
    hs_saver_recover(saver, HS_NAMES(file_of(f, 1, NULL)), NULL);
    assert_ok(hs_saver_save(saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, &save, &f->err), &f->err);
    hs_saver_free(saver);
}

static void contents_before_names_and_data_before_the_index(void **state)
{
    fixture *f = *state;
    file_spy spy;
    begin(&spy, f);
    save_on(&spy, f, 1, (hs_saver_options)HS_INIT(hs_saver_options), true);
    assert_string_equal(spy.calls, HELD "sync:" DATA ".tmp sync:index.tmp rename:" DATA " directory rename:index directory "
                                        "sync:checkpoint.tmp rename:checkpoint directory");
}

/* The index must not exist before its graph. */
static void the_meta_graph_before_the_index(void **state)
{
    fixture *f = *state;
    file_spy spy;
    begin(&spy, f);
    save_on(&spy, f, 1, (hs_saver_options)HS_INIT(hs_saver_options), false);
    assert_string_equal(spy.calls,
                        HELD "sync:" DATA ".tmp sync:index.tmp sync:meta.tmp rename:" DATA " rename:meta directory "
                             "rename:index directory sync:checkpoint.tmp rename:checkpoint directory");
}

/* The old checkpoint is not changed before all temporary files of the new one are written. */
static void saving_over_one_with_a_meta_graph(void **state)
{
    fixture *f = *state;
    file_spy spy;
    save_at(f, 1);
    begin(&spy, f);
    save_on(&spy, f, 1, (hs_saver_options)HS_INIT(hs_saver_options), false);
    assert_string_equal(spy.calls,
                        HELD "sync:data-00001-of-00002.tmp sync:index.tmp sync:meta.tmp "
                             "rename:data-00001-of-00002 rename:meta directory rename:index directory remove:" DATA
                             " sync:checkpoint.tmp rename:checkpoint directory");
}

static void the_old_data_go_when_the_new_index_is_there(void **state)
{
    fixture *f = *state;
    file_spy spy;
    begin(&spy, f);
    save_at(f, 1);
    save_on(&spy, f, 1, (hs_saver_options)HS_INIT(hs_saver_options), true);
    assert_string_equal(spy.calls, HELD "sync:data-00001-of-00002.tmp sync:index.tmp rename:data-00001-of-00002 directory "
                                        "rename:index directory remove:" DATA " remove:meta "
                                        "sync:checkpoint.tmp rename:checkpoint directory");
}

static void an_old_checkpoint_goes_when_the_new_one_is_named_index_first(void **state)
{
    fixture *f = *state;
    file_spy spy;
    begin(&spy, f);
    save_at(f, 1);
    save_on(&spy, f, 2, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1), true);
    const char *deleted = strstr(spy.calls, "rename:checkpoint directory ");
    assert_non_null(deleted);
    assert_string_equal(deleted, "rename:checkpoint directory remove:index remove:" DATA " remove:meta");
}

static void a_made_directory_is_synced_into_its_parent(void **state)
{
    fixture *f = *state;
    file_spy spy;
    begin(&spy, f);
    test_remove_directory(strdup(f->directory));
    save_on(&spy, f, 1, (hs_saver_options)HS_INIT(hs_saver_options), true);
    assert_int_equal(strncmp(spy.calls, "directory " HELD "sync:", 10 + sizeof HELD - 1 + 5), 0);
}

/* safetensors files. */

/* A temporary name with the writer's process ID. */
static void assert_safetensors_placed(const file_spy *spy)
{
    char expected[128];
    int own = -1;
    assert_int_equal(sscanf(spy->calls, "sync:m.safetensors.%*d-%d.tmp", &own), 1);
    snprintf(expected, sizeof expected, "sync:m.safetensors.%ld-%d.tmp rename:m.safetensors directory", (long)getpid(),
             own);
    assert_string_equal(spy->calls, expected);
}

static void a_conversion_syncs_before_it_names(void **state)
{
    fixture *f = *state;
    file_spy spy;
    save_at(f, 1);
    begin(&spy, f);
    assert_ok(hs_checkpoint_convert(&spy.env, file_of(f, 1, NULL), test_path(f->directory, "m.safetensors"), NULL, &f->err),
              &f->err);
    assert_safetensors_placed(&spy);
    file_spy_forget(&spy);
    assert_ok(hs_checkpoint_convert(&spy.env, test_path(f->directory, "m.safetensors"), file_of(f, 1, NULL), NULL, &f->err),
              &f->err);
    assert_string_equal(spy.calls, HELD "sync:data-00001-of-00002.tmp sync:index.tmp rename:data-00001-of-00002 directory "
                                        "rename:index directory remove:" DATA " remove:meta");
}

static void an_export_syncs_before_it_names(void **state)
{
    fixture *f = *state;
    file_spy spy;
    model m = {.step = 0};
    begin(&spy, f);
    assert_ok(model_open(&m, &spy.env, NULL), &m.err);
    assert_ok(hs_safetensors_save(model_raw(&m), test_path(f->directory, "m.safetensors"), NULL, &f->err), &f->err);
    assert_safetensors_placed(&spy);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(contents_before_names_and_data_before_the_index),
        with_fixture(the_meta_graph_before_the_index),
        with_fixture(saving_over_one_with_a_meta_graph),
        with_fixture(the_old_data_go_when_the_new_index_is_there),
        with_fixture(an_old_checkpoint_goes_when_the_new_one_is_named_index_first),
        with_fixture(a_made_directory_is_synced_into_its_parent),
        with_fixture(a_conversion_syncs_before_it_names),
        with_fixture(an_export_syncs_before_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
