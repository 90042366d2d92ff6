/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_EVALUATION_LOOP_H
#define HOOKSESS_EVALUATION_LOOP_H

#include <hooksess/session.h>

/* Evaluating checkpoints: one, or each that comes to a directory that another process trains in. TensorFlow: evaluate_once
 * and evaluate_repeatedly, slim's evaluation_loop.
 *
 * Evaluations read checkpoints and save none: they write nothing but event files, and those to a directory that is named.
 * Runs are of the kind HS_RUN_EVAL; here, hooks whose flags name no kind of run are called for them.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

/* What an evaluation has found. Functions take NULL: an evaluation that failed. */
typedef struct hs_evaluation_result hs_evaluation_result;

HS_API void hs_evaluation_result_free(hs_evaluation_result *metrics);
/* By name; NaN: there is none of that name. */
HS_API double hs_evaluation_result_value(const hs_evaluation_result *metrics, const char *name);
/* In their order, the means first; NULL past the last. */
HS_API const char *hs_evaluation_result_name(const hs_evaluation_result *metrics, size_t index);
/* The global step of what was evaluated; -1: not known. */
HS_API int64_t hs_evaluation_result_step(const hs_evaluation_result *metrics);
/* The checkpoint that was evaluated, as a path without ending. */
HS_API const char *hs_evaluation_result_checkpoint(const hs_evaluation_result *metrics);
/* How many runs of eval_op it took. */
HS_API int64_t hs_evaluation_result_batches(const hs_evaluation_result *metrics);

typedef struct hs_evaluate_once_options {
    size_t size;
    const char *checkpoint_prefix; /* this one. Exactly one of checkpoint_prefix and checkpoint_dir is required */
    const char *checkpoint_dir;    /* the newest checkpoint in it, instead of checkpoint_prefix */
    const char *eval_op;           /* one batch; NULL: the run of the metrics is all there is */
    /* Batches. 0 and HS_NEVER: no limit. HS_OUT_OF_RANGE is the normal end of an evaluation in any case */
    int64_t steps;
    const char *const *means;   /* numbers that are fetched with each batch, and averaged over them; ended by NULL */
    const char *const *metrics; /* numbers that are fetched in one run, after the last batch; ended by NULL */
    const char *summary_dir; /* for scalars, under the metrics' names, at the global step; made when missing; NULL: none */
    const hs_hook *hooks;    /* taken, also when it fails */
    hs_scaffold *scaffold;   /* NULL: the default. Stays the caller's */
    const hs_restore_options *restore_options;
    hs_summary_writer *summary_writer; /* instead of summary_dir; flushed after each evaluation; stays the caller's */
} hs_evaluate_once_options;
#define HS_EVALUATE_ONCE_OPTIONS(...) HS_OPTIONS(hs_evaluate_once_options, __VA_ARGS__)

/* The caller's to free. NULL after a failure. HS_NOT_FOUND: there is no checkpoint. One that is deleted before it was
 * restored, because a newer one has come to checkpoint_dir, gives way to that; afterwards it is not needed. An evaluation
 * that comes to the end of the input before its first batch is HS_FAILED_PRECONDITION. */
HS_API hs_evaluation_result *hs_evaluate_once(hs_backend backend, const hs_evaluate_once_options *options, hs_error *err);

/* Told of each evaluation; the metrics are the loop's. HS_STOP ends the loop well, any other failure with that. */
typedef hs_code (*hs_evaluation_done_fn)(void *user, const hs_evaluation_result *metrics, hs_error *err);

typedef struct hs_evaluation_loop_options {
    size_t size;
    /* (required) what to do with each: without a checkpoint_prefix; checkpoint_dir is where they come to. The hooks are
     * begun anew for each, and destroyed at the end; one event file in summary_dir has all evaluations */
    const hs_evaluate_once_options *once;
    hs_evaluation_done_fn evaluated; /* NULL: nobody is told */
    void *user;
    double timeout_secs;     /* without a new checkpoint, it is over; 0: 600; HS_NEVER: no limit */
    double min_wait_secs;    /* from the beginning of one evaluation to that of the next; 0: none */
    int64_t max_evaluations; /* 0 and HS_NEVER: no limit */
} hs_evaluation_loop_options;
#define HS_EVALUATION_LOOP_OPTIONS(...) HS_OPTIONS(hs_evaluation_loop_options, __VA_ARGS__)

/* Evaluates the newest checkpoint whenever it is another than the one before: none twice. One that is deleted before it was
 * restored is passed over, with a line in the log. *evaluations (may be NULL) is how many were made. HS_OK: it came to
 * max_evaluations, or `evaluated` had enough. HS_DEADLINE_EXCEEDED: no new checkpoint came in time, which is how it ends
 * when the training has. */
HS_API hs_code hs_evaluation_loop(hs_backend backend, const hs_evaluation_loop_options *options, int64_t *evaluations,
                                  hs_error *err);

HS_END_DECLS

#endif
