/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files that are damaged or malicious. */
#include "base/meter.h"
#include "formats/safetensors_files.h"

#include <errno.h>
#include <unistd.h>

#define X "\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

/* Headers by hand. */

typedef struct {
    const char *header;
    size_t data_bytes;
    hs_code code;
    const char *why;
} hostile;

static void assert_hostile(const hostile *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        write_by_hand(rows[i].header, rows[i].data_bytes);
        hs_code code = outcome_of_file(&t.env);
        if (code != rows[i].code || !strstr(err.message, rows[i].why) || !strstr(err.message, FILE_PATH))
            fail_msg("%s: %s: %s, where '%s' was to be said", rows[i].header, hs_code_name(code), err.message, rows[i].why);
    }
}
#define ASSERT_HOSTILE(rows) assert_hostile(rows, sizeof(rows) / sizeof *(rows))

static void valid_headers_are_read(void **state)
{
    (void)state;
    static const hostile rows[] = {
        {"{" X "}", 8, HS_OK, ""},
        {"{" X "}      ", 8, HS_OK, ""},
        {"{ " X "\n}\r\n\t", 8, HS_OK, ""},
        {" \t\r\n {" X "}", 8, HS_OK, ""},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"scale\":2}}", 8, HS_OK, ""},
        {"{\"x\":{\"s\":{\"a\":[1,null,{},1e999]},\"s\":\"\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         HS_OK, ""},
        {"{\"__metadata__\":null," X "}", 8, HS_OK, ""},
        {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}," X "}", 8, HS_OK, ""},
        {"{\"__metadata__\":{}," X "}", 8, HS_OK, ""},
        {"{" X ",\"__metadata__\":{\"a\":\"b\",\"x\":\"\"}}", 8, HS_OK, ""},
        {"{\"y\":{\"data_offsets\":[8,16],\"shape\":[2],\"dtype\":\"F32\"}," X "}", 16, HS_OK, ""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}",
         9, HS_OK, ""}, /* not aligned */
        {"{\"z\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904],\"data_offsets\":[0,0]}}", 0, HS_OK, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}," X "}", 8, HS_OK, ""},
        {"{\"\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, HS_OK, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_by_hand(rows[i].header, rows[i].data_bytes);
        assert_ok(outcome_of_file(&t.env), &err);
    }
}

static void headers_that_are_not_json_are_refused(void **state)
{
    (void)state;
    static const hostile rows[] = {
        {"", 0, HS_DATA_LOSS, "does not begin with '{'"},
        {"[]", 0, HS_DATA_LOSS, "does not begin with '{'"},
        {"\xef\xbb\xbf{" X "}", 8, HS_DATA_LOSS, "does not begin with '{'"},
        {"{", 0, HS_DATA_LOSS, "cannot be read as JSON: the text ends too early (byte 1)"},
        {"{" X, 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{" X "}}", 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{" X "} x", 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{" X ",}", 8, HS_DATA_LOSS, "cannot be read as JSON: expected the name of a member (byte 54)"},
        {"{'x':1}", 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{\"x\xff\":1}", 8, HS_DATA_LOSS, "cannot be read as JSON: a string is not UTF-8 (byte 3)"},
        {"{\"x\xc0\x80\":1}", 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{\"\\ud800\":1}", 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{\"a\\u0000b\":1}", 8, HS_DATA_LOSS, "cannot be read as JSON: \\u0000 in a string, which is not supported"},
        {"{\"a\nb\":1}", 8, HS_DATA_LOSS, "cannot be read as JSON"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS,
         "has an invalid shape"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1e999],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS,
         "has an invalid dimension"},
        {"{" X "," X "}", 8, HS_DATA_LOSS, "the header has 'x' twice"},
        {"{" X ",\"\\u0078\":0}", 8, HS_DATA_LOSS, "the header has 'x' twice"},
        {"{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS,
         "the entry of 'x' has 'dtype' twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, HS_DATA_LOSS, "the header has '__metadata__' twice"},
    };
    ASSERT_HOSTILE(rows);
}

/* Reads the file. Asserts that no allocation is larger than `most`. */
static void assert_modest(size_t most, const char *why)
{
    meter m;
    meter_init(&m, &t.env);
    hs__safetensors_reader reader;
    assert_fails(hs__safetensors_reader_open(&reader, &m.env, FILE_PATH, &err), HS_DATA_LOSS, &err, why);
    assert_contains(err.message, FILE_PATH);
    if (m.largest > most)
        fail_msg("%zu bytes were asked for", m.largest);
}

/* Nothing is allocated for what such headers are full of. */
static void dense_headers_take_little_memory(void **state)
{
    (void)state;
    static char many[4000], deep[300] = "{\"x\":", wide[4000] = "{\"x\":{\"shape\":[1";
    for (size_t i = 0, n = 0; i < 300; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, "%c\"%03zu\":{}", i ? ',' : '{', i);
    strcat(many, "}");
    memset(deep + strlen(deep), '[', 200);
    for (size_t i = 0; i < 1000; i++)
        strcat(wide, ",1");
    strcat(wide, "]}}");
    write_by_hand(many, 0);
    assert_modest(4000, "the entry of '000' must have a dtype, a shape and data_offsets");
    write_by_hand(deep, 0);
    assert_modest(4000, "cannot be read as JSON: nested too deep (byte 132)");
    write_by_hand(wide, 0);
    assert_modest(4000, "the entry of 'x' must have a dtype, a shape and data_offsets");
    write_by_hand("{\"[[[[[[{{{{{{{{\\\"[[[[{{{{\\\\\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    assert_ok(outcome_of_file(&t.env), &err);
}

static void invalid_entries_are_refused(void **state)
{
    (void)state;
    static const hostile rows[] = {
        {"{\"x\":1}", 0, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":[]}", 0, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":null}", 0, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":{}}", 0, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":[\"F32\",[2],[0,8]]}", 8, HS_DATA_LOSS, "the entry of 'x' must have a dtype, a shape and data_offsets"},
        {"{\"x\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":8}}", 8, HS_DATA_LOSS, "the entry of 'x'"},
        {"{\"__metadata__\":{\"a\":1}}", 0, HS_DATA_LOSS, "__metadata__ must contain strings only"},
        {"{\"__metadata__\":[\"a\"]}", 0, HS_DATA_LOSS, "__metadata__"},
        {"{\"__metadata__\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "__metadata__"},
    };
    ASSERT_HOSTILE(rows);
}

/* Opens a file of one tensor "w" with this dtype and shape. Asserts that its bytes can be read, and nothing else. */
static void assert_bytes_only(const char *dtype, const char *shape, size_t bytes, int32_t rank, const char *why)
{
    char header[200];
    unsigned char data[64];
    assert_true(bytes <= sizeof data);
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}", dtype, shape,
             bytes);
    write_by_hand(header, bytes);
    hs__safetensors_reader reader = open_file();
    const hs__safetensors_entry *w = &reader.header.entries[hs__safetensors_find(&reader, "w")];
    assert_string_equal(w->dtype_name, dtype);
    assert_int_equal(w->shape.rank, rank);
    assert_int_equal(w->bytes, bytes);
    assert_ok(hs__safetensors_read(&reader, w, 0, data, bytes, &err), &err);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(data[i], i % 2);
    assert_fails(hs__safetensors_check(&reader, w, &err), HS_UNIMPLEMENTED, &err, why);
    hs__safetensors_reader_close(&reader);
}

static void unsupported_dtypes_and_shapes_are_read_as_bytes(void **state)
{
    (void)state;
    static const char *const eight[] = {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};
    for (size_t i = 0; i < sizeof eight / sizeof *eight; i++)
        assert_bytes_only(eight[i], "[2,3]", 6, 2, eight[i]);
    assert_bytes_only("F4", "[2,3]", 3, 2, "'w' has the dtype 'F4', which is not supported: it can only be read as bytes");
    assert_bytes_only("F6_E2M3", "[4]", 3, 1, "'F6_E2M3'");
    assert_bytes_only("F6_E3M2", "[12]", 9, 1, "'F6_E3M2'");
    assert_bytes_only("f32", "[2]", 7, 1, "'f32'"); /* the size of an unknown dtype is not checked */
    assert_bytes_only("F32 ", "[2]", 8, 1, "'F32 '");
    assert_bytes_only("", "[2]", 8, 1, "''");
    assert_bytes_only("F32", "[1,1,1,1,1,1,1,1,2]", 8, -1, "'w' has a shape that is not supported");
    assert_bytes_only("F32", "[0,18446744073709551615]", 0, -1, "'w' has a shape that is not supported");
}

static void shapes_are_checked(void **state)
{
    (void)state;
    static const hostile rows[] = {
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "has an invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[-1,-2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[null],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "invalid dimension"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, HS_DATA_LOSS,
         "has an invalid shape"}, /* 2^64 elements */
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS,
         "has an invalid shape"}, /* 2^64 + 8 bytes */
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS,
         "'x' has 8 bytes, but its dtype and shape need 12"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "need 4"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "need 0"},
        {"{\"x\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "need 16"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2000000000000000000],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS,
         "need 8000000000000000000"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[-0],\"data_offsets\":[0,0]}}", 0, HS_DATA_LOSS, "invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[0,18446744073709551616],\"data_offsets\":[0,0]}}", 0, HS_DATA_LOSS,
         "invalid dimension"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,4]}}", 4, HS_DATA_LOSS, "need 8"},
        {"{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, HS_DATA_LOSS, "need 3"},
        {"{\"x\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, HS_DATA_LOSS,
         "invalid shape"}, /* half a byte */
        {"{\"x\":{\"dtype\":\"F6_E2M3\",\"shape\":[6],\"data_offsets\":[0,5]}}", 5, HS_DATA_LOSS, "invalid shape"},
    };
    ASSERT_HOSTILE(rows);
}

static void offsets_are_checked(void **state)
{
    (void)state;
    static const hostile rows[] = {
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, HS_DATA_LOSS,
         "'x' has invalid data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, HS_DATA_LOSS,
         "'x' has invalid data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, HS_DATA_LOSS, "'x' has invalid data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,16]}}", 8, HS_DATA_LOSS,
         "'x' has invalid data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}}", 8, HS_DATA_LOSS,
         "'x' has invalid data_offsets"},
        {"{" X "}", 7, HS_DATA_LOSS, "truncated"},
        {"{" X "}", 0, HS_DATA_LOSS, "'x' has bytes 0 to 8 of 0"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[9223372036854775799,9223372036854775807]}}", 8,
         HS_DATA_LOSS, "of 8: the file is truncated or damaged"},
        {"{" X "}", 9, HS_DATA_LOSS, "the last 1 bytes belong to no tensor"},
        {"{}", 8, HS_DATA_LOSS, "the last 8 bytes belong to no tensor"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", 16, HS_DATA_LOSS,
         "8 bytes before the data of 'x' belong to no tensor"},
        {"{" X ",\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}", 20, HS_DATA_LOSS,
         "4 bytes before the data of 'y'"},
        {"{" X ",\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, HS_DATA_LOSS,
         "the data of 'x' and 'y' overlap"},
        {"{" X ",\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, HS_DATA_LOSS, "'x' and 'y' overlap"},
        {"{" X ",\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, HS_DATA_LOSS, "'y' and 'x' overlap"},
        {"{" X ",\"y\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}", 8, HS_DATA_LOSS, "'x' and 'y' overlap"},
        {"{" X ",\"y\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[9,9]}}", 8, HS_DATA_LOSS, "bytes 9 to 9"},
    };
    ASSERT_HOSTILE(rows);
}

/* Huge sizes. */

static void depth_is_limited(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    static char header[4 + DEPTH + 1];
    memcpy(header, "{\"x\":", 5);
    memset(header + 5, '[', DEPTH - 1);
    write_by_hand(header, 0);
    assert_fails(outcome_of_file(&t.env), HS_DATA_LOSS, &err, "cannot be read as JSON: nested too deep (byte 132)");
}

static void huge_header_lengths_allocate_nothing(void **state)
{
    (void)state;
    static const uint64_t claims[] = {100000001, 1ull << 32, 1ull << 63, UINT64_MAX};
    unsigned char file[64] = {0};
    for (size_t i = 0; i < 4; i++) {
        hs__put64(file, claims[i]);
        test_write_file(FILE_PATH, file, sizeof file);
        assert_modest(1000, "not a safetensors file: its header would have");
    }
    for (uint64_t length = 57; length <= 100000000; length = length * 10 - 57) {
        hs__put64(file, length);
        test_write_file(FILE_PATH, file, sizeof file);
        assert_modest(1000, "bytes, but only 64 bytes in total: it is truncated, or not a safetensors file");
    }
}

static void a_pointer_of_git_lfs_is_named(void **state)
{
    (void)state;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n";
    test_write_file(FILE_PATH, pointer, sizeof pointer - 1);
    assert_modest(1000, "not a safetensors file, but a pointer of Git LFS; run 'git lfs pull'");
}

/* The limit also holds if the file is large enough. */
static void header_lengths_are_limited_in_large_files_too(void **state)
{
    (void)state;
    unsigned char length[8];
    hs__put64(length, 150000000);
    test_write_file(FILE_PATH, length, 8);
    assert_int_equal(truncate(FILE_PATH, 200000000), 0); /* sparse */
    assert_modest(1000, "not a safetensors file: its header would have");
}

static void huge_shapes_allocate_nothing(void **state)
{
    (void)state;
    write_by_hand("{\"x\":{\"dtype\":\"F32\",\"shape\":[2000000000000000000],\"data_offsets\":[0,8000000000000000000]}}",
                  8);
    assert_modest(10000, "truncated");
}

/* Damage. */

static void write_small(void)
{
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    static const bool truths[] = {true, false, true};
    const named_tensor tensors[] = {
        {"weights", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)},
        {"mask", hs_tensor_of(HS_BOOL, HS_SHAPE(3), truths)},
        {"none", hs_tensor_of(HS_INT64, HS_SHAPE(0, 2), NULL)},
    };
    write_file(tensors, 3, HS_SAFETENSORS_METADATA({"format", "pt"}));
}

static void every_truncation_is_found(void **state)
{
    (void)state;
    size_t bytes;
    write_small();
    char *file = test_read_file(FILE_PATH, &bytes);
    while (bytes-- > 0) {
        test_write_file(FILE_PATH, file, bytes);
        assert_fails(outcome_of_file(&t.env), HS_DATA_LOSS, &err, FILE_PATH);
        assert_contains(err.message, bytes < 8 ? "too few for a safetensors file" : "truncated");
    }
    free(file);
}

static void bytes_behind_the_data_are_found(void **state)
{
    (void)state;
    size_t bytes;
    write_small();
    char *file = test_read_file(FILE_PATH, &bytes);
    test_write_file(FILE_PATH, file, bytes + 1);
    free(file);
    assert_fails(outcome_of_file(&t.env), HS_DATA_LOSS, &err, "the last 1 bytes belong to no tensor");
}

/* If a header can be read, its tensors fit the data. */
static bool header_is_read(hs_bytes text, uint64_t data_bytes)
{
    hs__safetensors_header header;
    hs__safetensors_header_init(&header, &t.env);
    hs_code code = hs__safetensors_header_parse(&header, text, data_bytes, "the file", &err);
    uint64_t at = 0;
    for (size_t i = 0; !code && i < header.n; i++) {
        const hs__safetensors_entry *entry = &header.entries[i];
        assert_int_equal(entry->offset, at);
        assert_true(!entry->dtype ||
                    entry->bytes == (uint64_t)hs_shape_elements(&entry->shape) * hs_dtype_size(entry->dtype));
        assert_int_equal(hs__safetensors_find(&(hs__safetensors_reader){.header = header}, entry->name), i);
        at += entry->bytes;
    }
    assert_true(code == HS_OK || code == HS_DATA_LOSS);
    assert_true(code || at == data_bytes);
    hs__safetensors_header_free(&header);
    return !code;
}

static void every_changed_byte_of_a_header_is_found_or_harmless(void **state)
{
    (void)state;
    size_t read = 0, tried = 0;
    write_small();
    char *header = header_text(NULL);
    size_t length = strlen(header);
    for (size_t at = 0; at < length; at++)
        for (unsigned change = 1; change < 256; change++, tried++) {
            header[at] = (char)((unsigned char)header[at] ^ change);
            read += header_is_read((hs_bytes){header, length}, 24 + 3);
            header[at] = (char)((unsigned char)header[at] ^ change);
        }
    assert_true(header_is_read((hs_bytes){header, length}, 24 + 3));
    assert_in_range(read, 1, tried / 5); /* other letters in a name, other types of the same size */
    free(header);
}

static void every_changed_byte_of_the_length_is_found(void **state)
{
    (void)state;
    size_t bytes;
    write_small();
    char *file = test_read_file(FILE_PATH, &bytes);
    for (size_t at = 0; at < 8; at++)
        for (unsigned change = 1; change < 256; change++) {
            file[at] = (char)((unsigned char)file[at] ^ change);
            test_write_file(FILE_PATH, file, bytes);
            assert_fails(outcome_of_file(&t.env), HS_DATA_LOSS, &err, FILE_PATH);
            file[at] = (char)((unsigned char)file[at] ^ change);
        }
    free(file);
}

/* The format has no checksums. But a BOOL must be 0 or 1 in C. */
static void changed_bytes_of_the_data_are_found_only_in_bools(void **state)
{
    (void)state;
    size_t bytes, data;
    write_small();
    free(header_text(&data));
    char *file = test_read_file(FILE_PATH, &bytes);
    for (size_t at = data; at < bytes; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            file[at] = (char)((unsigned char)file[at] ^ 1u << bit);
            test_write_file(FILE_PATH, file, bytes);
            hs_code code = outcome_of_file(&t.env);
            assert_int_equal(code, at - data >= 24 && bit > 0 ? HS_DATA_LOSS : HS_OK);
            file[at] = (char)((unsigned char)file[at] ^ 1u << bit);
        }
    free(file);
    write_by_hand("{\"m\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3);
    file = test_read_file(FILE_PATH, &bytes);
    file[bytes - 2] = 7;
    test_write_file(FILE_PATH, file, bytes);
    free(file);
    assert_fails(outcome_of_file(&t.env), HS_DATA_LOSS, &err, "'m' is a BOOL, but has the value 7 at index 1");
}

/* Messages quote the file without control characters. */
static void messages_are_one_line(void **state)
{
    (void)state;
    write_by_hand("{\"x\": \x01\x02\n\xc3\xbc}", 0);
    assert_fails(outcome_of_file(&t.env), HS_DATA_LOSS, &err, "cannot be read as JSON");
    for (const char *at = err.message; *at; at++)
        assert_in_range(*at, ' ', '~');
}

static void other_files_are_refused(void **state)
{
    (void)state;
    hs__safetensors_reader reader;
    assert_fails(hs__safetensors_reader_open(&reader, &t.env, FILE_PATH, &err), HS_NOT_FOUND, &err, FILE_PATH);
    assert_fails(hs__safetensors_reader_open(&reader, &t.env, directory, &err), HS_FAILED_PRECONDITION, &err,
                 "is a directory");
}

static void a_file_that_shrinks_while_it_is_read_is_data_loss(void **state)
{
    (void)state;
    float numbers[6];
    write_small();
    hs__safetensors_reader reader = open_file();
    assert_int_equal(truncate(FILE_PATH, (off_t)reader.data + 8), 0);
    const hs__safetensors_entry *weights = &reader.header.entries[hs__safetensors_find(&reader, "weights")];
    assert_fails(hs__safetensors_read(&reader, weights, 0, numbers, sizeof numbers, &err), HS_DATA_LOSS, &err, "ends at");
    hs__safetensors_reader_close(&reader);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(valid_headers_are_read),
        TEST(headers_that_are_not_json_are_refused),
        TEST(dense_headers_take_little_memory),
        TEST(invalid_entries_are_refused),
        TEST(unsupported_dtypes_and_shapes_are_read_as_bytes),
        TEST(shapes_are_checked),
        TEST(offsets_are_checked),
        TEST(depth_is_limited),
        TEST(huge_header_lengths_allocate_nothing),
        TEST(a_pointer_of_git_lfs_is_named),
        TEST(header_lengths_are_limited_in_large_files_too),
        TEST(huge_shapes_allocate_nothing),
        TEST(every_truncation_is_found),
        TEST(bytes_behind_the_data_are_found),
        TEST(every_changed_byte_of_a_header_is_found_or_harmless),
        TEST(every_changed_byte_of_the_length_is_found),
        TEST(changed_bytes_of_the_data_are_found_only_in_bools),
        TEST(messages_are_one_line),
        TEST(other_files_are_refused),
        TEST(a_file_that_shrinks_while_it_is_read_is_data_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
