/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_DUMP_H
#define HS_HOOKS_FINITE_DUMP_H

#include "hooks/finite_inspect.h"

/* Writes the tensors of a bad step to safetensors files. A failure is a warning in the log. */
typedef struct hs__dump {
    char *directory; /* NULL: no dumps */
    int64_t most;    /* HS_NEVER: no limit */
    int64_t made;
} hs__dump;

/* Writes the watched tensors and the variables, unless `most` dumps were made. */
void hs__dump_write(hs__dump *dump, const hs__watched *watched, hs_raw_session *session, const hs_run_values *values,
                    const hs__finding *found);

#endif
