/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_RANKS_H
#define HS_HOOKS_RANKS_H

#include <hooksess/hook.h>

/* What built-in hooks do for each rank of a group. */

/* The flags of a hook that writes. Only rank 0 calls it. With `every_rank` all ranks do; then checkpoints hold the state of
 * rank 0. */
static inline uint32_t hs__writer_flags(bool every_rank)
{
    return every_rank ? HS_HOOK_STATE_VARIES : HS_HOOK_CHIEF_ONLY;
}

/* Changes *path, which is allocated by the hook's `env`, to "PATH.rank-00002". No effect on rank 0, if *path is NULL, and
 * if it has this ending already. */
hs_code hs__add_rank(void *hook, const hs_raw_session *session, char **path, hs_error *err);

#endif
