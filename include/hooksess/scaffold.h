/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SCAFFOLD_H
#define HOOKSESS_SCAFFOLD_H

#include <hooksess/checkpoint.h>

/* What a session needs to start: how to initialize, how to tell that all is ready, what saves. TensorFlow: Scaffold.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_scaffold hs_scaffold;

/* Initializes what the graph does not: called after the init op, not when a checkpoint was restored. */
typedef hs_code (*hs_init_fn)(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err);

/* What is left out is taken from the graph's collections when the scaffold is finalized, or made there. */
typedef struct hs_scaffold_options {
    size_t size;
    const char *init_op;
    const hs_feed *init_feeds; /* for init_op; ended by a NULL name */
    hs_init_fn init_fn;
    void *user;
    /* An op whose output is a vector of HS_STRING, of shape HS_SHAPE(-1) (hs_op_set_output): the names of what is not
     * initialized. All is ready when there are none. */
    const char *ready_op;
    const char *ready_for_local_init_op; /* likewise, before the local init op */
    const char *local_init_op;
    const hs_feed *local_init_feeds;
    const char *summary_op;       /* by default what merges the graph's summaries (HS_SUMMARIES), if it has any */
    hs_saver *saver;              /* stays the caller's; NULL: the session's own, with the defaults */
    const hs_scaffold *copy_from; /* gives what is left out above; it is copied */
    const hs_env *env;            /* NULL: the system's. Copied */
} hs_scaffold_options;
#define HS_SCAFFOLD_OPTIONS(...) HS_OPTIONS(hs_scaffold_options, __VA_ARGS__)

/* The caller's to free, after the sessions that use it. Names are copied; feeds and saver are borrowed. `options` may be
 * NULL. HS_RESOURCE_EXHAUSTED. */
HS_API hs_scaffold *hs_scaffold_new(const hs_scaffold_options *options, hs_error *err);
HS_API void hs_scaffold_free(hs_scaffold *scaffold);

HS_END_DECLS

#endif
