/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __linux__
#define _GNU_SOURCE /* getrandom */
#endif
/* Two hashes, FNV-1a and SipHash-1-3; and a hash table with open addressing, whose `probe` finds the slot of a name. */
#include "base/map.h"

#include "base/buffer.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t hs__hash(uint64_t hash, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    do /* includes the terminating zero, so that "a" "bc" and "ab" "c" differ */
        hash = (hash ^ *at) * 1099511628211u;
    while (*at++);
    return hash;
}

static uint64_t rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

typedef struct {
    uint64_t a, b, c, d;
} sip;

static void mix(sip *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotate(s->b, 17) ^ s->c;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c = rotate(s->c, 32);
}

/* SipHash-1-3: one round per eight bytes, three rounds at the end. */
uint64_t hs__hash_keyed(const uint64_t key[2], const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    uint64_t last = (uint64_t)bytes << 56; /* the last word: the bytes that are left, and their total number */
    sip s = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
             key[1] ^ 0x7465646279746573u};
    for (size_t i = 0; i < bytes / 8; i++, at += 8) {
        s.d ^= hs__get64(at);
        mix(&s);
        s.a ^= hs__get64(at);
    }
    for (size_t i = 0; i < bytes % 8; i++)
        last |= (uint64_t)at[i] << 8 * i;
    s.d ^= last;
    mix(&s);
    s.a ^= last;
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

/* If a sandbox refuses random numbers, the key is made of the time and an address. */
static void choose_key(hs__map *map)
{
    struct timespec now = {0, 0};
#ifdef __linux__
    if (getrandom(map->key, sizeof map->key, GRND_NONBLOCK) == (ssize_t)sizeof map->key)
        return;
#else
    if (getentropy(map->key, sizeof map->key) == 0)
        return;
#endif
    clock_gettime(CLOCK_REALTIME, &now);
    map->key[0] = (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
    map->key[1] = (uint64_t)(uintptr_t)map << 16 ^ (uint64_t)(uintptr_t)&now;
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

/* Finds the slot of a name, or the empty slot for it. The table is never full. */
static struct hs__map_slot *probe(const hs__map *map, uint64_t hash, const char *name, size_t length)
{
    for (size_t at = (size_t)hash;; at++) {
        struct hs__map_slot *slot = &map->slots[at & (map->capacity - 1)];
        if (!slot->name || (slot->hash == hash && strncmp(slot->name, name, length) == 0 && !slot->name[length]))
            return slot;
    }
}

size_t hs__map_find_bytes(const hs__map *map, const char *name, size_t length)
{
    if (!map->n)
        return HS__NONE;
    const struct hs__map_slot *slot = probe(map, hs__hash_keyed(map->key, name, length), name, length);
    return slot->name ? slot->value : HS__NONE;
}

size_t hs__map_find(const hs__map *map, const char *name)
{
    return hs__map_find_bytes(map, name, strlen(name));
}

static hs_code grow(hs__map *map, hs_error *err)
{
    const hs__map before = *map;
    size_t capacity = map->capacity ? map->capacity * 2 : 16;
    struct hs__map_slot *slots = hs__alloc(map->env, capacity, sizeof *slots);
    if (!slots)
        return hs__no_memory(err, capacity * sizeof *slots, "a table of names");
    if (!map->capacity)
        choose_key(map);
    map->slots = slots;
    map->capacity = capacity;
    for (size_t i = 0; i < before.capacity; i++) {
        const struct hs__map_slot *slot = &before.slots[i];
        if (slot->name)
            *probe(map, slot->hash, slot->name, strlen(slot->name)) = *slot;
    }
    hs__free(map->env, before.slots);
    return HS_OK;
}

hs_code hs__map_add_bytes(hs__map *map, const char *name, size_t length, size_t value, const char **kept, hs_error *err)
{
    hs_code code = map->n >= map->capacity / 2 ? grow(map, err) : HS_OK;
    if (code)
        return code;
    uint64_t hash = hs__hash_keyed(map->key, name, length);
    struct hs__map_slot *slot = probe(map, hash, name, length);
    if (!slot->name) {
        char *copy = hs__strndup(map->env, name, length);
        if (!copy)
            return hs__no_memory(err, length + 1, "a name");
        *slot = (struct hs__map_slot){copy, hash, value};
        map->n++;
    }
    if (kept)
        *kept = slot->name;
    return HS_OK;
}

hs_code hs__map_add(hs__map *map, const char *name, size_t value, const char **kept, hs_error *err)
{
    return hs__map_add_bytes(map, name, strlen(name), value, kept, err);
}

void hs__map_set(hs__map *map, const char *name, size_t value)
{
    size_t length = strlen(name);
    probe(map, hs__hash_keyed(map->key, name, length), name, length)->value = value;
}
