/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_SCAFFOLD_H
#define HOOKSESS_TF1_SCAFFOLD_H

#include <hooksess/scaffold.h>

/* Finalizes a scaffold and reads its fields. Sessions finalize their scaffolds themselves. TensorFlow: Scaffold.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

/* Fills in the fields that are NULL and finalizes the graph. A second call changes nothing. HS_FAILED_PRECONDITION: a
 * collection has several items, or the scaffold was finalized with another graph. TensorFlow: Scaffold.finalize. */
HS_API hs_code hs_scaffold_finalize(hs_scaffold *scaffold, hs_backend backend, hs_error *err);

/* Return the fields. NULL: the field was not given, and the scaffold is not finalized or has no default for it. */
HS_API const char *hs_scaffold_init_op(const hs_scaffold *scaffold);
HS_API const hs_feed *hs_scaffold_init_feeds(const hs_scaffold *scaffold);
HS_API hs_init_fn hs_scaffold_init_fn(const hs_scaffold *scaffold);
HS_API void *hs_scaffold_init_user(const hs_scaffold *scaffold);
HS_API const char *hs_scaffold_ready_op(const hs_scaffold *scaffold);
HS_API const char *hs_scaffold_ready_for_local_init_op(const hs_scaffold *scaffold);
HS_API const char *hs_scaffold_local_init_op(const hs_scaffold *scaffold);
HS_API const hs_feed *hs_scaffold_local_init_feeds(const hs_scaffold *scaffold);
HS_API const char *hs_scaffold_summary_op(const hs_scaffold *scaffold);
HS_API hs_saver *hs_scaffold_saver(const hs_scaffold *scaffold);

HS_END_DECLS

#endif
