/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_HISTOGRAM_H
#define HS_SUMMARY_HISTOGRAM_H

#include "base/env.h"

/* TensorFlow's histogram: how many values lie between edges that grow by a tenth. */

enum {
    HS__EDGES_A_SIDE = 775, /* 1e-12, 1.1 times as much and so on to below 1e20, and the largest double */
    HS__EDGES = 2 * HS__EDGES_A_SIDE + 1,
    HS__NEGATIVE = 1024, /* added to the place where a negative number is counted */
    /* For each sign, by how many of its side's edges lie before the number. The rest keeps the counters from lying a power
     * of two apart, where processors take one for another. */
    HS__PLACES = 2 * HS__NEGATIVE + 80,
    HS__COUNTERS = 4,                           /* neighbors count apart, so that equal ones need not wait for each other */
    HS__CELL_BITS = 4,                          /* a cell is a sixteenth of an octave */
    HS__FLOAT_CELLS = 2 << (8 + HS__CELL_BITS), /* by sign, exponent, and the first bits after it */
    HS__DOUBLE_CELLS = (67 + 40 + 2) << HS__CELL_BITS /* a sign's: from 2^-41 to 2^68, and what lies before and after */
};

/* Numbers of one cell have the same sign, exponent and first bits: they lie nearer together than two edges, so that no cell
 * has more than one. Where a number belongs follows from its cell and one comparison with the bits of the cell's edge. */
typedef struct hs__bucket_tables {
    double edges[HS__EDGES];               /* bucket i has values from edges[i - 1] on, and below edges[i] */
    uint32_t float_cells[HS__FLOAT_CELLS]; /* added to the bits it makes them the place, in the bits that name the cell */
    uint64_t double_edge[2][HS__DOUBLE_CELLS]; /* the least bits that lie beyond the cell's edge; none do if it has none */
    uint16_t double_place[2][HS__DOUBLE_CELLS];
} hs__bucket_tables;

typedef struct hs__histogram {
    const hs__bucket_tables *tables; /* the same for all */
    double min, max, num, sum, sum_squares;
    uint64_t nan, infinity;
    bool wide; /* the machine has wide vectors */
    double buckets[HS__EDGES];
    uint32_t counts[HS__COUNTERS][HS__PLACES];
    uint32_t counted; /* since `counts` were cleared */
} hs__histogram;

/* NULL without memory. */
hs__histogram *hs__histogram_new(const hs_env *env);
void hs__histogram_free(const hs_env *env, hs__histogram *histogram);

void hs__histogram_clear(hs__histogram *histogram);
/* Adds values, at most HS__NUMBERS at a time, which it may move. What is not finite is counted apart. */
void hs__histogram_add_floats(hs__histogram *histogram, float *values, size_t n);
void hs__histogram_add_doubles(hs__histogram *histogram, double *values, size_t n);
/* Brings `buckets` up to date. */
void hs__histogram_count(hs__histogram *histogram);

#endif
