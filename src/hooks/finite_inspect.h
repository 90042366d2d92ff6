/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_INSPECT_H
#define HS_HOOKS_FINITE_INSPECT_H

#include "hooks/finite_spike.h"

/* What a guard fetches, and what is bad about it. */

/* What a tensor is to a step, in the order of execution; the last stage is not looked at. */
enum { HS__INPUTS, HS__ACTIVATIONS, HS__LOSSES, HS__GRADIENTS, HS__PARAMETERS, HS__DUMP_ALSO, HS__STAGES };

typedef struct hs__watched {
    const char *const *names; /* of all stages, one after the other; ended by NULL */
    size_t ends[HS__STAGES];  /* where the names of each end */
} hs__watched;

/* The stage of a name: "inputs", ... Static. */
int hs__watched_stage(const hs__watched *watched, size_t index);
const char *hs__stage_name(int stage);

typedef struct hs__finding {
    size_t offenders; /* 0: all is well, and nothing else is set */
    int first_stage;
    bool has_bad_parameter;
    int64_t step;
    char first[768];   /* what is to be said of the first */
    char further[512]; /* the names of the others; "" without any */
} hs__finding;

/* HS_INVALID_ARGUMENT for a variable that has no NaN to look for. */
hs_code hs__watched_check(const hs__watched *watched, hs_backend backend, hs_error *err);
/* Looks at what a run gave. HS_INVALID_ARGUMENT for such a tensor, and for a loss that is not one number; or why memory of
 * a device could not be read. */
hs_code hs__inspect(const hs__watched *watched, hs__spikes *spikes, hs_run_context *run, const hs_run_values *values,
                    hs_host_copy *copy, hs__finding *found, hs_error *err);

#endif
