/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: names, lists, options. What fails midway is in test_faults.c. */
#include "checkpoint/model.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static hs_code save(fixture *f, const char *prefix, int64_t step, const hs_save_options *options)
{
    return hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, prefix), step, options, &f->err);
}

/* Names. */

static void sa_015_step_becomes_a_suffix(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "model.ckpt", 5, NULL), &f->err);
    assert_true(has_file(f, 5, "index") && has_file(f, 5, DATA) && has_file(f, 5, "meta"));
    assert_true(test_exists(f->directory, "checkpoint"));
    assert_int_equal(test_count_files(f->directory, "model.ckpt"), 3);
    assert_string_equal(hs_saver_last_path(f->saver), file_of(f, 5, NULL));
}

static void without_a_step_the_prefix_is_the_name(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "best", -1, NULL), &f->err);
    assert_true(test_exists(f->directory, "best.index"));
    assert_string_equal(hs_saver_last_path(f->saver), test_path(f->directory, "best"));
}

static void step_zero_is_a_step(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "model.ckpt", 0, NULL), &f->err);
    assert_true(has_file(f, 0, "index"));
}

static void no_other_files_remain(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 1);
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
    assert_int_equal(test_count_files(f->directory, ""), 2 + 5); /* with ".", ".." and the lock */
}

static void sa_026_no_meta_graph(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "model.ckpt", 1, HS_SAVE_OPTIONS(.no_meta_graph = true)), &f->err);
    assert_true(has_file(f, 1, "index"));
    assert_false(has_file(f, 1, "meta"));
}

static void sa_047s_no_state_file_nor_deletion(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    hs_save_options options = HS_INIT(hs_save_options, .no_state_file = true);
    for (int64_t step = 1; step <= 3; step++)
        assert_ok(save(f, "model.ckpt", step, &options), &f->err);
    assert_false(test_exists(f->directory, "checkpoint"));
    assert_true(has_file(f, 1, "index") && has_file(f, 2, "index") && has_file(f, 3, "index"));
    assert_null(hs_saver_checkpoint(f->saver, 0));
    assert_string_equal(hs_saver_last_path(f->saver), file_of(f, 3, NULL));
}

static void each_directory_has_its_own_list(void **state)
{
    fixture *f = *state;
    char other[1024];
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    save_at(f, 1);
    snprintf(other, sizeof other, "%s/other", f->directory);
    assert_ok(save(f, "other/model.ckpt", 2, NULL), &f->err);
    assert_true(has_file(f, 1, "index")); /* not deleted: the list of the other directory does not contain it */
    char *text = test_read_file(test_path(other, "checkpoint"), NULL);
    assert_lacks(text, "model.ckpt-1\"");
    free(text);
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), test_path(other, "model.ckpt-2"));
    assert_null(hs_saver_checkpoint(f->saver, 1));
}

static void the_state_file_has_the_name_it_is_given(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "model.ckpt", 1, HS_SAVE_OPTIONS(.state_file = "latest")), &f->err);
    assert_false(test_exists(f->directory, "checkpoint"));
    char *newest = hs_checkpoint_latest(&f->t.env, f->directory, "latest", &f->err);
    assert_string_equal(newest, file_of(f, 1, NULL));
    hs_env_free(&f->t.env, newest);
}

static void saving_in_the_working_directory(void **state)
{
    fixture *f = *state;
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->directory), 0);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), "model.ckpt", 3, NULL, &f->err);
    char *newest = hs_checkpoint_latest(&f->t.env, ".", NULL, NULL);
    assert_int_equal(chdir(before), 0);
    assert_ok(code, &f->err);
    assert_true(has_file(f, 3, "index"));
    assert_non_null(newest);
    assert_contains(newest, "model.ckpt-3");
    hs_env_free(&f->t.env, newest);
}

/* The list of kept checkpoints. */

static void five_are_kept_by_default(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 6; step++)
        save_at(f, step);
    assert_false(has_file(f, 1, "index") || has_file(f, 1, DATA) || has_file(f, 1, "meta"));
    for (int64_t step = 2; step <= 6; step++)
        assert_true(has_file(f, step, "index") && has_file(f, step, DATA) && has_file(f, step, "meta"));
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 2, NULL));
    assert_string_equal(hs_saver_checkpoint(f->saver, 4), file_of(f, 6, NULL));
    assert_null(hs_saver_checkpoint(f->saver, 5));
}

static void sa_037s_keeping_all_the_state_file_names_the_newest_alone(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    for (int64_t step = 1; step <= 7; step++)
        save_at(f, step);
    for (int64_t step = 1; step <= 7; step++)
        assert_true(has_file(f, step, "index"));
    char *text = test_read_file(test_path(f->directory, "checkpoint"), NULL);
    assert_contains(text, "model_checkpoint_path: \"model.ckpt-7\"\nall_model_checkpoint_paths: \"model.ckpt-7\"\n");
    assert_lacks(text, "model.ckpt-6");
    free(text);
}

static void sa_048s_saving_a_name_again_makes_it_the_newest(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    save_at(f, 1);
    save_at(f, 2);
    save_at(f, 1);
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 2, NULL));
    assert_string_equal(hs_saver_checkpoint(f->saver, 1), file_of(f, 1, NULL));
    assert_null(hs_saver_checkpoint(f->saver, 2));
    assert_true(has_file(f, 1, "index") && has_file(f, 2, "index"));
}

static void sa_027_sa_039s_recovered_ones_are_deleted_in_their_turn(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 3; step++)
        save_at(f, step);
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL), file_of(f, 3, NULL));
    assert_int_equal(unlink(file_of(f, 1, "index")), 0);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    assert_null(hs_saver_checkpoint(f->saver, 0));
    assert_ok(hs_saver_recover(f->saver, paths, &f->err), &f->err);
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 2, NULL));
    assert_string_equal(hs_saver_checkpoint(f->saver, 1), file_of(f, 3, NULL));
    assert_null(hs_saver_checkpoint(f->saver, 2));
    save_at(f, 4);
    assert_false(has_file(f, 2, "index") || has_file(f, 2, DATA));
    assert_true(has_file(f, 3, "index") && has_file(f, 4, "index"));
}

/* TensorFlow deletes one for each save, so that as many stay as were taken over. */
static void recovered_ones_above_the_limit_are_all_deleted(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 5; step++)
        save_at(f, step);
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL), file_of(f, 3, NULL), file_of(f, 4, NULL));
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    assert_ok(hs_saver_recover(f->saver, paths, &f->err), &f->err);
    save_at(f, 6);
    assert_false(has_file(f, 1, "index") || has_file(f, 2, "index") || has_file(f, 3, "index"));
    assert_true(has_file(f, 4, "index") && has_file(f, 6, "index"));
}

static void a_checkpoint_that_is_recovered_twice_is_listed_once_as_the_newer(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 2; step++)
        save_at(f, step);
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL), file_of(f, 1, NULL));
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    for (int i = 0; i < 2; i++) {
        assert_ok(hs_saver_recover(f->saver, paths, &f->err), &f->err);
        assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 2, NULL));
        assert_string_equal(hs_saver_checkpoint(f->saver, 1), file_of(f, 1, NULL));
        assert_null(hs_saver_checkpoint(f->saver, 2));
    }
}

/* A checkpoint whose name begins with the same text is another one. */
static void deletion_spares_checkpoints_of_longer_names(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "model.ckpt-1x", -1, HS_SAVE_OPTIONS(.no_state_file = true)), &f->err);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    save_at(f, 1);
    save_at(f, 2);
    assert_false(has_file(f, 1, DATA));
    assert_int_equal(test_count_files(f->directory, "model.ckpt-1x."), 3);
}

/* Variables. */

static void assert_saved(const fixture *f, int64_t step, const char *name, bool saved)
{
    hs_error err;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, step, NULL), &err);
    assert_non_null(reader);
    hs_tensor info;
    assert_int_equal(hs_checkpoint_find(reader, name, &info, &err), saved ? HS_OK : HS_NOT_FOUND);
    hs_checkpoint_close(reader);
}

static void only_the_named_variables_are_saved(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = HS_NAMES("bias")));
    save_at(f, 1);
    assert_saved(f, 1, "bias", true);
    assert_saved(f, 1, "weights", false);
    assert_saved(f, 1, "global_step", false);
}

static void a_named_variable_must_be_there(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = HS_NAMES("bias", "wieghts")));
    assert_fails(save(f, "model.ckpt", 1, NULL), HS_INVALID_ARGUMENT, &f->err, "'wieghts'");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

static void local_variables_are_not_saved(void **state)
{
    fixture *f = *state;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "kept", .dtype = HS_INT64));
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "counter", .dtype = HS_INT64, .flags = HS_VARIABLE_LOCAL));
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_non_null(session);
    assert_ok(hs_saver_save(f->saver, hs_session_raw(session), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err),
              &f->err);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    assert_saved(f, 1, "kept", true);
    assert_saved(f, 1, "counter", false);
}

/* A backend whose variables have other names or cannot be read. */

static const hs_backend_ops *inner;

static bool reserved_name(void *self, size_t index, hs_variable *out)
{
    bool found = inner->variable(self, index, out);
    if (found && index == 0)
        out->name = "hooksess/state/data";
    return found;
}

static hs_code unreadable(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    if (index == 1)
        return hs_error_set(err, HS_UNAVAILABLE, "the worker of variable %zu is gone", index);
    return inner->read_variable(session, index, value, err);
}

static hs_code save_on(fixture *f, const hs_backend_ops *ops)
{
    model m = {.step = 0};
    model_build(&m, &f->t.env);
    m.session = hs_session_open((hs_backend){ops, hs_graph_backend(m.graph).self}, NULL, &f->err);
    assert_non_null(m.session);
    hs_code code = hs_saver_save(f->saver, model_raw(&m), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err);
    model_close(&m);
    return code;
}

static void names_of_state_are_reserved(void **state)
{
    fixture *f = *state;
    inner = hs_graph_backend(f->m.graph).ops;
    hs_backend_ops ops = *inner;
    ops.variable = reserved_name;
    assert_fails(save_on(f, &ops), HS_INVALID_ARGUMENT, &f->err,
                 "'hooksess/state/data': names that begin with hooksess/ are reserved");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

static void the_backends_error_is_passed_on(void **state)
{
    fixture *f = *state;
    inner = hs_graph_backend(f->m.graph).ops;
    hs_backend_ops ops = *inner;
    ops.read_variable = unreadable;
    assert_fails(save_on(f, &ops), HS_UNAVAILABLE, &f->err, "variable 1 is gone");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

/* Memory of a device that cannot be read. */

typedef struct {
    hs_code code;
    const char *says; /* NULL: nothing */
} device;

static hs_code to_host(void *user, void *host, const void *data, size_t bytes, hs_error *err)
{
    const device *d = user;
    memcpy(host, data, bytes);
    if (d->says)
        hs_error_set(err, HS_INTERNAL, "%s", d->says); /* not the code that is returned */
    return d->code;
}

static hs_code from_host(void *user, void *data, const void *host, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(data, host, bytes);
    return HS_OK;
}

/* Saves a model whose second variable lies on the device. */
static hs_code save_device(fixture *f, device *d)
{
    float near[2] = {0}, far[2] = {0};
    hs_memory memory = HS_INIT(hs_memory, .device_type = 2, .to_host = to_host, .from_host = from_host, .user = d);
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "near", HS_FLOAT, HS_SHAPE(2), near);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "layer/far", .dtype = HS_FLOAT, .shape = HS_SHAPE(2), .data = far,
                                                 .memory = &memory));
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_non_null(session);
    hs_code code =
        hs_saver_save(f->saver, hs_session_raw(session), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    return code;
}

static void a_device_error_names_the_variable(void **state)
{
    fixture *f = *state;
    device d = {.code = HS_UNAVAILABLE, .says = "the link is down"};
    assert_fails(save_device(f, &d), HS_UNAVAILABLE, &f->err, "variable 'layer/far'");
    assert_contains(f->err.message, "the link is down");
    d.says = NULL;
    assert_fails(save_device(f, &d), HS_UNAVAILABLE, &f->err, "variable 'layer/far'");
    assert_contains(f->err.message, "failed with UNAVAILABLE");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
    d.code = HS_OK;
    assert_ok(save_device(f, &d), &f->err);
}

/* Bad arguments. */

static void null_arguments(void **state)
{
    fixture *f = *state;
    hs_raw_session *raw = model_raw(&f->m);
    const char *prefix = test_path(f->directory, "model.ckpt");
    assert_fails(hs_saver_save(NULL, raw, prefix, 1, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "saver is NULL");
    assert_fails(hs_saver_save(f->saver, NULL, prefix, 1, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "session is NULL");
    assert_fails(hs_saver_save(f->saver, raw, NULL, 1, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "prefix has no file name");
    assert_fails(hs_saver_save(f->saver, raw, "somewhere/", 1, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "prefix has no file name");
    assert_int_equal(hs_saver_save(NULL, raw, prefix, 1, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

static void a_saver_that_is_null(void **state)
{
    fixture *f = *state;
    assert_fails(hs_saver_recover(NULL, HS_NAMES("x"), &f->err), HS_INVALID_ARGUMENT, &f->err, "saver is NULL");
    assert_ok(hs_saver_recover(f->saver, NULL, &f->err), &f->err);
    assert_int_equal(hs_saver_recover(NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_null(hs_saver_last_path(NULL));
    assert_null(hs_saver_checkpoint(NULL, 0));
    hs_saver_free(NULL);
    hs_saver *saver = hs_saver_new(NULL, NULL);
    assert_non_null(saver);
    hs_saver_free(saver);
    assert_null(hs_saver_new(&(hs_saver_options){.max_to_keep = 1}, NULL));
}

static void sa_042s_the_state_file_is_a_name_without_a_directory(void **state)
{
    fixture *f = *state;
    hs_save_options options = HS_INIT(hs_save_options, .state_file = "other/checkpoint");
    assert_fails(save(f, "model.ckpt", 1, &options), HS_INVALID_ARGUMENT, &f->err, "'other/checkpoint'");
    options.state_file = "";
    assert_fails(save(f, "model.ckpt", 1, &options), HS_INVALID_ARGUMENT, &f->err, "state_file ''");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
}

static void sa_046s_cm_025s_a_checkpoint_cannot_be_called_like_the_state_file(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_fails(save(f, "checkpoint", -1, NULL), HS_FAILED_PRECONDITION, &f->err, "the same name");
    assert_int_equal(test_count_files(f->directory, "checkpoint"), 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .shards = 2));
    assert_fails(save(f, "checkpoint", -1, NULL), HS_FAILED_PRECONDITION, &f->err, "the same name");
    assert_int_equal(test_count_files(f->directory, "checkpoint"), 1);
    assert_ok(save(f, "checkpoint", 1, NULL), &f->err);
    assert_ok(save(f, "checkpoint", -1, HS_SAVE_OPTIONS(.no_state_file = true)), &f->err);
}

static void options_that_make_no_sense(void **state)
{
    fixture *f = *state;
    hs_saver_options options = HS_INIT(hs_saver_options, .max_to_keep = -2);
    assert_null(hs_saver_new(&options, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "max_to_keep is -2");
    assert_null(hs_saver_new(&(hs_saver_options){.max_to_keep = 1}, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "HS_INIT(hs_saver_options");
    assert_fails(save(f, "model.ckpt", 1, &(hs_save_options){.no_meta_graph = true}), HS_INVALID_ARGUMENT, &f->err,
                 "HS_INIT(hs_save_options");
}

/* Directories. */

static void tb_036s_sa_043s_one_missing_level_is_created(void **state)
{
    fixture *f = *state;
    assert_ok(save(f, "new/model.ckpt", 1, NULL), &f->err);
    assert_true(test_exists(f->directory, "new/model.ckpt-1.index"));
}

static void sa_017_two_missing_levels_or_a_file_in_the_way(void **state)
{
    fixture *f = *state;
    assert_fails(save(f, "a/b/model.ckpt", 1, NULL), HS_INVALID_ARGUMENT, &f->err, "a/b/model.ckpt-1");
    assert_contains(f->err.message, "parent directory");
    assert_false(test_exists(f->directory, "a"));
    test_write_file(test_path(f->directory, "file"), "x", 1);
    assert_fails(save(f, "file/model.ckpt", 1, NULL), HS_INVALID_ARGUMENT, &f->err, "file/model.ckpt-1");
}

static void a_directory_that_cannot_be_written_to(void **state)
{
    fixture *f = *state;
    if (geteuid() == 0) { /* who may write everywhere */
        f->t.fail_file_at = f->t.file_calls + 1;
        f->t.fail_file_errno = EACCES;
    }
    assert_int_equal(chmod(f->directory, 0500), 0);
    hs_code code = save(f, "model.ckpt", 1, NULL);
    chmod(f->directory, 0700);
    assert_int_equal(code, HS_PERMISSION_DENIED);
    assert_int_equal(f->err.os_error, EACCES);
    assert_int_equal(test_count_files(f->directory, ""), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(sa_015_step_becomes_a_suffix),
        with_fixture(without_a_step_the_prefix_is_the_name),
        with_fixture(step_zero_is_a_step),
        with_fixture(no_other_files_remain),
        with_fixture(sa_026_no_meta_graph),
        with_fixture(sa_047s_no_state_file_nor_deletion),
        with_fixture(each_directory_has_its_own_list),
        with_fixture(the_state_file_has_the_name_it_is_given),
        with_fixture(saving_in_the_working_directory),
        with_fixture(five_are_kept_by_default),
        with_fixture(sa_037s_keeping_all_the_state_file_names_the_newest_alone),
        with_fixture(sa_048s_saving_a_name_again_makes_it_the_newest),
        with_fixture(sa_027_sa_039s_recovered_ones_are_deleted_in_their_turn),
        with_fixture(recovered_ones_above_the_limit_are_all_deleted),
        with_fixture(a_checkpoint_that_is_recovered_twice_is_listed_once_as_the_newer),
        with_fixture(deletion_spares_checkpoints_of_longer_names),
        with_fixture(only_the_named_variables_are_saved),
        with_fixture(a_named_variable_must_be_there),
        with_fixture(local_variables_are_not_saved),
        with_fixture(names_of_state_are_reserved),
        with_fixture(the_backends_error_is_passed_on),
        with_fixture(a_device_error_names_the_variable),
        with_fixture(null_arguments),
        with_fixture(a_saver_that_is_null),
        with_fixture(sa_042s_the_state_file_is_a_name_without_a_directory),
        with_fixture(sa_046s_cm_025s_a_checkpoint_cannot_be_called_like_the_state_file),
        with_fixture(options_that_make_no_sense),
        with_fixture(tb_036s_sa_043s_one_missing_level_is_created),
        with_fixture(sa_017_two_missing_levels_or_a_file_in_the_way),
        with_fixture(a_directory_that_cannot_be_written_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
