/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_JSON_OUTPUT_H
#define TOOL_JSON_OUTPUT_H

#include <hooksess/tensor.h>

#include <jansson.h>

/* JSON output. Only one value at a time is in memory. js_works reports if memory ran out. */

/* Bytes that are not UTF-8 become U+FFFD. */
json_t *js_text(const char *text);
/* null for NaN and infinity, which JSON does not have. `whole`: an integer, if it fits in 64 bits. */
json_t *js_number(long double value, bool whole);
/* A shape, or an index into one, as an array of numbers. null: the rank is not supported. */
json_t *js_dims(const hs_shape *dims);
/* {"name", "dtype", "shape"} */
json_t *js_tensor(const char *name, const hs_tensor *info);
/* Sets a member. Takes ownership of the value. */
void js_set(json_t *object, const char *key, json_t *value);
/* Writes the value and frees it. */
void js_write(json_t *value);

/* Writes an array with one value per line. Arrays do not nest. */
void js_list_begin(void);
void js_list_add(json_t *value);
void js_list_end(void);

/* False, and prints an error, if memory ran out. */
bool js_works(void);

#endif
