/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_SLICES_H
#define HS_TESTS_FORMATS_SLICES_H

/* What the tests of tensors in slices share: the tensor "w", [3,4] numbers of 16 bits, whose element [i,k] is 10 i + k. */

#include "formats/bundles.h"

extern const hs_shape whole;
extern const int16_t values[12];

hs__box box(int64_t row, int64_t rows, int64_t column, int64_t columns);
/* Writes what it has of a box to `to`; returns the bytes. */
size_t cut(const hs__box *b, int16_t *to);

/* Slices around one in the middle: along no dimension is the tensor cut from end to end. */
enum { N_PINWHEEL = 5 };
extern const hs__box pinwheel[N_PINWHEEL];

/* By the writer: adds a slice to what `name` is to be; or a bundle of "w" in slices between two tensors that are whole, "z"
 * of three bytes before it. */
hs_code add_slice(hs__bundle_writer *writer, const char *name, hs__box b);
void write_slices(const hs__box *boxes, size_t n);

/* "w" reads as it should, as a whole and in parts. */
void assert_whole(hs__bundle_reader *reader);
void assert_part(hs__bundle_reader *reader, hs__box b);
void assert_every_part(hs__bundle_reader *reader);

/* By hand: the entries of two slices that have their data one after the other, of a tensor that lists its slices, and of
 * all three; entries that are NULL are left out. */
extern const hs__box two_rows, one_row;
claim first_rows(void);
claim last_row(void);
claim listing(const hs__box *boxes, size_t n);
void write_two(const hs__box *first_key, const claim *first, const hs__box *second_key, const claim *second,
               const claim *all);

/* Makes one byte of the data file wrong. */
void damage_data(size_t at);

#endif
