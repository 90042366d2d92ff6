/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "event.pb-c.h"
#include "summary/histogram.h"
#include "summary/numbers.h"

#include <float.h>
#include <math.h>

/* The edges by their definition, and the buckets by a search. */
static double edges[HS__EDGES];

static int make_edges(void **state)
{
    (void)state;
    size_t n = HS__EDGES_A_SIDE + 1;
    for (double edge = 1e-12; edge < 1e20; edge *= 1.1)
        edges[n++] = edge;
    assert_int_equal(n, HS__EDGES - 1);
    edges[n] = DBL_MAX;
    for (size_t i = 0; i < HS__EDGES_A_SIDE; i++)
        edges[i] = -edges[HS__EDGES - 1 - i];
    return 0;
}

static size_t bucket_of(double value)
{
    size_t low = 0, high = HS__EDGES - 1;
    while (low < high) { /* the first edge above the value; values without one are in the last bucket */
        size_t middle = (low + high) / 2;
        if (edges[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Counts each value separately, so that a value in a wrong bucket is identified. */
static void assert_in_its_bucket(hs__histogram *h, double value, bool as_float)
{
    float narrow = (float)value;
    double wide = value;
    if (as_float)
        hs__histogram_add_floats(h, &narrow, 1);
    else
        hs__histogram_add_doubles(h, &wide, 1);
    hs__histogram_count(h);
    size_t bucket = bucket_of(as_float ? (double)narrow : value);
    if (h->buckets[bucket] != 1)
        fail_msg("%.17g is not in bucket %zu", value, bucket);
    h->buckets[bucket] = 0;
}

static void with_each_edge(bool as_float)
{
    hs_env env;
    assert_int_equal(hs__env_copy(&env, NULL, NULL), HS_OK);
    hs__histogram *h = hs__histogram_new(&env);
    hs__histogram_clear(h);
    for (size_t i = 0; i < HS__EDGES; i++) {
        double edge = edges[i];
        if (as_float && fabs(edge) > (double)FLT_MAX)
            continue;
        float near = (float)edge;
        const double values[] = {edge,
                                 nextafter(edge, -DBL_MAX),
                                 nextafter(edge, DBL_MAX),
                                 (double)nextafterf(near, -FLT_MAX),
                                 (double)nextafterf(near, FLT_MAX),
                                 edge * 1.05};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            if (isfinite(values[k]))
                assert_in_its_bucket(h, values[k], as_float);
    }
    hs__histogram_free(&env, h);
}

static void every_edge_and_its_neighbors_as_doubles(void **state)
{
    (void)state;
    with_each_edge(false);
}

static void every_edge_and_its_neighbors_as_floats(void **state)
{
    (void)state;
    with_each_edge(true);
}

/* The first and last number of each cell of the tables, with both signs. */
static void every_cell(void **state)
{
    (void)state;
    hs_env env;
    assert_int_equal(hs__env_copy(&env, NULL, NULL), HS_OK);
    hs__histogram *h = hs__histogram_new(&env);
    hs__histogram_clear(h);
    for (uint64_t cell = 0; cell < 0x7ff0; cell++)
        for (int k = 0; k < 4; k++) {
            uint64_t bits = (cell << 48) | (k & 1 ? UINT64_C(0xffffffffffff) : 0) | (k & 2 ? UINT64_C(1) << 63 : 0);
            double value;
            memcpy(&value, &bits, sizeof value);
            assert_in_its_bucket(h, value, false);
            if (fabs(value) <= (double)FLT_MAX)
                assert_in_its_bucket(h, value, true);
        }
    hs__histogram_free(&env, h);
}

/* Processors with and without wide vectors compute the same sums, bit for bit. */
static void sums_do_not_depend_on_the_machine(void **state)
{
    (void)state;
    hs_env env;
    float values[HS__NUMBERS];
    double wide[HS__NUMBERS], sums[2][4];
    assert_int_equal(hs__env_copy(&env, NULL, NULL), HS_OK);
    hs__histogram *h = hs__histogram_new(&env);
    for (int machine = 0; machine < 2; machine++) {
        hs__histogram_clear(h);
        for (size_t n = 1; n < 100; n++) {
            for (size_t i = 0; i < n; i++)
                wide[i] = (double)(values[i] = sinf((float)(n * i)) * 100 / 3);
            hs__histogram_add_floats(h, values, n);
            hs__histogram_add_doubles(h, wide, n);
        }
        assert_true(h->num == 99 * 100);
        memcpy(sums[machine], (const double[]){h->sum, h->sum_squares, h->min, h->max}, sizeof *sums);
        h->wide = false; /* the second time as without wide vectors */
    }
    assert_memory_equal(sums[0], sums[1], sizeof *sums);
    hs__histogram_free(&env, h);
}

static Hs__Pb__Summary *parse(const hs_summary *summary)
{
    hs_string bytes = hs_summary_serialized(summary);
    Hs__Pb__Summary *parsed = hs__pb__summary__unpack(NULL, bytes.bytes, (const uint8_t *)bytes.data);
    assert_non_null(parsed);
    return parsed;
}

/* The histogram of a tensor: the first value of a Summary, which owns it. */
static const Hs__Pb__HistogramProto *histogram_of(hs_dtype dtype, int64_t n, const void *data, Hs__Pb__Summary **parsed)
{
    hs_error err;
    const hs_tensor tensor = hs_tensor_of(dtype, HS_SHAPE(n), data);
    hs_summary *summary = hs_summary_new(NULL);
    assert_ok(hs_summary_histogram(summary, "h", &tensor, &err), &err);
    *parsed = parse(summary);
    hs_summary_free(summary);
    assert_int_equal((*parsed)->value[0]->value_case, HS__PB__SUMMARY__VALUE__VALUE_HISTO);
    return (*parsed)->value[0]->histo;
}

static void runs_of_empty_buckets_become_one(void **state)
{
    (void)state;
    Hs__Pb__Summary *parsed;
    const Hs__Pb__HistogramProto *h = histogram_of(HS_FLOAT, 3, (const float[]){0, 1, 1}, &parsed);
    const double limits[] = {0, edges[HS__EDGES_A_SIDE + 1], edges[bucket_of(1) - 1], edges[bucket_of(1)], DBL_MAX};
    const double counts[] = {0, 1, 0, 2, 0};
    assert_int_equal(h->n_bucket_limit, 5);
    assert_int_equal(h->n_bucket, 5);
    assert_memory_equal(h->bucket_limit, limits, sizeof limits);
    assert_memory_equal(h->bucket, counts, sizeof counts);
    assert_true(h->min == 0 && h->max == 1 && h->num == 3 && h->sum == 2 && h->sum_squares == 2);
    hs__pb__summary__free_unpacked(parsed, NULL);
}

static void a_histogram_of_no_values(void **state)
{
    (void)state;
    Hs__Pb__Summary *parsed;
    const Hs__Pb__HistogramProto *h = histogram_of(HS_DOUBLE, 0, NULL, &parsed);
    assert_true(h->min == DBL_MAX && h->max == -DBL_MAX && h->num == 0);
    assert_int_equal(h->n_bucket, 1);
    assert_true(h->bucket_limit[0] == DBL_MAX && h->bucket[0] == 0);
    hs__pb__summary__free_unpacked(parsed, NULL);
}

static void values_that_are_not_finite_are_counted_separately(void **state)
{
    (void)state;
    enum { N = 5000 };
    static float values[N];
    Hs__Pb__Summary *parsed;
    for (int i = 0; i < N; i++)
        values[i] = i % 100 == 7 ? NAN : i % 1000 == 1 ? -INFINITY : i % 1000 == 2 ? INFINITY : (float)(i % 7);
    const Hs__Pb__HistogramProto *h = histogram_of(HS_FLOAT, N, values, &parsed);
    assert_int_equal(parsed->n_value, 3);
    assert_true(h->num == N - 60 && h->min == 0 && h->max == 6);
    assert_string_equal(parsed->value[1]->tag, "h/nan");
    assert_true(parsed->value[1]->simple_value == 50);
    assert_string_equal(parsed->value[2]->tag, "h/infinity");
    assert_true(parsed->value[2]->simple_value == 10);
    hs__pb__summary__free_unpacked(parsed, NULL);
}

/* The same small numbers in every type. */
static void histograms_of_every_type(void **state)
{
    (void)state;
    const struct {
        hs_dtype dtype;
        const void *data;
    } same[] = {
        {HS_FLOAT, (const float[]){0, 1, 1, 3}},
        {HS_DOUBLE, (const double[]){0, 1, 1, 3}},
        {HS_HALF, (const uint16_t[]){0, 0x3c00, 0x3c00, 0x4200}},
        {HS_BFLOAT16, (const uint16_t[]){0, 0x3f80, 0x3f80, 0x4040}},
        {HS_INT8, (const int8_t[]){0, 1, 1, 3}},
        {HS_UINT8, (const uint8_t[]){0, 1, 1, 3}},
        {HS_INT16, (const int16_t[]){0, 1, 1, 3}},
        {HS_UINT16, (const uint16_t[]){0, 1, 1, 3}},
        {HS_INT32, (const int32_t[]){0, 1, 1, 3}},
        {HS_UINT32, (const uint32_t[]){0, 1, 1, 3}},
        {HS_INT64, (const int64_t[]){0, 1, 1, 3}},
        {HS_UINT64, (const uint64_t[]){0, 1, 1, 3}},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        Hs__Pb__Summary *parsed;
        const Hs__Pb__HistogramProto *h = histogram_of(same[i].dtype, 4, same[i].data, &parsed);
        if (h->n_bucket != 7 || h->bucket[1] != 1 || h->bucket[3] != 2 || h->bucket[5] != 1 || h->sum_squares != 11)
            fail_msg("wrong for %s", hs_dtype_name(same[i].dtype));
        hs__pb__summary__free_unpacked(parsed, NULL);
    }
}

/* Compares all of them with the conversion of single elements. */
static void every_half_and_bfloat16(void **state)
{
    (void)state;
    static uint16_t all[1 << 16];
    static float floats[1 << 16];
    for (size_t i = 0; i < 1 << 16; i++)
        all[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        const hs_tensor tensor = hs_tensor_of(k ? HS_HALF : HS_BFLOAT16, HS_SHAPE(1 << 16), all);
        hs__floats(&tensor, 0, 1 << 16, floats);
        for (size_t i = 0; i < 1 << 16; i++) {
            double wanted = hs_tensor_number(&tensor, i);
            if (!((double)floats[i] == wanted || (isnan(floats[i]) && isnan(wanted))) ||
                (wanted == 0 && !signbit(floats[i]) != !signbit(wanted)))
                fail_msg("%zx is %g, not %g", i, (double)floats[i], wanted);
        }
    }
}

static void reusing_a_summary_allocates_nothing(void **state)
{
    (void)state;
    static test_env t;
    static float values[2000];
    test_env_init(&t);
    hs_summary *summary = hs_summary_new(&t.env);
    const hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(2000), values);
    hs_summary_histogram(summary, "weights", &tensor, NULL);
    size_t before = t.allocations;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2000; i++)
            values[i] = i == 5 ? NAN : (float)(i % 2 ? -1 : 1) * expf((float)(i % (round * 40 + 1)) / 10 - 20);
        hs_summary_clear(summary);
        assert_int_equal(hs_summary_histogram(summary, "weights", &tensor, NULL), HS_OK);
    }
    assert_int_equal(t.allocations, before);
    hs_summary_free(summary);
    assert_int_equal(t.live, 0);
}

static void histograms_counted_by_the_caller(void **state)
{
    (void)state;
    hs_error err;
    double limits[] = {1, 2}, counts[] = {0, 5};
    hs_histogram_counts given = HS_INIT(hs_histogram_counts, 1, 2, 5, 7, 11, 2, limits, counts);
    hs_summary *summary = hs_summary_new(NULL);
    assert_ok(hs_summary_histogram_counted(summary, "h", &given, &err), &err);
    Hs__Pb__Summary *parsed = parse(summary);
    assert_true(parsed->value[0]->histo->bucket_limit[1] == 2 && parsed->value[0]->histo->bucket[1] == 5);
    hs__pb__summary__free_unpacked(parsed, NULL);
    limits[1] = 1;
    assert_fails(hs_summary_histogram_counted(summary, "h", &given, &err), HS_INVALID_ARGUMENT, &err, "limit 1");
    limits[1] = 2;
    counts[0] = -1;
    assert_fails(hs_summary_histogram_counted(summary, "h", &given, &err), HS_INVALID_ARGUMENT, &err, "count 0");
    given.buckets = 0;
    assert_fails(hs_summary_histogram_counted(summary, "h", &given, &err), HS_INVALID_ARGUMENT, &err, "bucket");
    assert_fails(hs_summary_histogram_counted(summary, "h", NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    hs_summary_free(summary);
}

/* Rows of left edge, right edge and count: the content (field 4) of a TensorProto. */
static void assert_uniform(const float *values, int64_t n, const double (*rows)[3], size_t n_rows)
{
    hs_error err;
    hs_summary *summary = hs_summary_new(NULL);
    const hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(n), values);
    const hs_uniform_histogram_options options = HS_INIT(hs_uniform_histogram_options, .buckets = (int64_t)n_rows);
    assert_ok(hs_summary_histogram_uniform(summary, "h", &tensor, &options, &err), &err);
    const hs_string text = hs_summary_serialized(summary);
    unsigned char content[2 + 4 * sizeof *rows] = {4 << 3 | 2, (unsigned char)(n_rows * sizeof *rows)};
    size_t bytes = 2 + n_rows * sizeof *rows, at = 0;
    memcpy(content + 2, rows, bytes - 2);
    while (at + bytes < text.bytes && memcmp(text.data + at, content, bytes) != 0)
        at++;
    assert_true(at + bytes < text.bytes);
    hs_summary_free(summary);
}

static void buckets_of_equal_width(void **state)
{
    (void)state;
    const double inf = (double)INFINITY;
    assert_uniform((const float[]){0, 1, 2, 3, 4}, 5, /* the largest value is in the last bucket */
                   (const double[][3]){{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 4, 2}}, 4);
    assert_uniform((const float[]){-1, 1, NAN, (float)inf, -0.5F, 0}, 6, (const double[][3]){{-1, 0, 2}, {0, 1, 2}}, 2);
    assert_uniform((const float[]){7, 7}, 2, (const double[][3]){{7, 7, 0}, {7, 7, 0}, {7, 7, 2}}, 3);
    assert_uniform((const float[]){NAN}, 1, (const double[][3]){{0, 0, 0}, {0, 0, 0}}, 2);
}

static void invalid_values_are_refused(void **state)
{
    (void)state;
    hs_error err;
    hs_summary *summary = hs_summary_new(NULL);
    const hs_string text = {"x", 1};
    hs_tensor tensor = hs_tensor_of(HS_STRING, HS_SCALAR, &text);
    assert_fails(hs_summary_histogram(summary, "h", &tensor, &err), HS_INVALID_ARGUMENT, &err, "string");
    assert_fails(hs_summary_histogram_uniform(summary, "h", &tensor, NULL, &err), HS_INVALID_ARGUMENT, &err, "string");
    tensor = hs_tensor_of((hs_dtype)99, HS_SCALAR, &text);
    assert_fails(hs_summary_histogram(summary, "h", &tensor, &err), HS_INVALID_ARGUMENT, &err, "invalid");
    tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(INT64_MAX), &text);
    assert_fails(hs_summary_histogram(summary, "h", &tensor, &err), HS_INVALID_ARGUMENT, &err, "h");
    assert_fails(hs_summary_histogram_uniform(summary, "h", &tensor, NULL, &err), HS_INVALID_ARGUMENT, &err, "h");
    assert_fails(hs_summary_histogram(summary, "h", NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_summary_histogram_uniform(summary, "h", NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(0), NULL);
    assert_fails(hs_summary_histogram(NULL, "h", &tensor, &err), HS_RESOURCE_EXHAUSTED, &err, "summary");
    assert_fails(hs_summary_histogram_uniform(NULL, "h", &tensor, NULL, &err), HS_RESOURCE_EXHAUSTED, &err, "summary");
    assert_fails(hs_summary_histogram(summary, "\xff", &tensor, &err), HS_INVALID_ARGUMENT, &err, "UTF-8");
    assert_fails(hs_summary_histogram_uniform(summary, "\xff", &tensor, NULL, &err), HS_INVALID_ARGUMENT, &err, "UTF-8");
    const struct {
        hs_uniform_histogram_options options;
        const char *says;
    } wrong[] = {
        {HS_INIT(hs_uniform_histogram_options, .buckets = INT64_MAX), "buckets"},
        {HS_INIT(hs_uniform_histogram_options, .buckets = -1), "buckets is -1"},
        {HS_INIT(hs_uniform_histogram_options, .description = "\xff"),
         "hs_uniform_histogram_options.description is not UTF-8"},
        {{.buckets = 1}, "HS_INIT(hs_uniform_histogram_options"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(hs_summary_histogram_uniform(summary, "h", &tensor, &wrong[i].options, &err), HS_INVALID_ARGUMENT,
                     &err, wrong[i].says);
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
    hs_summary_free(summary);
}

static hs_code fill(test_env *t, void *user)
{
    (void)user;
    const float values[] = {1, 2, NAN};
    const hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(3), values);
    hs_summary *summary = hs_summary_new(&t->env);
    if (!summary)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs_summary_histogram(summary, "h", &tensor, NULL);
    if (code)
        assert_int_equal(hs_summary_serialized(summary).bytes, 0);
    if (!code)
        code = hs_summary_histogram_uniform(summary, "u", &tensor, NULL, NULL);
    hs__pb__summary__free_unpacked(parse(summary), NULL);
    hs_summary_free(summary);
    return code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(fill, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_and_its_neighbors_as_doubles),
        cmocka_unit_test(every_edge_and_its_neighbors_as_floats),
        cmocka_unit_test(every_cell),
        cmocka_unit_test(sums_do_not_depend_on_the_machine),
        cmocka_unit_test(runs_of_empty_buckets_become_one),
        cmocka_unit_test(a_histogram_of_no_values),
        cmocka_unit_test(values_that_are_not_finite_are_counted_separately),
        cmocka_unit_test(histograms_of_every_type),
        cmocka_unit_test(every_half_and_bfloat16),
        cmocka_unit_test(reusing_a_summary_allocates_nothing),
        cmocka_unit_test(histograms_counted_by_the_caller),
        cmocka_unit_test(buckets_of_equal_width),
        cmocka_unit_test(invalid_values_are_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, make_edges, NULL);
}
