/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are parts of larger ones. */
#include "support/test.h"

/* "a" [2,2] in two rows, "b" [4] in two halves, and "c", which is whole. */
typedef struct {
    test_env t;
    char *directory;
    float a[2][2], b[4], c;
    hs_graph *graph;
    hs_backend_ops ops;
    hs_session *session;
    hs_saver *saver;
    hs_error err;
} fixture;

static bool part_of(void *graph, size_t index, hs_variable_slice *out)
{
    hs_variable part;
    if (!hs_backend_variable(hs_graph_backend(graph), index, &part) || part.name[1] != '/')
        return false;
    int64_t number = part.name[2] - '0';
    bool is_a = part.name[0] == 'a';
    *out = (hs_variable_slice){.name = is_a ? "a" : "b", .shape = is_a ? HS_SHAPE(2, 2) : HS_SHAPE(4)};
    out->starts[0] = is_a ? number : 2 * number;
    return true;
}

static void set(fixture *f, float first)
{
    for (int i = 0; i < 4; i++) {
        f->a[i / 2][i % 2] = first + (float)i;
        f->b[i] = first + 10 + (float)i;
    }
    f->c = first + 20;
}

static bool is(const fixture *f, float first)
{
    fixture wanted;
    set(&wanted, first);
    return memcmp(f->a, wanted.a, sizeof f->a) == 0 && memcmp(f->b, wanted.b, sizeof f->b) == 0 && f->c == wanted.c;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    f->directory = test_make_directory();
    f->graph = hs_graph_new(&f->t.env);
    hs_graph_variable(f->graph, "a/0", HS_FLOAT, HS_SHAPE(1, 2), f->a[0]);
    hs_graph_variable(f->graph, "a/1", HS_FLOAT, HS_SHAPE(1, 2), f->a[1]);
    hs_graph_variable(f->graph, "b/0", HS_FLOAT, HS_SHAPE(2), f->b);
    hs_graph_variable(f->graph, "b/1", HS_FLOAT, HS_SHAPE(2), f->b + 2);
    hs_graph_variable(f->graph, "c", HS_FLOAT, HS_SCALAR, &f->c);
    hs_backend backend = hs_graph_backend(f->graph);
    f->ops = *backend.ops;
    f->ops.variable_slice = part_of;
    f->session = hs_session_open((hs_backend){&f->ops, backend.self}, NULL, &f->err);
    assert_non_null(f->session);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs_saver_free(f->saver);
    hs_session_close(f->session, NULL);
    hs_graph_free(f->graph);
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    free(f);
    assert_int_equal(left, 0);
    return 0;
}
#define with_parts(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Saves these variables (NULL: all) under the name "model". */
static hs_code save(fixture *f, const char *const *variables)
{
    const hs_saver_options options = HS_INIT(hs_saver_options, .env = &f->t.env, .variables = variables);
    hs_saver_free(f->saver);
    f->saver = hs_saver_new(&options, &f->err);
    return hs_saver_save(f->saver, hs_session_raw(f->session), test_path(f->directory, "model"), -1, NULL, &f->err);
}

static void parts_are_saved_as_one_tensor(void **state)
{
    fixture *f = *state;
    float a[2][2], b[4];
    set(f, 1);
    assert_ok(save(f, NULL), &f->err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, test_path(f->directory, "model"), &f->err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_read(reader, "a", a, sizeof a, &f->err), &f->err);
    assert_ok(hs_checkpoint_read(reader, "b", b, sizeof b, &f->err), &f->err);
    assert_memory_equal(a, f->a, sizeof a);
    assert_memory_equal(b, f->b, sizeof b);
    hs_checkpoint_close(reader);
}

static void parts_come_back_from_a_copy(void **state)
{
    fixture *f = *state;
    hs_state_copy *copy = NULL;
    set(f, 1);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(f->session), &copy, &f->err), &f->err);
    set(f, 2);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(f->session), copy, &f->err), &f->err);
    assert_true(is(f, 1));
    hs_state_copy_free(copy);
}

static void parts_are_restored_from_it(void **state)
{
    fixture *f = *state;
    set(f, 1);
    assert_ok(save(f, NULL), &f->err);
    set(f, 2);
    hs_raw_session *raw = hs_session_raw(f->session);
    assert_ok(hs_saver_restore(f->saver, raw, test_path(f->directory, "model"), NULL, &f->err), &f->err);
    assert_true(is(f, 1));
}

static void parts_are_restored_from_a_whole_tensor(void **state)
{
    fixture *f = *state;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "a", HS_FLOAT, HS_SHAPE(2, 2), f->a[0]);
    hs_graph_variable(graph, "b", HS_FLOAT, HS_SHAPE(4), f->b);
    hs_graph_variable(graph, "c", HS_FLOAT, HS_SCALAR, &f->c);
    hs_session *whole = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    f->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &f->t.env), &f->err);
    set(f, 1);
    hs_raw_session *raw = hs_session_raw(whole);
    assert_ok(hs_saver_save(f->saver, raw, test_path(f->directory, "model"), -1, NULL, &f->err), &f->err);
    hs_session_close(whole, NULL);
    hs_graph_free(graph);
    set(f, 2);
    raw = hs_session_raw(f->session);
    assert_ok(hs_saver_restore(f->saver, raw, test_path(f->directory, "model"), NULL, &f->err), &f->err);
    assert_true(is(f, 1));
}

static void assert_lacks_parts(fixture *f, const char *const *variables, const char *whole)
{
    char text[64];
    snprintf(text, sizeof text, "'%s' is partitioned, and some of its parts are not saved", whole);
    assert_fails(save(f, variables), HS_INVALID_ARGUMENT, &f->err, text);
    assert_int_equal(test_count_files(f->directory, "model."), 0);
}

static void all_parts_are_saved_or_none(void **state)
{
    fixture *f = *state;
    assert_lacks_parts(f, HS_NAMES("a/0"), "a");
    assert_lacks_parts(f, HS_NAMES("a/1", "c"), "a");
    assert_lacks_parts(f, HS_NAMES("a/0", "b/0", "b/1"), "a");
    assert_lacks_parts(f, HS_NAMES("a/0", "a/1", "b/1"), "b");
    assert_ok(save(f, HS_NAMES("b/0", "b/1")), &f->err);
    assert_ok(save(f, HS_NAMES("c")), &f->err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_parts(parts_are_saved_as_one_tensor), with_parts(parts_are_restored_from_it),
        with_parts(parts_come_back_from_a_copy),   with_parts(parts_are_restored_from_a_whole_tensor),
        with_parts(all_parts_are_saved_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
