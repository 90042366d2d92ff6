/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/ranks.h"

#include "base/env.h"
#include "base/text.h"
#include "hooks/make.h"

#include <stdio.h>
#include <string.h>

int32_t hs__session_rank(const hs_raw_session *session)
{
    const hs_group *group = hs_raw_session_group(session);
    return group ? group->ops->rank(group->self) : 0;
}

hs_code hs__add_rank(void *hook, const hs_raw_session *session, char **path, hs_error *err)
{
    const hs_env *env = &((hs__hook_base *)hook)->env;
    int32_t rank = hs__session_rank(session);
    char ending[32];
    if (!rank || !*path)
        return HS_OK;
    size_t length = strlen(*path), added = (size_t)snprintf(ending, sizeof ending, ".rank-%05d", (int)rank);
    if (length >= added && strcmp(*path + length - added, ending) == 0)
        return HS_OK;
    char *longer = hs_env_alloc(env, length + added + 1);
    if (!longer)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a path");
    memcpy(longer, *path, length);
    memcpy(longer + length, ending, added + 1);
    hs_env_free(env, *path);
    *path = longer;
    return HS_OK;
}

hs_code hs__check_ranks(hs_raw_session *session, hs_error *err)
{
    return hs_raw_session_agree(session, true) ? HS_OK : hs_error_set(err, HS_CANCELLED, "another rank has failed");
}

hs_code hs__send_from_chief(hs_raw_session *session, bool wanted, void *data, size_t bytes, bool *sent, hs_error *err)
{
    const hs_group *group = hs_raw_session_group(session);
    *sent = hs_raw_session_agree(session, wanted && !hs__session_rank(session));
    return *sent && group ? group->ops->broadcast(group->self, data, bytes, 0, err) : HS_OK;
}
