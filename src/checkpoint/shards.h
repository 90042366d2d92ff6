/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SHARDS_H
#define HS_CHECKPOINT_SHARDS_H

#include "checkpoint/commit.h"
#include "checkpoint/rank_variables.h"
#include "checkpoint/save_list.h"

enum { HS__MOST_SHARDS = 64 };

/* Writes the temporary data files and the temporary index of a new checkpoint, whose files have their names, and syncs
 * them. Returns FAILED_PRECONDITION for variables that are not finite, unless they are allowed; CANCELLED as
 * hs__new_checkpoint_check_cancel; DATA_LOSS if a variable differs on another rank (`sums`, as in hs__save_request). */
hs_code hs__shards_write(const hs__new_checkpoint *files, const hs__item_source *source, hs__rank_sums *sums,
                         bool allow_nonfinite, hs_error *err);

#endif
