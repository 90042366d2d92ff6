/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_MOVING_AVERAGE_H
#define HOOKSESS_HOOKS_MOVING_AVERAGE_H

#include <hooksess/hook.h>

/* Keeps exponential moving averages of variables of an embedded graph, and puts them in the place of the variables for
 * evaluations.
 *
 *     hs_hook averages = hs_moving_average(.variables = HS_NAMES("weights", "bias"), .decay = 0.999);
 *     hs_hook evaluation = hs_evaluation(.metrics = HS_NAMES("accuracy"), .eval_op = "eval_batch", .every_n_steps = 500,
 *                                        .n_batches = 40, .moving_average = &averages);
 *
 * An average begins as a copy of its variable. After each training run that advances the global step, the hook computes
 *
 *   average -= (1 - decay) * (average - variable)
 *
 * on the host, in one thread. An average takes as much memory as its variable, and one of a variable in device memory twice
 * as much: the variable is copied to the host first. List the hook behind hs_finite_guard if the guard runs an update_op.
 *
 * Averages are variables of the graph. Checkpoints hold them as "weights/ExponentialMovingAverage", with the dtype and the
 * shape of the variable. To load averages as the weights in another program, give the names in
 * hs_restore_options.names; in TensorFlow, ExponentialMovingAverage.variables_to_restore gives these names. To add the hook
 * to a training that has checkpoints without averages, set hs_restore_options.allow_missing once: they begin with the
 * restored variables.
 *
 * The averages are in the place of the variables, and the variables in the place of the averages:
 *
 *   during a run of kind HS_RUN_EVAL        the hook swaps before the run's ops, and back after them
 *   during an evaluation of hs_evaluation   if its moving_average names the hook
 *   between two calls of hs_moving_average_swap
 *
 * Swapping back restores each bit. A save in between fails with HS_FAILED_PRECONDITION. The hook swaps back before the
 * session's last save, and before hs_session_close returns. If a run of kind HS_RUN_EVAL fails, the next run swaps back.
 *
 * TensorFlow: tf.train.ExponentialMovingAverage, with the same arithmetic.
 *
 * Threads: the session's only. */

HS_BEGIN_DECLS

typedef struct hs_moving_average_options {
    size_t size;
    /* (required) Variables of type float or double. Ended by NULL. Copied. begin returns HS_NOT_FOUND for a name that is
     * not a variable, HS_INVALID_ARGUMENT for one of another type, and HS_UNIMPLEMENTED for a backend that is not an
     * embedded graph */
    const char *const *variables;
    double decay;     /* (required) above 0, below 1 */
    const char *name; /* of the averages: VARIABLE/NAME. Copied. NULL: "ExponentialMovingAverage" */
    /* Use min(decay, (1 + step) / (10 + step)), so that the averages follow the variables closely at first. `step` is the
     * global step after the run. TensorFlow: num_updates */
    bool ramp;
    unsigned char reserved[7];
    const hs_env *env; /* for the hook's memory. NULL: the system's. Copied */
} hs_moving_average_options;

/* Returns the hook. Its begin reports invalid options. */
HS_API hs_hook hs_moving_average_hook(const hs_moving_average_options *options);
#define hs_moving_average(...) hs_moving_average_hook(HS_OPTIONS(hs_moving_average_options, __VA_ARGS__))

/* Puts the averages in the place of the variables, or back. Does nothing if they are there already.
 *
 * hook  of hs_moving_average, in the list of an open session
 * in    true: the variables hold the averages; false: they hold their own values
 *
 * Call it between runs, or in a hook's boundary. While the averages are in, a run of kind HS_RUN_TRAIN fails with
 * HS_FAILED_PRECONDITION. Returns HS_INVALID_ARGUMENT for another hook, HS_FAILED_PRECONDITION if no session is open, or
 * the code of copying to or from a device. */
HS_API hs_code hs_moving_average_swap(hs_hook hook, bool in, hs_error *err);

HS_END_DECLS

#endif
