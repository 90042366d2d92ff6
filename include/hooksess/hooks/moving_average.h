/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_MOVING_AVERAGE_H
#define HOOKSESS_HOOKS_MOVING_AVERAGE_H

#include <hooksess/hook.h>

/* Keeps exponential moving averages of an embedded graph's variables, and swaps them for evaluations. TensorFlow:
 * tf.train.ExponentialMovingAverage, with the same arithmetic.
 *
 *     hs_hook averages = hs_moving_average(.variables = HS_NAMES("weights", "bias"), .decay = 0.999);
 *     hs_hook evaluation = hs_evaluation(.metrics = HS_NAMES("accuracy"), .eval_op = "eval_batch", .every_n_steps = 500,
 *                                        .n_batches = 40, .moving_average = &averages);
 *
 * An average begins as a copy of its variable. After each training run that advances the global step, the hook computes
 *
 *   average -= (1 - decay) * (average - variable)
 *
 * on the host, in one thread. An average takes as much host memory as its variable, or twice as much for a variable in
 * device memory. List this hook behind an hs_finite_guard with an update_op.
 *
 * A variable without memory (hs_graph_variable_at) has no average until a training run ends with memory: evaluations
 * leave it alone, and fetching the average is HS_FAILED_PRECONDITION.
 *
 * Checkpoints hold the averages as variables, "weights/ExponentialMovingAverage". To load averages as weights, use
 * hs_restore_options.names; in TensorFlow, variables_to_restore. To resume from a checkpoint without averages, set
 * hs_restore_options.allow_missing once: they begin as the restored variables.
 *
 * The variables hold the averages, and the averages the variables,
 *
 *   during each run of kind HS_RUN_EVAL
 *   during an evaluation by hs_evaluation, if its option moving_average is this hook
 *   from hs_moving_average_swap(hook, true, err) to hs_moving_average_swap(hook, false, err)
 *
 * Swapping back restores each bit. A save in between fails with HS_FAILED_PRECONDITION. The hook swaps back before the
 * last save, before hs_session_close() returns, and in the next run after a failed HS_RUN_EVAL.
 *
 * Threads: the session's thread only. */

HS_BEGIN_DECLS

typedef struct hs_moving_average_options {
    size_t size;
    const char *const *variables; /* (required) names, each once, of type float or double */
    double decay;                 /* (required) above 0, below 1 */
    const char *name;             /* the averages are named VARIABLE/NAME. NULL: "ExponentialMovingAverage" */
    /* Uses min(decay, (1 + step) / (10 + step)), with the global step after the run. TensorFlow: num_updates */
    bool ramp;
    unsigned char reserved[7];
} hs_moving_average_options;

/* `begin` also returns HS_NOT_FOUND for a name that is not a variable, HS_INVALID_ARGUMENT for a variable of another
 * type, and HS_UNIMPLEMENTED if the backend is not an embedded graph. */
HS_API hs_hook hs_moving_average_hook(const hs_moving_average_options *options);
#define hs_moving_average(...) hs_moving_average_hook(HS_OPTIONS(hs_moving_average_options, __VA_ARGS__))

/* Swaps averages and variables, or swaps back. A second call with the same `in` changes nothing. Call it between runs, or
 * in a hook's boundary. Runs of kind HS_RUN_TRAIN in between fail with HS_FAILED_PRECONDITION.
 *
 * hook  made by hs_moving_average_hook(), in an open session
 * in    true: the variables hold the averages; false: their own values
 *
 * Returns HS_INVALID_ARGUMENT for another hook, HS_FAILED_PRECONDITION without an open session, or the error of a copy to
 * or from a device. */
HS_API hs_code hs_moving_average_swap(hs_hook hook, bool in, hs_error *err);

HS_END_DECLS

#endif
