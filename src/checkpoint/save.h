/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_H
#define HS_CHECKPOINT_SAVE_H

#include "checkpoint/saver.h"
#include "checkpoint/snapshot.h"

/* What is saved, and where. */
typedef struct hs__save_request {
    hs__saver_directory *directory; /* of the prefix */
    const char *prefix;
    int64_t step;
    hs_save_options options; /* complete */
    int64_t branch_step;     /* later checkpoints are of an abandoned branch; -1: none are known */
    uint64_t opened;         /* of the session, as in hs__saver_directory */
    int64_t restores;
    const void *session; /* its address */
    uint64_t bytes;      /* of its variables and states */
} hs__save_request;

/* One save, by the protocol in saver.h. */

/* Saves the variables and states of a list. */
hs_code hs__save_session(const hs__save_request *request, const hs__save_list *list, hs_error *err);
/* Saves a snapshot. `cancelled` is called from time to time until the checkpoint exists. If it returns true, the save ends
 * with CANCELLED. */
hs_code hs__save_snapshot(const hs__save_request *request, const hs__snapshot *snapshot, bool (*cancelled)(void *user),
                          void *user, hs_error *err);

#endif
