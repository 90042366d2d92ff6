/* SPDX-License-Identifier: Apache-2.0 */
/* NULL for every pointer: a code and a message, or the value that the header names, but never a crash. One test for each
 * header. */
#include "session/probe.h"

#include "backends/refused.h"

static void session_h(void **state)
{
    hs_error error;
    (void)state;
    assert_null(hs_session_open((hs_backend){NULL, NULL}, NULL, NULL));
    assert_true(hs_session_should_stop(NULL));
    assert_refused(HS_FAILED_PRECONDITION, hs_session_run(NULL, NULL, err));
    assert_refused(HS_FAILED_PRECONDITION, hs_session_run_args(NULL, NULL, NULL, err));
    assert_refused(HS_FAILED_PRECONDITION, hs_session_run_step(NULL, NULL, NULL, err));
    assert_refused(HS_FAILED_PRECONDITION, hs_session_close(NULL, err).error.code);
    assert_null(hs_step_context_session(NULL));
    assert_refused(HS_FAILED_PRECONDITION, hs_step_context_run_with_hooks(NULL, NULL, NULL, err));
    assert_int_equal(hs_step_context_request_stop(NULL), HS_STOP);
    hs_session_interrupt(NULL);
    hs_session_request_stop(NULL);
    hs_session_fail(NULL, NULL);
    assert_null(hs_session_raw(NULL));
    assert_null(hs_session_coordinator(NULL));
    assert_int_equal(hs_session_global_step(NULL, NULL), -1);
    assert_int_equal(hs_session_global_step(NULL, &error), -1);
    assert_says(&error, HS_FAILED_PRECONDITION, "session is NULL");
}

static hs_code run_without_args(void *user, hs_step_context *step, hs_error *err)
{
    (void)user;
    return hs_step_context_run_with_hooks(step, NULL, NULL, err);
}

static void session_h_with_a_session(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_refused(HS_INVALID_ARGUMENT, hs_session_run(p->session, NULL, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_session_run_step(p->session, NULL, NULL, err));
    assert_ok(hs_session_run_args(p->session, NULL, NULL, NULL), &p->err);
    assert_ok(hs_session_run_step(p->session, run_without_args, NULL, NULL), &p->err);
    hs_session_fail(p->session, NULL);
    assert_string_equal(play_close(p)->error.message, "the caller gave up");
}

static void hook_h(void **state)
{
    play *p = *state;
    hs_summary_writer *writer;
    play_open(p, NULL, 0);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_null(hs_raw_session_backend(NULL).ops);
    assert_null(hs_raw_session_handle(NULL));
    assert_null(hs_raw_session_restored_from(NULL));
    assert_int_equal(hs_raw_session_restored_step(NULL), -1);
    hs_raw_session_record_save(NULL, 1);
    assert_refused(HS_FAILED_PRECONDITION, hs_raw_session_run(NULL, NULL, NULL, err));
    assert_ok(hs_raw_session_run(raw, NULL, NULL, NULL), &p->err);
    assert_int_equal(hs_raw_session_global_step(NULL, &p->err), -1);
    assert_says(&p->err, HS_FAILED_PRECONDITION, "session is NULL");
    assert_int_equal(hs_raw_session_global_step(raw, NULL), 0);
    assert_refused(HS_INVALID_ARGUMENT, hs_raw_session_event_writer(NULL, "x", NULL, &writer, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_raw_session_event_writer(raw, "x", NULL, NULL, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_raw_session_event_writer(raw, "", NULL, &writer, err));
    assert_ok(hs_raw_session_event_writer(raw, NULL, NULL, &writer, &p->err), &p->err);
    assert_null(writer);
    assert_false(test_exists(".", "x")); /* no writer was opened */
    hs_hook_free((hs_hook){0});
    hs_hooks_free(NULL);
    assert_int_equal(hs_hook_hold((hs_hook){0}).flags, HS_HOOK_HELD);
}

static void hook_h_without_a_run(void **state)
{
    hs_error error;
    (void)state;
    assert_null(hs_run_context_original_args(NULL));
    assert_null(hs_run_context_session(NULL));
    assert_int_equal(hs_run_context_kind(NULL), HS_RUN_AUX);
    assert_int_equal(hs_run_context_boundary(NULL), 0);
    assert_int_equal(hs_run_context_global_step(NULL, NULL), -1);
    assert_int_equal(hs_run_context_global_step(NULL, &error), -1);
    assert_says(&error, HS_FAILED_PRECONDITION, "there is no run");
    assert_int_equal(hs_run_context_now(NULL), 0);
    assert_true(hs_run_context_stop_requested(NULL));
    hs_run_context_request_stop(NULL);
    hs_run_context_interrupt(NULL);
    hs_run_context_request_save(NULL);
    hs_run_context_request_boundary(NULL);
    assert_false(test_exists(".", "x"));
}

static void testing_h(void **state)
{
    hs_error error;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, NULL);
    (void)state;
    assert_null(hs_session_open(hs_script_backend(NULL), NULL, &error));
    assert_says(&error, HS_RESOURCE_EXHAUSTED, "the script is NULL");
    assert_ptr_equal(hs_script_env(NULL), hs_test_system_env(NULL));
    assert_int_equal(hs_script_series(NULL, "x", (const double[]){1}, 1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_constant(NULL, "x", &value), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_placeholder(NULL, "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_op(NULL, "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_fail_at(NULL, 1, HS_INTERNAL, "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_fail_open_at(NULL, 1, HS_INTERNAL, "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_delay_at(NULL, 1, 1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_metadata_at(NULL, 1, (hs_bytes){NULL, 0}), HS_INVALID_ARGUMENT);
    hs_script_steps_per_run(NULL, 2);
    hs_script_set_step(NULL, 2);
    hs_script_advance(NULL, 2);
    assert_null(hs_script_watch(NULL, "x", (hs_hook){.ops = NULL}).ops);
    assert_string_equal(hs_script_calls(NULL), "");
    hs_script_clear_calls(NULL);
    hs_script_note(NULL, "x");
    assert_int_equal(hs_script_runs(NULL), 0);
    assert_string_equal(hs_script_last_run(NULL), "");
    assert_null(hs_env_alloc(hs_test_system_env(NULL), 1));
    hs_test_system_advance(NULL, 1);
    assert_string_equal(hs_test_system_log(NULL), "");
    hs_test_system_fail_allocation(NULL, 1);
    hs_test_system_fail_file_call(NULL, 1, HS_INTERNAL, true);
    assert_int_equal(hs_test_system_allocations(NULL) + hs_test_system_live_blocks(NULL), 0);
    assert_int_equal(hs_test_system_file_calls(NULL) + hs_test_system_open_files(NULL), 0);
}

static void scaffold_h(void **state)
{
    play *p = *state;
    hs_scaffold *scaffold = hs_scaffold_new(NULL, NULL);
    assert_non_null(scaffold);
    assert_refused(HS_INVALID_ARGUMENT, hs_scaffold_finalize(NULL, p->backend, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_scaffold_finalize(scaffold, (hs_backend){NULL, NULL}, err));
    hs_scaffold_free(scaffold);
    hs_scaffold_free(NULL);
    assert_null(hs_scaffold_fields(NULL)->init_op);
    assert_null(hs_scaffold_fields(NULL)->init_feeds);
    assert_true(!hs_scaffold_fields(NULL)->init_fn);
    assert_null(hs_scaffold_fields(NULL)->user);
    assert_null(hs_scaffold_fields(NULL)->ready_op);
    assert_null(hs_scaffold_fields(NULL)->ready_for_local_init_op);
    assert_null(hs_scaffold_fields(NULL)->local_init_op);
    assert_null(hs_scaffold_fields(NULL)->local_init_feeds);
    assert_null(hs_scaffold_fields(NULL)->summary_op);
    assert_null(hs_scaffold_fields(NULL)->saver);
}

static void run_h(void **state)
{
    (void)state;
    assert_int_equal(hs_run_values_count(NULL), 0);
    assert_null(hs_run_values_tensor(NULL, 0));
    assert_null(hs_run_values_tensor_at(NULL, NULL));
    assert_true(hs_run_values_number(NULL, 0) != hs_run_values_number(NULL, 0)); /* NaN */
    assert_true(hs_run_values_number_at(NULL, NULL) != hs_run_values_number_at(NULL, NULL));
    assert_null(hs_run_values_options(NULL));
    assert_null(hs_run_values_metadata(NULL).data);
}

static void run_h_with_values(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_true(play_number(p, "five") == 5);
    assert_null(hs_run_values_tensor_at(p->values, NULL));
    assert_true(hs_run_values_number_at(p->values, NULL) != hs_run_values_number_at(p->values, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_h), play_test(session_h_with_a_session),
        play_test(hook_h),           cmocka_unit_test(hook_h_without_a_run),
        cmocka_unit_test(testing_h), play_test(scaffold_h),
        cmocka_unit_test(run_h),     play_test(run_h_with_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
