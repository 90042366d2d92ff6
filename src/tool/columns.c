/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: collects cells as texts, and prints them in columns. */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include "columns.h"
#include "memory.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_COLUMNS = 12, LEAST_WIDTH = 12, MOST_WIDTH = 100 /* of the first column, the second one without a terminal */ };

struct columns_row {
    char *cells[MOST_COLUMNS];
    size_t n;
    bool ends_wide; /* the last cell does not count for the width of its column */
    style style;
};

void columns_row(columns *c, style chosen)
{
    c->rows = must_grow(c->rows, c->n_rows, sizeof *c->rows);
    c->rows[c->n_rows++] = (struct columns_row){.style = chosen};
}

static void add(columns *c, const char *format, va_list arguments)
{
    struct columns_row *row = &c->rows[c->n_rows - 1];
    row->cells[row->n++] = must_format_list(format, arguments);
}

void columns_put(columns *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(c, format, arguments);
    va_end(arguments);
}

void columns_rest(columns *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(c, format, arguments);
    va_end(arguments);
    c->rows[c->n_rows - 1].ends_wide = true;
}

void columns_put_bytes(columns *c, uint64_t bytes)
{
    char text[HS__NUMBER_TEXT];
    columns_put(c, "%s", hs__bytes_text(text, bytes));
}

void columns_put_shape(columns *c, const hs_shape *shape)
{
    char text[HS_SHAPE_TEXT_SIZE];
    columns_put(c, "%s", hs_shape_text(shape, text, sizeof text));
}

static bool is_right(const char *header)
{
    return *header == '>';
}

static void print_row(const columns *c, const struct columns_row *row, const int *widths, bool on_terminal)
{
    int blanks = 0; /* printed only before another cell */
    put_style(row->style);
    for (size_t i = 0; i < row->n; i++) {
        const int width = name_width(row->cells[i]), missing = width < widths[i] ? widths[i] - width : 0;
        if (!width && i + 1 == row->n)
            break;
        printf("%*s", blanks + (is_right(c->header[i]) ? missing : 0), "");
        put_name(row->cells[i]);
        blanks = (is_right(c->header[i]) ? 0 : missing) + 2;
        if (i == 0 && width > widths[0] && row->n > 1 && on_terminal) {
            puts("");
            blanks = widths[0] + 2;
        }
    }
    put_style(STYLE_NONE);
    puts("");
}

void columns_print(columns *c)
{
    const bool on_terminal = isatty(STDOUT_FILENO);
    int widths[MOST_COLUMNS] = {0}, room = terminal_width();
    struct columns_row header = {.style = STYLE_DIM};
    for (; c->header[header.n]; header.n++) {
        header.cells[header.n] = (char *)c->header[header.n] + is_right(c->header[header.n]);
        widths[header.n] = name_width(header.cells[header.n]);
    }
    for (size_t k = 0; k < c->n_rows; k++)
        for (size_t i = 0; i < c->rows[k].n - c->rows[k].ends_wide; i++) {
            const int width = name_width(c->rows[k].cells[i]);
            widths[i] = width > widths[i] ? width : widths[i];
        }
    for (size_t i = 1; i < header.n; i++)
        room -= widths[i] + 2;
    room = !on_terminal ? MOST_WIDTH : room > LEAST_WIDTH ? room : LEAST_WIDTH;
    widths[0] = widths[0] < room ? widths[0] : room;
    if (c->n_rows)
        print_row(c, &header, widths, on_terminal);
    for (size_t k = 0; k < c->n_rows; k++) {
        if (output_works())
            print_row(c, &c->rows[k], widths, on_terminal);
        for (size_t i = 0; i < c->rows[k].n; i++)
            free(c->rows[k].cells[i]);
    }
    free(c->rows);
    *c = (columns){.header = c->header};
}
