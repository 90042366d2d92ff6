/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_WIRE_WRITE_H
#define HS_BASE_WIRE_WRITE_H

#include "base/buffer.h"

/* Appends fields in protobuf's wire format. A Summary is encoded directly into one buffer, which is reused. As in proto3,
 * fields that are 0 or empty are omitted. */

void hs__put_integer(hs__buffer *out, uint32_t field, uint64_t value);
void hs__put_fixed32(hs__buffer *out, uint32_t field, uint32_t value);
void hs__put_float(hs__buffer *out, uint32_t field, float value);
void hs__put_double(hs__buffer *out, uint32_t field, double value);
void hs__put_string(hs__buffer *out, uint32_t field, const char *text); /* NULL: omitted */

/* A field that contains all bytes appended between begin and end. Pass the result of begin to end. */
size_t hs__begin_field(hs__buffer *out, uint32_t field);
void hs__end_field(hs__buffer *out, size_t begun);

/* Appends numbers without tags, as in a packed field. */
void hs__put_doubles(hs__buffer *out, const double *values, size_t n);

#endif
