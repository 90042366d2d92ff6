/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SCHEDULE_H
#define HOOKSESS_HOOKS_SCHEDULE_H

#include <hooksess/hook.h>

/* Sets a number, such as the learning rate, as a function of the global step: when the session is created and before each
 * training run. TensorFlow: tf.train.cosine_decay, piecewise_constant and others.
 *
 *     float learning_rate;
 *     hs_graph_value(g, "learning_rate", HS_FLOAT, HS_SCALAR, &learning_rate);
 *     hs_hook hook = hs_schedule(.value = "learning_rate", .warmup_steps = 700, .decay = HS_DECAY_COSINE,
 *                                .from = 6e-4, .to = 6e-5, .decay_steps = 19560);
 *
 * With s = global step before the run, w = warmup_steps, h = hold_steps, d = decay_steps:
 *
 *   s < w             from * (s + 1) / w
 *   s < w + h         from
 *   s < w + h + d     between `from` and `to`, by `decay`
 *   later             to; without a decay: from
 *
 * If the program or another hook changes the number, later values change by the same factor. Checkpoints save it. A
 * change to or from 0 is overwritten, with a warning. hs_finite_guard.learning_rate only changes variables: schedule a
 * variable.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* How the number changes from `from` to `to`. p is the passed part of decay_steps, from 0 to 1. */
typedef enum hs_decay {
    HS_DECAY_NONE = 0,        /* it stays `from` */
    HS_DECAY_LINEAR = 1,      /* from + (to - from) * p */
    HS_DECAY_COSINE = 2,      /* to + (from - to) * (1 + cos(pi * p)) / 2 */
    HS_DECAY_EXPONENTIAL = 3, /* from * (to / from)^p; both must be positive */
    HS_DECAY_SQRT = 4         /* to + (from - to) * (1 - sqrt(p)) */
} hs_decay;

/* The value from `step` on. `step` is at least 1. Frozen. */
typedef struct hs_schedule_point {
    int64_t step;
    double value;
} hs_schedule_point;

/* .points = HS_SCHEDULE_POINTS({10000, 0.01}, {20000, 0.001}) */
#define HS_SCHEDULE_POINTS(...) HS__LIST(hs_schedule_point, __VA_ARGS__, {0, 0})

typedef struct hs_schedule_options {
    size_t size;
    /* (required) scalar of type float or double: a value of the embedded graph (hs_graph_value), or a variable of any
     * graph */
    const char *value;
    int64_t warmup_steps; /* steps in which the number rises to `from`. 0: no warm-up */
    int64_t hold_steps;   /* steps between warm-up and decay. 0: none */
    hs_decay decay;       /* 0: HS_DECAY_NONE */
    int32_t reserved_decay;
    double from;         /* (required, unless `to` or points are set) value between warm-up and decay */
    double to;           /* with a decay: the value after it */
    int64_t decay_steps; /* (required with a decay) steps from `from` to `to` */
    /* Constant pieces, instead of decay and hold_steps; steps ascending. Before the first point: `from`. NULL: none */
    const hs_schedule_point *points;
} hs_schedule_options;

/* The graph needs a global step. `begin` also returns HS_NOT_FOUND for an unknown `value`, and HS_UNIMPLEMENTED if the
 * backend cannot set it. */
HS_API hs_hook hs_schedule_hook(const hs_schedule_options *options);
#define hs_schedule(...) hs_schedule_hook(HS_OPTIONS(hs_schedule_options, __VA_ARGS__))

/* Returns the scheduled number for a step, without factor. NAN if the options are invalid or `step` is negative. */
HS_API double hs_schedule_value(const hs_schedule_options *options, int64_t step);

HS_END_DECLS

#endif
