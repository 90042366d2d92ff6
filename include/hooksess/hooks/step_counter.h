/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STEP_COUNTER_H
#define HOOKSESS_HOOKS_STEP_COUNTER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Measures global steps per second. The log gets the mean since its last rate, at most once a second. The rate of each
 * interval is the scalar "global_step/sec" (with the name of the step's variable) in an event file. TensorFlow:
 * StepCounterHook.
 *
 * It can also measure units per second, and FLOPs utilization (MFU):
 *
 *     hs_hook hook = hs_step_counter(.summary_dir = "run", .units_per_step = 524288, .unit = "tokens",
 *                                    .flops_per_step = 6.0 * 124e6 * 524288, .peak_flops = 8 * 989e12);
 *
 * logs "step 1200: 2 steps/s, 1048576 tokens/s, MFU 9.86 %", and charts "tokens/sec" and "mfu" (0.0986). A training
 * session already has a step counter: replace it with .log_step_count_steps = HS_NEVER.
 *
 * The first interval begins after the first run, or with `first` before it. With `last`, the end of the
 * session gives a rate. A resumed run measures only its own steps. If runs do not advance the global step, the log gets a
 * warning, once per stall.
 *
 * In a group only rank 0 calls the hook.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef struct hs_step_counter_options {
    size_t size;
    int64_t every_n_steps;             /* steps between rates. Without a schedule: 100 */
    double every_n_secs;               /* or: seconds between rates */
    hs_trigger when;                   /* or: conditions */
    const char *summary_dir;           /* directory of the event file. NULL: none */
    hs_summary_writer *summary_writer; /* or: a writer */
    double units_per_step;             /* examples, tokens ... per step, on all devices. 0: not measured */
    const char *unit;                  /* with units_per_step: plural name of the unit. NULL: "examples" */
    double flops_per_step;             /* floating-point operations per step, on all devices. 0: not measured */
    double peak_flops;                 /* (required with flops_per_step) peak rate of all devices, per second */
} hs_step_counter_options;

/* The graph needs a global step. */
HS_API hs_hook hs_step_counter_hook(const hs_step_counter_options *options);
#define hs_step_counter(...) hs_step_counter_hook(HS_OPTIONS(hs_step_counter_options, __VA_ARGS__))

HS_END_DECLS

#endif
