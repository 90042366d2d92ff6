/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_EVALUATION_LOOP_H
#define HOOKSESS_EVALUATION_LOOP_H

#include <hooksess/session.h>

/* Evaluates checkpoints: one, or each new one of another process's training. Saves no checkpoint. TensorFlow:
 * evaluate_once, evaluate_repeatedly.
 *
 *     hs_evaluation_result *result = hs_evaluate_once(
 *         backend, HS_EVALUATE_ONCE_OPTIONS(.checkpoint_dir = "run", .metrics = HS_NAMES("accuracy")), &err);
 *     printf("accuracy %g\n", hs_evaluation_result_value(result, "accuracy"));
 *     hs_evaluation_result_free(result);
 *
 * Runs have the kind HS_RUN_EVAL. Hooks whose flags name no kind of run are called for them, too.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* The values of one evaluation. */
typedef struct hs_evaluation_result hs_evaluation_result;

HS_API void hs_evaluation_result_free(hs_evaluation_result *metrics);
/* Returns the value of a metric. NaN: unknown name. */
HS_API double hs_evaluation_result_value(const hs_evaluation_result *metrics, const char *name);
/* Returns the names: first the means, then the metrics. NULL after the last. */
HS_API const char *hs_evaluation_result_name(const hs_evaluation_result *metrics, size_t index);
/* Return the global step (-1: unknown), the checkpoint's prefix, and the number of batches. */
HS_API int64_t hs_evaluation_result_step(const hs_evaluation_result *metrics);
HS_API const char *hs_evaluation_result_checkpoint(const hs_evaluation_result *metrics);
HS_API int64_t hs_evaluation_result_batches(const hs_evaluation_result *metrics);

typedef struct hs_evaluate_once_options {
    size_t size;
    const char *checkpoint_prefix;             /* set either this or checkpoint_dir */
    const char *checkpoint_dir;                /* evaluates its newest checkpoint */
    const char *eval_op;                       /* evaluates one batch. Set at least one of eval_op, means and metrics */
    int64_t steps;                             /* most batches. 0, HS_NEVER: until HS_OUT_OF_RANGE */
    const char *const *means;                  /* tensors of one number, fetched with each batch and averaged */
    const char *const *metrics;                /* tensors of one number, fetched in one run after the last batch */
    const char *summary_dir;                   /* for scalars with the metrics' names at the global step. NULL: none */
    const hs_hook *hooks;                      /* HS_HOOKS(...) */
    hs_scaffold *scaffold;                     /* NULL: the default */
    const hs_restore_options *restore_options; /* NULL: restores everything */
} hs_evaluate_once_options;
#define HS_EVALUATE_ONCE_OPTIONS(...) HS_OPTIONS(hs_evaluate_once_options, __VA_ARGS__)

/* Restores a checkpoint in a new session, runs the evaluation, logs the result, and closes the session. If a checkpoint in
 * checkpoint_dir is deleted before it is restored, the newest remaining one is used.
 *
 * HS_NOT_FOUND: no checkpoint exists. HS_FAILED_PRECONDITION: the input ended before the first batch. */
HS_API hs_evaluation_result *hs_evaluate_once(hs_backend backend, const hs_evaluate_once_options *options, hs_error *err);

/* Receives each result, valid during the call. HS_STOP ends the loop normally, any other code with that error. */
typedef hs_code (*hs_evaluation_done_fn)(void *user, const hs_evaluation_result *metrics, hs_error *err);

typedef struct hs_evaluation_loop_options {
    size_t size;
    /* (required) with checkpoint_dir. Each evaluation calls the hooks from `begin` to `close`. One event file in
     * summary_dir receives all evaluations */
    const hs_evaluate_once_options *once;
    hs_evaluation_done_fn evaluated;
    void *user;
    double timeout_secs;     /* seconds to wait for a new checkpoint. 0: 600. HS_NEVER: no limit */
    double min_wait_secs;    /* least seconds between the starts of two evaluations, at most 1e9. 0: none */
    int64_t max_evaluations; /* 0, HS_NEVER: no limit */
} hs_evaluation_loop_options;
#define HS_EVALUATION_LOOP_OPTIONS(...) HS_OPTIONS(hs_evaluation_loop_options, __VA_ARGS__)

/* Waits for new checkpoints and evaluates the newest, each at most once. A checkpoint that is deleted before it is restored
 * is skipped and logged. *evaluations, if not NULL, receives the number of evaluations.
 *
 * HS_DEADLINE_EXCEEDED: no new checkpoint within timeout_secs, as usual after the end of the training. */
HS_API hs_code hs_evaluation_loop(hs_backend backend, const hs_evaluation_loop_options *options, int64_t *evaluations,
                                  hs_error *err);

HS_END_DECLS

#endif
