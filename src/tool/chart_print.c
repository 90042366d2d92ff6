/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a chart in the terminal: lines on a grid of cells, then labels, axis and legend. */
#include "chart.h"
#include "memory.h"
#include "output.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The dots of a cell, and the line that drew the last of them. */
typedef struct {
    unsigned char dots; /* the bits of a Braille pattern */
    unsigned short line;
} cell;

typedef struct {
    const chart *chart;
    cell *cells;
    int columns, rows;
    bool braille; /* a cell has 2 by 4 dots; otherwise one */
    bool utf8, styled;
} canvas;

static void set_dot(canvas *on, int x, int y, size_t line)
{
    static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int column = on->braille ? x / 2 : x, row = on->braille ? y / 4 : y;
    cell *at = &on->cells[row * on->columns + column];
    at->dots |= on->braille ? bits[y % 4][x % 2] : 1;
    at->line = (unsigned short)line;
}

/* Bresenham's line. */
static void draw_line(canvas *on, int x, int y, int to_x, int to_y, size_t line)
{
    int dx = abs(to_x - x), dy = -abs(to_y - y), step_x = x < to_x ? 1 : -1, step_y = y < to_y ? 1 : -1, error = dx + dy;
    for (;;) {
        set_dot(on, x, y, line);
        if (x == to_x && y == to_y)
            return;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x += step_x;
        }
        if (twice <= dx) {
            error += dx;
            y += step_y;
        }
    }
}

static void draw_series(canvas *on, size_t line)
{
    const chart *c = on->chart;
    const series *of = &c->series[line];
    int width = on->columns * (on->braille ? 2 : 1), height = on->rows * (on->braille ? 4 : 1), last_x = -1, last_y = -1;
    for (size_t i = 0; i < of->n; i++) {
        if (!isfinite(of->y[i])) {
            last_x = -1;
            continue;
        }
        int x = (int)lround(chart_part(of->x[i], c->x_min, c->x_max) * (width - 1));
        int y = (int)lround((1 - chart_part(of->y[i], c->y_min, c->y_max)) * (height - 1));
        if (last_x < 0)
            set_dot(on, x, y, line);
        else
            draw_line(on, last_x, last_y, x, y, line);
        last_x = x;
        last_y = y;
    }
}

static char letter_of(const canvas *on, size_t line)
{
    return on->chart->n == 1 ? '*' : (char)('a' + line % 26);
}

static void print_cell(const canvas *on, const cell *at)
{
    unsigned pattern = 0x2800u + at->dots;
    if (!at->dots)
        putchar(' ');
    else if (on->braille)
        printf("%c%c%c", (int)(0xe0 | pattern >> 12), (int)(0x80 | (pattern >> 6 & 0x3f)), (int)(0x80 | (pattern & 0x3f)));
    else
        putchar(letter_of(on, at->line));
}

static void print_cells(const canvas *on, int row)
{
    int used = on->columns;
    size_t last = SIZE_MAX;
    const cell *cells = on->cells + (ptrdiff_t)row * on->columns;
    while (used && !cells[used - 1].dots)
        used--;
    for (int i = 0; i < used; i++) {
        if (on->styled && cells[i].dots && cells[i].line != last)
            put_series_style(last = cells[i].line);
        print_cell(on, &cells[i]);
    }
    if (last != SIZE_MAX)
        put_style(STYLE_NONE);
    puts("");
}

/* The labels of the rows: a tick, or an empty text. */
typedef char label[TICK_TEXT];

static int make_labels(const canvas *on, label *labels)
{
    const chart *c = on->chart;
    double ticks[MOST_TICKS];
    int width = 1;
    size_t n = chart_ticks(c->y_min, c->y_max, on->rows > 10 ? 6 : 3, ticks);
    for (size_t i = 0; i < n; i++) {
        int row = (int)lround((1 - chart_part(ticks[i], c->y_min, c->y_max)) * (on->rows - 1));
        int length = (int)strlen(chart_tick_text(ticks[i], labels[row]));
        width = length > width ? length : width;
    }
    return width;
}

static void print_x_axis(const canvas *on, int indent)
{
    const chart *c = on->chart;
    double ticks[MOST_TICKS];
    char text[TICK_TEXT], line[1024];
    int end = -1, room = on->columns < (int)sizeof line ? on->columns : (int)sizeof line - 1;
    printf("%*s%s", indent, "", on->utf8 ? "\xe2\x94\x94" : "+");
    for (int i = 0; i < on->columns; i++)
        fputs(on->utf8 ? "\xe2\x94\x80" : "-", stdout);
    puts("");
    memset(line, ' ', sizeof line);
    size_t n = chart_ticks(c->x_min, c->x_max, room / 16 > 1 ? room / 16 : 1, ticks);
    for (size_t i = 0; i < n; i++) {
        int length = (int)strlen(chart_tick_text(ticks[i], text));
        int at = (int)lround(chart_part(ticks[i], c->x_min, c->x_max) * (on->columns - 1)) - length / 2;
        at = at < 0 ? 0 : at + length > room ? room - length : at;
        if (at <= end || at < 0)
            continue;
        memcpy(line + at, text, (size_t)length);
        end = at + length;
    }
    printf("%*s%.*s\n", indent + 1, "", end < 0 ? 0 : end, line);
}

static void print_legend(const canvas *on, size_t line)
{
    const series *of = &on->chart->series[line];
    size_t gaps = chart_gaps(of);
    put_series_style(line);
    if (on->braille)
        fputs("\xe2\x94\x80\xe2\x94\x80", stdout);
    else
        putchar(letter_of(on, line));
    put_style(STYLE_NONE);
    putchar(' ');
    put_name(of->label);
    printf(": %zu point%s", of->n, of->n == 1 ? "" : "s");
    if (of->n)
        printf(", last %.6g at step %.0f", of->y[of->n - 1], of->x[of->n - 1]);
    if (gaps)
        printf(", %zu not finite", gaps);
    puts("");
}

void chart_print(const chart *c, int width, int height)
{
    canvas on = {.chart = c, .rows = height, .styled = has_styles()};
    setlocale(LC_CTYPE, "");
    on.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    on.braille = on.utf8 && (on.styled || c->n == 1);
    label *labels = must_allocate(NULL, (size_t)height, sizeof *labels);
    memset(labels, 0, (size_t)height * sizeof *labels);
    int indent = make_labels(&on, labels) + 1;
    on.columns = width - indent - 1 > 10 ? width - indent - 1 : 10;
    size_t n_cells = (size_t)on.columns * (size_t)height;
    on.cells = must_allocate(NULL, n_cells, sizeof *on.cells);
    memset(on.cells, 0, n_cells * sizeof *on.cells);
    for (size_t i = 0; i < c->n; i++)
        draw_series(&on, i);
    put_name(c->title);
    puts(" by step");
    for (int row = 0; row < height && output_works(); row++) {
        const char *mark = on.utf8 ? (*labels[row] ? "\xe2\x94\xa4" : "\xe2\x94\x82") : *labels[row] ? "+" : "|";
        printf("%*s %s", indent - 1, labels[row], mark);
        print_cells(&on, row);
    }
    print_x_axis(&on, indent);
    for (size_t i = 0; i < c->n; i++)
        print_legend(&on, i);
    free(on.cells);
    free(labels);
}
