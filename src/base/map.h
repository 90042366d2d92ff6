/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_MAP_H
#define HS_BASE_MAP_H

#include "base/env.h"

/* A hash table from names to numbers. Entries are never removed. Each map hashes with its own random key, so that a file
 * cannot contain names that all collide. */
typedef struct hs__map {
    const hs_env *env;
    struct hs__map_slot {
        const char *name; /* the map's copy; NULL: empty */
        uint64_t hash;
        size_t value;
    } * slots; /* `capacity` of them, a power of two */
    size_t n, capacity;
    uint64_t key[2];
} hs__map;

#define HS__NONE SIZE_MAX

void hs__map_init(hs__map *map, const hs_env *env);
void hs__map_free(hs__map *map);
/* The value of a name. HS__NONE: not found. */
size_t hs__map_find(const hs__map *map, const char *name);
/* Adds a name. If the map has it already, its value does not change. `*kept` (may be NULL) is set to the map's copy of it.
 */
hs_code hs__map_add(hs__map *map, const char *name, size_t value, const char **kept, hs_error *err);
/* The same with the first `length` bytes of a text as the name. */
size_t hs__map_find_bytes(const hs__map *map, const char *name, size_t length);
hs_code hs__map_add_bytes(hs__map *map, const char *name, size_t length, size_t value, const char **kept, hs_error *err);

/* Changes the value of a name that the map has. */
void hs__map_set(hs__map *map, const char *name, size_t value);

/* SipHash-1-3. */
uint64_t hs__hash_keyed(const uint64_t key[2], const char *text, size_t bytes);
/* FNV-1a. Continues from an earlier result, or from HS__HASH_START. */
#define HS__HASH_START 14695981039346656037u
uint64_t hs__hash(uint64_t hash, const char *text);

#endif
