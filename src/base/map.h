/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_MAP_H
#define HS_BASE_MAP_H

#include "base/env.h"

/* Names to numbers: interning. Entries are never removed. Each map hashes with a random key of its own, so that nobody can
 * choose names, as those of a file, that all want one place. */
typedef struct hs__map {
    const hs_env *env;
    struct hs__map_slot {
        const char *name; /* the map's */
        uint64_t hash;
        size_t value;
    } * slots; /* a power of two of them */
    size_t n, capacity;
    uint64_t key[2];
} hs__map;

#define HS__NONE SIZE_MAX

void hs__map_init(hs__map *map, const hs_env *env);
void hs__map_free(hs__map *map);
/* HS__NONE if it is not there. */
size_t hs__map_find(const hs__map *map, const char *name);
/* Adds a name that is not there; the copy of it is *kept (may be NULL). */
hs_code hs__map_add(hs__map *map, const char *name, size_t value, const char **kept, hs_error *err);

/* SipHash-1-3 of a text, and of words as their bytes, the lowest first. */
uint64_t hs__hash_keyed(const uint64_t key[2], const char *text);
uint64_t hs__hash_words(const uint64_t key[2], const uint64_t *words, size_t n);
/* FNV-1a, to be continued from a former result; HS__HASH_START to begin with. */
#define HS__HASH_START 14695981039346656037u
uint64_t hs__hash(uint64_t hash, const char *text);

#endif
