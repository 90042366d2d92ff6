/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tables.h"

test_env t;
hs_error err;
hs__buffer file;
hs__table_writer table;
struct seen seen;

int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    hs_error_clear(&err);
    hs__buffer_init(&file, &t.env);
    seen.stop_at = 0;
    hs__buffer_init(&seen.bytes, &t.env);
    hs__table_begin(&table, &t.env, &file);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&file);
    hs__buffer_free(&seen.bytes);
    return t.live ? -1 : 0;
}

void add(const char *key, const char *value)
{
    hs__table_add(&table, (hs_bytes){key, strlen(key)}, (hs_bytes){value, strlen(value)});
}

void finish(void)
{
    assert_ok(hs__table_finish(&table, &err), &err);
}

static hs_code append_entry(void *user, hs_bytes key, hs_bytes value, hs_error *error)
{
    (void)user;
    hs__buffer_varint(&seen.bytes, key.size);
    hs__buffer_append(&seen.bytes, key.data, key.size);
    hs__buffer_varint(&seen.bytes, value.size);
    hs__buffer_append(&seen.bytes, value.data, value.size);
    return ++seen.n == seen.stop_at ? hs_error_set(error, HS_USER, "enough") : HS_OK;
}

static hs_code read_bytes(const void *data, size_t bytes)
{
    hs__buffer_clear(&seen.bytes);
    seen.n = 0;
    return hs__table_read(&t.env, (hs_bytes){data, bytes}, "file", false, append_entry, NULL, &err);
}

static hs_code pass_over(void *user, hs_bytes key, hs_bytes value, hs_error *error)
{
    (void)user, (void)key, (void)value, (void)error;
    return HS_OK;
}

hs_code verify_all(void)
{
    return hs__table_read(&t.env, (hs_bytes){file.data, file.size}, "file", true, pass_over, NULL, &err);
}

hs_code read_exactly(size_t bytes)
{
    return read_bytes(test_before_guard(file.data, bytes), bytes);
}
