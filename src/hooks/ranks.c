/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/ranks.h"

#include "base/env.h"
#include "base/text.h"
#include "hooks/make.h"

#include <stdio.h>
#include <string.h>

hs_code hs__add_rank(void *hook, const hs_raw_session *session, char **path, hs_error *err)
{
    const hs_env *env = &((hs__hook_base *)hook)->env;
    int32_t rank = hs_raw_session_rank(session);
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
