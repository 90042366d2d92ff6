/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_VERIFY_RESUME_H
#define HOOKSESS_VERIFY_RESUME_H

#include <hooksess/hook.h>

/* Does a run that is resumed go on bit for bit as if it had never stopped? This finds out, and names what does not: state
 * that is in no checkpoint, or does not come back from it as it was.
 *
 *     static hs_code train(void *user, const hs_resume_trial *trial, hs_error *err)
 *     {
 *         struct model *m = user;
 *         hs_session *s = hs_training_session_open(
 *             hs_graph_backend(m->graph),
 *             HS_TRAINING_OPTIONS(.checkpoint_dir = trial->checkpoint_dir, .hooks = HS_HOOKS(trial->hook)), err);
 *         while (!hs_session_should_stop(s) && hs_session_run(s, "train", err) == HS_OK)
 *             continue;
 *         return hs_session_close(s, err).error.code;
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         ...
 *         if (argc > 1 && strcmp(argv[1], "--verify-resume") == 0) {
 *             hs_code code = hs_verify_resume(
 *                 HS_VERIFY_RESUME_OPTIONS(.argv = argv, .steps = 100, .train = train, .user = &model), NULL, &err);
 *             puts(code ? err.message : "a resumed run is the same");
 *             return code != HS_OK;
 *         }
 *
 * The call starts the program three times as a new process, with the same arguments, and waits for it. So no run shares
 * threads, devices or caches with another one. These runs are the trials:
 *
 *   1. The first trial trains from nothing to the last step. It saves two checkpoints: one in the middle, and one of the
 *      step after it.
 *   2. The second and the third trial each resume from one of these checkpoints. (A program that swaps two buffers, one of
 *      which is a variable, is wrong at every second step only.)
 *
 * A trial must reach the same call of hs_verify_resume. There the call does not return: it calls `train` and ends the
 * process by exit(), with status 0 if the trial succeeded and 1 if it failed.
 *
 * The environment variable HOOKSESS_RESUME_TRIAL marks a trial. A wrapper (a script, say) between the two processes must
 * pass it on. The trial removes it from its environment, so that programs that it starts are not trials. A trial also has
 * an open file under descriptor 198. If a call of hs_verify_resume finds that descriptor open and the variable missing, it
 * fails with HS_FAILED_PRECONDITION, and so does the call that waits. Without this check, such a process would start
 * trials, and these would start more. The check fails if the wrapper closes descriptors too, or if the limit of open files
 * is 198 or less.
 *
 * In a trial no signal is blocked, and SIGCHLD, SIGPIPE, SIGINT and SIGTERM have their default actions, whatever the
 * program has set.
 *
 * After each step the checksum of every variable that is saved, of every piece of state (the backend's, the hooks', what
 * was added late) and of the fetches that were asked for is noted, and compared from the first step after the checkpoint
 * on, one step at a time: however long the runs are, the comparison needs no more memory than for the lines of one step.
 * Both must come to the last step: what a run that ends sooner would have done is not known.
 *
 * Threads: any. The process makes one call at a time, and has no session open. */

HS_BEGIN_DECLS

/* One run that is to be made, as the program makes its runs. */
typedef struct hs_resume_trial {
    size_t size;
    /* The session's checkpoint_dir: to be resumed from, and saved to. Give the run no other place */
    const char *checkpoint_dir;
    int64_t last_step; /* the hook below stops the session there */
    hs_hook hook;      /* to be added to the session's hooks, last of the program's own; not the session's to destroy */
} hs_resume_trial;

/* Makes the run, until hs_session_should_stop, and returns what came of it: HS_OK, or an error's code with its message. The
 * strings are good during the call. */
typedef hs_code (*hs_resume_train_fn)(void *user, const hs_resume_trial *trial, hs_error *err);

typedef struct hs_verify_resume_options {
    size_t size;
    char *const *argv;          /* (required) main's: what the program is started with again */
    hs_resume_train_fn train;   /* (required) */
    void *user;                 /* for train */
    int64_t steps;              /* (required) the last step, at least 2 */
    int64_t middle;             /* the only step to resume from, from 1 to steps - 1; 0: half of steps, and the next */
    const char *const *fetches; /* tensors to be compared too, fetched in each run; ended by NULL */
    const char *const *ignore;  /* what may differ (the time used, say): names as the report has them; ended by NULL */
    const char *scratch_dir;    /* a directory is made in it, on the system's own file system; NULL: $TMPDIR, or /tmp */
    const char *program;        /* what to start; NULL: the file of this process (/proc/self/exe), or else argv[0] */
    const hs_env *env;          /* memory, log, and files, which must be those of scratch_dir. NULL: the system's. Copied */
} hs_verify_resume_options;
#define HS_VERIFY_RESUME_OPTIONS(...) HS_OPTIONS(hs_verify_resume_options, __VA_ARGS__)

/* What was found. Names are as in the checkpoint ("hooksess/state/NAME", "hooksess/hook/NAME" for state), cut if they are
 * very long, and "" where nothing of the kind differs. */
typedef struct hs_resume_report {
    size_t size;
    int64_t middle;     /* the step of the checkpoint that differs, or of the first */
    int64_t compared;   /* so many steps after it were the same in both runs, to the bit */
    int64_t step;       /* the first that was not; -1: none */
    int64_t different;  /* so many things were different in that step; 0: only one of the runs has made it */
    char state[256];    /* the first piece of state that differs in that step */
    char variable[256]; /* the first variable that differs in that step */
    char fetch[256];    /* the first fetch that differs in that step */
} hs_resume_report;

/* HS_OK: they are the same, and the trials' directory has been removed. HS_DATA_LOSS: they are not, and the message says at
 * which step and in what, as the report does. Otherwise a trial could not be made: its own code and message, HS_ABORTED if
 * it was killed or ended without a word, HS_FAILED_PRECONDITION if it did not do as above: a run that ended before the last
 * step, and at which. Where somebody else takes the trial's exit status (SIGCHLD is ignored, or a thread waits for whatever
 * ends), what the trial has left in the directory counts alone. In all these cases the directory stays, to be looked at,
 * and the message names it. HS_INVALID_ARGUMENT: options that make no sense. `report` may be NULL; otherwise start from
 * HS_INIT(hs_resume_report). The trials inherit the directory of the process, its open files and its environment. */
HS_API hs_code hs_verify_resume(const hs_verify_resume_options *options, hs_resume_report *report, hs_error *err);

HS_END_DECLS

#endif
