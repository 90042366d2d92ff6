/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_EVALUATION_H
#define HOOKSESS_HOOKS_EVALUATION_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Evaluates the model from time to time: runs an op over the batches of a data set, reads metrics and tells them to the
 * log, to the session's board of metrics (hs_raw_session_metric) as "NAME/METRIC", and to an event file. TensorFlow:
 * Estimator's InMemoryEvaluatorHook, evaluate_repeatedly. Several data sets are several hooks of other names.
 *
 * It happens at the boundary: the first time so many steps or seconds after the session's creation (with a trigger's
 * `first`, after the first run), which by steps rides in the checkpoint, so that a resumed run evaluates when the run that
 * it resumes would have. Hooks behind it in the list see what it says in the same boundary (early_stopping, a
 * checkpoint_saver with a metric). Its runs fire no hooks. A stop that somebody else asks for before the last batch (a
 * signal, another thread) abandons it: nothing is told then, and whoever resumes evaluates when the next one is due. One
 * by a hook of the same run, as at the last step, does not.
 *
 *     hs_evaluation(.metrics = HS_NAMES("accuracy", "loss"), .reset_ops = HS_NAMES("clear"), .eval_op = "eval_batch",
 *                   .every_n_steps = 500, .n_batches = 40)
 *
 * logs "eval at step 500: accuracy = 0.91, loss = 0.3 (40 batches, 1.2 s)". */

HS_BEGIN_DECLS

/* Evaluates in the program's own way, and calls hs_raw_session_set_metric with what it finds. It may run the session.
 * HS_OUT_OF_RANGE is its good end, too; a failure is the hook's. */
typedef hs_code (*hs_evaluate_fn)(void *user, hs_raw_session *session, int64_t step, hs_error *err);

typedef struct hs_evaluation_options {
    size_t size;
    const char *name; /* begins the names of the metrics: "NAME/METRIC". NULL: "eval" */
    /* tensors, each a number: fetched in one run, after the last batch. metrics or evaluate is required */
    const char *const *metrics;
    const char *const *reset_ops; /* run once before the first batch, to clear what the metrics gather. NULL: none */
    const char *eval_op;          /* evaluates one batch. NULL: the run of the metrics is all */
    hs_evaluate_fn evaluate;      /* instead of metrics, ops and writers */
    void *user;
    /* steps between evaluations. One of every_n_steps, every_n_secs, trigger and at_end is required */
    int64_t every_n_steps;
    double every_n_secs;       /* seconds between evaluations, instead of every_n_steps */
    const hs_trigger *trigger; /* instead of every_n_steps and every_n_secs. Its `last` has the effect of at_end */
    bool at_end;               /* evaluate at the end of the session too, if that step was not evaluated yet */
    unsigned char reserved[7];
    /* Runs of eval_op. 0 and HS_NEVER: until HS_OUT_OF_RANGE, which ends the evaluation in any case, but not the training.
     * If it comes instead of the first batch, the log has a warning and nothing is reported */
    int64_t n_batches;
    const char *summary_dir;           /* for scalars NAME/METRIC at the global step. NULL: none */
    hs_summary_writer *summary_writer; /* instead of summary_dir. Borrowed */
    /* A hook of hs_moving_average in the same session: its averages are in the place of the variables during the
     * evaluation. The struct is copied. NULL: the variables are evaluated */
    const hs_hook *moving_average;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_evaluation_options;

/* Threads: any. The session's thread calls `evaluate`. */
HS_API hs_hook hs_evaluation_hook(const hs_evaluation_options *options);
#define hs_evaluation(...) hs_evaluation_hook(HS_OPTIONS(hs_evaluation_options, __VA_ARGS__))

HS_END_DECLS

#endif
