/* SPDX-License-Identifier: Apache-2.0 */
/* A file system whose functions return a code without a message: the caller gets that code and a message. */
#include "base/file_spy.h"
#include "checkpoint/model.h"

enum { TROUBLE = HS_USER + 7 }; /* which the library never makes */
#define STALE "something older"

/* An action of a program; its error is f->err. */
typedef hs_code (*action)(fixture *f, const hs_env *env);

static void assert_message(hs_code code, const hs_error *err, size_t n)
{
    bool has_message = code == TROUBLE && err->message[0] && strcmp(err->message, STALE) != 0 &&
                       !strstr(err->message, "No such file"); /* of an earlier call */
    if (err->code != code || !(code ? has_message : err->message[0] == '\0'))
        fail_msg("with file call %zu failing: %s, and the error is %s: %s", n, hs_code_name(code), hs_code_name(err->code),
                 err->message);
}

/* Repeats the action with the 1st, 2nd, ... call failing. Returns the number of failures. */
static size_t fail_each_call(fixture *f, action act)
{
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    spy.silent = true;
    size_t failures = 0;
    for (size_t n = 1;; n++) {
        file_spy_fail(&spy, n, TROUBLE);
        f->err = (hs_error){HS_NOT_FOUND, 2, STALE};
        hs_code code = act(f, &spy.env);
        assert_message(code, &f->err, n);
        failures += code != HS_OK;
        if (spy.matches < n) {
            assert_int_equal(code, HS_OK);
            return failures;
        }
    }
}

static hs_code save_to(fixture *f, const hs_env *env, const char *prefix)
{
    hs_error err;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = env), &err);
    hs_code code = hs_saver_save(saver, model_raw(&f->m), prefix, 1, NULL, &f->err);
    hs_saver_free(saver);
    return code;
}

static hs_code save_again(fixture *f, const hs_env *env)
{
    test_remove_directory(strdup(test_path(f->directory, "new")));
    return save_to(f, env, test_path(f->directory, "new/model.ckpt"));
}

static hs_code save_over(fixture *f, const hs_env *env)
{
    return save_to(f, env, test_path(f->directory, "model.ckpt"));
}

static void saving(void **state)
{
    fixture *f = *state;
    assert_true(fail_each_call(f, save_again) > 15);
    save_at(f, 1);
    assert_true(fail_each_call(f, save_over) > 15);
}

static hs_code restore(fixture *f, const hs_env *env)
{
    hs_error err;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = env), &err);
    hs_code code = hs_saver_restore(saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err);
    hs_saver_free(saver);
    return code;
}

static void restoring(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_true(fail_each_call(f, restore) > 5);
}

static hs_code open_session(fixture *f, const hs_env *env)
{
    model m = {.err = f->err};
    hs_code code = model_open(&m, env, f->directory);
    f->err = m.err;
    model_close(&m);
    return code;
}

static void opening_a_session_on_a_directory(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_true(fail_each_call(f, open_session) > 5);
}

static hs_code read_one(fixture *f, const hs_env *env)
{
    double bias[2];
    hs_checkpoint_reader *reader = hs_checkpoint_open(env, file_of(f, 1, NULL), &f->err);
    if (!reader)
        return f->err.code;
    f->err = (hs_error){HS_NOT_FOUND, 2, STALE};
    hs_code code = hs_checkpoint_read(reader, "bias", bias, sizeof bias, &f->err);
    hs_checkpoint_close(reader);
    return code;
}

static void reading_without_a_session(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_true(fail_each_call(f, read_one) > 5);
}

/* NULL without an error would mean that the directory has no checkpoint. */
static hs_code find_latest(fixture *f, const hs_env *env)
{
    char *latest = hs_checkpoint_latest(env, f->directory, NULL, &f->err);
    hs_env_free(env, latest);
    assert_true(latest || f->err.code);
    return f->err.code;
}

static void finding_the_latest(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_true(fail_each_call(f, find_latest) > 3);
}

static hs_code write_graph(fixture *f, const hs_env *env)
{
    model m = {.step = 0};
    model_build(&m, env);
    test_remove_directory(strdup(test_path(f->directory, "new")));
    hs_code code = hs_backend_write_graph(hs_graph_backend(m.graph), test_path(f->directory, "new/graph"), "graph.pbtxt",
                                          true, &f->err);
    hs_graph_free(m.graph);
    return code;
}

static void writing_the_graph(void **state)
{
    assert_true(fail_each_call(*state, write_graph) > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(saving),
        with_fixture(restoring),
        with_fixture(opening_a_session_on_a_directory),
        with_fixture(reading_without_a_session),
        with_fixture(finding_the_latest),
        with_fixture(writing_the_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
