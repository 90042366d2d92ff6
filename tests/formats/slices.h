/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_SLICES_H
#define HS_TESTS_FORMATS_SLICES_H

/* Shared by the tests of tensors in slices: the tensor "w", [3,4] numbers of 16 bits, with element [i,k] = 10 i + k. */

#include "formats/bundles.h"

extern const hs_shape whole;
extern const int16_t values[12];

hs__box box(int64_t row, int64_t rows, int64_t column, int64_t columns);
/* Writes the elements of a box to `to`. Returns their size in bytes. */
size_t cut(const hs__box *b, int16_t *to);

/* Slices around one in the middle, so that no straight cut separates them. */
enum { N_PINWHEEL = 5 };
extern const hs__box pinwheel[N_PINWHEEL];

/* With the writer: adds a slice of `name`; or writes a bundle with "w" in slices between two whole tensors, of which "z",
 * three bytes, is before it. */
hs_code add_slice(hs__bundle_writer *writer, const char *name, hs__box b);
void write_slices(const hs__box *boxes, size_t n);

/* Asserts that "w" is read correctly, as a whole and in parts. */
void assert_whole(hs__bundle_reader *reader);
void assert_part(hs__bundle_reader *reader, hs__box b);
void assert_every_part(hs__bundle_reader *reader);

/* By hand: entries of two slices with consecutive data; of a tensor that lists its slices; of all three. Entries that are
 * NULL are omitted. */
extern const hs__box two_rows, one_row;
claim first_rows(void);
claim last_row(void);
claim listing(const hs__box *boxes, size_t n);
void write_two(const hs__box *first_key, const claim *first, const hs__box *second_key, const claim *second,
               const claim *all);

/* Changes one byte of the data file. */
void damage_data(size_t at);

#endif
