/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_INSPECT_H
#define HS_HOOKS_FINITE_INSPECT_H

#include "hooks/finite_spike.h"

/* Finds values that are not finite, and spikes of losses, in the tensors that a guard fetches. */

/* The role of a tensor, in the order of execution. Tensors of the last stage are dumped, but not inspected. */
enum { HS__INPUTS, HS__ACTIVATIONS, HS__LOSSES, HS__GRADIENTS, HS__PARAMETERS, HS__DUMP_ALSO, HS__STAGES };

typedef struct hs__watched {
    const char *const *names; /* of all stages, in their order; ended by NULL */
    size_t ends[HS__STAGES];  /* the index after the last name of each stage */
} hs__watched;

/* Returns the stage of the name with this index. */
int hs__watched_stage(const hs__watched *watched, size_t index);
/* Returns "inputs", "activations" and so on. Static. */
const char *hs__stage_name(int stage);

typedef struct hs__finding {
    size_t offenders; /* bad tensors. 0: the other fields are not set */
    int first_stage;
    bool has_bad_parameter;
    int64_t step;
    char first[768];   /* describes the first bad tensor */
    char further[512]; /* the names of the others; "" if there are none */
} hs__finding;

/* HS_INVALID_ARGUMENT: a watched variable has a type without NaN. The backend knows only the types of variables. */
hs_code hs__watched_check(const hs__watched *watched, hs_backend backend, hs_error *err);
/* Inspects the values of a run. HS_INVALID_ARGUMENT: a tensor has a type without NaN, or a loss has several elements.
 * Others: the code of copying from a device. */
hs_code hs__inspect(const hs__watched *watched, hs__spikes *spikes, hs_run_context *run, const hs_run_values *values,
                    hs_host_copy *copy, hs__finding *found, hs_error *err);

#endif
