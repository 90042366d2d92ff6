/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the program that save and restore the variables (hs_saver_options.save_variables, restore_variables). */
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include "formats/bundle.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A program whose functions save and restore a model, and a table that is not a variable. */
typedef struct {
    model *m;
    int64_t table;
    bool has_nothing, writes_nothing, damages; /* what the save function does instead */
    hs_code fails;                             /* code of both functions */
    int saves, restores;                       /* calls */
    char prefix[1024];                         /* of the last call */
} program;

/* Like TensorFlow's ops, it does not use hs_env.files, and does not sync. */
static hs_code save_model(void *user, hs_raw_session *session, const char *prefix, hs_error *err)
{
    program *p = user;
    const model *m = p->m;
    char data[1100], index[1100];
    hs__bundle_writer writer;
    const hs_tensor weights = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), (void *)m->weights),
                    bias = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), (void *)m->bias),
                    step = hs_tensor_of(HS_INT64, HS_SCALAR, (void *)&m->step),
                    table = hs_tensor_of(HS_INT64, HS_SCALAR, &p->table);
    assert_ptr_equal(session, model_raw(m));
    p->saves++;
    snprintf(p->prefix, sizeof p->prefix, "%s", prefix);
    if (p->fails || p->writes_nothing)
        return p->fails;
    snprintf(data, sizeof data, "%s." DATA, prefix);
    snprintf(index, sizeof index, "%s.index", prefix);
    hs_code code = hs__bundle_writer_open(&writer, hs_env_default(), data, 0, 1, err);
    if (!code && !p->has_nothing && !(code = hs__bundle_writer_add(&writer, "weights", &weights, err)) &&
        !(code = hs__bundle_writer_add(&writer, "bias", &bias, err)) &&
        !(code = hs__bundle_writer_add(&writer, "table", &table, err)))
        code = hs__bundle_writer_add(&writer, "global_step", &step, err);
    if (!code)
        code = hs__bundle_writer_finish(&writer, index, err);
    hs__bundle_writer_close(&writer);
    if (p->damages)
        flip_bit(data, 100);
    return code;
}

static hs_code restore_model(void *user, hs_raw_session *session, const char *prefix, hs_error *err)
{
    program *p = user;
    model *m = p->m;
    assert_ptr_equal(session, model_raw(m));
    p->restores++;
    snprintf(p->prefix, sizeof p->prefix, "%s", prefix);
    if (p->fails)
        return p->fails;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, prefix, err);
    hs_code code = reader ? hs_checkpoint_read(reader, "weights", m->weights, sizeof m->weights, err) : err->code;
    if (!code && !(code = hs_checkpoint_read(reader, "bias", m->bias, sizeof m->bias, err)) &&
        !(code = hs_checkpoint_read(reader, "global_step", &m->step, sizeof m->step, err)) &&
        !hs_checkpoint_find(reader, "table", NULL, NULL))
        code = hs_checkpoint_read(reader, "table", &p->table, sizeof p->table, err);
    hs_checkpoint_close(reader);
    return code;
}

static hs_saver_options with_functions(program *p, fixture *f)
{
    *p = (program){.m = &f->m, .table = 42};
    return (hs_saver_options)HS_INIT(hs_saver_options, .save_variables = save_model, .restore_variables = restore_model,
                                     .user = p);
}

static hs_code try_save(fixture *f, int64_t step)
{
    model_set(&f->m, step);
    return hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, NULL, &f->err);
}

static hs_code restore(fixture *f, int64_t step)
{
    model_set(&f->m, -1);
    return hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, step, NULL), NULL, &f->err);
}

static void assert_no_checkpoint(const fixture *f, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "model.ckpt-%lld", (long long)step);
    assert_int_equal(test_count_files(f->directory, name), 0);
}

/* Saving. */

static void what_the_function_saves_is_a_checkpoint_like_any_other(void **state)
{
    fixture *f = *state;
    program p;
    use_saver(f, with_functions(&p, f));
    save_at(f, 4);
    assert_int_equal(p.saves, 1);
    assert_int_equal(test_count_files(f->directory, "model.ckpt-4"), 3); /* data, index and .meta */
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 4));
}

static void a_program_may_save_nothing(void **state)
{
    fixture *f = *state;
    program p;
    use_saver(f, with_functions(&p, f));
    p.has_nothing = true;
    save_at(f, 4);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, 4, NULL), &f->err);
    assert_false(hs_checkpoint_tensor(reader, 0, NULL, NULL));
    hs_checkpoint_close(reader);
}

static void its_tensors_are_divided_into_shards(void **state)
{
    fixture *f = *state;
    program p;
    hs_saver_options options = with_functions(&p, f);
    options.shards = 3;
    use_saver(f, options);
    save_at(f, 4);
    assert_int_equal(test_count_files(f->directory, "model.ckpt-4.data-"), 3);
    p.table = 0;
    assert_ok(restore(f, 4), &f->err);
    assert_true(model_is(&f->m, 4));
    assert_int_equal(p.table, 42);
}

/* The files of the function are not synced; the copies are, before the index gets its name. */
static void the_copies_are_synced(void **state)
{
    fixture *f = *state;
    program p;
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    spy.noted = "sync rename";
    spy.strip = "model.ckpt-4.";
    hs_saver_options options = with_functions(&p, f);
    options.env = &spy.env;
    use_saver(f, options);
    save_at(f, 4);
    assert_string_equal(spy.calls, "sync:" DATA ".tmp sync:index.tmp sync:meta.tmp rename:" DATA
                                   " rename:meta rename:index sync:checkpoint.tmp rename:checkpoint");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options)); /* the spy goes first */
}

static void values_that_are_not_finite_are_found(void **state)
{
    fixture *f = *state;
    program p;
    hs_saver_options options = with_functions(&p, f);
    use_saver(f, options);
    save_at(f, 1);
    model_set(&f->m, 2);
    f->m.weights[5] = NAN;
    const char *prefix = test_path(f->directory, "model.ckpt");
    assert_fails(hs_saver_save(f->saver, model_raw(&f->m), prefix, 2, NULL, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "'weights' is not finite, first at index 5");
    assert_no_checkpoint(f, 2);
    assert_true(has_file(f, 1, "index"));
    options.allow_nonfinite = true;
    use_saver(f, options);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), prefix, 3, NULL, &f->err), &f->err);
    assert_ok(restore(f, 3), &f->err);
    assert_true(isnan(f->m.weights[5]));
}

static void as_many_checkpoints_are_kept_as_ever(void **state)
{
    fixture *f = *state;
    program p;
    hs_saver_options options = with_functions(&p, f);
    options.max_to_keep = 2;
    use_saver(f, options);
    for (int64_t step = 1; step <= 4; step++)
        save_at(f, step);
    assert_int_equal(test_count_files(f->directory, ".index"), 2);
    assert_int_equal(test_count_files(f->directory, ".data-"), 2);
    assert_true(has_file(f, 3, "index") && has_file(f, 4, "index"));
}

static void a_save_in_the_background_is_complete_when_the_call_returns(void **state)
{
    fixture *f = *state;
    program p;
    hs_save_result result;
    use_saver(f, with_functions(&p, f));
    const hs_save_options background = HS_INIT(hs_save_options, .background = true);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 9, &background, &f->err),
              &f->err);
    assert_true(has_file(f, 9, "index"));
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_int_equal(result.step, 9);
    assert_ok(result.error.code, &result.error);
}

static hs_code save_number(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int), err);
}

static hs_code load_number(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int), err);
}

static void state_is_saved_and_restored_too(void **state)
{
    fixture *f = *state;
    program p;
    int number = 41;
    const hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "number", .save = save_number, .load = load_number, .self = &number);
    assert_ok(hs_raw_session_add_state(model_raw(&f->m), &provider, &f->err), &f->err);
    use_saver(f, with_functions(&p, f));
    save_at(f, 1);
    number = 0;
    assert_ok(restore(f, 1), &f->err);
    assert_int_equal(number, 41);
    assert_true(model_is(&f->m, 1));
}

/* Failures. */

static void a_function_that_fails_leaves_the_previous_checkpoint(void **state)
{
    fixture *f = *state;
    program p;
    use_saver(f, with_functions(&p, f));
    save_at(f, 1);
    p.fails = HS_UNAVAILABLE;
    assert_fails(try_save(f, 2), HS_UNAVAILABLE, &f->err, "save_variables");
    p.fails = HS_OK;
    p.writes_nothing = true;
    assert_fails(try_save(f, 2), HS_NOT_FOUND, &f->err, "model.ckpt-2.tmp-variables/variables.index");
    p.writes_nothing = false;
    p.damages = true;
    assert_fails(try_save(f, 2), HS_DATA_LOSS, &f->err, "checksum mismatch of 'weights'");
    assert_no_checkpoint(f, 2);
    p.damages = false;
    assert_ok(restore(f, 1), &f->err);
    assert_true(model_is(&f->m, 1));
}

/* What a failed save has left is not taken for the program's, nor is anything written through a link. */
static void its_directory_is_empty(void **state)
{
    fixture *f = *state;
    program p;
    char outside[1024], temporary[1024];
    snprintf(outside, sizeof outside, "%s", test_path(f->directory, "outside"));
    snprintf(temporary, sizeof temporary, "%s.tmp-variables", file_of(f, 2, NULL));
    use_saver(f, with_functions(&p, f));
    save_at(f, 1);
    assert_int_equal(mkdir(outside, 0700), 0);
    assert_int_equal(symlink(outside, temporary), 0);
    save_at(f, 2);
    assert_int_equal(test_count_files(outside, "variables"), 0);

    snprintf(temporary, sizeof temporary, "%s.tmp-variables", file_of(f, 3, NULL));
    assert_int_equal(mkdir(temporary, 0700), 0);
    snprintf(p.prefix, sizeof p.prefix, "%s", test_path(temporary, "variables"));
    model_set(&f->m, 7);
    assert_ok(save_model(&p, model_raw(&f->m), p.prefix, &f->err), &f->err);
    p.writes_nothing = true;
    assert_fails(try_save(f, 3), HS_NOT_FOUND, &f->err, "variables.index");
    assert_no_checkpoint(f, 3);
}

/* remove_directory of hs_env.files is optional. The directory that stays is used again. */
static void a_directory_that_cannot_be_removed_is_used_again(void **state)
{
    fixture *f = *state;
    program p;
    hs_file_system_ops ops = *f->t.env.files.ops;
    hs_env env = f->t.env;
    hs_saver_options options = with_functions(&p, f);
    ops.remove_directory = NULL;
    env.files.ops = &ops;
    options.env = &env;
    use_saver(f, options);
    save_at(f, 1);
    save_at(f, 1);
    assert_ok(restore(f, 1), &f->err);
    assert_true(model_is(&f->m, 1));
    hs_saver_free(f->saver);
    f->saver = NULL;
}

static hs_code little_space(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    (void)path, (void)err;
    *bytes = *(const uint64_t *)user;
    return HS_OK;
}

static void a_save_needs_the_space_of_the_variables_twice(void **state)
{
    fixture *f = *state;
    program p;
    const uint64_t bytes = sizeof f->m.weights + sizeof f->m.bias + sizeof f->m.step;
    uint64_t space = 2 * bytes - 1;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = f->t.env;
    ops.free_space = little_space;
    env.files = (hs_file_system){&ops, &space};
    hs_saver_options options = with_functions(&p, f);
    options.env = &env;
    use_saver(f, options);
    assert_fails(try_save(f, 2), HS_RESOURCE_EXHAUSTED, &f->err, "are free on the disk");
    assert_int_equal(p.saves, 0);
    space = 2 * bytes;
    assert_ok(try_save(f, 2), &f->err);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
}

static hs_code save_over(test_env *t, void *user)
{
    fixture *f = user;
    program p;
    hs_error err = {0};
    test_tolerate_harmless(t); /* looking for leftovers */
    test_tolerate(t, "': no memory for its path");
    test_tolerate(t, "; a power failure may lose '"); /* the directory was not made here */
    test_empty_directory(f->directory);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options)); /* releases the directory */
    hs_saver_options options = with_functions(&p, f);
    options.env = &t->env;
    hs_saver *saver = hs_saver_new(&options, &err);
    model_set(&f->m, 2);
    if (saver)
        hs_saver_save(saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 2, NULL, &err);
    hs_saver_free(saver);
    return err.code;
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

/* Restoring. */

static void the_function_restores_what_only_it_knows(void **state)
{
    fixture *f = *state;
    program p;
    save_at(f, 3); /* by a saver without functions */
    use_saver(f, with_functions(&p, f));
    assert_ok(restore(f, 3), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_string_equal(p.prefix, file_of(f, 3, NULL));
    save_at(f, 4);
    p.table = 0;
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 4));
    assert_int_equal(p.table, 42);
    assert_int_equal(p.restores, 2);
}

static void a_partial_restore_does_not_call_it(void **state)
{
    fixture *f = *state;
    program p;
    const hs_restore_options parts[] = {HS_INIT(hs_restore_options, .skip = HS_NAMES("bias")),
                                        HS_INIT(hs_restore_options, .allow_missing = true),
                                        HS_INIT(hs_restore_options, .reshape = true),
                                        HS_INIT(hs_restore_options, .names = HS_CHECKPOINT_NAMES({"weights", "weights"}))};
    use_saver(f, with_functions(&p, f));
    save_at(f, 3);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        model_set(&f->m, 9);
        assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL), &parts[i], &f->err), &f->err);
        assert_came(f, true, i > 0, true);
    }
    assert_int_equal(p.restores, 0);
}

static void a_damaged_checkpoint_is_not_given_to_it(void **state)
{
    fixture *f = *state;
    program p;
    use_saver(f, with_functions(&p, f));
    save_at(f, 1);
    save_at(f, 2);
    flip_bit(file_of(f, 2, DATA), 8 * 8 * 3);
    assert_fails(restore(f, 2), HS_DATA_LOSS, &f->err, "checksum mismatch");
    assert_int_equal(p.restores, 0);
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 1));
    assert_true(test_env_logged(&f->t, "model.ckpt-2"));
}

static void if_it_refuses_the_session_is_as_before(void **state)
{
    fixture *f = *state;
    program p;
    int number = 41;
    hs_error refusal = {0};
    const hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "number", .save = save_number, .load = load_number, .self = &number);
    use_saver(f, with_functions(&p, f));
    assert_ok(hs_raw_session_add_state(model_raw(&f->m), &provider, &f->err), &f->err);
    save_at(f, 1);
    number = 7;
    p.fails = HS_INVALID_ARGUMENT;
    assert_fails(restore(f, 1), HS_INVALID_ARGUMENT, &f->err, "restore_variables");
    assert_null(strstr(f->err.message, "partly restored"));
    assert_int_equal(number, 7);
    assert_ok(hs_raw_session_save_refusal(model_raw(&f->m), &refusal), &refusal);
}

static void if_it_fails_nothing_is_saved_until_the_next_restore(void **state)
{
    fixture *f = *state;
    program p;
    hs_error refusal = {0};
    use_saver(f, with_functions(&p, f));
    save_at(f, 1);
    p.fails = HS_UNKNOWN;
    assert_fails(restore(f, 1), HS_UNKNOWN, &f->err, "do not train with this session: the model is partly restored");
    assert_int_equal(hs_raw_session_save_refusal(model_raw(&f->m), &refusal), HS_UNKNOWN);
    p.fails = HS_OK;
    assert_ok(restore(f, 1), &f->err);
    assert_ok(hs_raw_session_save_refusal(model_raw(&f->m), &refusal), &refusal);
}

static hs_code refuse_number(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in;
    return hs_error_set(err, HS_FAILED_PRECONDITION, "another number");
}

static void state_that_cannot_be_loaded_after_it_leaves_the_model_partly_restored(void **state)
{
    fixture *f = *state;
    program p;
    int number = 41;
    hs_error refusal = {0};
    const hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "number", .save = save_number, .load = refuse_number, .self = &number);
    use_saver(f, with_functions(&p, f));
    assert_ok(hs_raw_session_add_state(model_raw(&f->m), &provider, &f->err), &f->err);
    save_at(f, 1);
    assert_fails(restore(f, 1), HS_FAILED_PRECONDITION, &f->err, "the model is partly restored");
    assert_true(model_is(&f->m, 1));
    assert_int_equal(hs_raw_session_save_refusal(model_raw(&f->m), &refusal), HS_FAILED_PRECONDITION);
}

/* Options. */

static void the_functions_select_the_variables(void **state)
{
    fixture *f = *state;
    const struct {
        hs_saver_options options;
        const char *why;
    } cases[] = {
        {HS_INIT(hs_saver_options, .save_variables = save_model, .variables = HS_NAMES("bias")),
         "hs_saver_options.save_variables excludes variables and names"},
        {HS_INIT(hs_saver_options, .restore_variables = restore_model, .names = HS_CHECKPOINT_NAMES({"bias", "b"})),
         "hs_saver_options.restore_variables excludes variables and names"},
        {HS_INIT(hs_saver_options, .saver_def = {NULL, 3}), "saver_def.data is NULL, but its size is not 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(hs_saver_new(&cases[i].options, &f->err));
        assert_says(&f->err, HS_INVALID_ARGUMENT, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(what_the_function_saves_is_a_checkpoint_like_any_other),
        with_fixture(a_program_may_save_nothing),
        with_fixture(its_tensors_are_divided_into_shards),
        with_fixture(the_copies_are_synced),
        with_fixture(values_that_are_not_finite_are_found),
        with_fixture(as_many_checkpoints_are_kept_as_ever),
        with_fixture(a_save_in_the_background_is_complete_when_the_call_returns),
        with_fixture(state_is_saved_and_restored_too),
        with_fixture(a_function_that_fails_leaves_the_previous_checkpoint),
        with_fixture(its_directory_is_empty),
        with_fixture(a_directory_that_cannot_be_removed_is_used_again),
        with_fixture(a_save_needs_the_space_of_the_variables_twice),
        with_fixture(anything_may_fail),
        with_fixture(the_function_restores_what_only_it_knows),
        with_fixture(a_partial_restore_does_not_call_it),
        with_fixture(a_damaged_checkpoint_is_not_given_to_it),
        with_fixture(if_it_refuses_the_session_is_as_before),
        with_fixture(if_it_fails_nothing_is_saved_until_the_next_restore),
        with_fixture(state_that_cannot_be_loaded_after_it_leaves_the_model_partly_restored),
        with_fixture(the_functions_select_the_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
