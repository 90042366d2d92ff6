/* SPDX-License-Identifier: Apache-2.0 */
/* For libFuzzer: the JSON of untrusted files. The reader refuses a text, or finds values in it, which
 * the writer can write and the reader find again. The header of a safetensors file is parsed from the same text. */
#include "formats/safetensors.h"

#include "base/json_reader.h"
#include "base/json_writer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* The text of a string, which the caller frees. */
static char *text_of(hs__json_value string)
{
    char *text = malloc(string.bytes); /* the exact size, so that a sanitizer finds a longer text */
    require(text);
    require(hs__json_copy(string, text) == strlen(text) && hs__json_equals(string, text));
    return text;
}

/* Writes a value again. *largest becomes the largest integer in it. */
static void rewrite(hs__json_writer *out, const char *name, hs__json_value value, uint64_t *largest)
{
    hs__json_item item = {.value = {NULL, 0}};
    uint64_t whole;
    int64_t integer;
    double number;
    if (hs__json_is(value, '{') || hs__json_is(value, '[')) {
        bool is_object = hs__json_is(value, '{');
        hs__json_open(out, name, *value.text);
        while (hs__json_next(value, &item)) {
            char *member = is_object ? text_of(item.name) : NULL;
            require(!is_object || hs__json_member(value, member).text);
            rewrite(out, member, item.value, largest);
            free(member);
        }
        hs__json_close(out, is_object ? '}' : ']');
    } else if (hs__json_is(value, '"')) {
        char *text = text_of(value);
        hs__json_put_text(out, name, text);
        free(text);
    } else if (hs__json_int64(value, &integer)) {
        require(hs__json_number(value, &number) && number == (double)integer);
        hs__json_put_int(out, name, integer);
    } else if (hs__json_number(value, &number)) {
        hs__json_put_number(out, name, number);
    } else { /* true, false, null, or a number that is too large or too long */
        hs__json_put_json(out, name, value.text, value.bytes);
    }
    if (hs__json_uint64(value, &whole) && whole > *largest)
        *largest = whole;
}

/* Asserts that two values are the same. */
static void compare(hs__json_value a, hs__json_value b)
{
    hs__json_item of_a = {.value = {NULL, 0}}, of_b = of_a;
    double x = 0, y = 0;
    if (hs__json_is(a, '{') || hs__json_is(a, '[')) {
        require(*a.text == *b.text);
        while (hs__json_next(a, &of_a)) {
            require(hs__json_next(b, &of_b));
            if (of_a.name.text)
                compare(of_a.name, of_b.name);
            compare(of_a.value, of_b.value);
        }
        require(!hs__json_next(b, &of_b));
    } else if (hs__json_is(a, '"')) {
        char *text = text_of(a);
        require(hs__json_equals(b, text));
        free(text);
    } else if (hs__json_number(a, &x)) {
        require(hs__json_number(b, &y) && x == y);
    } else {
        require(a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0);
    }
}

/* The tensors of a header that is accepted cover the data. */
static void parse_header(const char *text, size_t size, uint64_t data_bytes)
{
    hs__safetensors_header header;
    uint64_t at = 0;
    hs__safetensors_header_init(&header, hs_env_default());
    hs_code code = hs__safetensors_header_parse(&header, (hs_bytes){text, size}, data_bytes, "the file", NULL);
    require(!code || code == HS_DATA_LOSS);
    for (size_t i = 0; !code && i < header.n; i++) {
        const hs__safetensors_entry *entry = &header.entries[i];
        require(entry->offset == at && entry->bytes <= data_bytes - at && entry->dtype_name);
        require(hs__map_find(&header.names, entry->name) == i);
        at += entry->bytes;
    }
    require(code || at == data_bytes);
    hs__safetensors_header_free(&header);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    hs__json_value root, again;
    hs__json_fault fault;
    uint64_t largest = 0;
    char *text = malloc(size ? size : 1);
    require(text);
    memcpy(text, data, size);
    if (hs__json_check(text, size, &root, &fault)) {
        hs__buffer written;
        hs__buffer_init(&written, hs_env_default());
        hs__json_writer out = {.put = hs__buffer_put, .to = &written, .compact = size % 2, .lines = (int)(size % 3)};
        rewrite(&out, NULL, root, &largest);
        require(!written.failed && hs__json_check((const char *)written.data, written.size, &again, &fault));
        compare(root, again);
        hs__buffer_free(&written);
    } else {
        require(fault.what && fault.at <= size);
    }
    parse_header(text, size, largest);
    free(text);
    return 0;
}
