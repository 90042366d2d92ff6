/* SPDX-License-Identifier: Apache-2.0 */
/* Large variables that are copied while the session continues (.overlap). */
#include "checkpoint/model.h"
#include "checkpoint/saver.h"
#include "checkpoint/snapshot.h"

#include "base/thread.h"

enum { LARGE = 1 << 16, N = LARGE / sizeof(float) + 5, VARIABLES = 3, DEVICE = 2 };

/* Two large variables on the host, one on a device, a small one, and ops that add to them. */
typedef struct {
    test_env t;
    char *directory;
    float large[VARIABLES][N];
    float small[4];
    hs_memory memory;
    size_t fetched; /* from the device */
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
    hs__snapshot snapshot;
    hs_error err;
} fixture2;

static hs_code from_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code to_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    ((fixture2 *)user)->fetched++;
    return from_host(user, to, from, bytes, err);
}

static void add_to(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i]++;
}

/* Adds to the variables that it declares as written. */
static hs_code update_written(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    const hs_tensor *written;
    for (size_t i = 0; (written = hs_op_written(op, i)); i++)
        add_to(written->data, written->bytes / sizeof(float));
    return HS_OK;
}

/* Adds to all variables, and declares none. */
static hs_code update_all(void *self, hs_op *op, hs_error *err)
{
    fixture2 *f = self;
    (void)op, (void)err;
    for (size_t i = 0; i < VARIABLES; i++)
        add_to(f->large[i], N);
    add_to(f->small, 4);
    return HS_OK;
}

static int setup(void **state)
{
    fixture2 *f = calloc(1, sizeof *f);
    test_env_init(&f->t);
    f->directory = test_make_directory();
    f->memory = (hs_memory)HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host, .user = f);
    f->graph = hs_graph_new(&f->t.env);
    static const char *const names[VARIABLES] = {"first", "second", "third"};
    for (size_t i = 0; i < VARIABLES; i++)
        hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = names[i], .dtype = HS_FLOAT, .shape = HS_SHAPE(N),
                                                        .data = f->large[i], .memory = i == DEVICE ? &f->memory : NULL));
    hs_graph_variable(f->graph, "small", HS_FLOAT, HS_SHAPE(4), f->small);
    hs_graph_op(f->graph, .name = "look", .run = update_written, .writes = HS_NAMES(NULL));
    hs_graph_op(f->graph, .name = "update_second", .run = update_written, .writes = HS_NAMES("second"));
    hs_graph_op(f->graph, .name = "update_large", .run = update_written, .writes = HS_NAMES("second", "first", "small"));
    hs_graph_op(f->graph, .name = "update_all", .run = update_all, .user = f);
    f->session = hs_session_open(hs_graph_backend(f->graph), NULL, &f->err);
    hs_saver_options options = HS_INIT(hs_saver_options, .env = &f->t.env);
    f->saver = hs_saver_new(&options, &f->err);
    assert_ok(f->err.code, &f->err);
    assert_int_equal(hs__snapshot_init(&f->snapshot, &f->t.env), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture2 *f = *state;
    hs_session_close(f->session, NULL);
    hs__snapshot_free(&f->snapshot);
    hs_saver_free(f->saver);
    hs_graph_free(f->graph);
    test_remove_directory(f->directory);
    int left = f->t.live != 0;
    free(f);
    return left;
}
#define with_session(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static hs_code take_from(fixture2 *f, hs__snapshot *snapshot, hs_session *session, bool overlap)
{
    hs__save_list list;
    hs_code code = hs__save_list_make(&list, &f->t.env, &f->saver->selection, hs_session_raw(session), &f->err);
    if (!code)
        code = hs__meta_graph(&f->t.env, hs_graph_backend(f->graph), f->saver, &list.meta, &f->err);
    if (!code)
        code = hs__snapshot_take(snapshot, &list, overlap, &f->err);
    hs__save_list_free(&list);
    return code;
}

static void take(fixture2 *f)
{
    assert_ok(take_from(f, &f->snapshot, f->session, true), &f->err);
}

static void run(fixture2 *f, const char *op)
{
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(op));
    assert_ok(hs_raw_session_run(hs_session_raw(f->session), &args, NULL, &f->err), &f->err);
}

static size_t count_deferred(fixture2 *f)
{
    return atomic_load(&f->snapshot.n_deferred);
}

static void assert_all_zero(const hs_tensor *value)
{
    const float *values = value->data;
    for (size_t i = 0; i < value->bytes / sizeof *values; i++)
        assert_true(values[i] == 0);
}

/* Completes the snapshot. Asserts that it has the initial values, independent of later changes. */
static void assert_initial_values(fixture2 *f)
{
    hs__snapshot_complete(&f->snapshot, NULL);
    for (size_t i = 0; i < f->snapshot.n_variables; i++) {
        hs__save_item item = hs__snapshot_item(&f->snapshot, i);
        assert_all_zero(&item.value);
    }
    assert_int_equal(f->snapshot.n_variables, VARIABLES + 1);
}

static void large_variables_in_host_memory_are_deferred(void **state)
{
    fixture2 *f = *state;
    take(f);
    assert_int_equal(count_deferred(f), 2);
    assert_int_equal(f->fetched, 1);
    assert_initial_values(f);
    assert_int_equal(count_deferred(f), 0);
}

static void an_op_that_writes_nothing_waits_for_nothing(void **state)
{
    fixture2 *f = *state;
    take(f);
    run(f, "look");
    assert_int_equal(count_deferred(f), 2);
}

static void an_op_waits_for_the_variables_that_it_declares(void **state)
{
    fixture2 *f = *state;
    take(f);
    run(f, "update_second");
    assert_int_equal(count_deferred(f), 1);
    run(f, "update_large");
    assert_int_equal(count_deferred(f), 0);
    assert_true(f->large[1][0] == 2);
    assert_initial_values(f);
}

static void an_op_without_a_declaration_waits_for_all(void **state)
{
    fixture2 *f = *state;
    take(f);
    run(f, "update_all");
    assert_int_equal(count_deferred(f), 0);
    assert_initial_values(f);
}

static void a_variable_that_is_set_is_copied_before(void **state)
{
    fixture2 *f = *state;
    static float ones[N] = {1};
    hs_raw_session *raw = hs_session_raw(f->session);
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SHAPE(N), ones);
    take(f);
    assert_ok(hs_raw_session_backend(raw).ops->write_variable(hs_raw_session_handle(raw), 0, &value, &f->err), &f->err);
    assert_int_equal(count_deferred(f), 1);
    assert_initial_values(f);
}

static void deferred_variables_are_copied_before_the_session_closes(void **state)
{
    fixture2 *f = *state;
    take(f);
    hs_session_close(f->session, NULL);
    f->session = NULL;
    assert_int_equal(count_deferred(f), 0);
    assert_initial_values(f);
}

static void another_snapshot_may_follow_a_complete_one(void **state)
{
    fixture2 *f = *state;
    hs__snapshot second;
    assert_int_equal(hs__snapshot_init(&second, &f->t.env), 0);
    take(f);
    assert_ok(take_from(f, &second, f->session, true), &f->err);
    assert_int_equal(count_deferred(f), 0);
    run(f, "update_second");
    assert_int_equal(atomic_load(&second.n_deferred), 1);
    hs__snapshot_complete(&second, NULL);
    run(f, "update_second"); /* the graph no longer has a guard, and the snapshot may be freed */
    hs__snapshot_free(&second);
    run(f, "update_all");
    assert_initial_values(f);
}

enum { STRINGS = 8192 };

/* The graph has no variables of strings: this one has numbers there. */
static bool variable_of_strings(void *graph, size_t index, hs_variable *out)
{
    if (!hs_backend_variable(hs_graph_backend(graph), index, out))
        return false;
    if (strcmp(out->name, "strings") == 0) {
        out->dtype = HS_STRING;
        out->shape = HS_SHAPE(STRINGS);
    }
    return true;
}

static const hs_backend_ops *graph_ops;

static hs_code read_strings(void *handle, size_t index, hs_tensor *value, hs_error *err)
{
    hs_code code = graph_ops->read_variable(handle, index, value, err);
    if (!code && value->dtype == HS_INT64)
        *value = hs_tensor_of(HS_STRING, HS_SHAPE(STRINGS), value->data);
    return code;
}

static void strings_are_copied_with_their_texts(void **state)
{
    fixture2 *f = *state;
    static hs_string strings[STRINGS];
    char text[] = "before";
    for (size_t i = 0; i < STRINGS; i++)
        strings[i] = (hs_string){text, 6};
    hs_session_close(f->session, NULL);
    hs_graph_variable(f->graph, "strings", HS_INT64, HS_SHAPE(STRINGS, sizeof *strings / sizeof(int64_t)), strings);
    hs_backend backend = hs_graph_backend(f->graph);
    hs_backend_ops ops = *(graph_ops = backend.ops);
    ops.variable = variable_of_strings;
    ops.read_variable = read_strings;
    f->session = hs_session_open((hs_backend){&ops, backend.self}, NULL, &f->err);
    assert_ok(f->err.code, &f->err);
    take(f);
    memcpy(text, "after!", 6);
    hs__snapshot_complete(&f->snapshot, NULL);
    hs__save_item item = hs__snapshot_item(&f->snapshot, 3);
    assert_string_equal(item.name, "strings");
    const hs_string *copies = item.value.data;
    assert_int_equal(copies[STRINGS - 1].bytes, 6);
    assert_memory_equal(copies[STRINGS - 1].data, "before", 6);
    hs_session_close(f->session, NULL);
    f->session = NULL;
}

static void without_the_option_all_is_copied(void **state)
{
    fixture2 *f = *state;
    assert_ok(take_from(f, &f->snapshot, f->session, false), &f->err);
    assert_int_equal(count_deferred(f), 0);
    run(f, "update_all");
    assert_initial_values(f);
}

/* A provider of state may run an op that changes a deferred variable. */
static hs_code save_after_a_run(void *self, hs_state_writer *out, hs_error *err)
{
    fixture2 *f = self;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("update_large"));
    hs_code code = hs_raw_session_run(hs_session_raw(f->session), &args, NULL, err);
    return code ? code : hs_state_writer_write(out, "x", 1, err);
}

static hs_code load_nothing(void *self, hs_state_reader *in, hs_error *err)
{
    char byte;
    (void)self;
    return hs_state_reader_read(in, &byte, 1, err);
}

static void a_provider_that_runs_an_op_changes_nothing_of_it(void **state)
{
    fixture2 *f = *state;
    hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "runner", .save = save_after_a_run, .load = load_nothing, .self = f);
    assert_ok(hs_raw_session_add_state(hs_session_raw(f->session), &provider, &f->err), &f->err);
    take(f);
    assert_true(f->large[0][0] == 1);
    assert_initial_values(f);
}

/* An op that writes the memory of a variable under another name. */
static void memory_of_two_names_is_copied_before_any_of_it_is_written(void **state)
{
    fixture2 *f = *state;
    hs_session_close(f->session, NULL);
    hs_graph_value(f->graph, "view", HS_FLOAT, HS_SHAPE(8), f->large[0] + 100);
    hs_graph_op(f->graph, .name = "update_view", .run = update_written, .writes = HS_NAMES("view"));
    f->session = hs_session_open(hs_graph_backend(f->graph), NULL, &f->err);
    assert_ok(f->err.code, &f->err);
    take(f);
    run(f, "update_view");
    assert_true(f->large[0][100] == 1);
    assert_initial_values(f);
}

static hs_code fill_output(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    add_to(hs_op_output(op, 0)->data, 8);
    return HS_OK;
}

/* An op whose output is in the memory of a variable. */
static void an_output_in_a_variable_is_copied_before_it_is_written(void **state)
{
    fixture2 *f = *state;
    hs_session_close(f->session, NULL);
    hs_graph_op(f->graph, .name = "fill", .run = fill_output, .writes = HS_NAMES(NULL),
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(8), .data = f->large[0] + 100}));
    f->session = hs_session_open(hs_graph_backend(f->graph), NULL, &f->err);
    assert_ok(f->err.code, &f->err);
    take(f);
    run(f, "fill");
    assert_true(f->large[0][100] == 1);
    assert_initial_values(f);
}

/* A saver and its snapshot may be freed before the session is closed. */
static void freeing_a_snapshot_removes_its_guard(void **state)
{
    fixture2 *f = *state;
    hs__snapshot gone;
    assert_int_equal(hs__snapshot_init(&gone, &f->t.env), 0);
    assert_ok(take_from(f, &gone, f->session, true), &f->err);
    hs__snapshot_free(&gone);
    run(f, "update_large");
}

static void a_snapshot_of_another_session_removes_the_guard_of_the_first(void **state)
{
    fixture2 *f = *state;
    void *other = NULL;
    setup(&other);
    fixture2 *g = other;
    take(f);
    hs__snapshot_complete(&f->snapshot, NULL);
    assert_ok(take_from(f, &f->snapshot, g->session, true), &f->err);
    run(f, "update_all");
    assert_int_equal(count_deferred(f), 2);
    run(g, "update_all");
    assert_initial_values(f);
    assert_int_equal(teardown(&other), 0);
    take(f);
}

static void *complete(void *user)
{
    hs__snapshot_complete(user, NULL);
    return NULL;
}

/* The first thread copies, and the other waits. */
static void two_threads_share_the_copying(void **state)
{
    fixture2 *f = *state;
    enum { ROUNDS = 200 };
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        memset(f->large, 0, sizeof f->large);
        memset(f->small, 0, sizeof f->small);
        take(f);
        assert_int_equal(hs__thread_start(&thread, complete, &f->snapshot), 0);
        run(f, i % 2 ? "update_large" : "update_all");
        pthread_join(thread, NULL);
        assert_initial_values(f);
    }
}

/* Save and restore: the checkpoint has the values at the call of the save. */
static void a_save_that_overlaps_has_the_state_of_its_moment(void **state)
{
    fixture2 *f = *state;
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .overlap = true);
    enum { ROUNDS = 20 };
    for (int i = 0; i < ROUNDS; i++) {
        float then = f->large[1][N - 1];
        assert_ok(
            hs_saver_save(f->saver, hs_session_raw(f->session), test_path(f->directory, "ckpt"), i, &options, &f->err),
            &f->err);
        run(f, "update_second");
        run(f, "update_large");
        assert_ok(hs_saver_restore(f->saver, hs_session_raw(f->session), hs_saver_last_path(f->saver), NULL, &f->err),
                  &f->err);
        for (size_t k = 0; k < N; k++)
            assert_true(f->large[1][k] == then);
        run(f, "update_large");
    }
    assert_true(f->large[0][0] == ROUNDS);
}

static const hs_run_args second_updated = HS_INIT(hs_run_args, .names = HS_NAMES("update_second"));

static hs_code update_second(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)err;
    *args = &second_updated;
    return HS_OK;
}

/* As in hook.h: a hook changes a variable by an op that declares the write. */
static void a_change_by_a_hooks_op_is_not_in_the_save(void **state)
{
    fixture2 *f = *state;
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "update_second", .before_run = update_second);
    const hs_hook hook = {.ops = &ops};
    const hs_session_options session = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    const hs_save_options save = HS_INIT(hs_save_options, .background = true, .overlap = true);
    hs_session_close(f->session, NULL);
    f->session = hs_session_open(hs_graph_backend(f->graph), &session, &f->err);
    for (int i = 0; i < 20; i++) {
        float then = f->large[1][0];
        assert_ok(hs_saver_save(f->saver, hs_session_raw(f->session), test_path(f->directory, "ckpt"), i, &save, &f->err),
                  &f->err);
        assert_ok(hs_session_run(f->session, "look", &f->err), &f->err);
        assert_true(f->large[1][0] == then + 1);
        assert_ok(hs_saver_restore(f->saver, hs_session_raw(f->session), hs_saver_last_path(f->saver), NULL, &f->err),
                  &f->err);
        for (size_t k = 0; k < N; k++)
            assert_true(f->large[1][k] == then);
        assert_ok(hs_session_run(f->session, "look", &f->err), &f->err);
    }
}

static void overlap_is_for_saves_in_the_background(void **state)
{
    fixture2 *f = *state;
    hs_save_options options = HS_INIT(hs_save_options, .overlap = true);
    assert_fails(hs_saver_save(f->saver, hs_session_raw(f->session), test_path(f->directory, "ckpt"), 1, &options, &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "hs_save_options.overlap is set, but background is not");
}

static void without_memory_nothing_is_left(void **state)
{
    fixture2 *f = *state;
    hs_code code;
    for (size_t i = 1;; i++) {
        hs__snapshot_free(&f->snapshot);
        assert_int_equal(hs__snapshot_init(&f->snapshot, &f->t.env), 0);
        f->t.fail_alloc_at = f->t.allocations + i;
        code = take_from(f, &f->snapshot, f->session, true);
        f->t.fail_alloc_at = 0;
        if (!code)
            break;
        assert_int_equal(code, HS_RESOURCE_EXHAUSTED);
        assert_int_equal(count_deferred(f), 0);
    }
    assert_int_equal(count_deferred(f), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_session(large_variables_in_host_memory_are_deferred),
        with_session(an_op_that_writes_nothing_waits_for_nothing),
        with_session(an_op_waits_for_the_variables_that_it_declares),
        with_session(an_op_without_a_declaration_waits_for_all),
        with_session(a_variable_that_is_set_is_copied_before),
        with_session(deferred_variables_are_copied_before_the_session_closes),
        with_session(another_snapshot_may_follow_a_complete_one),
        with_session(strings_are_copied_with_their_texts),
        with_session(without_the_option_all_is_copied),
        with_session(a_provider_that_runs_an_op_changes_nothing_of_it),
        with_session(memory_of_two_names_is_copied_before_any_of_it_is_written),
        with_session(an_output_in_a_variable_is_copied_before_it_is_written),
        with_session(freeing_a_snapshot_removes_its_guard),
        with_session(a_snapshot_of_another_session_removes_the_guard_of_the_first),
        with_session(two_threads_share_the_copying),
        with_session(a_save_that_overlaps_has_the_state_of_its_moment),
        with_session(a_change_by_a_hooks_op_is_not_in_the_save),
        with_session(overlap_is_for_saves_in_the_background),
        with_session(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
