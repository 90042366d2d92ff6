/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_SPIKE_H
#define HS_HOOKS_FINITE_SPIKE_H

#include <hooksess/hook.h>

/* Finds numbers that are far above their predecessors. */

/* The last accepted values of one tensor. */
typedef struct hs__spike_series {
    int64_t count;    /* at most the window */
    int64_t in_a_row; /* consecutive spikes so far */
    double *values;   /* oldest first */
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

/* Checks the next value of a series, and accepts it unless it is one of the first consecutive spikes. Returns true if it is
 * a spike, and then sets *mean and *zscore. A value that is not finite is neither a spike nor accepted. */
bool hs__spikes_check(hs__spikes *spikes, size_t index, double value, double *mean, double *zscore);

/* Save and load the series in the state of the hook. If the window has another length, the last values that fit are
 * loaded. */
hs_code hs__spikes_save(const hs__spikes *spikes, hs_state_writer *out, hs_error *err);
hs_code hs__spikes_load(hs__spikes *spikes, hs_state_reader *in, hs_error *err);

#endif
