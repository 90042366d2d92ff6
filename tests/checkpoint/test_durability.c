/* SPDX-License-Identifier: Apache-2.0 */
/* What survives a power cut follows from the order in which files are synced and renamed. */
#include "checkpoint/model.h"

/* A file system that writes down what is synced and renamed: "sync:NAME", "rename:NEW NAME", "directory". Of names, what
 * follows "model.ckpt-1.". */
typedef struct {
    hs_env env;
    hs_file_system_ops ops;
    struct {
        void *handle;
        char name[128];
    } open[4];
    char calls[1024];
} recorder;

static void note(recorder *r, const char *what, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "model.ckpt-1.", 13) == 0)
        name += 13;
    size_t used = strlen(r->calls);
    snprintf(r->calls + used, sizeof r->calls - used, "%s%s%s", used ? " " : "", what, name);
}

static hs_code r_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    recorder *r = user;
    hs_code code = hs_env_default()->files.ops->open(NULL, path, mode, file, err);
    for (size_t i = 0; !code && i < 4; i++)
        if (!r->open[i].handle) {
            r->open[i].handle = *file;
            snprintf(r->open[i].name, sizeof r->open[i].name, "%s", path);
            break;
        }
    return code;
}

static size_t place_of(const recorder *r, const void *file)
{
    size_t i = 0;
    while (i < 4 && r->open[i].handle != file)
        i++;
    assert_true(i < 4);
    return i;
}

static hs_code r_sync(void *user, void *file, hs_error *err)
{
    recorder *r = user;
    (void)err;
    note(r, "sync:", r->open[place_of(r, file)].name);
    return HS_OK;
}

static hs_code r_close(void *user, void *file, hs_error *err)
{
    recorder *r = user;
    r->open[place_of(r, file)].handle = NULL;
    return hs_env_default()->files.ops->close(NULL, file, err);
}

static hs_code r_rename(void *user, const char *from, const char *to, hs_error *err)
{
    note(user, "rename:", to);
    return hs_env_default()->files.ops->rename(NULL, from, to, err);
}

static hs_code r_remove(void *user, const char *path, hs_error *err)
{
    note(user, "remove:", path);
    return hs_env_default()->files.ops->remove(NULL, path, err);
}

static hs_code r_sync_directory(void *user, const char *path, hs_error *err)
{
    (void)path, (void)err;
    note(user, "directory", "");
    return HS_OK;
}

static void recorder_init(recorder *r)
{
    *r = (recorder){.env = {HS_ENV}, .ops = *hs_env_default()->files.ops};
    r->ops.open = r_open;
    r->ops.sync = r_sync;
    r->ops.close = r_close;
    r->ops.rename = r_rename;
    r->ops.remove = r_remove;
    r->ops.sync_directory = r_sync_directory;
    r->env.files = (hs_file_system){&r->ops, r};
}

static void save_on(recorder *r, fixture *f, int64_t step, int64_t max_to_keep)
{
    hs_saver_options options = {HS_SAVER_OPTIONS, .env = &r->env, .max_to_keep = max_to_keep};
    hs_saver *saver = hs_saver_new(&options, &f->err);
    hs_save_options no_meta = {HS_SAVE_OPTIONS, .no_meta_graph = true};
    hs_saver_recover(saver, HS_NAMES(file_of(f, 1, NULL)), NULL);
    assert_ok(hs_saver_save(saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, &no_meta, &f->err),
              &f->err);
    hs_saver_free(saver);
}

static void contents_before_names_and_data_before_the_index(void **state)
{
    fixture *f = *state;
    recorder r;
    recorder_init(&r);
    save_on(&r, f, 1, 5);
    assert_string_equal(r.calls, "sync:" DATA ".tmp sync:index.tmp rename:" DATA " directory rename:index directory "
                                 "sync:checkpoint.tmp rename:checkpoint directory");
}

static void the_old_data_go_when_the_new_index_is_there(void **state)
{
    fixture *f = *state;
    recorder r;
    recorder_init(&r);
    save_at(f, 1);
    save_on(&r, f, 1, 5);
    assert_string_equal(r.calls, "sync:data-00001-of-00002.tmp sync:index.tmp rename:data-00001-of-00002 directory "
                                 "rename:index directory remove:" DATA " "
                                 "sync:checkpoint.tmp rename:checkpoint directory");
}

static void an_old_checkpoint_goes_when_the_new_one_is_named_index_first(void **state)
{
    fixture *f = *state;
    recorder r;
    recorder_init(&r);
    save_at(f, 1);
    save_on(&r, f, 2, 1);
    const char *deleted = strstr(r.calls, "rename:checkpoint directory ");
    assert_non_null(deleted);
    assert_string_equal(deleted, "rename:checkpoint directory remove:index remove:" DATA " remove:meta");
}

static void a_made_directory_is_synced_into_its_parent(void **state)
{
    fixture *f = *state;
    recorder r;
    recorder_init(&r);
    test_remove_directory(strdup(f->directory));
    save_on(&r, f, 1, 5);
    assert_int_equal(strncmp(r.calls, "directory sync:", 15), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(contents_before_names_and_data_before_the_index),
        with_fixture(the_old_data_go_when_the_new_index_is_there),
        with_fixture(an_old_checkpoint_goes_when_the_new_one_is_named_index_first),
        with_fixture(a_made_directory_is_synced_into_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
