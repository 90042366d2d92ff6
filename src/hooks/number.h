/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_NUMBER_H
#define HS_HOOKS_NUMBER_H

#include <hooksess/hook.h>

/* A variable that a hook changes: a scalar of type float or double, on the host or on a device. */
typedef struct hs__number {
    size_t variable; /* its index */
    hs_dtype dtype;
} hs__number;

/* Are a type and a rank those of such a number? */
bool hs__is_number(hs_dtype dtype, int32_t rank);
/* Errors are those of the backend, and of copying from a device. */
hs_code hs__number_read(const hs__number *number, const hs_raw_session *session, double *value, hs_error *err);
hs_code hs__number_write(const hs__number *number, const hs_raw_session *session, double value, hs_error *err);

#endif
