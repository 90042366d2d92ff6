/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __linux__
#define _GNU_SOURCE /* getrandom */
#endif
#include "base/map.h"

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

/* SipHash-1-3: one round per eight bytes, three rounds at the end. */

typedef struct {
    uint64_t a, b, c, d;
} sip;

static uint64_t rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

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

static void absorb(sip *s, uint64_t word)
{
    s->d ^= word;
    mix(s);
    s->a ^= word;
}

/* Little-endian, as the hash is defined. */
static uint64_t word_of(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

static sip begin(const uint64_t key[2])
{
    return (sip){key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                 key[1] ^ 0x7465646279746573u};
}

/* `last` has the bytes after the last whole word, and the total number of bytes. */
static uint64_t end(sip *s, uint64_t last)
{
    absorb(s, last);
    s->c ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(s);
    return s->a ^ s->b ^ s->c ^ s->d;
}

uint64_t hs__hash_keyed(const uint64_t key[2], const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t bytes = strlen(text), left = bytes;
    sip s = begin(key);
    for (; left >= 8; at += 8, left -= 8)
        absorb(&s, word_of(at, 8));
    return end(&s, word_of(at, left) | (uint64_t)bytes << 56);
}

uint64_t hs__hash_words(const uint64_t key[2], const uint64_t *words, size_t n)
{
    sip s = begin(key);
    for (size_t i = 0; i < n; i++)
        absorb(&s, words[i]);
    return end(&s, (uint64_t)(8 * n) << 56);
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
    const struct hs__map_slot *slot = probe(map->slots, map->capacity, name, hs__hash_keyed(map->key, name));
    return slot->name ? slot->value : HS__NONE;
}

static hs_code grow(hs__map *map, hs_error *err)
{
    size_t capacity = map->capacity ? map->capacity * 2 : 16;
    struct hs__map_slot *slots = hs__alloc(map->env, capacity, sizeof *slots);
    if (!slots)
        return hs__no_memory(err, capacity * sizeof *slots, "a table of names");
    if (!map->capacity)
        choose_key(map);
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
    uint64_t hash = hs__hash_keyed(map->key, name);
    struct hs__map_slot *slot = probe(map->slots, map->capacity, name, hash);
    *slot = (struct hs__map_slot){copy, hash, value};
    map->n++;
    if (kept)
        *kept = copy;
    return HS_OK;
}

const char *hs__map_intern(hs__map *map, const char *name, hs_error *err)
{
    const char *kept = map->n ? probe(map->slots, map->capacity, name, hs__hash_keyed(map->key, name))->name : NULL;
    return kept || !hs__map_add(map, name, 0, &kept, err) ? kept : NULL;
}

void hs__map_set(hs__map *map, const char *name, size_t value)
{
    probe(map->slots, map->capacity, name, hs__hash_keyed(map->key, name))->value = value;
}
