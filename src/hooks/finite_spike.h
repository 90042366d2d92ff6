/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_SPIKE_H
#define HS_HOOKS_FINITE_SPIKE_H

#include <hooksess/hook.h>

/* Finds numbers that are far above the ones before them. */

/* The last values of one tensor that were accepted: a ring. */
typedef struct hs__spike_series {
    int64_t count, next; /* values in the ring; where the next one goes */
    int64_t in_a_row;    /* spikes since the last value that was not one */
    double *values;
} hs__spike_series;

typedef struct hs__spikes {
    double zscore; /* HS_NEVER: no value is a spike */
    int64_t window;
    size_t n;
    hs__spike_series *series;
} hs__spikes;

/* Makes `n` series, each of `window` values. hs__spikes_free frees them, also after a failure. */
hs_code hs__spikes_init(hs__spikes *spikes, size_t n, int64_t window, double zscore, const hs_env *env, hs_error *err);
void hs__spikes_free(hs__spikes *spikes, const hs_env *env);
/* Forgets all values. */
void hs__spikes_reset(hs__spikes *spikes);

/* Looks at the next value of a series, and accepts it unless it is one of the first spikes in a row. Returns whether it is
 * a spike; then *mean and *zscore are set. A value that is not finite is neither a spike nor accepted. */
bool hs__spikes_check(hs__spikes *spikes, size_t index, double value, double *mean, double *zscore);

/* For the hook's state. A window of another length takes the last values that fit. */
hs_code hs__spikes_save(const hs__spikes *spikes, hs_state_writer *out, hs_error *err);
hs_code hs__spikes_load(hs__spikes *spikes, hs_state_reader *in, hs_error *err);

#endif
