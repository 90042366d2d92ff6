/* SPDX-License-Identifier: Apache-2.0 */
/* Saving the variables of a session to a safetensors file. */
#include "checkpoint/weights.h"

#include <errno.h>
#include <unistd.h>

static void saved_variables_are_loaded(void **state)
{
    fixture *f = *state;
    save_weights(f, 3);
    assert_ok(load_weights(f, NULL), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_int_equal(f->t.log_used, 0);
    assert_int_equal(test_count_files(f->directory, ""), 2 + 1); /* ".", "..", the file */
}

static void a_file_is_replaced(void **state)
{
    fixture *f = *state;
    save_weights(f, 2);
    save_weights(f, 3);
    assert_ok(load_weights(f, NULL), &f->err);
    assert_true(model_is(&f->m, 3));
}

static void some_variables_may_do_under_other_names(void **state)
{
    fixture *f = *state;
    model_set(&f->m, 3);
    hs_safetensors_options options = HS_INIT(hs_safetensors_options, .variables = HS_NAMES("weights", "bias"),
                                             .names = HS_CHECKPOINT_NAMES({"weights", "layer.weight"}));
    assert_ok(save_weights_with(f, &options), &f->err);
    assert_true(has_tensor(f, "layer.weight"));
    assert_true(has_tensor(f, "bias"));
    assert_false(has_tensor(f, "weights"));
    assert_false(has_tensor(f, "global_step"));
    hs_restore_options other =
        HS_INIT(hs_restore_options, .names = HS_CHECKPOINT_NAMES({"weights", "layer.weight"}), .allow_missing = true);
    assert_ok(load_weights(f, &other), &f->err);
    assert_came(f, true, true, false);
}

static void metadata_are_in_the_file(void **state)
{
    fixture *f = *state;
    hs_safetensors_options options = HS_INIT(hs_safetensors_options, .metadata = HS_SAFETENSORS_METADATA({"format", "pt"}));
    assert_ok(save_weights_with(f, &options), &f->err);
    char *data = test_read_file(weights_file(f), NULL);
    assert_non_null(strstr(data + 8, "\"__metadata__\":{\"format\":\"pt\"}"));
    free(data);
}

static void one_missing_level_is_created(void **state)
{
    fixture *f = *state;
    hs_raw_session *raw = model_raw(&f->m);
    assert_ok(hs_safetensors_save(raw, test_path(f->directory, "new/m.safetensors"), NULL, &f->err), &f->err);
    assert_true(test_exists(f->directory, "new/m.safetensors"));
    assert_fails(hs_safetensors_save(raw, test_path(f->directory, "a/b/m.safetensors"), NULL, &f->err), HS_INVALID_ARGUMENT,
                 &f->err, "its parent directory does not exist");
}

static void assert_not_saved(fixture *f, const hs_safetensors_options *options, const char *why)
{
    assert_fails(save_weights_with(f, options), HS_INVALID_ARGUMENT, &f->err, why);
    assert_int_equal(test_count_files(f->directory, "m.safetensors"), 0);
}

static void names_are_checked(void **state)
{
    fixture *f = *state;
    hs_safetensors_options unknown = HS_INIT(hs_safetensors_options, .variables = HS_NAMES("wieghts")),
                           misnamed = HS_INIT(hs_safetensors_options, .names = HS_CHECKPOINT_NAMES({"wieghts", "x"})),
                           nameless = HS_INIT(hs_safetensors_options, .names = HS_CHECKPOINT_NAMES({"weights", NULL})),
                           taken = HS_INIT(hs_safetensors_options, .names = HS_CHECKPOINT_NAMES({"weights", "bias"})),
                           reserved = HS_INIT(hs_safetensors_options, .names = HS_CHECKPOINT_NAMES({"bias", "hooksess/x"}));
    assert_not_saved(f, &unknown, "'wieghts', which is not a variable");
    assert_not_saved(f, &misnamed, "'wieghts', which is not a variable");
    assert_not_saved(f, &nameless, "lists 'weights' without a name");
    assert_not_saved(f, &taken, "two tensors to save have the name 'bias'");
    assert_not_saved(f, &reserved, "reserved for state");
    assert_not_saved(f, &(hs_safetensors_options){.variables = NULL}, "HS_INIT(hs_safetensors_options");
}

static void arguments_are_checked(void **state)
{
    fixture *f = *state;
    hs_raw_session *raw = model_raw(&f->m);
    assert_fails(hs_safetensors_save(NULL, weights_file(f), NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "session is NULL");
    assert_fails(hs_safetensors_save(raw, NULL, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "path is missing");
    assert_fails(hs_safetensors_save(raw, "run/", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "path is missing");
    assert_fails(hs_safetensors_load(NULL, weights_file(f), NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "session is NULL");
    assert_fails(hs_safetensors_load(raw, "", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "path is missing");
    assert_fails(load_weights(f, NULL), HS_NOT_FOUND, &f->err, weights_file(f));
}

static void a_dtype_that_the_format_has_not_is_named(void **state)
{
    fixture *f = *state;
    hs_graph *graph;
    unsigned char memory[2] = {0};
    hs_variable_def def = HS_INIT(hs_variable_def, .name = "q", .dtype = HS_QINT8, .shape = HS_SHAPE(2), .data = memory);
    hs_session *session = open_single(f, &graph, &def);
    assert_fails(hs_safetensors_save(hs_session_raw(session), weights_file(f), NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "'q' has dtype qint8, which safetensors does not support");
    assert_int_equal(test_count_files(f->directory, "m.safetensors"), 0);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* A device whose memory the host cannot read directly. */
static hs_code invert(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)~((const unsigned char *)from)[i];
    return HS_OK;
}

static void memory_of_a_device_comes_along(void **state)
{
    fixture *f = *state;
    static const hs_memory device = HS_INIT(hs_memory, .device_type = 2, .to_host = invert, .from_host = invert);
    hs_graph *graph;
    unsigned char memory[3] = {0xfe, 0xfd, 0xfc};
    hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "v", .dtype = HS_UINT8, .shape = HS_SHAPE(3), .data = memory, .memory = &device);
    hs_session *session = open_single(f, &graph, &def);
    assert_ok(hs_safetensors_save(hs_session_raw(session), weights_file(f), NULL, &f->err), &f->err);
    size_t bytes;
    char *data = test_read_file(weights_file(f), &bytes);
    assert_memory_equal(data + bytes - 3, "\1\2\3", 3);
    free(data);
    memset(memory, 0, sizeof memory);
    assert_ok(hs_safetensors_load(hs_session_raw(session), weights_file(f), NULL, &f->err), &f->err);
    assert_memory_equal(memory, "\xfe\xfd\xfc", 3);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void local_variables_are_not_saved(void **state)
{
    fixture *f = *state;
    hs_graph *graph;
    float memory = 5;
    hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "seen", .dtype = HS_FLOAT, .data = &memory, .flags = HS_VARIABLE_LOCAL);
    hs_session *session = open_single(f, &graph, &def);
    assert_ok(hs_safetensors_save(hs_session_raw(session), weights_file(f), NULL, &f->err), &f->err);
    assert_false(has_tensor(f, "seen"));
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

typedef hs_code (*read_fn)(void *session, size_t index, hs_tensor *value, hs_error *err);

static read_fn honest_read;

/* Opens the model's session again, on its backend with another function that reads a variable. */
static void reopen_with(fixture *f, read_fn read)
{
    static hs_backend_ops ops;
    hs_backend backend = hs_graph_backend(f->m.graph);
    ops = *backend.ops;
    honest_read = ops.read_variable;
    ops.read_variable = read;
    backend.ops = &ops;
    hs_session_close(f->m.session, NULL);
    f->m.session = hs_session_open(backend, NULL, &f->err);
    assert_non_null(f->m.session);
}

static hs_code read_nothing(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    (void)session, (void)index, (void)value, (void)err;
    return HS_USER + 1; /* without a word */
}

static hs_code read_flattened(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    hs_code code = honest_read(session, index, value, err);
    hs_shape shape = hs_tensor_shape(value);
    *value = hs_tensor_of(value->dtype, HS_SHAPE(hs_shape_elements(&shape)), value->data);
    return code;
}

static void a_variable_must_have_its_declared_shape(void **state)
{
    fixture *f = *state;
    reopen_with(f, read_flattened);
    assert_fails(save_weights_with(f, NULL), HS_INTERNAL, &f->err,
                 "does not have the dtype and shape that the backend declared");
    reopen_with(f, read_nothing);
    assert_fails(save_weights_with(f, NULL), HS_USER + 1, &f->err, "bias failed with USER");
    assert_int_equal(test_count_files(f->directory, "m.safetensors"), 0);
}

/* Two at once. */

static fixture *other;

static hs_code read_when_another_has_saved(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    fixture *f = other;
    other = NULL;
    if (f) {
        save_weights(f, 2);
        assert_int_equal(test_count_files(f->directory, ".tmp"), 1);
        model_set(&f->m, 3);
    }
    return honest_read(session, index, value, err);
}

static void two_may_write_to_one_path(void **state)
{
    fixture *f = other = *state;
    reopen_with(f, read_when_another_has_saved);
    assert_ok(save_weights_with(f, NULL), &f->err);
    assert_ok(load_weights(f, NULL), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

/* An existing file with the temporary name is not overwritten. */
static void a_name_that_is_taken_is_passed_over(void **state)
{
    enum { PLANTED = 64 };
    fixture *f = *state;
    char victim[512], name[64];
    snprintf(victim, sizeof victim, "%s", test_path(f->directory, "victim"));
    test_write_file(victim, "mine", 4);
    assert_int_equal(symlink(victim, test_path(f->directory, "m.safetensors.tmp")), 0);
    for (int i = 0; i < PLANTED; i++) {
        snprintf(name, sizeof name, "m.safetensors.%ld-%d.tmp", (long)getpid(), i);
        assert_int_equal(symlink(victim, test_path(f->directory, name)), 0);
    }
    save_weights(f, 3);
    char *text = test_read_file(victim, NULL);
    assert_string_equal(text, "mine");
    free(text);
    assert_ok(load_weights(f, NULL), &f->err);
    assert_int_equal(test_count_files(f->directory, ".tmp"), PLANTED + 1);
}

/* Killed processes. */

static hs_code die_in_read(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    (void)session, (void)index, (void)value, (void)err;
    _exit(9);
}

static hs_code die_in_sync(void *user, void *file, hs_error *err)
{
    (void)user, (void)file, (void)err;
    _exit(9);
}

static int save_and_die(void *user)
{
    fixture *f = user;
    return (int)hs_safetensors_save(model_raw(&f->m), f->restored, NULL, NULL);
}

static int convert_and_die(void *user)
{
    fixture *f = user;
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    ops.sync = die_in_sync;
    env.files.ops = &ops;
    return (int)hs_checkpoint_convert(&env, file_of(f, 1, NULL), weights_file(f), NULL, NULL);
}

static void touch(const fixture *f, const char *name)
{
    test_write_file(test_path(f->directory, name), "x", 1);
}

static void a_starting_training_removes_the_files_of_killed_processes(void **state)
{
    fixture *f = *state;
    static const char *const others[] = {
        "m.safetensors.tmp", "m.safetensors.12.tmp", "m.safetensors.1-.tmp", "m.safetensors.1-2.tmp.bak",
        "m.1-2.tmp",         "safetensors.1-2.tmp"};
    const size_t n = sizeof others / sizeof *others;
    save_at(f, 1);
    reopen_with(f, die_in_read);
    snprintf(f->restored, sizeof f->restored, "%s", weights_file(f));
    assert_int_equal(test_in_child(save_and_die, f), 9);
    snprintf(f->restored, sizeof f->restored, "%s", test_path(f->directory, "weights"));
    assert_int_equal(test_in_child(save_and_die, f), 9);
    assert_int_equal(test_in_child(convert_and_die, f), 9);
    assert_int_equal(test_count_files(f->directory, ".tmp"), 3);
    for (size_t i = 0; i < n; i++)
        touch(f, others[i]);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_ok(hs_saver_hold(f->saver, NULL, file_of(f, 1, NULL), &f->err), &f->err);
    assert_int_equal(test_count_files(f->directory, ".tmp"), n);
    assert_contains(f->t.log, "removing 3 files of interrupted saves");
}

static int starts; /* of trainings, while a file is written */

static hs_code read_when_a_training_starts(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    fixture *f = other;
    if (starts > 0) {
        starts--;
        assert_int_equal(test_count_files(f->directory, ".tmp"), 1);
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &f->t.env), NULL);
        assert_int_equal(hs_saver_hold(saver, NULL, test_path(f->directory, "model.ckpt"), NULL), HS_OK);
        hs_saver_free(saver);
        assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
    }
    return honest_read(session, index, value, err);
}

/* It cannot know that the process which writes the file is not killed. */
static void a_file_that_a_starting_training_removes_is_written_again(void **state)
{
    fixture *f = other = *state;
    starts = 1;
    model_set(&f->m, 3);
    reopen_with(f, read_when_a_training_starts);
    assert_ok(save_weights_with(f, NULL), &f->err);
    assert_int_equal(starts, 0);
    assert_ok(load_weights(f, NULL), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static hs_code remove_and_rename(void *user, const char *from, const char *to, hs_error *err)
{
    starts++;
    assert_int_equal(unlink(from), 0);
    return hs_env_default()->files.ops->rename(user, from, to, err);
}

static void a_file_that_is_removed_each_time_is_an_error(void **state)
{
    fixture *f = *state;
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    save_at(f, 1);
    ops.rename = remove_and_rename;
    env.files.ops = &ops;
    starts = 0;
    assert_fails(hs_checkpoint_convert(&env, file_of(f, 1, NULL), weights_file(f), NULL, &f->err), HS_NOT_FOUND, &f->err,
                 "cannot rename it to");
    assert_int_equal(starts, 3);
    assert_int_equal(test_count_files(f->directory, "m.safetensors"), 0);
}

/* Failures. */

static hs_code saving(test_env *t, void *user)
{
    fixture *f = user;
    model m = {.step = 0};
    hs_error err = {0};
    model_set(&m, 2);
    hs_code code = model_open(&m, &t->env, NULL);
    if (!code)
        code = hs_safetensors_save(model_raw(&m), weights_file(f), NULL, &err);
    model_close(&m);
    return code;
}

/* The old file or the new one, whole. */
static void old_or_new(void *user)
{
    fixture *f = user;
    assert_ok(load_weights(f, NULL), &f->err);
    assert_true(model_is(&f->m, 1) || model_is(&f->m, 2));
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
    save_weights(f, 1);
}

static void each_file_call_of_saving(void **state)
{
    save_weights(*state, 1);
    test_each_file_call(saving, old_or_new, ENOSPC, false, *state);
    test_each_file_call(saving, old_or_new, EIO, true, *state);
}

static void each_allocation_of_saving(void **state)
{
    test_each_allocation(saving, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(saved_variables_are_loaded),
        with_fixture(a_file_is_replaced),
        with_fixture(some_variables_may_do_under_other_names),
        with_fixture(metadata_are_in_the_file),
        with_fixture(one_missing_level_is_created),
        with_fixture(names_are_checked),
        with_fixture(arguments_are_checked),
        with_fixture(a_dtype_that_the_format_has_not_is_named),
        with_fixture(memory_of_a_device_comes_along),
        with_fixture(local_variables_are_not_saved),
        with_fixture(a_variable_must_have_its_declared_shape),
        with_fixture(two_may_write_to_one_path),
        with_fixture(a_name_that_is_taken_is_passed_over),
        with_fixture(a_starting_training_removes_the_files_of_killed_processes),
        with_fixture(a_file_that_a_starting_training_removes_is_written_again),
        with_fixture(a_file_that_is_removed_each_time_is_an_error),
        with_fixture(each_file_call_of_saving),
        with_fixture(each_allocation_of_saving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
