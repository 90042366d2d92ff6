/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RESTORE_H
#define HS_CHECKPOINT_RESTORE_H

#include "checkpoint/archive.h"
#include "checkpoint/saver.h"

/* hs_struct_take, and INVALID_ARGUMENT if `names` lists a variable twice. */
hs_code hs__copy_restore_options(hs_restore_options *to, const hs_env *env, const hs_restore_options *given, hs_error *err);
/* Calls options->report, if there is one. */
void hs__report_restore(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail);
/* INVALID_ARGUMENT if the options name a variable that the session does not have. */
hs_code hs__restore_check(const hs_restore_options *options, const hs_raw_session *session, hs_error *err);

/* Restores the selected variables from an open archive, and states if it has them. */
hs_code hs__restore_archive(const hs__selection *selection, hs_raw_session *session, hs__archive *archive,
                            const hs_restore_options *options, hs_error *err);
/* Restores variables and states from a checkpoint, and records that in the saver and the session. *damaged: it failed
 * because the files are damaged, so that another checkpoint may be restored instead; this is reported to `options`. The
 * cause of another failure is the model, the options or the machine. */
hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    bool *damaged, hs_error *err);

/* newest.c. What is restored: one checkpoint, or the newest valid one of a directory. Both NULL: none. */
typedef struct hs__restore_source {
    const char *path, *directory;
    bool whole; /* a checkpoint of this session: without the options */
} hs__restore_source;
enum { HS__PATH_SIZE = 4096 }; /* of a path in a message, with the zero at its end */

/* Candidates of a directory, in this order: those later than the newest of the state file, left by a crash (saver.h); the
 * newest of the state file; the others that it lists; all others that are found. A damaged checkpoint is skipped with a
 * warning. *restored is the path, for hs__free; NULL: there is no checkpoint. DATA_LOSS or NOT_FOUND: all were skipped. A
 * checkpoint that the system cannot read now, or that does not fit the model, is an error, and no other is tried. In a
 * group all ranks call it, and restore what `from` of rank 0 says. */
hs_code hs__restore_from(hs_saver *saver, hs_raw_session *session, const hs__restore_source *from,
                         const hs_restore_options *options, char **restored, hs_error *err);
/* The same for a directory. */
hs_code hs__restore_newest(hs_saver *saver, hs_raw_session *session, const char *directory,
                           const hs_restore_options *options, char **restored, hs_error *err);

#endif
