/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_EVALUATION_H
#define HOOKSESS_HOOKS_EVALUATION_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Evaluates the model during training: runs an op over the batches of a data set and reads metrics. The metrics go to the
 * log, to the session (hs_raw_session_metric) as "NAME/METRIC", and to an event file. TensorFlow: InMemoryEvaluatorHook.
 *
 *     hs_hook hook = hs_evaluation(.metrics = HS_NAMES("accuracy", "loss"), .reset_ops = HS_NAMES("clear"),
 *                                  .eval_op = "eval_batch", .every_n_steps = 500, .n_batches = 40);
 *
 * It evaluates at the boundary, first one interval after the session's creation. Its runs call no hooks. List hooks that
 * read the metrics, such as early_stopping, and savers behind it.
 *
 * If a stop is requested from outside, by a signal for example, the evaluation is abandoned and reports nothing. A stop
 * by a hook of the same run does not abandon it.
 *
 * In a group all ranks evaluate when rank 0 does, and get the metrics of rank 0, which writes them. If the ops compute
 * sums over the ranks, the number of batches must be the same on all.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* Evaluates in another way, and reports values with hs_raw_session_set_metric(). May run the session. HS_OUT_OF_RANGE is
 * a normal end; any other failure fails the hook. */
typedef hs_code (*hs_evaluate_fn)(void *user, hs_raw_session *session, int64_t step, hs_error *err);

typedef struct hs_evaluation_options {
    size_t size;
    const char *name; /* NAME, unique among several evaluations. NULL: "eval" */
    /* Tensors or values of one number, fetched in one run after the last batch. Set either metrics or evaluate. Without
     * eval_op and reset_ops: nothing is reported if one is a value of an earlier step (hs_raw_session_computed_at) */
    const char *const *metrics;
    const char *const *reset_ops; /* ops that run before the first batch, to clear the metrics. NULL: none */
    /* Op that evaluates one batch. NULL: none. Not a collective op, unless all ranks have the same number of batches */
    const char *eval_op;
    hs_evaluate_fn evaluate; /* instead of metrics, ops and summary_dir */
    void *user;
    /* Steps between evaluations. Set one of the three, or at_end */
    int64_t every_n_steps;
    double every_n_secs; /* or: seconds between evaluations */
    hs_trigger when;     /* or: conditions. `last` works as at_end */
    bool at_end;         /* also evaluates at the end, if that step is not evaluated yet */
    unsigned char reserved[7];
    /* With eval_op: number of its runs. 0, HS_NEVER: until HS_OUT_OF_RANGE, which does not end the training. Without any
     * batch, the log gets a warning and nothing is reported */
    int64_t n_batches;
    const char *summary_dir; /* for scalars NAME/METRIC. NULL: none */
    /* A hook of hs_moving_average in the same session, copied: its averages are evaluated. NULL: the variables are */
    const hs_hook *moving_average;
} hs_evaluation_options;

HS_API hs_hook hs_evaluation_hook(const hs_evaluation_options *options);
#define hs_evaluation(...) hs_evaluation_hook(HS_OPTIONS(hs_evaluation_options, __VA_ARGS__))

HS_END_DECLS

#endif
