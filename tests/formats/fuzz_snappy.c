/* SPDX-License-Identifier: Apache-2.0 */
/* For libFuzzer: a Snappy stream, which any index of a checkpoint can have. The decoder refuses it, or decompresses it as
 * the decoder below does, which has no limits but the ends of its two arrays. Then the stream is the block of a table. */
#include "base/crc32c.h"
#include "formats/snappy.h"
#include "formats/table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static size_t take_number(const unsigned char **at, const unsigned char *end, size_t bytes, bool *right)
{
    size_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        *right &= *at < end;
        number |= *at < end ? (size_t) * (*at)++ << 8 * i : 0;
    }
    return number;
}

/* Returns true if the stream is valid: its output fills `to` exactly. `at` is after the size. */
static bool decode(const unsigned char *at, const unsigned char *end, unsigned char *to, size_t bytes)
{
    size_t done = 0;
    bool right = true;
    while (right && at < end) {
        unsigned tag = *at++, upper = tag >> 2;
        size_t length = (tag & 3) == 1 ? (upper & 7) + 4 : upper + 1, offset = 0;
        if ((tag & 3) == 0 && upper >= 60)
            length = take_number(&at, end, upper - 59, &right) + 1;
        if ((tag & 3) == 1)
            offset = (size_t)(tag >> 5) << 8 | take_number(&at, end, 1, &right);
        if ((tag & 3) >= 2)
            offset = take_number(&at, end, (tag & 3) == 2 ? 2 : 4, &right);
        right &= (tag & 3) == 0 || offset > 0;
        for (; right && length; length--) {
            right = done < bytes && (offset ? offset <= done : at < end);
            if (right) {
                to[done] = offset ? to[done - offset] : *at++;
                done++;
            }
        }
    }
    return right && done == bytes;
}

static void compare(const unsigned char *data, size_t size)
{
    size_t bytes;
    const unsigned char *at = data;
    uint64_t claimed;
    if (!hs__snappy_size((hs_bytes){data, size}, &bytes))
        return;
    if (!hs__get_varint(&at, data + size, &claimed) || claimed != bytes || bytes / 22 > size)
        abort();
    unsigned char *found = malloc(bytes ? bytes : 1), *expected = malloc(bytes ? bytes : 1);
    bool right = decode(at, data + size, expected, bytes);
    if (hs__snappy_unpack((hs_bytes){data, size}, found, bytes) != right || (right && memcmp(found, expected, bytes) != 0))
        abort();
    free(found);
    free(expected);
}

static hs_code add_up(void *user, hs_bytes key, hs_bytes value, hs_error *err)
{
    (void)err;
    for (size_t i = 0; i < key.size; i++)
        *(unsigned *)user += ((const unsigned char *)key.data)[i];
    for (size_t i = 0; i < value.size; i++)
        *(unsigned *)user += ((const unsigned char *)value.data)[i];
    return HS_OK;
}

static void put_block(hs__buffer *table, const void *bytes, size_t size, const char *type)
{
    size_t at = table->size;
    hs__buffer_append(table, bytes, size);
    hs__buffer_append(table, type, 1);
    hs__buffer_fixed32(table, hs__crc32c_mask(hs__crc32c(0, table->data + at, size + 1)));
}

static void read_table(const unsigned char *data, size_t size)
{
    hs_env env;
    hs__buffer table, index, footer;
    unsigned sum = 0;
    hs__env_copy(&env, NULL, NULL);
    hs__buffer_init(&table, &env);
    hs__buffer_init(&index, &env);
    hs__buffer_init(&footer, &env);
    put_block(&table, data, size, "\1");
    size_t at = table.size;
    hs__buffer_append(&index, "\0\1\12z\0", 5); /* the key "z", a value of 10 bytes: the block's offset and size */
    hs__buffer_varint(&index, size);
    hs__buffer_append(&index, "\0\0\0\0\0\0\0\0", 5 + 9 - index.size);
    hs__buffer_fixed32(&index, 0);
    hs__buffer_fixed32(&index, 1);
    put_block(&table, index.data, index.size, "");
    hs__buffer_append(&footer, "\0\0", 2);
    hs__buffer_varint(&footer, at);
    hs__buffer_varint(&footer, index.size);
    while (footer.size < 40)
        hs__buffer_append(&footer, "", 1);
    hs__buffer_fixed64(&footer, 0xdb4775248b80fb57u);
    hs__buffer_append(&table, footer.data, footer.size);
    hs__table_read(&env, (hs_bytes){table.data, table.size}, "fuzz", false, add_up, &sum, NULL);
    hs__buffer_free(&table);
    hs__buffer_free(&index);
    hs__buffer_free(&footer);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    compare(data, size);
    read_table(data, size);
    return 0;
}
