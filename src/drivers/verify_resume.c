/* SPDX-License-Identifier: Apache-2.0 */
/* The program as it was started: makes the trials, one after the other, and compares them. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "drivers/resume.h"

#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What came of a trial. */

static hs_code made_none(const hs__resume_end *end, int mark, hs_error *err)
{
    char status[48] = "a status that is not known";
    if (hs__resume_mark_is_lost(mark))
        return hs_error_set(
            err, HS_FAILED_PRECONDITION,
            "the environment did not reach the trial: what is started must be given the variable " HS__RESUME_ORDER
            ", and must leave it as it is until hs_verify_resume is called");
    if (end->known)
        snprintf(status, sizeof status, "status %d", WEXITSTATUS(end->status));
    return hs_error_set(err, HS_ABORTED,
                        "it ended by itself, with %s, and made no trial; started with the same arguments, the program "
                        "must come to hs_verify_resume again, and leave it to end",
                        status);
}

/* What the trial says of itself; what it does not say, its status does. */
static hs_code read_result(const hs_env *env, const char *path, const hs__resume_end *end, int mark, int64_t *middles,
                           hs_error *err)
{
    char *text;
    size_t bytes;
    int result, at = 0;
    long long first, second;
    if (end->known && WIFSIGNALED(end->status))
        return hs_error_set(err, HS_ABORTED, "it was killed by signal %d (%s)", WTERMSIG(end->status),
                            strsignal(WTERMSIG(end->status)));
    hs_code code = hs__file_contents(env, path, SIZE_MAX, &text, &bytes, err);
    if (code)
        return code == HS_NOT_FOUND ? made_none(end, mark, err) : code;
    if (sscanf(text, "%d %lld %lld %n", &result, &first, &second, &at) != 3 || !at)
        code = made_none(end, mark, err);
    else if (result)
        code = hs_error_set(err, result, "%s", text + at);
    else if (end->known && WEXITSTATUS(end->status))
        code = hs_error_set(err, HS_ABORTED, "it went well, and ended with status %d", WEXITSTATUS(end->status));
    else
        middles[0] = first, middles[1] = second;
    hs__free(env, text);
    return code;
}

/* Where it all is. */
typedef struct {
    char *directory; /* absolute */
    int mark;        /* a descriptor */
} place;

/* Makes one of the trials, which is given the step `middle`. `saved` gets the steps of the checkpoints that it has saved.
 */
static hs_code make_trial(const hs_verify_resume_options *options, const hs_env *env, const place *at, int trial,
                          int64_t middle, int64_t saved[HS__MIDDLES], hs_error *err)
{
    const char *name = hs__resume_name(trial), *directory = at->directory;
    char *order = hs__format(env, HS__RESUME_ORDER "=%s %lld %s", name, (long long)middle, directory);
    char *model = hs__format(env, "%s/%s", directory, name), *result = hs__format(env, "%s/%s.result", directory, name);
    hs_code code = order && model && result ? HS_OK : hs__no_memory(err, strlen(directory), "a path");
    hs__resume_end end;
    if (!code && !(code = hs__make_directory(env, model, err)) &&
        !(code = hs__resume_run(options, env, order, at->mark, &end, err)))
        code = read_result(env, result, &end, at->mark, saved, err);
    if (code)
        hs_error_prefix(err, trial != HS__TRIAL_WHOLE ? "the trial that resumes" : "the trial that goes through");
    hs__free(env, order);
    hs__free(env, model);
    hs__free(env, result);
    return code;
}

/* The directory of it all. */

/* A new one in `base`. *directory is absolute: a trial may be somewhere else. */
static hs_code make_in(const hs_env *env, const char *base, char **directory, hs_error *err)
{
    char *pattern = hs__path_join(env, base, "verify-resume-XXXXXX"), *whole = NULL;
    hs_code code = pattern ? HS_OK : hs__no_memory(err, strlen(base), "a path");
    if (!code && (!mkdtemp(pattern) || !(whole = realpath(pattern, NULL))))
        code = hs_error_set_errno(err, errno, "making a directory in '%s'", base);
    if (!code && !(*directory = hs__strdup(env, whole))) {
        code = hs__no_memory(err, strlen(whole), "a path");
        rmdir(whole);
    }
    free(whole);
    hs__free(env, pattern);
    return code;
}

static void remove_all(const hs_env *env, const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *inside = hs__path_join(env, path, entry->d_name);
        if (!inside)
            hs_log(env, HS_LOG_WARNING, "%s/%s: cannot be removed: no memory for a path", path, entry->d_name);
        else if (unlink(inside) != 0 && (errno == EISDIR || errno == EPERM))
            remove_all(env, inside);
        hs__free(env, inside);
    }
    if (directory)
        closedir(directory);
    if (rmdir(path) != 0)
        hs_log(env, HS_LOG_WARNING, "%s: cannot be removed: %s", path, strerror(errno));
}

static hs_code make_place(const hs_verify_resume_options *options, const hs_env *env, place *at, hs_error *err)
{
    const char *base = options->scratch_dir, *temporary = getenv("TMPDIR");
    hs_code code = base ? hs__make_directories(env, base, err) : HS_OK;
    if (!base)
        base = temporary && *temporary ? temporary : "/tmp";
    if (code || (code = make_in(env, base, &at->directory, err)))
        return code;
    if ((code = hs__resume_mark_make(env, at->directory, &at->mark, err))) {
        remove_all(env, at->directory);
        hs__free(env, at->directory);
    }
    return code;
}

static hs_code compare_trials(const hs_verify_resume_options *options, const hs_env *env, const char *directory, int trial,
                              hs_resume_report *report, hs_error *err)
{
    char *whole = hs__format(env, "%s/%s.record", directory, hs__resume_name(HS__TRIAL_WHOLE));
    char *resumed = hs__format(env, "%s/%s.record", directory, hs__resume_name(trial));
    hs_code code = whole && resumed ? hs__resume_compare(env, whole, resumed, options->ignore, report, err)
                                    : hs__no_memory(err, strlen(directory), "a path");
    hs__free(env, whole);
    hs__free(env, resumed);
    return code;
}

/* Resumes from each checkpoint of the whole run. The report is that of the first, or of the one that differs. */
static hs_code verify_in(const hs_verify_resume_options *options, const hs_env *env, const place *at,
                         hs_resume_report *report, hs_error *err)
{
    int64_t middles[HS__MIDDLES], none[HS__MIDDLES];
    hs_code code = make_trial(options, env, at, HS__TRIAL_WHOLE, report->middle, middles, err);
    const int n = options->middle ? 1 : HS__MIDDLES;
    for (int i = 0; !code && i < n && middles[i] >= 0; i++) {
        hs_resume_report found = {.middle = middles[i], .step = -1};
        int trial = HS__TRIAL_RESUMED + i;
        if (!(code = make_trial(options, env, at, trial, middles[i], none, err)))
            code = compare_trials(options, env, at->directory, trial, &found, err);
        if (code || i == 0)
            *report = found;
    }
    return code;
}

static hs_code verify(const hs_verify_resume_options *options, const hs_env *env, hs_resume_report *report, hs_error *err)
{
    place at;
    hs_code code = make_place(options, env, &at, err);
    if (code)
        return code;
    code = verify_in(options, env, &at, report, err);
    close(at.mark);
    if (code)
        hs_error_prefix(err, "verifying a resume (in '%s')", at.directory);
    else
        remove_all(env, at.directory);
    hs__free(env, at.directory);
    return code;
}

/* The call. */

static hs_code take_options(hs_verify_resume_options *options, const hs_verify_resume_options *given, hs_error *err)
{
    hs_code code = HS_STRUCT_TAKE(hs_verify_resume_options, env, options, given, err);
    if (code)
        return code;
    if (!options->argv || !options->argv[0] || !options->train)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_verify_resume_options.%s is NULL",
                            !options->argv    ? "argv"
                            : !options->train ? "train"
                                              : "argv[0]");
    if (options->steps < 2)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_verify_resume_options.steps is %lld; it must be at least 2",
                            (long long)options->steps);
    if (options->middle < 0 || options->middle >= options->steps)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_verify_resume_options.middle is %lld; it must be below %lld",
                            (long long)options->middle, (long long)options->steps);
    return HS_OK;
}

static hs_code check_report(const hs_resume_report *report, hs_error *err)
{
    const size_t first_size = offsetof(hs_resume_report, fetch) + sizeof report->fetch;
    if (!report || report->size >= first_size)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hs_resume_report.size is %zu, and at least %zu: initialize it by HS_INIT(hs_resume_report)",
                        report->size, first_size);
}

/* As much of it as both sides know. */
static void give_report(hs_resume_report *to, hs_resume_report *from)
{
    if (!to)
        return;
    from->size = to->size;
    memcpy(to, from, to->size < sizeof *from ? to->size : sizeof *from);
}

hs_code hs_verify_resume(const hs_verify_resume_options *given, hs_resume_report *out, hs_error *err)
{
    hs_verify_resume_options options;
    hs_resume_report report = {.step = -1};
    hs_env env;
    const char *order = getenv(HS__RESUME_ORDER);
    hs_code code;
    if ((code = take_options(&options, given, err)) || (code = check_report(out, err)) ||
        (code = hs__env_take(&env, options.env, err)))
        return code;
    if (order)
        return hs__resume_trial(&options, &env, order, err);
    if ((code = hs__resume_mark_check(err)))
        return code;
    report.middle = options.middle ? options.middle : options.steps / 2;
    code = verify(&options, &env, &report, err);
    give_report(out, &report);
    if (!code)
        hs_error_clear(err);
    return code;
}
