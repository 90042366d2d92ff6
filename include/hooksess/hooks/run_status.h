/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_RUN_STATUS_H
#define HOOKSESS_HOOKS_RUN_STATUS_H

#include <hooksess/hook.h>

/* Writes status.json and outcome.json: for schedulers, scripts and people, the state of a training and its end. A training
 * session with a checkpoint_dir has this hook already (hs_training_options.no_run_status). Beyond TensorFlow.
 *
 *     hs_hook hook = hs_run_status(.status_dir = "run");
 *
 * status.json is written when the session is created, before its first run, before the run after each durable save, and at
 * the end:
 *
 *   step               the global step; -1: it cannot be read
 *   last_durable_step  the newest step that survives a crash; -1: none
 *   phase              "init" after the creation, "step" during the training, "end"
 *   save_secs          duration of a save (hs_raw_session_save_secs); 0: unknown
 *   time, pid, host    of this write, as in 2024-05-01T12:30:00.250Z, and of the process
 *
 * outcome.json is written when the session is closed, also after failures. If the session could not be opened, it is
 * written only to an existing directory:
 *
 *   reason                 as hs_reason_name() returns
 *   interrupted            true: stopped before the training was complete
 *   signal                 number of the signal that ended the training; 0: none
 *   step, last_saved_step  as in hs_outcome
 *   hook                   as in hs_outcome
 *   error                  null, or {"code", "number", "message"} of the first error
 *   cause_rank             the rank whose failure ended the training. -1: none, or no group
 *   exit_code              hs_outcome_exit_code()
 *   failures               failures that the training survived (hs_raw_session_failure): a list of
 *                          {"hook", "failures", "first_step", "last_step", "muted", "last": {"code", "number", "message"}}
 *   time, pid, host        as above
 *
 * Errors of closing event files and the backend's session come later and are not included.
 *
 * `begin` removes an earlier outcome.json. So outcome.json means that the run is over. If it is missing and the process of
 * status.json has ended, that process crashed. While another process or session saves to the directory, neither file is
 * changed.
 *
 * The files are replaced atomically. Only outcome.json and the last status are synced to the disk. If a file cannot be
 * written, the log gets one warning, and hs_raw_session_failure() counts it; training continues. save_secs of an earlier
 * run is used until the first save. List this hook first: its `close` is then called last.
 *
 * In a group only rank 0 calls the hook. The outcomes of all ranks are equal. If the engine of the group ends the process
 * (group.h) after the session was created, the session writes outcome.json, without the failures.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_run_status_options {
    size_t size;
    const char *status_dir; /* (required) created if missing */
} hs_run_status_options;

HS_API hs_hook hs_run_status_hook(const hs_run_status_options *options);
#define hs_run_status(...) hs_run_status_hook(HS_OPTIONS(hs_run_status_options, __VA_ARGS__))

HS_END_DECLS

#endif
