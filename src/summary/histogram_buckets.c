/* SPDX-License-Identifier: Apache-2.0 */
/* Counting values in buckets: tables that give the bucket of a number, and the loops that count a part of a tensor
 * (hs__histogram_add_floats, _doubles). */
#include "summary/histogram.h"

#include "summary/numbers.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { LANES = 8, FLOAT_SHIFT = 23 - HS__CELL_BITS, DOUBLE_SHIFT = 52 - HS__CELL_BITS };

/* The first cell of doubles begins at 2^-41. It also contains all smaller magnitudes. */
enum { FIRST_CELL = (1023 - 41) << HS__CELL_BITS };

/* Most x86 processors have wider vectors than the minimum for which the library is compiled. */
#if defined __GNUC__ && defined __x86_64__
#define WIDE     __attribute__((target("avx2")))
#define HAS_WIDE (__builtin_cpu_supports("avx2") != 0)
#else
#define HAS_WIDE false
#endif

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Computes the edges as TensorFlow does: each multiplication rounds. */
static void make_edges(double *edges)
{
    double *zero = edges + HS__EDGES_A_SIDE, edge = 1e-12;
    *zero = 0;
    for (int i = 1; i < HS__EDGES_A_SIDE; i++, edge *= 1.1) {
        zero[i] = edge;
        zero[-i] = -edge;
    }
    zero[HS__EDGES_A_SIDE] = DBL_MAX;
    zero[-HS__EDGES_A_SIDE] = -DBL_MAX;
}

/* The bits of the lowest magnitude beyond the edge. A number that equals an edge belongs to the bucket above the edge. For
 * a negative number, this is the bucket nearer to 0. */
static uint64_t beyond_as_double(double edge, bool negative)
{
    return bits_of(edge) + negative;
}

static uint32_t beyond_as_float(double edge, bool negative)
{
    uint32_t bits;
    float nearest = edge > (double)FLT_MAX ? FLT_MAX : (float)edge;
    memcpy(&bits, &nearest, sizeof bits);
    bool below = negative ? (double)nearest <= edge : (double)nearest < edge;
    return edge > (double)FLT_MAX ? UINT32_C(0x7f800000) : below ? bits + 1 : bits;
}

/* A float's place is the place of its cell, plus one if its other bits are not below the edge's. One addition with carry
 * computes both. */
static void make_float_cells(uint32_t *cells, const double *edges, uint32_t n, bool negative)
{
    const uint32_t first = negative ? HS__FLOAT_CELLS / 2 : 0, one = UINT32_C(1) << FLOAT_SHIFT;
    uint32_t place = negative ? HS__NEGATIVE : 0;
    for (uint32_t cell = 0; cell < HS__FLOAT_CELLS / 2; cell++) {
        uint32_t begin = cell * one, carry = 0, here = place;
        if (place % HS__NEGATIVE < n) {
            uint32_t beyond = beyond_as_float(edges[place % HS__NEGATIVE], negative);
            carry = beyond - begin < one ? one - (beyond - begin) : 0;
            place += carry != 0;
        }
        cells[first + cell] = here * one + carry - (first + cell) * one;
    }
}

static void make_double_cells(uint64_t *edge, uint16_t *place, const double *edges, size_t edges_n, bool negative)
{
    size_t n = 0;
    for (uint64_t cell = 0; cell < HS__DOUBLE_CELLS; cell++) {
        bool last = cell + 1 == HS__DOUBLE_CELLS;
        place[cell] = (uint16_t)(n + (negative ? HS__NEGATIVE : 0));
        edge[cell] = UINT64_MAX;
        if (n < edges_n && (last || beyond_as_double(edges[n], negative) < (cell + 1 + FIRST_CELL) << DOUBLE_SHIFT))
            edge[cell] = beyond_as_double(edges[n++], negative) | (uint64_t)negative << 63;
    }
}

/* Constant after the first histogram of the process has computed them. */
static hs__bucket_tables tables;

static void make_tables(void)
{
    make_edges(tables.edges);
    const double *positive = tables.edges + HS__EDGES_A_SIDE + 1;
    for (int sign = 0; sign < 2; sign++) { /* negative numbers also have the edge 0; -0 is not beyond it */
        const uint32_t n = HS__EDGES_A_SIDE + (uint32_t)sign;
        make_float_cells(tables.float_cells, positive - sign, n, sign);
        make_double_cells(tables.double_edge[sign], tables.double_place[sign], positive - sign, n, sign);
    }
}

hs__histogram *hs__histogram_new(const hs_env *env)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    hs__histogram *h = hs__alloc(env, 1, sizeof *h);
    if (!h)
        return NULL;
    pthread_once(&made, make_tables);
    h->tables = &tables;
    h->wide = HAS_WIDE;
    return h;
}

void hs__histogram_free(const hs_env *env, hs__histogram *histogram)
{
    hs__free(env, histogram);
}

void hs__histogram_clear(hs__histogram *h)
{
    h->min = DBL_MAX;
    h->max = -DBL_MAX;
    h->num = h->sum = h->sum_squares = 0;
    h->nan = h->infinity = 0;
    h->counted = 0;
    memset(h->buckets, 0, sizeof h->buckets);
    memset(h->counts, 0, sizeof h->counts);
}

static inline size_t place_of_float(const hs__histogram *h, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint32_t)(bits + h->tables->float_cells[bits >> FLOAT_SHIFT]) >> FLOAT_SHIFT;
}

static inline size_t place_of_double(const hs__histogram *h, double value)
{
    uint64_t bits = bits_of(value), negative = bits >> 63;
    int64_t cell = (int64_t)(bits >> DOUBLE_SHIFT & ((UINT64_C(1) << (63 - DOUBLE_SHIFT)) - 1)) - FIRST_CELL;
    cell = cell < 0 ? 0 : cell;
    cell = cell > HS__DOUBLE_CELLS - 1 ? HS__DOUBLE_CELLS - 1 : cell;
    return h->tables->double_place[negative][cell] + (size_t)(bits >= h->tables->double_edge[negative][cell]);
}

/* Loops without branches, which the compiler vectorizes. The result does not depend on the width of vectors. */
#define LOOK(TYPE, NAME, TARGET)                                                                                           \
    TARGET static bool is_within_##NAME(const TYPE *values, size_t n, TYPE min, TYPE max)                                  \
    {                                                                                                                      \
        int outside = 0;                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                                                     \
            outside |= !(values[i] >= min) | !(values[i] <= max);                                                          \
        return !outside;                                                                                                   \
    }                                                                                                                      \
    TARGET static void sum_##NAME(hs__histogram *h, const TYPE *values, size_t n)                                          \
    {                                                                                                                      \
        double sum[LANES] = {0}, squares[LANES] = {0};                                                                     \
        size_t i = 0;                                                                                                      \
        for (; i + LANES <= n; i += LANES)                                                                                 \
            for (size_t k = 0; k < LANES; k++) {                                                                           \
                double value = (double)values[i + k];                                                                      \
                sum[k] += value;                                                                                           \
                squares[k] += value * value;                                                                               \
            }                                                                                                              \
        for (size_t k = 0; k < LANES; k++) {                                                                               \
            double value = i + k < n ? (double)values[i + k] : 0;                                                          \
            h->sum += sum[k] + value;                                                                                      \
            h->sum_squares += squares[k] + value * value;                                                                  \
        }                                                                                                                  \
    }

LOOK(float, floats, )
LOOK(double, doubles, )

#ifdef WIDE
LOOK(float, wide_floats, WIDE)
LOOK(double, wide_doubles, WIDE)
#else
#define is_within_wide_floats  is_within_floats
#define is_within_wide_doubles is_within_doubles
#define sum_wide_floats        sum_floats
#define sum_wide_doubles       sum_doubles
#endif

/* Fast path: nearly all parts have only finite values between the minimum and maximum so far. */
#define ADD(TYPE)                                                                                                          \
    static bool is_usual_##TYPE(const hs__histogram *h, const TYPE *values, size_t n)                                      \
    {                                                                                                                      \
        if (!(h->num > 0)) /* no minimum and maximum yet */                                                                \
            return false;                                                                                                  \
        return h->wide ? is_within_wide_##TYPE##s(values, n, (TYPE)h->min, (TYPE)h->max)                                   \
                       : is_within_##TYPE##s(values, n, (TYPE)h->min, (TYPE)h->max);                                       \
    }                                                                                                                      \
    static size_t look_at_##TYPE##s(hs__histogram *h, TYPE *values, size_t n)                                              \
    {                                                                                                                      \
        if (is_usual_##TYPE(h, values, n))                                                                                 \
            return n;                                                                                                      \
        n = hs__keep_finite_##TYPE##s(values, n, &h->nan, &h->infinity);                                                   \
        for (size_t i = 0; i < n; i++) {                                                                                   \
            h->min = (double)values[i] < h->min ? (double)values[i] : h->min;                                              \
            h->max = (double)values[i] > h->max ? (double)values[i] : h->max;                                              \
        }                                                                                                                  \
        return n;                                                                                                          \
    }                                                                                                                      \
    static void count_##TYPE##s(hs__histogram *h, const TYPE *values, size_t n)                                            \
    {                                                                                                                      \
        size_t i = 0;                                                                                                      \
        for (; i + HS__COUNTERS <= n; i += HS__COUNTERS)                                                                   \
            for (size_t k = 0; k < HS__COUNTERS; k++)                                                                      \
                h->counts[k][place_of_##TYPE(h, values[i + k])]++;                                                         \
        for (; i < n; i++)                                                                                                 \
            h->counts[0][place_of_##TYPE(h, values[i])]++;                                                                 \
    }                                                                                                                      \
    void hs__histogram_add_##TYPE##s(hs__histogram *h, TYPE *values, size_t n)                                             \
    {                                                                                                                      \
        if (h->counted > UINT32_MAX - HS__NUMBERS)                                                                         \
            hs__histogram_count(h);                                                                                        \
        n = look_at_##TYPE##s(h, values, n);                                                                               \
        (h->wide ? sum_wide_##TYPE##s : sum_##TYPE##s)(h, values, n);                                                      \
        count_##TYPE##s(h, values, n);                                                                                     \
        h->num += (double)n;                                                                                               \
        h->counted += (uint32_t)n;                                                                                         \
    }

ADD(float)
ADD(double)

/* Adds the counts to the buckets, and clears the counts. Place 0 is the bucket after the edge 0 for both signs. The largest
 * double belongs to the last bucket. */
void hs__histogram_count(hs__histogram *h)
{
    for (size_t place = 0; place <= HS__EDGES_A_SIDE; place++) {
        size_t positive = HS__EDGES_A_SIDE + 1 + place, negative = HS__EDGES_A_SIDE + 1 - place;
        for (size_t k = 0; k < HS__COUNTERS; k++) {
            h->buckets[positive < HS__EDGES ? positive : HS__EDGES - 1] += h->counts[k][place];
            h->buckets[negative] += h->counts[k][HS__NEGATIVE + place];
        }
    }
    memset(h->counts, 0, sizeof h->counts);
    h->counted = 0;
}
