/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of all public structs that begin with `size`. Needs the structs of upper floors, but none of their
 * functions. */
#include <hooksess/hooksess.h>
#include <hooksess/mpi.h>
#include <hooksess/simulation.h>
#include <hooksess/tensorflow.h>
#include <hooksess/tf1/session_manager.h>
#include <hooksess/tf1/supervisor.h>

#include <string.h>

#define SIZE(type)                                                                                                         \
    {                                                                                                                      \
#type, sizeof(type)                                                                                                \
    }

static const struct {
    const char *type;
    size_t size;
} structs[] = {
    SIZE(hs_audio_options),
    SIZE(hs_backend_call),
    SIZE(hs_backend_ops),
    SIZE(hs_checkpoint_manager_options),
    SIZE(hs_checkpoint_saver_options),
    SIZE(hs_control_options),
    SIZE(hs_coordinator_options),
    SIZE(hs_early_stopping_options),
    SIZE(hs_env),
    SIZE(hs_estimator_eval_spec),
    SIZE(hs_estimator_evaluate_options),
    SIZE(hs_estimator_options),
    SIZE(hs_estimator_predict_options),
    SIZE(hs_estimator_spec),
    SIZE(hs_estimator_train_loop_options),
    SIZE(hs_estimator_train_options),
    SIZE(hs_evaluate_once_options),
    SIZE(hs_evaluation_loop_options),
    SIZE(hs_evaluation_options),
    SIZE(hs_event_reader_options),
    SIZE(hs_feed_fn_options),
    SIZE(hs_file_system_ops),
    SIZE(hs_final_ops_options),
    SIZE(hs_finite_guard_options),
    SIZE(hs_global_step_waiter_options),
    SIZE(hs_graph_summary_def),
    SIZE(hs_group_ops),
    SIZE(hs_group_tcp_options),
    SIZE(hs_histogram_counts),
    SIZE(hs_hook_ops),
    SIZE(hs_hparams_config_options),
    SIZE(hs_hparams_start_options),
    SIZE(hs_image_options),
    SIZE(hs_join_options),
    SIZE(hs_logging_tensor_options),
    SIZE(hs_looper_options),
    SIZE(hs_memory),
    SIZE(hs_metrics_file_options),
    SIZE(hs_moving_average_options),
    SIZE(hs_mpi_options),
    SIZE(hs_nan_tensor_options),
    SIZE(hs_op_def),
    SIZE(hs_pr_curve),
    SIZE(hs_session_manager_prepare_options),
    SIZE(hs_profiler_options),
    SIZE(hs_progress_options),
    SIZE(hs_queue_def),
    SIZE(hs_queue_runner_options),
    SIZE(hs_record_reader_options),
    SIZE(hs_record_writer_options),
    SIZE(hs_recovery),
    SIZE(hs_replica_check_options),
    SIZE(hs_replica_options),
    SIZE(hs_restore_options),
    SIZE(hs_run_args),
    SIZE(hs_run_options),
    SIZE(hs_run_status_options),
    SIZE(hs_safetensors_options),
    SIZE(hs_save_options),
    SIZE(hs_saver_listener_ops),
    SIZE(hs_saver_options),
    SIZE(hs_scaffold_options),
    SIZE(hs_scalar_row),
    SIZE(hs_scalar_sink_ops),
    SIZE(hs_scalars_options),
    SIZE(hs_session_manager_options),
    SIZE(hs_schedule_options),
    SIZE(hs_session_options),
    SIZE(hs_simulation_options),
    SIZE(hs_state_provider),
    SIZE(hs_step_counter_options),
    SIZE(hs_stop_after_options),
    SIZE(hs_stop_at_step_options),
    SIZE(hs_summary_plugin),
    SIZE(hs_summary_saver_options),
    SIZE(hs_summary_writer_options),
    SIZE(hs_supervisor_session_options),
    SIZE(hs_supervisor_options),
    SIZE(hs_supervisor_stop_options),
    SIZE(hs_tensorflow_op_def),
    SIZE(hs_tensorflow_options),
    SIZE(hs_tensorflow_server_options),
    SIZE(hs_thread_options),
    SIZE(hs_training_options),
    SIZE(hs_uniform_histogram_options),
    SIZE(hs_variable_def),
    SIZE(hs_watchdog_options),
};

size_t hs_struct_size(const char *type)
{
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++)
        if (type && strcmp(structs[i].type, type) == 0)
            return structs[i].size;
    return 0;
}
