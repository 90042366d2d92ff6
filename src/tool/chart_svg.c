/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a chart as SVG: axes, a polyline for each series, a legend. */
#include "chart.h"
#include "output.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 800, HEIGHT = 420, LEFT = 80, RIGHT = 20, TOP = 40, BOTTOM = 40, LINE = 18 };

static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                     "#ff7f0e", "#17becf", "#8c564b", "#e377c2"};

static const char *color_of(size_t line)
{
    return colors[line % (sizeof colors / sizeof *colors)];
}

/* Characters that XML does not allow, and bytes that are not UTF-8, become U+FFFD. */
static void put_xml(const char *text, FILE *to)
{
    for (size_t n; *text; text += n ? n : 1) {
        unsigned char c = (unsigned char)*text;
        n = utf8_length(text);
        if (c == '&' || c == '<' || c == '>' || c == '"')
            fprintf(to, "&#%d;", c);
        else if (!n || c < 0x20 || c == 0x7f ||
                 (c == 0xef && strncmp(text, "\xef\xbf\xbe", 2) == 0 && (unsigned char)text[2] > 0xbd))
            fputs("\xef\xbf\xbd", to);
        else
            fwrite(text, 1, n, to);
    }
}

static double x_at(const chart *c, double x)
{
    return LEFT + chart_part(x, c->x_min, c->x_max) * (WIDTH - LEFT - RIGHT);
}

static double y_at(const chart *c, double y)
{
    return TOP + (1 - chart_part(y, c->y_min, c->y_max)) * (HEIGHT - TOP - BOTTOM);
}

static void write_axes(const chart *c, FILE *to)
{
    double ticks[MOST_TICKS];
    char text[TICK_TEXT];
    size_t n = chart_ticks(c->y_min, c->y_max, 6, ticks);
    for (size_t i = 0; i < n; i++) {
        double y = y_at(c, ticks[i]);
        fprintf(to, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", LEFT, WIDTH - RIGHT, y, y);
        fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6, y + 4,
                chart_tick_text(ticks[i], text));
    }
    n = chart_ticks(c->x_min, c->x_max, 8, ticks);
    for (size_t i = 0; i < n; i++) {
        double x = x_at(c, ticks[i]);
        fprintf(to, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n", x, x, TOP, HEIGHT - BOTTOM);
        fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, HEIGHT - BOTTOM + 16,
                chart_tick_text(ticks[i], text));
    }
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
}

/* A polyline under construction. Of the points at one horizontal position, only the first, the lowest, the highest and the
 * last are written, so that long runs give small files. */
typedef struct {
    const chart *chart;
    FILE *to;
    size_t line, n; /* n: the points of the position */
    int position;
    double x[4], y[4];
    bool is_open;
} pen;

static void write_position(pen *p)
{
    double low = p->y[1], high = p->y[2];
    const double ys[] = {p->y[0], p->x[1] <= p->x[2] ? low : high, p->x[1] <= p->x[2] ? high : low, p->y[3]};
    const double xs[] = {p->x[0], fmin(p->x[1], p->x[2]), fmax(p->x[1], p->x[2]), p->x[3]};
    for (size_t i = 0; i < 4; i++)
        if (i == 0 || (p->n > 1 && (xs[i] != xs[i - 1] || ys[i] != ys[i - 1])))
            fprintf(p->to, "%.2f,%.2f ", x_at(p->chart, xs[i]), y_at(p->chart, ys[i]));
    p->n = 0;
}

static void end_line(pen *p)
{
    if (!p->is_open)
        return;
    write_position(p);
    fputs("\"/>\n", p->to);
    p->is_open = false;
}

static void add_point(pen *p, double x, double y)
{
    int position = (int)(2 * x_at(p->chart, x));
    if (!p->is_open) {
        fprintf(p->to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-linecap=\"round\" points=\"",
                color_of(p->line));
        p->is_open = true;
        fprintf(p->to, "%.2f,%.2f ", x_at(p->chart, x), y_at(p->chart, y)); /* so that a single point is a dot */
    } else if (position != p->position) {
        write_position(p);
    }
    p->position = position;
    for (int i = 0; i < 4; i++)
        if (p->n == 0 || (i == 1 && y < p->y[1]) || (i == 2 && y > p->y[2]) || i == 3) {
            p->x[i] = x;
            p->y[i] = y;
        }
    p->n++;
}

static void write_series(const chart *c, size_t line, FILE *to)
{
    const series *of = &c->series[line];
    pen p = {.chart = c, .to = to, .line = line};
    for (size_t i = 0; i < of->n; i++) {
        if (isfinite(of->y[i]))
            add_point(&p, of->x[i], of->y[i]);
        else
            end_line(&p);
    }
    end_line(&p);
}

void chart_write_svg(const chart *c, FILE *to)
{
    int height = HEIGHT + (int)c->n * LINE;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, height, WIDTH, height);
    fprintf(to, "<text x=\"%d\" y=\"24\" font-size=\"16\">", LEFT);
    put_xml(c->title, to);
    fputs("</text>\n", to);
    write_axes(c, to);
    for (size_t i = 0; i < c->n; i++) {
        int y = HEIGHT + (int)i * LINE;
        write_series(c, i, to);
        fprintf(
            to,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2\"/>\n<text x=\"%d\" y=\"%d\">",
            LEFT, LEFT + 24, y + 6, y + 6, color_of(i), LEFT + 32, y + 10);
        put_xml(c->series[i].label, to);
        fputs("</text>\n", to);
    }
    fputs("</svg>\n", to);
}
