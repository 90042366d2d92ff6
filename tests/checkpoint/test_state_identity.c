/* SPDX-License-Identifier: Apache-2.0 */
/* Identity and version of states. */
#include "checkpoint/cell.h"

#include <hooksess/testing.h>

/* In the file. */

static void version_and_identity_are_scalars(void **state)
{
    fixture *f = *state;
    int64_t version = 0;
    hs_tensor info;
    save_loader(f, 3, "digits, 60000 images");
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, 1, NULL), &f->err);
    assert_ok(hs_checkpoint_read(reader, "hooksess/state/loader:version", &version, sizeof version, &f->err), &f->err);
    assert_int_equal(version, 3);
    assert_ok(hs_checkpoint_find(reader, "hooksess/state/loader:identity", &info, &f->err), &f->err);
    assert_int_equal(info.dtype, HS_STRING);
    assert_int_equal(info.rank, 0);
    hs_checkpoint_close(reader);
}

static void without_version_and_identity_there_are_no_scalars(void **state)
{
    fixture *f = *state;
    save_loader(f, 0, "");
    assert_true(has_tensor(f, 1, "hooksess/state/loader"));
    assert_false(has_tensor(f, 1, "hooksess/state/loader:version"));
    assert_false(has_tensor(f, 1, "hooksess/state/loader:identity"));
}

/* A background save writes from a copy, after the provider was freed. */
static void a_save_in_the_background_has_them(void **state)
{
    fixture *f = *state;
    cell c = {.value = 5};
    char identity[] = "digits";
    hs_state_provider provider = cell_of(&c, "loader", 2, identity);
    assert_ok(open_with_state(f, &provider), &f->err);
    memset(identity, 'x', sizeof identity - 1);
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    model_set(&f->m, 1);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1, &options, &f->err),
              &f->err);
    hs_saver_wait(f->saver);
    c = (cell){.value = 0};
    assert_ok(load_loader(f, &c, 2, "digits"), &f->err);
    assert_int_equal(c.value, 5);
    assert_int_equal(c.version, 2);
    assert_lacks(f->t.log, "WARNING");
}

/* Versions. */

static void load_gets_the_version_of_the_state(void **state)
{
    fixture *f = *state;
    cell c = {.version = -1};
    save_loader(f, 3, NULL);
    assert_ok(load_loader(f, &c, 5, NULL), &f->err);
    assert_int_equal(c.version, 3);
    assert_int_equal(c.value, 5);
}

static void state_from_before_there_were_versions_is_of_version_0(void **state)
{
    fixture *f = *state;
    cell c = {.version = -1};
    save_loader(f, 0, NULL);
    assert_ok(load_loader(f, &c, 5, NULL), &f->err);
    assert_int_equal(c.version, 0);
}

/* Nothing is loaded, and no older checkpoint is restored instead. */
static void a_later_version_is_refused(void **state)
{
    fixture *f = *state;
    cell old = {.value = 4}, c = {.value = 0};
    hs_state_provider provider = cell_of(&old, "loader", 1, NULL);
    assert_ok(open_with_state(f, &provider), &f->err);
    save_at(f, 0);
    save_loader(f, 3, NULL);
    assert_fails(load_loader(f, &c, 2, NULL), HS_FAILED_PRECONDITION, &f->err,
                 "model.ckpt-1': state 'hooksess/state/loader' has version 3, but its provider supports versions up to 2");
    assert_int_equal(c.loads, 0);
    assert_true(model_is(&f->m, 9));
}

/* Identities. */

static void the_same_identity_is_taken_without_a_word(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    save_loader(f, 0, "digits");
    assert_ok(load_loader(f, &c, 0, "digits"), &f->err);
    assert_int_equal(c.value, 5);
    assert_lacks(f->t.log, "WARNING");
}

static void another_identity_is_refused(void **state)
{
    fixture *f = *state;
    cell old = {.value = 4}, c = {.value = 0};
    hs_state_provider provider = cell_of(&old, "loader", 0, "fashion");
    assert_ok(open_with_state(f, &provider), &f->err);
    save_at(f, 0);
    provider.identity = "digits";
    assert_ok(reopen(f, &provider, NULL), &f->err);
    save_at(f, 1);
    assert_fails(
        load_loader(f, &c, 0, "fashion"), HS_FAILED_PRECONDITION, &f->err,
        "model.ckpt-1': state 'hooksess/state/loader' belongs to 'digits', but its provider has identity 'fashion'");
    assert_contains(f->err.message, "hs_restore_options.any_identity");
    assert_int_equal(c.loads, 0);
    assert_true(model_is(&f->m, 9));
}

static hs_code load_any(fixture *f, cell *c, const char *identity)
{
    hs_state_provider provider = cell_of(c, "loader", 0, identity);
    hs_restore_options restore = HS_INIT(hs_restore_options, .any_identity = true);
    return reopen(f, &provider, HS_SESSION_OPTIONS(.checkpoint_dir = f->directory, .restore_options = &restore));
}

static void another_identity_is_taken_on_request(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    save_loader(f, 0, "digits");
    assert_ok(load_any(f, &c, "fashion"), &f->err);
    assert_int_equal(c.value, 5);
    assert_contains(f->t.log, "INFO: checkpoint '");
    assert_contains(f->t.log, "belongs to 'digits', but is restored for 'fashion' (any_identity)");
    save_at(f, 2);
    c.loads = 0;
    assert_ok(load_loader(f, &c, 0, "fashion"), &f->err); /* whose it is from then on */
    assert_int_equal(c.loads, 1);
}

static void an_identity_on_one_side_alone_is_a_warning(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    save_loader(f, 0, "digits");
    assert_ok(load_loader(f, &c, 0, NULL), &f->err);
    assert_int_equal(c.value, 5);
    assert_int_equal(times_logged(f, "WARNING"), 1);
    assert_contains(f->t.log, "belongs to 'digits', but its provider has no identity; restored");
    test_env_clear_log(&f->t);
    test_remove_directory(strdup(f->directory));
    save_loader(f, 0, NULL);
    c = (cell){.value = 0};
    assert_ok(load_loader(f, &c, 0, "fashion"), &f->err);
    assert_int_equal(c.value, 5);
    assert_int_equal(times_logged(f, "WARNING"), 1);
    assert_contains(f->t.log, "has no identity, but its provider has identity 'fashion'; restored");
}

/* The message has only a part of them. */
static void long_identities_are_logged_whole(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    char ours[900], theirs[900];
    memset(ours, 'a', sizeof ours);
    strcpy(ours + 890, "tail one");
    memset(theirs, 'a', sizeof theirs);
    strcpy(theirs + 890, "tail two");
    save_loader(f, 0, ours);
    assert_fails(load_loader(f, &c, 0, theirs), HS_FAILED_PRECONDITION, &f->err, "hs_restore_options.any_identity");
    assert_contains(f->t.log, "tail one");
    assert_contains(f->t.log, "tail two");
}

/* Hooks. */

typedef struct {
    cell cell;
    const char *identity;
} cell_hook;

static hs_code save_hook(void *self, hs_state_writer *out, hs_error *err)
{
    hs_state_provider provider = cell_provider(self, "");
    return provider.save(self, out, err);
}

static hs_code load_hook(void *self, hs_state_reader *in, hs_error *err)
{
    hs_state_provider provider = cell_provider(self, "");
    return provider.load(self, in, err);
}

static const char *identity_of_hook(void *self)
{
    return ((cell_hook *)self)->identity;
}

static const hs_hook_ops hook_ops =
    HS_INIT(hs_hook_ops, .name = "patience", .save_state = save_hook, .load_state = load_hook, .state_version = 2,
            .state_identity = identity_of_hook, .state_bytes = 8);

static hs_code open_with_hook(fixture *f, hs_hook hook)
{
    return reopen(f, NULL, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook), .checkpoint_dir = f->directory));
}

static void a_hook_has_them_too(void **state)
{
    fixture *f = *state;
    cell_hook saved = {{.value = 5}, "loss"}, loaded = {{.value = 0}, "loss"}, other = {{.value = 0}, "accuracy"};
    assert_ok(open_with_hook(f, (hs_hook){.ops = &hook_ops, .self = &saved}), &f->err);
    save_at(f, 1);
    assert_ok(open_with_hook(f, (hs_hook){.ops = &hook_ops, .self = &loaded}), &f->err);
    assert_int_equal(loaded.cell.value, 5);
    assert_int_equal(loaded.cell.version, 2);
    assert_fails(open_with_hook(f, (hs_hook){.ops = &hook_ops, .self = &other}), HS_FAILED_PRECONDITION, &f->err,
                 "state 'hooksess/hook/patience' belongs to 'loss', but its provider has identity 'accuracy'");
    assert_int_equal(other.cell.loads, 0);
}

static void a_watched_hook_keeps_them(void **state)
{
    fixture *f = *state;
    cell_hook saved = {{.value = 5}, "loss"};
    hs_script *script = hs_script_new(&f->t.env);
    hs_hook hook = hs_script_watch(script, NULL, (hs_hook){.ops = &hook_ops, .self = &saved});
    assert_int_equal(hook.ops->state_version, 2);
    assert_int_equal(hook.ops->state_bytes, 8);
    assert_string_equal(hook.ops->state_identity(hook.self), "loss");
    hs_hook_free(hook);
    hs_script_free(script);
}

/* Refusals when a provider is added. */

static void assert_refused(fixture *f, const hs_state_provider *provider, const char *why)
{
    assert_fails(open_with_state(f, provider), HS_INVALID_ARGUMENT, &f->err, why);
}

static void invalid_providers(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    hs_state_provider provider = cell_provider(&c, "a:b");
    assert_refused(f, &provider,
                   "state 'a:b': the name contains ':', which is reserved for NAME:version and NAME:identity");
    provider.name = "";
    assert_refused(f, &provider, "the state to save has no name");
    provider = cell_of(&c, "loader", -1, NULL);
    assert_refused(f, &provider, "state 'loader': version is -1");
    provider = cell_of(&c, "loader", 0, "two\nlines");
    assert_refused(f, &provider, "state 'loader': identity must be one line of text");
    provider = (hs_state_provider){.name = "loader"};
    assert_refused(f, &provider, "HS_INIT(hs_state_provider");
}

static void a_hook_whose_state_cannot_be_named(void **state)
{
    fixture *f = *state;
    cell_hook hook = {.identity = "loss"};
    static hs_hook_ops ops; /* as long as the session */
    ops = hook_ops;
    ops.name = "early:stop";
    assert_fails(open_with_hook(f, (hs_hook){.ops = &ops, .self = &hook}), HS_INVALID_ARGUMENT, &f->err,
                 "hook 'early:stop': the name contains ':', which is reserved for NAME:version and NAME:identity");
    ops.save_state = NULL;
    ops.load_state = NULL;
    assert_ok(open_with_hook(f, (hs_hook){.ops = &ops, .self = &hook}), &f->err);
}

static void a_provider_without_a_version_and_an_identity(void **state)
{
    fixture *f = *state;
    cell c = {.value = 5};
    hs_state_provider provider = cell_of(&c, "loader", 0, NULL);
    assert_ok(open_with_state(f, &provider), &f->err);
    save_at(f, 1);
    assert_true(has_tensor(f, 1, "hooksess/state/loader"));
    assert_false(has_tensor(f, 1, "hooksess/state/loader:version"));
    assert_false(has_tensor(f, 1, "hooksess/state/loader:identity"));
}

/* Damage. */

/* A newer checkpoint with this tensor is skipped, and step 1 is restored. */
static void assert_passed_over(fixture *f, const char *name, hs_tensor value, const char *why)
{
    cell c = {.value = 0};
    test_env_clear_log(&f->t);
    test_remove_directory(strdup(f->directory));
    save_loader(f, 0, "digits");
    model_set(&f->m, 2);
    write_checkpoint_with(f, 2, (hs_feed[]){{name, value}, {.name = NULL}});
    write_state(f, "model_checkpoint_path: \"model.ckpt-2\"\nall_model_checkpoint_paths: \"model.ckpt-1\"\n"
                   "all_model_checkpoint_paths: \"model.ckpt-2\"\n");
    assert_ok(load_loader(f, &c, 0, "digits"), &f->err);
    assert_true(model_is(&f->m, 1));
    assert_contains(f->t.log, why);
}

static void versions_and_identities_that_are_none(void **state)
{
    fixture *f = *state;
    static const float number = 1;
    static const int64_t negative = -1, versions[] = {1, 2};
    static const hs_string line = {"digits", 6}, lines = {"digits\nERROR: all is lost", 24}, zero = {"dig\0its", 7};
    const struct {
        const char *name, *why;
        hs_tensor value;
    } damages[] = {
        {"hooksess/state/loader:identity", "is not a scalar of type string", hs_tensor_of(HS_FLOAT, HS_SCALAR, &number)},
        {"hooksess/state/loader:identity", "is not a scalar of type string", hs_tensor_of(HS_STRING, HS_SHAPE(1), &line)},
        {"hooksess/state/loader:identity", "is not one line of text", hs_tensor_of(HS_STRING, HS_SCALAR, &lines)},
        {"hooksess/state/loader:identity", "is not one line of text", hs_tensor_of(HS_STRING, HS_SCALAR, &zero)},
        {"hooksess/state/loader:version", "is not a scalar of type int64", hs_tensor_of(HS_FLOAT, HS_SCALAR, &number)},
        {"hooksess/state/loader:version", "is not a scalar of type int64", hs_tensor_of(HS_INT64, HS_SHAPE(2), versions)},
        {"hooksess/state/loader:version", "is -1, which is not a version", hs_tensor_of(HS_INT64, HS_SCALAR, &negative)},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
        assert_passed_over(f, damages[i].name, damages[i].value, damages[i].why);
}

static void an_identity_that_was_changed_on_the_disk(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    size_t bytes;
    save_loader(f, 0, "digits");
    char *data = test_read_file(file_of(f, 1, DATA), &bytes);
    assert_memory_equal(data + bytes - 6, "digits", 6); /* it comes last */
    free(data);
    flip_bit(file_of(f, 1, DATA), 8 * (bytes - 1));
    assert_fails(load_loader(f, &c, 0, "digits"), HS_DATA_LOSS, &f->err, "checksum mismatch");
    assert_int_equal(c.loads, 0);
}

static void an_empty_identity_in_a_file_means_none(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    static const hs_string empty = {"", 0};
    model_set(&f->m, 1);
    write_checkpoint_with(
        f, 1, (hs_feed[]){{"hooksess/state/loader:identity", hs_tensor_of(HS_STRING, HS_SCALAR, &empty)}, {.name = NULL}});
    assert_ok(load_loader(f, &c, 0, NULL), &f->err);
    assert_lacks(f->t.log, "names nothing");
}

/* Memory and disk. */

static hs_code save_and_restore(test_env *t, void *user)
{
    fixture *f = user;
    model m = {.step = 0};
    cell c = {.value = 5};
    hs_error err = {0};
    hs_state_provider provider = cell_of(&c, "loader", 2, "digits");
    test_tolerate_harmless(t); /* failures without effect: the copy grows instead, and the sweep is skipped */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_empty_directory(f->directory);
    model_build(&m, &t->env);
    hs_graph_add_state(m.graph, &provider);
    m.session = hs_session_open(hs_graph_backend(m.graph), NULL, &err);
    hs_saver *saver = m.session ? hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env), &err) : NULL;
    hs_save_options options = HS_INIT(hs_save_options, .background = c.value == 5);
    if (saver && !hs_saver_save(saver, model_raw(&m), test_path(f->directory, "other"), 1, &options, &err)) {
        hs_save_result result;
        hs_saver_wait(saver);
        if (hs_saver_poll(saver, NULL, &result))
            err = result.error;
        c.value = 6;
        if (!err.code && hs_saver_restore(saver, model_raw(&m), test_path(f->directory, "other-1"), NULL, &err))
            assert_int_equal(c.value, 6);
    }
    hs_code code = err.code;
    model_close(&m);
    hs_saver_free(saver);
    return code;
}

static void each_allocation(void **state)
{
    test_each_allocation(save_and_restore, *state);
}

static hs_code little_space(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    (void)user, (void)path, (void)err;
    *bytes = 1000;
    return HS_OK;
}

static void the_declared_size_counts_before_a_save(void **state)
{
    fixture *f = *state;
    cell c = {.value = 5};
    hs_state_provider provider = cell_provider(&c, "loader");
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    ops.free_space = little_space;
    env.files.ops = &ops;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &env));
    provider.bytes = 900;
    assert_ok(open_with_state(f, &provider), &f->err);
    save_at(f, 1);
    provider.bytes = 1000;
    assert_ok(open_with_state(f, &provider), &f->err);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 2, NULL, &f->err);
    assert_fails(code, HS_RESOURCE_EXHAUSTED, &f->err, "it needs 1048 bytes, but only 1000 are free on the disk");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
}

static test_env *machine;

static void *small_realloc(void *user, void *block, size_t bytes)
{
    (void)user;
    return bytes > (size_t)1 << 30 ? NULL : machine->env.allocator.realloc(machine, block, bytes);
}

/* The declared size is a hint, not a limit. */
static void the_declared_size_may_be_wrong(void **state)
{
    fixture *f = *state;
    cell c = {.value = 5};
    hs_state_provider provider = cell_provider(&c, "loader");
    hs_env env = f->t.env;
    machine = &f->t;
    env.allocator.realloc = small_realloc;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &env));
    for (int i = 0; i < 4; i++) {
        hs_save_options options = HS_INIT(hs_save_options, .background = i > 1);
        provider.bytes = i % 2 ? SIZE_MAX : 1;
        assert_ok(open_with_state(f, &provider), &f->err);
        hs_code code =
            hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), i, &options, &f->err);
        assert_ok(code, &f->err);
        hs_saver_wait(f->saver);
        c = (cell){.value = 0};
        assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, i, NULL), NULL, &f->err), &f->err);
        assert_int_equal(c.value, 5);
    }
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(version_and_identity_are_scalars),
        with_fixture(without_version_and_identity_there_are_no_scalars),
        with_fixture(a_save_in_the_background_has_them),
        with_fixture(load_gets_the_version_of_the_state),
        with_fixture(state_from_before_there_were_versions_is_of_version_0),
        with_fixture(a_later_version_is_refused),
        with_fixture(the_same_identity_is_taken_without_a_word),
        with_fixture(another_identity_is_refused),
        with_fixture(another_identity_is_taken_on_request),
        with_fixture(an_identity_on_one_side_alone_is_a_warning),
        with_fixture(long_identities_are_logged_whole),
        with_fixture(a_hook_has_them_too),
        with_fixture(a_watched_hook_keeps_them),
        with_fixture(invalid_providers),
        with_fixture(a_hook_whose_state_cannot_be_named),
        with_fixture(a_provider_without_a_version_and_an_identity),
        with_fixture(versions_and_identities_that_are_none),
        with_fixture(an_identity_that_was_changed_on_the_disk),
        with_fixture(an_empty_identity_in_a_file_means_none),
        with_fixture(each_allocation),
        with_fixture(the_declared_size_counts_before_a_save),
        with_fixture(the_declared_size_may_be_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
