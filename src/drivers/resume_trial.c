/* SPDX-License-Identifier: Apache-2.0 */
/* A trial, in the process that was started for it. */
#include "drivers/resume.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where things are. */
typedef struct {
    char *model, *record, *result, *models_to_leave[HS__MIDDLES];
} places;

static hs_code find_places(places *p, const hs_env *env, const hs__resume_order *order, hs_error *err)
{
    const char *directory = order->directory, *name = hs__resume_name(order->trial);
    bool complete = true;
    p->model = hs__format(env, "%s/%s", directory, name);
    p->record = hs__format(env, "%s/%s.record", directory, name);
    p->result = hs__format(env, "%s/%s.result", directory, name);
    for (int i = 0; i < HS__MIDDLES; i++) {
        p->models_to_leave[i] = hs__format(env, "%s/%s/model.ckpt", directory, hs__resume_name(HS__TRIAL_RESUMED + i));
        complete &= p->models_to_leave[i] != NULL;
    }
    return complete && p->model && p->record && p->result ? HS_OK : hs__no_memory(err, strlen(directory), "a path");
}

static void free_places(places *p, const hs_env *env)
{
    hs__free(env, p->model);
    hs__free(env, p->record);
    hs__free(env, p->result);
    for (int i = 0; i < HS__MIDDLES; i++)
        hs__free(env, p->models_to_leave[i]);
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
    bool resumes = order->trial != HS__TRIAL_WHOLE;
    if (resumes ? recorder->last < 0 : !recorder->n_left)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the run ended %s %lld, which is to be resumed from",
                            resumes ? "without going beyond step" : "before step", (long long)order->middle);
    if (recorder->last < order->last_step)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the run ended at step %lld, before %lld, the last step (hs_verify_resume_options.steps)",
                            (long long)recorder->last, (long long)order->last_step);
    return HS_OK;
}

static hs_code make_trial(const hs_verify_resume_options *options, const hs_env *env, const hs__resume_order *order,
                          const places *p, int64_t *middles, hs_error *err)
{
    hs__recorder recorder;
    hs_error late = {0};
    hs_code code =
        hs__recorder_open(&recorder, env, order, options->fetches, p->record, (const char *const *)p->models_to_leave, err);
    if (!code) {
        hs_resume_trial trial = {.size = sizeof trial,
                                 .checkpoint_dir = p->model,
                                 .last_step = order->last_step,
                                 .hook = hs__recorder_hook(&recorder)};
        code = options->train(options->user, &trial, err);
        if (code == HS_STOP || code == HS_OUT_OF_RANGE)
            code = HS_OK;
        if (!hs__settle(code, "the run", err))
            code = judge(&recorder, err);
    }
    memcpy(middles, recorder.middles, sizeof recorder.middles);
    if (hs__recorder_close(&recorder, &late) && !code)
        code = hs__error_copy(err, &late);
    return code;
}

/* If two processes have one order, the second does not take the first's word back. */
static hs_code tell_result(const hs_env *env, const char *path, hs_code code, const int64_t *middles, const hs_error *error)
{
    char text[HS_MESSAGE_SIZE + 64];
    int length = snprintf(text, sizeof text, "%d %lld %lld %s", code, (long long)middles[0], (long long)middles[1],
                          code ? error->message : "");
    hs__file file;
    hs_code told = hs__file_open(&file, env, path, HS_OPEN_NEW, NULL);
    if (told)
        return told;
    told = hs__file_write(&file, text, (size_t)length, NULL);
    hs_code closed = hs__file_close(&file, NULL);
    return told ? told : closed;
}

/* "resumed 10 /tmp/x". The directory is whatever follows the second blank. */
static bool read_order(const char *text, hs__resume_order *order)
{
    char *end;
    const char *blank = strchr(text, ' ');
    for (int trial = 0; blank && trial < HS__TRIALS; trial++) {
        const char *name = hs__resume_name(trial);
        if (strlen(name) != (size_t)(blank - text) || strncmp(text, name, strlen(name)) != 0)
            continue;
        long long middle = strtoll(blank + 1, &end, 10);
        *order = (hs__resume_order){.trial = trial, .middle = middle, .directory = end + 1};
        return end > blank + 1 && *end == ' ' && end[1];
    }
    return false;
}

/* The order is this process's alone: programs that it starts are no trials. */
static hs_code take_order(const hs_env *env, const char *text, char **copy, hs__resume_order *order, hs_error *err)
{
    if (!read_order(text, order))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "the environment variable " HS__RESUME_ORDER " is '%s', which hs_verify_resume never says; unset it", text);
    *copy = hs__strdup(env, text);
    if (*copy)
        read_order(*copy, order);
    unsetenv(HS__RESUME_ORDER);
    hs__resume_mark_keep();
    return HS_OK;
}

hs_code hs__resume_trial(const hs_verify_resume_options *options, const hs_env *env, const char *text, hs_error *err)
{
    hs__resume_order order;
    char *copy = NULL;
    places p = {.model = NULL};
    int64_t middles[HS__MIDDLES] = {-1, -1};
    hs_code code = take_order(env, text, &copy, &order, err);
    if (code)
        return code;
    if (!copy)
        exit(EXIT_FAILURE); /* the status tells it */
    order.last_step = options->steps;
    hs_error error = {0};
    if (!(code = find_places(&p, env, &order, &error)))
        code = make_trial(options, env, &order, &p, middles, &error);
    if (p.result && tell_result(env, p.result, code, middles, &error))
        code = HS_UNKNOWN; /* the status tells it */
    free_places(&p, env);
    hs__free(env, copy);
    exit(code ? EXIT_FAILURE : EXIT_SUCCESS);
}
