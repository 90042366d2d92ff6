/* SPDX-License-Identifier: Apache-2.0 */
/* The process that a trial is made in: started, and waited for. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "drivers/resume.h"

#include "base/error.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The environment with the order in it. The strings are borrowed. */
static char **environment_with(const hs_env *env, char *order)
{
    size_t n = 0, length = strlen(HS__RESUME_ORDER "=");
    while (environ && environ[n])
        n++;
    char **made = hs__alloc(env, n + 2, sizeof *made);
    if (!made)
        return NULL;
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], HS__RESUME_ORDER "=", length) != 0)
            made[used++] = environ[i];
    made[used] = order;
    return made;
}

/* The file to be started; a relative path is made whole, a bare name is left to be looked for. To be freed with free. */
static hs_code find_program(const hs_verify_resume_options *options, char **program, hs_error *err)
{
    static const char self[] = "/proc/self/exe";
    const char *named = options->program ? options->program : access(self, X_OK) == 0 ? self : options->argv[0];
    bool relative = *named != '/' && strchr(named, '/');
    *program = relative ? realpath(named, NULL) : strdup(named);
    return *program ? HS_OK : hs_error_set_errno(err, errno, "starting '%s' anew", named);
}

/* A trial begins as a program that a shell starts, whatever this process does with its signals. Returns an errno. */
static int set_signals(posix_spawnattr_t *attributes)
{
    static const int usual[] = {SIGCHLD, SIGPIPE, SIGINT, SIGTERM};
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        sigaddset(&defaults, usual[i]);
    int result = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!result)
        result = posix_spawnattr_setsigmask(attributes, &none);
    return result ? result : posix_spawnattr_setsigdefault(attributes, &defaults);
}

static int spawn(const char *program, char *const *argv, char **environment, int mark, pid_t *process)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int result = posix_spawnattr_init(&attributes);
    if (result)
        return result;
    if (!(result = posix_spawn_file_actions_init(&actions))) {
        if (!(result = set_signals(&attributes)) &&
            (!hs__resume_mark_fits() || !(result = posix_spawn_file_actions_adddup2(&actions, mark, HS__RESUME_MARK))))
            result = posix_spawnp(process, program, &actions, &attributes, argv, environment);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return result;
}

static hs_code start(const hs_verify_resume_options *options, const hs_env *env, char *order, int mark, pid_t *process,
                     hs_error *err)
{
    char *program, **environment;
    hs_code code = find_program(options, &program, err);
    if (code)
        return code;
    if (!(environment = environment_with(env, order))) {
        code = hs__no_memory(err, strlen(order), "an environment");
    } else {
        int result = spawn(program, options->argv, environment, mark, process);
        code = result ? hs_error_set_errno(err, result, "starting '%s' anew", program) : HS_OK;
    }
    hs__free(env, environment);
    free(program);
    return code;
}

/* Where SIGCHLD is ignored, or another thread waits for whatever ends, the status is gone when the process is. */
static hs_code wait_for(pid_t process, hs__resume_end *end, hs_error *err)
{
    pid_t ended;
    do
        ended = waitpid(process, &end->status, 0);
    while (ended < 0 && errno == EINTR);
    end->known = ended >= 0;
    return ended < 0 && errno != ECHILD ? hs_error_set_errno(err, errno, "waiting for the trial") : HS_OK;
}

hs_code hs__resume_run(const hs_verify_resume_options *options, const hs_env *env, char *order, int mark,
                       hs__resume_end *end, hs_error *err)
{
    pid_t process;
    hs_code code = start(options, env, order, mark, &process, err);
    return code ? code : wait_for(process, end, err);
}
