/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged bundles, and bundles with a wrong index. */
#include "base/file_spy.h"
#include "base/meter.h"
#include "formats/bundles.h"

#include "base/buffer.h"
#include "base/crc32c.h"

static const float numbers[6] = {1, 2, 3, 4, 5, 6};

/* Opens the bundle, and reads and verifies its tensor `name`. Both must return the same, unless only the checksum of an
 * unsupported tensor is verified. */
static hs_code outcome(const char *name)
{
    hs__bundle_reader reader;
    hs_code code = hs__bundle_reader_open(&reader, &t.env, PREFIX, &err);
    if (code)
        return code;
    const hs__bundle_entry *entry = find_entry(&reader, name);
    static char data[1 << 21];
    bool fits = hs__bundle_check(&reader, entry, NULL) != HS_OK || hs__bundle_read_bytes(entry) <= sizeof data;
    hs_code verified = hs__bundle_verify(&reader, entry, &err);
    code = fits ? hs__bundle_read(&reader, entry, data, &err) : verified;
    assert_true(code == verified || (code == HS_UNIMPLEMENTED && (!verified || verified == HS_DATA_LOSS)));
    hs__bundle_reader_close(&reader);
    return code;
}

static void assert_outcome(hs_code code, const char *why)
{
    assert_fails(outcome("x"), code, &err, why);
}

/* Damage of the data. */

static void change_data(size_t at, unsigned char flip)
{
    size_t bytes;
    char *data = test_read_file(DATA_FILE, &bytes);
    assert_true(at < bytes);
    data[at] = (char)(data[at] ^ flip);
    test_write_file(DATA_FILE, data, bytes);
    free(data);
}

static void tb_017_every_inverted_byte_is_data_loss(void **state)
{
    (void)state;
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)}, 1);
    for (size_t at = 0; at < sizeof numbers; at++) {
        change_data(at, 0xff);
        assert_outcome(HS_DATA_LOSS, "checksum mismatch of 'x'");
        assert_contains(err.message, DATA_FILE);
        change_data(at, 0xff);
    }
    assert_ok(outcome("x"), &err);
}

static void tb_017_a_flipped_bit_of_a_large_tensor_is_data_loss(void **state)
{
    (void)state;
    enum { N = (1 << 18) + 100 };
    static const size_t places[] = {0, (1 << 18) - 1, 1 << 18, N - 1};
    static unsigned char large[N];
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_UINT8, HS_SHAPE(N), large)}, 1);
    for (size_t i = 0; i < 4; i++) {
        change_data(places[i], 0x10);
        assert_outcome(HS_DATA_LOSS, "checksum mismatch");
        change_data(places[i], 0x10);
    }
}

static void tb_019_every_inverted_byte_of_strings_is_data_loss(void **state)
{
    (void)state;
    const hs_string strings[] = {{"hello", 5}, {"world!", 6}};
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_STRING, HS_SHAPE(2), strings)}, 1);
    for (size_t at = 0; at < 2 + 4 + 11; at++) { /* lengths, checksum, text */
        change_data(at, 0xff);
        assert_outcome(HS_DATA_LOSS, at < 2 ? "lengths of 'x'" : "checksum mismatch");
        change_data(at, 0xff);
    }
    assert_ok(outcome("x"), &err);
}

static void every_flipped_bit_of_strings_is_data_loss(void **state)
{
    (void)state;
    const hs_string strings[] = {{"ab", 2}, {"", 0}, {"c", 1}};
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_STRING, HS_SHAPE(3), strings)}, 1);
    for (size_t bit = 0; bit < 8 * (3 + 4 + 3); bit++) {
        change_data(bit / 8, (unsigned char)(1 << bit % 8));
        assert_outcome(HS_DATA_LOSS, "'x'");
        change_data(bit / 8, (unsigned char)(1 << bit % 8));
    }
}

static void a_truncated_data_file_is_data_loss(void **state)
{
    (void)state;
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)}, 1);
    for (size_t bytes = 0; bytes < sizeof numbers; bytes++) {
        test_write_file(DATA_FILE, numbers, bytes);
        assert_outcome(HS_DATA_LOSS, "too few for 'x'");
    }
}

/* Damage of the index. */

static void tb_044s_every_truncation_of_the_index_is_data_loss(void **state)
{
    (void)state;
    size_t bytes;
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)}, 1);
    char *index = test_read_file(INDEX, &bytes);
    while (bytes-- > 0) {
        test_write_file(INDEX, index, bytes);
        assert_outcome(HS_DATA_LOSS, INDEX);
    }
    free(index);
}

static void every_flipped_bit_of_the_index_is_found_or_harmless(void **state)
{
    (void)state;
    size_t bytes;
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)}, 1);
    char *index = test_read_file(INDEX, &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        index[bit / 8] = (char)(index[bit / 8] ^ 1 << bit % 8);
        test_write_file(INDEX, index, bytes);
        hs_code code = outcome("x");
        assert_true(code == HS_DATA_LOSS || code == HS_OK); /* the footer has unused bytes; the meta-index is not read */
        assert_true(code == HS_DATA_LOSS || bit / 8 >= 41); /* every bit of the first block matters */
        index[bit / 8] = (char)(index[bit / 8] ^ 1 << bit % 8);
    }
    free(index);
}

/* Writes an index with one entry, which may be invalid. */

static void write_claim(const claim *c)
{
    claim entry = *c;
    entry.crc = hs__crc32c(0, numbers, sizeof numbers);
    index_begin();
    index_put_header(1);
    index_put_claim("x", &entry);
    index_end();
    test_write_file(DATA_FILE, numbers, sizeof numbers);
}

static void assert_claims(const claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        write_claim(&claims[i]);
        assert_outcome(claims[i].code, claims[i].why);
    }
}
#define ASSERT_CLAIMS(claims) assert_claims(claims, sizeof claims / sizeof *claims)

static void a_correct_entry_is_read(void **state)
{
    (void)state;
    write_claim(&(claim){.n_dims = 1, .dims = {6}, .size = 24});
    assert_ok(outcome("x"), &err);
}

static void shard_and_offset_are_checked(void **state)
{
    (void)state;
    const claim claims[] = {
        {"data file -1 of 1", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .shard = -1},
        {"data file 1 of 1", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .shard = 1},
        {"data file 2147483647", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .shard = INT32_MAX},
        {"24 bytes at -1", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .offset = -1},
        {"24 bytes at -9223372036854775808", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .offset = INT64_MIN},
        {"too few for 'x'", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .offset = 1},
        {"too few for 'x'", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .offset = 25},
        {"too few for 'x'", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .offset = INT64_MAX},
        {"too few for 'x'", HS_DATA_LOSS, .n_dims = 1, .dims = {0}, .size = 0, .offset = 1000},
        {"-24 bytes at 0", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = -24},
    };
    ASSERT_CLAIMS(claims);
}

static void tb_042s_the_size_is_checked(void **state)
{
    (void)state;
    const claim claims[] = {
        {"need 24", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 20},
        {"need 24", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 0},
        {"need 24", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 28},
        {"need 28", HS_DATA_LOSS, .n_dims = 1, .dims = {7}, .size = 24},
        {"need 0", HS_DATA_LOSS, .n_dims = 1, .dims = {0}, .size = 24},
        {"need 4", HS_DATA_LOSS, .size = 24}, /* a scalar */
        {"need 48", HS_DATA_LOSS, .dtype = HS_DOUBLE, .n_dims = 1, .dims = {6}, .size = 24},
        {"need 28", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {24}, .size = 24},
        {"too few for 'x'", HS_DATA_LOSS, .n_dims = 1, .dims = {(int64_t)1 << 40}, .size = (int64_t)4 << 40},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {1}, .size = (int64_t)1 << 50},
    };
    ASSERT_CLAIMS(claims);
}

static void tb_043s_the_shape_is_checked(void **state)
{
    (void)state;
    const int64_t large = (int64_t)1 << 40;
    const claim claims[] = {
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 1, .dims = {-6}, .size = 24},
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 2, .dims = {-2, -3}, .size = 24},
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 2, .dims = {0, -1}, .size = 0},
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 2, .dims = {large, large}, .size = 24},
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 1, .dims = {((int64_t)1 << 62) + 6}, .size = 24}, /* wraps to 24 */
        {"has an invalid shape", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {INT64_MAX}, .size = 24},
        {"not supported", HS_UNIMPLEMENTED, .n_dims = 9, .dims = {1, 1, 1, 1, 1, 1, 1, 1, 6}, .size = 24},
        {"not supported", HS_UNIMPLEMENTED, .n_dims = 1, .dims = {6}, .size = 24, .unknown_rank = true},
        {"type (20)", HS_UNIMPLEMENTED, .dtype = 20, .n_dims = 1, .dims = {6}, .size = 24},
        {"type (-1)", HS_UNIMPLEMENTED, .dtype = -1, .n_dims = 1, .dims = {6}, .size = 24},
        {"type (101)", HS_UNIMPLEMENTED, .dtype = 101, .n_dims = 1, .dims = {6}, .size = 24},
    };
    ASSERT_CLAIMS(claims);
}

static void the_checksum_of_an_unsupported_tensor_is_verified(void **state)
{
    (void)state;
    const claim claims[] = {
        {.dtype = 20, .n_dims = 1, .dims = {6}, .size = 24},
        {.dtype = -1, .size = 24},
        {.n_dims = 9, .dims = {1, 1, 1, 1, 1, 1, 1, 1, 7}, .size = 24},
        {.unknown_rank = true, .size = 24},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        hs__bundle_reader reader;
        write_claim(&claims[i]);
        assert_ok(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), &err);
        const hs__bundle_entry *x = find_entry(&reader, "x");
        assert_string_equal(hs__bundle_dtype_name(x), i == 0 ? "20" : i == 1 ? "-1" : "float");
        assert_ok(hs__bundle_verify(&reader, x, &err), &err);
        assert_fails(hs__bundle_locate(&reader, x, &err), HS_UNIMPLEMENTED, &err, "'x'");
        change_data(23, 1);
        assert_fails(hs__bundle_verify(&reader, x, &err), HS_DATA_LOSS, &err, "checksum mismatch of 'x'");
        hs__bundle_reader_close(&reader);
    }
    write_claim(&(claim){.dtype = HS_STRING, .unknown_rank = true, .size = 24}); /* the number of lengths is unknown */
    assert_outcome(HS_UNIMPLEMENTED, "'x'");
}

static hs_code verify_unsupported(test_env *failing, void *user)
{
    hs__bundle_reader reader;
    (void)user;
    hs_code code = hs__bundle_reader_open(&reader, &failing->env, PREFIX, &err);
    if (code)
        return code;
    code = hs__bundle_verify(&reader, find_entry(&reader, "x"), &err);
    hs__bundle_reader_close(&reader);
    return code;
}

static void each_allocation_of_an_unsupported_tensor(void **state)
{
    (void)state;
    write_claim(&(claim){.dtype = 20, .size = 24});
    test_each_allocation(verify_unsupported, NULL);
}

/* Sizes in an index allocate nothing: memory is allocated only if the file has the bytes. */
static void assert_modest(const claim *c, size_t at_most)
{
    meter m;
    hs__bundle_reader reader;
    meter_init(&m, &t.env);
    write_claim(c);
    assert_ok(hs__bundle_reader_open(&reader, &m.env, PREFIX, &err), &err);
    const hs__bundle_entry *entry = find_entry(&reader, "x");
    meter_reset(&m);
    assert_fails(hs__bundle_verify(&reader, entry, &err), c->code, &err, c->why);
    assert_fails(hs__bundle_locate(&reader, entry, &err), c->code, &err, c->why);
    assert_fails(hs__bundle_read(&reader, entry, NULL, &err), c->code, &err, c->why);
    hs__bundle_reader_close(&reader);
    if (m.bytes > at_most)
        fail_msg("%s: %zu bytes were asked for", c->why, m.bytes);
}

static void huge_sizes_allocate_nothing(void **state)
{
    (void)state;
    const int64_t large = (int64_t)1 << 40, most = (int64_t)1 << 59;
    const claim claims[] = {
        {"too few for 'x'", HS_DATA_LOSS, .n_dims = 1, .dims = {large}, .size = 4 * large},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {INT64_MAX - 8}, .size = INT64_MAX - 8},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {25}, .size = 25},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {9}, .size = 9, .offset = INT64_MAX},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {large}, .size = 2 * large},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {3}, .size = INT64_MAX},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {most - 1}, .size = INT64_MAX},
        {"too few for 'x'", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {3}, .size = 24, .offset = INT64_MAX},
        {"has an invalid shape", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {2 * most}, .size = INT64_MAX},
        {"has an invalid shape", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 2, .dims = {most, most}, .size = 24},
        {"need 1099511627780", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {large}, .size = 24},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        assert_modest(&claims[i], 4096); /* enough for paths */
}

static void an_unreadable_tensor_does_not_affect_the_others(void **state)
{
    (void)state;
    write_bundle(&(named_tensor){"good", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)}, 1);
    size_t bytes;
    unsigned char *good = index_value("good", &bytes);
    index_begin();
    index_put_header(1);
    index_put("a", 1, "\x08\x14", 2); /* of type 20 */
    index_put("good", 4, good, bytes);
    index_end();
    free(good);
    assert_fails(outcome("a"), HS_UNIMPLEMENTED, &err, "'a'");
    assert_ok(outcome("good"), &err);
}

/* Tensors that share bytes. */

/* Opens a bundle of tensors "a", "b", ... with these extents of the data. */
static hs_code open_extents(const int64_t (*extents)[2], const int32_t *shards, size_t n)
{
    hs__bundle_reader reader;
    index_begin();
    index_put_header(2);
    for (size_t i = 0; i < n; i++) {
        char name[] = {(char)('a' + i), '\0'};
        index_put_claim(name, &(claim){.dtype = HS_UINT8,
                                       .n_dims = 1,
                                       .dims = {extents[i][1]},
                                       .offset = extents[i][0],
                                       .size = extents[i][1],
                                       .shard = shards ? shards[i] : 0});
    }
    index_end();
    hs_code code = hs__bundle_reader_open(&reader, &t.env, PREFIX, &err);
    if (!code)
        hs__bundle_reader_close(&reader);
    return code;
}
#define OPEN_EXTENTS(...)                                                                                                  \
    open_extents((const int64_t[][2]){__VA_ARGS__}, NULL, sizeof(int64_t[][2]){__VA_ARGS__} / sizeof(int64_t[2]))

static void tensors_that_share_bytes_are_refused(void **state)
{
    (void)state;
    assert_fails(OPEN_EXTENTS({0, 24}, {0, 24}), HS_DATA_LOSS, &err, "the data of 'a' and 'b' overlap");
    assert_contains(err.message, INDEX);
    assert_fails(OPEN_EXTENTS({0, 24}, {23, 1}), HS_DATA_LOSS, &err, "the data of 'a' and 'b' overlap");
    assert_fails(OPEN_EXTENTS({23, 2}, {0, 24}), HS_DATA_LOSS, &err, "the data of 'b' and 'a' overlap");
    assert_fails(OPEN_EXTENTS({0, 8}, {9, 8}, {8, 8}), HS_DATA_LOSS, &err, "the data of 'c' and 'b' overlap");
    assert_fails(OPEN_EXTENTS({0, 24}, {5, 0}, {8, 8}), HS_DATA_LOSS, &err, "the data of 'a' and 'c' overlap");
    assert_fails(OPEN_EXTENTS({1, INT64_MAX}, {INT64_MAX, INT64_MAX}), HS_DATA_LOSS, &err, "overlap");
}

static void tensors_that_share_no_bytes_are_read(void **state)
{
    (void)state;
    assert_ok(OPEN_EXTENTS({8, 8}, {0, 8}, {16, 8}), &err);
    assert_ok(OPEN_EXTENTS({0, 8}, {100, 8}, {8, 8}), &err);
    assert_ok(OPEN_EXTENTS({8, 0}, {8, 8}, {8, 0}, {10, 0}, {0, 8}, {16, 0}, {16, 0}),
              &err); /* empty tensors may have any offset */
    assert_ok(open_extents((const int64_t[][2]){{0, 24}, {0, 24}}, (const int32_t[]){0, 1}, 2), &err);
}

static void a_bundle_is_verified_in_proportion_to_its_data(void **state)
{
    (void)state;
    enum { N = 1000, BYTES = 1 << 16 };
    static char data[BYTES];
    file_spy spy;
    hs__bundle_reader reader;
    file_spy_init(&spy, &t.env);
    test_write_file(DATA_FILE, data, BYTES);
    index_begin();
    index_put_header(1);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "%03d", i);
        index_put_claim(
            name,
            &(claim){.dtype = HS_UINT8, .n_dims = 1, .dims = {BYTES}, .size = BYTES, .crc = hs__crc32c(0, data, BYTES)});
    }
    index_end();
    hs_code code = hs__bundle_reader_open(&reader, &spy.env, PREFIX, &err);
    for (size_t i = 0; !code && i < reader.n_entries; i++)
        assert_ok(hs__bundle_verify(&reader, &reader.entries[i], &err), &err);
    assert_true(spy.bytes_read < 3 * BYTES);
    assert_says(&err, HS_DATA_LOSS, "the data of '000' and '001' overlap");
}

/* Strings with wrong lengths and right checksums. */
static void assert_lengths(const char *lengths, size_t n, const uint64_t *values, const char *why)
{
    unsigned char data[100] = {0};
    uint32_t crc = 0;
    memcpy(data, lengths, n);
    for (size_t i = 0; i < 2; i++) {
        unsigned char fixed[8];
        hs__put64(fixed, values[i]);
        crc = hs__crc32c(crc, fixed, values[i] <= UINT32_MAX ? 4 : 8);
    }
    hs__put32(data + n, hs__crc32c_mask(crc));
    write_claim(&(claim){.dtype = HS_STRING, .n_dims = 1, .dims = {2}, .size = (int64_t)n + 4 + 3});
    test_write_file(DATA_FILE, data, n + 4 + 3); /* three bytes of text */
    assert_outcome(HS_DATA_LOSS, why);
}

static void lengths_of_strings_are_checked(void **state)
{
    (void)state;
    assert_lengths("\1\1", 2, (uint64_t[]){1, 1}, "bytes, but its lengths need 2");
    assert_lengths("\4\2", 2, (uint64_t[]){4, 2}, "bytes, but its lengths need 6");
    assert_lengths("\1\100", 2, (uint64_t[]){1, 64}, "cannot read the lengths of 'x'");
    assert_lengths("\1\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", 11, (uint64_t[]){1, UINT64_MAX - 1},
                   "cannot read the lengths");
    assert_lengths("\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\4", 11, (uint64_t[]){UINT64_MAX, 4}, "cannot read the lengths");
    assert_lengths("\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 13, (uint64_t[]){1, 0}, "cannot read the lengths");
    assert_lengths("\1\2", 2, (uint64_t[]){2, 1}, "checksum mismatch of the lengths");
}

/* Verifying strings in pieces. */

enum { PIECE = 1 << 18 };

/* Writes empty strings, a string of `text` bytes, and an empty string. */
static void write_strings(size_t empty, size_t text_bytes)
{
    static char text[1000];
    hs_string *strings = calloc(empty + 2, sizeof *strings);
    assert_non_null(strings);
    strings[empty] = (hs_string){text, text_bytes};
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_STRING, HS_SHAPE((int64_t)empty + 2), strings)}, 1);
    free(strings);
}

static hs_code verify_strings(void)
{
    hs__bundle_reader reader = open_bundle();
    hs_code code = hs__bundle_verify(&reader, find_entry(&reader, "x"), &err);
    hs__bundle_reader_close(&reader);
    return code;
}

static void strings_of_every_length_are_verified(void **state)
{
    (void)state;
    for (size_t empty = PIECE - 20; empty <= PIECE + 2; empty++) {
        size_t lengths = empty + 3, text = lengths + 4; /* the text's length has two bytes */
        write_strings(empty, 1000);
        assert_ok(verify_strings(), &err);
        change_data(empty, 1);
        assert_fails(verify_strings(), HS_DATA_LOSS, &err, "lengths of 'x'");
        change_data(empty, 1);
        change_data(lengths, 1);
        assert_fails(verify_strings(), HS_DATA_LOSS, &err, "checksum mismatch of the lengths of 'x'");
        change_data(lengths, 1);
        change_data(text, 1);
        assert_fails(verify_strings(), HS_DATA_LOSS, &err, "checksum mismatch of 'x'");
        change_data(text, 1);
        change_data(text + 999, 1);
        assert_fails(verify_strings(), HS_DATA_LOSS, &err, "checksum mismatch of 'x'");
    }
}

static void strings_are_verified_in_little_memory(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    meter m;
    hs__bundle_reader reader;
    meter_init(&m, &t.env);
    write_strings(N, 0); /* 16 bytes of memory each when read */
    assert_ok(hs__bundle_reader_open(&reader, &m.env, PREFIX, &err), &err);
    meter_reset(&m);
    assert_ok(hs__bundle_verify(&reader, find_entry(&reader, "x"), &err), &err);
    assert_true(m.bytes < 2 * PIECE);
    hs__bundle_reader_close(&reader);
}

/* Lengths that leave no room for their checksum. */
static void lengths_leave_room_for_their_checksum(void **state)
{
    (void)state;
    write_claim(&(claim){.dtype = HS_STRING, .n_dims = 1, .dims = {1}, .size = 5});
    test_write_file(DATA_FILE, "\200\000abc", 5);
    assert_outcome(HS_DATA_LOSS, "lengths of 'x'");
    test_write_file(DATA_FILE, "\x80\x80\x80\x80\x00", 5);
    assert_outcome(HS_DATA_LOSS, "lengths of 'x'");
}

/* Invalid indices. */

static void assert_no_bundle(const char *why)
{
    hs__bundle_reader reader;
    index_end();
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), HS_DATA_LOSS, &err, why);
    assert_contains(err.message, INDEX);
}

static void an_index_needs_a_header(void **state)
{
    (void)state;
    index_begin();
    assert_no_bundle("has no header");
    index_begin();
    index_put("x", 1, "\x08\1", 2);
    assert_no_bundle("has no header");
}

static void a_header_must_be_valid(void **state)
{
    (void)state;
    index_begin();
    index_put("", 0, "\xff\xff", 2);
    assert_no_bundle("cannot read the header");
    index_begin();
    index_put("", 0, "\x08\1\x1a\2\x18\2\x1a\2\x18\2", 10); /* its version twice */
    assert_no_bundle("cannot read the header");
    index_begin();
    index_put_header(0);
    assert_no_bundle("the number of data files is 0");
    index_begin();
    index_put_header(-3);
    assert_no_bundle("the number of data files is -3");
}

static void tb_043s_an_entry_must_be_valid(void **state)
{
    (void)state;
    index_begin();
    index_put_header(1);
    index_put("broken", 6, "\x08", 1);
    assert_no_bundle("cannot read the entry of 'broken'");
}

typedef struct {
    const char *field, *value;
    size_t bytes;
} serialized;
#define FIELD(field, value)                                                                                                \
    {                                                                                                                      \
        field, value, sizeof(value) - 1                                                                                    \
    }

static void put_one(const serialized *entry)
{
    index_begin();
    index_put_header(1);
    index_put("x", 1, entry->value, entry->bytes);
}

static void each_field_of_an_entry_must_have_its_wire_type(void **state)
{
    (void)state;
    hs__bundle_reader reader;
    const serialized right[] = {
        FIELD("the numbers", "\x08\1\x18\0\x20\0\x28\4\x35\1\2\3\4"),
        FIELD("size and name", "\x08\1\x12\7\x12\5\x08\0\x12\1n"),
        FIELD("the rank", "\x08\1\x12\2\x18\1"),
        FIELD("start and length", "\x08\1\x3a\6\x0a\4\x08\0\x10\1"),
        FIELD("unknown fields", "\x08\1\x45\1\2\3\4\x12\4\x22\2\x08\1\x3a\4\x12\2\x08\1"),
    };
    const serialized wrong[] = {
        FIELD("dtype", "\x0a\1\1"),
        FIELD("dtype", "\x0d\1\0\0\0"),
        FIELD("shape", "\x10\1"),
        FIELD("data file", "\x1a\0"),
        FIELD("data file", "\x1d\0\0\0\0"),
        FIELD("offset", "\x22\0"),
        FIELD("offset", "\x21\0\0\0\0\0\0\0\0"),
        FIELD("size", "\x2a\1\4"),
        FIELD("size", "\x29\4\0\0\0\0\0\0\0"),
        FIELD("checksum", "\x30\1"),
        FIELD("checksum", "\x32\4\1\2\3\4"),
        FIELD("checksum", "\x31\1\2\3\4\0\0\0\0"),
        FIELD("slice", "\x38\1"),
        FIELD("dimension", "\x12\2\x10\1"),
        FIELD("rank", "\x12\3\x1a\1\1"),
        FIELD("rank", "\x12\5\x1d\1\0\0\0"),
        FIELD("size of a dimension", "\x12\5\x12\3\x0a\1\1"),
        FIELD("size of a dimension", "\x12\7\x12\5\x0d\1\0\0\0"),
        FIELD("name of a dimension", "\x12\4\x12\2\x10\1"),
        FIELD("part of a slice", "\x3a\2\x08\1"),
        FIELD("start of a slice", "\x3a\5\x0a\3\x0a\1\1"),
        FIELD("start of a slice", "\x3a\7\x0a\5\x0d\1\0\0\0"),
        FIELD("length of a slice", "\x3a\5\x0a\3\x12\1\1"),
        FIELD("length of a slice", "\x3a\7\x0a\5\x15\1\0\0\0"),
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        put_one(&right[i]);
        index_end();
        if (hs__bundle_reader_open(&reader, &t.env, PREFIX, &err))
            fail_msg("%s: %s", right[i].field, err.message);
        hs__bundle_reader_close(&reader);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_one(&wrong[i]);
        index_end();
        if (!hs__bundle_reader_open(&reader, &t.env, PREFIX, &err))
            fail_msg("%s (%zu): a wrong wire type was accepted", wrong[i].field, i);
        assert_says(&err, HS_DATA_LOSS, "cannot read the entry of 'x'");
    }
}

static void names_are_unique(void **state)
{
    (void)state;
    index_begin();
    index_put_header(1);
    index_put("x", 1, "\x08\1", 2);
    index_put("x", 1, "\x08\1", 2);
    assert_no_bundle("keys are not in order");
    index_begin();
    index_put_header(1);
    index_put_header(1);
    assert_no_bundle("keys are not in order");
}

static void names_have_no_zero_byte(void **state)
{
    (void)state;
    index_begin();
    index_put_header(1);
    index_put("a\0b", 3, "\x08\1", 2);
    assert_no_bundle("zero byte");
}

static void tb_044s_other_files_are_not_bundles(void **state)
{
    (void)state;
    hs__bundle_reader reader;
    test_write_file(INDEX, "", 0);
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), HS_DATA_LOSS, &err, INDEX);
    char text[1000];
    memset(text, 'x', sizeof text);
    test_write_file(INDEX, text, sizeof text);
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), HS_DATA_LOSS, &err, "magic");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_017_every_inverted_byte_is_data_loss),
        TEST(tb_017_a_flipped_bit_of_a_large_tensor_is_data_loss),
        TEST(tb_019_every_inverted_byte_of_strings_is_data_loss),
        TEST(every_flipped_bit_of_strings_is_data_loss),
        TEST(a_truncated_data_file_is_data_loss),
        TEST(tb_044s_every_truncation_of_the_index_is_data_loss),
        TEST(every_flipped_bit_of_the_index_is_found_or_harmless),
        TEST(a_correct_entry_is_read),
        TEST(shard_and_offset_are_checked),
        TEST(tb_042s_the_size_is_checked),
        TEST(tb_043s_the_shape_is_checked),
        TEST(the_checksum_of_an_unsupported_tensor_is_verified),
        TEST(each_allocation_of_an_unsupported_tensor),
        TEST(huge_sizes_allocate_nothing),
        TEST(an_unreadable_tensor_does_not_affect_the_others),
        TEST(tensors_that_share_bytes_are_refused),
        TEST(tensors_that_share_no_bytes_are_read),
        TEST(a_bundle_is_verified_in_proportion_to_its_data),
        TEST(lengths_of_strings_are_checked),
        TEST(lengths_leave_room_for_their_checksum),
        TEST(strings_of_every_length_are_verified),
        TEST(strings_are_verified_in_little_memory),
        TEST(an_index_needs_a_header),
        TEST(a_header_must_be_valid),
        TEST(tb_043s_an_entry_must_be_valid),
        TEST(each_field_of_an_entry_must_have_its_wire_type),
        TEST(names_are_unique),
        TEST(names_have_no_zero_byte),
        TEST(tb_044s_other_files_are_not_bundles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
