/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "formats/png.h"

#include <zlib.h>

static hs_env env;
static hs__buffer out;

static int setup(void **state)
{
    (void)state;
    hs__env_copy(&env, NULL, NULL);
    hs__buffer_init(&out, &env);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hs__buffer_free(&out);
    return 0;
}

static size_t get32(const unsigned char *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* Finds the data of the chunk at *at, which has this name, and moves behind it. */
static const unsigned char *chunk(size_t *at, const char *name, size_t *bytes)
{
    const unsigned char *begin = out.data + *at;
    assert_in_range(*at + 12, 0, out.size);
    *bytes = get32(begin);
    assert_in_range(*at + 12 + *bytes, 0, out.size);
    assert_memory_equal(begin + 4, name, 4);
    assert_int_equal(get32(begin + 8 + *bytes), crc32_z(0, begin + 4, *bytes + 4));
    *at += 12 + *bytes;
    return begin + 8;
}

static const unsigned char *idat(const hs__pixels *p, int color, size_t *bytes)
{
    size_t at = 8, n;
    assert_memory_equal(out.data, "\x89PNG\r\n\x1a\n", 8);
    const unsigned char *header = chunk(&at, "IHDR", &n);
    assert_int_equal(n, 13);
    assert_int_equal(get32(header), p->width);
    assert_int_equal(get32(header + 4), p->height);
    assert_int_equal(header[8], 8);
    assert_int_equal(header[9], color);
    const unsigned char *data = chunk(&at, "IDAT", bytes);
    chunk(&at, "IEND", &n);
    assert_int_equal(n, 0);
    assert_int_equal(at, out.size);
    return data;
}

static int paeth(int left, int above, int corner)
{
    int guess = left + above - corner;
    int to_left = abs(guess - left), to_above = abs(guess - above), to_corner = abs(guess - corner);
    return to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
}

/* Undoes the filters of the rows, and compares the pixels. */
static void assert_filtered(const hs__pixels *p, const unsigned char *raw)
{
    size_t row_bytes = p->width * p->channels;
    for (size_t y = 0; y < p->height; y++, raw += row_bytes + 1) {
        const unsigned char *row = p->data + y * row_bytes;
        assert_in_range(raw[0], 0, 4);
        for (size_t i = 0; i < row_bytes; i++) {
            bool first = i < p->channels;
            int left = first ? 0 : row[i - p->channels], above = y ? row[i - row_bytes] : 0,
                corner = first || !y ? 0 : row[i - row_bytes - p->channels];
            const int guesses[] = {0, left, above, (left + above) / 2, paeth(left, above, corner)};
            assert_int_equal((unsigned char)(raw[1 + i] + guesses[raw[0]]), row[i]);
        }
    }
}

/* A noisy ramp, for which different filters are best. */
static void fill(unsigned char *data, size_t n)
{
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (unsigned char)(i / 7 + (state >> 30));
    }
}

static void sizes_and_colors(void **state)
{
    (void)state;
    static unsigned char data[37 * 23 * 4], raw[37 * (1 + 23 * 4)];
    const int colors[] = {0, 0, 4, 2, 6};
    fill(data, sizeof data);
    for (size_t channels = 1; channels <= 4; channels++) {
        const hs__pixels p = {data, 23, 37, channels};
        uLongf raw_bytes = sizeof raw;
        size_t bytes;
        hs__buffer_clear(&out);
        assert_int_equal(hs__png_write(&out, &p, NULL), HS_OK);
        const unsigned char *compressed = idat(&p, colors[channels], &bytes);
        assert_int_equal(uncompress(raw, &raw_bytes, compressed, bytes), Z_OK);
        assert_int_equal(raw_bytes, 37 * (1 + 23 * channels));
        assert_filtered(&p, raw);
    }
}

static void filters_make_a_ramp_small(void **state)
{
    (void)state;
    static unsigned char data[256 * 256];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i / 256 + i % 256);
    assert_int_equal(hs__png_write(&out, &(hs__pixels){data, 256, 256, 1}, NULL), HS_OK);
    assert_in_range(out.size, 1, 1000);
}

static void invalid_images_are_refused(void **state)
{
    (void)state;
    hs_error err;
    const unsigned char pixel[4] = {0};
    const hs__pixels wrong[] = {
        {pixel, 0, 1, 1},
        {pixel, 1, 0, 1},
        {pixel, 1, 1, 0},
        {pixel, 1, 1, 5},
        {pixel, SIZE_MAX, 1, 1},
        {pixel, 1, SIZE_MAX, 4},
        {pixel, 1 << 20, 1 << 20, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(hs__png_write(&out, &wrong[i], &err), HS_INVALID_ARGUMENT, &err, "PNG");
    assert_int_equal(out.size, 0);
}

static hs_code write_one(test_env *t, void *user)
{
    static unsigned char data[64 * 64 * 3];
    hs__buffer buffer;
    (void)user;
    fill(data, sizeof data);
    hs__buffer_init(&buffer, &t->env);
    hs_code code = hs__png_write(&buffer, &(hs__pixels){data, 64, 64, 3}, NULL);
    hs__buffer_free(&buffer);
    return code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(write_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_and_colors, setup, teardown),
        cmocka_unit_test_setup_teardown(filters_make_a_ramp_small, setup, teardown),
        cmocka_unit_test_setup_teardown(invalid_images_are_refused, setup, teardown),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
