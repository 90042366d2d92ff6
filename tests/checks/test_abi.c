/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of structs that programs were compiled with: frozen ones do not change, the others grow at their end only. */
#include "support/test.h"

#include <hooksess/cuda.h>
#include <hooksess/mpi.h>
#include <hooksess/tensorflow.h>
#include <hooksess/testing.h>
#include <hooksess/tf1/supervisor.h>

/* The struct begins with its size. The last member of the first release ends at offset `bytes`. */
#define ENDS(type, member, bytes)                                                                                          \
    _Static_assert(offsetof(type, size) == 0, #type " does not begin with its size");                                      \
    _Static_assert(offsetof(type, member) + sizeof(((type *)0)->member) == (bytes), "the layout of " #type " has changed")
#define FROZEN(type, bytes) _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")

#if UINTPTR_MAX == UINT64_MAX
FROZEN(hs_input, 16);
FROZEN(hs_error, 1024);
FROZEN(hs_outcome, 1176);
FROZEN(hs_tensor, 112);
FROZEN(hs_shape, 72);
FROZEN(hs_string, 16);
FROZEN(hs_bytes, 16);
FROZEN(hs_hook, 56);
FROZEN(hs_trigger, 32);
FROZEN(hs_backend, 16);
FROZEN(hs_group, 16);
FROZEN(hs_rng, 24);
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
FROZEN(hs_save_result, 1048);
FROZEN(hs_threads, 16);
FROZEN(hs_knob, 72);
FROZEN(hs_knob_value, 8);
FROZEN(hs_schedule_point, 16);
FROZEN(hs_scalar, 40);
FROZEN(hs_scalar_sink, 16);
FROZEN(hs_nonfinite, 32);
FROZEN(hs_record_totals, 16);
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
FROZEN(hs_writer_status, 1088);
ENDS(hs_env, files, 104);
ENDS(hs_file_system_ops, remove_directory, 128);
ENDS(hs_memory, user, 120);
ENDS(hs_state_provider, reshard, 80);
ENDS(hs_run_args, reserved_kind, 48);
ENDS(hs_run_options, reserved, 48);
ENDS(hs_backend_call, plan, 136);
ENDS(hs_backend_ops, collective_op, 232);
FROZEN(hs_variable_slice, 144);
ENDS(hs_hook_ops, rank_identity, 136);
ENDS(hs_group_tcp_options, env, 96);
ENDS(hs_simulation_options, env, 64);
ENDS(hs_cuda_options, env, 32);
ENDS(hs_mpi_options, env, 40);
ENDS(hs_group_ops, report_step, 96);
ENDS(hs_op_def, type, 80);
ENDS(hs_variable_def, reserved, 176);
ENDS(hs_session_options, hooks, 144);
ENDS(hs_training_options, chief_only_hooks, 296);
ENDS(hs_scaffold_options, env, 112);
ENDS(hs_saver_options, user, 112);
ENDS(hs_checkpoint_manager_options, user, 72);
ENDS(hs_restore_options, reserved, 48);
ENDS(hs_save_options, max_to_keep, 56);
ENDS(hs_safetensors_options, metadata, 32);
ENDS(hs_summary_writer_options, on_error, 48);
ENDS(hs_control_options, summary_dir, 32);
ENDS(hs_run_status_options, status_dir, 16);
ENDS(hs_stop_after_options, margin_secs, 40);
ENDS(hs_schedule_options, points, 72);
ENDS(hs_uniform_histogram_options, description, 24);
ENDS(hs_histogram_counts, counts, 72);
ENDS(hs_image_options, max_outputs, 16);
ENDS(hs_audio_options, max_outputs, 24);
ENDS(hs_summary_plugin, description, 48);
ENDS(hs_pr_curve, description, 56);
ENDS(hs_hparams_config_options, created_secs, 32);
ENDS(hs_hparams_start_options, start_secs, 32);
ENDS(hs_stop_at_step_options, last_step, 24);
ENDS(hs_nan_tensor_options, reserved_on_nan, 72);
ENDS(hs_finite_guard_options, max_skips, 192);
ENDS(hs_replica_check_options, reserved_on_divergence, 64);
ENDS(hs_moving_average_options, reserved, 40);
ENDS(hs_logging_tensor_options, user, 96);
ENDS(hs_checkpoint_saver_options, reserved, 136);
ENDS(hs_summary_saver_options, summary_writer, 88);
ENDS(hs_progress_options, descriptor, 80);
ENDS(hs_scalars_options, reserved, 120);
ENDS(hs_scalar_sink_ops, destroy, 80);
ENDS(hs_scalar_row, begin_ns, 56);
ENDS(hs_metrics_file_options, reserved, 96);
ENDS(hs_saver_listener_ops, end, 40);
ENDS(hs_evaluate_once_options, restore_options, 88);
ENDS(hs_evaluation_loop_options, max_evaluations, 56);
ENDS(hs_estimator_spec, self, 96);
ENDS(hs_estimator_options, signal_grace_secs, 104);
ENDS(hs_estimator_train_options, listeners, 56);
ENDS(hs_estimator_evaluate_options, hooks, 56);
ENDS(hs_estimator_predict_options, reserved, 72);
ENDS(hs_estimator_eval_spec, user, 48);
ENDS(hs_estimator_train_loop_options, training, 40);
ENDS(hs_join_options, n_live_threads, 48);
ENDS(hs_supervisor_options, reserved, 168);
ENDS(hs_supervisor_session_options, recovery, 56);
ENDS(hs_supervisor_stop_options, n_live_threads, 32);
ENDS(hs_coordinator_options, clean_stop_codes, 24);
ENDS(hs_early_stopping_options, reserved, 56);
ENDS(hs_evaluation_options, moving_average, 136);
ENDS(hs_event_reader_options, user, 48);
ENDS(hs_feed_fn_options, user, 24);
ENDS(hs_final_ops_options, user, 48);
ENDS(hs_global_step_waiter_options, wait_until_step, 16);
ENDS(hs_graph_summary_def, sample_rate, 64);
ENDS(hs_looper_options, wake, 72);
ENDS(hs_session_manager_prepare_options, reserved, 112);
ENDS(hs_profiler_options, reserved, 72);
ENDS(hs_queue_def, position, 72);
ENDS(hs_queue_runner_options, env, 56);
ENDS(hs_record_reader_options, max_record_bytes, 40);
ENDS(hs_record_writer_options, buffer_bytes, 40);
ENDS(hs_recovery, reserved, 40);
ENDS(hs_replica_options, step_secs, 40);
ENDS(hs_session_manager_options, env, 64);
ENDS(hs_step_counter_options, peak_flops, 104);
ENDS(hs_tensorflow_op_def, list_until, 80);
ENDS(hs_tensorflow_options, timeout_secs, 72);
ENDS(hs_tensorflow_server_options, reserved, 88);
ENDS(hs_thread_options, env, 48);
ENDS(hs_watchdog_options, heartbeat_secs, 48);
FROZEN(hs_backend_feed, 24);
FROZEN(hs_checkpoint_name, 16);
FROZEN(hs_event, 168);
FROZEN(hs_event_damage, 72);
FROZEN(hs_event_value, 240);
FROZEN(hs_fetch_entry, 16);
FROZEN(hs_hook_cost, 48);
FROZEN(hs_hook_failure, 1064);
FROZEN(hs_nonfinite, 32);
FROZEN(hs_record_totals, 16);
FROZEN(hs_tensorflow_attr, 136);
FROZEN(hs_threads, 16);
#endif

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

static void the_size_of_a_struct_is_found_by_its_name(void **state)
{
    (void)state;
    assert_int_equal(hs_struct_size("hs_session_options"), sizeof(hs_session_options));
    assert_int_equal(hs_struct_size("hs_watchdog_options"), sizeof(hs_watchdog_options));
    assert_int_equal(hs_struct_size("hs_error"), 0); /* it does not begin with its size */
    assert_int_equal(hs_struct_size(""), 0);
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
        cmocka_unit_test(the_size_of_a_struct_is_found_by_its_name),
        cmocka_unit_test(options_of_a_later_version_are_taken_if_nothing_new_is_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
