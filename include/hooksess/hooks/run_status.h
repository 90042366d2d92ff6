/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_RUN_STATUS_H
#define HOOKSESS_HOOKS_RUN_STATUS_H

#include <hooksess/hook.h>

/* Writes status.json and outcome.json, the state of a training and its end (docs/file-formats.md). A training session
 * with a checkpoint_dir already has it (no_run_status). Beyond TensorFlow.
 *
 *     hs_hook hook = hs_run_status(.status_dir = "run");
 *
 * status.json is written when the session is created, before its first run, before the run after each durable save, and
 * at the end. Until the first save, save_secs is that of an earlier run.
 *
 * outcome.json is written when the session is closed, also after failures. If the session could not be opened, it is
 * written only to an existing directory. It lacks errors of closing event files and the backend's session.
 *
 * `begin` removes an earlier outcome.json. If outcome.json exists, the run is over. If not, and the process in
 * status.json has ended, it crashed. While another process or session saves to the directory, neither file is changed.
 *
 * Files are replaced atomically. Only outcome.json and the last status are synced. A failed write does not end the
 * training: the log gets a warning for the first in a row, and hs_raw_session_failure() counts each. List this hook first:
 * its `close` is then called last.
 *
 * In a group only rank 0 calls the hook. If the engine of the group ends the process (group.h) after the session was
 * created, the session writes outcome.json, without the failures.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_run_status_options {
    size_t size;
    const char *status_dir; /* (required) */
} hs_run_status_options;

HS_API hs_hook hs_run_status_hook(const hs_run_status_options *options);
#define hs_run_status(...) hs_run_status_hook(HS_OPTIONS(hs_run_status_options, __VA_ARGS__))

HS_END_DECLS

#endif
