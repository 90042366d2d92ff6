/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of structs that programs were compiled with: frozen ones do not change, the others grow at their end only. */
#include "support/test.h"

#include <hooksess/testing.h>
#include <hooksess/tf1/supervisor.h>

/* Where the last member of the first release ends. */
#define ENDS(type, member, bytes)                                                                                          \
    _Static_assert(offsetof(type, member) + sizeof(((type *)0)->member) == (bytes), "the layout of " #type " has changed")
#define FROZEN(type, bytes)    _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")
#define BEGINS_WITH_SIZE(type) _Static_assert(offsetof(type, size) == 0, #type " does not begin with its size")

#if UINTPTR_MAX == UINT64_MAX
FROZEN(hs_input, 16);
FROZEN(hs_error, 1024);
FROZEN(hs_outcome, 1176);
FROZEN(hs_tensor, 112);
FROZEN(hs_shape, 72);
FROZEN(hs_string, 16);
FROZEN(hs_bytes, 16);
FROZEN(hs_hook, 24);
FROZEN(hs_backend, 16);
FROZEN(hs_node, 16);
FROZEN(hs_variable, 104);
FROZEN(hs_fetch, 32);
FROZEN(hs_feed, 120);
FROZEN(hs_allocator, 32);
FROZEN(hs_clock, 32);
FROZEN(hs_logger, 16);
FROZEN(hs_file_system, 16);
FROZEN(hs_file_stat, 32);
FROZEN(hs_debug_watch, 32);
FROZEN(hs_output_def, 96);
FROZEN(hs_host_copy, 24);
FROZEN(hs_saver_listener, 16);
FROZEN(hs_save_result, 1032);
FROZEN(hs_threads, 16);
FROZEN(hs_knob, 72);
FROZEN(hs_knob_value, 8);
FROZEN(hs_nonfinite, 32);
FROZEN(hs_record_totals, 16);
FROZEN(hs_hook_span, 32);
FROZEN(hs_event_value, 240);
FROZEN(hs_event_damage, 72);
FROZEN(hs_write_guard, 24);
FROZEN(hs_safetensors_pair, 16);
FROZEN(hs_chart_margin, 24);
FROZEN(hs_chart, 40);
FROZEN(hs_chart_category, 40);
FROZEN(hs_hparam, 32);
FROZEN(hs_hparam_info, 72);
FROZEN(hs_hparams_metric, 56);
ENDS(hs_trigger, reserved, 40);
FROZEN(hs_writer_status, 1088);
ENDS(hs_env, files, 104);
ENDS(hs_file_system_ops, remove_directory, 128);
ENDS(hs_memory, user, 40);
ENDS(hs_state_provider, bytes, 64);
ENDS(hs_run_args, built, 56);
ENDS(hs_run_options, reserved, 48);
ENDS(hs_backend_call, metadata, 80);
ENDS(hs_backend_ops, meta_graph, 216);
FROZEN(hs_variable_slice, 144);
ENDS(hs_hook_ops, state_bytes, 120);
ENDS(hs_trace_options, reserved, 48);
ENDS(hs_op_def, reserved, 72);
ENDS(hs_variable_def, flags, 144);
ENDS(hs_session_options, hooks, 120);
ENDS(hs_training_options, chief_only_hooks, 208);
ENDS(hs_scaffold_options, env, 104);
ENDS(hs_saver_options, reserved_too, 104);
ENDS(hs_checkpoint_manager_options, reserved, 80);
ENDS(hs_restore_options, reserved, 48);
ENDS(hs_save_options, copy_limit, 48);
ENDS(hs_safetensors_options, metadata, 32);
ENDS(hs_summary_writer_options, name_suffix, 40);
ENDS(hs_control_options, env, 48);
ENDS(hs_run_status_options, env, 24);
ENDS(hs_stop_after_options, env, 48);
ENDS(hs_uniform_histogram_options, description, 24);
ENDS(hs_histogram_counts, counts, 72);
ENDS(hs_image_options, max_outputs, 16);
ENDS(hs_audio_options, max_outputs, 24);
ENDS(hs_summary_plugin, description, 48);
ENDS(hs_pr_curve, description, 56);
ENDS(hs_hparams_config_options, created_secs, 56);
ENDS(hs_hparams_start_options, start_secs, 48);
ENDS(hs_stop_at_step_options, env, 32);
ENDS(hs_nan_tensor_options, env, 32);
ENDS(hs_finite_guard_options, env, 176);
ENDS(hs_logging_tensor_options, reserved, 72);
ENDS(hs_checkpoint_saver_options, reserved, 104);
ENDS(hs_summary_saver_options, env, 64);
ENDS(hs_progress_options, reserved, 72);
ENDS(hs_metrics_file_options, reserved, 80);
ENDS(hs_saver_listener_ops, end, 40);
ENDS(hs_verify_resume_options, env, 88);
ENDS(hs_evaluate_once_options, summary_writer, 96);
ENDS(hs_evaluation_loop_options, max_evaluations, 56);
ENDS(hs_estimator_spec, self, 96);
ENDS(hs_estimator_options, env, 88);
ENDS(hs_estimator_train_options, listeners, 56);
ENDS(hs_estimator_evaluate_options, hooks, 56);
ENDS(hs_estimator_predict_options, reserved, 72);
ENDS(hs_estimator_eval_spec, user, 48);
ENDS(hs_estimator_train_loop_options, training, 40);
ENDS(hs_join_options, left_behind, 40);
ENDS(hs_supervisor_options, reserved, 168);
ENDS(hs_supervisor_session_options, recovery, 56);
ENDS(hs_supervisor_stop_options, left_behind, 32);
ENDS(hs_resume_trial, hook, 48);
ENDS(hs_resume_report, fetch, 808);
#endif

BEGINS_WITH_SIZE(hs_env);
BEGINS_WITH_SIZE(hs_trigger);
BEGINS_WITH_SIZE(hs_file_system_ops);
BEGINS_WITH_SIZE(hs_memory);
BEGINS_WITH_SIZE(hs_state_provider);
BEGINS_WITH_SIZE(hs_run_args);
BEGINS_WITH_SIZE(hs_run_options);
BEGINS_WITH_SIZE(hs_backend_ops);
BEGINS_WITH_SIZE(hs_backend_call);
BEGINS_WITH_SIZE(hs_hook_ops);
BEGINS_WITH_SIZE(hs_trace_options);
BEGINS_WITH_SIZE(hs_variable_def);
BEGINS_WITH_SIZE(hs_op_def);
BEGINS_WITH_SIZE(hs_session_options);
BEGINS_WITH_SIZE(hs_training_options);
BEGINS_WITH_SIZE(hs_scaffold_options);
BEGINS_WITH_SIZE(hs_saver_options);
BEGINS_WITH_SIZE(hs_checkpoint_manager_options);
BEGINS_WITH_SIZE(hs_restore_options);
BEGINS_WITH_SIZE(hs_save_options);
BEGINS_WITH_SIZE(hs_safetensors_options);
BEGINS_WITH_SIZE(hs_summary_writer_options);
BEGINS_WITH_SIZE(hs_uniform_histogram_options);
BEGINS_WITH_SIZE(hs_histogram_counts);
BEGINS_WITH_SIZE(hs_image_options);
BEGINS_WITH_SIZE(hs_audio_options);
BEGINS_WITH_SIZE(hs_summary_plugin);
BEGINS_WITH_SIZE(hs_pr_curve);
BEGINS_WITH_SIZE(hs_hparams_config_options);
BEGINS_WITH_SIZE(hs_hparams_start_options);
BEGINS_WITH_SIZE(hs_stop_at_step_options);
BEGINS_WITH_SIZE(hs_evaluate_once_options);
BEGINS_WITH_SIZE(hs_evaluation_loop_options);
BEGINS_WITH_SIZE(hs_estimator_spec);
BEGINS_WITH_SIZE(hs_estimator_options);
BEGINS_WITH_SIZE(hs_estimator_train_options);
BEGINS_WITH_SIZE(hs_estimator_evaluate_options);
BEGINS_WITH_SIZE(hs_estimator_predict_options);
BEGINS_WITH_SIZE(hs_estimator_eval_spec);
BEGINS_WITH_SIZE(hs_estimator_train_loop_options);
BEGINS_WITH_SIZE(hs_nan_tensor_options);
BEGINS_WITH_SIZE(hs_finite_guard_options);
BEGINS_WITH_SIZE(hs_logging_tensor_options);
BEGINS_WITH_SIZE(hs_checkpoint_saver_options);
BEGINS_WITH_SIZE(hs_summary_saver_options);
BEGINS_WITH_SIZE(hs_progress_options);
BEGINS_WITH_SIZE(hs_metrics_file_options);
BEGINS_WITH_SIZE(hs_saver_listener_ops);
BEGINS_WITH_SIZE(hs_verify_resume_options);
BEGINS_WITH_SIZE(hs_join_options);
BEGINS_WITH_SIZE(hs_supervisor_options);
BEGINS_WITH_SIZE(hs_supervisor_session_options);
BEGINS_WITH_SIZE(hs_supervisor_stop_options);
BEGINS_WITH_SIZE(hs_resume_trial);
BEGINS_WITH_SIZE(hs_resume_report);

static void the_codes_are_tensorflows(void **state)
{
    (void)state;
    assert_int_equal(HS_OUT_OF_RANGE, 11);
    assert_int_equal(HS_DATA_LOSS, 15);
    assert_int_equal(HS_UNAUTHENTICATED, 16);
    assert_int_equal(HS_STOP, 64);
    assert_int_equal(HS_USER, 256);
}

static void the_header_and_the_library_are_of_one_version(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", HS_VERSION_MAJOR, HS_VERSION_MINOR, HS_VERSION_PATCH);
    assert_string_equal(text, HS_VERSION_STRING);
    assert_string_equal(hs_version(), HS_VERSION_STRING);
}

/* A program that was compiled against larger headers opens a session, as long as it sets nothing new. */
static void options_of_a_later_version_are_taken_if_nothing_new_is_set(void **state)
{
    struct {
        hs_session_options known;
        uint64_t unknown;
    } later = {.known = {.size = sizeof later}};
    (void)state;
    hs_error err = {0};
    hs_script *script = hs_script_new(NULL);
    hs_session *session = hs_session_open(hs_script_backend(script), &later.known, &err);
    assert_non_null(session);
    hs_session_close(session, &err);
    later.unknown = 1;
    assert_null(hs_session_open(hs_script_backend(script), &later.known, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_session_options");
    hs_script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_codes_are_tensorflows),
        cmocka_unit_test(the_header_and_the_library_are_of_one_version),
        cmocka_unit_test(options_of_a_later_version_are_taken_if_nothing_new_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
