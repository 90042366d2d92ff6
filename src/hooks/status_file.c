/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* gethostname, gmtime_r */
#include "hooks/status_file.h"

#include <hooksess/checkpoint.h>

#include "base/buffer.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATUS  "status.json"
#define OUTCOME "outcome.json"

enum { MOST_BYTES = 1 << 20 };
static const double LONGEST_SAVE = 86400; /* what is more is no measurement */

/* JSON. */

static void put_text(hs__buffer *out, const char *text)
{
    size_t left = strlen(text);
    hs__buffer_append(out, "\"", 1);
    for (size_t bytes; left; text += bytes, left -= bytes) {
        unsigned char c = (unsigned char)*text;
        bytes = hs__utf8_length(text, left);
        if (bytes && c >= 0x20 && c != 0x7f && c != '"' && c != '\\')
            hs__buffer_append(out, text, bytes);
        else
            hs__buffer_text(out, "\\u%04x", bytes ? (unsigned)c : 0xfffdU);
        bytes += !bytes;
    }
    hs__buffer_append(out, "\"", 1);
}

static void put_named(hs__buffer *out, const char *name, const char *text)
{
    hs__buffer_text(out, "\"%s\": ", name);
    put_text(out, text);
    hs__buffer_append(out, ",\n ", 3);
}

static void put_error(hs__buffer *out, const hs_error *error)
{
    if (!error->code) {
        hs__buffer_text(out, "null");
        return;
    }
    hs__buffer_text(out, "{\"code\": \"%s\", \"number\": %d, \"message\": ", hs_code_name(error->code), error->code);
    put_text(out, error->message);
    hs__buffer_append(out, "}", 1);
}

static void put_time(hs__buffer *out, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc = {.tm_year = 70, .tm_mday = 1};
    gmtime_r(&seconds, &utc);
    hs__buffer_text(out, "\"time\": \"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\",\n ", utc.tm_year + 1900, utc.tm_mon + 1,
                    utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(ns / 1000000 % 1000));
}

/* When and who; the last of a file. */
static void put_origin(hs__buffer *out, const hs_env *env)
{
    char host[256] = "";
    int64_t now_ns = hs_env_realtime_ns(env);
    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    put_time(out, now_ns > 0 ? now_ns : 0);
    put_named(out, "host", host);
    hs__buffer_text(out, "\"pid\": %lld}\n", (long long)getpid());
}

/* Thousandths, whatever the locale writes between a number's parts. */
static void put_secs(hs__buffer *out, const char *name, double secs)
{
    long long ms = secs > 0 && secs <= LONGEST_SAVE ? (long long)(secs * 1e3 + 0.999) : 0;
    hs__buffer_text(out, "\"%s\": %lld.%03lld,\n ", name, ms / 1000, ms % 1000);
}

/* Files. */

static hs_code put(const hs_env *env, const char *directory, const char *name, const hs__buffer *text, bool synced,
                   hs_error *err)
{
    hs_code code = hs__buffer_check(text, name, err);
    if (code || (code = hs__make_directories(env, directory, err)))
        return code;
    char *path = hs__path_join(env, directory, name);
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    code = hs__file_replace(env, path, text->data, text->size, synced, err);
    hs__free(env, path);
    return code;
}

hs_code hs__status_write(const hs_env *env, const char *directory, const hs__run_status *status, bool synced, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs__buffer_text(&text, "{\"step\": %lld,\n \"last_durable_step\": %lld,\n \"phase\": \"%s\",\n ",
                    (long long)status->step, (long long)status->last_durable_step, status->phase);
    put_secs(&text, "save_secs", status->save_secs);
    put_origin(&text, env);
    hs_code code = put(env, directory, STATUS, &text, synced, err);
    hs__buffer_free(&text);
    return code;
}

static void put_failures(hs__buffer *out, const hs_raw_session *session)
{
    hs_hook_failure failure;
    hs__buffer_text(out, "\"failures\": [");
    for (size_t i = 0; hs_raw_session_failure(session, i, &failure); i++) {
        hs__buffer_text(out, "%s{\"hook\": ", i ? ",\n  " : "\n  ");
        put_text(out, failure.hook);
        hs__buffer_text(out, ", \"failures\": %lld, \"first_step\": %lld, \"last_step\": %lld, \"muted\": %s, \"last\": ",
                        (long long)failure.failures, (long long)failure.first_step, (long long)failure.last_step,
                        failure.muted ? "true" : "false");
        put_error(out, &failure.last);
        hs__buffer_append(out, "}", 1);
    }
    hs__buffer_text(out, "],\n ");
}

hs_code hs__outcome_write(const hs_env *env, const char *directory, const hs_outcome *outcome,
                          const hs_raw_session *session, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs__buffer_append(&text, "{", 1);
    put_named(&text, "reason", hs_reason_name(outcome->reason));
    hs__buffer_text(&text, "\"interrupted\": %s,\n \"signal\": %d,\n \"step\": %lld,\n \"last_saved_step\": %lld,\n ",
                    outcome->interrupted ? "true" : "false", (int)outcome->signal, (long long)outcome->step,
                    (long long)outcome->last_saved_step);
    put_named(&text, "hook", outcome->hook);
    hs__buffer_text(&text, "\"error\": ");
    put_error(&text, &outcome->error);
    hs__buffer_text(&text, ",\n \"exit_code\": %d,\n ", hs_outcome_exit_code(outcome));
    put_failures(&text, session);
    put_origin(&text, env);
    hs_code code = put(env, directory, OUTCOME, &text, true, err);
    hs__buffer_free(&text);
    return code;
}

void hs__outcome_remove(const hs_env *env, const char *directory)
{
    char *path = hs__path_join(env, directory, OUTCOME);
    if (path)
        hs__file_remove(env, path);
    else
        hs_log(env, HS_LOG_WARNING, "cannot delete outcome.json of an earlier run: no memory for a path");
    hs__free(env, path);
}

static hs_code parse_save_secs(const char *text, size_t bytes, double *secs, hs_error *err)
{
    json_error_t cause;
    json_t *root = hs__json_load(text, bytes, 0, &cause);
    if (!root && hs__json_no_memory(&cause))
        return hs__no_memory(err, bytes, "a status");
    double found = json_number_value(json_object_get(root, "save_secs"));
    if (found > 0 && found <= LONGEST_SAVE)
        *secs = found;
    json_decref(root);
    return HS_OK;
}

double hs__status_save_secs(const hs_env *env, const char *directory)
{
    char *text = NULL, *path = hs__path_join(env, directory, STATUS);
    size_t bytes = 0;
    double secs = 0;
    hs_error error = {0};
    hs_code code = path ? hs__file_contents(env, path, MOST_BYTES, &text, &bytes, &error)
                        : hs__no_memory(&error, strlen(directory), "a path");
    if (!code)
        code = parse_save_secs(text, bytes, &secs, &error);
    if (code == HS_RESOURCE_EXHAUSTED)
        hs_log(env, HS_LOG_WARNING, "cannot read status.json of an earlier run: %s", error.message);
    hs__free(env, text);
    hs__free(env, path);
    return secs;
}

bool hs__status_directory_exists(const hs_env *env, const char *directory)
{
    hs_file_stat found;
    return hs__stat(env, directory, &found, NULL) == HS_OK && found.is_directory;
}

/* Whoever saves holds the directory. What cannot be found out, or is free, is nobody's. */
bool hs__status_is_others(const hs_env *env, const char *directory)
{
    void *lock = NULL;
    char *path = hs__path_join(env, directory, HS_CHECKPOINT_LOCK);
    hs_code code = path && hs__file_exists(env, path) ? hs__lock(env, path, &lock, NULL) : HS_OK;
    hs__unlock(env, lock);
    hs__free(env, path);
    return code == HS_FAILED_PRECONDITION;
}
