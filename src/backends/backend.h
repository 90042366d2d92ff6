/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_BACKEND_H
#define HS_BACKENDS_BACKEND_H

#include <hooksess/backend.h>

#include "base/env.h"

/* Copies the backend's functions. A missing function is NULL. HS_INVALID_ARGUMENT: a required function is missing. */
hs_code hs__backend_take(hs_backend_ops *ops, hs_backend backend, hs_error *err);
/* Returns the number of items of a collection. */
size_t hs__collection_size(hs_backend backend, const char *key);
/* Sets *out to the meta graph without graph_def and saver_def. HS_UNIMPLEMENTED: the backend shows none. */
hs_code hs__backend_meta_graph(hs_backend backend, hs_bytes *out, hs_error *err);

#endif
