/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and parses the messages with which a connection begins.
 *
 *   bytes      content
 *   0 to 7     "HOOKSESS"
 *   8 to 27    version of the protocol, kind, rank, rank count, code: 4 bytes each
 *   28 to 675  token, host, text */
#include "ranks/group_tcp_hello.h"

#include <stdbool.h>
#include <string.h>

enum { TOKEN_AT = 28, HOST_AT = TOKEN_AT + HS__HELLO_TOKEN, TEXT_AT = HOST_AT + HS__HELLO_HOST };

_Static_assert(TEXT_AT + HS__HELLO_TEXT == HS__HELLO_BYTES, "the fields fill the message");

static const char magic[8] = {'H', 'O', 'O', 'K', 'S', 'E', 'S', 'S'};

void hs__write_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

void hs__write_u64(unsigned char *at, uint64_t value)
{
    hs__write_u32(at, (uint32_t)value);
    hs__write_u32(at + 4, (uint32_t)(value >> 32));
}

uint32_t hs__read_u32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint64_t hs__read_u64(const unsigned char *at)
{
    return hs__read_u32(at) | (uint64_t)hs__read_u32(at + 4) << 32;
}

/* Writes a text into a field, which is filled with zeros. Other characters than printable ASCII become '?'. */
static void write_text(unsigned char *field, size_t size, const char *text)
{
    memset(field, 0, size);
    for (size_t i = 0; i + 1 < size && text[i]; i++)
        field[i] = (unsigned char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
}

/* Returns false if the text has no end, or a character that is not printable. */
static bool read_text(const unsigned char *field, size_t size, char *text)
{
    const unsigned char *end = memchr(field, 0, size);
    if (!end)
        return false;
    for (const unsigned char *at = field; at < end; at++)
        if (*at < ' ' || *at > '~')
            return false;
    memcpy(text, field, (size_t)(end - field) + 1);
    return true;
}

void hs__hello_write(const hs__hello *hello, unsigned char bytes[HS__HELLO_BYTES])
{
    memcpy(bytes, magic, sizeof magic);
    hs__write_u32(bytes + 8, HS__HELLO_VERSION);
    hs__write_u32(bytes + 12, (uint32_t)hello->kind);
    hs__write_u32(bytes + 16, (uint32_t)hello->rank);
    hs__write_u32(bytes + 20, (uint32_t)hello->rank_count);
    hs__write_u32(bytes + 24, (uint32_t)hello->code);
    write_text(bytes + TOKEN_AT, HS__HELLO_TOKEN, hello->token);
    write_text(bytes + HOST_AT, HS__HELLO_HOST, hello->host);
    write_text(bytes + TEXT_AT, HS__HELLO_TEXT, hello->text);
}

uint32_t hs__hello_version(const unsigned char head[HS__HELLO_HEAD])
{
    return memcmp(head, magic, sizeof magic) == 0 ? hs__read_u32(head + 8) : 0;
}

const char *hs__hello_parse(const unsigned char bytes[HS__HELLO_BYTES], hs__hello *hello)
{
    if (hs__hello_version(bytes) != HS__HELLO_VERSION)
        return "a message has another version of the protocol";
    uint32_t kind = hs__read_u32(bytes + 12), rank = hs__read_u32(bytes + 16), rank_count = hs__read_u32(bytes + 20);
    if (kind < HS__HELLO_REGISTER || kind > HS__HELLO_FAILED)
        return "a message has an unknown kind";
    if (rank_count > INT32_MAX || rank >= rank_count)
        return "a message has an invalid rank";
    hello->kind = (hs__hello_kind)kind;
    hello->rank = (int32_t)rank;
    hello->rank_count = (int32_t)rank_count;
    hello->code = (int32_t)hs__read_u32(bytes + 24);
    if (!read_text(bytes + TOKEN_AT, HS__HELLO_TOKEN, hello->token) ||
        !read_text(bytes + HOST_AT, HS__HELLO_HOST, hello->host) ||
        !read_text(bytes + TEXT_AT, HS__HELLO_TEXT, hello->text))
        return "a message has an invalid text";
    return NULL;
}
