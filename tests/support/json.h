/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_JSON_H
#define HS_TESTS_SUPPORT_JSON_H

/* Looks into JSON that the library wrote. */

#include "support/test.h"

#include "base/json_reader.h"

/* Asserts that no object has two members of one name. */
static inline void json_assert_unique(hs__json_value of)
{
    for (hs__json_item item = {.value = {NULL, 0}}; hs__json_next(of, &item);) {
        json_assert_unique(item.value);
        for (hs__json_item later = item; item.name.text && hs__json_next(of, &later);)
            if (later.name.bytes == item.name.bytes && memcmp(later.name.text, item.name.text, item.name.bytes) == 0)
                fail_msg("two members %.*s", (int)item.name.bytes, item.name.text);
    }
}

/* The value of a text, which must outlive it. Asserts that the text is JSON. */
static inline hs__json_value json_root(const char *text, size_t bytes)
{
    hs__json_value root = {NULL, 0};
    hs__json_fault fault;
    if (!hs__json_check(text, bytes, &root, &fault))
        fail_msg("not JSON: %s (byte %zu): %.*s", fault.what, fault.at, (int)bytes, text);
    json_assert_unique(root);
    return root;
}

/* Members of an object, of which it is asserted that they have the type. The text is valid until eight later ones. */
static inline int64_t json_int(hs__json_value object, const char *name)
{
    int64_t number = 0;
    if (!hs__json_int64(hs__json_member(object, name), &number))
        fail_msg("'%s' is not an integer", name);
    return number;
}

static inline double json_number(hs__json_value object, const char *name)
{
    double number = 0;
    if (!hs__json_number(hs__json_member(object, name), &number))
        fail_msg("'%s' is not a number", name);
    return number;
}

static inline const char *json_text(hs__json_value object, const char *name)
{
    static char texts[8][4096];
    static size_t next;
    hs__json_value value = hs__json_member(object, name);
    if (!hs__json_is(value, '"') || value.bytes > sizeof *texts)
        fail_msg("'%s' is not a text", name);
    hs__json_copy(value, texts[next % 8]);
    return texts[next++ % 8];
}

static inline bool json_bool(hs__json_value object, const char *name)
{
    hs__json_value value = hs__json_member(object, name);
    if (!hs__json_is(value, 't') && !hs__json_is(value, 'f'))
        fail_msg("'%s' is not true or false", name);
    return hs__json_is(value, 't');
}

/* The items of an object or array. */
static inline size_t json_size(hs__json_value of)
{
    size_t n = 0;
    for (hs__json_item item = {.value = {NULL, 0}}; hs__json_next(of, &item); n++)
        continue;
    return n;
}

static inline hs__json_value json_at(hs__json_value of, size_t index)
{
    hs__json_item item = {.value = {NULL, 0}};
    do
        assert_true(hs__json_next(of, &item));
    while (index--);
    return item.value;
}

#endif
