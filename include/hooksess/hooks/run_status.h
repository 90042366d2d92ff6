/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_RUN_STATUS_H
#define HOOKSESS_HOOKS_RUN_STATUS_H

#include <hooksess/hook.h>

/* Tells outsiders (a scheduler, a script, whoever comes back in the morning) how far the training is, and how it ended, in
 * two files beside the checkpoints. Beyond TensorFlow. A training session has this hook by itself
 * (hs_training_options.no_run_status).
 *
 * status.json, when the session is created, before its first run and each that follows a save which became durable, and at
 * the end:
 *   step               the global step, as of then; -1 where it cannot be read
 *   last_durable_step  the newest step that a crash would leave; -1: none
 *   phase              "init" after the creation, "step" while it trains, "end"
 *   time               of writing it, as in 2024-05-01T12:30:00.250Z
 *   pid, host          of the process
 *   save_secs          how long a save takes (hs_raw_session_save_secs); 0: not known
 *
 * outcome.json, when the session is closed, however it ended (also one that could not be opened, where the directory is
 * there):
 *   reason             as hs_reason_name says it
 *   interrupted        true: stopped before it was done
 *   signal             the number of the one that ended it; 0: none
 *   step, last_saved_step, hook   as in hs_outcome
 *   error              null, or {"code", "number", "message"}: the first there was
 *   exit_code          hs_outcome_exit_code
 *   failures           [{"hook", "failures", "first_step", "last_step", "muted", "last": {"code", "number", "message"}}]:
 *                      what failed, and was got over (hs_raw_session_failure), as of this hook's close
 *   time, pid, host
 * What fails after it is written, when writers of event files and the backend's session are closed, is not in it.
 *
 * An outcome.json of an earlier run is removed at the hook's begin: while one is there, the run is over. One that is
 * missing where status.json's process is gone tells of a crash. While another process saves to the directory, neither file
 * is touched.
 *
 * Both are written aside and renamed: whoever looks sees the old one or the whole new one. Only outcome.json, and the
 * status at the end, are synced to the disk, for which a step would have to wait. A file that cannot be written is a
 * warning, once, and counted among the outcome's failures; the training goes on. An earlier run's save_secs are read, and
 * said to the session before its first save.
 *
 * List it first: its close is then called last. A step with nothing new costs a few nanoseconds. */

HS_BEGIN_DECLS

typedef struct hs_run_status_options {
    size_t size;
    const char *status_dir; /* (required) created if it is missing */
    const hs_env *env;      /* NULL: the system's. Copied */
} hs_run_status_options;

/* Threads: any. */
HS_API hs_hook hs_run_status_hook(const hs_run_status_options *options);
#define hs_run_status(...) hs_run_status_hook(HS_OPTIONS(hs_run_status_options, __VA_ARGS__))

HS_END_DECLS

#endif
