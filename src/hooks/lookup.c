/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/lookup.h"

#include <string.h>

const hs_env *hs__session_env(const hs_raw_session *session)
{
    return hs_backend_env(hs_raw_session_backend(session));
}

bool hs__find_variable(hs_backend backend, const char *name, size_t *index, hs_variable *variable)
{
    for (*index = 0; hs_backend_variable(backend, *index, variable); ++*index)
        if (strcmp(variable->name, name) == 0)
            return true;
    return false;
}

hs_saver *hs__find_saver(hs_backend backend, hs_saver *given, hs_scaffold *scaffold, size_t *n_items)
{
    const void *item = NULL;
    hs_saver *saver = given ? given : hs_scaffold_fields(scaffold)->saver;
    if (saver)
        return saver;
    hs_backend_collection_item(backend, HS_SAVERS, 0, &item);
    for (*n_items = 0; hs_backend_collection_item(backend, HS_SAVERS, *n_items, NULL);)
        ++*n_items;
    return *n_items == 1 ? (hs_saver *)item : NULL;
}
