/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_JSON_WRITER_H
#define HS_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes JSON, value by value, to any place. The locale does not matter.
 *
 *     hs__json_writer out = {.put = put_to_file, .to = file};
 *     hs__json_open(&out, NULL, '{');
 *     hs__json_put_int(&out, "step", 7);
 *     hs__json_close(&out, '}');
 *
 * The values of an object have names. NULL is the name of an element of an array, and of the outermost value. */

typedef void hs__json_put(void *to, const char *text, size_t bytes);
/* Puts text in memory that has room for it. `to` is the address of a char * to its end, which moves. */
void hs__json_put_in_memory(void *to, const char *text, size_t bytes);

typedef struct hs__json_writer {
    hs__json_put *put;
    void *to;
    bool compact; /* without blanks */
    int lines;    /* number of outer levels whose values each begin a line */
    int depth;    /* open objects and arrays */
    bool follows; /* the object or array has a value */
} hs__json_writer;

void hs__json_open(hs__json_writer *out, const char *name, char bracket);
void hs__json_close(hs__json_writer *out, char bracket);
/* A string. Bytes that are not UTF-8 become U+FFFD. */
void hs__json_put_text(hs__json_writer *out, const char *name, const char *text);
void hs__json_put_int(hs__json_writer *out, const char *name, int64_t value);
/* The fewest digits that read back as the same number; null, if it is not finite. */
void hs__json_put_number(hs__json_writer *out, const char *name, double value);
/* A number with three decimals. A negative one becomes 0. */
void hs__json_put_thousandths(hs__json_writer *out, const char *name, int64_t value);
void hs__json_put_bool(hs__json_writer *out, const char *name, bool value);
void hs__json_put_null(hs__json_writer *out, const char *name);
/* A value that is JSON already. */
void hs__json_put_json(hs__json_writer *out, const char *name, const char *json, size_t bytes);

/* Writes `text` as a JSON string, with its quotes and without control characters: one byte takes at most HS__JSON_ESCAPED
 * bytes. */
enum { HS__JSON_ESCAPED = 6 };
void hs__json_quote(hs__json_put *put, void *to, const char *text);

#endif
