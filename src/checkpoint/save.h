/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_H
#define HS_CHECKPOINT_SAVE_H

#include "checkpoint/rank_variables.h"
#include "checkpoint/save_list.h"
#include "checkpoint/saver.h"

/* Where a save goes, and how. */
typedef struct hs__save_request {
    hs__saver_directory *directory; /* of the prefix */
    const char *prefix;
    int64_t step;
    hs_save_options options; /* complete, with a state_file */
    int64_t branch_step;     /* later checkpoints are of an abandoned branch; -1: none are known */
    bool is_own_branch;      /* of this training, which returned to an earlier step. False: of another one */
    uint64_t opened;         /* of the session, as in hs__saver_directory */
    int64_t restores;
    hs_raw_session *session;   /* in a background save only its address is used */
    int64_t bytes;             /* of its variables and states; 0: unknown */
    const atomic_bool *cancel; /* as in hs__new_checkpoint */
    /* At rank 0 of a group: the save fails if what it writes differs from these checksums. They are gathered while the
     * state is copied, or else while it is written. NULL: nothing is compared */
    hs__rank_sums *sums;
} hs__save_request;

/* One save, by the protocol in saver.h: writes the items of the source to a new checkpoint. */
hs_code hs__save(const hs__save_request *request, const hs__item_source *source, hs_error *err);

#endif
