/* SPDX-License-Identifier: Apache-2.0 */
/* State providers of a raw session: the state that its checkpoints hold in addition to variables. */
#include "backends/raw_session.h"

#include "base/error.h"

#include <string.h>

void hs__state_slot_free(const hs__state_slot *slot, const hs_env *env)
{
    hs__free(env, slot->key);
    hs__free(env, slot->base);
    hs__free(env, slot->identity);
}

char *hs__rank_state_key(const hs_env *env, const char *base, int32_t rank, int32_t rank_count)
{
    return rank_count == 1 ? hs__strdup(env, base) : hs__format(env, "%s/%05d-of-%05d", base, (int)rank, (int)rank_count);
}

hs_code hs__state_slot_init(hs__state_slot *slot, const hs_raw_session *raw, char *key, const hs_state_provider *provider,
                            hs_error *err)
{
    const hs_env *env = &raw->env;
    const bool per_rank = provider->scope == HS_STATE_PER_RANK;
    *slot = (hs__state_slot){.key = per_rank && key ? hs__rank_state_key(env, key, raw->rank, raw->rank_count) : key,
                             .base = per_rank ? key : NULL,
                             .identity = provider->identity ? hs__strdup(env, provider->identity) : NULL,
                             .version = provider->version,
                             .bytes = provider->bytes,
                             .save = provider->save,
                             .load = provider->load,
                             .reshard = provider->reshard,
                             .self = provider->self};
    if (slot->key && (slot->identity || !provider->identity))
        return HS_OK;
    hs__state_slot_free(slot, env);
    return hs__no_memory(err, strlen(provider->name), "a name");
}

hs_code hs__raw_session_reserve_slot(hs_raw_session *raw, const char *key, hs_error *err)
{
    for (size_t i = 0; i < raw->n_states; i++)
        if (strcmp(raw->states[i].key, key) == 0)
            return hs_error_set(err, HS_ALREADY_EXISTS, "two states have the key '%s'; rename one of them", key);
    return hs__reserve(&raw->env, &raw->states, &raw->states_capacity, raw->n_states + 1, sizeof *raw->states, err);
}

void hs__raw_session_add_slot(hs_raw_session *raw, const hs__state_slot *slot)
{
    raw->states[raw->n_states++] = *slot;
}

void hs__raw_session_free_states(hs_raw_session *raw)
{
    for (size_t i = 0; i < raw->n_states; i++)
        hs__state_slot_free(&raw->states[i], &raw->env);
    hs__free(&raw->env, raw->states);
    raw->states = NULL;
    raw->n_states = raw->states_capacity = 0;
}
