/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* gethostname, gmtime_r */
/* Writes status.json and outcome.json (status_files.h): each function builds a whole file, and replaces the old one. */
#include "session/status_files.h"

#include "base/buffer.h"
#include "base/files.h"
#include "base/json_writer.h"
#include "session/session.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* JSON. */

static void put_error(hs__json_writer *out, const char *name, const hs_error *error)
{
    if (!error->code) {
        hs__json_put_null(out, name);
        return;
    }
    hs__json_open(out, name, '{');
    hs__json_put_text(out, "code", hs_code_name(error->code));
    hs__json_put_int(out, "number", error->code);
    hs__json_put_text(out, "message", error->message);
    hs__json_close(out, '}');
}

static void put_time(hs__json_writer *out, int64_t ns)
{
    char text[64];
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc = {.tm_year = 70, .tm_mday = 1};
    gmtime_r(&seconds, &utc);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(ns / 1000000 % 1000));
    hs__json_put_text(out, "time", text);
}

/* The last fields of each file: time, host and process. */
static void put_origin(hs__json_writer *out, const hs_env *env)
{
    char host[256] = "";
    int64_t now_ns = hs_env_realtime_ns(env);
    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    put_time(out, now_ns > 0 ? now_ns : 0);
    hs__json_put_text(out, "host", host);
    hs__json_put_int(out, "pid", getpid());
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

hs_code hs__write_status(const hs_env *env, const char *directory, const hs__status *now, bool synced, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs__json_writer out = {.put = hs__buffer_put, .to = &text, .lines = 1};
    bool is_known = now->save_secs > 0 && now->save_secs <= HS__LONGEST_SAVE_SECS;
    hs__json_open(&out, NULL, '{');
    hs__json_put_int(&out, "step", now->step);
    hs__json_put_int(&out, "last_durable_step", now->last_durable_step);
    hs__json_put_text(&out, "phase", now->phase);
    hs__json_put_thousandths(&out, "save_secs", is_known ? (int64_t)(now->save_secs * 1e3 + 0.999) : 0);
    put_origin(&out, env);
    hs__json_close(&out, '}');
    hs__buffer_append(&text, "\n", 1);
    hs_code code = put(env, directory, HS__STATUS_FILE, &text, synced, err);
    hs__buffer_free(&text);
    return code;
}

static void put_failures(hs__json_writer *out, const hs_raw_session *session)
{
    hs_hook_failure failure;
    hs__json_open(out, "failures", '[');
    for (size_t i = 0; hs_raw_session_failure(session, i, &failure); i++) {
        hs__json_open(out, NULL, '{');
        hs__json_put_text(out, "hook", failure.hook);
        hs__json_put_int(out, "failures", failure.failures);
        hs__json_put_int(out, "first_step", failure.first_step);
        hs__json_put_int(out, "last_step", failure.last_step);
        hs__json_put_bool(out, "muted", failure.muted);
        put_error(out, "last", &failure.last);
        hs__json_close(out, '}');
    }
    hs__json_close(out, ']');
}

hs_code hs__write_outcome(const hs_env *env, const char *directory, const hs_outcome *outcome,
                          const hs_raw_session *session, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs__json_writer out = {.put = hs__buffer_put, .to = &text, .lines = 1};
    hs__json_open(&out, NULL, '{');
    hs__json_put_text(&out, "reason", hs_reason_name(outcome->reason));
    hs__json_put_bool(&out, "interrupted", outcome->interrupted);
    hs__json_put_int(&out, "signal", outcome->signal);
    hs__json_put_int(&out, "step", outcome->step);
    hs__json_put_int(&out, "last_saved_step", outcome->last_saved_step);
    hs__json_put_text(&out, "hook", outcome->hook);
    put_error(&out, "error", &outcome->error);
    hs__json_put_int(&out, "cause_rank", outcome->cause_rank);
    hs__json_put_int(&out, "exit_code", hs_outcome_exit_code(outcome));
    put_failures(&out, session);
    put_origin(&out, env);
    hs__json_close(&out, '}');
    hs__buffer_append(&text, "\n", 1);
    hs_code code = put(env, directory, HS__OUTCOME_FILE, &text, true, err);
    hs__buffer_free(&text);
    return code;
}

void hs__record_abandonment_in(hs_raw_session *session, const char *directory)
{
    atomic_store(&session->owner->abandonment_dir, directory);
}
