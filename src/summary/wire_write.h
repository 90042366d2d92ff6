/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_WIRE_WRITE_H
#define HS_SUMMARY_WIRE_WRITE_H

#include "base/buffer.h"

/* Fields of messages in protobuf's wire format, appended in the order of their calls. Summaries are put together in place:
 * one buffer, kept from one to the next, is all the memory that they need. As in proto3, what is 0 or empty is not there.
 */

void hs__put_integer(hs__buffer *out, uint32_t field, uint64_t value);
void hs__put_float(hs__buffer *out, uint32_t field, float value);
void hs__put_double(hs__buffer *out, uint32_t field, double value);
void hs__put_string(hs__buffer *out, uint32_t field, const char *text); /* NULL: none */

/* A field of fields, or of bytes: what is appended between begin and end, where begin gives what end is to be given. */
size_t hs__begin_field(hs__buffer *out, uint32_t field);
void hs__end_field(hs__buffer *out, size_t begun);

/* Numbers one after the other, as in a packed field. */
void hs__put_doubles(hs__buffer *out, const double *values, size_t n);

#endif
