/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions, by batch or one by one. */
#include "drivers/estimator.h"
#include "drivers/restored.h"

#include "base/env.h"

#include <string.h>

typedef struct {
    const hs_predict_options *options;
    const char *const *keys;
    size_t n;
    hs_tensor *batch, *example;
    int64_t calls;
} prediction;

static hs_code call(prediction *p, const hs_tensor *values, hs_error *err)
{
    return hs__settle(p->options->predicted(p->options->user, p->calls++, values, p->n, err), "predicted", err);
}

/* Views of the batch. Where it is to be taken apart, each has a row for each example. */
static hs_code take_batch(prediction *p, const hs_run_values *values, hs_error *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const hs_tensor *value = hs_values_tensor(values, i);
        if (!value)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "the prediction '%s' is an op without a value", p->keys[i]);
        p->batch[i] = *value;
        if (!p->options->whole_batches && (value->rank < 1 || value->dims[0] != p->batch[0].dims[0]))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "the prediction '%s' has not a row for each example, as '%s' has; ask for whole_batches",
                                p->keys[i], p->keys[0]);
    }
    return HS_OK;
}

static hs_tensor row_of(const hs_tensor *batch, int64_t row)
{
    hs_tensor one = *batch;
    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof *one.dims);
    one.bytes = batch->bytes / (size_t)batch->dims[0];
    one.data = (char *)batch->data + (size_t)row * one.bytes;
    return one;
}

static hs_code give(prediction *p, hs_error *err)
{
    hs_code code = p->options->whole_batches ? call(p, p->batch, err) : HS_OK;
    for (int64_t row = 0; !code && !p->options->whole_batches && row < p->batch[0].dims[0]; row++) {
        for (size_t i = 0; i < p->n; i++)
            p->example[i] = row_of(&p->batch[i], row);
        code = call(p, p->example, err);
    }
    return code;
}

static void predict_all(prediction *p, hs_session *session, hs_error *err)
{
    const hs_run_args args = {HS_RUN_ARGS, .names = p->keys, .kind = HS_RUN_EVAL};
    const hs_run_values *values;
    hs_code code = HS_OK;
    while (!code && !hs_session_should_stop(session) && !hs_session_run_args(session, &args, &values, err))
        if ((code = take_batch(p, values, err)) || (code = give(p, err)))
            hs_session_fail(session, code, err->message);
}

static hs_code make_prediction(prediction *p, const hs__built *built, hs_error *err)
{
    p->keys = p->options->keys ? p->options->keys : built->spec.predictions;
    p->n = p->keys ? hs__names_count(p->keys) : 0;
    if (!p->n || !p->options->predicted)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_estimator_predict: %s",
                            p->n ? "predicted is not given"
                                 : "there is nothing to predict: neither keys nor hs_estimator_spec.predictions name any");
    p->batch = hs__alloc(&built->estimator->env, 2 * p->n, sizeof *p->batch);
    if (!p->batch)
        return hs__no_memory(err, p->n * sizeof *p->batch, "the predictions");
    p->example = p->batch + p->n;
    return HS_OK;
}

hs_code hs_estimator_predict(hs_estimator *estimator, const hs_predict_options *given, hs_error *err)
{
    hs_predict_options options = {HS_PREDICT_OPTIONS};
    prediction p = {.options = &options};
    hs__built built;
    char *path = NULL;
    hs_error error = {0};
    if (given && hs_struct_take(&options, sizeof options, given, "hs_predict_options", "HS_PREDICT_OPTIONS", err))
        return HS_INVALID_ARGUMENT;
    hs_code code = hs__build(&built, estimator, HS_MODE_PREDICT, &options.input, options.hooks, options.n_hooks, &error);
    if (!code && !(code = make_prediction(&p, &built, &error))) {
        const hs_evaluate_once_options opening = hs__built_evaluation(&built, options.checkpoint_path);
        hs_session *session = hs__restored_open(built.spec.backend, &opening, &path, &error);
        predict_all(&p, session, &error);
        code = hs_session_close(session, &error).error.code;
    }
    hs__free(&estimator->env, path);
    hs__free(&estimator->env, p.batch);
    hs__release(&built);
    hs__error_copy(err, &error);
    return code;
}
