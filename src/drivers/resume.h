/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_RESUME_H
#define HS_DRIVERS_RESUME_H

#include <hooksess/checkpoint.h>
#include <hooksess/verify_resume.h>

#include "base/buffer.h"
#include "base/files.h"

/* Verifying that a run resumes exactly, from the inside.
 *
 *   verify_resume.c     the program as it was started: its trials, and what came of them
 *   resume_process.c    the process that a trial is made in, as its parent sees it
 *   resume_mark.c       a trial that its order does not reach
 *   resume_trial.c      a trial, in a process of its own
 *   resume_recorder.c   the hook that keeps its record
 *   resume_compare.c    comparing two records
 *
 * The whole run leaves checkpoints of two consecutive runs in its middle, and one trial resumes from each. A program that
 * swaps two buffers is right at every second step: one of the two finds it. If the caller names the middle, it is the only
 * one.
 *
 * What they share lies in one directory: for each trial NAME its model in NAME/, its record in NAME.record and its result
 * in NAME.result. The whole run saves the checkpoints to the models of the others.
 *
 * A record is text, a line for each thing of each step in the order of the steps: "STEP KIND CHECKSUM:BYTES DTYPE SHAPE
 * NAME", where KIND is state, variable or fetch. A result is "CODE MIDDLE MIDDLE MESSAGE", with the steps of the
 * checkpoints; -1: it was not saved. The directory's path is absolute. */

#define HS__RESUME_ORDER "HOOKSESS_RESUME_TRIAL"

enum { HS__TRIAL_WHOLE, HS__TRIAL_RESUMED, HS__TRIAL_RESUMED_NEXT, HS__TRIALS };
enum { HS__MIDDLES = 2 };

/* What a trial is told by its parent, as "NAME MIDDLE DIRECTORY". */
typedef struct hs__resume_order {
    const char *directory;
    int trial;
    int64_t middle, last_step; /* the step to resume from, or to save the first checkpoint of */
} hs__resume_order;

static inline const char *hs__resume_name(int trial)
{
    static const char *const names[HS__TRIALS] = {"whole", "resumed", "resumed-next"};
    return names[trial];
}

/* A process started for a trial that does not find its order would take itself for the program as it was started, and
 * start trials without end. So it inherits, beside the order, a file that says what it is, under a number that is its own.
 * Where there is an environment but no such number, or somebody closes what he does not know, there is nothing. */
#define HS__RESUME_MARK 198

/* Makes the file and opens it; `descriptor` is the caller's to close. */
hs_code hs__resume_mark_make(const hs_env *env, const char *directory, int *descriptor, hs_error *err);
/* Can a process of this one's limits have that number? */
bool hs__resume_mark_fits(void);
/* In the parent: has a process found the mark and no order? */
bool hs__resume_mark_is_lost(int descriptor);
/* FAILED_PRECONDITION in a process that was started for a trial, for which it leaves word. */
hs_code hs__resume_mark_check(hs_error *err);
/* In a trial: what it starts is none. */
void hs__resume_mark_keep(void);

/* What came of a process. */
typedef struct hs__resume_end {
    bool known; /* false: somebody else has taken the status */
    int status;
} hs__resume_end;

/* Starts the program with `order` ("VARIABLE=...") in its environment and `mark` as its mark, and waits for its end. */
hs_code hs__resume_run(const hs_verify_resume_options *options, const hs_env *env, char *order, int mark,
                       hs__resume_end *end, hs_error *err);

/* The hook. */
typedef struct hs__recorder {
    const hs_env *env;
    const hs__resume_order *order;
    const char *const *fetches; /* NULL: none */
    hs_run_args wants;
    const char *const *models_to_leave; /* the prefixes of the checkpoints in the middle */
    hs_saver *saver;                    /* saves them, as the session's would */
    hs__buffer fetched, line;           /* of the last run; of the step */
    hs__file file;
    hs_host_copy copy;
    bool begun;                   /* the hook was added to a session */
    int64_t last;                 /* the last step that was recorded; -1: none */
    int64_t middles[HS__MIDDLES]; /* the steps of the checkpoints that were saved; -1: none */
    size_t n_left;                /* how many were saved */
    hs_error failure;             /* the session's outcome, if it failed */
} hs__recorder;

/* `record` is the path of its file. What is missing afterwards is set up when the hook begins. */
hs_code hs__recorder_open(hs__recorder *recorder, const hs_env *env, const hs__resume_order *order,
                          const char *const *fetches, const char *record, const char *const *models_to_leave,
                          hs_error *err);
hs_code hs__recorder_close(hs__recorder *recorder, hs_error *err);
hs_hook hs__recorder_hook(hs__recorder *recorder);

/* Makes the trial and ends the process. INVALID_ARGUMENT if what the environment variable says is no order. */
hs_code hs__resume_trial(const hs_verify_resume_options *options, const hs_env *env, const char *order, hs_error *err);

/* Compares the steps after report->middle and fills in the rest of the report. */
hs_code hs__resume_compare(const hs_env *env, const char *whole, const char *resumed, const char *const *ignore,
                           hs_resume_report *report, hs_error *err);

#endif
