/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions, by batch or one by one. */
#include "drivers/estimator.h"
#include "drivers/evaluate_once.h"

#include "base/env.h"

#include <string.h>

typedef struct {
    const hs_estimator_predict_options *options;
    const char *const *keys;
    size_t n;
    hs_tensor *values; /* of one call */
    int64_t calls;
} prediction;

/* Where the batch is to be taken apart, each has a row for each example. */
static hs_code check_batch(const prediction *p, const hs_run_values *values, hs_error *err)
{
    const hs_tensor *first = hs_run_values_tensor(values, 0);
    for (size_t i = 0; i < p->n; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        if (!value)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "the prediction '%s' is an op without a value", p->keys[i]);
        if (!p->options->whole_batches && (value->rank < 1 || value->dims[0] != first->dims[0]))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "prediction '%s' does not have one row for each example, as '%s' has; set whole_batches",
                                p->keys[i], p->keys[0]);
    }
    return HS_OK;
}

static void take_row(hs_tensor *batch, int64_t row)
{
    batch->rank--;
    batch->bytes /= (size_t)batch->dims[0];
    memmove(batch->dims, batch->dims + 1, (size_t)batch->rank * sizeof *batch->dims);
    batch->data = (char *)batch->data + (size_t)row * batch->bytes;
}

static hs_code give(prediction *p, const hs_run_values *values, hs_error *err)
{
    const hs_estimator_predict_options *options = p->options;
    int64_t rows = options->whole_batches ? 1 : hs_run_values_tensor(values, 0)->dims[0];
    hs_code code = HS_OK;
    for (int64_t row = 0; !code && row < rows; row++) {
        for (size_t i = 0; i < p->n; i++)
            p->values[i] = *hs_run_values_tensor(values, i);
        for (size_t i = 0; i < p->n && !options->whole_batches; i++)
            take_row(&p->values[i], row);
        code = hs__settle(options->predicted(options->user, p->calls++, p->values, p->n, err), "predicted", err);
    }
    return code;
}

static void predict_all(prediction *p, hs_session *session, hs_error *err)
{
    const hs_run_args args = HS_INIT(hs_run_args, .names = p->keys, .kind = HS_RUN_EVAL);
    const hs_run_values *values;
    hs_code code = HS_OK;
    while (!code && !hs_session_should_stop(session) && !hs_session_run_args(session, &args, &values, err))
        if ((code = check_batch(p, values, err)) || (code = give(p, values, err)))
            hs_session_fail(session, err);
}

static hs_code make_prediction(prediction *p, const hs__built *built, hs_error *err)
{
    p->keys = p->options->keys ? p->options->keys : built->spec.predictions;
    p->n = hs__names_count(p->keys);
    if (!p->n || !p->options->predicted)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_estimator_predict: %s",
                            p->n ? "predicted is missing"
                                 : "nothing to predict: keys and hs_estimator_spec.predictions are both empty");
    p->values = hs__alloc(&built->estimator->env, p->n, sizeof *p->values);
    return p->values ? HS_OK : hs__no_memory(err, p->n * sizeof *p->values, "the predictions");
}

hs_code hs_estimator_predict(hs_estimator *estimator, const hs_estimator_predict_options *given, hs_error *err)
{
    hs_estimator_predict_options options = HS_INIT(hs_estimator_predict_options);
    prediction p = {.options = &options};
    hs__built built = {.estimator = estimator};
    char *path = NULL;
    hs_error error = {0};
    if (HS_STRUCT_TAKE(hs_estimator_predict_options, reserved, &options, given, &error) ||
        hs__estimator_missing(estimator, &error)) {
        hs_hooks_free(options.hooks);
        return hs__error_copy(err, &error);
    }
    if (!hs__build(&built, estimator, HS_MODE_PREDICT, &options.input, options.hooks, &error) &&
        !make_prediction(&p, &built, &error)) {
        const hs_evaluate_once_options opening = hs__built_evaluation(&built, options.checkpoint_prefix);
        hs_session *session = hs__restored_open(built.spec.backend, &opening, &path, &error);
        predict_all(&p, session, &error);
        hs_session_close(session, &error);
    }
    hs__free(&estimator->env, path);
    hs__free(&estimator->env, p.values);
    hs__release(&built);
    return hs__error_copy(err, &error);
}
