/* SPDX-License-Identifier: Apache-2.0 */
/* hs_graph_bytes: a state that is an array of bytes of the program. */
#include "checkpoint/model.h"

typedef struct {
    uint64_t words[3];
    int32_t used;
} generator;

/* Closes the model and opens it with `data` as the state "rng", restoring from `directory` (may be NULL). */
static hs_code open_with(fixture *f, void *data, size_t bytes, const char *directory)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_code code = hs_graph_bytes(f->m.graph, "rng", data, bytes);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), HS_SESSION_OPTIONS(.checkpoint_dir = directory), &f->err);
    return code ? code : f->err.code;
}

static void they_come_back(void **state)
{
    fixture *f = *state;
    generator saved = {.words = {1, 2, 3}, .used = 4}, g = saved;
    assert_ok(open_with(f, &g, sizeof g, NULL), &f->err);
    save_at(f, 1);
    memset(&g, 0xff, sizeof g);
    assert_ok(open_with(f, &g, sizeof g, f->directory), &f->err);
    assert_memory_equal(&g, &saved, sizeof g);
}

static void another_size_is_refused(void **state)
{
    fixture *f = *state;
    generator g = {.used = 4};
    assert_ok(open_with(f, &g, sizeof g, NULL), &f->err);
    save_at(f, 1);
    g.used = 7;
    assert_fails(
        open_with(f, &g, 8, f->directory), HS_INVALID_ARGUMENT, &f->err,
        "cannot load state 'hooksess/state/rng': it has 32 bytes in the checkpoint, but 8 in the program (hs_graph_bytes)");
    assert_int_equal(g.used, 7);
}

static void invalid_additions_are_refused(void **state)
{
    fixture *f = *state;
    int byte = 0;
    assert_int_equal(open_with(f, NULL, 4, NULL), HS_INVALID_ARGUMENT);
    assert_says(&f->err, HS_INVALID_ARGUMENT, "state 'rng': data is NULL");
    assert_int_equal(open_with(f, &byte, 0, NULL), HS_INVALID_ARGUMENT);
    assert_says(&f->err, HS_INVALID_ARGUMENT, "state 'rng': size is 0");
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    assert_int_equal(hs_graph_bytes(f->m.graph, "rng", &byte, sizeof byte), HS_OK);
    assert_int_equal(hs_graph_bytes(f->m.graph, "rng", &byte, sizeof byte), HS_ALREADY_EXISTS);
    assert_says(test_graph_error(f->m.graph), HS_ALREADY_EXISTS, "state 'rng'");
    assert_int_equal(hs_graph_bytes(NULL, "rng", &byte, sizeof byte), HS_INVALID_ARGUMENT);
}

static void the_size_of_the_pointer_is_refused(void **state)
{
    fixture *f = *state;
    generator g = {.used = 4}, *pointer = &g;
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    assert_int_equal(hs_graph_bytes(f->m.graph, "rng", pointer, sizeof pointer), HS_INVALID_ARGUMENT);
    assert_says(test_graph_error(f->m.graph), HS_INVALID_ARGUMENT,
                "'rng' has 8 bytes, but its pointer points to 32: is it the size of the pointer?");
}

static hs_code add(test_env *t, void *user)
{
    int byte = 0;
    (void)user;
    hs_graph *graph = hs_graph_new(&t->env);
    hs_code code = graph ? hs_graph_bytes(graph, "rng", &byte, sizeof byte) : HS_RESOURCE_EXHAUSTED;
    hs_graph_free(graph);
    return code;
}

static void each_failing_allocation(void **state)
{
    (void)state;
    test_each_allocation(add, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(they_come_back),
        with_fixture(another_size_is_refused),
        with_fixture(invalid_additions_are_refused),
        with_fixture(the_size_of_the_pointer_is_refused),
        cmocka_unit_test(each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
