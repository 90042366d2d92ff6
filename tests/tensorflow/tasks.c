/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorflow/tasks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT_IS_TAKEN = 3, ATTEMPTS = 20, PATIENCE_MS = 120000 };

int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* Runs the task's program in the child. */
static void execute(const cluster *c, int which, int input, int output)
{
    char number[16], steps[32];
    const char *program = getenv("HOOKSESS_CLUSTER_TASK");
    snprintf(number, sizeof number, "%d", which == PARAMETERS ? 0 : which);
    snprintf(steps, sizeof steps, "%lld", (long long)c->steps);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    if (program)
        execl(program, program, c->cluster, which == PARAMETERS ? "ps" : "worker", number, graph_path(c->graph),
              c->directory, steps, (char *)NULL);
    _exit(1);
}

static void spawn(cluster *c, int which)
{
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    fcntl(to[1], F_SETFD, FD_CLOEXEC); /* otherwise another task keeps this one's input open */
    fcntl(from[0], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        execute(c, which, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    c->tasks[which] = (task){.pid = pid, .to = to[1], .from = from[0]};
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads the next line. Returns false at the end of the output. */
static bool read_line(task *t, int64_t deadline_ms)
{
    size_t used = 0;
    for (;;) {
        struct pollfd readable = {.fd = t->from, .events = POLLIN};
        int64_t remaining = deadline_ms - now_ms();
        if (remaining <= 0 || poll(&readable, 1, (int)remaining) == 0)
            fail_msg("a task says nothing any more; its last line is '%s'", t->line);
        if (used + 1 >= sizeof t->line || read(t->from, t->line + used, 1) != 1)
            return false;
        if (t->line[used] == '\n') {
            t->line[used] = '\0';
            return true;
        }
        used++;
    }
}

int64_t task_says(cluster *c, int which, const char *what)
{
    task *t = &c->tasks[which];
    int64_t deadline_ms = now_ms() + PATIENCE_MS;
    do
        if (!read_line(t, deadline_ms))
            fail_msg("task %d ended before it said '%s'", which, what);
    while (strncmp(t->line, what, strlen(what)) != 0);
    return strtoll(strrchr(t->line, ' '), NULL, 10);
}

int task_wait(cluster *c, int which)
{
    task *t = &c->tasks[which];
    int status = 0;
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    close(t->from);
    if (t->to >= 0)
        close(t->to);
    t->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void task_kill(cluster *c, int which)
{
    kill(c->tasks[which].pid, SIGKILL);
    assert_int_equal(task_wait(c, which), -SIGKILL);
}

void task_silence(cluster *c, int which)
{
    int status = 0;
    kill(c->tasks[which].pid, SIGSTOP);
    assert_int_equal(waitpid(c->tasks[which].pid, &status, WUNTRACED), c->tasks[which].pid); /* all of its threads */
    assert_true(WIFSTOPPED(status));
}

/* Returns false if the port is in use. */
static bool try_start(cluster *c, int which)
{
    spawn(c, which);
    if (read_line(&c->tasks[which], now_ms() + PATIENCE_MS))
        return true;
    assert_int_equal(task_wait(c, which), PORT_IS_TAKEN);
    return false;
}

void task_start(cluster *c, int which)
{
    for (int i = 0; i < ATTEMPTS; i++)
        if (try_start(c, which))
            return;
    fail_msg("the port of task %d is taken", which);
}

static void choose_ports(cluster *c)
{
    snprintf(c->cluster, sizeof c->cluster, "ps=127.0.0.1:%d;worker=127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", free_port(),
             free_port(), free_port(), free_port());
}

void cluster_plan(cluster *c, const char *graph, int64_t steps)
{
    *c = (cluster){.graph = graph, .steps = steps, .directory = make_directory()};
    choose_ports(c);
}

void cluster_start(cluster *c, const char *graph, int64_t steps)
{
    cluster_plan(c, graph, steps);
    bool up = false;
    for (int i = 0; !up && i < ATTEMPTS; i++) {
        for (int k = 0; k < N_TASKS; k++)
            if (c->tasks[k].pid)
                task_kill(c, k);
        choose_ports(c);
        up = true;
        for (int k = N_TASKS; up && k-- > 0;) /* the workers wait for the chief */
            up = try_start(c, k);
    }
    assert_true(up);
    for (int k = 0; k < PARAMETERS; k++)
        task_says(c, k, "open");
}

void cluster_end(cluster *c)
{
    for (int k = 0; k < N_TASKS; k++)
        if (c->tasks[k].pid)
            task_kill(c, k);
    remove_directory(c->directory);
}

void task_request_step(cluster *c, int which)
{
    assert_int_equal(write(c->tasks[which].to, "s", 1), 1);
}

int64_t task_step(cluster *c, int which)
{
    task_request_step(c, which);
    return task_says(c, which, "step");
}

void task_finish(cluster *c, int which)
{
    close(c->tasks[which].to);
    c->tasks[which].to = -1;
}
