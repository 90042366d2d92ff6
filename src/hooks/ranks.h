/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_RANKS_H
#define HS_HOOKS_RANKS_H

#include <hooksess/hook.h>

/* Calls that built-in hooks make in a group of processes. Without a group, the rank is 0, and nothing is sent. */

int32_t hs__session_rank(const hs_raw_session *session);

/* The flags of a hook that writes. Only rank 0 calls it. With `every_rank` all ranks do; then checkpoints hold the state of
 * rank 0. */
static inline uint32_t hs__writer_flags(bool every_rank)
{
    return every_rank ? HS_HOOK_STATE_VARIES : HS_HOOK_CHIEF_ONLY;
}

/* Changes *path, which is allocated by the hook's `env`, to "PATH.rank-00002". No effect on rank 0, if *path is NULL, and
 * if it has this ending already. */
hs_code hs__add_rank(void *hook, const hs_raw_session *session, char **path, hs_error *err);

/* Collective, in a boundary. Returns HS_OK on all ranks, or HS_CANCELLED if another rank has failed. */
hs_code hs__check_ranks(hs_raw_session *session, hs_error *err);
/* Collective, in a boundary. If `wanted` is true on rank 0, copies the `data` of rank 0 to all ranks. Sets *sent to the
 * `wanted` of rank 0. */
hs_code hs__send_from_chief(hs_raw_session *session, bool wanted, void *data, size_t bytes, bool *sent, hs_error *err);

#endif
