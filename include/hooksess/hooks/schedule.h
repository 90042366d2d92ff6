/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_SCHEDULE_H
#define HOOKSESS_HOOKS_SCHEDULE_H

#include <hooksess/hook.h>

/* Sets a number, such as the learning rate, when the session is created and before each training run, as a function of the
 * global step.
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
 * So the last of w + h + d steps does not reach `to`; the step after it does. A run that makes several steps uses the value
 * of its first step. With warm-up, hold and decay, this is the
 * warmup-stable-decay schedule.
 *
 * Another hook or the program may change the number: hs_control, for example, or hs_finite_guard after a rollback. Then the
 * schedule continues in proportion: if the number was halved, all later values are half as large. The factor is saved in
 * the checkpoint. If the scheduled number is 0, a change cannot be expressed as a factor: the schedule logs a warning and
 * overwrites it. hs_finite_guard changes variables only: with its learning_rate, give the schedule a variable.
 *
 * The number is logged and charted as any other: hs_logging_tensor(.tensors = HS_NAMES("loss", "learning_rate")) logs it,
 * and .scalars = HS_NAMES("loss", "learning_rate") charts it. Both show the value that the step used.
 *
 * TensorFlow: tf.train.cosine_decay, piecewise_constant and others.
 *
 * Threads: any. */

HS_BEGIN_DECLS

/* How the value falls from `from` to `to`, with p = the part of decay_steps that has passed, from 0 to 1. */
typedef enum hs_decay {
    HS_DECAY_NONE = 0,        /* it does not */
    HS_DECAY_LINEAR = 1,      /* from + (to - from) * p */
    HS_DECAY_COSINE = 2,      /* to + (from - to) * (1 + cos(pi * p)) / 2 */
    HS_DECAY_EXPONENTIAL = 3, /* from * (to / from)^p; both must be positive */
    HS_DECAY_SQRT = 4         /* to + (from - to) * (1 - sqrt(p)) */
} hs_decay;

/* A step of at least 1, and the value from this step on. Frozen. */
typedef struct hs_schedule_point {
    int64_t step;
    double value;
} hs_schedule_point;

/* .points = HS_SCHEDULE_POINTS({10000, 0.01}, {20000, 0.001}). A named array ends with {0}. */
#define HS_SCHEDULE_POINTS(...) HS__LIST(hs_schedule_point, __VA_ARGS__, {0, 0})

typedef struct hs_schedule_options {
    size_t size;
    /* (required) Name of a scalar of type float or double: a value of the embedded graph (hs_graph_value), or a variable of
     * any graph. Copied. */
    const char *value;
    int64_t warmup_steps; /* 0: none */
    int64_t hold_steps;   /* steps between warm-up and decay. 0: none */
    hs_decay decay;
    int32_t reserved_decay;
    double from;         /* (required) after the warm-up, before the decay */
    double to;           /* at the end of the decay */
    int64_t decay_steps; /* (required with a decay) */
    /* Instead of a decay and hold_steps: constant pieces. Before the first point the value is `from`. Steps ascend. Copied.
     * NULL: none. */
    const hs_schedule_point *points;
    const hs_env *env; /* for the hook's memory. NULL: the system's. Copied */
} hs_schedule_options;

/* Returns a hook that sets the number. begin reports invalid options, HS_NOT_FOUND if the graph has no such number, and
 * HS_UNIMPLEMENTED if its backend cannot set it. */
HS_API hs_hook hs_schedule_hook(const hs_schedule_options *options);
#define hs_schedule(...) hs_schedule_hook(HS_OPTIONS(hs_schedule_options, __VA_ARGS__))

/* Computes the scheduled number for a step. NAN if the options are invalid. */
HS_API double hs_schedule_value(const hs_schedule_options *options, int64_t step);

HS_END_DECLS

#endif
