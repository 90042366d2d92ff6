/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_JSON_OUTPUT_H
#define TOOL_JSON_OUTPUT_H

#include <hooksess/tensor.h>

#include <jansson.h>

/* What is printed for programs. Values are made one by one and written at once, so that there is never more than one in
 * memory. Running out of it is noted, and js_works says so. */

/* Text whose bytes are no UTF-8 has U+FFFD in their place. */
json_t *js_text(const char *text);
/* null for NaN and infinity, which JSON has not. `whole`: an integer, where 64 bits hold it. */
json_t *js_number(long double value, bool whole);
/* A shape, or an index into it: a list of numbers; null for a rank that we cannot hold. */
json_t *js_dims(const hs_shape *dims);
/* {"name", "dtype", "shape"} */
json_t *js_tensor(const char *name, const hs_tensor *info);
/* Takes the value. */
void js_set(json_t *object, const char *key, json_t *value);
/* Writes the value and frees it. */
void js_write(json_t *value);

/* A list, one value a line. One at a time. */
void js_list_begin(void);
void js_list_add(json_t *value);
void js_list_end(void);

/* Says so if memory ran out. */
bool js_works(void);

#endif
