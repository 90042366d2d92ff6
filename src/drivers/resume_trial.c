/* SPDX-License-Identifier: Apache-2.0 */
/* A trial, in the process that was started for it. */
#include "drivers/resume.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where things are. */
typedef struct {
    char *model, *record, *result, *model_to_leave;
} places;

static hs_code find_places(places *p, const hs_env *env, const hs__resume_order *order, hs_error *err)
{
    const char *directory = order->directory, *name = hs__resume_name(order->resumes);
    p->model = hs__format(env, "%s/%s", directory, name);
    p->record = hs__format(env, "%s/%s.record", directory, name);
    p->result = hs__format(env, "%s/%s.result", directory, name);
    p->model_to_leave = hs__format(env, "%s/%s/model.ckpt", directory, hs__resume_name(true));
    return p->model && p->record && p->result && p->model_to_leave ? HS_OK
                                                                   : hs__no_memory(err, strlen(directory), "a path");
}

static void free_places(places *p, const hs_env *env)
{
    hs__free(env, p->model);
    hs__free(env, p->record);
    hs__free(env, p->result);
    hs__free(env, p->model_to_leave);
}

/* How a run that came to a good end may not have ended. */
static hs_code judge(const hs__recorder *recorder, hs_error *err)
{
    const hs__resume_order *order = recorder->order;
    if (recorder->failure.code) /* it may have kept quiet about it */
        return hs__error_copy(err, &recorder->failure);
    if (!recorder->begun)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "no session had the trial's hook; add it to the session's (hs_resume_trial.hook)");
    if (order->resumes ? recorder->last < 0 : !recorder->left)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the run ended %s %lld, which is to be resumed from",
                            order->resumes ? "without going beyond step" : "before step", (long long)order->middle);
    return HS_OK;
}

static hs_code make_trial(const hs_verify_resume_options *options, const hs_env *env, const hs__resume_order *order,
                          const places *p, int64_t *middle, hs_error *err)
{
    hs__recorder recorder;
    hs_error late = {0};
    hs_code code = hs__recorder_open(&recorder, env, order, options->fetches, p->record, p->model_to_leave, err);
    if (!code) {
        hs_resume_trial trial = {.size = sizeof trial,
                                 .model_dir = p->model,
                                 .last_step = order->last_step,
                                 .hook = hs__recorder_hook(&recorder)};
        code = options->train(options->user, &trial, err);
        if (code == HS_STOP || code == HS_OUT_OF_RANGE)
            code = HS_OK;
        if (!hs__settle(code, "the run", err))
            code = judge(&recorder, err);
    }
    *middle = recorder.middle;
    if (hs__recorder_close(&recorder, &late) && !code)
        code = hs__error_copy(err, &late);
    return code;
}

static hs_code tell_result(const hs_env *env, const char *path, hs_code code, int64_t middle, const hs_error *error)
{
    char text[HS_MESSAGE_SIZE + 64];
    int length = snprintf(text, sizeof text, "%d %lld %s", code, (long long)middle, code ? error->message : "");
    return hs__file_write_synced(env, path, text, (size_t)length, NULL);
}

/* "resumed 10 /tmp/x" */
static bool read_order(const char *text, hs__resume_order *order)
{
    char name[16];
    long long middle;
    int at = 0;
    if (sscanf(text, "%15s %lld %n", name, &middle, &at) != 2 || !at || !text[at])
        return false;
    *order =
        (hs__resume_order){.directory = text + at, .resumes = strcmp(name, hs__resume_name(true)) == 0, .middle = middle};
    return order->resumes || strcmp(name, hs__resume_name(false)) == 0;
}

hs_code hs__resume_trial(const hs_verify_resume_options *options, const hs_env *env, const char *text, hs_error *err)
{
    hs__resume_order order;
    places p = {.model = NULL};
    int64_t middle = 0;
    if (!read_order(text, &order))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "the environment variable " HS__RESUME_ORDER " is '%s', which hs_verify_resume never says; unset it", text);
    order.last_step = options->steps;
    hs_error error = {0};
    hs_code code = find_places(&p, env, &order, &error);
    if (!code)
        code = make_trial(options, env, &order, &p, &middle, &error);
    if (p.result && tell_result(env, p.result, code, middle, &error))
        code = HS_UNKNOWN; /* the status tells it */
    free_places(&p, env);
    exit(code ? EXIT_FAILURE : EXIT_SUCCESS);
}
