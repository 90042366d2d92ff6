/* SPDX-License-Identifier: Apache-2.0 */
/* A program in a terminal, or with a pipe as its output: its messages, and its save after a signal. */
#define _GNU_SOURCE /* posix_openpt */
#include "support/clock.h"
#include "support/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    char *directory;
    int shows, ends[2]; /* the program's standard error, read here; the pipe that lets its step go on */
    pid_t child;
    char text[1 << 14]; /* that it has written */
    size_t used;
} program;

/* Its options: a step at which it waits for a byte, whether it saves, writes to its output, shows its progress and closes
 * its session. */
typedef struct {
    int64_t waits_at;
    bool saves, prints, shows_progress, leaves_open;
} habits;

enum { LAST_STEP = 6 };

static int train(const program *p, const habits *does)
{
    double x = 0;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_variable(graph, "x", HS_DOUBLE, HS_SCALAR, &x);
    hs_graph_global_step(graph, NULL, NULL);
    hs_session *session = hs_session_open(
        hs_graph_backend(graph),
        HS_SESSION_OPTIONS(.checkpoint_dir = does->saves ? p->directory : NULL, .signals = true,
                           .hooks = HS_HOOKS(hs_stop_at_step(.last_step = LAST_STEP),
                                             does->saves
                                                 ? hs_checkpoint_saver(.checkpoint_dir = p->directory, .every_n_steps = 2)
                                                 : (hs_hook){0},
                                             does->shows_progress ? hs_progress(.last_step = LAST_STEP) : (hs_hook){0})),
        NULL);
    for (int64_t step = 1; hs_step_begin(session); step++) {
        if (does->prints)
            printf("step %d\n", (int)step);
        if (step < LAST_STEP) /* the last line is flushed at the exit */
            fflush(stdout);
        if (step == does->waits_at) {
            fputs("in the step\n", stderr);
            struct pollfd end = {.fd = p->ends[0], .events = POLLIN};
            while (poll(&end, 1, 10) <= 0) /* the thread sanitizer holds a signal back until the call returns */
                continue;
        }
        x += 1;
        hs_step_end(session);
    }
    if (does->leaves_open)
        return 0;
    hs_outcome outcome = hs_session_close(session, NULL);
    hs_graph_free(graph);
    return hs_outcome_exit_code(&outcome);
}

static int setup(void **state)
{
    program *p = calloc(1, sizeof *p);
    p->directory = test_make_directory();
    atomic_store(clock_ahead_ns, 0);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    program *p = *state;
    if (p->shows >= 0)
        close(p->shows);
    close(p->ends[1]);
    test_remove_directory(p->directory);
    free(p);
    return 0;
}

/* Starts a program. is_terminal: in a new terminal. Otherwise stderr is a pipe, and stdout is a pipe without a reader. */
static void start(program *p, habits does, bool is_terminal)
{
    int errors[2] = {posix_openpt(O_RDWR | O_NOCTTY), -1}, outputs[2];
    assert_true(errors[0] >= 0 && grantpt(errors[0]) == 0 && unlockpt(errors[0]) == 0);
    if (!is_terminal) {
        close(errors[0]);
        assert_int_equal(pipe(errors), 0);
    }
    assert_true(pipe(p->ends) == 0 && pipe(outputs) == 0);
    fflush(NULL);
    p->child = fork();
    assert_true(p->child >= 0);
    if (!p->child) {
        setsid(); /* the terminal that a process without one opens becomes its own */
        int to = is_terminal ? open(ptsname(errors[0]), O_RDWR) : errors[1];
        dup2(to, STDERR_FILENO);
        dup2(is_terminal ? to : outputs[1], STDOUT_FILENO);
        close(errors[0]);
        close(outputs[0]);
        close(p->ends[1]);
        exit(train(p, &does));
    }
    p->shows = errors[0];
    if (!is_terminal)
        close(errors[1]);
    close(p->ends[0]);
    close(outputs[0]);
    close(outputs[1]);
}

/* Reads until the program has written this, or all it writes if `text` is NULL. */
static void await(program *p, const char *text)
{
    while (!text || !strstr(p->text, text)) {
        ssize_t n = read(p->shows, p->text + p->used, sizeof p->text - 1 - p->used);
        if (n <= 0 && !text)
            return;
        if (n <= 0)
            fail_msg("'%s' is not in '%s'", text, p->text);
        p->used += (size_t)n;
    }
}

static int exit_code(program *p)
{
    int status;
    assert_int_equal(waitpid(p->child, &status, 0), p->child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void type_ctrl_c(const program *p)
{
    assert_int_equal(write(p->shows, "\x03", 1), 1);
}

/* Moves the clock of the program: otherwise two signals count as one. */
static void let_it_be_later(void)
{
    atomic_store(clock_ahead_ns, 600000000);
}

static void let_the_step_end(const program *p)
{
    assert_int_equal(write(p->ends[1], "x", 1), 1);
}

static void the_first_ctrl_c_is_answered_before_the_step_ends(void **state)
{
    program *p = *state;
    start(p, (habits){.waits_at = 4, .saves = true}, true);
    await(p, "in the step");
    type_ctrl_c(p);
    await(p, "\nSIGINT: finishing step 4, then saving; Ctrl-C again to stop without saving\r\n");
    assert_lacks(p->text, "stopping after");
    let_the_step_end(p);
    await(p, "INFO: SIGINT: stopping after step 4");
    await(p, "start again to continue");
    assert_int_equal(exit_code(p), 75);
}

static void without_a_saver_it_does_not_speak_of_saving(void **state)
{
    program *p = *state;
    start(p, (habits){.waits_at = 4}, true);
    await(p, "in the step");
    type_ctrl_c(p);
    await(p, "\nSIGINT: finishing step 4, then stopping\r\n");
    let_it_be_later();
    type_ctrl_c(p);
    await(p, "\nSIGINT: stopping; Ctrl-C again to end the process\r\n");
    let_the_step_end(p);
    assert_int_equal(exit_code(p), 128 + SIGINT);
}

static void lines_of_the_log_begin_where_the_progress_stood(void **state)
{
    program *p = *state;
    start(p, (habits){.saves = true, .shows_progress = true}, true);
    await(p, NULL);
    assert_int_equal(exit_code(p), 0);
    assert_contains(p->text, "\rstep 1/6 16.7%");
    assert_contains(p->text, "  \rINFO: ");
    for (const char *at = p->text; (at = strstr(at, "INFO: ")); at++)
        assert_true(at == p->text || at[-1] == '\n' || at[-1] == '\r');
    assert_contains(p->text, "\rstep 6/6 100.0%");
    assert_contains(strstr(p->text, "step 6/6 100.0%"), "took 0:0");
}

static void each_ctrl_c_has_its_answer(void **state)
{
    program *p = *state;
    int status;
    start(p, (habits){.waits_at = 4, .saves = true}, true);
    await(p, "in the step");
    type_ctrl_c(p);
    await(p, "then saving; Ctrl-C again to stop without saving\r\n");
    let_it_be_later();
    type_ctrl_c(p);
    await(p, "\nSIGINT: stopping without saving; Ctrl-C again to end the process\r\n");
    type_ctrl_c(p);
    assert_int_equal(waitpid(p->child, &status, 0), p->child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static void a_log_in_a_pipe_has_only_the_line_after_the_step(void **state)
{
    program *p = *state;
    start(p, (habits){.waits_at = 4, .saves = true}, false);
    await(p, "in the step");
    kill(p->child, SIGINT);
    let_the_step_end(p);
    await(p, NULL);
    assert_contains(p->text, "INFO: SIGINT: stopping after step 4");
    assert_lacks(p->text, "finishing");
    assert_int_equal(exit_code(p), 75);
}

static void a_closed_terminal_stops_and_saves(void **state)
{
    program *p = *state;
    char *found;
    start(p, (habits){.waits_at = 4, .saves = true, .prints = true}, true);
    await(p, "in the step");
    close(p->shows); /* the kernel sends SIGHUP */
    p->shows = -1;
    let_the_step_end(p);
    assert_int_equal(exit_code(p), 75);
    assert_non_null(found = hs_checkpoint_latest(NULL, p->directory, NULL, NULL));
    assert_contains(found, "model.ckpt-4");
    hs_env_free(NULL, found);
}

static void an_output_without_a_reader_does_not_end_the_training(void **state)
{
    program *p = *state;
    start(p, (habits){.saves = true, .prints = true}, false);
    await(p, NULL);
    assert_int_equal(exit_code(p), 0);
    assert_contains(p->text, "saved");
}

static void an_exit_with_an_open_session_logs_a_warning(void **state)
{
    program *p = *state;
    start(p, (habits){.saves = true, .leaves_open = true}, false);
    await(p, NULL);
    assert_contains(p->text, "WARNING: the program ends without hs_session_close, which saves the last steps\n");
    assert_int_equal(exit_code(p), 0);
}

#define in_terminal(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_terminal(the_first_ctrl_c_is_answered_before_the_step_ends),
        in_terminal(without_a_saver_it_does_not_speak_of_saving),
        in_terminal(each_ctrl_c_has_its_answer),
        in_terminal(lines_of_the_log_begin_where_the_progress_stood),
        in_terminal(a_log_in_a_pipe_has_only_the_line_after_the_step),
        in_terminal(a_closed_terminal_stops_and_saves),
        in_terminal(an_output_without_a_reader_does_not_end_the_training),
        in_terminal(an_exit_with_an_open_session_logs_a_warning),
    };
    clock_ahead_ns = mmap(NULL, sizeof *clock_ahead_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(clock_ahead_ns != MAP_FAILED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
