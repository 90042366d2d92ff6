/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint cat`: prints the elements of one tensor. print_* writes text, list_* JSON. */
#include "checkpoint_open.h"
#include "command.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"
#include "statistics.h"

#include "base/similar_name.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Text output has the first elements only. */
enum { MOST_SHOWN = 100 };

static void say_not_found(const checkpoint *in, const char *wanted)
{
    hs__similar_name similar = hs__similar_name_begin(wanted);
    const char *name;
    for (size_t i = 0; hs_checkpoint_tensor(in->reader, i, &name, NULL); i++)
        hs__similar_name_add(&similar, name);
    if (similar.found)
        say("%s: contains no tensor '%s'; did you mean '%s'?", in->prefix, wanted, similar.found);
    else
        say("%s: contains no tensor '%s'; list its tensors: hooksess checkpoint ls", in->prefix, wanted);
}

/* Text output. */

enum { REAL_TEXT = HS__NUMBER_TEXT, ELEMENT_TEXT = 2 * REAL_TEXT + 2 };

static void real_text(char text[REAL_TEXT], const hs_tensor *tensor, size_t index)
{
    const long double value = number_at(tensor, index);
    if (isnan(value))
        snprintf(text, REAL_TEXT, "nan");
    else if (is_whole(tensor->dtype))
        snprintf(text, REAL_TEXT, "%.0Lf", value);
    else
        hs__real_text(text, (double)value, tensor->dtype != HS_DOUBLE);
}

/* "0.5", "3-4i". */
static void element_text(char text[ELEMENT_TEXT], const hs_tensor *tensor, size_t index)
{
    char real[REAL_TEXT], imaginary[REAL_TEXT];
    if (!is_complex(tensor->dtype)) {
        real_text(text, tensor, index);
        return;
    }
    const hs_tensor parts = parts_of(tensor);
    real_text(real, &parts, 2 * index);
    real_text(imaginary, &parts, 2 * index + 1);
    snprintf(text, ELEMENT_TEXT, "%s%s%si", real, *imaginary == '-' ? "" : "+", imaginary);
}

/* The index of an element, which begins a line. A scalar has none. */
static const char *index_text(char text[HS_SHAPE_TEXT_SIZE], const hs_shape *shape, uint64_t flat)
{
    const hs_shape index = index_in(shape, flat);
    return shape->rank ? hs_shape_text(&index, text, HS_SHAPE_TEXT_SIZE) : "";
}

/* The columns of the longest index, with the blanks behind it. */
static int index_width(const hs_shape *shape, size_t n)
{
    char text[HS_SHAPE_TEXT_SIZE];
    size_t longest = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(index_text(text, shape, i));
        longest = length > longest ? length : longest;
    }
    return longest ? (int)longest + 2 : 0;
}

/* A line begins with each row of the last dimension, and where the terminal ends. */
static void print_numbers(const hs_tensor *tensor, const hs_shape *shape, size_t n)
{
    char texts[MOST_SHOWN][ELEMENT_TEXT], index[HS_SHAPE_TEXT_SIZE];
    const size_t row = shape->rank ? (size_t)shape->dims[shape->rank - 1] : 1;
    const int indent = index_width(shape, n);
    int width = 0, column = 0;
    for (size_t i = 0; i < n; i++) {
        element_text(texts[i], tensor, i);
        width = (int)strlen(texts[i]) > width ? (int)strlen(texts[i]) : width;
    }
    for (size_t i = 0; i < n; i++) {
        if (i % row == 0 || column + 2 + width > terminal_width())
            column = printf("%s%-*s", i ? "\n" : "", indent, index_text(index, shape, i)) - (i > 0);
        else
            column += printf("  ");
        column += printf("%*s", width, texts[i]);
    }
    if (n)
        puts("");
}

/* The longest beginning of a string whose printed form has at most `room` columns, and its bytes. The caller frees it. */
static char *beginning_of(hs_string string, int room, size_t *bytes)
{
    size_t n = room > 0 ? (size_t)room : 0;
    n = string.bytes < n ? string.bytes : n;
    for (;; n--) {
        const bool is_inside = n && n < string.bytes && ((unsigned char)string.data[n] & 0xC0) == 0x80; /* a character */
        char *text = text_of((hs_string){string.data, n});
        *bytes = n;
        if (!n || (!is_inside && name_width(text) <= room))
            return text;
        free(text);
    }
}

static void print_strings(const hs_string *strings, const hs_shape *shape, size_t n)
{
    enum { QUOTES = 2 };
    char index[HS_SHAPE_TEXT_SIZE], rest[HS__NUMBER_TEXT + 8], size[HS__NUMBER_TEXT];
    const int indent = index_width(shape, n), room = terminal_width() - indent - QUOTES;
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        char *text = beginning_of(strings[i], room, &bytes);
        *rest = '\0';
        if (bytes < strings[i].bytes) {
            snprintf(rest, sizeof rest, "... (%s)", hs__bytes_text(size, strings[i].bytes));
            free(text);
            text = beginning_of(strings[i], room - (int)strlen(rest), &bytes);
        }
        printf("%-*s\"", indent, index_text(index, shape, i));
        put_name(text);
        printf("\"%s\n", rest);
        free(text);
    }
}

static void print_tensor(const checkpoint *in, const char *name, const hs_tensor *tensor, size_t elements)
{
    char of_shape[HS_SHAPE_TEXT_SIZE], size[HS__NUMBER_TEXT];
    const hs_shape shape = hs_tensor_shape(tensor);
    const size_t shown = elements < MOST_SHOWN ? elements : MOST_SHOWN;
    printf("%s %s, %s\n", hs_checkpoint_dtype_name(in->reader, name), hs_shape_text(&shape, of_shape, sizeof of_shape),
           hs__bytes_text(size, stored_bytes(tensor)));
    if (tensor->dtype == HS_STRING)
        print_strings(tensor->data, &shape, shown);
    else
        print_numbers(tensor, &shape, shown);
    if (shown < elements)
        printf("... %zu more; --json prints all\n", elements - shown);
}

/* JSON output. */

static void list_element(hs__json_writer *out, const hs_tensor *tensor, size_t index)
{
    if (tensor->dtype == HS_STRING) {
        char *text = text_of(((const hs_string *)tensor->data)[index]);
        hs__json_put_text(out, NULL, text);
        free(text);
    } else if (is_complex(tensor->dtype)) {
        const hs_tensor parts = parts_of(tensor);
        hs__json_open(out, NULL, '[');
        js_number(out, NULL, number_at(&parts, 2 * index), false);
        js_number(out, NULL, number_at(&parts, 2 * index + 1), false);
        hs__json_close(out, ']');
    } else {
        js_number(out, NULL, number_at(tensor, index), is_whole(tensor->dtype));
    }
}

static void list_tensor(const checkpoint *in, const char *name, const hs_tensor *tensor, size_t elements)
{
    hs__json_writer out = js_begin(1);
    hs__json_open(&out, NULL, '{');
    js_tensor(&out, name, hs_checkpoint_dtype_name(in->reader, name), tensor);
    hs__json_open(&out, "values", '[');
    for (size_t i = 0; i < elements && output_works(); i++)
        list_element(&out, tensor, i);
    hs__json_close(&out, ']');
    hs__json_close(&out, '}');
    js_end();
}

/* The command. */

static bool find_and_read(checkpoint *in, const char *name, hs_tensor *tensor)
{
    hs_error err = {0};
    const hs_code code = hs_checkpoint_find(in->reader, name, tensor, &err);
    if (code == HS_NOT_FOUND)
        say_not_found(in, name);
    else if (code)
        say("%s", err.message);
    if (code || !read_tensor(in, name, tensor))
        return false;
    if (hs_dtype_size(tensor->dtype))
        return true;
    say("%s: cannot print '%s', whose dtype is %s", in->prefix, name, hs_checkpoint_dtype_name(in->reader, name));
    free(tensor->data);
    return false;
}

int checkpoint_cat(const struct call *call)
{
    const char *name = call->operands[1];
    checkpoint in;
    hs_tensor tensor;
    if (!open_checkpoint(&in, call->operands[0]))
        return TROUBLE;
    const bool is_read = find_and_read(&in, name, &tensor);
    if (is_read) {
        const hs_shape shape = hs_tensor_shape(&tensor);
        const size_t elements = (size_t)hs_shape_elements(&shape);
        (call->given[OPTION_JSON] ? list_tensor : print_tensor)(&in, name, &tensor, elements);
        free(tensor.data);
    }
    close_checkpoint(&in);
    return is_read ? FINE : TROUBLE;
}
