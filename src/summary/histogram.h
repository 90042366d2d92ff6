/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_HISTOGRAM_H
#define HS_SUMMARY_HISTOGRAM_H

#include "base/env.h"

/* TensorFlow's histogram: the number of values in each bucket. Each edge is 1.1 times the previous edge. */

enum {
    HS__EDGES_A_SIDE = 775, /* per sign: 1e-12 times powers of 1.1 up to below 1e20, and the largest double */
    HS__EDGES = 2 * HS__EDGES_A_SIDE + 1,
    HS__NEGATIVE = 1024, /* added to the place of a negative number */
    /* A place is the number of edges of the same sign that are nearer to 0 than the number. The extra places avoid that the
     * distance of the counters is a power of two, which would cause false dependencies in processors. */
    HS__PLACES = 2 * HS__NEGATIVE + 80,
    HS__COUNTERS = 4,                           /* neighbors use different counters, so that equal values do not wait */
    HS__CELL_BITS = 4,                          /* 16 cells per octave */
    HS__FLOAT_CELLS = 2 << (8 + HS__CELL_BITS), /* by sign, exponent, and the first bits of the fraction */
    HS__DOUBLE_CELLS = (67 + 40 + 2) << HS__CELL_BITS /* per sign: from 2^-41 to 2^68; the outermost have the rest */
};

/* Numbers of one cell have the same sign, exponent and first bits of the fraction. A cell is narrower than the distance of
 * two edges, so that it has at most one. The place of a number follows from its cell and one comparison with the cell's
 * edge. */
typedef struct hs__bucket_tables {
    double edges[HS__EDGES];                   /* bucket i has values from edges[i - 1] up to, not including, edges[i] */
    uint32_t float_cells[HS__FLOAT_CELLS];     /* the sum of this and a float's bits has the place in its upper bits */
    uint64_t double_edge[2][HS__DOUBLE_CELLS]; /* the lowest bits beyond the cell's edge; UINT64_MAX: no edge */
    uint16_t double_place[2][HS__DOUBLE_CELLS];
} hs__bucket_tables;

typedef struct hs__histogram {
    const hs__bucket_tables *tables; /* shared by all histograms */
    double min, max, num, sum, sum_squares;
    uint64_t nan, infinity;
    bool wide; /* the processor has wide vectors */
    double buckets[HS__EDGES];
    uint32_t counts[HS__COUNTERS][HS__PLACES];
    uint32_t counted; /* since `counts` were cleared */
} hs__histogram;

/* NULL: out of memory. */
hs__histogram *hs__histogram_new(const hs_env *env);
void hs__histogram_free(const hs_env *env, hs__histogram *histogram);

void hs__histogram_clear(hs__histogram *histogram);
/* Adds at most HS__NUMBERS values. May reorder them. Values that are not finite are counted in `nan` and `infinity`. */
void hs__histogram_add_floats(hs__histogram *histogram, float *values, size_t n);
void hs__histogram_add_doubles(hs__histogram *histogram, double *values, size_t n);
/* Updates `buckets`. */
void hs__histogram_count(hs__histogram *histogram);

#endif
