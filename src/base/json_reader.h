/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_JSON_READER_H
#define HS_BASE_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads JSON (RFC 8259) of untrusted files. hs__json_check checks a whole text once. The other functions find values in
 * it, and rely on the check. They allocate nothing, take linear time, and do not depend on the locale.
 *
 * A value is a part of the checked text, and valid as long as the text. Objects may have members of the same name. */

/* The largest number of objects and arrays that are nested. */
enum { HS__JSON_DEPTH = 128 };

typedef struct hs__json_value {
    const char *text; /* a string has its quotes. NULL: no value */
    size_t bytes;
} hs__json_value;

/* The first thing that is wrong in a text. */
typedef struct hs__json_fault {
    const char *what;
    size_t at; /* byte from 0 */
} hs__json_fault;

/* Checks a text of one value with blanks around it: syntax, UTF-8, depth, and that no string contains a zero byte. True:
 * *root is the value. False: `fault` is set. */
bool hs__json_check(const char *text, size_t bytes, hs__json_value *root, hs__json_fault *fault);

/* True if the value begins with this character: '{' object, '[' array, '"' string, 't' true, 'f' false, 'n' null. */
static inline bool hs__json_is(hs__json_value value, char first)
{
    return value.text && *value.text == first;
}

/* A member of an object, or an element of an array. */
typedef struct hs__json_item {
    hs__json_value name; /* of a member: a string */
    hs__json_value value;
} hs__json_item;

/* Moves to the next item; the first follows an item of zeros. False: no more items, or not an object or array. */
bool hs__json_next(hs__json_value of, hs__json_item *item);
/* The first member of that name. No value: `object` does not have it, or is not an object. */
hs__json_value hs__json_member(hs__json_value object, const char *name);

/* True if the value is the string `text`. */
bool hs__json_equals(hs__json_value value, const char *text);
/* Copies a string as C text, and returns its length. `to` has value.bytes bytes, which always suffice. Other values are
 * copied as "". */
size_t hs__json_copy(hs__json_value value, char *to);

/* Read an integer without fraction and exponent that fits, or any finite number of at most 300 characters. False: not such
 * a number, and the result is unchanged. */
bool hs__json_uint64(hs__json_value value, uint64_t *number);
bool hs__json_int64(hs__json_value value, int64_t *number);
bool hs__json_number(hs__json_value value, double *number);

#endif
