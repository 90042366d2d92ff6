/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_JSON_OUTPUT_H
#define TOOL_JSON_OUTPUT_H

#include <hooksess/tensor.h>

#include "base/json_reader.h"
#include "base/json_writer.h"

/* A writer to standard output. `lines` is the number of outer levels whose values each begin a line. */
hs__json_writer js_begin(int lines);
/* Ends the line. */
void js_end(void);

/* A number of things. */
void js_count(hs__json_writer *out, const char *name, uint64_t count);
/* null for NaN and infinity, which JSON does not have. `whole`: an integer, if it fits in 64 bits. */
void js_number(hs__json_writer *out, const char *name, long double value, bool whole);
/* A text; null if it is NULL. */
void js_text(hs__json_writer *out, const char *name, const char *text);
/* A value of a file, as this writer writes it. */
void js_value(hs__json_writer *out, const char *name, hs__json_value value);
/* A shape, or an index into one, as an array of numbers. null: the rank is not supported. */
void js_dims(hs__json_writer *out, const char *name, const hs_shape *dims);
/* The members "name", "dtype" and "shape" of an object. */
void js_tensor(hs__json_writer *out, const char *name, const char *dtype, const hs_tensor *info);

#endif
