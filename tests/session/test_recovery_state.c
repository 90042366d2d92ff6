/* SPDX-License-Identifier: Apache-2.0 */
/* The state after a recovery: variables in the program's memory, state of providers, and checkpoints. */
#include "session/lost.h"

/* The program's memory. */

static void the_programs_memory_is_restored_from_the_copy(void **state)
{
    lost *l = *state;
    double v = 7;
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    lost_open(l, NULL);
    lost_inc(l);
    v = 8;
    lost_recover(l);
    assert_true(v == 7);
    assert_int_equal(lost_step(l), 0);
}

static void memory_that_was_not_copied_cannot_be_recovered(void **state)
{
    lost *l = *state;
    double v[4] = {7};
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SHAPE(4), v);
    l->recovery.snapshot_limit = 39; /* one byte less than the state */
    lost_open(l, NULL);
    assert_contains(l->t.log, "larger than hs_recovery.snapshot_limit (39 bytes)");
    assert_fails(lost_fail(l, HS_ABORTED), HS_FAILED_PRECONDITION, &l->err, "cannot recover: no checkpoint exists");
    assert_true(hs_session_should_stop(l->session));
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
}

/* Initializing sets all of its memory, so no copy is needed. */
static void memory_with_a_first_value_is_initialized_again(void **state)
{
    lost *l = *state;
    static const double first[4] = {7};
    double v[4] = {0};
    hs_graph_add_variable(
        l->graph, HS_VARIABLE_DEF(.name = "v", .dtype = HS_DOUBLE, .shape = HS_SHAPE(4), .data = v, .initial = first));
    l->recovery.snapshot_limit = 39;
    lost_open(l, NULL);
    v[0] = 8;
    lost_recover(l);
    assert_true(v[0] == 7);
    assert_int_equal(lost_close(l)->reason, HS_REASON_CLOSED);
}

static void more_than_a_gib_is_not_copied_by_default(void **state)
{
    lost *l = *state;
    const size_t gib = (size_t)1 << 30;
    void *v = calloc(gib, 1); /* never touched */
    assert_non_null(v);
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SHAPE((int64_t)(gib / sizeof(double))),
                      v); /* the global step exceeds the limit */
    lost_open(l, NULL);
    assert_contains(l->t.log, "larger than hs_recovery.snapshot_limit (1073741824 bytes)");
    lost_close(l);
    free(v);
}

/* Without a copy, and without memory of the program, the session is initialized again. Metrics of the lost steps are
 * cleared. */
static void without_a_copy_variables_are_initialized_again(void **state)
{
    lost *l = *state;
    l->recovery.snapshot_limit = 1;
    lost_open(l, NULL);
    lost_inc(l);
    hs_raw_session *raw = hs_session_raw(l->session);
    assert_ok(hs_raw_session_set_metric(raw, "m", 7, 1, &l->err), &l->err);
    int64_t restores = hs_raw_session_restores(raw);
    lost_recover(l);
    assert_int_equal(lost_step(l), 0);
    assert_int_equal(hs_raw_session_restores(raw), restores + 1);
    assert_false(hs_raw_session_metric(raw, "m", NULL, NULL));
    assert_contains(l->t.log, "step 0: recovered from a failure at step 1, initialized again");
}

static hs_code refuse_saves(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)user, (void)scaffold, (void)err;
    hs_raw_session_refuse_saves(session, NULL);
    return HS_OK;
}

/* What the init function has recorded, it records again. The recovery does not drop it. */
static void initializing_again_keeps_what_the_init_function_records(void **state)
{
    lost *l = *state;
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = refuse_saves), &l->err);
    l->recovery.snapshot_limit = 1;
    lost_open(l, HS_SESSION_OPTIONS(.scaffold = scaffold));
    lost_recover(l);
    assert_contains(l->t.log, "initialized again");
    assert_true(hs_raw_session_save_refusal(hs_session_raw(l->session), NULL) != HS_OK);
    lost_close(l);
    hs_scaffold_free(scaffold);
}

static void a_checkpoint_replaces_the_copy(void **state)
{
    lost *l = *state;
    static double v[1 << 12];
    v[0] = 7;
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SHAPE(1 << 12), v);
    lost_open_saving(l);
    lost_inc(l);
    v[0] = 9;
    lost_recover(l);
    assert_true(v[0] == 7); /* as the checkpoint of step 1 has it */
    assert_int_equal(lost_step(l), 1);
}

static void a_recovery_waits_for_a_background_save(void **state)
{
    lost *l = *state;
    static double v[1 << 16];
    l->directory = test_make_directory();
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SHAPE(1 << 16), v);
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = l->directory);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1, .background = true);
    if (!lost_try_open(l, &options, &saver, 1))
        fail_msg("opening: %s", l->err.message);
    for (int64_t step = 1; step <= 5; step++) {
        assert_int_equal(lost_inc(l), step);
        lost_recover(l);
        assert_int_equal(hs_session_global_step(l->session, NULL), step);
    }
}

/* What the opening read by other names. */

/* The checkpoints that this session has saved have its own names. */
static void other_names_do_not_count_for_saves_of_this_session(void **state)
{
    lost *l = *state;
    const hs_restore_options exchanged = HS_INIT(
        hs_restore_options, .names = (const hs_checkpoint_name[]){
                                {.variable = "v", .name = "w"}, {.variable = "w", .name = "v"}, {.variable = NULL}});
    double v = 1, w = 2;
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    hs_graph_variable(l->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    lost_open_saving(l);
    lost_inc(l);
    lost_close(l);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 2);
    lost_try_open(l, HS_SESSION_OPTIONS(.checkpoint_dir = l->directory, .restore_options = &exchanged), &saver, 1);
    assert_true(v == 2 && w == 1);
    v = 3;
    lost_recover(l); /* to what was read by these names */
    assert_true(v == 2 && w == 1);
    lost_inc(l);
    lost_inc(l);
    v = 3;
    lost_recover(l);
    assert_int_equal(lost_step(l), 3);
    assert_true(v == 2 && w == 1);
}

/* checkpoint_dir has checkpoints of another training. */
static void after_HS_RESTORE_NEVER_the_checkpoints_of_another_training_are_not_taken(void **state)
{
    lost *l = *state;
    double v = 1;
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    lost_open_saving(l);
    lost_inc(l);
    lost_inc(l);
    lost_close(l);
    v = 7;
    char *elsewhere = test_make_directory();
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = elsewhere, .every_n_steps = 1);
    lost_try_open(l, HS_SESSION_OPTIONS(.checkpoint_dir = l->directory, .restore = HS_RESTORE_NEVER), &saver, 1);
    v = 8;
    lost_inc(l);
    lost_recover(l);
    assert_true(v == 7); /* the copy of the opening */
    lost_close(l);
    test_remove_directory(elsewhere);
}

/* Providers. */

typedef struct {
    int number, loads;
} counted;

static hs_code save_counted(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((counted *)self)->number, sizeof(int), err);
}

static hs_code load_counted(void *self, hs_state_reader *in, hs_error *err)
{
    counted *c = self;
    c->loads++;
    return hs_state_reader_read(in, &c->number, sizeof c->number, err);
}

static void every_provider_is_restored(void **state)
{
    lost *l = *state;
    counted early = {1, 0};
    hs_graph_state(l->graph, "early", save_counted, load_counted, &early);
    lost_open(l, NULL);
    early.number = 2;
    lost_recover(l);
    assert_int_equal(early.number, 1);
    assert_int_equal(early.loads, 1);
}

static hs_code add_late(probe *p, const probe_call *call)
{
    const hs_state_provider late =
        HS_INIT(hs_state_provider, .name = "late", .save = save_counted, .load = load_counted, .self = p->user);
    return call->point == PROBE_CREATE ? hs_raw_session_add_state(call->raw, &late, call->err) : HS_OK;
}

static void a_late_provider_is_added_again(void **state)
{
    lost *l = *state;
    counted late = {1, 0};
    lost_probe(l, a, .act = add_late, .user = &late);
    lost_open_saving(l);
    late.number = 2;
    lost_inc(l);
    late.number = 3;
    lost_recover(l);
    assert_int_equal(late.number, 2);
}

/* Saves were refused because of the lost state, not because of the restored one. */
static void a_recovery_allows_saves_again(void **state)
{
    lost *l = *state;
    lost_open_saving(l);
    lost_inc(l);
    hs_raw_session_refuse_saves(hs_session_raw(l->session), test_error(HS_FAILED_PRECONDITION, "a guard's word"));
    lost_recover(l);
    assert_int_equal(hs_raw_session_save_refusal(hs_session_raw(l->session), NULL), HS_OK);
}

/* Without checkpoint_dir, a recovery does not find checkpoints that were saved elsewhere or restored by the init
 * function. */
static void checkpoints_elsewhere_do_not_replace_the_copy(void **state)
{
    lost *l = *state;
    double v = 7;
    l->directory = test_make_directory();
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1);
    if (!lost_try_open(l, NULL, &saver, 1))
        fail_msg("opening: %s", l->err.message);
    lost_inc(l);
    v = 8;
    lost_recover(l);
    assert_true(v == 7);
    assert_int_equal(lost_step(l), 0);
}

static hs_code restore_newest(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    lost *l = user;
    char *newest = hs_checkpoint_latest(NULL, l->directory, NULL, err);
    hs_code code = hs_saver_restore(hs_scaffold_fields(scaffold)->saver, session, newest, NULL, err);
    hs_env_free(NULL, newest);
    return code;
}

static void state_that_the_init_function_restored_is_copied(void **state)
{
    lost *l = *state;
    double v = 7;
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    lost_open_saving(l);
    lost_inc(l);
    lost_close(l);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = restore_newest, .user = l), NULL);
    lost_open(l, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true));
    assert_int_equal(lost_inc(l), 2);
    v = 8;
    lost_recover(l);
    assert_true(v == 7);
    assert_int_equal(lost_step(l), 1);
}

/* Variables that the checkpoint does not have are restored from the copy. */
static void variables_that_a_restore_skips_are_recovered(void **state)
{
    lost *l = *state;
    double v = 7, w = 1;
    hs_graph_variable(l->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    hs_graph_variable(l->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    lost_open_saving(l);
    lost_inc(l);
    lost_close(l);
    char *newest = hs_checkpoint_latest(NULL, l->directory, NULL, &l->err);
    const hs_restore_options partial = HS_INIT(hs_restore_options, .skip = HS_NAMES("w"));
    w = 2;
    lost_open(l, HS_SESSION_OPTIONS(.checkpoint_prefix = newest, .restore_options = &partial));
    hs_env_free(NULL, newest);
    v = 8, w = 3;
    lost_recover(l);
    assert_true(v == 7);
    assert_true(w == 2);
}

static void the_sessions_own_checkpoints_are_restored_completely(void **state)
{
    lost *l = *state;
    double w = 1;
    hs_graph_variable(l->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    lost_open_saving(l);
    lost_inc(l);
    lost_close(l);
    const hs_restore_options partial = HS_INIT(hs_restore_options, .skip = HS_NAMES("w"));
    const hs_session_options options =
        HS_INIT(hs_session_options, .checkpoint_dir = l->directory, .restore_options = &partial);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1);
    w = 2;
    if (!lost_try_open(l, &options, &saver, 1))
        fail_msg("opening: %s", l->err.message);
    w = 3;
    lost_recover(l);
    assert_true(w == 2); /* as it was at the opening */
    w = 4;
    lost_inc(l);
    w = 5;
    lost_recover(l);
    assert_true(w == 4);
    assert_int_equal(lost_step(l), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lost_test(the_programs_memory_is_restored_from_the_copy),
        lost_test(memory_that_was_not_copied_cannot_be_recovered),
        lost_test(memory_with_a_first_value_is_initialized_again),
        lost_test(more_than_a_gib_is_not_copied_by_default),
        lost_test(without_a_copy_variables_are_initialized_again),
        lost_test(initializing_again_keeps_what_the_init_function_records),
        lost_test(a_checkpoint_replaces_the_copy),
        lost_test(after_HS_RESTORE_NEVER_the_checkpoints_of_another_training_are_not_taken),
        lost_test(other_names_do_not_count_for_saves_of_this_session),
        lost_test(a_recovery_waits_for_a_background_save),
        lost_test(every_provider_is_restored),
        lost_test(a_late_provider_is_added_again),
        lost_test(a_recovery_allows_saves_again),
        lost_test(checkpoints_elsewhere_do_not_replace_the_copy),
        lost_test(state_that_the_init_function_restored_is_copied),
        lost_test(variables_that_a_restore_skips_are_recovered),
        lost_test(the_sessions_own_checkpoints_are_restored_completely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
