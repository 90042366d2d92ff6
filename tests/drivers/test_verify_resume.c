/* SPDX-License-Identifier: Apache-2.0 */
/* hs_verify_resume as a program sees it. The trials are this very program: called with arguments, it is the scenario of
 * that name; without, the tests. */
#include "support/test.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

enum { STEPS = 8, MIDDLE = 4 };

/* What is wrong with the program. */
typedef struct {
    const char *name;
    bool no_generator, lossy_input, lossy_hook, late_input, clock, swaps, points; /* of what is saved */
    bool no_hook, no_directory, quiet, elsewhere, exits_late;                     /* of the program */
    int64_t kill_at, fail_at, exit_at, end_at;                                    /* the step */
    bool ends_when_resumed, seldom_saved, looks_at_signals, looks_at_environment, verifies_again;
    const char *const *fetches, *const *ignore;
} scenario;

static const scenario scenarios[] = {
    {.name = "exact", .fetches = HS_NAMES("loss", "double_loss")},
    {.name = "seldom saved", .seldom_saved = true},
    {.name = "no generator", .no_generator = true, .fetches = HS_NAMES("loss")},
    {.name = "lossy input", .lossy_input = true},
    {.name = "lossy hook", .lossy_hook = true},
    {.name = "late input", .late_input = true},
    {.name = "clock", .clock = true},
    {.name = "swapping", .swaps = true},
    {.name = "swapping pointers", .points = true},
    {.name = "clock ignored", .clock = true, .ignore = HS_NAMES("hooksess/state/clock")},
    {.name = "killed", .kill_at = MIDDLE + 2},
    {.name = "killed at once", .kill_at = 1},
    {.name = "failing", .fail_at = 3},
    {.name = "failing quietly", .fail_at = 3, .quiet = true},
    {.name = "exiting", .exit_at = 3},
    {.name = "exiting late", .exits_late = true},
    {.name = "elsewhere", .elsewhere = true},
    {.name = "no hook", .no_hook = true},
    {.name = "no directory", .no_directory = true},
    {.name = "short", .end_at = 3},
    {.name = "short of the end", .end_at = 6},
    {.name = "ending at the middle", .end_at = MIDDLE + 1, .ends_when_resumed = true},
    {.name = "ending sooner", .end_at = 6, .ends_when_resumed = true},
    {.name = "signals", .looks_at_signals = true},
    {.name = "environment", .looks_at_environment = true},
    {.name = "again", .verifies_again = true},
    {.name = "unknown fetch", .fetches = HS_NAMES("no such thing")},
};

/* The model: a walk, a step of which is random and as long as the input says. */
typedef struct {
    const scenario *what;
    double position, loss;
    double buffers[2]; /* of a program that swaps them, one of which is a variable */
    double *newest;    /* of them, or of a program that allocates another one in its third step: */
    double *moment;
    uint64_t generator;
    int64_t input;    /* where it is */
    int64_t produced; /* how much of it this process has seen */
    int64_t runs;     /* a hook counts them */
} walk;

static hs_code advance(void *self, hs_op *op, hs_error *err)
{
    walk *w = self;
    int64_t step = hs_op_global_step(op, NULL) + 1;
    if (step == w->what->end_at && !(w->what->ends_when_resumed && w->produced >= MIDDLE))
        return hs_error_set(err, HS_OUT_OF_RANGE, "the input is at its end");
    if (step == w->what->kill_at && (step == 1 || w->produced < step - 1)) /* not in the run that goes through */
        raise(SIGKILL);
    if (step == w->what->exit_at)
        exit(3);
    if (step == w->what->fail_at)
        return hs_error_set(err, HS_DEADLINE_EXCEEDED, "the worker is gone");
    w->generator = w->generator * 6364136223846793005u + 1442695040888963407u;
    w->position += (double)(w->generator >> 40) * (double)(++w->input % 3);
    w->loss = w->position / 7;
    if (w->what->swaps) { /* each step computes one buffer from the other */
        int64_t from = w->produced % 2;
        w->buffers[1 - from] = w->buffers[from] + w->position;
        w->loss = w->buffers[1 - from];
    }
    if (w->what->points) {
        double *next = w->newest == w->buffers ? w->buffers + 1 : w->buffers;
        if (step > 2 && !w->moment)
            w->moment = calloc(1, sizeof *w->moment);
        *next = *w->newest / 2 + w->position + (w->moment ? *w->moment : 0);
        w->newest = next;
        if (w->moment)
            *w->moment += w->position;
    }
    w->produced++;
    return HS_OK;
}

static hs_code double_loss(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(double *)hs_op_output(op, 0)->data = 2 * ((walk *)self)->loss;
    return HS_OK;
}

static hs_code save_number(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_number(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static hs_code load_one_more(void *self, hs_state_reader *in, hs_error *err)
{
    hs_code code = load_number(self, in, err);
    ++*(int64_t *)self;
    return code;
}

static hs_code save_clock(void *self, hs_state_writer *out, hs_error *err)
{
    int64_t now = hs_env_monotonic_ns(NULL);
    (void)self;
    return hs_state_writer_write(out, &now, sizeof now, err);
}

static hs_code load_clock(void *self, hs_state_reader *in, hs_error *err)
{
    int64_t then;
    (void)self;
    return hs_state_reader_read(in, &then, sizeof then, err);
}

static hs_code count_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    ((walk *)self)->runs++;
    return HS_OK;
}

static hs_code save_runs(void *self, hs_state_writer *out, hs_error *err)
{
    return save_number(&((walk *)self)->runs, out, err);
}

static hs_code load_runs(void *self, hs_state_reader *in, hs_error *err)
{
    walk *w = self;
    return (w->what->lossy_hook ? load_one_more : load_number)(&w->runs, in, err);
}

static hs_code add_input(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    walk *w = self;
    (void)coordinator;
    if (!w->what->late_input)
        return HS_OK;
    return hs_raw_session_add_state(
        session, HS_STATE_PROVIDER(.name = "input", .save = save_number, .load = load_number, .self = &w->input), err);
}

static const hs_hook_ops counter_ops = HS_INIT(hs_hook_ops, .name = "counter", .after_create_session = add_input,
                                               .after_run = count_run, .save_state = save_runs, .load_state = load_runs);

static hs_graph *make_graph(walk *w)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "position", HS_DOUBLE, HS_SCALAR, &w->position);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &w->loss);
    if (w->what->swaps)
        hs_graph_variable(g, "u", HS_DOUBLE, HS_SCALAR, &w->buffers[0]);
    if (w->what->points) {
        hs_graph_variable_at(g, "newest", HS_DOUBLE, HS_SCALAR, &w->newest);
        hs_graph_variable_at(g, "moment", HS_DOUBLE, HS_SCALAR, &w->moment);
    }
    if (!w->what->no_generator)
        hs_graph_state(g, "generator", save_number, load_number, &w->generator);
    if (!w->what->late_input)
        hs_graph_state(g, "input", save_number, w->what->lossy_input ? load_one_more : load_number, &w->input);
    if (w->what->clock)
        hs_graph_state(g, "clock", save_clock, load_clock, w);
    hs_graph_op(g, .name = "train", .run = advance, .user = w, .writes = HS_NAMES("position", "loss"),
                .advances_step = true);
    hs_graph_op(g, .name = "double_loss", .run = double_loss, .user = w, .inputs = HS_NAMES("loss"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    return g;
}

static hs_code look_at_signals(hs_error *err)
{
    static const int usual[] = {SIGCHLD, SIGPIPE, SIGINT, SIGTERM};
    struct sigaction action;
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (sigaction(usual[i], NULL, &action) || action.sa_handler != SIG_DFL || sigismember(&blocked, usual[i]))
            return hs_error_set(err, HS_INTERNAL, "signal %d is not as usual", usual[i]);
    return HS_OK;
}

static hs_code look_around(const scenario *what, hs_error *err)
{
    if (what->looks_at_environment && getenv("HOOKSESS_RESUME_TRIAL"))
        return hs_error_set(err, HS_INTERNAL, "what this starts would take itself for a trial");
    return what->looks_at_signals ? look_at_signals(err) : HS_OK;
}

static hs_code train(void *user, const hs_resume_trial *trial, hs_error *err)
{
    const scenario *what = user;
    hs_code around = look_around(what, err);
    if (around)
        return around;
    if (what->verifies_again)
        return hs_verify_resume(
            HS_VERIFY_RESUME_OPTIONS(.argv = (char *[]){"false", NULL}, .program = "false", .steps = STEPS, .train = train),
            NULL, err);
    walk w = {.what = what, .generator = 1, .newest = w.buffers};
    hs_graph *g = make_graph(&w);
    hs_hook hooks[] = {
        {.ops = &counter_ops, .self = &w}, what->no_hook ? (hs_hook){.ops = NULL} : trial->hook, {.ops = NULL}};
    hs_training_options options =
        HS_INIT(hs_training_options, .hooks = hooks, .checkpoint_dir = what->no_directory ? NULL : trial->checkpoint_dir,
                .save_checkpoint_steps = what->seldom_saved ? HS_NEVER : 3);
    hs_session *s = hs_training_session_open(hs_graph_backend(g), &options, err);
    for (int i = 0; i < trial->last_step && !hs_session_should_stop(s); i++)
        if (hs_session_run(s, "train", err))
            break;
    hs_code code = hs_session_close(s, err).error.code;
    hs_graph_free(g);
    free(w.moment);
    return what->quiet ? HS_OK : code;
}

/* The program, when it is started with arguments: the scenario, and which allocation is to fail. */
static int scenario_main(char **argv)
{
    static test_env t;
    test_env_init(&t);
    t.fail_alloc_at = argv[2] ? (size_t)atoi(argv[2]) : 0;
    const char *name = argv[1];
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const scenario *what = &scenarios[i];
        if (strcmp(what->name, name) != 0)
            continue;
        if (what->elsewhere)
            return 0;
        if (what->exits_late)
            atexit(abort);
        hs_verify_resume_options options =
            HS_INIT(hs_verify_resume_options, .argv = argv, .steps = STEPS, .train = train, .user = (void *)what,
                    .fetches = what->fetches, .env = argv[2] ? &t.env : NULL, .ignore = what->ignore);
        hs_verify_resume(&options, NULL, NULL);
        return 99; /* in no trial */
    }
    return 98;
}

/* The tests. */

static char *self_name; /* argv[0] */
static char *scratch;
static hs_error err;
static hs_resume_report report;

static int setup(void **state)
{
    (void)state;
    scratch = test_make_directory();
    report = (hs_resume_report)HS_INIT(hs_resume_report);
    hs_error_clear(&err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_remove_directory(scratch);
    return 0;
}
#define with_scratch(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static hs_code unused(void *user, const hs_resume_trial *trial, hs_error *error)
{
    (void)user, (void)trial, (void)error;
    fail(); /* the process that waits makes no run itself */
    return HS_OK;
}

static char *which_fails; /* of the trials' allocations; NULL: none */

static hs_code verify_as(const char *name, hs_verify_resume_options options)
{
    char *argv[] = {self_name, (char *)name, which_fails, NULL};
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            options.ignore = scenarios[i].ignore;
    options.argv = argv;
    options.steps = STEPS;
    options.train = unused;
    options.scratch_dir = scratch;
    return hs_verify_resume(&options, &report, &err);
}

static hs_code verify(const char *name)
{
    return verify_as(name, (hs_verify_resume_options)HS_INIT(hs_verify_resume_options));
}

static void assert_nothing_is_left(void)
{
    assert_int_equal(test_count_files(scratch, "verify-resume-"), 0);
}

static void a_program_that_resumes_exactly(void **state)
{
    (void)state;
    assert_ok(verify("exact"), &err);
    assert_int_equal(report.middle, MIDDLE);
    assert_int_equal(report.compared, STEPS - MIDDLE);
    assert_int_equal(report.step, -1);
    assert_int_equal(report.different, 0);
    assert_nothing_is_left();
}

static void a_random_number_generator_that_is_in_no_checkpoint(void **state)
{
    (void)state;
    assert_fails(verify("no generator"), HS_DATA_LOSS, &err, "resumed at step 4 is not the same: step 5 differs in");
    assert_contains(err.message, "the variable 'position', the fetch 'loss' (in 2 things in all)");
    assert_int_equal(report.step, MIDDLE + 1);
    assert_int_equal(report.compared, 0);
    assert_int_equal(report.different, 2);
    assert_string_equal(report.state, "");
    assert_string_equal(report.variable, "position");
    assert_string_equal(report.fetch, "loss");
    assert_contains(err.message, scratch); /* what they have left is there */
    assert_int_equal(test_count_files(scratch, "verify-resume-"), 1);
}

static void state_that_does_not_come_back_as_it_was(void **state)
{
    (void)state;
    assert_fails(verify("lossy input"), HS_DATA_LOSS, &err,
                 "step 5 differs in the state 'hooksess/state/input', the variable 'position'");
    assert_int_equal(report.step, MIDDLE + 1);
    assert_string_equal(report.state, "hooksess/state/input");
    assert_string_equal(report.variable, "position");
}

static void a_hooks_state_that_does_not_come_back_as_it_was(void **state)
{
    (void)state;
    assert_fails(verify("lossy hook"), HS_DATA_LOSS, &err, "step 5 differs in the state 'hooksess/hook/counter' (in 1");
    assert_string_equal(report.state, "hooksess/hook/counter");
    assert_string_equal(report.variable, "");
}

static void state_that_is_added_late(void **state)
{
    (void)state;
    assert_ok(verify("late input"), &err);
    assert_int_equal(report.compared, STEPS - MIDDLE);
}

static void what_may_differ_is_named(void **state)
{
    (void)state;
    assert_fails(verify("clock"), HS_DATA_LOSS, &err, "'hooksess/state/clock'");
    report = (hs_resume_report)HS_INIT(hs_resume_report);
    assert_ok(verify("clock ignored"), &err);
    assert_int_equal(report.compared, STEPS - MIDDLE);
}

/* Trials that come to nothing. */

static void a_trial_that_is_killed(void **state)
{
    (void)state;
    assert_fails(verify("killed at once"), HS_ABORTED, &err, "the trial that goes through: it was killed by signal 9");
    assert_int_equal(report.step, -1);
    assert_fails(verify("killed"), HS_ABORTED, &err, "the trial that resumes: it was killed by signal 9");
}

static void a_trial_that_fails(void **state)
{
    (void)state;
    assert_fails(verify("failing"), HS_DEADLINE_EXCEEDED, &err, "the trial that goes through: ");
    assert_contains(err.message, "the worker is gone");
    assert_fails(verify("failing quietly"), HS_DEADLINE_EXCEEDED, &err, "the worker is gone");
    assert_fails(verify("unknown fetch"), HS_NOT_FOUND, &err, "no such thing");
}

static void a_program_that_ends_by_itself(void **state)
{
    (void)state;
    assert_fails(verify("exiting"), HS_ABORTED, &err, "it ended by itself, with status 3, and made no trial");
    assert_fails(verify("elsewhere"), HS_ABORTED, &err, "it ended by itself, with status 0, and made no trial");
    assert_fails(verify("exiting late"), HS_ABORTED, &err, "killed by signal 6");
}

static void a_session_without_the_trials_hook_or_directory(void **state)
{
    (void)state;
    assert_fails(verify("no hook"), HS_FAILED_PRECONDITION, &err, "no session had the trial's hook");
    assert_fails(
        verify("no directory"), HS_FAILED_PRECONDITION, &err,
        "the trial that resumes: hook 'verify_resume', after_create_session at step 0: the run begins at step 0, and "
        "not at 4");
}

static void runs_that_end_early(void **state)
{
    (void)state;
    assert_fails(verify("short"), HS_FAILED_PRECONDITION, &err, "the run ended before step 4, which is to be resumed from");
    assert_fails(verify("ending at the middle"), HS_FAILED_PRECONDITION, &err,
                 "the trial that resumes: the run ended without going beyond step 4");
    assert_fails(verify("short of the end"), HS_FAILED_PRECONDITION, &err,
                 "the trial that goes through: the run ended at step 5, before 8, the last step");
    assert_fails(verify("ending sooner"), HS_FAILED_PRECONDITION, &err,
                 "the trial that resumes: the run ended at step 5, before 8, the last step");
}

/* Between the program and its trial. */

/* The program is started by way of something that passes nothing on: what comes of it takes itself for the first. */
static void an_environment_that_does_not_arrive(void **state)
{
    char *argv[] = {"env", "-i", self_name, "exact", NULL};
    (void)state;
    hs_verify_resume_options options = HS_INIT(hs_verify_resume_options, .argv = argv, .program = "env", .train = unused,
                                               .steps = STEPS, .scratch_dir = scratch);
    assert_fails(hs_verify_resume(&options, &report, &err), HS_FAILED_PRECONDITION, &err,
                 "the trial that goes through: the environment did not reach the trial");
}

static void a_trial_that_verifies_a_resume_itself(void **state)
{
    (void)state;
    assert_fails(verify("again"), HS_FAILED_PRECONDITION, &err, "this process was started to make one, or makes one");
}

static void what_a_trial_starts_is_none(void **state)
{
    (void)state;
    assert_ok(verify("environment"), &err);
}

static void signals_are_as_usual_in_a_trial(void **state)
{
    static const int usual[] = {SIGPIPE, SIGINT, SIGTERM};
    sigset_t all, before;
    (void)state;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        signal(usual[i], SIG_IGN);
    hs_code code = verify("signals");
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        signal(usual[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_ok(code, &err);
}

static hs_code verify_without_a_status(const char *name)
{
    signal(SIGCHLD, SIG_IGN);
    hs_code code = verify(name);
    signal(SIGCHLD, SIG_DFL);
    return code;
}

static void where_the_status_is_gone_the_result_tells(void **state)
{
    (void)state;
    assert_ok(verify_without_a_status("signals"), &err);
    assert_fails(verify_without_a_status("failing"), HS_DEADLINE_EXCEEDED, &err, "the worker is gone");
    assert_fails(verify_without_a_status("killed at once"), HS_ABORTED, &err, "with a status that is not known");
}

static void a_relative_scratch_directory_that_begins_with_a_blank(void **state)
{
    char *argv[] = {self_name, "exact", NULL};
    char before[1024];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch), 0);
    hs_verify_resume_options options =
        HS_INIT(hs_verify_resume_options, .argv = argv, .train = unused, .steps = STEPS, .scratch_dir = " a b");
    assert_clears(&err, hs_verify_resume(&options, &report, &err));
    assert_int_equal(chdir(before), 0);
    assert_int_equal(test_count_files(test_path(scratch, " a b"), "verify-resume-"), 0);
}

/* Options. */

/* At every second step the variable is the newest of the two buffers. */
static void a_program_that_swaps_two_buffers(void **state)
{
    (void)state;
    assert_fails(verify("swapping"), HS_DATA_LOSS, &err, "resumed at step 5 is not the same: step 6 differs in");
    assert_int_equal(report.middle, MIDDLE + 1);
    assert_string_equal(report.variable, "u");
    assert_ok(verify_as("swapping", (hs_verify_resume_options)HS_INIT(hs_verify_resume_options, .middle = MIDDLE)), &err);
}

/* At whichever of two steps in a row it is resumed; also before the third, which allocates memory. */
static void a_program_that_swaps_two_pointers(void **state)
{
    (void)state;
    assert_ok(verify("swapping pointers"), &err);
    assert_ok(verify_as("swapping pointers", (hs_verify_resume_options)HS_INIT(hs_verify_resume_options, .middle = 1)),
              &err);
}

static void another_middle(void **state)
{
    (void)state;
    assert_ok(verify_as("exact", (hs_verify_resume_options)HS_INIT(hs_verify_resume_options, .middle = 7)), &err);
    assert_int_equal(report.middle, 7);
    assert_int_equal(report.compared, 1);
}

static void a_program_that_is_not_there(void **state)
{
    (void)state;
    assert_fails(
        verify_as("exact", (hs_verify_resume_options)HS_INIT(hs_verify_resume_options, .program = "/no/such/program")),
        HS_NOT_FOUND, &err, "starting '/no/such/program' anew");
    assert_ok(verify_as("exact", (hs_verify_resume_options)HS_INIT(hs_verify_resume_options, .program = self_name)), &err);
}

static void a_scratch_directory_that_cannot_be(void **state)
{
    char *argv[] = {self_name, NULL};
    (void)state;
    test_write_file(test_path(scratch, "file"), "x", 1);
    hs_verify_resume_options options = HS_INIT(hs_verify_resume_options, .argv = argv, .train = unused, .steps = 2,
                                               .scratch_dir = test_path(scratch, "file/inside"));
    assert_int_not_equal(hs_verify_resume(&options, NULL, &err), HS_OK);
    assert_contains(err.message, "file");
}

static void options_that_make_no_sense(void **state)
{
    (void)state;
    char *argv[] = {self_name, NULL}, *empty[] = {NULL};
    const hs_verify_resume_options good = HS_INIT(hs_verify_resume_options, .argv = argv, .train = unused, .steps = 2);
    hs_verify_resume_options bad = good;
    bad.argv = NULL;
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "argv is NULL");
    bad.argv = empty;
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "argv[0] is NULL");
    bad = good;
    bad.train = NULL;
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "train is NULL");
    bad = good;
    bad.steps = 1;
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "steps is 1");
    bad = good;
    bad.middle = 2;
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "middle is 2; it must be below 2");
    bad.middle = HS_NEVER;
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "middle is -1");
    bad = (hs_verify_resume_options){.argv = argv};
    assert_fails(hs_verify_resume(&bad, NULL, &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_verify_resume_options");
    assert_fails(hs_verify_resume(NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "hs_verify_resume_options");
    hs_resume_report none = {.size = 0};
    assert_fails(hs_verify_resume(&good, &none, &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_resume_report");
}

static void an_environment_variable_that_is_no_order(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "whole", "whole 4", "whole 4 ", "halved 4 /tmp"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("HOOKSESS_RESUME_TRIAL", wrong[i], 1);
        hs_code code = verify("exact");
        unsetenv("HOOKSESS_RESUME_TRIAL");
        assert_fails(code, HS_INVALID_ARGUMENT, &err, "HOOKSESS_RESUME_TRIAL is '");
    }
    assert_nothing_is_left();
}

static void a_report_that_is_too_small_is_refused(void **state)
{
    (void)state;
    report.size = sizeof report - 1;
    assert_fails(verify("no generator"), HS_INVALID_ARGUMENT, &err, "hs_resume_report.size is ");
}

static hs_code verify_with(test_env *t, void *user)
{
    (void)user;
    test_tolerate(t, ": cannot be removed: no memory for a path");
    return verify_as("seldom saved", (hs_verify_resume_options)HS_INIT(hs_verify_resume_options, .env = &t->env));
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(verify_with, NULL);
}

/* What it has no memory to say, its status does. */
static void a_trial_without_memory(void **state)
{
    char which[16];
    (void)state;
    which_fails = which;
    for (int i = 1; i <= 8; i++) {
        snprintf(which, sizeof which, "%d", i);
        hs_code code = verify("seldom saved");
        if (code != HS_RESOURCE_EXHAUSTED && code != HS_ABORTED)
            fail_msg("%d: %s: %s", i, hs_code_name(code), err.message);
    }
    which_fails = NULL;
    assert_says(&err, HS_RESOURCE_EXHAUSTED, "no memory");
}

static void each_file_call(void **state)
{
    (void)state;
    test_each_file_call(verify_with, NULL, EIO, false, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return scenario_main(argv);
    self_name = argv[0];
    const struct CMUnitTest tests[] = {
        with_scratch(a_program_that_resumes_exactly),
        with_scratch(a_random_number_generator_that_is_in_no_checkpoint),
        with_scratch(state_that_does_not_come_back_as_it_was),
        with_scratch(a_hooks_state_that_does_not_come_back_as_it_was),
        with_scratch(state_that_is_added_late),
        with_scratch(what_may_differ_is_named),
        with_scratch(a_trial_that_is_killed),
        with_scratch(a_trial_that_fails),
        with_scratch(a_program_that_ends_by_itself),
        with_scratch(a_session_without_the_trials_hook_or_directory),
        with_scratch(runs_that_end_early),
        with_scratch(an_environment_that_does_not_arrive),
        with_scratch(a_trial_that_verifies_a_resume_itself),
        with_scratch(what_a_trial_starts_is_none),
        with_scratch(signals_are_as_usual_in_a_trial),
        with_scratch(where_the_status_is_gone_the_result_tells),
        with_scratch(a_relative_scratch_directory_that_begins_with_a_blank),
        with_scratch(a_program_that_swaps_two_buffers),
        with_scratch(a_program_that_swaps_two_pointers),
        with_scratch(another_middle),
        with_scratch(a_program_that_is_not_there),
        with_scratch(a_scratch_directory_that_cannot_be),
        with_scratch(options_that_make_no_sense),
        with_scratch(an_environment_variable_that_is_no_order),
        with_scratch(a_report_that_is_too_small_is_refused),
        with_scratch(each_allocation),
        with_scratch(a_trial_without_memory),
        with_scratch(each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
