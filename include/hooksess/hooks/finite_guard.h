/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_FINITE_GUARD_H
#define HOOKSESS_HOOKS_FINITE_GUARD_H

#include <hooksess/scaffold.h>
#include <hooksess/trigger.h>

/* Watches tensors, says which was the first to have a value that is not finite (NaN, an infinity), and does something about
 * it: fails, stops, goes back to the last good state, leaves the update out, or warns. It does the same about a loss that
 * is far above the last ones. Beyond TensorFlow, which has NanTensorHook (hs_nan_tensor) for one tensor.
 *
 * Tensors are fetched with each training run that the guard looks at, wherever their memory is, and looked at in the order
 * in which a step makes them: inputs, activations, losses, gradients, parameters, and in each of these lists in the order
 * that it has. This is the order of execution that is meant by "first": list activations forwards, gradients backwards. The
 * message has the first offender's stage and name, type and shape, the step, the index of its first bad element, how many
 * elements are NaN, +infinity and -infinity, and between what the others lie. All further offenders are named in the log.
 *
 * What was seen to be bad is never saved, wherever the guard is in the list: savers save at the boundary, which comes after
 * every hook has seen the run, and what a saver has on its way in the background is of an earlier step. With every_n_steps
 * or every_n_secs, what is saved between two looks nobody has looked at (but savers refuse variables that are not finite:
 * hs_nonfinite_policy). List the guard before hooks that act on what a step gave: what they do at the boundary of a bad
 * step is of that step, and with an update op of the guard's they see the global step as it is before.
 *
 * Spikes: the guard keeps the last `spike_window` accepted values of each of the `losses`. Once it has so many, a value is
 * a spike if it is more than `spike_zscore` standard deviations above their mean; if all are equal, no value is. Finite
 * values are accepted, except the first two spikes in a row: from the third on they are accepted too, so that a loss that
 * stays on a higher level becomes the normal one. The values are saved in checkpoints. A rollback restores those of its
 * checkpoint.
 *
 *     hs_hook hook = hs_finite_guard(.losses = HS_NAMES("loss", "gradient_norm"), .policy = HS_GUARD_SKIP_STEP,
 *                                    .update_op = "update");
 *
 * logs "step 812: loss 'loss' is 9.1: 11.2 standard deviations above 3.2, the mean of the last 128 values; update skipped, 1
 * in a row". */

HS_BEGIN_DECLS

typedef enum hs_guard_policy {
    /* The run fails with HS_FAILED_PRECONDITION: no end is called, nothing is saved. */
    HS_GUARD_FAIL = 0,
    /* A warning in the log, and a stop: a good end (HS_REASON_STOPPED by this hook, not interrupted: starting it again
     * leads to the same), but that the state in memory is not saved. */
    HS_GUARD_STOP = 1,
    /* At the boundary of the bad run, which is HS_OK for its caller, variables and state are set to the newest checkpoint
     * that can be read of those that the saver keeps, or else to what the session was restored from, or to a copy in memory
     * of the state before the first run, which is taken where there is no checkpoint then, and kept until there is a later
     * one. Training goes on from there, and a loop that draws its own
     * data learns of it by hs_raw_session_restores; savers rename what is later aside when they save next. Where a stop was
     * requested in the bad run, it ends there, and that state is saved. A queue whose producer had come to its end is then
     * to be filled again by the program (hs_graph_queue). Each rollback is a warning in the log, and the metric
     * "finite_guard/rollbacks" (hs_raw_session_metric) counts them. When max_rollbacks are used up, the next one fails as
     * HS_GUARD_FAIL does, and the message tells of those that this session made. */
    HS_GUARD_ROLLBACK = 2,
    /* For training runs that compute gradients, with an op of its own that applies them, which the guard runs after each
     * such run if the tensors are finite (update_op). If they are not, it is not run, with a warning: parameters stay what
     * they are, and so does the global step, where it is that op that advances it. A parameter that is not finite fails at
     * once, as leaving an update out does not mend it. So does the run after max_skips skipped ones in a row, which
     * the metric "finite_guard/skipped_in_a_row" counts. */
    HS_GUARD_SKIP_STEP = 3,
    /* A warning in the log for each bad run. The training continues, with what the run did. */
    HS_GUARD_WARN = 4
} hs_guard_policy;

typedef struct hs_finite_guard_options {
    size_t size;
    /* What is watched: tensors of type float, double, half or bfloat16, and of no other (HS_INVALID_ARGUMENT: at the
     * opening for variables, for others in the first run that gives them). Lists are ended by NULL; at least
     * one is required. Parameters are seen as they are after the run; of TensorFlow's graphs as the run gives them, which
     * of resource variables may be as they were before it: what it has made of them is then found in the next one. Name a
     * tensor that depends on the update to see it at once. */
    const char *const *inputs, *const *activations, *const *gradients, *const *parameters;
    /* Tensors of one element that are watched for spikes, too: the loss, the norm of the gradients. Ended by NULL */
    const char *const *losses;
    double spike_zscore; /* standard deviations above the mean that make a spike. 0: 7; HS_NEVER: only what is not finite */
    int64_t spike_window;   /* values that the mean is of, from 2 to 2^20. 0: 128 */
    hs_guard_policy policy; /* 0: HS_GUARD_FAIL */
    int32_t reserved_policy;
    /* Training runs from one that is looked at to the next; the first one is. None of every_n_steps, every_n_secs and
     * trigger: every training run. With HS_GUARD_SKIP_STEP all three must be 0 */
    int64_t every_n_steps;
    double every_n_secs; /* seconds between looks, instead of every_n_steps */
    /* Instead of every_n_steps and every_n_secs; its steps are training runs. Its `last` is HS_INVALID_ARGUMENT */
    const hs_trigger *trigger;

    /* Dumps, for looking at what happened and for making the step again: DUMP_DIR/finite_guard-STEP.safetensors has what
     * was fetched of the bad run, as "inputs/NAME", "gradients/NAME" and so on, and "dump_also/NAME";
     * finite_guard-STEP.variables.safetensors the session's variables, as they are after it (and, with an update op, before
     * the update). Their metadata have the step and the message. In Python: safetensors.numpy.load_file. A file that is
     * there is left alone: later ones of that step are called STEP.1, STEP.2 ... A dump that fails is a warning in the log.
     * The directory is made if it is missing, one level. NULL: no dumps */
    const char *dump_dir;
    const char *const *dump_also; /* tensors of any type but strings, not watched: labels, say; ended by NULL */
    int64_t max_dumps;            /* in a session. 0: 3; HS_NEVER: no limit */

    /* With HS_GUARD_ROLLBACK. The saver whose checkpoints are rolled back to. Borrowed. NULL: the scaffold's, or the one in
     * the graph's collection HS_SAVERS */
    hs_saver *saver;
    hs_scaffold *scaffold; /* with HS_GUARD_ROLLBACK, instead of saver. Borrowed */
    /* With HS_GUARD_ROLLBACK, as all fields up to snapshot_limit; otherwise HS_INVALID_ARGUMENT. Rollbacks over the whole
     * training: the number is saved in checkpoints, and a rollback does not lower it (but a process that dies before the
     * next save takes what it has used with it). 0: 3; HS_NEVER: no limit */
    int64_t max_rollbacks;
    /* A variable, a scalar of type float or double that checkpoints have: multiplied by the factor with each rollback.
     * Going back to one checkpoint twice makes it the factor's square times what that checkpoint has. NULL: none */
    const char *learning_rate;
    double learning_rate_factor; /* above 0, at most 1. 0: 0.5 */
    /* An op that draws a batch (a queue's dequeue): run, without hooks, after going back, so often that the batch of the
     * bad step is left behind. That takes a position in the data that was restored too. The end of the data then ends the
     * training. NULL: what was drawn is drawn again, or is the caller's to decide */
    const char *skip_op;
    /* Batches to skip after a rollback. The k-th rollback to one checkpoint skips k times as many. 0: as many as lead past
     * the bad one, one for each step that is gone back and each that was skipped before */
    int64_t skip_batches;
    /* A state of more bytes is not copied in memory: until there is a checkpoint, there is nothing to go back to, and a bad
     * value fails. 0: 1 GiB; HS_NEVER: no limit */
    int64_t snapshot_limit;

    /* With HS_GUARD_SKIP_STEP (required): run without hooks, with the caller's feeds, in a run of its own: it must not
     * depend on ops that are not to be executed again */
    const char *update_op;
    /* with HS_GUARD_SKIP_STEP, in a row; the number is saved in checkpoints. 0: 10; HS_NEVER: no limit */
    int64_t max_skips;

    const hs_env *env; /* NULL: the system's. Copied */
} hs_finite_guard_options;

/* Threads: any. */
HS_API hs_hook hs_finite_guard_hook(const hs_finite_guard_options *options);
#define hs_finite_guard(...) hs_finite_guard_hook(HS_OPTIONS(hs_finite_guard_options, __VA_ARGS__))

HS_END_DECLS

#endif
