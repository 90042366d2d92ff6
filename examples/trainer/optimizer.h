/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_OPTIMIZER_H
#define TRAINER_OPTIMIZER_H

#include <hooksess/status.h>

/* Updates parameters with their gradients: SGD, momentum, Adam. */

enum { MAX_SLOTS = 2 };

/* An algorithm: its name, its slots (arrays with a float for each parameter), and its default learning rate. */
struct optimizer_kind {
    const char *name;
    const char *slots[MAX_SLOTS + 1]; /* ended by NULL */
    double rate;
    void (*update)(float *parameters, const float *gradients, float *const *slots, size_t n, double rate, int64_t step);
};

struct optimizer {
    const struct optimizer_kind *kind;
    double rate; /* of the first epoch */
    size_t n;
    float *slots[MAX_SLOTS];
};

/* "sgd", "momentum" or "adam"; NULL for any other name. */
const struct optimizer_kind *optimizer_kind_of(const char *name);

hs_code optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind, double rate, size_t n,
                       hs_error *err);
void optimizer_free(struct optimizer *optimizer);
/* Makes step number `step` in epoch number `epoch`, both from 1. The learning rate of epoch n is 2/(n+1) of the first. */
void optimizer_update(struct optimizer *optimizer, float *parameters, const float *gradients, int64_t step, uint64_t epoch);

#endif
