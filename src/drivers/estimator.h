/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_ESTIMATOR_H
#define HS_DRIVERS_ESTIMATOR_H

#include <hooksess/estimator.h>

/* What the estimator's calls share. */

struct hs_estimator {
    hs_env env;
    hs_estimator_options options; /* checkpoint_dir is what follows */
    char checkpoint_dir[];
};

/* INVALID_ARGUMENT then. */
bool hs__estimator_missing(const hs_estimator *estimator, hs_error *err);

#endif
