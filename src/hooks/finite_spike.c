/* SPDX-License-Identifier: Apache-2.0 */
/* hs__spikes_check measures each value against the last accepted ones, and accepts it unless it is a spike. */
#include "hooks/finite_spike.h"

#include "base/env.h"

#include <math.h>
#include <string.h>

/* At most this many values in a row are spikes. Later ones are accepted, so that values on a new level become normal. */
enum { MOST_REJECTED = 2 };

hs_code hs__spikes_init(hs__spikes *spikes, size_t n, int64_t window, double zscore, const hs_env *env, hs_error *err)
{
    *spikes = (hs__spikes){.zscore = zscore, .window = window, .n = n};
    if (!(spikes->series = hs__alloc(env, n, sizeof *spikes->series)))
        return hs__no_memory(err, n * sizeof *spikes->series, "the guard's losses");
    for (size_t i = 0; i < n; i++)
        if (!(spikes->series[i].values = hs__alloc(env, (size_t)window, sizeof(double))))
            return hs__no_memory(err, (size_t)window * sizeof(double), "the values of a loss");
    return HS_OK;
}

void hs__spikes_free(hs__spikes *spikes, const hs_env *env)
{
    for (size_t i = 0; spikes->series && i < spikes->n; i++)
        hs__free(env, spikes->series[i].values);
    hs__free(env, spikes->series);
}

void hs__spikes_reset(hs__spikes *spikes)
{
    for (size_t i = 0; i < spikes->n; i++)
        spikes->series[i].count = spikes->series[i].in_a_row = 0;
}

static void accept(const hs__spikes *spikes, hs__spike_series *series, double value)
{
    if (series->count == spikes->window)
        memmove(series->values, series->values + 1, (size_t)--series->count * sizeof value);
    series->values[series->count++] = value;
}

/* Returns how many standard deviations `value` is above the mean. 0: there are too few values, or all are equal. */
static double measure(const hs__spikes *spikes, const hs__spike_series *series, double value, double *mean)
{
    double sum = 0, squares = 0, n = (double)series->count;
    if (series->count < spikes->window)
        return 0;
    for (int64_t k = 0; k < series->count; k++)
        sum += series->values[k];
    *mean = sum / n;
    for (int64_t k = 0; k < series->count; k++)
        squares += (series->values[k] - *mean) * (series->values[k] - *mean);
    double deviation = sqrt(squares / n);
    return deviation > 0 ? (value - *mean) / deviation : 0;
}

bool hs__spikes_check(hs__spikes *spikes, size_t index, double value, double *mean, double *zscore)
{
    hs__spike_series *series = &spikes->series[index];
    if (!isfinite(value) || spikes->zscore == HS_NEVER)
        return false;
    *zscore = measure(spikes, series, value, mean);
    series->in_a_row = *zscore > spikes->zscore ? series->in_a_row + 1 : 0;
    bool is_spike = series->in_a_row > 0 && series->in_a_row <= MOST_REJECTED;
    if (!is_spike)
        accept(spikes, series, value);
    return is_spike;
}

/* State: the number of series, and for each the number of values, the number of spikes in a row, and the values, oldest
 * first. */

hs_code hs__spikes_save(const hs__spikes *spikes, hs_state_writer *out, hs_error *err)
{
    uint64_t n = spikes->n;
    hs_code code = hs_state_writer_write(out, &n, sizeof n, err);
    for (size_t i = 0; !code && i < spikes->n; i++) {
        const hs__spike_series *series = &spikes->series[i];
        const int64_t counts[] = {series->count, series->in_a_row};
        code = hs_state_writer_write(out, counts, sizeof counts, err);
        if (!code)
            code = hs_state_writer_write(out, series->values, (size_t)series->count * sizeof *series->values, err);
    }
    return code;
}

hs_code hs__spikes_load(hs__spikes *spikes, hs_state_reader *in, hs_error *err)
{
    uint64_t n;
    hs_code code = hs_state_reader_read(in, &n, sizeof n, err);
    hs__spikes_reset(spikes);
    for (uint64_t i = 0; !code && i < n; i++) {
        hs__spike_series *series = i < spikes->n ? &spikes->series[i] : NULL; /* NULL: of a loss that the hook lacks */
        int64_t counts[2];
        double value;
        if ((code = hs_state_reader_read(in, counts, sizeof counts, err)))
            return code;
        if (counts[0] < 0 || counts[1] < 0 || counts[1] > INT64_MAX / 2)
            return hs_error_set(err, HS_DATA_LOSS, "invalid counts: %lld values of a loss, %lld spikes in a row",
                                (long long)counts[0], (long long)counts[1]);
        if (series)
            series->in_a_row = counts[1];
        for (int64_t k = 0; k < counts[0] && !(code = hs_state_reader_read(in, &value, sizeof value, err)); k++)
            if (series && k >= counts[0] - spikes->window)
                accept(spikes, series, value);
    }
    return code;
}
