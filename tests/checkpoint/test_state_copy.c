/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the state in memory. */
#include "checkpoint/cell.h"
#include "checkpoint/wall.h"

#include "session/session.h"

static hs_code copy(fixture *f, hs_state_copy **to)
{
    return hs_raw_session_copy_state(model_raw(&f->m), to, &f->err);
}

static hs_code go_back(fixture *f, const hs_state_copy *to)
{
    return hs_raw_session_restore_copy(model_raw(&f->m), to, &f->err);
}

/* A copy of the fixture's model at that step. */
static hs_state_copy *copy_of(fixture *f, int64_t step)
{
    hs_state_copy *made = NULL;
    model_set(&f->m, step);
    assert_ok(copy(f, &made), &f->err);
    return made;
}

static hs_state_provider loader(cell *c, int64_t version, const char *identity)
{
    return cell_of(c, "loader", version, identity);
}

/* Opens the model with a loader (may be NULL), without a restore. */
static void open_afresh(fixture *f, const hs_state_provider *provider)
{
    assert_ok(reopen(f, provider, NULL), &f->err);
}

/* Variables. */

static void variables_come_back(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 3);
    assert_int_equal(hs_state_copy_step(c), 3);
    assert_ok(model_train(&f->m, 2), &f->m.err);
    assert_ok(go_back(f, c), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_int_equal(hs_session_global_step(f->m.session, NULL), 3);
    hs_state_copy_free(c);
}

static void the_copy_stays(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 3);
    for (int i = 0; i < 2; i++) {
        model_set(&f->m, 9);
        assert_ok(go_back(f, c), &f->err);
        assert_true(model_is(&f->m, 3));
    }
    hs_state_copy_free(c);
}

static void its_memory_is_used_again(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 3), *first = c;
    size_t live = f->t.live;
    model_set(&f->m, 4);
    assert_ok(copy(f, &c), &f->err);
    assert_ptr_equal(c, first);
    assert_int_equal(f->t.live, live);
    assert_int_equal(hs_state_copy_step(c), 4);
    model_set(&f->m, 9);
    assert_ok(go_back(f, c), &f->err);
    assert_true(model_is(&f->m, 4));
    hs_state_copy_free(c);
}

static void memory_of_a_device_and_state(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = NULL;
    wall *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_ok(wall_open(w, &f->t.env, (wall_kind){.on_device = {[1] = true, [4] = true}}), &w->err);
    hs_raw_session *raw = hs_session_raw(w->session);
    wall_set(w, 1);
    assert_ok(hs_raw_session_copy_state(raw, &c, &f->err), &f->err);
    assert_int_equal(w->device_reads, 2);
    assert_int_equal(hs_state_copy_step(c), -1); /* no global step */
    wall_set(w, 2);
    assert_ok(hs_raw_session_restore_copy(raw, c, &f->err), &f->err);
    assert_true(wall_is(w, 1));
    wall_close(w);
    free(w);
    hs_state_copy_free(c);
}

static void local_variables_are_not_copied(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = NULL;
    double kept = 1, local = 1;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "kept", HS_DOUBLE, HS_SCALAR, &kept);
    hs_graph_add_variable(graph,
                          HS_VARIABLE_DEF(.name = "local", .dtype = HS_DOUBLE, .data = &local, .flags = HS_VARIABLE_LOCAL));
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(session), &c, &f->err), &f->err);
    kept = local = 2;
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(session), c, &f->err), &f->err);
    assert_true(kept == 1 && local == 2);
    hs_state_copy_free(c);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void a_later_session_takes_it(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 3);
    open_afresh(f, NULL);
    model_set(&f->m, 9);
    assert_ok(go_back(f, c), &f->err);
    assert_true(model_is(&f->m, 3));
    hs_state_copy_free(c);
}

/* Restores the copy into a graph with one variable of that name and shape. */
static hs_code go_back_elsewhere(fixture *f, const hs_state_copy *c, const char *name, hs_shape shape)
{
    double data[4] = {7, 7, 7, 7};
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, name, HS_DOUBLE, shape, data);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    hs_code code = hs_raw_session_restore_copy(hs_session_raw(session), c, &f->err);
    assert_true(data[0] == 7);
    assert_int_equal(hs_raw_session_restores(hs_session_raw(session)), 0);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    return code;
}

static void another_graph_is_refused(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 3);
    assert_fails(
        go_back_elsewhere(f, c, "other", HS_SHAPE(2)), HS_NOT_FOUND, &f->err,
        "'the copy of step 3' does not fit the model, and was not restored (1 missing, 0 different): 'other' is missing");
    assert_contains(f->err.message, "restore it into the graph that it was copied from");
    assert_fails(go_back_elsewhere(f, c, "bias", HS_SHAPE(4)), HS_INVALID_ARGUMENT, &f->err,
                 "'bias' is double [2] in the checkpoint, but double [4] in the model");
    hs_state_copy_free(c);
}

/* State. */

static void state_comes_back_with_its_version(void **state)
{
    fixture *f = *state;
    cell before = {.value = 5}, after = {.value = 0};
    hs_state_provider old = loader(&before, 2, "digits"), new = loader(&after, 3, "digits");
    open_afresh(f, &old);
    hs_state_copy *c = copy_of(f, 3);
    before.value = 6;
    assert_ok(go_back(f, c), &f->err);
    assert_int_equal(before.value, 5);
    open_afresh(f, &new);
    assert_ok(go_back(f, c), &f->err);
    assert_int_equal(after.value, 5);
    assert_int_equal(after.version, 2);
    hs_state_copy_free(c);
}

static void a_copy_that_does_not_fit_changes_nothing(void **state)
{
    fixture *f = *state;
    cell c5 = {.value = 5}, other = {.value = 0};
    hs_state_provider digits = loader(&c5, 2, "digits"), letters = loader(&other, 2, "letters"),
                      early = loader(&other, 1, "digits");
    open_afresh(f, &digits);
    hs_state_copy *c = copy_of(f, 3);
    open_afresh(f, &letters);
    model_set(&f->m, 9);
    assert_fails(go_back(f, c), HS_FAILED_PRECONDITION, &f->err,
                 "belongs to 'digits', but its provider has identity 'letters'");
    open_afresh(f, &early);
    assert_fails(go_back(f, c), HS_FAILED_PRECONDITION, &f->err, "has version 2, but its provider supports versions up to");
    assert_true(model_is(&f->m, 9));
    assert_int_equal(other.loads, 0);
    hs_state_copy_free(c);
}

static void unclaimed_states_of_a_copy_can_be_claimed(void **state)
{
    fixture *f = *state;
    cell before = {.value = 5}, late = {.value = 0};
    hs_state_provider provider = loader(&before, 2, "digits"), again = loader(&late, 2, "digits");
    open_afresh(f, &provider);
    hs_state_copy *c = copy_of(f, 3);
    open_afresh(f, NULL);
    assert_ok(go_back(f, c), &f->err);
    assert_ok(hs_raw_session_add_state(model_raw(&f->m), &again, &f->err), &f->err);
    assert_int_equal(late.value, 5);
    hs_state_copy_free(c);
}

static void states_that_the_copy_lacks_keep_their_initial_value(void **state)
{
    fixture *f = *state;
    cell own = {.value = 7};
    hs_state_provider provider = loader(&own, 0, NULL);
    hs_state_copy *c = copy_of(f, 3);
    open_afresh(f, &provider);
    assert_ok(go_back(f, c), &f->err);
    assert_int_equal(own.value, 7);
    assert_contains(f->t.log, "'the copy of step 3' has no state 'hooksess/state/loader'");
    hs_state_copy_free(c);
}

static void a_failed_load_is_reported_and_saves_are_refused(void **state)
{
    fixture *f = *state;
    cell own = {.value = 7};
    hs_state_provider provider = loader(&own, 0, NULL);
    open_afresh(f, &provider);
    hs_state_copy *c = copy_of(f, 3);
    own.fails = HS_UNAVAILABLE;
    assert_fails(go_back(f, c), HS_UNAVAILABLE, &f->err, "cannot load state 'hooksess/state/loader'");
    assert_int_equal(hs_raw_session_save_refusal(model_raw(&f->m), NULL), HS_UNAVAILABLE);
    assert_int_equal(hs_raw_session_restores(model_raw(&f->m)), 0);
    hs_state_copy_free(c);
}

/* As a restore. */

static void restoring_a_copy_counts_as_a_restore(void **state)
{
    fixture *f = *state;
    save_at(f, 2);
    assert_ok(open_with_state(f, NULL), &f->err);
    hs_raw_session *raw = model_raw(&f->m);
    hs_state_copy *c = copy_of(f, 2);
    assert_non_null(hs_raw_session_restored_from(raw));
    assert_int_equal(hs_raw_session_restored_step(raw), 2);
    assert_ok(hs_raw_session_set_metric(raw, "loss", 1, 2, &f->err), &f->err);
    assert_ok(go_back(f, c), &f->err);
    assert_int_equal(hs_raw_session_restores(raw), 2);
    assert_null(hs_raw_session_restored_from(raw));
    assert_false(hs_raw_session_metric(raw, "loss", NULL, NULL));
    hs_state_copy_free(c);
}

/* Saves steps 1 to 5, and rolls the model back to step 3. */
static void save_and_go_back(fixture *f)
{
    hs_state_copy *c = NULL;
    for (int step = 1; step <= 5; step++) {
        save_at(f, step);
        if (step == 3)
            assert_ok(copy(f, &c), &f->err);
    }
    assert_ok(go_back(f, c), &f->err);
    hs_state_copy_free(c);
}

static const char *list_checkpoints(const fixture *f)
{
    static char text[64];
    size_t used = 0;
    text[0] = '\0';
    for (int step = 1; step <= 7; step++) {
        if (has_file(f, step, "index"))
            used += (size_t)snprintf(text + used, sizeof text - used, " %d", step);
        if (has_file(f, step, "abandoned.index"))
            used += (size_t)snprintf(text + used, sizeof text - used, " (%d)", step);
    }
    return text;
}

static void saving_it_again_is_a_rollback(void **state)
{
    fixture *f = *state;
    save_and_go_back(f);
    save_at(f, 3);
    assert_string_equal(list_checkpoints(f), " 1 2 3 (4) (5)");
    save_at(f, 4); /* which is of the new history */
    save_at(f, 5);
    assert_string_equal(list_checkpoints(f), " 1 2 3 4 (4) 5 (5)");
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 5));
}

static void going_on_from_it_is_one_too(void **state)
{
    fixture *f = *state;
    save_and_go_back(f);
    save_at(f, 6);
    assert_string_equal(list_checkpoints(f), " 1 2 3 (4) (5) 6");
}

static void a_save_in_the_background_knows_it(void **state)
{
    fixture *f = *state;
    save_and_go_back(f);
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 3, &options, &f->err),
              &f->err);
    hs_saver_wait(f->saver);
    assert_string_equal(list_checkpoints(f), " 1 2 3 (4) (5)");
}

/* Saves steps 1 to 5, returns to a copy of step 2, and copies a new step 3. */
static void return_to_the_second(fixture *f, hs_state_copy **second, hs_state_copy **third)
{
    for (int step = 1; step <= 5; step++) {
        save_at(f, step);
        if (step == 2)
            assert_ok(copy(f, second), &f->err);
    }
    assert_ok(go_back(f, *second), &f->err);
    model_set(&f->m, 3);
    assert_ok(copy(f, third), &f->err);
}

/* A save in the background fails after its call has returned. The session then returns to a later step than before. */
static void a_save_that_fails_in_the_background_leaves_the_branch_to_the_next_one(void **state)
{
    fixture *f = *state;
    hs_state_copy *second = NULL, *third = NULL;
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    hs_save_result result;
    return_to_the_second(f, &second, &third);
    f->t.fail_file_at = f->t.file_calls + 3;
    f->t.fail_file_on = true;
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 3, &options, &f->err),
              &f->err);
    hs_saver_wait(f->saver);
    f->t.fail_file_at = 0;
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_int_equal(result.error.code, HS_RESOURCE_EXHAUSTED);
    assert_ok(go_back(f, third), &f->err);
    save_at(f, 6);
    assert_string_equal(list_checkpoints(f), " 1 2 (3) (4) (5) 6"); /* also the 3 of before the first return */
    hs_state_copy_free(second);
    hs_state_copy_free(third);
}

/* A save in one directory leaves the branch in another directory to the next save there. */
static void each_directory_has_its_own_branch(void **state)
{
    fixture *f = *state;
    hs_state_copy *second = NULL, *third = NULL;
    char *other = test_make_directory();
    hs_saver *saver_there = hs_saver_new(HS_SAVER_OPTIONS(.env = &f->t.env), &f->err);
    assert_non_null(saver_there);
    return_to_the_second(f, &second, &third);
    assert_ok(hs_saver_save(saver_there, model_raw(&f->m), test_path(other, "model.ckpt"), 3, NULL, &f->err), &f->err);
    assert_ok(go_back(f, third), &f->err);
    save_at(f, 6);
    assert_string_equal(list_checkpoints(f), " 1 2 (3) (4) (5) 6");
    hs_saver_free(saver_there);
    hs_state_copy_free(second);
    hs_state_copy_free(third);
    test_remove_directory(other);
}

/* Step 5 is of the branch that the first of many returns has left, each to a later step. Nothing is saved meanwhile. */
static void the_first_of_many_returns_counts(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 4);
    save_at(f, 4);
    save_at(f, 5);
    for (int64_t step = 5; step < 5 + 20; step++) {
        assert_ok(go_back(f, c), &f->err);
        model_set(&f->m, step);
        assert_ok(copy(f, &c), &f->err);
    }
    save_at(f, 7);
    assert_string_equal(list_checkpoints(f), " 4 (5) 7");
    hs_state_copy_free(c);
}

/* The variable is large enough to be copied by another thread, while the session is rolled back. */
static void a_concurrent_save_has_the_values_at_its_call(void **state)
{
    enum { LARGE = 1 << 18 };
    fixture *f = *state;
    hs_state_copy *c = NULL;
    float *values = calloc(LARGE, sizeof *values);
    assert_non_null(values);
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "values", HS_FLOAT, HS_SHAPE(LARGE), values);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    hs_raw_session *raw = hs_session_raw(session);
    hs_save_options options = HS_INIT(hs_save_options, .background = true, .overlap = true);
    values[LARGE - 1] = 1;
    assert_ok(hs_raw_session_copy_state(raw, &c, &f->err), &f->err);
    values[LARGE - 1] = 2;
    assert_ok(hs_saver_save(f->saver, raw, test_path(f->directory, "large"), -1, &options, &f->err), &f->err);
    assert_ok(hs_raw_session_restore_copy(raw, c, &f->err), &f->err);
    assert_true(values[LARGE - 1] == 1);
    hs_saver_wait(f->saver);
    assert_ok(hs_saver_restore(f->saver, raw, test_path(f->directory, "large"), NULL, &f->err), &f->err);
    assert_true(values[LARGE - 1] == 2);
    hs_state_copy_free(c);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(values);
}

/* An allocator that gives each session the memory of the one before. */
static max_align_t session_memory[sizeof(hs_session) / sizeof(max_align_t) + 1];

static void *alloc_in_place(void *user, size_t bytes)
{
    (void)user;
    return bytes == sizeof(hs_session) ? session_memory : malloc(bytes);
}

static void *realloc_any(void *user, void *block, size_t bytes)
{
    (void)user;
    return realloc(block, bytes);
}

static void free_but_in_place(void *user, void *block)
{
    (void)user;
    if (block != session_memory)
        free(block);
}

static void sessions_at_one_address_are_two(void **state)
{
    fixture *f = *state;
    hs_env env = f->t.env;
    env.allocator = (hs_allocator){alloc_in_place, realloc_any, free_but_in_place, NULL};
    model m;
    for (int i = 0; i < 2; i++) {
        hs_state_copy *c = NULL;
        assert_ok(model_open(&m, &env, NULL), &m.err);
        for (int step = 1; step <= 5; step++) {
            model_set(&m, step);
            assert_ok(hs_saver_save(f->saver, model_raw(&m), test_path(f->directory, "model.ckpt"), step, NULL, &f->err),
                      &f->err);
            if (step == 3)
                assert_ok(hs_raw_session_copy_state(model_raw(&m), &c, &f->err), &f->err);
        }
        assert_ok(hs_raw_session_restore_copy(model_raw(&m), c, &f->err), &f->err);
        assert_ok(hs_saver_save(f->saver, model_raw(&m), test_path(f->directory, "model.ckpt"), 3, NULL, &f->err), &f->err);
        assert_false(has_file(f, 4, "index") || has_file(f, 5, "index"));
        model_close(&m);
        hs_state_copy_free(c);
    }
}

static void restoring_a_file_afterwards_is_what_counts(void **state)
{
    fixture *f = *state;
    save_and_go_back(f);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 4, NULL), NULL, &f->err), &f->err);
    save_at(f, 6);
    assert_string_equal(list_checkpoints(f), " 1 2 3 4 (5) 6");
}

/* Failing. */

static void a_copy_that_fails_says_so_when_it_is_restored(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = copy_of(f, 3);
    cell own = {.value = 0};
    hs_state_provider growing = loader(&own, 0, NULL);
    assert_ok(hs_raw_session_add_state(model_raw(&f->m), &growing, &f->err), &f->err);
    own.padding = (size_t)4 << 20; /* larger than the memory of the first copy */
    f->t.fail_alloc_at = f->t.allocations + 2;
    assert_int_equal(copy(f, &c), HS_RESOURCE_EXHAUSTED);
    f->t.fail_alloc_at = 0;
    assert_int_equal(hs_state_copy_step(c), -1);
    assert_fails(go_back(f, c), HS_FAILED_PRECONDITION, &f->err,
                 "the copy of the state is lost: a later copy reused its memory and failed");
    hs_state_copy_free(c);
}

static void nulls(void **state)
{
    fixture *f = *state;
    hs_state_copy *c = NULL;
    assert_fails(hs_raw_session_copy_state(NULL, &c, &f->err), HS_INVALID_ARGUMENT, &f->err, "session is NULL");
    assert_fails(copy(f, NULL), HS_INVALID_ARGUMENT, &f->err, "copy is NULL");
    assert_fails(go_back(f, NULL), HS_INVALID_ARGUMENT, &f->err, "copy is NULL");
    assert_int_equal(hs_state_copy_step(NULL), -1);
    hs_state_copy_free(NULL);
}

/* Copies and rolls back. A failure does not change the model. */
static hs_code each_scenario(test_env *t, void *user)
{
    model m = {.step = 0};
    cell own = {.value = 5};
    hs_state_copy *c = NULL;
    (void)user;
    test_tolerate_harmless(t); /* the copy grows instead */
    model_build(&m, &t->env);
    hs_state_provider provider = loader(&own, 2, "digits");
    if (m.graph)
        hs_graph_add_state(m.graph, &provider);
    m.session = hs_session_open(hs_graph_backend(m.graph), NULL, &m.err);
    hs_code code = m.session ? HS_OK : m.err.code;
    model_set(&m, 3);
    if (!code && !(code = hs_raw_session_copy_state(model_raw(&m), &c, &m.err))) {
        model_set(&m, 9);
        own.value = 6;
        code = hs_raw_session_restore_copy(model_raw(&m), c, &m.err);
        assert_true(model_is(&m, code ? 9 : 3));
        assert_int_equal(own.value, code ? 6 : 5);
    }
    hs_session_close(m.session, NULL);
    hs_graph_free(m.graph);
    hs_state_copy_free(c);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(each_scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(variables_come_back),
        with_fixture(the_copy_stays),
        with_fixture(its_memory_is_used_again),
        with_fixture(memory_of_a_device_and_state),
        with_fixture(local_variables_are_not_copied),
        with_fixture(a_later_session_takes_it),
        with_fixture(another_graph_is_refused),
        with_fixture(state_comes_back_with_its_version),
        with_fixture(a_copy_that_does_not_fit_changes_nothing),
        with_fixture(unclaimed_states_of_a_copy_can_be_claimed),
        with_fixture(states_that_the_copy_lacks_keep_their_initial_value),
        with_fixture(a_failed_load_is_reported_and_saves_are_refused),
        with_fixture(restoring_a_copy_counts_as_a_restore),
        with_fixture(saving_it_again_is_a_rollback),
        with_fixture(going_on_from_it_is_one_too),
        with_fixture(a_save_in_the_background_knows_it),
        with_fixture(a_save_that_fails_in_the_background_leaves_the_branch_to_the_next_one),
        with_fixture(each_directory_has_its_own_branch),
        with_fixture(the_first_of_many_returns_counts),
        with_fixture(a_concurrent_save_has_the_values_at_its_call),
        with_fixture(sessions_at_one_address_are_two),
        with_fixture(restoring_a_file_afterwards_is_what_counts),
        with_fixture(a_copy_that_fails_says_so_when_it_is_restored),
        with_fixture(nulls),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
