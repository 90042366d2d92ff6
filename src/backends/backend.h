/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_BACKEND_H
#define HS_BACKENDS_BACKEND_H

#include <hooksess/backend.h>

#include "base/env.h"

/* A complete copy of the backend's functions; what it left out is NULL. INVALID_ARGUMENT if a required one is missing. */
hs_code hs__backend_take(hs_backend_ops *ops, hs_backend backend, hs_error *err);
/* How many items a collection has. */
size_t hs__collection_size(hs_backend backend, const char *key);

#endif
