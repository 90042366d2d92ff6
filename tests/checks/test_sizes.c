/* SPDX-License-Identifier: Apache-2.0 */
/* All functions refuse options with a size that no release had. */
#include "checkpoint/model.h"
#include "support/group_of_one.h"

#include <hooksess/simulation.h>
#include <hooksess/tf1/session_manager.h>
#include <hooksess/tf1/supervisor.h>

static hs_error err;

/* Calls with options `o` of the type, a byte shorter than in the first release. */
#define SHORTER(type, call)                                                                                                \
    do {                                                                                                                   \
        const type o = {.size = sizeof o - 1};                                                                             \
        hs_error_clear(&err);                                                                                              \
        call;                                                                                                              \
        assert_says(&err, HS_INVALID_ARGUMENT, #type ".size is ");                                                         \
    } while (0)

static void of_objects(void **state)
{
    const fixture *f = *state;
    hs_coordinator *coordinator = hs_coordinator_new(NULL, NULL);
    SHORTER(hs_coordinator_options, hs_coordinator_new(&o, &err));
    SHORTER(hs_group_tcp_options, hs_group_tcp_new(&o, &err));
    SHORTER(hs_group_tcp_options, hs_group_tcp_from_env(&o, &err));
    SHORTER(hs_simulation_options, hs_simulation_new(&o, &err));
    SHORTER(hs_thread_options, hs_thread_new(&o, &err));
    SHORTER(hs_thread_options, hs_coordinator_start_thread(coordinator, &o, &err));
    SHORTER(hs_join_options, hs_coordinator_join(coordinator, &o, &err));
    SHORTER(hs_looper_options, hs_looper_new(&o, &err));
    SHORTER(hs_queue_runner_options, hs_queue_runner_new(&o, &err));
    SHORTER(hs_env, hs_saver_new(HS_SAVER_OPTIONS(.env = &o), &err));
    SHORTER(hs_saver_options, hs_saver_new(&o, &err));
    SHORTER(hs_checkpoint_manager_options, hs_checkpoint_manager_new(&o, &err));
    SHORTER(hs_scaffold_options, hs_scaffold_new(&o, &err));
    SHORTER(hs_session_manager_options, hs_session_manager_new(&o, &err));
    SHORTER(hs_supervisor_options, hs_supervisor_new(hs_graph_backend(f->m.graph), &o, &err));
    SHORTER(hs_estimator_options, hs_estimator_new(&o, &err));
    hs_coordinator_free(coordinator);
}

static void of_files(void **state)
{
    const fixture *f = *state;
    hs_raw_session *raw = model_raw(&f->m);
    const char *path = test_path(f->directory, "file");
    SHORTER(hs_record_reader_options, hs_record_reader_open(path, &o, &err));
    SHORTER(hs_record_writer_options, hs_record_writer_open(path, &o, &err));
    SHORTER(hs_event_reader_options, hs_event_reader_open(path, &o, &err));
    SHORTER(hs_summary_writer_options, hs_summary_writer_open(path, &o, &err));
    SHORTER(hs_summary_writer_options, hs_summary_writer_shared(path, &o, &err));
    SHORTER(hs_safetensors_options, hs_safetensors_save(raw, path, &o, &err));
    SHORTER(hs_restore_options, hs_safetensors_load(raw, path, &o, &err));
    SHORTER(hs_save_options, hs_saver_save(f->saver, raw, path, 1, &o, &err));
    SHORTER(hs_restore_options, hs_saver_restore(f->saver, raw, path, &o, &err));
}

static void of_summaries(void **state)
{
    hs_summary *summary = hs_summary_new(NULL);
    const float number = 1;
    const hs_tensor values = hs_tensor_of(HS_FLOAT, HS_SHAPE(1), &number);
    (void)state;
    SHORTER(hs_uniform_histogram_options, hs_summary_histogram_uniform(summary, "x", &values, &o, &err));
    SHORTER(hs_histogram_counts, hs_summary_histogram_counted(summary, "x", &o, &err));
    SHORTER(hs_image_options, hs_summary_image(summary, "x", &values, &o, &err));
    SHORTER(hs_audio_options, hs_summary_audio(summary, "x", &values, &o, &err));
    SHORTER(hs_summary_plugin, hs_summary_tensor(summary, "x", &values, &o, &err));
    SHORTER(hs_pr_curve, hs_summary_pr_curve(summary, "x", &o, &err));
    SHORTER(hs_hparams_config_options, hs_hparams_config(summary, &o, &err));
    SHORTER(hs_hparams_start_options, hs_hparams_start(summary, &o, &err));
    hs_summary_free(summary);
}

static void build(hs_code (*add)(hs_graph *graph, const void *def), const void *def)
{
    hs_graph *graph = hs_graph_new(NULL);
    add(graph, def);
    hs_graph_error(graph, &err);
    hs_graph_free(graph);
}

static hs_code add_variable(hs_graph *graph, const void *def)
{
    return hs_graph_add_variable(graph, def);
}

static hs_code add_op(hs_graph *graph, const void *def)
{
    return hs_graph_add_op(graph, def);
}

static hs_code add_queue(hs_graph *graph, const void *def)
{
    return hs_graph_add_queue(graph, def);
}

static hs_code add_state(hs_graph *graph, const void *def)
{
    return hs_graph_add_state(graph, def);
}

static hs_code add_summary(hs_graph *graph, const void *def)
{
    return hs_graph_add_summary(graph, HS_SUMMARY_SCALAR, def);
}

static void of_graphs(void **state)
{
    (void)state;
    SHORTER(hs_variable_def, build(add_variable, &o));
    SHORTER(hs_op_def, build(add_op, &o));
    SHORTER(hs_queue_def, build(add_queue, &o));
    SHORTER(hs_state_provider, build(add_state, &o));
    SHORTER(hs_graph_summary_def, build(add_summary, &o));
}

static void of_sessions(void **state)
{
    fixture *f = *state;
    hs_graph *graph = hs_graph_new(NULL);
    const hs_backend backend = hs_graph_backend(graph);
    hs_session_manager *manager = hs_session_manager_new(NULL, NULL);
    hs_supervisor *sv = hs_supervisor_new(hs_graph_backend(f->m.graph), NULL, NULL);
    hs_raw_session *raw = model_raw(&f->m);
    SHORTER(hs_session_options, hs_session_open(backend, &o, &err));
    SHORTER(hs_training_options, hs_training_session_open(backend, &o, &err));
    SHORTER(hs_recovery, hs_session_open(backend, HS_SESSION_OPTIONS(.recovery = &o), &err));
    SHORTER(hs_replica_options, hs_session_open(backend, HS_SESSION_OPTIONS(.group = &group_of_one, .replicas = &o), &err));
    SHORTER(hs_hook_ops, hs_session_open(backend, HS_SESSION_OPTIONS(.hooks = HS_HOOKS({.ops = &o})), &err));
    SHORTER(hs_backend_ops, hs_session_open((hs_backend){&o, NULL}, NULL, &err));
    SHORTER(hs_run_args, hs_session_run_args(f->m.session, &o, NULL, &err));
    SHORTER(hs_run_options, hs_session_run_args(f->m.session, HS_RUN_ARGS(.options = &o), NULL, &err));
    SHORTER(hs_state_provider, hs_raw_session_add_state(raw, &o, &err));
    SHORTER(hs_session_manager_prepare_options, hs_session_manager_prepare(manager, backend, &o, &err));
    SHORTER(hs_supervisor_session_options, hs_supervisor_managed_session(sv, &o, &err));
    SHORTER(hs_supervisor_stop_options, hs_supervisor_stop(sv, &o, &err));
    SHORTER(hs_evaluate_once_options, hs_evaluate_once(backend, &o, &err));
    SHORTER(hs_evaluation_loop_options, hs_evaluation_loop(backend, &o, NULL, &err));
    SHORTER(hs_estimator_train_loop_options, hs_estimator_train_loop(backend, &o, &err));
    hs_supervisor_free(sv);
    hs_session_manager_free(manager);
    hs_graph_free(graph);
}

static hs_code no_model(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *model_err)
{
    (void)user, (void)mode, (void)spec, (void)model_err;
    return HS_OK;
}

static void of_estimators(void **state)
{
    const fixture *f = *state;
    hs_estimator *e = hs_estimator_new(HS_ESTIMATOR_OPTIONS(.model_fn = no_model, .checkpoint_dir = f->directory), NULL);
    SHORTER(hs_estimator_train_options, hs_estimator_train(e, &o, &err));
    SHORTER(hs_estimator_evaluate_options, hs_estimator_evaluate(e, &o, &err));
    SHORTER(hs_estimator_predict_options, hs_estimator_predict(e, &o, &err));
    SHORTER(hs_estimator_eval_spec, hs_estimator_train_and_evaluate(e, NULL, &o, &err));
    SHORTER(hs_estimator_evaluate_options,
            hs_estimator_train_and_evaluate(e, NULL, HS_ESTIMATOR_EVAL_SPEC(.evaluate = &o), &err));
    hs_estimator_free(e);
}

/* Hooks in options that are refused are destroyed. */

static int destroyed;

static void destroy(void *self)
{
    (void)self;
    destroyed++;
}

static const hs_hook_ops counted_ops = HS_INIT(hs_hook_ops, .name = "counted", .destroy = destroy);
static const hs_hook counted[] = {{.ops = &counted_ops}, {.ops = NULL}};

/* Calls with options `o` of the type that set a field of a later release: n hooks are destroyed. The variable arguments
 * are fields. */
#define LONGER(n, type, call, ...)                                                                                         \
    do {                                                                                                                   \
        struct {                                                                                                           \
            type known;                                                                                                    \
            int64_t later;                                                                                                 \
        } longer = {.known = HS_INIT(type, __VA_ARGS__), .later = 1};                                                      \
        const type *o = &longer.known;                                                                                     \
        longer.known.size = sizeof longer;                                                                                 \
        destroyed = 0;                                                                                                     \
        hs_error_clear(&err);                                                                                              \
        call;                                                                                                              \
        assert_says(&err, HS_INVALID_ARGUMENT, #type " sets a field that version");                                        \
        assert_int_equal(destroyed, n);                                                                                    \
    } while (0)

static void refused_sessions_destroy_their_hooks(void **state)
{
    (void)state;
    hs_graph *graph = hs_graph_new(NULL);
    const hs_backend backend = hs_graph_backend(graph);
    const hs_evaluate_once_options once =
        HS_INIT(hs_evaluate_once_options, .checkpoint_dir = "none", .eval_op = "x", .hooks = counted);
    const hs_training_options training = HS_INIT(hs_training_options, .hooks = counted, .chief_only_hooks = counted);
    LONGER(1, hs_session_options, hs_session_open(backend, o, &err), .hooks = counted);
    LONGER(1, hs_session_options, hs_session_open(backend, o, &err), .hooks = counted, .take_scaffold = true,
           .scaffold = hs_scaffold_new(NULL, NULL));
    LONGER(2, hs_training_options, hs_training_session_open(backend, o, &err), .hooks = counted,
           .chief_only_hooks = counted);
    LONGER(1, hs_training_options, hs_training_session_open(backend, o, &err), .is_worker = true, .hooks = counted);
    LONGER(1, hs_evaluate_once_options, hs_evaluate_once(backend, o, &err), .hooks = counted);
    LONGER(1, hs_evaluation_loop_options, hs_evaluation_loop(backend, o, NULL, &err), .once = &once);
    LONGER(1, hs_evaluate_once_options, hs_evaluation_loop(backend, HS_EVALUATION_LOOP_OPTIONS(.once = o), NULL, &err),
           .hooks = counted);
    LONGER(2, hs_estimator_train_loop_options, hs_estimator_train_loop(backend, o, &err), .training = &training);
    LONGER(1, hs_training_options, hs_estimator_train_loop(backend, HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(.training = o), &err),
           .hooks = counted);
    hs_graph_free(graph);
}

static void refused_calls_of_an_estimator_destroy_their_hooks(void **state)
{
    const fixture *f = *state;
    hs_estimator *e = hs_estimator_new(HS_ESTIMATOR_OPTIONS(.model_fn = no_model, .checkpoint_dir = f->directory), NULL);
    const hs_estimator_train_options train = HS_INIT(hs_estimator_train_options, .hooks = counted);
    const hs_estimator_evaluate_options evaluate = HS_INIT(hs_estimator_evaluate_options, .hooks = counted);
    const hs_estimator_eval_spec spec = HS_INIT(hs_estimator_eval_spec, .evaluate = &evaluate);
    LONGER(1, hs_estimator_train_options, hs_estimator_train(e, o, &err), .hooks = counted);
    LONGER(1, hs_estimator_evaluate_options, hs_estimator_evaluate(e, o, &err), .hooks = counted);
    LONGER(1, hs_estimator_predict_options, hs_estimator_predict(e, o, &err), .hooks = counted);
    LONGER(2, hs_estimator_eval_spec, hs_estimator_train_and_evaluate(e, &train, o, &err), .evaluate = &evaluate);
    LONGER(2, hs_estimator_train_options, hs_estimator_train_and_evaluate(e, o, &spec, &err), .hooks = counted);
    LONGER(2, hs_estimator_evaluate_options,
           hs_estimator_train_and_evaluate(e, &train, HS_ESTIMATOR_EVAL_SPEC(.evaluate = o), &err), .hooks = counted);
    hs_estimator_free(e);
}

static void a_missing_estimator_destroys_the_hooks(void **state)
{
    const hs_estimator_train_options train = HS_INIT(hs_estimator_train_options, .hooks = counted);
    const hs_estimator_evaluate_options evaluate = HS_INIT(hs_estimator_evaluate_options, .hooks = counted);
    const hs_estimator_predict_options predict = HS_INIT(hs_estimator_predict_options, .hooks = counted);
    (void)state;
    destroyed = 0;
    assert_int_equal(hs_estimator_train(NULL, &train, &err).error.code, HS_INVALID_ARGUMENT);
    assert_int_equal(destroyed, 1);
    assert_null(hs_estimator_evaluate(NULL, &evaluate, &err));
    assert_int_equal(destroyed, 2);
    assert_int_equal(hs_estimator_predict(NULL, &predict, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(destroyed, 3);
    hs_estimator_train_and_evaluate(NULL, &train, HS_ESTIMATOR_EVAL_SPEC(.evaluate = &evaluate), &err);
    assert_says(&err, HS_INVALID_ARGUMENT, "estimator is NULL");
    assert_int_equal(destroyed, 5);
}

/* The begin of a hook reports its invalid options. */
static void begin(hs_hook hook)
{
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_global_step(graph, NULL, NULL);
    assert_null(hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err));
    hs_graph_free(graph);
}

static void of_hooks(void **state)
{
    (void)state;
    SHORTER(hs_checkpoint_saver_options, begin(hs_checkpoint_saver_hook(&o)));
    SHORTER(hs_control_options, begin(hs_control_hook(&o)));
    SHORTER(hs_early_stopping_options, begin(hs_early_stopping_hook(&o)));
    SHORTER(hs_evaluation_options, begin(hs_evaluation_hook(&o)));
    SHORTER(hs_feed_fn_options, begin(hs_feed_fn_hook(&o)));
    SHORTER(hs_final_ops_options, begin(hs_final_ops_hook(&o)));
    SHORTER(hs_finite_guard_options, begin(hs_finite_guard_hook(&o)));
    SHORTER(hs_global_step_waiter_options, begin(hs_global_step_waiter_hook(&o)));
    SHORTER(hs_logging_tensor_options, begin(hs_logging_tensor_hook(&o)));
    SHORTER(hs_metrics_file_options, begin(hs_metrics_file_hook(&o)));
    SHORTER(hs_moving_average_options, begin(hs_moving_average_hook(&o)));
    SHORTER(hs_nan_tensor_options, begin(hs_nan_tensor_hook(&o)));
    SHORTER(hs_profiler_options, begin(hs_profiler_hook(&o)));
    SHORTER(hs_progress_options, begin(hs_progress_hook(&o)));
    SHORTER(hs_replica_check_options, begin(hs_replica_check_hook(&o)));
    SHORTER(hs_run_status_options, begin(hs_run_status_hook(&o)));
    SHORTER(hs_scalars_options, begin(hs_scalars_hook(&o)));
    SHORTER(hs_step_counter_options, begin(hs_step_counter_hook(&o)));
    SHORTER(hs_schedule_options, begin(hs_schedule_hook(&o)));
    SHORTER(hs_stop_after_options, begin(hs_stop_after_hook(&o)));
    SHORTER(hs_stop_at_step_options, begin(hs_stop_at_step_hook(&o)));
    SHORTER(hs_summary_saver_options, begin(hs_summary_saver_hook(&o)));
    SHORTER(hs_watchdog_options, begin(hs_watchdog_hook(&o)));
    SHORTER(hs_scalar_sink_ops, begin(hs_scalars(.tensors = HS_NAMES("x"), .sink = {.ops = &o})));
    SHORTER(hs_saver_listener_ops, begin(hs_checkpoint_saver(.checkpoint_dir = "none", .every_n_steps = 1,
                                                             .listeners = HS_LISTENERS({.ops = &o}))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(of_objects),
        with_fixture(of_files),
        with_fixture(of_summaries),
        with_fixture(of_graphs),
        with_fixture(of_sessions),
        with_fixture(of_estimators),
        with_fixture(of_hooks),
        with_fixture(refused_sessions_destroy_their_hooks),
        with_fixture(refused_calls_of_an_estimator_destroy_their_hooks),
        with_fixture(a_missing_estimator_destroys_the_hooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
