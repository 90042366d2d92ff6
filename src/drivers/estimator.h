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

/* A graph that was built for one call, with the hooks that belong to it: the input's, the model function's, the caller's,
 * and room for OWN_HOOKS of the call's own. They are destroyed unless they were given to a session (the list is empty
 * then). */
enum { HS__OWN_HOOKS = 3 };
typedef struct hs__built {
    const hs_estimator *estimator;
    hs_estimator_spec spec;
    hs_hook *hooks;
} hs__built;

/* INVALID_ARGUMENT then. */
bool hs__estimator_missing(const hs_estimator *estimator, hs_error *err);
/* Takes the caller's hooks, also when it fails. hs__release is to be called in any case. */
hs_code hs__build(hs__built *built, const hs_estimator *estimator, hs_mode mode, const hs_input *input,
                  const hs_hook *hooks, hs_error *err);
void hs__release(hs__built *built);
/* What opens a session to read a checkpoint (NULL: the newest) with it. The hooks stay those of `built`. */
hs_evaluate_once_options hs__built_evaluation(const hs__built *built, const char *checkpoint_prefix);

#endif
