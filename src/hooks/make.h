/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_MAKE_H
#define HS_HOOKS_MAKE_H

#include <hooksess/hook.h>

#include "base/buffer.h"

#include <stddef.h>

/* Helpers for constructors of built-in hooks. A constructor cannot fail: if the options are invalid or memory is exhausted,
 * it returns a hook whose begin reports the error.
 *
 * A hook copies its options before it has a session. This memory is malloc's, or that of hs__set_hook_memory. Clock, log
 * and files are the session's (hs_backend_env). */

/* The state of each built-in hook begins with this. */
typedef struct hs__hook_base {
    hs_env env;                 /* only for the hook's memory: its clock, log and files are the system's */
    uint32_t flags;             /* of the hs_hook; set by `fill` */
    hs_trigger when;            /* the same; hs__hook_when sets it. Its list is a copy */
    const char *const *fetches; /* fixed, set by `fill`: names in the hook's memory. NULL: none, or those of its ops */
    hs__buffer rank_identity;   /* `fill` may append lines; hs__hook_make appends options */
    hs_hook_ops ops;            /* with these fetches */
} hs__hook_base;

/* An option that must have the same value on all ranks of a group. */
typedef enum hs__option_type { HS__ENUM, HS__BOOL, HS__INT64, HS__DOUBLE, HS__TEXT, HS__NAMES } hs__option_type;
typedef struct hs__rank_option {
    const char *name;
    size_t offset;
    hs__option_type type;
} hs__rank_option;
/* clang-format off */
#define HS__RANK_OPTION(options, field)                                                                                    \
    {#field, offsetof(options, field),                                                                                     \
     _Generic(((options *)0)->field, bool: HS__BOOL, int64_t: HS__INT64, double: HS__DOUBLE, const char *: HS__TEXT,       \
              const char *const *: HS__NAMES, default: HS__ENUM)}
/* clang-format on */

typedef struct hs__hook_kind {
    const hs_hook_ops *ops;
    size_t state_bytes;
    const char *options_name;
    size_t options_bytes, required_bytes;
    /* Refuses invalid options. NULL: all options are valid */
    hs_code (*check)(const void *options, hs_error *err);
    /* Fills the zeroed state. After a failure, ops->destroy is called */
    hs_code (*fill)(void *self, const void *options, hs_error *err);
    const hs__rank_option *same; /* for hs__hook_rank_identity, ended by {0}. NULL: none */
} hs__hook_kind;

/* Makes a hook with a state of type `state` from the caller's options, which must have the fields up to `last`. */
#define HS__HOOK_MAKE(ops, state, options_type, last, check, fill, same, given)                                            \
    hs__hook_make(&(const hs__hook_kind){(ops), sizeof(state), #options_type, sizeof(options_type),                        \
                                         offsetof(options_type, last) + sizeof(((options_type *)0)->last), (check),        \
                                         (fill), (same)},                                                                  \
                  &(options_type){0}, (given))

/* options  receives a copy of `given`, complete */
hs_hook hs__hook_make(const hs__hook_kind *kind, void *options, const void *given);

/* Allocates a state of `bytes` bytes, zeroed except for `env`. NULL with an error. */
void *hs__hook_new(size_t bytes, hs_error *err);

/* Sets the environment whose memory the hooks get that this thread makes from now on. NULL: malloc. Borrowed. Returns the
 * earlier one. A training session makes its hooks with the memory of its backend; tests let it fail. */
const hs_env *hs__set_hook_memory(const hs_env *env);
/* hs_hook_ops.rank_identity of hooks that have one. */
const char *hs__hook_rank_identity(void *self);
/* Frees the state. It is the destroy of a hook that owns no other memory. */
void hs__hook_free(void *self);

/* The schedule of a hook, from its options every_n_secs, every_n_steps and when: at most one of the three. */
typedef struct hs__when_options {
    double secs;
    int64_t steps;
    hs_trigger when;
    bool first;            /* every_n_secs and every_n_steps also fire in the first run */
    bool counts_runs;      /* steps are runs */
    int64_t default_steps; /* if none is given. 0: HS_INVALID_ARGUMENT; */
    bool optional;         /* with 0: {0}, each run */
    const char *no_last;   /* refuses `last`: "the hook checks runs". NULL: allows it */
} hs__when_options;
/* Sets `when` of a hook in its constructor. HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. */
hs_code hs__hook_when(void *self, const hs__when_options *options, hs_error *err);

/* Copies in the hook's memory. NULL with an error. hs_env_free frees them. The names of a list are one block. */
const char *const *hs__hook_names(void *self, const char *const *names, hs_error *err);
char *hs__hook_text(void *self, const char *text, hs_error *err);

#endif
