/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_CELL_H
#define HS_TESTS_CHECKPOINT_CELL_H

#include "checkpoint/model.h"

/* A piece of state to try things with: a number, after so many bytes of padding. */
typedef struct cell {
    int64_t value;
    size_t padding;
    int loads;       /* how often load was called */
    int64_t version; /* what was loaded last was of this one */
    hs_code fails;   /* load does, with this; 0: it does not */
} cell;

hs_state_provider cell_provider(cell *c, const char *name);
/* The same of a version and with an identity (may be NULL). */
hs_state_provider cell_of(cell *c, const char *name, int64_t version, const char *identity);

/* Opens the fixture's model anew, with this state (may be NULL). */
hs_code reopen(fixture *f, const hs_state_provider *provider, const hs_session_options *options);
/* The same from its directory. */
hs_code open_with_state(fixture *f, const hs_state_provider *provider);
/* A checkpoint of step 1 with a state "loader" like this: of value 5, a version and an identity. */
void save_loader(fixture *f, int64_t version, const char *identity);
/* Opens the model with a "loader" like this, which is `c`, of value 0 at first. The model is at step 9 before. */
hs_code load_loader(fixture *f, cell *c, int64_t version, const char *identity);

/* Writes a checkpoint of that step by hand: the model's variables, the state "loader" of value 5, and another tensor. */
void write_checkpoint_with(const fixture *f, int64_t step, const char *name, hs_tensor value);
/* Is there a tensor of that name in the checkpoint of that step? */
bool has_tensor(fixture *f, int64_t step, const char *name);

size_t times_logged(const fixture *f, const char *text);

#endif
