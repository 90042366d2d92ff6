/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_BACKGROUND_H
#define HS_CHECKPOINT_BACKGROUND_H

#include "checkpoint/save.h"

/* Background saves: a thread of the saver writes a snapshot, one at a time. During a save the saver belongs to the thread:
 * all other functions of the saver wait for it first, except hs_saver_poll and a save that is skipped or replaces it.
 *
 * The session's thread copies variables and states (hs__snapshot_take). Large variables are copied by several threads, or
 * with `overlap` later by the saver's thread, unless a step is about to change them. Later the session's thread polls the
 * result, and records it. The saver's thread makes all steps of saver.h, and sets the result. Further threads write one
 * data file each, if there are several (shards.c). A file of more than 2 MiB has one that writes while the other fills the
 * buffers (base/stream.c). */

typedef struct hs__background hs__background;

/* Waits for a save in progress, skips the new one or replaces it, by the policy, which applies to saves in the directory of
 * `prefix`: CANCELLED if the new save is skipped. Returns the error of a previous save in this directory that was not
 * polled. */
hs_code hs__background_begin(hs_saver *saver, const char *prefix, hs_busy_policy policy, hs_error *err);
/* After hs__background_begin: copies the variables and states of the list, or what must be copied immediately, and starts
 * the save. */
hs_code hs__background_save(const hs__save_request *request, hs__save_list *list, hs_error *err);
/* True in a forked child, if the thread is its parent's. The saver may be in the middle of a save. */
bool hs__background_is_inherited(const hs_saver *saver);
/* Cancels the save in progress in the directory of `prefix`, unless it replaces a cancelled one, and waits until no save is
 * in progress. The save may end before it takes notice: then it has a result. The next save replaces a cancelled one. */
void hs__background_cancel(hs_saver *saver, const char *prefix);
/* Waits until no save is in progress. */
void hs__background_wait(const hs_saver *saver);
/* Waits, and ends the thread. */
void hs__background_free(hs_saver *saver);

#endif
