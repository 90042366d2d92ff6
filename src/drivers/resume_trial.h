/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_RESUME_TRIAL_H
#define HS_DRIVERS_RESUME_TRIAL_H

#include <hooksess/checkpoint.h>
#include <hooksess/training_session.h>

#include "base/buffer.h"
#include "base/files.h"

/* Trials of a resume, in the process of the program that trains. The command `hooksess verify-resume`
 * (src/tool/verify_resume.c) starts the program once for each trial and compares the records of the trials.
 *
 *   resume_trial.c     runs the trial that the environment variable names: redirects its directories, ends the process
 *   trial_recorder.c   the hook that records every step
 *
 * The variable is HOOKSESS_RESUME_TRIAL="NAME FIRST LAST END FETCHES DIRECTORY":
 *
 *   NAME       name of the trial. "whole" trains in the directory whole/, all others in run/, one after the
 *              other. They save a checkpoint at their last step.
 *   FIRST      the global step that the trial must resume from; 0: it begins before LAST
 *   LAST       the step at which the trial ends
 *   END        how it ends: "kill", in the boundary of this step; "stop", as by a signal: the loop ends, and the session
 *              is closed
 *   FETCHES    names of tensors to record in addition to the graph's values, with commas between them; "-": none
 *   DIRECTORY  the trials' directory, an absolute path
 *
 * A trial writes to DIRECTORY:
 *
 *   whole/, run/                       in place of the program's checkpoint_dir
 *   whole.summaries/, run.summaries/   in place of the program's summary_dir
 *   NAME.record   lines for each step: "STEP KIND CHECKSUM:BYTES DTYPE SHAPE VALUE NAME". KIND is state,
 *                 variable or value. VALUE is the number if the tensor has one element, or "x" and its bytes in hexadecimal
 *                 if they are at most HS__TRIAL_BYTES, else "-". State of hooks with HS_HOOK_STATE_VARIES has no line.
 *   NAME.result   the end of the trial: "CODE STEP MESSAGE" with the last step that was recorded; -1: none
 *
 * The first training session of the process is recorded. After the last step ("kill"), or when this session is closed, the
 * process writes the result and ends itself by SIGKILL, so that the program does not continue after the training. */

#define HS__TRIAL_VARIABLE "HOOKSESS_RESUME_TRIAL"

/* The limits of the bytes of one tensor, and of all bytes in a record. */
enum { HS__TRIAL_BYTES = 8 << 10, HS__TRIAL_ALL_BYTES = 64 << 20 };

typedef struct hs__trial hs__trial;

/* Sets *trial to NULL if the environment variable HOOKSESS_RESUME_TRIAL is not set. Otherwise sets the directories in
 * `options` to the trial's. HS_INVALID_ARGUMENT: the variable is malformed. HS_FAILED_PRECONDITION: a trial of this session
 * is impossible, or another session is already recorded. A trial lives as long as the process. */
hs_code hs__trial_begin(hs__trial **trial, hs_training_options *options, const hs_env *env, hs_error *err);
hs_hook hs__trial_hook(hs__trial *trial);
/* Writes the result and ends the process. `error` has the code HS_OK if the trial was made. */
void hs__trial_end(void *trial, const hs_error *error);

/* The hook. */
typedef struct hs__recorder {
    const hs_env *env;
    int64_t first, last;                            /* steps, as in the variable */
    const char *const *fetches;                     /* NULL: only the graph's values */
    const char *prefix;                             /* of the checkpoint of the last step; NULL: none */
    bool stops;                                     /* the session is stopped and closed after the last step */
    void (*end)(void *user, const hs_error *error); /* called after the last step, and when the session is closed */
    void *user;

    const char **names; /* of all fetches */
    hs_run_args wants;
    hs__buffer fetched, line; /* lines of the last run's values; all lines of the step */
    size_t bytes_written;     /* of tensors, in hexadecimal */
    hs__file file;
    hs_host_copy copy;
    int64_t recorded; /* the last step that was recorded; -1: none */
} hs__recorder;

/* Creates the record, a file at `path`. The caller has set the fields up to `user`. */
hs_code hs__recorder_open(hs__recorder *recorder, const char *path, hs_error *err);
hs_code hs__recorder_close(hs__recorder *recorder, hs_error *err);
/* The hook of a recorder, which the session does not free. */
hs_hook hs__recorder_hook(hs__recorder *recorder);

#endif
