/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that succeed clear the caller's error. assert_ok checks this for functions that return a code. This file checks
 * the other functions, and the functions for which no test uses assert_ok. */
#include "checkpoint/model.h"

#include <hooksess/tf1/supervisor.h>
#include <hooksess/tf1/timer.h>

static hs_error err;

#define CLEARS(call) assert_clears(&err, call)

static const char *in(const fixture *f, const char *name)
{
    return test_path(f->directory, name);
}

static void of_checkpoints(void **state)
{
    fixture *f = *state;
    hs_raw_session *raw = model_raw(&f->m);
    const hs_save_options background = HS_INIT(hs_save_options, .background = true);
    const hs_checkpoint_manager_options managed = HS_INIT(hs_checkpoint_manager_options, .checkpoint_dir = f->directory);
    CLEARS(hs_saver_free(hs_saver_new(NULL, &err)));
    CLEARS(hs_saver_save(f->saver, raw, in(f, "model.ckpt"), 1, &background, &err));
    hs_saver_wait(f->saver);
    CLEARS(hs_env_free(NULL, hs_checkpoint_latest(NULL, f->directory, NULL, &err)));
    char *found;
    CLEARS(hs_checkpoint_wait(&f->t.env, f->directory, NULL, 1, &found, &err));
    hs_env_free(&f->t.env, found);
    CLEARS(hs_checkpoint_close(hs_checkpoint_open(NULL, file_of(f, 1, NULL), &err)));
    CLEARS(hs_backend_write_graph(hs_graph_backend(f->m.graph), f->directory, "graph.pbtxt", true, &err));
    hs_saver_free(f->saver); /* lets go of the directory */
    f->saver = NULL;
    hs_checkpoint_manager *manager;
    CLEARS(manager = hs_checkpoint_manager_new(&managed, &err));
    CLEARS(hs_checkpoint_manager_save_now(manager, raw, 2, NULL, NULL, &err));
    hs_checkpoint_manager_free(manager);
}

static hs_code nothing(void *user, hs_error *error)
{
    (void)user, (void)error;
    return HS_OK;
}

static hs_code run_nothing(void *user, hs_coordinator *coordinator, hs_error *error)
{
    (void)user, (void)coordinator, (void)error;
    return HS_OK;
}

static void of_threads(void **state)
{
    hs_coordinator *coordinator;
    hs_thread *thread;
    (void)state;
    CLEARS(coordinator = hs_coordinator_new(NULL, &err));
    const hs_thread_options options = HS_INIT(hs_thread_options, .name = "thread", .run = run_nothing);
    const hs_looper_options looper = HS_INIT(hs_looper_options, .coordinator = coordinator, .loop = nothing);
    CLEARS(thread = hs_thread_new(&options, &err));
    CLEARS(hs_thread_error(thread, &err));
    hs_thread_free(thread);
    CLEARS(thread = hs_looper_new(&looper, &err));
    hs_thread_free(thread);
    CLEARS(hs_coordinator_start_thread(coordinator, &options, &err));
    CLEARS(hs_coordinator_error(coordinator, &err));
    hs_coordinator_request_stop(coordinator, NULL);
    CLEARS(hs_coordinator_join(coordinator, NULL, &err));
    hs_coordinator_free(coordinator);
    const hs_queue_runner_options runner =
        HS_INIT(hs_queue_runner_options, .queue = "q", .enqueue_ops = HS_NAMES("q/enqueue"));
    CLEARS(hs_queue_runner_free(hs_queue_runner_new(&runner, &err)));
}

static void of_files(void **state)
{
    const fixture *f = *state;
    hs_summary_writer *writer;
    hs_summary *summary = hs_summary_new(NULL);
    const float numbers[] = {1, 2};
    const hs_tensor values = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), (void *)numbers);
    CLEARS(hs_record_writer_free(hs_record_writer_open(in(f, "records"), NULL, &err)));
    CLEARS(hs_record_reader_free(hs_record_reader_open(in(f, "records"), NULL, &err)));
    CLEARS(writer = hs_summary_writer_open(f->directory, NULL, &err));
    CLEARS(hs_event_reader_close(hs_event_reader_open(hs_summary_writer_path(writer), NULL, &err)));
    hs_summary_writer_close(writer, NULL);
    CLEARS(hs_summary_writer_close(hs_summary_writer_shared(f->directory, NULL, &err), NULL));
    CLEARS(hs_hparams_config(summary, HS_HPARAMS_CONFIG_OPTIONS(), &err));
    CLEARS(hs_hparams_start(summary, HS_HPARAMS_START_OPTIONS(), &err));
    CLEARS(hs_summary_histogram_uniform(summary, "h", &values, NULL, &err));
    hs_summary_free(summary);
}

/* An op that sets its output, if memory for it exists. */
static hs_code set_output(void *self, hs_op *op, hs_error *op_err)
{
    (void)self, (void)op_err;
    double *memory;
    CLEARS(memory = hs_op_memory(op, 0, sizeof *memory, &err));
    *memory = 1;
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, memory);
    CLEARS(hs_op_set_output(op, 0, &value, &err));
    CLEARS(hs_op_global_step(op, &err));
    return HS_OK;
}

static hs_code look_at_the_session(void *user, hs_step_context *step, hs_error *step_err)
{
    hs_raw_session *raw = hs_session_raw(user);
    const hs_run_values *values;
    (void)step_err;
    CLEARS(hs_raw_session_global_step(raw, &err));
    CLEARS(hs_step_context_run_with_hooks(step, HS_RUN_ARGS(.names = HS_NAMES("set")), &values, &err));
    return HS_OK;
}

static hs_code look_at_the_step(void *self, hs_run_context *run, const hs_run_values *values, hs_error *run_err)
{
    (void)self, (void)values, (void)run_err;
    CLEARS(hs_run_context_global_step(run, &err));
    return HS_OK;
}

static void of_sessions(void **state)
{
    const fixture *f = *state;
    hs_graph *graph = hs_graph_new(NULL);
    const hs_backend backend = hs_graph_backend(graph);
    hs_session *session;
    hs_summary_writer *writer;
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "set", .run = set_output,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_ANY_SHAPE}));
    CLEARS(hs_scaffold_free(hs_scaffold_new(NULL, &err)));
    const hs_hook_ops looking = HS_INIT(hs_hook_ops, .name = "looking", .after_run = look_at_the_step);
    const hs_session_options options = HS_INIT(hs_session_options),
                             hooked = HS_INIT(hs_session_options, .hooks = HS_HOOKS({.ops = &looking}));
    hs_session_options taken;
    CLEARS(hs_struct_take(&taken, sizeof taken, &options, sizeof options, "hs_session_options", &err));
    CLEARS(session = hs_session_open(backend, &hooked, &err));
    CLEARS(hs_session_global_step(session, &err));
    CLEARS(hs_session_run_step(session, look_at_the_session, session, &err));
    CLEARS(hs_raw_session_summary_writer(hs_session_raw(session), f->directory, &writer, &err));
    CLEARS(hs_raw_session_event_writer(hs_session_raw(session), NULL, NULL, &writer, &err));
    CLEARS(hs_timer_free(hs_timer_new(HS_EVERY_STEPS(1), NULL, &err)));
    CLEARS(hs_backend_check_global_step(backend, &err));
    CLEARS(hs_backend_check_tensor(backend, "global_step", &err));
    CLEARS(hs_session_close(session, &err));
    CLEARS(session = hs_training_session_open(backend, NULL, &err));
    CLEARS(hs_session_close(session, &err));
    hs_graph_free(graph);
}

static void of_session_managers(void **state)
{
    const fixture *f = *state;
    hs_session_manager *manager;
    hs_session *session;
    bool initialized;
    hs_graph *graph = hs_graph_new(NULL);
    const hs_session_manager_prepare_options options = HS_INIT(hs_session_manager_prepare_options, .init_op = "start");
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "start");
    CLEARS(manager = hs_session_manager_new(NULL, &err));
    CLEARS(session = hs_session_manager_prepare(manager, hs_graph_backend(graph), &options, &err));
    CLEARS(hs_session_close(session, &err));
    CLEARS(session = hs_session_manager_recover(manager, hs_graph_backend(graph), NULL, &initialized, &err));
    hs_session_close(session, NULL);
    CLEARS(session = hs_session_manager_wait(manager, hs_graph_backend(graph), NULL, &err));
    hs_session_close(session, NULL);
    hs_session_manager_free(manager);
    const hs_supervisor_options supervised =
        HS_INIT(hs_supervisor_options, .checkpoint_dir = f->directory, .save_model_secs = HS_NEVER);
    hs_supervisor *sv;
    CLEARS(sv = hs_supervisor_new(hs_graph_backend(graph), &supervised, &err));
    CLEARS(session = hs_supervisor_managed_session(sv, NULL, &err));
    CLEARS(hs_supervisor_run(sv, session, HS_RUN_ARGS(.names = HS_NAMES("start")), NULL, &err));
    CLEARS(hs_thread_free(hs_supervisor_loop(sv, 1000, nothing, NULL, &err)));
    hs_supervisor_leave(sv, session, HS_OK, NULL, NULL);
    CLEARS(session = hs_supervisor_prepare_or_wait_for_session(sv, NULL, &err));
    hs_supervisor_leave(sv, session, HS_OK, NULL, NULL);
    hs_supervisor_free(sv);
    hs_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(of_checkpoints), with_fixture(of_threads),          with_fixture(of_files),
        with_fixture(of_sessions),    with_fixture(of_session_managers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
