/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a trial: passes it to the library in HOOKSESS_RESUME_TRIAL, starts the program, waits, and reads the result. */
#define _POSIX_C_SOURCE 200809L
#include "trial_run.h"

#include "memory.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

char *trial_file(const trials *t, const char *name, const char *ending)
{
    return must_format("%s/%s.%s", t->directory, name, ending);
}

/* Returns 0 or an errno value. */
static int start_program(char **program, const char *log, pid_t *process)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t defaults;
    int result = posix_spawnattr_init(&attributes);
    if (result)
        return result;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* the tool ignores it */
    if (!(result = posix_spawn_file_actions_init(&actions))) {
        if (!(result = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF)) &&
            !(result = posix_spawnattr_setsigdefault(&attributes, &defaults)) &&
            !(result = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)) &&
            !(result = posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0666)) &&
            !(result = posix_spawn_file_actions_adddup2(&actions, 1, 2)))
            result = posix_spawnp(process, program[0], &actions, &attributes, program, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return result;
}

/* Prints the last lines of the program's output. */
static void say_last_lines(const char *log)
{
    enum { BYTES = 2048, LINES = 5 };
    char text[BYTES + 1];
    FILE *file = fopen(log, "re");
    if (!file)
        return;
    fseek(file, -BYTES, SEEK_END); /* fails for a shorter file, which is read from its start */
    size_t length = fread(text, 1, BYTES, file);
    fclose(file);
    while (length && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    char *at = text + length;
    for (int n = 0; at > text; at--)
        if (at[-1] == '\n' && ++n == LINES)
            break;
    for (char *word = strtok(at, "\n"); word; word = strtok(NULL, "\n"))
        say("    %s", word);
}

/* Prints why a trial has no result. */
static void say_why(const trials *t, const trial *one, int status)
{
    char *record = trial_file(t, one->name, "record");
    bool opened_a_session = access(record, F_OK) == 0;
    free(record);
    if (WIFSIGNALED(status))
        say("%s: '%s' was killed by signal %d (%s)", one->what, t->program[0], WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    else if (opened_a_session)
        say("%s: '%s' ended with status %d before step %lld", one->what, t->program[0], WEXITSTATUS(status),
            (long long)one->last);
    else
        say("%s: '%s' ended with status %d and did not open a training session (hs_training_session_open)", one->what,
            t->program[0], WEXITSTATUS(status));
}

/* Reads the result of a trial. False: it failed or has no result; the error is printed. */
static bool read_result(const trials *t, trial *one, int status)
{
    char *path = trial_file(t, one->name, "result"), text[2048];
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    int code, at = 0;
    long long step;
    if (file)
        fclose(file);
    free(path);
    text[length] = '\0';
    if (sscanf(text, "%d %lld %n", &code, &step, &at) < 2 || !at) {
        say_why(t, one, status);
        return false;
    }
    if (code)
        say("%s: %s", one->what, text + at);
    else
        one->last = step;
    return !code;
}

bool run_trial(const trials *t, trial *one)
{
    char *log = trial_file(t, one->name, "log");
    pid_t process, ended = -1;
    int status = 0;
    char *variable = must_format("%s %lld %lld %s %s %s", one->name, (long long)one->first, (long long)one->last,
                                 one->stops ? "stop" : "kill", t->fetches ? t->fetches : "-", t->directory);
    setenv("HOOKSESS_RESUME_TRIAL", variable, 1);
    free(variable);
    int result = start_program(t->program, log, &process);
    if (result) {
        say("cannot start '%s': %s", t->program[0], strerror(result));
    } else {
        do
            ended = waitpid(process, &status, 0);
        while (ended < 0 && errno == EINTR);
        if (ended < 0)
            say("cannot wait for '%s': %s", t->program[0], strerror(errno));
    }
    bool made = ended >= 0 && read_result(t, one, status);
    if (ended >= 0 && !made)
        say_last_lines(log);
    free(log);
    return made;
}
