/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_JSON_OUTPUT_H
#define TOOL_JSON_OUTPUT_H

#include <hooksess/tensor.h>

#ifdef HOOKSESS_JSON

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
/* Appends to an array. Takes ownership of the value. */
void js_add(json_t *array, json_t *value);
/* Writes the value and frees it. */
void js_write(json_t *value);
void js_free(json_t *value);

/* Writes an array with one value per line. Arrays do not nest. */
void js_list_begin(void);
void js_list_add(json_t *value);
void js_list_end(void);

/* False, and prints an error, if memory ran out. */
bool js_works(void);

#else

/* Without JSON, the tool refuses --json (command_line.c), and calls none of these but js_works. */
typedef struct json_t json_t;
#define json_object()              ((json_t *)NULL)
#define json_array()               ((json_t *)NULL)
#define json_null()                ((json_t *)NULL)
#define json_boolean(value)        ((void)(value), (json_t *)NULL)
#define js_text(text)              ((void)(text), (json_t *)NULL)
#define js_number(value, whole)    ((void)(value), (void)(whole), (json_t *)NULL)
#define js_dims(dims)              ((void)(dims), (json_t *)NULL)
#define js_tensor(name, info)      ((void)(name), (void)(info), (json_t *)NULL)
#define js_set(object, key, value) ((void)(object), (void)(key), (void)(value))
#define js_add(array, value)       ((void)(array), (void)(value))
#define js_write(value)            ((void)(value))
#define js_free(value)             ((void)(value))
#define js_list_begin()            ((void)0)
#define js_list_add(value)         ((void)(value))
#define js_list_end()              ((void)0)
#define js_works()                 true

#endif

#endif
