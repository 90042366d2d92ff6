/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_STEP_COUNTER_H
#define HOOKSESS_HOOKS_STEP_COUNTER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Measures how many global steps a second are made: a log line "step 1200: 85.3 steps/s", and a scalar "global_step/sec"
 * (the tag has the name of the step's variable) in an event file, where it is given one. Log lines are at least a second
 * apart: in a fast training only some rates get one. The event file has all of them. TensorFlow: StepCounterHook.
 *
 * The first run begins the count; what it took itself is not in it. By steps, the rhythm rides in the checkpoint: a resumed
 * run has its points where the run that it resumes would have had them, and the first rate is that of the steps since the
 * resumption. By seconds it begins anew. A trigger's intervals, too, begin with the first run; with its `first` set, that
 * run's own rate is told. `last` tells the rate since the last one.
 *
 * A step that stands still though runs are made is a warning, one for each time that it comes to a stand: by steps in the
 * first run that moves nothing, by seconds after an interval without a step. Runs of kinds that the hook's flags do not
 * name (any but TRAIN, if they say nothing) are not looked at.
 *
 * With units_per_step, it also measures units per second, and with flops_per_step the FLOPs utilization (MFU): the part of
 * the hardware's peak rate that the model's operations take.
 *
 *     hs_hook hook = hs_step_counter(.summary_dir = "run", .units_per_step = 524288, .unit = "tokens",
 *                                    .flops_per_step = 6.0 * 124e6 * 524288, .peak_flops = 8 * 989e12);
 *
 * logs "step 1200: 1.9 steps/s, 996147 tokens/s, MFU 9.4 %", and charts "tokens/sec" and "mfu" (0.094). A training
 * session has a step counter without units: switch it off there with .log_step_count_steps = HS_NEVER. */

HS_BEGIN_DECLS

typedef struct hs_step_counter_options {
    size_t size;
    int64_t every_n_steps;     /* steps between rates. None of every_n_steps, every_n_secs and trigger: 100 steps */
    double every_n_secs;       /* seconds between rates, instead of every_n_steps */
    const hs_trigger *trigger; /* instead of every_n_steps and every_n_secs */
    /* for the scalar, with the session's writer. Without summary_dir and summary_writer: the log alone */
    const char *summary_dir;
    hs_summary_writer *summary_writer; /* instead of summary_dir. Borrowed */
    double units_per_step;             /* examples, tokens ... that a step processes, on all devices. 0: not measured */
    const char *unit;                  /* with units_per_step: the unit's name, in the plural. Copied. NULL: "examples" */
    double flops_per_step;             /* floating-point operations of a step, on all devices. 0: not measured */
    double peak_flops; /* (required with flops_per_step) operations that all devices together can make in a second */
    const hs_env *env; /* NULL: the system's. Copied */
} hs_step_counter_options;

/* Threads: any. */
HS_API hs_hook hs_step_counter_hook(const hs_step_counter_options *options);
#define hs_step_counter(...) hs_step_counter_hook(HS_OPTIONS(hs_step_counter_options, __VA_ARGS__))

HS_END_DECLS

#endif
