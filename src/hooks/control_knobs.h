/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_CONTROL_KNOBS_H
#define HS_HOOKS_CONTROL_KNOBS_H

#include <hooksess/hooks/control.h>

/* The knobs: numbers of the program that an order may change during training. */

enum { HS__KNOB_NAME = 64 };

typedef struct hs__knob {
    hs_knob knob; /* knob.name points to `name` */
    char name[HS__KNOB_NAME + 1];
    bool is_set;      /* by an order or a checkpoint */
    bool is_restored; /* by the checkpoint that is being loaded */
    double now;       /* the value that was set */
    bool has_before;  /* `before` is known: the value before the knob was first set */
    double before;
} hs__knob;

typedef struct hs__knobs {
    hs__knob *list; /* borrowed */
    size_t n;
} hs__knobs;

/* HS_INVALID_ARGUMENT: a knob is invalid, or two have the same name. */
hs_code hs__knobs_check(const hs_knob *given, hs_error *err);
void hs__knobs_copy(hs__knobs *to, const hs_knob *given);
/* Marks all knobs as not set. */
void hs__knobs_reset(hs__knobs *knobs);
/* NULL: no knob has this name. */
hs__knob *hs__knob_find(const hs__knobs *knobs, const char *name);
/* Formats the value. `room` is at least 32 bytes. "unknown": the knob has no `value`, and was not set. */
void hs__knob_text(const hs__knob *knob, char *to, size_t room);
/* Sets the knob to the VALUE of an order. HS_INVALID_ARGUMENT: the value does not fit. Others: the code of the knob's
 * `set`. */
hs_code hs__knob_set_text(hs__knob *knob, const char *text, hs_error *err);

/* For the hook's state: names and values of the knobs that are set. Loading logs each change. */
hs_code hs__knobs_save(const hs__knobs *knobs, hs_state_writer *out, hs_error *err);
hs_code hs__knobs_load(hs__knobs *knobs, const hs_env *env, hs_state_reader *in, hs_error *err);

#endif
