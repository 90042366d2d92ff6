/* SPDX-License-Identifier: Apache-2.0 */
/* The trial that the environment variable requests. hs__trial_begin parses the variable, opens the record and redirects the
 * session's files to the trial's directory. hs__trial_end writes the result and kills the process. */
#ifdef __linux__
#define _GNU_SOURCE /* secure_getenv */
#endif
#include "drivers/resume_trial.h"

#include "base/redirect_posix.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs__trial {
    hs_env env; /* the session's, with the system's files */
    char *name; /* begins the copy of the variable's text, into which fetch_list and directory point */
    char *fetch_list;
    const char *directory;
    const char **fetches; /* ended by NULL */
    char *checkpoint_dir, *summary_dir, *record, *result, *prefix;
    hs__recorder recorder;
};

static const char *variable(void)
{
#ifdef __linux__
    return secure_getenv(HS__TRIAL_VARIABLE); /* NULL in a setuid program: its caller must not redirect its files */
#else
    return getenv(HS__TRIAL_VARIABLE);
#endif
}

/* Terminates the word at *at and moves *at behind it. Returns NULL if no blank follows the word. */
static char *next_word(char **at)
{
    char *word = *at, *end = strchr(word, ' ');
    if (!end || end == word)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return word;
}

static bool read_step(const char *word, int64_t *step)
{
    char *end;
    *step = word ? strtoll(word, &end, 10) : -1;
    return *step >= 0 && !*end;
}

/* Parses the variable's text, in place. */
static bool parse(hs__trial *t, char *text)
{
    hs__recorder *r = &t->recorder;
    t->name = next_word(&text);
    if (!t->name || strchr(t->name, '/') || !read_step(next_word(&text), &r->first) ||
        !read_step(next_word(&text), &r->last))
        return false;
    const char *end = next_word(&text);
    r->stops = end && strcmp(end, "stop") == 0;
    if (!end || (!r->stops && strcmp(end, "kill") != 0) || !(t->fetch_list = next_word(&text)))
        return false;
    t->directory = text;
    return r->first < r->last && *t->directory == '/';
}

static hs_code split_fetches(hs__trial *t, hs_error *err)
{
    size_t n = 2, used = 0;
    for (const char *at = t->fetch_list; *at; at++)
        n += *at == ',';
    t->fetches = hs__alloc(&t->env, n, sizeof *t->fetches);
    if (!t->fetches)
        return hs__no_memory(err, n * sizeof *t->fetches, "names");
    if (strcmp(t->fetch_list, "-") == 0)
        return HS_OK;
    for (char *at = t->fetch_list; at; at = strchr(at, ',')) {
        if (*at == ',')
            *at++ = '\0';
        t->fetches[used++] = at;
    }
    return HS_OK;
}

static bool is_whole(const hs__trial *t)
{
    return strcmp(t->name, "whole") == 0;
}

static hs_code make_paths(hs__trial *t, hs_error *err)
{
    const hs_env *env = &t->env;
    const char *run = is_whole(t) ? "whole" : "run";
    t->checkpoint_dir = hs__format(env, "%s/%s", t->directory, run);
    t->summary_dir = hs__format(env, "%s/%s.summaries", t->directory, run);
    t->record = hs__format(env, "%s/%s.record", t->directory, t->name);
    t->result = hs__format(env, "%s/%s.result", t->directory, t->name);
    t->prefix = hs__format(env, "%s/%s/model.ckpt", t->directory, run);
    if (!t->checkpoint_dir || !t->summary_dir || !t->record || !t->result || !t->prefix)
        return hs__no_memory(err, strlen(t->directory), "a path");
    return HS_OK;
}

static void free_trial(hs__trial *t, char *text)
{
    const hs_env env = t->env;
    char *const blocks[] = {t->checkpoint_dir, t->summary_dir, t->record, t->result, t->prefix, text};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hs__free(&env, blocks[i]);
    hs__free(&env, t->fetches);
    hs__free(&env, t);
}

/* Closes the record. If writing the result fails, the waiting command reports that it is missing. */
static void write_result(hs__trial *t, const hs_error *error)
{
    char text[HS_MESSAGE_SIZE + 64];
    hs_error late = {0};
    if (hs__recorder_close(&t->recorder, &late) && !error->code)
        error = &late;
    snprintf(text, sizeof text, "%d %lld %s", error->code, (long long)t->recorder.recorded,
             error->code ? error->message : "");
    hs__file_replace(&t->env, t->result, text, strlen(text), false, NULL);
}

/* Refuses sessions that cannot be tried. */
static hs_code check_session(const hs_training_options *options, const hs_env *env, hs_error *err)
{
    if (options->is_worker)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the first training session is a worker's, but only the chief resumes");
    if (options->group)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the first training session is one of several processes, which cannot be tried together");
    if (!options->checkpoint_dir || !*options->checkpoint_dir)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the first training session has no checkpoint_dir, so it cannot resume");
    if (env->files.ops != &hs__posix_files)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the program has its own files (hs_env.files), which verify-resume cannot redirect");
    return HS_OK;
}

static hs_code open_record(hs__trial *t, hs_error *err)
{
    hs__recorder *r = &t->recorder;
    r->env = &t->env;
    r->fetches = t->fetches;
    r->end = hs__trial_end;
    r->user = t;
    r->prefix = is_whole(t) ? NULL : t->prefix;
    hs_code code = hs__recorder_open(r, t->record, err);
    if (code == HS_ALREADY_EXISTS)
        hs_error_set(err, HS_FAILED_PRECONDITION,
                     "verify-resume records only one training session, but the program opened another one (%s exists)",
                     t->record);
    return code ? err->code : HS_OK;
}

/* Redirects all paths in the session's directories to the trial's, for every hook and saver. Also sets the directories in
 * the options, for a backend that writes files itself. */
static hs_code move_files(const hs__trial *t, hs_training_options *options, hs_error *err)
{
    const char *summary_dir = options->summary_dir;
    hs_code code = hs__redirect_files(options->checkpoint_dir, t->checkpoint_dir, t->directory, err);
    options->checkpoint_dir = t->checkpoint_dir;
    if (!code && summary_dir && *summary_dir) {
        code = hs__redirect_files(summary_dir, t->summary_dir, t->directory, err);
        options->summary_dir = t->summary_dir;
    }
    if (options->restore == HS_RESTORE_REQUIRE && !t->recorder.first)
        options->restore = HS_RESTORE_IF_PRESENT; /* the directory is empty */
    return code;
}

hs_code hs__trial_begin(hs__trial **trial, hs_training_options *options, const hs_env *given, hs_error *err)
{
    const char *request = variable();
    hs_env env;
    *trial = NULL;
    if (!request)
        return HS_OK;
    hs_code code = hs__env_copy(&env, given, err);
    if (code)
        return code;
    hs__trial *t = hs__alloc(&env, 1, sizeof *t);
    char *text = hs__strdup(&env, request);
    if (!t || !text) {
        hs__free(&env, t);
        hs__free(&env, text);
        return hs__no_memory(err, strlen(request), "a trial");
    }
    t->env = env;
    t->env.files = hs_env_default()->files;
    if (!parse(t, text))
        code = hs_error_set(err, HS_INVALID_ARGUMENT,
                            "the environment variable " HS__TRIAL_VARIABLE
                            " is '%s', but only 'hooksess verify-resume' sets it; unset it",
                            request);
    if (!code && !(code = split_fetches(t, err)) && !(code = make_paths(t, err)) && !(code = open_record(t, err)) &&
        ((code = check_session(options, &env, err)) || (code = move_files(t, options, err))))
        write_result(t, err);
    if (code)
        free_trial(t, text);
    else
        *trial = t;
    return code;
}

hs_hook hs__trial_hook(hs__trial *trial)
{
    return hs__recorder_hook(&trial->recorder);
}

void hs__trial_end(void *trial, const hs_error *error)
{
    write_result(trial, error);
    raise(SIGKILL);
}
