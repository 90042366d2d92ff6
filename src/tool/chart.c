/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of charts: ranges, positions and ticks. */
#include "chart.h"

#include <math.h>

static void widen(double value, double *min, double *max)
{
    *min = value < *min ? value : *min;
    *max = value > *max ? value : *max;
}

/* Half of a range, which is finite even if the range itself overflows. */
static double half(double min, double max)
{
    return max / 2 - min / 2;
}

/* Makes a range of one number wide enough for a chart. */
static void pad(double *min, double *max)
{
    double size = fabs(*min) > fabs(*max) ? fabs(*min) : fabs(*max);
    if (half(*min, *max) > size * 1e-12)
        return;
    double by = size > 0 && size < 1e300 ? size * 0.1 : 1;
    *min -= by;
    *max += by;
}

bool chart_fit(chart *c)
{
    c->x_min = c->y_min = (double)INFINITY;
    c->x_max = c->y_max = -(double)INFINITY;
    for (size_t s = 0; s < c->n; s++) {
        const series *of = &c->series[s];
        for (size_t i = 0; i < of->n; i++)
            if (isfinite(of->y[i])) {
                widen(of->x[i], &c->x_min, &c->x_max);
                widen(of->y[i], &c->y_min, &c->y_max);
            }
    }
    if (c->x_min > c->x_max)
        return false;
    pad(&c->x_min, &c->x_max);
    pad(&c->y_min, &c->y_max);
    return true;
}

double chart_part(double value, double min, double max)
{
    double part = (value / 2 - min / 2) / half(min, max);
    return part > 0 ? (part < 1 ? part : 1) : 0;
}

size_t chart_ticks(double min, double max, int wanted, double ticks[MOST_TICKS])
{
    double rough = half(min, max) / wanted * 2, unit = pow(10, floor(log10(rough))), ratio = rough / unit;
    double step = unit * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
    size_t n = 0;
    if (!(step > 0) || !isfinite(step))
        return 0;
    for (double k = ceil(min / step); n < MOST_TICKS && k * step <= max; k++)
        ticks[n++] = k == 0 ? 0 : k * step;
    return n;
}

const char *chart_tick_text(double tick, char text[TICK_TEXT])
{
    snprintf(text, TICK_TEXT, fabs(tick) < 1e7 ? "%.7g" : "%.4g", tick);
    return text;
}

size_t chart_gaps(const series *of)
{
    size_t n = 0;
    for (size_t i = 0; i < of->n; i++)
        n += isfinite(of->y[i]) ? 0 : 1;
    return n;
}
