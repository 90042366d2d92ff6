/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SESSION_H
#define HS_SESSION_SESSION_H

#include <hooksess/session.h>

#include "backends/raw_session.h"
#include "session/frame.h"
#include "summary/writer_cache.h"

#include <stdatomic.h>

/* A hooked session from the inside.
 *
 *   open.c, session.c, close.c   its life: the order of everything, and what is left when a part of it fails
 *   hooked.c    one run with its hooks
 *   fragment.c, frame.c, levels.c   what a run asks for and what it gives
 *   context.c, values.c, raw.c   what hooks see
 *   manager.c, scaffold.c   how variables get their first values
 *   states.c    what is saved besides them */

/* A hook as the session keeps it: first what every run looks at. */
typedef struct hs__hook {
    void *self;
    hs_code (*before_run)(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err);
    hs_code (*after_run)(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
    uint64_t kinds;       /* a bit for each hs_run_kind that it wants */
    hs_run_values values; /* of the run at level 0; hooks are called at no other */
    hs_hook_ops ops;      /* complete */
    bool begun;
    hs_run_args args; /* a copy of args that were compiled against other headers */
} hs__hook;

/* Who asks for fragments: the caller, raw runs, and each hook. */
enum { HS__CALLER = 0, HS__RAW = 1, HS__FIRST_HOOK = 2 };

/* One run as its hooks see it. */
struct hs_run_context {
    struct hs_session *session;
    const hs_run_args *args; /* the caller's */
    int64_t kind;
    hs_boundary boundary;
    bool after; /* the backend has run */
    bool stop, boundary_requested;
    bool has_step[2], has_now[2]; /* before, after */
    int64_t step[2], now[2];
    uint64_t moves; /* the raw session's, when the steps were read */
};

struct hs_session {
    hs_env env;
    hs_raw_session raw;
    hs__hook *hooks;
    hs_hook *given_hooks; /* as they came, to be destroyed */
    size_t n_hooks;
    hs_scaffold *scaffold;
    bool owns_scaffold, finalized_graph;
    hs_coordinator *coordinator;
    char *target;
    hs_bytes config;
    hs__writer_cache writers;

    hs__fragments fragments;
    hs__frame **frames; /* by level */
    size_t n_frames, frames_capacity;
    uint64_t runs;
    size_t level;                /* of a run that would be made now: how many are in the middle of their callbacks */
    bool in_backend;             /* the backend is running: nothing may be called */
    bool in_step;                /* a step function is running: its runs belong together */
    bool closing, stopped;       /* it is being closed; it had been asked to stop before */
    hs_run_values values;        /* the caller's */
    hs_run_values raw_values[2]; /* of raw runs: made by the caller, made in a callback */
    hs_run_context context;

    bool stop;      /* a stop that the caller could see when its last run returned */
    bool step_stop; /* a step function asked to stop */
    bool already_done;
    atomic_int stop_request; /* from any thread or signal handler; a word of its own, as compilers read bools together */
    char stop_hook[64], failed_hook[64];
    hs_error last;             /* of the last run; code HS_OK: it was good */
    hs_error fail;             /* the caller's own, from hs_session_fail */
    bool threads_failed_first; /* the coordinator had an error before the last run failed */
};

/* A code that ends a session well. */
static inline bool hs__is_clean(hs_code code)
{
    return code == HS_OK || code == HS_OUT_OF_RANGE || code == HS_STOP;
}

/* Prefixes the error of a hook's callback with all that tells which one it was, and keeps the hook's name. */
hs_code hs__hook_failed(struct hs_session *session, const hs__hook *hook, const char *callback, hs_code code,
                        hs_error *err);

/* One run with hooks, at level 0. `err` is not NULL. */
hs_code hs__run_hooked(struct hs_session *session, const hs_run_args *args, const hs_run_values **values, hs_error *err);
/* Flushes the writers and calls every boundary. */
hs_code hs__call_boundaries(struct hs_session *session, hs_boundary which, hs_error *err);

/* states.c. A hook's state as a provider, if it can be one. */
hs_code hs__hook_state(hs_state_provider *to, const hs__hook *hook, const char *identity, hs_error *err);
/* Gives the backend's state and the hooks' their places in the raw session. */
hs_code hs__gather_states(struct hs_session *session, hs_error *err);
void hs__free_states(hs_raw_session *raw);

/* close.c. Everything after the ends, whatever was opened, to the freeing. `error` is the first there was, or becomes it.
 */
hs_outcome hs__shut(struct hs_session *session, hs_code last, hs_error *error);
/* Frees a session of which nothing was opened. */
void hs__session_free(struct hs_session *session);

/* levels.c. The frame of a level, ready for a run: values of lower levels are safe. */
hs_code hs__begin_frame(struct hs_session *session, size_t level, hs__frame **out, hs_error *err);

/* A decision that all replicas must share: does any of them say so? There is one place for it, this. Alone, it is what one
 * says. */
bool hs__agree(struct hs_session *session, bool mine);
void hs__request_stop_by(struct hs_session *session, const char *hook);

/* What the requests of every hook in every step pass through. */

/* Args of this library's size: `given`, or a copy of them. */
static inline hs_code hs__take_args(hs_run_args *copy, const hs_run_args *given, const hs_run_args **out, hs_error *err)
{
    *out = given;
    if (given->size == sizeof *given)
        return HS_OK;
    *out = copy;
    return hs_struct_take(copy, sizeof *copy, given, "hs_run_args", "HS_RUN_ARGS", err);
}

/* Adds what `who` asks for to a run. `asker` is HS__CALLER and so on. */
static inline hs_code hs__add_request(struct hs_session *session, hs__frame *frame, size_t asker, const hs_run_args *args,
                                      const char *who, const hs__fragment **out, hs_error *err)
{
    hs__fragment *fragment;
    hs_code code = hs__fragment_of(&session->fragments, asker, args, session->frames[0]->since, &fragment, err);
    if (!code && !(code = hs__frame_add(frame, &session->fragments, fragment, args, who, err)))
        *out = fragment;
    return code;
}

#endif
