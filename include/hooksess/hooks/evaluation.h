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
 *     hs_evaluation(.every_n_steps = 500, .reset_ops = HS_NAMES("clear"), .eval_op = "eval_batch", .n_batches = 40,
 *                   .metrics = HS_NAMES("accuracy", "loss"))
 *
 * logs "eval at step 500: accuracy = 0.91, loss = 0.3 (40 batches, 1.2 s)". */

HS_BEGIN_DECLS

/* Evaluates in the program's own way, and calls hs_raw_session_set_metric with what it finds. It may run the session.
 * HS_OUT_OF_RANGE is its good end, too; a failure is the hook's. */
typedef hs_code (*hs_evaluate_fn)(void *user, hs_raw_session *session, int64_t step, hs_error *err);

typedef struct hs_evaluation_options {
    size_t size;
    int64_t every_n_steps; /* at most one of the two, or of the two and trigger; neither needs at_end */
    double every_n_secs;
    const char *name;             /* NULL: "eval". Copied, like all names */
    const char *const *metrics;   /* tensors, each a number: fetched in one run, after the last batch */
    const char *const *reset_ops; /* run first, once (clear what the metrics gather); NULL: none */
    const char *eval_op;          /* one batch; NULL: the metrics' own run is all there is */
    int64_t n_batches; /* 0 and HS_NEVER: until HS_OUT_OF_RANGE. That ends the evaluation in any case, not the training; if
                        * it comes instead of the first batch, there is a warning and nothing is told */
    const char *summary_dir;           /* at most one of the two, for scalars NAME/METRIC at the global step */
    hs_summary_writer *summary_writer; /* must outlive the session */
    hs_evaluate_fn evaluate;           /* instead of metrics, ops and writers */
    void *user;
    const hs_env *env; /* the hook's own memory; NULL: malloc */
    bool at_end;       /* at the session's end, too, if the step then was not evaluated yet */
    unsigned char reserved[7];
    const hs_trigger *trigger; /* instead of every_n_steps or every_n_secs; copied. `last` is at_end */
} hs_evaluation_options;

/* Options that make no sense, or no memory, are reported by the hook's begin. */
HS_API hs_hook hs_evaluation_hook(const hs_evaluation_options *options);
#define hs_evaluation(...) hs_evaluation_hook(HS_OPTIONS(hs_evaluation_options, __VA_ARGS__))

HS_END_DECLS

#endif
