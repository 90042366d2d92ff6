/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SCAFFOLD_H
#define HOOKSESS_SCAFFOLD_H

#include <hooksess/checkpoint.h>

/* How a session initializes its variables, checks that they are ready, and saves them. Without a scaffold, it uses the
 * graph's collections (backend.h). TensorFlow: Scaffold.
 *
 *     hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_op = "init", .saver = saver), &err);
 *     hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.scaffold = scaffold), &err);
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_scaffold hs_scaffold;

/* Initializes variables from C. Called after the init op, unless a checkpoint was restored. */
typedef hs_code (*hs_init_fn)(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err);

/* In place of a name: no op, not even the default. TensorFlow: None. */
#define HS_NONE ""

/* Names are copied; feeds and saver are borrowed. NULL: the only item of the graph's collection, or if that is empty the
 * backend's default op. */
typedef struct hs_scaffold_options {
    size_t size;
    const char *init_op;       /* run if no checkpoint is restored */
    const hs_feed *init_feeds; /* for init_op: HS_FEEDS(...) */
    hs_init_fn init_fn;        /* called after init_op. NULL: none */
    void *user;
    /* An op that returns the names of uninitialized variables: a vector of HS_STRING with shape HS_SHAPE(-1)
     * (hs_op_set_output). Empty: the session is ready */
    const char *ready_op;
    const char *ready_for_local_init_op; /* the same check, before local_init_op */
    const char *local_init_op;           /* run in every new session, also after a restore */
    const hs_feed *local_init_feeds;     /* for local_init_op: HS_FEEDS(...) */
    const char *summary_op;              /* NULL: an op that merges the collection HS_SUMMARIES, if it has items */
    hs_saver *saver;                     /* NULL: a saver with the default options */
    bool no_saver;                       /* not even the default. Not with checkpoint_dir and checkpoint_prefix */
    unsigned char reserved[7];
    const hs_scaffold *copy_from; /* its fields replace the NULL fields above. NULL: none */
    const hs_env *env;
} hs_scaffold_options;
#define HS_SCAFFOLD_OPTIONS(...) HS_OPTIONS(hs_scaffold_options, __VA_ARGS__)

/* `options` NULL: the defaults. Free the scaffold after its sessions. */
HS_API hs_scaffold *hs_scaffold_new(const hs_scaffold_options *options, hs_error *err);
HS_API void hs_scaffold_free(hs_scaffold *scaffold);

/* Fills in the fields that are NULL and finalizes the graph, as a session does. A second call changes nothing.
 * HS_FAILED_PRECONDITION: a collection has several items, or the scaffold was finalized with another graph. TensorFlow:
 * Scaffold.finalize. */
HS_API hs_code hs_scaffold_finalize(hs_scaffold *scaffold, hs_backend backend, hs_error *err);
/* Returns the fields, borrowed. A field is NULL if it was not given, and the scaffold is not finalized or has no default
 * for it; copy_from and env are always NULL. TensorFlow: the properties of Scaffold. */
HS_API const hs_scaffold_options *hs_scaffold_fields(const hs_scaffold *scaffold);

HS_END_DECLS

#endif
