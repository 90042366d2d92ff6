/* SPDX-License-Identifier: Apache-2.0 */
/* Each put_ function has a get_ function that reads the same. slice_key.h describes the encoding. */
#include "formats/slice_key.h"

#include <string.h>

enum { LONGEST = 10 }; /* bytes of a number that may be negative */

/* Writing. */

static void put_count(hs__buffer *out, uint64_t value)
{
    unsigned char bytes[9];
    size_t n = 0;
    for (uint64_t rest = value; rest; rest >>= 8)
        n++;
    bytes[0] = (unsigned char)n;
    for (size_t i = 0; i < n; i++)
        bytes[n - i] = (unsigned char)(value >> 8 * i);
    hs__buffer_append(out, bytes, n + 1);
}

static void put_name(hs__buffer *out, const char *name)
{
    for (; *name; name++) /* for ff, appends "\xff" with its terminating zero */
        hs__buffer_append(out, *name == '\xff' ? "\xff" : name, *name == '\xff' ? 2 : 1);
    hs__buffer_append(out, "\0\1", 2);
}

/* The bits that mark the length in byte `i` of a number of n bytes: the first n bits. */
static unsigned char mark(size_t n, size_t i)
{
    size_t bits = n > 8 * i ? n - 8 * i : 0;
    return (unsigned char)(bits >= 8 ? 0xff : 0xff00 >> bits);
}

static void put_number(hs__buffer *out, int64_t value)
{
    unsigned char bytes[LONGEST];
    uint64_t extended = (uint64_t)value, sign = value < 0 ? UINT64_MAX : 0;
    size_t n = 1;
    while (n < LONGEST && (extended ^ sign) >> (7 * n - 1)) /* 7 n - 1 bits are not mark, delimiter or sign */
        n++;
    for (size_t i = 0; i < n; i++) {
        size_t from_end = n - 1 - i;
        bytes[i] = (unsigned char)((from_end < 8 ? extended >> 8 * from_end : sign) ^ mark(n, i));
    }
    hs__buffer_append(out, bytes, n);
}

void hs__slice_key_put(hs__buffer *out, const char *name, const hs__box *box)
{
    put_count(out, 0);
    put_name(out, name);
    put_count(out, (uint64_t)box->rank);
    for (int32_t i = 0; i < box->rank; i++) {
        put_number(out, box->starts[i]);
        put_number(out, box->lengths[i]);
    }
}

/* Reading. */

typedef struct {
    const unsigned char *at, *end;
} cursor;

static bool get_count(cursor *c, uint64_t *value)
{
    size_t left = (size_t)(c->end - c->at);
    if (left == 0 || *c->at > 8 || *c->at >= left)
        return false;
    *value = 0;
    for (size_t n = *c->at++; n; n--)
        *value = *value << 8 | *c->at++;
    return true;
}

/* `name` has room for the bytes of the key. */
static bool get_name(cursor *c, char *name)
{
    for (; c->end - c->at >= 2; c->at++) {
        if (c->at[0] == 0 && c->at[1] == 1) {
            c->at += 2;
            *name = '\0';
            return true;
        }
        if (c->at[0] == 0 || (c->at[0] == 0xff && c->at[1] != 0))
            return false; /* names with zero bytes are not supported */
        *name++ = (char)*c->at;
        c->at += c->at[0] == 0xff;
    }
    return false;
}

static bool get_number(cursor *c, int64_t *value)
{
    size_t left = (size_t)(c->end - c->at), n = 0;
    unsigned char sign = left && !(*c->at & 0x80) ? 0xff : 0;
    while (n < LONGEST && n / 8 < left && (c->at[n / 8] ^ sign) & 0x80 >> n % 8)
        n++;
    if (n == 0 || n > left)
        return false;
    uint64_t bits = sign ? UINT64_MAX : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = c->at[i] ^ mark(n, i);
        if (n - i > 8 && byte != sign)
            return false; /* more than 64 bits */
        bits = bits << 8 | byte;
    }
    if (n == LONGEST && (bits >> 63) != (sign ? 1 : 0))
        return false;
    c->at += n;
    memcpy(value, &bits, sizeof bits);
    return true;
}

static bool get_box(cursor *c, hs__box *box)
{
    uint64_t rank;
    if (!get_count(c, &rank) || rank > HS_MAX_RANK)
        return false;
    *box = (hs__box){.rank = (int32_t)rank};
    for (uint64_t i = 0; i < rank; i++)
        if (!get_number(c, &box->starts[i]) || !get_number(c, &box->lengths[i]))
            return false;
    return c->at == c->end;
}

bool hs__slice_key_get(const hs_env *env, hs_bytes key, char **name, hs__box *box, bool *no_memory)
{
    cursor c = {key.data, (const unsigned char *)key.data + key.size};
    uint64_t zero;
    *name = hs__alloc(env, key.size + 1, 1);
    *no_memory = !*name;
    if (*name && get_count(&c, &zero) && zero == 0 && get_name(&c, *name) && **name && get_box(&c, box))
        return true;
    hs__free(env, *name);
    *name = NULL;
    return false;
}
