/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_LIST_H
#define HS_CHECKPOINT_SAVE_LIST_H

#include "backends/raw_variables.h"
#include "checkpoint/saver.h"
#include "checkpoint/shards.h"

/* What is saved of a session, one after the other: as it is, or as it was when an image was taken of it. */

/* One tensor, in host memory. */
typedef struct hs__saved {
    const char *name;
    hs_tensor value;
    const hs_variable_slice *slice; /* what part of the tensor `name` it is; NULL: it is all of it */
    size_t variable;                /* its index in the backend; HS__NONE: it is a piece of state */
    bool lent;                      /* the value is the variable's own memory, and no copy */
    bool follows;                   /* it is a part of the tensor that the one before is a part of */
    bool moves;                     /* the program may move the variable's memory at any time (HS_VARIABLE_MOVES) */
    bool nonfinite;                 /* NaN and infinity may be in it */
    bool varies;                    /* it is a hook's state that differs between equal runs (HS_HOOK_STATE_VARIES) */
    /* Not NULL: `value` is a vector of uint8 without data and without a length. This calls `put` with its bytes, once */
    hs_code (*produce)(void *source, hs__put_fn put, void *user, hs_error *err);
    void *source;
} hs__saved;

/* Takes a tensor, which is good during the call. What it returns other than HS_OK ends it. */
typedef hs_code (*hs__take_fn)(void *user, const hs__saved *saved, hs_error *err);

/* Adds it to a bundle. */
hs_code hs__saved_write(const hs__saved *saved, hs__bundle_writer *writer, hs_error *err);
/* Can what is saved of a variable be called `name`? INVALID_ARGUMENT: such names are the state's. */
hs_code hs__check_saved_name(const char *name, hs_error *err);
/* A variable's value in host memory, until the next call with the same `copy` or with the session. It has memory. */
hs_code hs__read_variable(const hs_raw_session *session, size_t index, const char *name, hs_host_copy *copy,
                          hs_tensor *host, hs_error *err);
/* In the order of their names, without those that have no memory. */
hs_code hs__each_variable(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user,
                          hs_error *err);
/* Those that were added while the session was open. */
hs_code hs__each_late_variable(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user,
                               hs_error *err);
/* How many bytes each of them has in memory, without reading them; to be freed. Of strings only the elements count. */
hs_code hs__variable_sizes(const hs_saver *saver, const hs_raw_session *session, hs__dealt **sizes, size_t *n,
                           hs_error *err);
/* First what is recorded of variables, then state. */
hs_code hs__each_state(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user, hs_error *err);
/* A record of a variable (variables.h). */
hs_code hs__take_record(const hs_env *env, const char *name, const char *which, hs__take_fn take, void *user,
                        hs_error *err);
/* Logs which of them have no memory, once a session. */
void hs__tell_without_memory(const hs_saver *saver, hs_raw_session *session);
/* How many bytes that will be, or about: the variables', and what providers say of themselves. */
uint64_t hs__expected_bytes(const hs_saver *saver, const hs_raw_session *session);

/* What a checkpoint records of a variable besides its value: a scalar of type bool under the key "hooksess/variable/NAME"
 * with one of these behind it. */
#define HS__VARIABLE_NULL ":null" /* it had no memory when it was saved, and there is no value */
#define HS__VARIABLE_LATE ":late" /* it was added while the session was open */
/* The key, for hs__free. NULL without memory. */
char *hs__variable_key(const hs_env *env, const char *name, const char *which);

/* What an error says first if a restore has changed the model, and cannot complete it. */
#define HS__PARTLY_RESTORED "do not train with this session: the model is partly restored"

#endif
