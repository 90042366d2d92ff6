/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of more than 4 GiB. They are written to a file in memory that does not store zeros, or to disk if the environment
 * variable HOOKSESS_BIG_TESTS is set. */
#include "formats/bundles.h"

enum { PIECE = 4096, MOST_PIECES = 64 };

/* The data file. */
static struct {
    uint64_t size;
    struct {
        uint64_t at;
        size_t bytes;
        char data[PIECE];
    } kept[MOST_PIECES]; /* all bytes that are not zero */
    size_t n_kept;
} sparse;

static const hs_file_system_ops *real;

static bool is_zero(const char *data, size_t bytes)
{
    return bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0);
}

static hs_code s_open(void *user, const char *path, int mode, void **file, hs_error *error)
{
    if (strcmp(path, DATA_FILE) != 0)
        return real->open(user, path, mode, file, error);
    if (mode != HS_OPEN_READ)
        sparse.size = sparse.n_kept = 0;
    *file = &sparse;
    return HS_OK;
}

static hs_code s_write(void *user, void *file, const void *data, size_t bytes, hs_error *error)
{
    if (file != &sparse)
        return real->write(user, file, data, bytes, error);
    for (size_t at = 0, n; at < bytes; at += n) {
        const char *piece = (const char *)data + at;
        n = bytes - at < PIECE ? bytes - at : PIECE;
        if (!is_zero(piece, n)) {
            assert_true(sparse.n_kept < MOST_PIECES);
            sparse.kept[sparse.n_kept].at = sparse.size + at;
            sparse.kept[sparse.n_kept].bytes = n;
            memcpy(sparse.kept[sparse.n_kept++].data, piece, n);
        }
    }
    sparse.size += bytes;
    return HS_OK;
}

/* Does not write to memory that is zero already, so that the system need not map it. */
static hs_code s_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *error)
{
    if (file != &sparse)
        return real->read(user, file, offset, data, bytes, got, error);
    uint64_t left = offset < sparse.size ? sparse.size - offset : 0;
    *got = bytes < left ? bytes : (size_t)left;
    for (size_t at = 0; at < *got; at += PIECE) {
        char *piece = (char *)data + at;
        size_t n = *got - at < PIECE ? *got - at : PIECE;
        if (!is_zero(piece, n))
            memset(piece, 0, n);
    }
    for (size_t i = 0; i < sparse.n_kept; i++)
        for (size_t k = 0; k < sparse.kept[i].bytes; k++) {
            uint64_t at = sparse.kept[i].at + k;
            if (at >= offset && at - offset < *got)
                ((char *)data)[at - offset] = sparse.kept[i].data[k];
        }
    return HS_OK;
}

static hs_code s_sync(void *user, void *file, hs_error *error)
{
    return file == &sparse ? HS_OK : real->sync(user, file, error);
}

static hs_code s_close(void *user, void *file, hs_error *error)
{
    return file == &sparse ? HS_OK : real->close(user, file, error);
}

static hs_code s_stat(void *user, const char *path, hs_file_stat *out, hs_error *error)
{
    if (strcmp(path, DATA_FILE) != 0)
        return real->stat(user, path, out, error);
    *out = (hs_file_stat){.bytes = sparse.size};
    return HS_OK;
}

static int set_up_sparse(void **state)
{
    static hs_file_system_ops ops;
    int failed = set_up(state);
    if (getenv("HOOKSESS_BIG_TESTS"))
        return failed;
    real = t.env.files.ops;
    ops = *real;
    ops.open = s_open;
    ops.write = s_write;
    ops.read = s_read;
    ops.sync = s_sync;
    ops.close = s_close;
    ops.stat = s_stat;
    t.env.files.ops = &ops;
    return failed;
}

/* Zeros except for a few bytes. */
static char *make(size_t bytes)
{
    char *data = calloc(bytes, 1);
    assert_non_null(data);
    data[0] = 'a';
    data[bytes / 2] = 'm';
    data[bytes - 1] = 'z';
    return data;
}

static void assert_same(const char *found, const char *expected, size_t bytes)
{
    enum { PART = 1 << 26 };
    for (size_t at = 0; at < bytes; at += PART)
        assert_memory_equal(found + at, expected + at, bytes - at < PART ? bytes - at : PART);
}

static void tb_011_a_string_of_4_GiB(void **state)
{
    (void)state;
    hs_string strings[] = {{"before", 6}, {.bytes = (size_t)1 << 32}, {"behind", 6}};
    char *large = make(strings[1].bytes);
    strings[1].data = large;
    write_bundle(&(named_tensor){"s", hs_tensor_of(HS_STRING, HS_SHAPE(3), strings)}, 1);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *entry = find_entry(&reader, "s");
    hs_string *found = malloc(hs__bundle_read_bytes(entry));
    assert_non_null(found);
    assert_ok(hs__bundle_read(&reader, entry, found, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_true(found[i].bytes == strings[i].bytes);
        assert_same(found[i].data, strings[i].data, strings[i].bytes);
    }
    free(found);
    hs__bundle_reader_close(&reader);
    free(large);
}

static void a_tensor_of_more_than_2_GiB(void **state)
{
    (void)state;
    const int64_t rows = 5, columns = ((int64_t)1 << 29) + 12345;
    const size_t bytes = (size_t)(rows * columns);
    char *large = make(bytes), *found = malloc(bytes), last;
    assert_non_null(found);
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_INT8, HS_SHAPE(rows, columns), large)}, 1);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *entry = find_entry(&reader, "x");
    assert_ok(hs__bundle_verify(&reader, entry, &err), &err);
    assert_ok(hs__bundle_read(&reader, entry, found, &err), &err);
    assert_same(found, large, bytes);
    for (int i = 0; i < 2; i++) { /* first read verifies all of it, second reads only the slice */
        last = 0;
        assert_ok(hs__bundle_read_slice(&reader, entry, &(hs__box){2, {rows - 1, columns - 1}, {1, 1}}, &last, &err), &err);
        assert_int_equal(last, 'z');
    }
    hs__bundle_reader_close(&reader);
    free(found);
    free(large);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_sparse, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_011_a_string_of_4_GiB),
        TEST(a_tensor_of_more_than_2_GiB),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
