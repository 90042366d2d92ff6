/* SPDX-License-Identifier: Apache-2.0 */
/* hs__rollback_snapshot copies the state before the first run, unless a checkpoint exists. hs__rollback_restore restores
 * the newest readable checkpoint or this copy, on all ranks of a group, and then changes the training that follows. */
#include "hooks/finite_rollback.h"

#include "base/c_locale.h"
#include "base/files.h"
#include "base/text.h"
#include "hooks/lookup.h"
#include "hooks/ranks.h"

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
    rollback->snapshot_pending = true;
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

/* The last good state. */

static hs_saver *find_saver(const hs__rollback *rollback, const hs_raw_session *session)
{
    size_t n;
    return hs__find_saver(hs_raw_session_backend(session), rollback->saver, NULL, &n);
}

hs_code hs__rollback_snapshot(hs__rollback *rollback, hs_raw_session *session, hs_error *err)
{
    const uint64_t largest = 1 << 30;
    hs_saver *saver = find_saver(rollback, session);
    rollback->snapshot_pending = false;
    bool saved = saver && (hs_raw_session_rank(session) ? hs_raw_session_last_saved_step(session) >= 0
                                                        : hs_saver_checkpoint(saver, 0) != NULL);
    if (saved || (saver && hs_raw_session_restored_from(session)))
        return HS_OK;
    hs_backend backend = hs_raw_session_backend(session);
    hs_variable variable;
    uint64_t bytes = 0; /* of the variables in a checkpoint */
    for (size_t i = 0; hs_backend_variable(backend, i, &variable); i++)
        if (!(variable.flags & HS_VARIABLE_LOCAL))
            bytes += (uint64_t)hs_shape_elements(&variable.shape) * hs_dtype_size(variable.dtype);
    if (bytes <= largest)
        return hs_raw_session_copy_state(session, &rollback->snapshot, err);
    hs_log(hs__session_env(session), HS_LOG_WARNING,
           "state of %llu bytes is more than 1 GiB and not copied: no rollback is possible until a checkpoint is saved",
           (unsigned long long)bytes);
    return HS_OK;
}

static bool is_snapshot_outdated(const hs__rollback *rollback, const hs_raw_session *session)
{
    return hs_raw_session_last_saved_step(session) > hs_state_copy_step(rollback->snapshot);
}

void hs__rollback_drop_outdated(hs__rollback *rollback, const hs_raw_session *session)
{
    if (is_snapshot_outdated(rollback, session))
        hs__rollback_close(rollback);
}

bool hs__rollback_allowed(const hs__rollback *rollback)
{
    return rollback->most == HS_NEVER || rollback->count.rollbacks < rollback->most;
}

/* hs_restore_report_fn. `user` is a bool. */
static void note_damage(void *user, hs_restore_event event, const char *name, const char *detail)
{
    (void)name, (void)detail;
    *(bool *)user |= event == HS_RESTORE_EVENT_REJECTED;
}

/* *damaged: the restore failed because the files are damaged. */
static hs_code restore_path(hs_saver *saver, hs_raw_session *session, const char *path, bool *damaged, hs_error *err)
{
    *damaged = false;
    return hs_saver_restore(saver, session, path, HS_RESTORE_OPTIONS(.report = note_damage, .user = damaged), err);
}

/* What rank 0 has restored. The other ranks restore it as well. */
typedef struct {
    char checkpoint[4096]; /* "": the copy in memory */
} restored_state;

/* Sends the state of rank 0. *damaged: another rank has found damage in it. */
static hs_code send_state(hs_raw_session *session, restored_state *state, bool *damaged, hs_error *err)
{
    hs_code code = hs_raw_session_from_chief(session, state, sizeof *state, err);
    return code ? code : hs_raw_session_any(session, false, damaged, err);
}

/* On all ranks of a group. *damaged: on one of them. */
static hs_code try_checkpoint(hs_saver *saver, hs_raw_session *session, const char *prefix, bool *damaged, hs_error *err)
{
    restored_state state = {.checkpoint = ""};
    *damaged = false;
    if (strlen(prefix) >= sizeof state.checkpoint)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the path of the checkpoint is too long");
    memcpy(state.checkpoint, prefix, strlen(prefix) + 1);
    hs_code code = restore_path(saver, session, prefix, damaged, err);
    if (!code && !(code = send_state(session, &state, damaged, err)) && *damaged)
        code = hs_error_set(err, HS_DATA_LOSS, "another rank found damage, and logged it");
    if (*damaged)
        hs_log(hs__session_env(session), HS_LOG_WARNING, "checkpoint '%s' skipped: %s", state.checkpoint, err->message);
    return code;
}

/* Without a group, and on rank 0: restores the newest checkpoint of the saver that is readable, or the checkpoint that the
 * session began with, or the copy in memory. */
static hs_code restore_here(hs__rollback *rollback, hs_raw_session *session, hs_error *err)
{
    restored_state copy = {.checkpoint = ""};
    char from[sizeof copy.checkpoint]; /* a copy: each restore changes it */
    hs_saver *saver = find_saver(rollback, session);
    hs_code code = HS_OK;
    bool damaged = true, unused;
    size_t n = 0;
    snprintf(from, sizeof from, "%s", hs_raw_session_restored_from(session) ? hs_raw_session_restored_from(session) : "");
    while (saver && hs_saver_checkpoint(saver, n))
        n++;
    while (damaged && n)
        code = try_checkpoint(saver, session, hs_saver_checkpoint(saver, --n), &damaged, err);
    if (damaged && saver && *from)
        code = try_checkpoint(saver, session, from, &damaged, err);
    if (!damaged)
        return code;
    if (rollback->snapshot && !is_snapshot_outdated(rollback, session)) {
        code = hs_raw_session_restore_copy(session, rollback->snapshot, err);
        return code ? code : send_state(session, &copy, &unused, err);
    }
    int64_t saved = hs_raw_session_last_saved_step(session);
    if (saved >= 0) /* an older snapshot would repeat saved steps */
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "step %lld was saved, but the guard's saver has no readable checkpoint; give the guard the "
                            "same saver",
                            (long long)saved);
    return hs_error_set(err, HS_FAILED_PRECONDITION, "no checkpoint was saved, and no copy is in memory; save sooner");
}

/* On the other ranks. Restores what rank 0 restores, until no rank finds damage in it. */
static hs_code restore_as_chief(const hs__rollback *rollback, hs_raw_session *session, hs_error *err)
{
    for (;;) {
        restored_state chief;
        hs_error error = {0};
        hs_code code = hs_raw_session_from_chief(session, &chief, sizeof chief, err);
        if (code)
            return code;
        const bool from_files = chief.checkpoint[0] != '\0';
        hs_saver *saver = find_saver(rollback, session);
        bool damaged = false;
        if (from_files && saver)
            code = restore_path(saver, session, chief.checkpoint, &damaged, &error);
        else if (!from_files && rollback->snapshot)
            code = hs_raw_session_restore_copy(session, rollback->snapshot, &error);
        else
            code = hs_error_set(&error, HS_FAILED_PRECONDITION, "rank 0 has restored %s, which this rank does not have",
                                from_files ? "a checkpoint with a saver" : "a copy in memory");
        if ((damaged = hs__is_damage_for_all(damaged, &error)))
            hs_log(hs__session_env(session), HS_LOG_WARNING, "checkpoint '%s': %s", chief.checkpoint, error.message);
        if (code && !damaged) /* the other ranks fail with it */
            return hs_error_set(err, code, "%s", error.message);
        if ((code = hs_raw_session_any(session, damaged, &damaged, err)) || !damaged)
            return code;
    }
}

/* Restores the same state on all ranks of a group. */
static hs_code restore(hs__rollback *rollback, hs_raw_session *session, hs_error *err)
{
    rollback->restored = (hs__rollback_count){0, 0}; /* if the state has no counts; hs__rollback_load sets them */
    return hs_raw_session_rank(session) ? restore_as_chief(rollback, session, err) : restore_here(rollback, session, err);
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
    hs_code code = restore(rollback, session, &error);
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

void hs__rollback_close(hs__rollback *rollback)
{
    hs_state_copy_free(rollback->snapshot);
    rollback->snapshot = NULL;
}
