/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* SO_ATTACH_FILTER */
/* Training sessions of several processes in a group over TCP: they stop, save, fail and resume together. */
#include "replicas/processes.h"

#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEPS = 20, SAVE_STEPS = 5, RANKS = 4, RESTART = 75 };

typedef enum {
    COMPLETES,
    REQUESTS_STOP,
    DIES,
    FAILS_BEFORE_GATE,
    FAILS_BEHIND_GATE,
    HANGS,        /* behind the gate. The others end the step, */
    HANGS_IN_SUM, /* or wait in the sum */
    RECEIVES_NOTHING,
    BEGINS_APART,
    DRIFTS
} event;

typedef struct {
    event event;
    int32_t rank;
    int64_t step;
    double step_secs;
    int connection; /* on which nothing arrives */
} fault;

enum { STEP, SAVED_STEP, CAUSE_RANK, PARAMETER, HAPPENED }; /* numbers of the results */

typedef struct {
    process *p;
    hs_session *session;
    double parameter;
    int64_t step;
} program;

static bool happens(const program *g, event which)
{
    const fault *f = g->p->all->user;
    const bool now = f->event == which && f->rank == g->p->rank && f->step == g->step;
    g->p->results->numbers[HAPPENED] |= now;
    return now;
}

/* Stands for the sum of gradients: waits for a rank that does not come. */
static void wait_for_the_failed_rank(const program *g)
{
    const fault *f = g->p->all->user;
    if ((f->event == FAILS_BEHIND_GATE || f->event == HANGS_IN_SUM) && f->rank != g->p->rank && f->step == g->step)
        process_await(g->p);
}

/* All packets to one of the two connections of this rank are lost, as in a network that drops large ones. Descriptors are
 * numbered in the order in which the connections were opened. */
static void receive_nothing(process *p, int connection)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &nothing};
    int type, n = 0;
    socklen_t length = sizeof type;
    for (int fd = 3; fd < 256; fd++)
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && n++ == connection) {
            check(p, setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0);
            return;
        }
    process_fail(p, __FILE__, __LINE__, "the connection was not found");
}

/* The sum of the gradients, over the group. */
static hs_code sum(const program *g, hs_error *err)
{
    const hs_group *group = hs_group_tcp_get(g->p->group);
    uint64_t word = 1;
    return group->ops->allreduce_or(group->self, &word, 1, err);
}

static hs_code train(void *user, hs_op *op, hs_error *err)
{
    program *g = user;
    if (happens(g, REQUESTS_STOP))
        hs_session_interrupt(g->session);
    if (happens(g, DIES))
        raise(SIGKILL);
    if (happens(g, FAILS_BEFORE_GATE))
        return hs_error_set(err, HS_INTERNAL, "the op has failed");
    hs_code code = hs_op_pass_gate(op, err);
    if (code)
        return code;
    if (happens(g, FAILS_BEHIND_GATE))
        return hs_error_set(err, HS_INTERNAL, "failed behind the gate");
    while (happens(g, HANGS) || happens(g, HANGS_IN_SUM))
        pause();
    if (happens(g, RECEIVES_NOTHING))
        receive_nothing(g->p, ((const fault *)g->p->all->user)->connection);
    wait_for_the_failed_rank(g);
    if (((const fault *)g->p->all->user)->event == RECEIVES_NOTHING && (code = sum(g, err)))
        return code;
    g->parameter = 2 * g->parameter + (double)g->step + (happens(g, DRIFTS) ? 1e-9 : 0);
    return HS_OK;
}

/* Keeps the line about the end of the process. */
static void keep_end(void *user, hs_log_level level, const char *text)
{
    process *p = user;
    (void)level;
    test_check_line(text);
    if (strstr(text, "the process ends"))
        snprintf(p->results->message, sizeof p->results->message, "%s", text);
}

static int run_session(process *p)
{
    const hs_env env = HS_INIT(hs_env, .logger = {keep_end, p});
    const double step_secs = ((const fault *)p->all->user)->step_secs;
    program g = {.p = p, .parameter = 1};
    p->options.env = &env;
    g.parameter += happens(&g, BEGINS_APART) ? 1e-9 : 0;
    const hs_group *group = process_connect(p);
    hs_graph *graph = hs_graph_new(&env);
    hs_graph_variable(graph, "parameter", HS_DOUBLE, HS_SCALAR, &g.parameter);
    hs_graph_global_step(graph, NULL, &g.step);
    hs_graph_op(graph, .name = "train", .run = train, .user = &g, .writes = HS_NAMES("parameter"), .advances_step = true);
    const hs_hook hooks[] = {hs_stop_at_step(.last_step = STEPS), {0}};
    g.session = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = p->all->directory, .save_checkpoint_steps = SAVE_STEPS,
                            .log_step_count_steps = HS_NEVER, .save_summaries_steps = HS_NEVER, .no_graph_def = true,
                            .group = group, .replicas = HS_REPLICA_OPTIONS(.step_secs = step_secs), .hooks = hooks),
        &p->err);
    if (!g.session) { /* within the limits of a_failure_behind_the_gate_ends_all_processes */
        const hs_outcome failed = hs_outcome_from_error(&p->err);
        snprintf(p->results->message, sizeof p->results->message, "%s", p->err.message);
        hs_graph_free(graph);
        process_done(p);
        return hs_outcome_exit_code(&failed);
    }
    while (!hs_session_should_stop(g.session))
        if (hs_session_run(g.session, "train", NULL) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(g.session, &p->err);
    p->results->numbers[STEP] = outcome.step;
    p->results->numbers[SAVED_STEP] = outcome.last_saved_step;
    p->results->numbers[CAUSE_RANK] = outcome.cause_rank;
    p->results->numbers[PARAMETER] = (int64_t)g.parameter;
    snprintf(p->results->message, sizeof p->results->message, "%s", outcome.error.message);
    hs_graph_free(graph);
    process_done(p);
    return hs_outcome_exit_code(&outcome);
}

static int64_t expected_parameter(void)
{
    double parameter = 1;
    for (int64_t step = 0; step < STEPS; step++)
        parameter = 2 * parameter + (double)step;
    return (int64_t)parameter;
}

static void start(processes *all, int32_t rank_count, fault *f)
{
    all->rank_count = all->options.rank_count = rank_count;
    all->user = f;
    processes_start_all(all);
    processes_finish_all(all);
}

/* A busy machine or disk is not a failure. 0: the default. */
static void set_limits(processes *all, double call_secs, double failure_grace_secs)
{
    all->options.collective_secs = all->options.detector_secs = call_secs;
    all->options.failure_grace_secs = failure_grace_secs;
}

/* Resumes with another number of ranks. */
static void resume(processes *all)
{
    fault f = {.event = COMPLETES};
    set_limits(all, 0, HS_NEVER);
    memset(all->results, 0, sizeof *all->results * PROCESSES_MAX);
    start(all, 3, &f);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(processes_exit_code(all, i), 0);
        assert_int_equal(all->results[i].numbers[STEP], STEPS);
        assert_int_equal(all->results[i].numbers[PARAMETER], expected_parameter());
    }
}

/* All living ranks end with the exit code 75. */
static void assert_restart(processes *all, int32_t dead, int64_t step, int64_t saved)
{
    for (int32_t i = 0; i < RANKS; i++) {
        if (i == dead)
            continue;
        if (processes_exit_code(all, i) != RESTART)
            fail_msg("rank %d ends with %d: %s", (int)i, processes_exit_code(all, i), all->results[i].message);
        assert_int_equal(all->results[i].numbers[STEP], step);
        assert_int_equal(all->results[i].numbers[SAVED_STEP], saved);
    }
}

static void prepare(processes *all)
{
    processes_prepare(all, RANKS, run_session);
    set_limits(all, 0, HS_NEVER);
}

static void sessions_stop_save_and_resume_together(void **state)
{
    processes *all = *state;
    fault f = {.event = REQUESTS_STOP, .rank = 2, .step = 7};
    prepare(all);
    start(all, RANKS, &f);
    assert_restart(all, -1, 8, 8);
    resume(all);
}

static void sessions_end_if_a_process_dies(void **state)
{
    processes *all = *state;
    for (int32_t rank = 0; rank < 2; rank++) {
        fault f = {.event = DIES, .rank = rank, .step = 12};
        prepare(all);
        start(all, RANKS, &f);
        assert_int_equal(processes_exit_code(all, rank), -SIGKILL);
        assert_restart(all, rank, 12, 10);
        assert_int_equal(all->results[3].numbers[CAUSE_RANK], rank);
        assert_contains(all->results[3].message, "its connection has ended");
        resume(all);
    }
}

static void sessions_fail_together_before_the_gate(void **state)
{
    processes *all = *state;
    fault f = {.event = FAILS_BEFORE_GATE, .rank = 3, .step = 6};
    prepare(all);
    start(all, RANKS, &f);
    for (int32_t i = 0; i < RANKS; i++) {
        assert_int_equal(processes_exit_code(all, i), 1);
        assert_int_equal(all->results[i].numbers[CAUSE_RANK], 3);
        assert_contains(all->results[i].message, "the op has failed");
    }
}

/* At the opening, and at the save after it has computed another value. */
static void a_rank_whose_variables_differ_is_named(void **state)
{
    processes *all = *state;
    const fault faults[] = {{.event = BEGINS_APART, .rank = 2}, {.event = DRIFTS, .rank = 2, .step = SAVE_STEPS - 1}};
    for (int k = 0; k < 2; k++) {
        fault f = faults[k];
        prepare(all);
        start(all, RANKS, &f);
        for (int32_t i = 0; i < RANKS; i++) {
            assert_int_equal(processes_exit_code(all, i), 1);
            assert_contains(all->results[i].message, "variable 'parameter' differs on rank 2 from rank 0");
        }
        assert_false(test_exists(all->directory, "model.ckpt-5.index"));
    }
}

/* The threads of the other ranks are stuck, so that the group ends these processes. */
static void a_failure_behind_the_gate_ends_all_processes(void **state)
{
    processes *all = *state;
    fault f = {.event = FAILS_BEHIND_GATE, .rank = 1, .step = 12};
    for (double secs = 2; !all->results[f.rank].numbers[HAPPENED];
         secs *= 2) { /* else the limits were too short for the steps */
        prepare(all);
        set_limits(all, secs, 0.1);
        start(all, RANKS, &f);
    }
    for (int32_t i = 0; i < RANKS; i++)
        if (processes_exit_code(all, i) != RESTART)
            fail_msg("rank %d ends with %d: %s", (int)i, processes_exit_code(all, i), all->results[i].message);
    resume(all);
}

static bool all_say(const processes *all, const char *text)
{
    bool say = true;
    for (int32_t i = 0; i < RANKS; i++)
        say &= strstr(all->results[i].message, text) != NULL;
    return say;
}

/* A rank hangs behind the gate, although its detector lives. All processes end and say where the ranks are. On a busy
 * machine the limits may be too short for the steps. */
static void end_hanging(processes *all, fault f, const char *hanging, const char *others)
{
    bool say = false;
    for (f.step_secs = 0.5; !say; f.step_secs *= 2) {
        if (f.step_secs > 100)
            fail_msg("'%s' is not in '%s'", hanging, all->results[0].message);
        prepare(all);
        set_limits(all, 0, 2 * f.step_secs);
        start(all, RANKS, &f);
        say = all->results[f.rank].numbers[HAPPENED] && all_say(all, hanging) && all_say(all, others);
    }
    for (int32_t i = 0; i < RANKS; i++)
        assert_int_equal(processes_exit_code(all, i), RESTART);
    size_t bytes;
    char *outcome = test_read_file(test_path(all->directory, "outcome.json"), &bytes);
    assert_contains(outcome, hanging);
    assert_contains(outcome, "\"last_saved_step\": 10,");
    assert_contains(outcome, "\"exit_code\": 75");
    free(outcome);
    resume(all);
}

static void a_rank_that_hangs_behind_the_gate_ends_all_processes(void **state)
{
    for (int32_t rank = 0; rank < 2; rank++)
        end_hanging(*state, (fault){.event = HANGS_IN_SUM, .rank = rank, .step = 12},
                    "ranks 0, 1, 2, 3 have been behind the gate of step 13 for ", " s");
    end_hanging(*state, (fault){.event = HANGS, .rank = 1, .step = 12}, "rank 1 has been behind the gate of step 13 for ",
                "ranks 0, 2, 3 have ");
}

/* The heartbeats arrive, and the data does not. */
static void a_rank_that_receives_no_data_ends_all_processes(void **state)
{
    processes *all = *state;
    fault f = {.event = RECEIVES_NOTHING, .rank = 3, .step = 12, .connection = 1};
    end_hanging(all, f, "rank 3 has been behind the gate of step 13 for ",
                "ranks 0, 1, 2 have waited at the end of step 13 for ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_processes(sessions_stop_save_and_resume_together),
        with_processes(sessions_end_if_a_process_dies),
        with_processes(sessions_fail_together_before_the_gate),
        with_processes(a_rank_whose_variables_differ_is_named),
        with_processes(a_failure_behind_the_gate_ends_all_processes),
        with_processes(a_rank_that_hangs_behind_the_gate_ends_all_processes),
        with_processes(a_rank_that_receives_no_data_ends_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
