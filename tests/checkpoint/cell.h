/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_CELL_H
#define HS_TESTS_CHECKPOINT_CELL_H

#include "checkpoint/model.h"

/* A small state for tests: a number after `padding` bytes. */
typedef struct cell {
    int64_t value;
    size_t padding;
    int loads;       /* how often load was called */
    int64_t version; /* of the state that was loaded last */
    hs_code fails;   /* code that load returns; 0: success */
} cell;

hs_state_provider cell_provider(cell *c, const char *name);
/* The same with a version and an identity (may be NULL). */
hs_state_provider cell_of(cell *c, const char *name, int64_t version, const char *identity);

/* Closes the fixture's model and opens it again, with this state (may be NULL). */
hs_code reopen(fixture *f, const hs_state_provider *provider, const hs_session_options *options);
/* The same, restoring from its directory. */
hs_code open_with_state(fixture *f, const hs_state_provider *provider);
/* Saves a checkpoint of step 1 with a state "loader": value 5, this version and identity. */
void save_loader(fixture *f, int64_t version, const char *identity);
/* Restores a model of step 9 with the provider `c` of the state "loader", whose value is 0 before. */
hs_code load_loader(fixture *f, cell *c, int64_t version, const char *identity);

/* Writes a checkpoint of that step without a saver: the model's variables, a state "loader" of value 5, and other tensors,
 * ended by a struct of zeros. */
void write_checkpoint_with(const fixture *f, int64_t step, const hs_feed *others);
/* Returns true if the checkpoint of that step has a tensor of that name. */
bool has_tensor(fixture *f, int64_t step, const char *name);

size_t times_logged(const fixture *f, const char *text);

#endif
