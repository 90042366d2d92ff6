/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_ESTIMATOR_H
#define HS_DRIVERS_ESTIMATOR_H

#include <hooksess/estimator.h>

struct hs_estimator {
    hs_env env;
    hs_estimator_options options; /* its checkpoint_dir points to the array */
    char checkpoint_dir[];
};

/* Returns true, with HS_INVALID_ARGUMENT in `err`, if `estimator` is NULL. */
bool hs__estimator_missing(const hs_estimator *estimator, hs_error *err);

#endif
