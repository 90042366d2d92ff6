/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog. Sessions stall by a clock that the test advances, until the log reports it. */
#include "hooks/stage.h"
#include "support/json.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FLOOR  0.1   /* seconds of that clock. The watchdog polls 20 times in as many real seconds */
#define MOMENT 0.005 /* seconds of one advance */
#define WATCH  .floor_secs = FLOOR

typedef struct room room;

/* A graph whose step does what a test wants, and a hook that does. */
struct room {
    stage *s;
    hs_graph *graph;
    int64_t step;
    hs_code (*in_op)(room *r, hs_op *op, hs_error *err);
    void (*in_hook)(room *r, const char *callback);
    void (*in_produce)(room *r);
    const char *waits_for; /* this in the log */
    atomic_bool left;
    int lost;
};

static void real_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void stand_still_until(stage *s, const char *text)
{
    while (!test_env_logged(&s->t, text)) {
        test_env_advance(&s->t, MOMENT);
        real_pause();
    }
}

static void await_log(stage *s, const char *text)
{
    while (!test_env_logged(&s->t, text))
        real_pause();
}

static hs_code run_op(void *self, hs_op *op, hs_error *err)
{
    room *r = self;
    return r->in_op ? r->in_op(r, op, err) : HS_OK;
}

static hs_code produce(void *self, hs_op *op, hs_error *err)
{
    room *r = self;
    (void)err;
    if (r->in_produce)
        r->in_produce(r);
    *(int64_t *)hs_op_output(op, 0)->data = 1;
    return HS_OK;
}

static void build(room *r, stage *s, bool queue)
{
    *r = (room){.s = s};
    r->graph = hs_graph_new(&s->t.env);
    hs_graph_global_step(r->graph, NULL, &r->step);
    hs_graph_op(r->graph, .name = "train", .run = run_op, .user = r, .advances_step = true);
    if (!queue)
        return;
    hs_graph_queue(r->graph, .name = "in", .capacity = 1, .components = HS_OUTPUTS({.dtype = HS_INT64}), .produce = produce,
                   .user = r);
}

static void open_room(room *r, const hs_hook *hooks, size_t n, const char *directory)
{
    hs_session_options options = HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n), .checkpoint_dir = directory,
                                         .recovery = HS_RECOVERY(.max_attempts = 2, .backoff_secs = 0.001));
    r->s->session = hs_session_open(hs_graph_backend(r->graph), &options, &r->s->err);
    assert_ok(r->s->session ? HS_OK : r->s->err.code, &r->s->err);
}

static void open_one(room *r, hs_hook hook)
{
    open_room(r, &hook, 1, NULL);
}

static void train(room *r)
{
    assert_ok(hs_session_run(r->s->session, "train", &r->s->err), &r->s->err);
}

static void finish(room *r)
{
    if (r->s->session)
        stage_close(r->s);
    hs_graph_free(r->graph);
}

/* Stalls. */

static hs_code op_waits(room *r, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    stand_still_until(r->s, r->waits_for);
    return HS_OK;
}

static hs_code op_waits_thrice(room *r, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    for (int i = 0; i < 3; i++) {
        stand_still_until(r->s, r->waits_for);
        test_env_clear_log(&r->s->t);
    }
    return HS_OK;
}

static hs_code op_polls(room *r, hs_op *op, hs_error *err)
{
    while (!hs_op_stop_requested(op)) {
        test_env_advance(&r->s->t, MOMENT);
        real_pause();
    }
    return hs_error_set(err, HS_STOP, "asked to");
}

static hs_code op_is_lost(room *r, hs_op *op, hs_error *err)
{
    (void)op;
    return r->lost-- > 0 ? hs_error_set(err, HS_ABORTED, "lost") : HS_OK;
}

static void producer_waits(room *r)
{
    stand_still_until(r->s, r->waits_for);
}

/* Until the waiting run has ended. */
static void producer_stalls(room *r)
{
    while (!atomic_load(&r->left)) {
        test_env_advance(&r->s->t, MOMENT);
        real_pause();
    }
}

/* A hook that waits in one of its callbacks, once. */

typedef struct {
    stage *s;
    const char *callback, *waits_for;
    bool polls, waited;
} slow;

static void call_slow(slow *x, const char *callback, hs_run_context *run)
{
    if (strcmp(x->callback, callback) != 0 || x->waited)
        return;
    x->waited = true;
    for (int i = 0; x->polls && i < 500; i++) { /* for a hundred times the floor */
        test_env_advance(&x->s->t, FLOOR / 5);
        hs_raw_session_stop_requested(hs_run_context_session(run));
        if (i % 20 == 0)
            real_pause();
    }
    if (x->waits_for)
        stand_still_until(x->s, x->waits_for);
}

static hs_code slow_begin(void *self, hs_backend backend, hs_error *err)
{
    (void)backend, (void)err;
    call_slow(self, "begin", NULL);
    return HS_OK;
}

static hs_code slow_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)values, (void)err;
    call_slow(self, "after_run", run);
    return HS_OK;
}

static void slow_close(void *self, const hs_outcome *outcome)
{
    (void)outcome;
    call_slow(self, "close", NULL);
}

static hs_hook slow_hook(slow *x)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "slow", .begin = slow_begin, .after_run = slow_after, .close = slow_close);
    return (hs_hook){.ops = &ops, .self = x};
}

static void a_slow_hook(stage *s, const char *callback, const char *log)
{
    room r;
    slow x = {.s = s, .callback = callback, .waits_for = log};
    build(&r, s, false);
    open_room(&r, (hs_hook[]){hs_watchdog(WATCH), slow_hook(&x)}, 2, NULL);
    train(&r);
    stage_close(s);
    assert_true(x.waited);
    finish(&r);
}

/* Options. */

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_watchdog(.floor_secs = -2), HS_INVALID_ARGUMENT, "floor_secs is -2");
    stage_refuses(s, hs_watchdog(.factor = 0.5), HS_INVALID_ARGUMENT, "factor is 0.5");
    stage_refuses(s, hs_watchdog(.action = 2), HS_INVALID_ARGUMENT, "action is 2");
    stage_refuses(s, hs_watchdog(.heartbeat_secs = -1), HS_INVALID_ARGUMENT, "heartbeat_secs is -1");
    stage_refuses(s, hs_watchdog(.heartbeat = ""), HS_INVALID_ARGUMENT, "heartbeat is empty");
    stage_refuses(s, hs_watchdog_hook(&(hs_watchdog_options){.factor = 2}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_watchdog_options");
}

/* Stalls. */

static void a_stalled_op_is_logged_with_its_limit(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH));
    r.waits_for = "in phase 'step'; the limit is 0.1 s, the minimum for this phase; running threads: none";
    r.in_op = op_waits;
    train(&r);
    await_log(r.s, "progress resumed in phase 'step' after");
    finish(&r);
}

static void a_stall_is_logged_again_when_it_has_doubled(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH));
    r.waits_for = "no progress";
    r.in_op = op_waits_thrice;
    train(&r);
    finish(&r);
}

static void a_stalled_hook_is_named(void **state)
{
    a_slow_hook(*state, "after_run", "in phase 'step'; in hook 'slow';");
}

static void a_stalled_begin_is_logged(void **state)
{
    a_slow_hook(*state, "begin", "in phase 'init'");
}

static void opening_a_session_may_take_three_times_as_long(void **state)
{
    room r;
    slow x = {.s = *state, .callback = "begin", .waits_for = "the limit is 0.3 s"};
    build(&r, *state, false);
    open_room(&r, (hs_hook[]){hs_watchdog(WATCH), slow_hook(&x)}, 2, NULL);
    assert_true(x.waited);
    finish(&r);
}

static void a_stalled_close_is_logged(void **state)
{
    a_slow_hook(*state, "close", "in phase 'end'; in hook 'slow';");
}

static void stalled_data_are_not_a_stalled_step(void **state)
{
    room r;
    build(&r, *state, true);
    r.in_produce = producer_waits;
    r.waits_for = "in phase 'data'; the limit is 0.1 s, the minimum for this phase; running threads: "
                  "'QueueRunnerThread-in-in/enqueue'";
    open_one(&r, hs_watchdog(WATCH));
    assert_ok(hs_session_run(r.s->session, "in/dequeue", &r.s->err), &r.s->err);
    finish(&r);
}

static hs_code lazy(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)err;
    hs_coordinator_wait_for_stop(coordinator, 1e9);
    stand_still_until(user, "in phase 'end'; the limit is 0.1 s, the minimum for this phase; running threads: 'lazy'");
    return HS_OK;
}

static void threads_that_do_not_end_are_named(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH));
    assert_ok(
        hs_coordinator_start(hs_session_coordinator(r.s->session), &r.s->err, .name = "lazy", .run = lazy, .user = r.s),
        &r.s->err);
    finish(&r);
}

static hs_code evaluate(void *user, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)session, (void)step, (void)err;
    stand_still_until(user, "in phase 'eval'; in hook 'evaluation';");
    return HS_OK;
}

static void an_evaluation_is_a_phase(void **state)
{
    room r;
    build(&r, *state, false);
    open_room(&r, (hs_hook[]){hs_watchdog(WATCH), hs_evaluation(.every_n_steps = 1, .evaluate = evaluate, .user = r.s)}, 2,
              NULL);
    train(&r);
    finish(&r);
}

static hs_code slow_save(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    room *r = self;
    (void)session, (void)err;
    if (step == 1)
        stand_still_until(r->s, "in phase 'save'; in hook 'checkpoint_saver';");
    return HS_OK;
}

static hs_hook saver(room *r, const hs_saver_listener *listener)
{
    const hs_saver_listener list[] = {listener ? *listener : (hs_saver_listener){.ops = NULL}, {.ops = NULL}};
    return hs_checkpoint_saver(.checkpoint_dir = r->s->directory, .every_n_steps = 1, .listeners = list);
}

static hs_saver *add_saver(room *r)
{
    hs_saver *made = hs_saver_new(HS_SAVER_OPTIONS(.env = &r->s->t.env), &r->s->err);
    assert_non_null(made);
    hs_backend_ops const *ops = hs_graph_backend(r->graph).ops;
    assert_ok(ops->add_to_collection(r->graph, HS_SAVERS, made, NULL, &r->s->err), &r->s->err);
    return made;
}

/* A save is not aborted, because the end of an aborted run saves as well. */
static void a_stalled_save_is_not_aborted(void **state)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .before_save = slow_save);
    room r;
    build(&r, *state, false);
    hs_saver *made = add_saver(&r);
    const hs_saver_listener listener = {&ops, &r};
    open_room(&r, (hs_hook[]){hs_watchdog(WATCH, .action = HS_WATCHDOG_ABORT_RUN), saver(&r, &listener)}, 2, NULL);
    train(&r);
    assert_false(hs_session_should_stop(r.s->session));
    stage_close(r.s);
    hs_saver_free(made);
    finish(&r);
}

static void polling_counts_as_progress(void **state)
{
    stage *s = *state;
    room r;
    slow x = {.s = s, .callback = "after_run", .polls = true};
    build(&r, s, false);
    open_room(&r, (hs_hook[]){hs_watchdog(WATCH), slow_hook(&x)}, 2, NULL);
    train(&r);
    finish(&r);
    assert_lacks(s->t.log, "no progress");
}

static hs_code op_takes_its_time(room *r, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    test_env_advance(&r->s->t, FLOOR / 5);
    if (r->step % 20 == 0)
        real_pause();
    return HS_OK;
}

/* Runs of hooks count as progress, even if a stop was requested. */
static void runs_of_hooks_count_as_progress(void **state)
{
    room r;
    build(&r, *state, false);
    open_room(&r,
              (hs_hook[]){hs_watchdog(WATCH), hs_evaluation(.at_end = true, .eval_op = "train", .n_batches = 500,
                                                            .metrics = HS_NAMES("global_step"))},
              2, NULL);
    hs_session_interrupt(r.s->session);
    r.in_op = op_takes_its_time;
    finish(&r);
    assert_int_equal(r.step, 500);
    assert_lacks(r.s->t.log, "no progress");
}

static void without_a_floor_nothing_is_a_stall(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r,
             hs_watchdog(.floor_secs = HS_NEVER, .heartbeat = test_path(r.s->directory, "beat"), .heartbeat_secs = 0.002));
    char *beat = NULL;
    for (bool seen = false; !seen; free(beat)) { /* the heartbeat is written, and shows a long time without progress */
        test_env_advance(&r.s->t, MOMENT);
        beat = test_read_file(test_path(r.s->directory, "beat"), NULL);
        const char *still = beat ? strstr(beat, "still_secs\": ") : NULL;
        seen = strstr(beat ? beat : "", "\"data\"") && still && atof(still + 13) > 5 * FLOOR;
        real_pause();
    }
    finish(&r);
    assert_lacks(r.s->t.log, "no progress");
}

/* Learned limits. */

static void stall_once(room *r, const char *log)
{
    r->waits_for = log;
    r->in_op = op_waits;
    train(r);
    r->in_op = NULL;
}

static void limits_are_learned(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH, .factor = 4));
    stall_once(&r, "the minimum for this phase");
    await_log(r.s, "progress resumed");
    stall_once(&r, "4 times the longest duration so far");
    finish(&r);
}

static void without_a_factor_nothing_is_learned(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH, .factor = HS_NEVER));
    stall_once(&r, "the minimum for this phase");
    await_log(r.s, "progress resumed");
    test_env_clear_log(&r.s->t);
    stall_once(&r, "the minimum for this phase");
    finish(&r);
}

static void limits_are_resumed(void **state)
{
    room r;
    build(&r, *state, false);
    hs_saver *made = add_saver(&r);
    for (int i = 0; i < 2; i++) {
        open_room(&r, (hs_hook[]){hs_watchdog(WATCH, .factor = 2), saver(&r, NULL)}, 2, r.s->directory);
        stall_once(&r, i ? "in phase 'step'; the limit is 2 s, 2 times the longest duration so far" : "in phase 'step'");
        if (i == 0)
            await_log(r.s, "progress resumed in phase 'step'");
        train(&r);
        stage_close(r.s);
    }
    hs_saver_free(made);
    finish(&r);
}

/* Runs of the same steps save the same bytes, unless a limit was learned. */
static void times_of_fast_phases_are_not_saved(void **state)
{
    const int64_t zero[6] = {0};
    int64_t saved[6];
    room r;
    build(&r, *state, false);
    hs_saver *made = add_saver(&r);
    open_room(&r, (hs_hook[]){hs_watchdog(.action = HS_WATCHDOG_WARN), saver(&r, NULL)}, 2, NULL);
    train(&r);
    stage_close(r.s);
    char *path = hs_checkpoint_latest(NULL, r.s->directory, NULL, &r.s->err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, &r.s->err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_read(reader, "hooksess/hook/watchdog", saved, sizeof saved, &r.s->err), &r.s->err);
    assert_memory_equal(saved, zero, sizeof zero);
    hs_checkpoint_close(reader);
    hs_env_free(NULL, path);
    hs_saver_free(made);
    finish(&r);
}

/* Ending a run. */

static void check_ended(room *r, const char *message)
{
    assert_true(hs_session_should_stop(r->s->session));
    r->s->outcome = hs_session_close(r->s->session, &r->s->err);
    r->s->session = NULL;
    assert_int_equal(r->s->outcome.reason, HS_REASON_FAILED);
    assert_says(&r->s->outcome.error, HS_DEADLINE_EXCEEDED, message);
    assert_int_equal(hs_outcome_exit_code(&r->s->outcome), 1);
}

static void a_run_that_waits_for_data_is_aborted(void **state)
{
    room r;
    build(&r, *state, true);
    r.in_produce = producer_stalls;
    open_one(&r, hs_watchdog(WATCH, .action = HS_WATCHDOG_ABORT_RUN));
    hs_code code = hs_session_run(r.s->session, "in/dequeue", &r.s->err);
    assert_true(code == HS_STOP || code == HS_OUT_OF_RANGE); /* it may see the stop first, or the cancelled queue */
    atomic_store(&r.left, true);
    check_ended(&r, "in phase 'data'");
    finish(&r);
}

static void an_op_that_polls_is_aborted(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH, .action = HS_WATCHDOG_ABORT_RUN));
    r.in_op = op_polls;
    assert_fails(hs_session_run(r.s->session, "train", &r.s->err), HS_STOP, &r.s->err, "asked to");
    check_ended(&r, "in phase 'step'");
    finish(&r);
}

/* Sessions that are lost, and several. */

static void a_recovered_session_is_watched(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH, .action = HS_WATCHDOG_ABORT_RUN));
    r.lost = 1;
    r.in_op = op_is_lost;
    train(&r);
    assert_int_equal(hs_session_recoveries(r.s->session), 1);
    r.in_op = op_polls;
    assert_int_equal(hs_session_run(r.s->session, "train", &r.s->err), HS_STOP);
    check_ended(&r, "in phase 'step'");
    finish(&r);
}

static hs_code op_stalls_and_is_lost(room *r, hs_op *op, hs_error *err)
{
    (void)op;
    if (r->lost-- <= 0)
        return HS_OK;
    stand_still_until(r->s, "stopping the run");
    return hs_error_set(err, HS_ABORTED, "lost");
}

static void an_aborted_run_is_not_recovered(void **state)
{
    room r;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(WATCH, .action = HS_WATCHDOG_ABORT_RUN));
    r.lost = 1;
    r.in_op = op_stalls_and_is_lost;
    assert_int_equal(hs_session_run(r.s->session, "train", &r.s->err), HS_DEADLINE_EXCEEDED);
    assert_int_equal(hs_session_recoveries(r.s->session), 0);
    check_ended(&r, "in phase 'step'");
    finish(&r);
}

static void each_session_has_its_own(void **state)
{
    room quiet, r;
    stage s = {.directory = NULL};
    build(&quiet, *state, false);
    open_one(&quiet, hs_watchdog(WATCH, .action = HS_WATCHDOG_ABORT_RUN));
    test_env_init(&s.t);
    build(&r, &s, false);
    open_one(&r, hs_watchdog(WATCH));
    r.waits_for = "in phase 'step'";
    r.in_op = op_waits;
    train(&r);
    finish(&r);
    assert_false(hs_session_should_stop(quiet.s->session));
    finish(&quiet);
    assert_lacks(quiet.s->t.log, "no progress");
}

/* The heartbeat. */

static bool beat_says(const char *path, const char *phase, bool stalled)
{
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    if (!text)
        return false;
    hs__json_value beat = json_root(text, bytes); /* never incomplete */
    bool says = strcmp(json_text(beat, "phase"), phase) == 0 && json_bool(beat, "stalled") == stalled &&
                json_number(beat, "still_secs") >= (stalled ? FLOOR : 0) && json_int(beat, "pid") == getpid() &&
                json_int(beat, "progress") >= 0 && json_text(beat, "hook") && json_number(beat, "time") > 0;
    free(text);
    return says;
}

static hs_code op_waits_for_beat(room *r, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    while (!beat_says(r->waits_for, "step", true)) {
        test_env_advance(&r->s->t, MOMENT);
        real_pause();
    }
    return HS_OK;
}

static void the_heartbeat_continues_during_a_stall(void **state)
{
    room r;
    build(&r, *state, false);
    char path[512];
    snprintf(path, sizeof path, "%s/new/beat.json", r.s->directory);
    open_one(&r, hs_watchdog(WATCH, .heartbeat = path, .heartbeat_secs = 0.002));
    r.waits_for = path;
    r.in_op = op_waits_for_beat;
    train(&r);
    while (!beat_says(path, "data", false))
        real_pause();
    stage_close(r.s);
    assert_true(beat_says(path, "closed", false));
    remove(path);
    snprintf(path, sizeof path, "%s/new", r.s->directory);
    assert_int_equal(test_count_files(path, "beat"), 0);
    assert_int_equal(rmdir(path), 0);
    finish(&r);
}

static double beat_number(const char *path, const char *name)
{
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    double number = text ? json_number(json_root(text, bytes), name) : 0;
    free(text);
    return number;
}

static void by_default_the_heartbeat_is_rare(void **state)
{
    enum { LOOKS = 100 };
    room r;
    struct stat now, before = {.st_ino = 0};
    int beats = 0;
    build(&r, *state, false);
    open_one(&r, hs_watchdog(.heartbeat = test_path(r.s->directory, "beat")));
    while (!test_exists(r.s->directory, "beat"))
        real_pause();
    for (int i = 0; i < LOOKS; i++, before = now) {
        real_pause();
        assert_int_equal(stat(test_path(r.s->directory, "beat"), &now), 0);
        beats += now.st_ino != before.st_ino || now.st_ctim.tv_nsec != before.st_ctim.tv_nsec;
    }
    finish(&r);
    assert_true(beats >= 1 && beats < LOOKS / 2);
}

static hs_code op_is_suspended(room *r, hs_op *op, hs_error *err)
{
    const double SECS = 1000;
    (void)op, (void)err;
    double before = beat_number(r->waits_for, "time");
    while (!beat_says(r->waits_for, "step", false))
        real_pause();
    test_env_advance(&r->s->t, SECS);
    while (beat_number(r->waits_for, "time") < before + SECS || beat_number(r->waits_for, "still_secs") > SECS / 2)
        real_pause();
    return HS_OK;
}

static void a_suspended_process_is_not_a_stall(void **state)
{
    room r;
    build(&r, *state, false);
    char path[512];
    snprintf(path, sizeof path, "%s/beat.json", r.s->directory);
    open_one(&r, hs_watchdog(WATCH, .heartbeat = path, .heartbeat_secs = 0.002));
    r.waits_for = path;
    r.in_op = op_is_suspended;
    train(&r);
    finish(&r);
    assert_lacks(r.s->t.log, "no progress");
}

static bool beat_names(const char *path, const char *hook)
{
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    bool names = text && strcmp(json_text(json_root(text, bytes), "hook"), hook) == 0;
    free(text);
    return names;
}

static hs_code after_waits_for_beat(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    while (!beat_names(self, "the \"slow\\\" \n one"))
        real_pause();
    return HS_OK;
}

static void the_heartbeat_names_the_hook_that_is_called(void **state)
{
    room r;
    build(&r, *state, false);
    char path[512];
    snprintf(path, sizeof path, "%s/beat.json", r.s->directory);
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "the \"slow\\\" \n one", .after_run = after_waits_for_beat);
    open_room(&r, (hs_hook[]){hs_watchdog(WATCH, .heartbeat = path, .heartbeat_secs = 0.002), {.ops = &ops, .self = path}},
              2, NULL);
    train(&r);
    finish(&r);
    assert_true(beat_names(path, ""));
}

static void a_heartbeat_failure_is_logged_once(void **state)
{
    room r;
    build(&r, *state, false);
    r.s->t.fail_file_at = 1;
    r.s->t.fail_file_on = true;
    r.s->t.fail_file_errno = 5;
    open_one(&r, hs_watchdog(.heartbeat = test_path(r.s->directory, "beat"), .heartbeat_secs = 0.001));
    await_log(r.s, "watchdog: cannot write the heartbeat");
    finish(&r); /* this writes a last heartbeat */
    assert_int_equal(count_of(r.s->t.log, "watchdog: cannot write the heartbeat"), 1);
}

/* Two sessions, one after the other, have the same watchdog. */
static hs_code scenario(test_env *t, void *user)
{
    hs_error err;
    room r = {.step = 0};
    stage s = {.directory = user};
    hs_graph *graph = hs_graph_new(&t->env);
    if (!graph)
        return HS_RESOURCE_EXHAUSTED;
    hs_graph_global_step(graph, NULL, &r.step);
    hs_hook hook = hs_watchdog(.heartbeat = test_path(s.directory, "beat"));
    hs_code code = HS_OK;
    for (int i = 0; !code && i < 2; i++) {
        const hs_hook held = hs_hook_hold(hook);
        hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(held));
        hs_session *session = hs_session_open(hs_graph_backend(graph), &options, &err);
        code = session ? HS_OK : err.code;
        hs_session_close(session, NULL);
    }
    hs_hook_free(hook);
    hs_graph_free(graph);
    return code;
}

static void each_allocation_may_fail(void **state)
{
    test_each_allocation(scenario, ((stage *)*state)->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(invalid_options_are_refused),
        with_stage(a_stalled_op_is_logged_with_its_limit),
        with_stage(a_stall_is_logged_again_when_it_has_doubled),
        with_stage(a_stalled_hook_is_named),
        with_stage(a_stalled_begin_is_logged),
        with_stage(opening_a_session_may_take_three_times_as_long),
        with_stage(a_stalled_close_is_logged),
        with_stage(stalled_data_are_not_a_stalled_step),
        with_stage(threads_that_do_not_end_are_named),
        with_stage(an_evaluation_is_a_phase),
        with_stage(a_stalled_save_is_not_aborted),
        with_stage(polling_counts_as_progress),
        with_stage(runs_of_hooks_count_as_progress),
        with_stage(without_a_floor_nothing_is_a_stall),
        with_stage(limits_are_learned),
        with_stage(without_a_factor_nothing_is_learned),
        with_stage(limits_are_resumed),
        with_stage(times_of_fast_phases_are_not_saved),
        with_stage(a_run_that_waits_for_data_is_aborted),
        with_stage(an_op_that_polls_is_aborted),
        with_stage(a_recovered_session_is_watched),
        with_stage(an_aborted_run_is_not_recovered),
        with_stage(each_session_has_its_own),
        with_stage(the_heartbeat_continues_during_a_stall),
        with_stage(by_default_the_heartbeat_is_rare),
        with_stage(a_suspended_process_is_not_a_stall),
        with_stage(the_heartbeat_names_the_hook_that_is_called),
        with_stage(a_heartbeat_failure_is_logged_once),
        with_stage(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
