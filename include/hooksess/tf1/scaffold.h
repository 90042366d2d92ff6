/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_SCAFFOLD_H
#define HOOKSESS_TF1_SCAFFOLD_H

#include <hooksess/scaffold.h>

/* Finalizing a scaffold, and reading what is in it. A session does both itself. TensorFlow: Scaffold.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

/* Fills in what was left out and finalizes the graph. A second call changes nothing. Called when a session is opened.
 * HS_FAILED_PRECONDITION if a collection has more than one item to choose from, or it was finalized over another graph. */
HS_API hs_code hs_scaffold_finalize(hs_scaffold *scaffold, hs_backend backend, hs_error *err);

/* NULL: not given, and not finalized yet or without a default. The scaffold's. */
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
