/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/safetensors_files.h"

static hs_code write_all(hs__safetensors_writer *writer, const named_tensor *tensors, size_t n,
                         const hs_safetensors_pair *metadata)
{
    hs_code code = HS_OK;
    for (size_t i = 0; i < n && !code; i++) {
        hs_shape shape = hs_tensor_shape(&tensors[i].value);
        code = hs__safetensors_writer_declare(writer, tensors[i].name, tensors[i].value.dtype, &shape, i, &err);
    }
    if (!code)
        code = hs__safetensors_writer_begin(writer, FILE_PATH, metadata, &err);
    for (size_t i = 0; i < n && !code; i++) {
        const hs_tensor *value = &tensors[writer->header.entries[i].tag].value;
        code = hs__safetensors_writer_write(writer, value->data, value->bytes, &err);
    }
    return code ? code : hs__safetensors_writer_finish(writer, &err);
}

hs_code try_write_file(const hs_env *env, const named_tensor *tensors, size_t n, const hs_safetensors_pair *metadata)
{
    hs__safetensors_writer writer;
    hs__safetensors_writer_init(&writer, env);
    hs_code code = write_all(&writer, tensors, n, metadata);
    hs__safetensors_writer_close(&writer);
    return code;
}

void write_file(const named_tensor *tensors, size_t n, const hs_safetensors_pair *metadata)
{
    assert_ok(try_write_file(&t.env, tensors, n, metadata), &err);
}

void write_by_hand(const char *header, size_t data_bytes)
{
    size_t length = strlen(header);
    unsigned char *file = malloc(8 + length + data_bytes);
    assert_non_null(file);
    hs__put64(file, length);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + length + i] = i % 2;
    test_write_file(FILE_PATH, file, 8 + length + data_bytes);
    free(file);
}

char *header_text(size_t *data)
{
    size_t bytes;
    char *file = test_read_file(FILE_PATH, &bytes);
    assert_non_null(file);
    assert_true(bytes >= 8);
    size_t length = (size_t)hs__get64((unsigned char *)file);
    assert_true(length <= bytes - 8);
    if (data)
        *data = 8 + length;
    memmove(file, file + 8, length);
    while (length && file[length - 1] == ' ')
        length--;
    file[length] = '\0';
    return file;
}

hs__safetensors_reader open_file(void)
{
    hs__safetensors_reader reader;
    assert_ok(hs__safetensors_reader_open(&reader, &t.env, FILE_PATH, &err), &err);
    return reader;
}

hs_code outcome_of_file(const hs_env *env)
{
    hs__safetensors_reader reader;
    hs_code code = hs__safetensors_reader_open(&reader, env, FILE_PATH, &err);
    for (size_t i = 0; !code && i < reader.header.n; i++) {
        const hs__safetensors_entry *entry = &reader.header.entries[i];
        void *data = malloc((size_t)entry->bytes + 1);
        assert_non_null(data);
        code = hs__safetensors_read(&reader, entry, 0, data, (size_t)entry->bytes, &err);
        free(data);
        if (code)
            hs__safetensors_reader_close(&reader);
    }
    if (!code)
        hs__safetensors_reader_close(&reader);
    return code;
}

void assert_stored(hs__safetensors_reader *reader, const char *name, const hs_tensor *expected)
{
    size_t at = hs__safetensors_find(reader, name);
    if (at == HS__NONE)
        fail_msg("no '%s' in the file", name);
    const hs__safetensors_entry *entry = &reader->header.entries[at];
    hs_shape shape = hs_tensor_shape(expected);
    assert_string_equal(entry->name, name);
    assert_int_equal(entry->dtype, expected->dtype);
    assert_true(hs_shape_equal(&entry->shape, &shape));
    assert_int_equal(entry->bytes, expected->bytes);
    char *data = malloc(expected->bytes + 1);
    assert_non_null(data);
    assert_ok(hs__safetensors_read(reader, entry, 0, data, expected->bytes, &err), &err);
    if (expected->bytes)
        assert_memory_equal(data, expected->data, expected->bytes);
    free(data);
}
