/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of variables whose memory moves or is not allocated yet (HS_VARIABLE_MOVES). */
#include "checkpoint/model.h"

enum { N = 20000 }; /* larger than variables that a background save copies immediately */

typedef struct {
    test_env t;
    char *directory;
    float *u, *m; /* m is allocated by a step */
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
    hs_error err;
} program;

static void set_all(float *to, float value)
{
    for (size_t i = 0; i < N; i++)
        to[i] = value;
}

static bool is_all(const float *from, float value)
{
    for (size_t i = 0; i < N; i++)
        if (from[i] != value)
            return false;
    return true;
}

static float *make(float value)
{
    float *made = malloc(N * sizeof *made);
    set_all(made, value);
    return made;
}

static void open_with(program *p, const char *name)
{
    p->graph = hs_graph_new(&p->t.env);
    hs_graph_variable_at(p->graph, "u", HS_FLOAT, HS_SHAPE(N), &p->u);
    hs_graph_variable_at(p->graph, name, HS_FLOAT, HS_SHAPE(N), &p->m);
    p->session = hs_session_open(hs_graph_backend(p->graph), NULL, &p->err);
    assert_non_null(p->session);
}

static void close_program(program *p)
{
    hs_session_close(p->session, NULL);
    hs_graph_free(p->graph);
}

static int setup(void **state)
{
    program *p = calloc(1, sizeof *p);
    test_env_init(&p->t);
    p->directory = test_make_directory();
    p->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->t.env), &p->err);
    p->u = make(1);
    open_with(p, "m");
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    program *p = *state;
    close_program(p);
    hs_saver_free(p->saver);
    test_remove_directory(p->directory);
    free(p->u);
    free(p->m);
    int left = p->t.live != 0;
    free(p);
    return left;
}

static hs_raw_session *raw(const program *p)
{
    return hs_session_raw(p->session);
}

static const char *prefix_of(const program *p, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "model.ckpt-%lld", (long long)step);
    return test_path(p->directory, name);
}

static hs_code save_with(program *p, int64_t step, const hs_save_options *options)
{
    return hs_saver_save(p->saver, raw(p), test_path(p->directory, "model.ckpt"), step, options, &p->err);
}

static void save(program *p, int64_t step)
{
    assert_ok(save_with(p, step, NULL), &p->err);
}

static hs_code restore(program *p, int64_t step)
{
    return hs_saver_restore(p->saver, raw(p), prefix_of(p, step), NULL, &p->err);
}

/* Another process: its pointers are NULL. */
static void start_again(program *p, const char *name)
{
    close_program(p);
    free(p->u);
    free(p->m);
    p->u = p->m = NULL;
    open_with(p, name);
}

static bool checkpoint_has(program *p, int64_t step, const char *name)
{
    hs_checkpoint_reader *reader = hs_checkpoint_open(&p->t.env, prefix_of(p, step), &p->err);
    assert_non_null(reader);
    hs_tensor info;
    bool has = hs_checkpoint_find(reader, name, &info, NULL) == HS_OK;
    hs_checkpoint_close(reader);
    return has;
}

/* Moving. */

static void each_save_and_restore_reads_the_pointer(void **state)
{
    program *p = *state;
    float *next = make(2);
    save(p, 1);
    free(p->u);
    p->u = next;
    save(p, 2);
    set_all(p->u, 9);
    p->u = realloc(p->u, 2 * N * sizeof *p->u);
    assert_ok(restore(p, 1), &p->err);
    assert_true(is_all(p->u, 1));
    assert_ok(restore(p, 2), &p->err);
    assert_true(is_all(p->u, 2));
}

/* Without memory. */

static void without_memory_it_is_left_out(void **state)
{
    program *p = *state;
    save(p, 1);
    assert_true(checkpoint_has(p, 1, "u"));
    assert_false(checkpoint_has(p, 1, "m"));
    assert_true(checkpoint_has(p, 1, "hooksess/variable/m:null"));
    p->m = make(5);
    save(p, 2);
    assert_true(checkpoint_has(p, 2, "m"));
    assert_false(checkpoint_has(p, 2, "hooksess/variable/m:null"));
}

static size_t times_in(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static void the_log_says_so_once(void **state)
{
    program *p = *state;
    save(p, 1);
    save(p, 2);
    assert_int_equal(times_in(p->t.log, "not allocated yet"), 1);
    assert_contains(p->t.log, "INFO: not allocated yet: 'm'; checkpoints record that instead of a value");
}

static void a_restore_allocates_variables_with_a_value(void **state)
{
    program *p = *state;
    p->m = make(5);
    save(p, 1);
    start_again(p, "m");
    assert_ok(restore(p, 1), &p->err);
    assert_true(is_all(p->u, 1) && is_all(p->m, 5));
}

static void a_restore_leaves_variables_without_memory_null(void **state)
{
    program *p = *state;
    save(p, 1);
    start_again(p, "m");
    assert_ok(restore(p, 1), &p->err);
    assert_true(is_all(p->u, 1));
    assert_null(p->m);
}

/* A rollback within the process repeats the first update, on zeros as the first time. */
static void a_rollback_clears_variables_that_had_no_memory(void **state)
{
    program *p = *state;
    save(p, 1);
    float *allocated = p->m = make(5);
    assert_ok(restore(p, 1), &p->err);
    assert_ptr_equal(p->m, allocated);
    assert_true(is_all(p->m, 0));
}

static void a_variable_missing_for_another_reason_is_not_found(void **state)
{
    program *p = *state;
    p->m = make(5);
    save(p, 1);
    close_program(p);
    open_with(p, "n");
    assert_fails(restore(p, 1), HS_NOT_FOUND, &p->err, "'n' is missing; 'm' is not in the model");
    save(p, 2);
    close_program(p);
    open_with(p, "m");
    assert_fails(restore(p, 2), HS_NOT_FOUND, &p->err, "'m' is missing");
}

/* The record ":null" is for moving variables: a variable that always has memory needs a value. */
static void a_variable_that_has_memory_is_not_found(void **state)
{
    program *p = *state;
    save(p, 1);
    close_program(p);
    p->m = make(3);
    p->graph = hs_graph_new(&p->t.env);
    hs_graph_variable(p->graph, "u", HS_FLOAT, HS_SHAPE(N), p->u);
    hs_graph_variable(p->graph, "m", HS_FLOAT, HS_SHAPE(N), p->m);
    p->session = hs_session_open(hs_graph_backend(p->graph), NULL, &p->err);
    assert_fails(restore(p, 1), HS_NOT_FOUND, &p->err, "'m' is missing");
}

typedef struct {
    int restored, without;
} events;

static void count(void *user, hs_restore_event event, const char *name, const char *detail)
{
    events *e = user;
    (void)detail;
    e->restored += event == HS_RESTORE_EVENT_RESTORED && strcmp(name, "u") == 0;
    e->without += event == HS_RESTORE_EVENT_WITHOUT_MEMORY && strcmp(name, "m") == 0;
}

static void a_restore_reports_it(void **state)
{
    program *p = *state;
    events e = {0};
    save(p, 1);
    assert_ok(hs_saver_restore(p->saver, raw(p), prefix_of(p, 1), HS_RESTORE_OPTIONS(.report = count, .user = &e), &p->err),
              &p->err);
    assert_int_equal(e.restored, 1);
    assert_int_equal(e.without, 1);
}

static void a_moving_variable_may_have_another_name_in_checkpoints(void **state)
{
    program *p = *state;
    hs_saver_free(p->saver);
    p->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->t.env, .names = HS_CHECKPOINT_NAMES({"m", "adam/m"})), &p->err);
    save(p, 1);
    assert_true(checkpoint_has(p, 1, "hooksess/variable/adam/m:null"));
    p->m = make(5);
    assert_ok(restore(p, 1), &p->err);
    assert_true(is_all(p->m, 0));
}

static void a_restore_that_fails_allocates_nothing(void **state)
{
    program *p = *state;
    p->m = make(5);
    save(p, 1);
    start_again(p, "m");
    truncate_to(test_path(p->directory, "model.ckpt-1." DATA), 100);
    assert_int_equal(restore(p, 1), HS_DATA_LOSS);
    assert_null(p->u);
    assert_null(p->m);
}

/* Shards, the background, copies in memory, other formats. */

static void a_moving_variable_may_be_in_shards(void **state)
{
    program *p = *state;
    hs_saver_free(p->saver);
    p->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->t.env, .shards = 3), &p->err);
    save(p, 1);
    p->m = make(5);
    save(p, 2);
    assert_ok(restore(p, 1), &p->err);
    assert_true(is_all(p->m, 0));
    start_again(p, "m");
    assert_ok(restore(p, 2), &p->err);
    assert_true(is_all(p->u, 1) && is_all(p->m, 5));
}

/* The program frees the memory immediately after the call. */
static void a_save_that_overlaps_reads_no_memory_that_has_moved(void **state)
{
    program *p = *state;
    assert_ok(save_with(p, 1, HS_SAVE_OPTIONS(.background = true, .overlap = true)), &p->err);
    set_all(p->u, -1);
    free(p->u);
    p->u = NULL;
    hs_saver_wait(p->saver);
    hs_save_result result;
    assert_true(hs_saver_poll(p->saver, NULL, &result));
    assert_ok(result.error.code, &result.error);
    assert_ok(restore(p, 1), &p->err);
    assert_true(is_all(p->u, 1));
}

static void a_copy_in_memory_has_it(void **state)
{
    program *p = *state;
    hs_state_copy *copy = NULL;
    p->m = make(5);
    assert_ok(hs_raw_session_copy_state(raw(p), &copy, &p->err), &p->err);
    free(p->m);
    p->m = NULL;
    set_all(p->u, 9);
    assert_ok(hs_raw_session_restore_copy(raw(p), copy, &p->err), &p->err);
    assert_true(is_all(p->u, 1) && is_all(p->m, 5));
    hs_state_copy_free(copy);
}

static void a_copy_in_memory_knows_that_it_had_none(void **state)
{
    program *p = *state;
    hs_state_copy *copy = NULL;
    assert_ok(hs_raw_session_copy_state(raw(p), &copy, &p->err), &p->err);
    assert_ok(hs_raw_session_restore_copy(raw(p), copy, &p->err), &p->err);
    assert_null(p->m);
    p->m = make(5);
    assert_ok(hs_raw_session_restore_copy(raw(p), copy, &p->err), &p->err);
    assert_true(is_all(p->m, 0));
    assert_lacks(p->t.log, "no provider loads");
    hs_state_copy_free(copy);
}

static void a_file_of_weights_lacks_it(void **state)
{
    program *p = *state;
    const char *path = test_path(p->directory, "m.safetensors");
    assert_ok(hs_safetensors_save(raw(p), path, NULL, &p->err), &p->err);
    assert_fails(hs_safetensors_load(raw(p), path, NULL, &p->err), HS_NOT_FOUND, &p->err, "'m' is missing");
    set_all(p->u, 9);
    assert_ok(hs_safetensors_load(raw(p), path, HS_RESTORE_OPTIONS(.allow_missing = true), &p->err), &p->err);
    assert_true(is_all(p->u, 1));
    assert_null(p->m);
}

static void the_graph_is_shown_as_ever(void **state)
{
    program *p = *state;
    hs_bytes def;
    assert_ok(hs_backend_graph_def(hs_graph_backend(p->graph), &def, &p->err), &p->err);
    assert_true(def.size > 0);
}

/* Whichever allocation fails. */

static hs_code save_restore_and_copy(program *p, hs_error *err)
{
    hs_state_copy *copy = NULL;
    const char *prefix = test_path(p->directory, "model.ckpt");
    hs_code code;
    if (!(code = hs_saver_save(p->saver, raw(p), prefix, 1, NULL, err)) &&
        !(code = hs_saver_restore(p->saver, raw(p), prefix_of(p, 1), NULL, err)) &&
        !(code = hs_raw_session_copy_state(raw(p), &copy, err)))
        code = hs_raw_session_restore_copy(raw(p), copy, err);
    hs_state_copy_free(copy);
    return code;
}

static hs_code scenario(test_env *t, void *user)
{
    program p = {.directory = user};
    hs_code code = HS_RESOURCE_EXHAUSTED;
    test_tolerate_harmless(t);                     /* looking for leftovers */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_tolerate(t, "; a power cut may take '");  /* the directory was not made here */
    test_empty_directory(p.directory);
    p.u = make(1);
    p.graph = hs_graph_new(&t->env);
    p.saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env), &p.err);
    hs_graph_variable_at(p.graph, "u", HS_FLOAT, HS_SHAPE(N), &p.u);
    hs_graph_variable_at(p.graph, "m", HS_FLOAT, HS_SHAPE(N), &p.m);
    p.session = hs_session_open(hs_graph_backend(p.graph), NULL, &p.err);
    if (p.session && p.saver)
        code = save_restore_and_copy(&p, &p.err);
    if (!is_all(p.u, 1) || p.m)
        fail_msg("the model has changed");
    close_program(&p);
    hs_saver_free(p.saver);
    free(p.u);
    return code;
}

static void each_allocation(void **state)
{
    char *directory = test_make_directory();
    (void)state;
    test_each_allocation(scenario, directory);
    test_remove_directory(directory);
}

int main(void)
{
#define with_program(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        with_program(each_save_and_restore_reads_the_pointer),
        with_program(without_memory_it_is_left_out),
        with_program(the_log_says_so_once),
        with_program(a_restore_allocates_variables_with_a_value),
        with_program(a_restore_leaves_variables_without_memory_null),
        with_program(a_rollback_clears_variables_that_had_no_memory),
        with_program(a_variable_missing_for_another_reason_is_not_found),
        with_program(a_variable_that_has_memory_is_not_found),
        with_program(a_restore_reports_it),
        with_program(a_moving_variable_may_have_another_name_in_checkpoints),
        with_program(a_restore_that_fails_allocates_nothing),
        with_program(a_moving_variable_may_be_in_shards),
        with_program(a_save_that_overlaps_reads_no_memory_that_has_moved),
        with_program(a_copy_in_memory_has_it),
        with_program(a_copy_in_memory_knows_that_it_had_none),
        with_program(a_file_of_weights_lacks_it),
        with_program(the_graph_is_shown_as_ever),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
