/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums and finite checks in pieces. */
#include "support/test.h"

#include "base/crc32c.h"
#include "formats/bundle.h"

#include <math.h>

enum { N = 3000001 }; /* doubles, about 23 MiB, not a whole number of pieces */

static double *values;

static int setup(void **state)
{
    (void)state;
    values = malloc(N * sizeof *values);
    for (size_t i = 0; i < N; i++)
        values[i] = (double)i * 0.5;
    return values ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(values);
    return 0;
}

static hs_tensor tensor_of(size_t n)
{
    return hs_tensor_of(HS_DOUBLE, HS_SHAPE((int64_t)n), values);
}

typedef struct {
    const hs_tensor *tensor;
    size_t piece;
} supply;

static hs_code produce(void *source, hs__bundle_write_fn put, void *user, hs_error *err)
{
    const supply *from = source;
    hs_code code = HS_OK;
    for (size_t at = 0, n; !code && at < from->tensor->bytes; at += n) {
        n = from->tensor->bytes - at < from->piece ? from->tensor->bytes - at : from->piece;
        code = put(user, (const char *)from->tensor->data + at, n, err);
    }
    return code;
}

/* Asserts that a writer finds in pieces what the whole tensor has. Returns the index of the first number that is not
 * finite. */
static int64_t assert_checked(const char *directory, const hs_tensor *tensor, size_t piece)
{
    hs_error err;
    hs__bundle_writer writer;
    const hs_shape shape = hs_tensor_shape(tensor);
    const hs_nonfinite found = hs_tensor_nonfinite(tensor);
    assert_ok(hs__bundle_writer_open(&writer, hs_env_default(), test_path(directory, "data"), 0, 1, &err), &err);
    assert_ok(hs__bundle_writer_add_from(&writer, "x", tensor->dtype, &shape, produce, &(supply){tensor, piece}, &err),
              &err);
    assert_int_equal(writer.entries[0].crc, hs__crc32c_mask(hs__crc32c(0, tensor->data, tensor->bytes)));
    assert_int_equal(writer.n_nonfinite, found.first_index >= 0);
    if (found.first_index >= 0)
        assert_memory_equal(&writer.nonfinite, &found, sizeof found);
    hs__bundle_writer_close(&writer);
    return found.first_index;
}

static void pieces_are_checked_as_the_whole(void **state)
{
    (void)state;
    enum { MANY = 300001 };
    const size_t sizes[] = {MANY, 1, 0, 1 << 15, (1 << 15) + 1, MANY - 7}, pieces[] = {8, 4096, 1 << 18, SIZE_MAX};
    char *directory = test_make_directory();
    values[1 << 18] = HUGE_VAL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            hs_tensor tensor = tensor_of(sizes[i]);
            assert_checked(directory, &tensor, pieces[k]);
        }
    test_remove_directory(directory);
}

static void indexes_are_those_of_the_whole(void **state)
{
    (void)state;
    char *directory = test_make_directory();
    hs_tensor tensor = tensor_of(N);
    values[N - 1] = (double)NAN;
    values[N - 2] = -HUGE_VAL;
    values[1 << 20] = HUGE_VAL;
    assert_int_equal(assert_checked(directory, &tensor, 1 << 18), 1 << 20);
    test_remove_directory(directory);
}

/* Small and large tensors are written to a bundle and read. */
static void bundles_of_large_tensors_are_read(void **state)
{
    (void)state;
    hs_error err;
    char *directory = test_make_directory();
    double *back = malloc(N * sizeof *back);
    hs_tensor large = tensor_of(N), small = tensor_of(10);
    hs__bundle_writer writer;
    hs__bundle_reader reader;
    char prefix[256], data[256], index[256];
    snprintf(prefix, sizeof prefix, "%s", test_path(directory, "b"));
    snprintf(data, sizeof data, "%s", test_path(directory, "b.data-00000-of-00001"));
    snprintf(index, sizeof index, "%s", test_path(directory, "b.index"));
    assert_ok(hs__bundle_writer_open(&writer, hs_env_default(), data, 0, 1, &err), &err);
    assert_ok(hs__bundle_writer_add(&writer, "a", &small, &err), &err);
    assert_ok(hs__bundle_writer_add(&writer, "b", &large, &err), &err);
    assert_ok(hs__bundle_writer_add(&writer, "c", &small, &err), &err);
    assert_ok(hs__bundle_writer_finish(&writer, index, &err), &err);
    hs__bundle_writer_close(&writer);
    assert_ok(hs__bundle_reader_open(&reader, hs_env_default(), prefix, &err), &err);
    assert_ok(hs__bundle_read(&reader, hs__bundle_find(&reader, "b"), back, &err), &err);
    assert_memory_equal(back, values, N * sizeof *back);
    assert_ok(hs__bundle_read(&reader, hs__bundle_find(&reader, "c"), back, &err), &err);
    assert_memory_equal(back, values, 10 * sizeof *back);
    hs__bundle_reader_close(&reader);
    free(back);
    test_remove_directory(directory);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(pieces_are_checked_as_the_whole),
        test(indexes_are_those_of_the_whole),
        test(bundles_of_large_tensors_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
