/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_CHART_H
#define TOOL_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A chart of lines. */

typedef struct series {
    char *label;
    double *x, *y; /* x is finite. NaN and infinity in y interrupt the line */
    size_t n;
} series;

typedef struct chart {
    const char *title;
    const series *series;
    size_t n;
    double x_min, x_max, y_min, y_max; /* set by chart_fit */
} chart;

/* Sets the ranges to those of the finite points. False: there are none. */
bool chart_fit(chart *c);
/* Position of a value in the range, from 0 to 1. */
double chart_part(double value, double min, double max);
/* Round numbers in a range, about `wanted` of them. Returns their number, at most MOST_TICKS. */
enum { MOST_TICKS = 24, TICK_TEXT = 32 };
size_t chart_ticks(double min, double max, int wanted, double ticks[MOST_TICKS]);
const char *chart_tick_text(double tick, char text[TICK_TEXT]);
/* The number of points that are not finite. */
size_t chart_gaps(const series *of);

/* Prints the chart to standard output, `width` columns wide, with `height` rows for the lines. Draws with Unicode's Braille
 * patterns if the locale is UTF-8, and there is one line or lines have colors; otherwise with a letter for each line. */
void chart_print(const chart *c, int width, int height);
/* Writes the chart as an SVG picture. */
void chart_write_svg(const chart *c, FILE *to);

#endif
