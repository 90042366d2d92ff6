/* SPDX-License-Identifier: Apache-2.0 */
/* The services of a supervisor, which run in their own threads. */
#include "tf1/supervised.h"

#include "summary/events.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

static void sv_029_the_standard_services_of_a_model_with_a_step(void **state)
{
    supervised *f = *state;
    add_step(f, 123);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    await_file(f, "model.ckpt-123.index");
    while (!test_env_logged(&f->t, " steps/s"))
        sched_yield();
    finish(f);
    const char *events = events_text(f->directory);
    assert_int_equal(strncmp(events, "version graph meta start@124 ", 29), 0);
    assert_contains(events, " global_step/sec=0@123 ");
    assert_contains(events, " checkpoint@123 ");
    assert_contains(events, " stop@123");
    prepare(f, NULL);
    assert_contains(hs_raw_session_restored_from(hs_session_raw(f->session)), "model.ckpt-123");
    finish(f);
}

static void sv_033s_a_stop_saves_nothing(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    await_file(f, "checkpoint");
    assert_ok(run_op(f, "train"), &f->err);
    assert_ok(run_op(f, "train"), &f->err);
    finish(f);
    assert_int_equal(test_count_files(f->directory, ".index"), 1);
    assert_true(test_exists(f->directory, "model.ckpt-0.index"));
}

static void saving_now(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER, .checkpoint_basename = "mine"));
    prepare(f, NULL);
    assert_ok(run_op(f, "train"), &f->err);
    assert_ok(hs_supervisor_save(f->sv, f->session, &f->err), &f->err);
    assert_true(test_exists(f->directory, "mine-1.index"));
    finish(f);
    assert_contains(events_text(f->directory), "checkpoint@1");
}

static void saving_without_a_place_for_it(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    assert_fails(hs_supervisor_save(f->sv, f->session, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "checkpoint_dir is missing");
}

/* disk_stands: renames wait. disk_waits: a rename is waiting. */
static atomic_bool disk_stands, disk_waits;
static atomic_int saving;

static hs_code rename_when_it_moves(void *user, const char *from, const char *to, hs_error *err)
{
    (void)user;
    while (atomic_load(&disk_stands)) {
        atomic_store(&disk_waits, true);
        sched_yield();
    }
    const hs_file_system *files = &hs_env_default()->files;
    return files->ops->rename(files->user, from, to, err);
}

static hs_code save(void *user, hs_error *err)
{
    supervised *f = user;
    atomic_fetch_add(&saving, 1);
    return hs_supervisor_save(f->sv, f->session, err);
}

static void supervise_savers(supervised *f)
{
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER, .save_summaries_secs = HS_NEVER));
    prepare(f, NULL);
    atomic_store(&saving, 0);
}

/* A thread that waits for another's save does not prevent training. */
static void a_second_save_leaves_the_session_to_others(void **state)
{
    supervised *f = *state;
    static hs_file_system_ops ops; /* it outlives the graph */
    ops = *hs_env_default()->files.ops;
    ops.rename = rename_when_it_moves;
    f->t.env.files = (hs_file_system){&ops, hs_env_default()->files.user};
    hs_graph_free(f->graph);
    f->graph = hs_graph_new(&f->t.env);
    supervise_savers(f);
    atomic_store(&disk_stands, true);
    for (int i = 0; i < 2; i++) {
        hs_thread_free(hs_supervisor_loop(f->sv, 1e6, save, f, &f->err));
        while (!atomic_load(&disk_waits))
            sched_yield();
    }
    for (int i = 0; i < 1000; i += atomic_load(&saving) == 2) {
        assert_ok(run_op(f, "train"), &f->err);
        sched_yield();
    }
    atomic_store(&disk_stands, false);
    assert_ok(leave(f, HS_OK), &f->err);
}

static hs_code save_within(void *user, hs_error *err)
{
    supervised *f = user;
    hs_supervisor_lock(f->sv);
    hs_code code = save(f, err);
    hs_supervisor_unlock(f->sv);
    return code;
}

/* Some threads have locked the supervisor before and some have not. No thread waits forever. */
static void all_may_save_at_once(void **state)
{
    supervised *f = *state;
    supervise_savers(f);
    for (int i = 0; i < 4; i++)
        hs_thread_free(hs_supervisor_loop(f->sv, 0, i % 2 ? save : save_within, f, &f->err));
    while (atomic_load(&saving) < 40) {
        assert_ok(run_op(f, "train"), &f->err);
        assert_ok(save_within(f, &f->err), &f->err);
    }
    assert_ok(leave(f, HS_OK), &f->err);
}

static const char *names_of_services(const supervised *f)
{
    static char text[128];
    hs_thread *service;
    text[0] = '\0';
    for (size_t i = 0; (service = hs_supervisor_service(f->sv, i)); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "", hs_thread_name(service));
    return text;
}

static atomic_int summaries; /* that were computed */

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    supervised *f = self;
    static hs_string value;
    value = three(f);
    atomic_fetch_add(&summaries, 1);
    hs_tensor tensor = hs_tensor_of(HS_STRING, HS_SCALAR, &value);
    return hs_op_set_output(op, 0, &tensor, err);
}

static void add_summary_op(supervised *f)
{
    hs_graph_op(f->graph, .name = "summary", .run = summarize, .user = f, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    hs_graph_collect(f->graph, HS_SUMMARY_OP, "summary");
}

static const char *services_of(supervised *f, hs_supervisor_options options)
{
    options.checkpoint_dir = f->directory;
    supervise(f, options);
    prepare(f, NULL);
    const char *names = names_of_services(f);
    finish(f);
    return names;
}

static void sv_035s_which_services_there_are(void **state)
{
    supervised *f = *state;
    add_step(f, 4);
    add_summary_op(f);
    assert_string_equal(services_of(f, OPTIONS(0)), "summaries, step counter, checkpoints");
    assert_string_equal(services_of(f, OPTIONS(.summary_op = HS_NONE)), "step counter, checkpoints");
    assert_string_equal(services_of(f, OPTIONS(.global_step = HS_NONE)), "summaries, checkpoints");
    assert_string_equal(services_of(f, OPTIONS(.save_summaries_secs = HS_NEVER)), "checkpoints");
    assert_string_equal(services_of(f, OPTIONS(.no_summary_writer = true)), "checkpoints");
    assert_string_equal(services_of(f, OPTIONS(.save_model_secs = HS_NEVER)), "summaries, step counter");
    assert_string_equal(services_of(f, OPTIONS(.no_saver = true)), "summaries, step counter");
}

static void sv_036s_without_a_logdir_there_are_none(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, SUPERVISED(.no_standard_services = true));
    assert_ok(hs_supervisor_start_standard_services(f->sv, f->session, &f->err), &f->err);
    assert_null(hs_supervisor_service(f->sv, 0));
    assert_contains(f->t.log, "WARNING: standard services not started");
    finish(f);
}

static void services_that_cannot_be_started(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    assert_fails(hs_supervisor_start_standard_services(f->sv, f->session, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "the standard services already run");
    assert_null(hs_supervisor_managed_session(f->sv, NULL, &f->err));
    assert_says(&f->err, HS_FAILED_PRECONDITION, "of an earlier session still run");
    finish(f);
    supervise(f, OPTIONS(.is_worker = true, .ready_op = HS_NONE));
    prepare(f, NULL);
    assert_fails(hs_supervisor_start_standard_services(f->sv, f->session, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "only the chief's supervisor starts");
}

/* Clocks that count their calls by the services. */

static atomic_int looks;

static int64_t standing(void *user)
{
    (void)user;
    atomic_fetch_add(&looks, 1);
    return 77;
}

static int64_t going(void *user)
{
    (void)user;
    atomic_fetch_add(&looks, 1);
    return hs_env_monotonic_ns(NULL);
}

/* Trains 100 steps while a step counter runs, which is called before and after them. */
static void count_steps_by(supervised *f, int64_t (*clock)(void *user), const char *name)
{
    f->t.env.clock.monotonic_ns = clock;
    hs_graph_free(f->graph);
    f->graph = hs_graph_new(&f->t.env);
    hs_graph_global_step(f->graph, name, NULL);
    hs_graph_op(f->graph, .name = "train", .advances_step = true);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER, .save_summaries_secs = 1e-4));
    prepare(f, NULL);
    for (int i = 0; i < 100; i++)
        assert_ok(run_op(f, "train"), &f->err);
    int now = atomic_load(&looks);
    while (atomic_load(&looks) < now + 50)
        sched_yield();
    finish(f);
}

static void sv_038s_no_time_makes_no_rate(void **state)
{
    supervised *f = *state;
    count_steps_by(f, standing, NULL);
    assert_string_equal(events_text(f->directory), "version graph meta start@1 stop@0");
}

static void note_step(const Hs__Pb__Event *event, void *user)
{
    if (event->what_case == HS__PB__EVENT__WHAT_SUMMARY)
        *(int64_t *)user = event->step;
}

static void sv_038s_a_rate_has_the_variables_name(void **state)
{
    supervised *f = *state;
    int64_t last = 0;
    count_steps_by(f, going, "my_step");
    assert_contains(events_text(f->directory), "my_step/sec=");
    events_each(f->directory, note_step, &last);
    assert_int_equal(last, 100);
}

static void sv_049s_a_step_that_is_not_an_integer_is_ignored(void **state)
{
    supervised *f = *state;
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "global_step", .dtype = HS_FLOAT));
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    assert_null(hs_supervisor_global_step(f->sv));
    assert_contains(f->t.log, "WARNING: variable 'global_step' is not used as the global step: it is not one integer");
    prepare(f, NULL);
    await_file(f, "model.ckpt.index");
    finish(f);
    assert_string_equal(events_text(f->directory), "version graph meta stop@0");
}

static void a_step_of_32_bits(void **state)
{
    supervised *f = *state;
    static const int32_t first = 41;
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "global_step", .dtype = HS_INT32, .initial = &first));
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    await_file(f, "model.ckpt-41.index");
    finish(f);
    assert_contains(events_text(f->directory), "start@42");
}

/* Stopping. */

static hs_code fail_when_stopped(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user;
    hs_coordinator_wait_for_stop(coordinator, 1e9);
    return hs_error_set(err, HS_DATA_LOSS, "at the end");
}

static void sv_039s_a_failed_join_still_closes_the_writer(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER));
    prepare(f, NULL);
    assert_ok(hs_coordinator_start(hs_supervisor_coordinator(f->sv), &f->err, .name = "late", .run = fail_when_stopped),
              &f->err);
    assert_fails(hs_supervisor_stop(f->sv, NULL, &f->err), HS_DATA_LOSS, &f->err, "at the end");
    assert_null(hs_supervisor_summary_writer(f->sv));
    assert_string_equal(events_text(f->directory), "version graph meta stop@0");
    assert_true(v_is_123(f));
    close_session(f);
}

static void sv_039s_stop_at_the_last_step(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = HS_NEVER, .save_summaries_secs = HS_NEVER));
    prepare(f, NULL);
    for (int i = 0; i < 3; i++)
        assert_ok(run_op(f, "train"), &f->err);
    assert_ok(hs_supervisor_save(f->sv, f->session, &f->err), &f->err);
    finish(f);
    assert_string_equal(events_text(f->directory), "version graph meta start@1 checkpoint@3 stop@3");
}

static atomic_bool may_end;

static hs_code linger(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user, (void)coordinator, (void)err;
    while (!atomic_load(&may_end))
        sched_yield();
    return HS_OK;
}

static void threads_that_do_not_stop_are_named_or_ignored(void **state)
{
    supervised *f = *state;
    const hs_supervisor_stop_options ignore = HS_INIT(hs_supervisor_stop_options, .ignore_live_threads = true);
    for (int i = 0; i < 2; i++) {
        supervise(f, OPTIONS(.stop_grace_secs = 0.01));
        prepare(f, NULL);
        atomic_store(&may_end, false);
        hs_thread *thread = hs_thread_new(HS_THREAD_OPTIONS(.name = "stubborn", .run = linger), &f->err);
        assert_ok(hs_coordinator_register(hs_supervisor_coordinator(f->sv), thread, &f->err), &f->err);
        assert_ok(hs_thread_start(thread, &f->err), &f->err);
        if (i)
            assert_ok(hs_supervisor_stop(f->sv, &ignore, &f->err), &f->err);
        else
            assert_fails(hs_supervisor_stop(f->sv, NULL, &f->err), HS_FAILED_PRECONDITION, &f->err, "'stubborn'");
        atomic_store(&may_end, true);
        hs_thread_wait(thread, 1e9);
        hs_thread_free(thread);
        close_session(f);
    }
}

/* Loops of the program. */

static hs_code train_500(void *user, hs_error *err)
{
    supervised *f = user;
    if (++f->runs == 500)
        hs_supervisor_request_stop(f->sv, NULL);
    return hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, err);
}

static void sv_050s_a_loop_is_joined_by_the_stop(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    hs_thread *thread = hs_supervisor_loop(f->sv, 0, train_500, f, &f->err);
    assert_non_null(thread);
    await_stop(f);
    assert_ok(hs_supervisor_stop(f->sv, NULL, &f->err), &f->err);
    assert_false(hs_thread_alive(thread));
    hs_thread_free(thread);
    assert_true(number(f, "global_step") == 500);
}

static hs_code no_luck(void *user, hs_error *err)
{
    (void)user;
    return hs_error_set(err, HS_INTERNAL, "no luck");
}

static void sv_050s_an_error_of_a_loop_stops_everything(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    hs_thread_free(hs_supervisor_loop(f->sv, 60, no_luck, NULL, &f->err));
    await_stop(f);
    assert_fails(leave(f, HS_OK), HS_INTERNAL, &f->err, "no luck");
}

static void invalid_loops_are_refused(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_null(hs_supervisor_loop(f->sv, -1, no_luck, NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_looper_options.every_n_secs is -1");
    assert_null(hs_supervisor_loop(f->sv, 1, NULL, NULL, &f->err));
    assert_int_equal(f->err.code, HS_INVALID_ARGUMENT);
}

/* The lock. */

static hs_code look(void *user, hs_error *err)
{
    supervised *f = user;
    const hs_run_values *values;
    hs_supervisor_lock(f->sv);
    hs_code code = hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES("global_step", "v")), &values, err);
    if (!code && hs_run_values_number(values, 1) != 1)
        code = hs_error_set(err, HS_INTERNAL, "another's values");
    atomic_fetch_add(&looks, 1);
    hs_supervisor_unlock(f->sv);
    return code;
}

/* Loops run the session concurrently with its owner. No thread sees the values of another. */
static void values_stay_while_the_supervisor_is_locked(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    add_v(f, 0);
    add_summary_op(f);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_summaries_secs = 1e-3, .save_model_secs = 1e-2));
    prepare(f, NULL);
    for (int i = 0; i < 2; i++)
        hs_thread_free(hs_supervisor_loop(f->sv, 0, look, f, &f->err));
    atomic_store(&looks, 0);
    atomic_store(&summaries, 0);
    for (int i = 0; i < 1000 || atomic_load(&looks) < 100 || atomic_load(&summaries) < 5; i++) {
        const hs_run_values *values;
        const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train", "global_step"));
        hs_supervisor_lock(f->sv);
        assert_ok(hs_supervisor_run(f->sv, f->session, &args, &values, &f->err), &f->err);
        for (int k = 0; k < 10; k++)
            assert_true(hs_run_values_number(values, 1) == i + 1);
        hs_supervisor_unlock(f->sv);
    }
    assert_ok(leave(f, HS_OK), &f->err);
    assert_contains(events_text(f->directory), "c1=1,c2=2,c3=3@");
}

static hs_code be_seen(void *user, hs_error *err)
{
    supervised *f = user;
    hs_supervisor_lock(f->sv);
    hs_session_global_step(f->session, err);
    hs_supervisor_unlock(f->sv);
    hs_supervisor_request_stop(f->sv, NULL);
    return err->code;
}

/* A thread that runs the session without a pause does not exclude the others. */
static void every_thread_gets_its_turn_in_the_session(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    hs_thread_free(hs_supervisor_loop(f->sv, 60, be_seen, f, &f->err));
    while (!hs_supervisor_should_stop(f->sv))
        assert_ok(run_op(f, "train"), &f->err);
    finish(f);
}

/* A failing service stops the training, and its error is the session's. */
static hs_code no_summary(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op;
    return hs_error_set(err, HS_INTERNAL, "summary is NULL");
}

static void an_error_of_a_service_is_the_sessions_error(void **state)
{
    supervised *f = *state;
    hs_graph_op(f->graph, .name = "bad", .run = no_summary, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .summary_op = "bad"));
    prepare(f, NULL);
    await_stop(f);
    assert_fails(leave(f, HS_OK), HS_INTERNAL, &f->err, "summary is NULL");
}

static void a_checkpoint_that_cannot_be_written_stops_the_training(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, SUPERVISED(.no_standard_services = true));
    assert_int_equal(mkdir(test_path(f->directory, "model.ckpt-0.index"), 0700), 0);
    assert_ok(hs_supervisor_start_standard_services(f->sv, f->session, &f->err), &f->err);
    await_stop(f);
    hs_code code = leave(f, HS_OK);
    assert_int_not_equal(code, HS_OK);
    assert_contains(f->err.message, "thread 'checkpoints'");
    assert_contains(f->err.message, "model.ckpt-0");
}

static void an_event_that_is_not_written_ends_the_service(void **state)
{
    static test_env own; /* large */
    supervised *f = *state;
    test_env_init(&own);
    const hs_summary_writer_options options =
        HS_INIT(hs_summary_writer_options, .env = &own.env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *writer = hs_summary_writer_open(f->directory, &options, &f->err);
    assert_non_null(writer);
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .summary_writer = writer, .save_model_secs = HS_NEVER,
                         .summary_op = HS_NONE, .save_summaries_secs = 1e-4));
    prepare(f, NULL);
    own.fail_file_at = own.file_calls + 1;
    assert_int_not_equal(hs_summary_writer_flush(writer, false, NULL), HS_OK);
    await_stop(f);
    assert_int_equal(leave(f, HS_OK), HS_RESOURCE_EXHAUSTED);
    assert_contains(f->err.message, "thread 'step counter'");
    assert_contains(f->err.message, "injected");
    hs_summary_writer_close(writer, NULL);
}

static void freeing_a_supervisor_ends_its_services(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory, .save_model_secs = 1000, .save_summaries_secs = HS_NEVER));
    prepare(f, NULL);
    await_file(f, "checkpoint");
    assert_ok(hs_supervisor_save(f->sv, f->session, &f->err), &f->err); /* the service has finished its save */
    close_session(f);
    hs_supervisor_free(f->sv);
    f->sv = NULL;
    assert_string_equal(events_text(f->directory), "version graph meta start@1 checkpoint@0 checkpoint@0");
}

static hs_code one_life(test_env *t, void *user)
{
    hs_error err = {0};
    supervised f = {.directory = user};
    test_tolerate_harmless(t);                     /* the copy grows instead; searching for leftovers */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_empty_directory(user);
    f.graph = hs_graph_new(&t->env);
    if (!f.graph)
        return HS_RESOURCE_EXHAUSTED;
    add_step(&f, 0);
    f.sv = hs_supervisor_new(hs_graph_backend(f.graph), &OPTIONS(.checkpoint_dir = user), &err);
    if (f.sv) {
        f.session = hs_supervisor_managed_session(f.sv, NULL, &err);
        while (f.session && !hs_supervisor_should_stop(f.sv) && !test_exists(user, "checkpoint"))
            sched_yield(); /* so that each session writes the same events */
        hs_supervisor_leave(f.sv, f.session, err.code, NULL, &err);
    }
    hs_supervisor_free(f.sv);
    hs_graph_free(f.graph);
    return err.code;
}

static void each_allocation_may_fail(void **state)
{
    supervised *f = *state;
    test_each_allocation(one_life, f->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        supervised_test(sv_029_the_standard_services_of_a_model_with_a_step),
        supervised_test(sv_033s_a_stop_saves_nothing),
        supervised_test(saving_now),
        supervised_test(saving_without_a_place_for_it),
        supervised_test(a_second_save_leaves_the_session_to_others),
        supervised_test(all_may_save_at_once),
        supervised_test(sv_035s_which_services_there_are),
        supervised_test(sv_036s_without_a_logdir_there_are_none),
        supervised_test(services_that_cannot_be_started),
        supervised_test(an_event_that_is_not_written_ends_the_service),
        supervised_test(freeing_a_supervisor_ends_its_services),
        supervised_test(sv_038s_no_time_makes_no_rate),
        supervised_test(sv_038s_a_rate_has_the_variables_name),
        supervised_test(sv_049s_a_step_that_is_not_an_integer_is_ignored),
        supervised_test(a_step_of_32_bits),
        supervised_test(sv_039s_a_failed_join_still_closes_the_writer),
        supervised_test(sv_039s_stop_at_the_last_step),
        supervised_test(threads_that_do_not_stop_are_named_or_ignored),
        supervised_test(sv_050s_a_loop_is_joined_by_the_stop),
        supervised_test(sv_050s_an_error_of_a_loop_stops_everything),
        supervised_test(invalid_loops_are_refused),
        supervised_test(values_stay_while_the_supervisor_is_locked),
        supervised_test(every_thread_gets_its_turn_in_the_session),
        supervised_test(an_error_of_a_service_is_the_sessions_error),
        supervised_test(a_checkpoint_that_cannot_be_written_stops_the_training),
        supervised_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
