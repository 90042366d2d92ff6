/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <string.h>

uint64_t hs__hash(uint64_t hash, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    do /* the zero at the end too, so that "a" "bc" and "ab" "c" differ */
        hash = (hash ^ *at) * 1099511628211u;
    while (*at++);
    return hash;
}

void hs__map_init(hs__map *map, const hs_env *env)
{
    *map = (hs__map){.env = env};
}

void hs__map_free(hs__map *map)
{
    for (size_t i = 0; i < map->capacity; i++)
        hs__free(map->env, (void *)map->slots[i].name);
    if (map->env)
        hs__free(map->env, map->slots);
    hs__map_init(map, map->env);
}

/* Where the name is, or the empty slot where it would be. The table is never full. */
static struct hs__map_slot *probe(struct hs__map_slot *slots, size_t capacity, const char *name, uint64_t hash)
{
    size_t at = (size_t)hash & (capacity - 1);
    while (slots[at].name && (slots[at].hash != hash || strcmp(slots[at].name, name) != 0))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

size_t hs__map_find(const hs__map *map, const char *name)
{
    if (!map->n)
        return HS__NONE;
    const struct hs__map_slot *slot = probe(map->slots, map->capacity, name, hs__hash(HS__HASH_START, name));
    return slot->name ? slot->value : HS__NONE;
}

static hs_code grow(hs__map *map, hs_error *err)
{
    size_t capacity = map->capacity ? map->capacity * 2 : 16;
    struct hs__map_slot *slots = hs__alloc(map->env, capacity, sizeof *slots);
    if (!slots)
        return hs__no_memory(err, capacity * sizeof *slots, "a table of names");
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].name)
            *probe(slots, capacity, map->slots[i].name, map->slots[i].hash) = map->slots[i];
    hs__free(map->env, map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return HS_OK;
}

hs_code hs__map_add(hs__map *map, const char *name, size_t value, const char **kept, hs_error *err)
{
    hs_code code = map->n >= map->capacity / 2 ? grow(map, err) : HS_OK;
    if (code)
        return code;
    char *copy = hs__strdup(map->env, name);
    if (!copy)
        return hs__no_memory(err, strlen(name) + 1, "a name");
    uint64_t hash = hs__hash(HS__HASH_START, name);
    struct hs__map_slot *slot = probe(map->slots, map->capacity, name, hash);
    *slot = (struct hs__map_slot){copy, hash, value};
    map->n++;
    if (kept)
        *kept = copy;
    return HS_OK;
}
