/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_FINITE_GUARD_H
#define HOOKSESS_HOOKS_FINITE_GUARD_H

#include <hooksess/hook.h>
#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Watches tensors for NaN and infinities, and losses for spikes. Beyond TensorFlow. hs_nan_tensor checks one tensor only.
 *
 *     hs_hook hook = hs_finite_guard(.losses = HS_NAMES("loss", "gradient_norm"), .policy = HS_GUARD_SKIP_STEP,
 *                                    .update_op = "update");
 *
 * Each checked run fetches the tensors and checks inputs, activations, losses, gradients, parameters, in this order. The
 * message describes the first bad tensor: list activations in forward, gradients in backward order.
 *
 * With HS_GUARD_FAIL, _STOP and _ROLLBACK, the state after a bad run is never saved; that of unchecked runs may be.
 *
 * Hooks in front of the guard act on the bad state at the boundary, and see the global step from before update_op.
 *
 * A spike is a loss more than `spike_zscore` standard deviations above the mean of its last `spike_window` accepted
 * values. NaN, infinities and spikes are not accepted. No loss is a spike until the window is full, or if all its values
 * are equal. At most two values in a row are spikes. Checkpoints save the values.
 *
 * In a group, failure, stop, rollback and skipped update happen on all ranks, which restore what rank 0 restores.
 * HS_GUARD_SKIP_STEP costs two agreements per step.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* What the guard does after a bad run. */
typedef enum hs_guard_policy {
    /* The run fails with HS_FAILED_PRECONDITION. Hooks get no `end`, and nothing is saved */
    HS_GUARD_FAIL = 0,
    /* Logs a warning and stops without a save. The session ends normally (HS_REASON_STOPPED, exit code 0) */
    HS_GUARD_STOP = 1,
    /* At the boundary, returns to the state to which a recovery or a restart returns, and continues: the newest checkpoint
     * that is not damaged, or before the first save a copy in memory of the state at the opening
     * (hs_recovery.snapshot_limit). The bad run returns HS_OK.
     *
     * The program must rewind its own data (hs_raw_session_restores() changes) and refill queues whose producers have
     * ended. A requested stop saves the restored state. Each rollback logs a warning and sets the metric
     * "finite_guard/rollbacks". After max_rollbacks, the run fails as with HS_GUARD_FAIL */
    HS_GUARD_ROLLBACK = 2,
    /* The training run only computes gradients. The guard runs update_op after each finite run; after a bad one it logs a
     * warning. The metric "finite_guard/skipped_in_a_row" counts skips. A bad run after max_skips skips in a row, or with
     * a bad parameter, fails as with HS_GUARD_FAIL */
    HS_GUARD_SKIP_STEP = 3,
    HS_GUARD_WARN = 4 /* logs a warning; training continues */
} hs_guard_policy;

/* Options without effect are invalid, such as rollback options without HS_GUARD_ROLLBACK. */
typedef struct hs_finite_guard_options {
    size_t size;
    /* Tensors of type float, double, half or bfloat16. Set at least one list, or losses. Another type is
     * HS_INVALID_ARGUMENT: at opening for a variable, otherwise in the first checked run. Parameters are read after the
     * run; of TensorFlow's resource variables, name a tensor that depends on the update */
    const char *const *inputs, *const *activations, *const *gradients, *const *parameters;
    const char *const *losses; /* tensors of one element, also checked for spikes. NULL: none */
    /* With losses: standard deviations above the mean that make a spike. 0: 7; HS_NEVER: no spikes */
    double spike_zscore;
    int64_t spike_window;   /* with losses: number of last values in the mean, 2 to 2^20. 0: 128 */
    hs_guard_policy policy; /* 0: HS_GUARD_FAIL */
    int32_t reserved_policy;
    /* Training runs between checks; the first run is checked. If this and `when` are 0, as HS_GUARD_SKIP_STEP
     * requires: 1 */
    int64_t every_n_steps;
    hs_trigger when; /* or: conditions. Steps are training runs. `last` is HS_INVALID_ARGUMENT */

    /* Directory for dumps of the first 3 bad runs of a session, as safetensors; its last level is created. Later dumps of
     * the same step are STEP.1, STEP.2 ... A failed dump logs a warning. NULL: no dumps
     *
     *   finite_guard-STEP.safetensors            fetched tensors: "inputs/NAME", "gradients/NAME", "dump_also/NAME" ...
     *   finite_guard-STEP.variables.safetensors  variables after the run, with update_op before the update */
    const char *dump_dir;
    const char *const *dump_also; /* with dump_dir: more tensors, not checked, no strings. NULL: none */

    /* With HS_GUARD_ROLLBACK: the saver that restores, with the checkpoints in its directory. NULL: the only one in the
     * graph's collection HS_SAVERS, or the scaffold's, with those in checkpoint_dir */
    hs_saver *saver;
    /* With HS_GUARD_ROLLBACK: most rollbacks of the whole training, counted in checkpoints. 0: 3; HS_NEVER: no limit. A
     * crash loses those since the last save */
    int64_t max_rollbacks;
    /* With HS_GUARD_ROLLBACK: a scalar variable of type float or double in the checkpoints. Each rollback multiplies it
     * by learning_rate_factor; two rollbacks to one checkpoint multiply it twice. NULL: none */
    const char *learning_rate;
    double learning_rate_factor; /* with learning_rate: above 0, at most 1. 0: 0.5 */
    /* With HS_GUARD_ROLLBACK: an op that draws a batch, to skip data after a rollback, without hooks. Checkpoints must
     * restore the data position. It must not advance the global step, nor be a collective op. If the data ends, training
     * stops. NULL: nothing is skipped */
    const char *skip_op;
    /* With skip_op: batches to skip after a rollback; k times as many after the k-th to one checkpoint. 0: enough to pass
     * the bad batch (steps rolled back + batches skipped before) */
    int64_t skip_batches;

    /* (required with HS_GUARD_SKIP_STEP) Op that applies the gradients. It runs without hooks, with the caller's feeds.
     * The ops that it depends on are executed twice in a step */
    const char *update_op;
    /* With HS_GUARD_SKIP_STEP: most skips in a row. Checkpoints save the number. 0: 10; HS_NEVER: no limit */
    int64_t max_skips;
} hs_finite_guard_options;

/* `begin` also returns HS_NOT_FOUND for an unknown name, and HS_UNIMPLEMENTED if the backend cannot set learning_rate. */
HS_API hs_hook hs_finite_guard_hook(const hs_finite_guard_options *options);
#define hs_finite_guard(...) hs_finite_guard_hook(HS_OPTIONS(hs_finite_guard_options, __VA_ARGS__))

HS_END_DECLS

#endif
