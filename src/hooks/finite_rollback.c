/* SPDX-License-Identifier: Apache-2.0 */
/* hs__rollback_restore returns to the last good state of the session (session/last_good.h), on all ranks of a group, and
 * then changes the training that follows. */
#include "hooks/finite_rollback.h"

#include "base/c_locale.h"
#include "base/text.h"
#include "hooks/lookup.h"
#include "session/services.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t MOST = INT64_MAX / 4; /* of each count, so that the sum of two cannot overflow */

hs_code hs__rollback_begin(hs__rollback *rollback, hs_backend backend, hs_error *err)
{
    const char *name = rollback->learning_rate;
    hs_variable found;
    hs_node node;
    size_t i;
    rollback->count = rollback->restored = (hs__rollback_count){0, 0};
    rollback->history[0] = '\0';
    hs_code code = hs_backend_check_global_step(backend, err);
    if (code)
        return code;
    if (name) {
        if (!hs__find_variable(backend, name, &i, &found))
            return hs_error_set(err, HS_NOT_FOUND, "learning_rate '%s' is not a variable", name);
        if (!hs__is_number(found.dtype, found.shape.rank))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "learning_rate '%s' is not a scalar of type float or double",
                                name);
        if (found.flags & HS_VARIABLE_LOCAL)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "learning_rate '%s' is a local variable, which checkpoints do not contain", name);
        if (!backend.ops->read_variable || !backend.ops->write_variable)
            return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' cannot set variable '%s'", backend.ops->name, name);
        rollback->number = (hs__number){i, found.dtype};
    }
    return rollback->skip_op ? hs_backend_find(backend, rollback->skip_op, &node, err) : HS_OK;
}

bool hs__rollback_allowed(const hs__rollback *rollback)
{
    return rollback->most == HS_NEVER || rollback->count.rollbacks < rollback->most;
}

/* Changes to the training that follows. */

/* Multiplies the learning rate by the factor, once for each rollback since the restored state was saved. */
static hs_code reduce_learning_rate(const hs__rollback *rollback, hs_raw_session *session, char *message, size_t bytes,
                                    hs_error *err)
{
    double before;
    hs_code code = hs__number_read(&rollback->number, session, &before, err);
    if (code)
        return code;
    double now = before * pow(rollback->factor, (double)(rollback->count.rollbacks - rollback->restored.rollbacks));
    hs__snprintf(message, bytes, "; %.64s is %.6g instead of %.6g", rollback->learning_rate, now, before);
    return hs__number_write(&rollback->number, session, now, err);
}

/* Stops early at a stop request, or at the end of the input, which stops the training. */
static hs_code skip_batches_now(hs__rollback *rollback, hs_run_context *run, int64_t batches, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(rollback->skip_op));
    bool ended = false, stops;
    for (int64_t i = 0; i < batches; i++) {
        hs_code code = hs_raw_session_any(session, ended || hs_raw_session_stop_requested(session), &stops, err);
        if (code)
            return code;
        if (stops)
            break;
        code = hs_raw_session_run(session, &args, NULL, err);
        if (code && code != HS_OUT_OF_RANGE) {
            hs_error_prefix(err, "skip_op '%s'", rollback->skip_op);
            return code;
        }
        ended = code == HS_OUT_OF_RANGE;
        rollback->count.skipped += !ended;
    }
    if (!ended)
        return HS_OK;
    hs_error_clear(err);
    hs_log(hs__session_env(session), HS_LOG_WARNING, "the input ended while skipping batches; stopping");
    hs_run_context_request_stop(run);
    return HS_OK;
}

/* Reduces the learning rate, skips batches, and logs the rollback. */
static hs_code change_training(hs__rollback *rollback, hs_run_context *run, int64_t skipped_before, int64_t bad_step,
                               const char *why, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    char rate[192] = "", most[32] = "";
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    hs_code code = rollback->learning_rate ? reduce_learning_rate(rollback, session, rate, sizeof rate, err) : HS_OK;
    if (!code && rollback->skip_op) {
        /* Batches that were skipped since the restored state was saved are skipped again. Then the rollback skips
         * skip_batches more, or the batches up to the batch of the bad step. */
        int64_t again = skipped_before - rollback->restored.skipped;
        int64_t more = rollback->skip_batches ? rollback->skip_batches : bad_step - step;
        code = skip_batches_now(rollback, run, (again > 0 ? again : 0) + (more > 0 ? more : 0), err);
    }
    if (code)
        return code;
    int64_t after = hs_raw_session_global_step(session, err);
    if (after < 0)
        return err->code;
    if (after != step)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "skip_op '%s' advances the global step; name an op that only draws a batch", rollback->skip_op);
    hs__append_item(rollback->history, sizeof rollback->history, "step %lld to %lld", (long long)bad_step, (long long)step);
    const char *from = hs_raw_session_restored_from(session);
    if (rollback->most != HS_NEVER)
        snprintf(most, sizeof most, " of at most %lld", (long long)rollback->most);
    hs_log(hs__session_env(session), HS_LOG_WARNING,
           "step %lld: %s; rolled back to step %lld (%s), rollback %lld%s%s; %lld batches skipped", (long long)bad_step,
           why, (long long)step, from ? from : "the copy in memory", (long long)rollback->count.rollbacks, most, rate,
           (long long)(rollback->count.skipped - rollback->restored.skipped));
    hs_raw_session_set_metric(session, "finite_guard/rollbacks", (double)rollback->count.rollbacks, step, NULL);
    return HS_OK;
}

hs_code hs__rollback_restore(hs__rollback *rollback, hs_run_context *run, int64_t bad_step, const char *why, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    hs_error error = {0};
    int64_t rollbacks = rollback->count.rollbacks + 1, skipped_before = rollback->count.skipped;
    size_t n;
    hs_saver *saver = hs__find_saver(hs_raw_session_backend(session), rollback->saver, NULL, &n);
    rollback->restored = (hs__rollback_count){0, 0}; /* if the state has no counts; hs__rollback_load sets them */
    hs_code code = hs__raw_session_roll_back(session, saver, &error);
    rollback->count = (hs__rollback_count){rollbacks, rollback->restored.skipped};
    if (!code)
        code = change_training(rollback, run, skipped_before, bad_step, why, &error);
    if (!code)
        return HS_OK;
    hs_error_set(err, code, "%s; cannot roll back step %lld: %s", why, (long long)bad_step, error.message);
    hs_raw_session_refuse_saves(session, err); /* the state in memory is undefined */
    return code;
}

/* A restore never decreases the number of rollbacks. The number of skipped batches is restored from the state. */
hs_code hs__rollback_load(hs__rollback *rollback, const hs__rollback_count *loaded, hs_error *err)
{
    if (loaded->rollbacks < 0 || loaded->rollbacks > MOST || loaded->skipped < 0 || loaded->skipped > MOST)
        return hs_error_set(err, HS_DATA_LOSS, "invalid counts: %lld rollbacks, %lld skipped batches",
                            (long long)loaded->rollbacks, (long long)loaded->skipped);
    rollback->restored = *loaded;
    rollback->count.skipped = loaded->skipped;
    if (loaded->rollbacks > rollback->count.rollbacks)
        rollback->count.rollbacks = loaded->rollbacks;
    return HS_OK;
}
