/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_OPTIMIZER_H
#define TRAINER_OPTIMIZER_H

#include <hooksess/status.h>

/* How parameters follow their gradients. */

enum { MOST_SLOTS = 2 };

/* What an optimizer is: its name, the slots (as many floats as there are parameters) that it keeps, and a learning rate
 * that suits it. */
struct optimizer_kind {
    const char *name;
    const char *slots[MOST_SLOTS + 1]; /* ended by NULL */
    double rate;
    void (*update)(float *parameters, const float *gradients, float *const *slots, size_t n, double rate, int64_t step);
};

struct optimizer {
    const struct optimizer_kind *kind;
    double rate; /* of the first epoch */
    size_t n;
    float *slots[MOST_SLOTS];
};

/* "sgd", "momentum" or "adam"; NULL for any other name. */
const struct optimizer_kind *optimizer_kind_of(const char *name);

hs_code optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind, double rate, size_t n,
                       hs_error *err);
void optimizer_free(struct optimizer *optimizer);
/* One step, the `step`-th, of the `epoch`-th epoch, both from 1. The rate falls from epoch to epoch: 1, 2/3, 2/4, 2/5 ...
 * of what it was at first. */
void optimizer_update(struct optimizer *optimizer, float *parameters, const float *gradients, int64_t step, uint64_t epoch);

#endif
