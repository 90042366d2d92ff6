/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_H
#define HS_CHECKPOINT_SAVE_H

#include "checkpoint/saver.h"
#include "checkpoint/snapshot.h"

/* One save, by the protocol in saver.h. `options` are complete. */

/* Saves the variables and states of a list. */
hs_code hs__save_session(hs_saver *saver, const hs__save_list *list, const char *prefix, int64_t step,
                         const hs_save_options *options, hs_error *err);
/* Saves a snapshot. `cancelled` is called from time to time until the checkpoint exists. If it returns true, the save ends
 * with CANCELLED. */
hs_code hs__save_snapshot(hs_saver *saver, const hs__snapshot *snapshot, const char *prefix, int64_t step,
                          const hs_save_options *options, bool (*cancelled)(void *user), void *user, hs_error *err);

#endif
