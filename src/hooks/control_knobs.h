/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_CONTROL_KNOBS_H
#define HS_HOOKS_CONTROL_KNOBS_H

#include <hooksess/hooks/control.h>

/* The program's numbers that may be changed while it trains. */

enum { HS__KNOB_NAME = 64 };

typedef struct hs__knob {
    hs_knob knob; /* its name is the next one */
    char name[HS__KNOB_NAME + 1];
    bool is_set, is_restored; /* by an order or a checkpoint; by the one that is being loaded */
    double now;               /* as it was set */
    bool has_before;          /* what it was before it was set first is known */
    double before;
} hs__knob;

typedef struct hs__knobs {
    hs__knob *list; /* the caller's memory */
    size_t n;
} hs__knobs;

/* HS_OK: these knobs can be. */
hs_code hs__knobs_check(const hs_knob *given, hs_error *err);
void hs__knobs_copy(hs__knobs *to, const hs_knob *given);
/* None is set. */
void hs__knobs_reset(hs__knobs *knobs);
/* NULL: there is none of that name. */
hs__knob *hs__knob_find(const hs__knobs *knobs, const char *name);
/* Its value as a text of a few bytes: `room` at least 32. "unknown" where only the program knows it. */
void hs__knob_text(const hs__knob *knob, char *to, size_t room);
/* VALUE of an order. HS_INVALID_ARGUMENT says what is wrong with it; or what the knob's function said. */
hs_code hs__knob_set_text(hs__knob *knob, const char *text, hs_error *err);

/* For the hook's state: the names and values of those that are set. Loading logs what changes. */
hs_code hs__knobs_save(const hs__knobs *knobs, hs_state_writer *out, hs_error *err);
hs_code hs__knobs_load(hs__knobs *knobs, const hs_env *env, hs_state_reader *in, hs_error *err);

#endif
