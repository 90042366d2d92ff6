/* SPDX-License-Identifier: Apache-2.0 */
/* hs__spikes_check measures each value against the last accepted ones, and accepts it unless it is a spike. */
#include "hooks/finite_spike.h"

#include "base/env.h"

#include <math.h>

/* At most this many values in a row are spikes. Later ones are accepted, so that values on a new level become normal. */
enum { MOST_REJECTED = 2 };

static const int64_t MOST = INT64_MAX / 2;

hs_code hs__spikes_init(hs__spikes *spikes, size_t n, int64_t window, double zscore, const hs_env *env, hs_error *err)
{
    spikes->zscore = zscore;
    spikes->window = window;
    spikes->n = n;
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

static void clear(hs__spike_series *series)
{
    series->count = series->next = series->in_a_row = 0;
}

void hs__spikes_reset(hs__spikes *spikes)
{
    for (size_t i = 0; i < spikes->n; i++)
        clear(&spikes->series[i]);
}

static void accept(const hs__spikes *spikes, hs__spike_series *series, double value)
{
    series->values[series->next] = value;
    series->next = (series->next + 1) % spikes->window;
    series->count += series->count < spikes->window;
}

/* Returns the k-th value, oldest first. Sums use this order, so that a restored series gives the same sums. */
static double value_at(const hs__spikes *spikes, const hs__spike_series *series, int64_t k)
{
    return series->values[(series->next - series->count + k + spikes->window) % spikes->window];
}

/* Returns how many standard deviations `value` is above the mean. 0: there are too few values, or all are equal. */
static double measure(const hs__spikes *spikes, const hs__spike_series *series, double value, double *mean)
{
    double sum = 0, squares = 0, n = (double)series->count;
    if (series->count < spikes->window)
        return 0;
    for (int64_t k = 0; k < series->count; k++)
        sum += value_at(spikes, series, k);
    *mean = sum / n;
    for (int64_t k = 0; k < series->count; k++) {
        double difference = value_at(spikes, series, k) - *mean;
        squares += difference * difference;
    }
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
        for (int64_t k = 0; !code && k < series->count; k++) {
            double value = value_at(spikes, series, k);
            code = hs_state_writer_write(out, &value, sizeof value, err);
        }
    }
    return code;
}

/* `series` NULL: the checkpoint has more series than the hook; the values are skipped. */
static hs_code load_series(const hs__spikes *spikes, hs__spike_series *series, hs_state_reader *in, hs_error *err)
{
    int64_t counts[2];
    hs_code code = hs_state_reader_read(in, counts, sizeof counts, err);
    if (code)
        return code;
    if (counts[0] < 0 || counts[1] < 0 || counts[1] > MOST)
        return hs_error_set(err, HS_DATA_LOSS, "invalid counts: %lld values of a loss, %lld spikes in a row",
                            (long long)counts[0], (long long)counts[1]);
    if (series) {
        clear(series);
        series->in_a_row = counts[1];
    }
    for (int64_t k = 0; k < counts[0]; k++) {
        double value;
        if ((code = hs_state_reader_read(in, &value, sizeof value, err)))
            return code;
        if (series)
            accept(spikes, series, value);
    }
    return HS_OK;
}

hs_code hs__spikes_load(hs__spikes *spikes, hs_state_reader *in, hs_error *err)
{
    uint64_t n;
    hs_code code = hs_state_reader_read(in, &n, sizeof n, err);
    hs__spikes_reset(spikes);
    for (uint64_t i = 0; !code && i < n; i++)
        code = load_series(spikes, i < spikes->n ? &spikes->series[i] : NULL, in, err);
    return code;
}
