/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_NUMBER_H
#define HS_HOOKS_NUMBER_H

#include <hooksess/hook.h>

/* A variable that a hook changes: a scalar of type float or double, in host or device memory. */
typedef struct hs__number {
    size_t variable; /* index */
    hs_dtype dtype;
} hs__number;

/* True for a scalar of type float or double. */
bool hs__is_number(hs_dtype dtype, int32_t rank);
/* Errors: as the backend's read_variable and write_variable, and of copying from a device. HS_FAILED_PRECONDITION: the
 * variable has no memory yet. */
hs_code hs__number_read(const hs__number *number, const hs_raw_session *session, double *value, hs_error *err);
hs_code hs__number_write(const hs__number *number, const hs_raw_session *session, double value, hs_error *err);

#endif
