/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SCALAR_SINK_H
#define HOOKSESS_SCALAR_SINK_H

#include <hooksess/hook.h>

/* Callbacks that get each row of hs_scalars (hooks/scalars.h). Beyond TensorFlow.
 *
 *     static hs_code write_row(void *self, const hs_scalar_row *row, hs_error *err)
 *     {
 *         (void)self, (void)err;
 *         for (const hs_scalar *s = row->scalars; s->name; s++)
 *             if (s->known)
 *                 printf("%lld %s %g\n", (long long)row->step, s->name, s->value);
 *         return HS_OK;
 *     }
 *
 *     static const hs_scalar_sink_ops printer = HS_INIT(hs_scalar_sink_ops, .name = "printer", .write = write_row);
 *     ...
 *     hs_hook hook = hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 10, .sink = {.ops = &printer});
 *
 * See also examples/prometheus. */

HS_BEGIN_DECLS

/* One number of a row. Frozen. */
typedef struct hs_scalar {
    const char *name; /* the label, or the name of the tensor or metric. NULL: the end of the row */
    int64_t step;     /* the row's; for a metric, the step at which it was set */
    double value;     /* NaN if `known` is false */
    int64_t integer;  /* exact, if `dtype` is an integer type or HS_BOOL; HS_UINT64: the same bits */
    hs_dtype dtype;   /* of the tensor. For a metric HS_DOUBLE */
    bool known;       /* false: a metric not set since the last row; a value that this step has not computed */
    unsigned char reserved[3];
} hs_scalar;

/* The numbers of one run. Valid during the call. */
typedef struct hs_scalar_row {
    size_t size;
    int64_t step;             /* the global step after the run */
    const hs_scalar *scalars; /* tensors, then metrics; ended by a NULL name. The same names in each row */
    int64_t unix_ns;          /* nanoseconds since 1970, UTC */
    int64_t now_ns;           /* monotonic clock, nanoseconds */
    /* Step and monotonic time at the session's creation, or at the first row after a restore or a decrease of the step.
     * Steps per second since then: (step - begin_step) * 1e9 / (now_ns - begin_ns) */
    int64_t begin_step;
    int64_t begin_ns;
} hs_scalar_row;

/* The callbacks. All but `write` may be NULL.
 *
 *   open        When the session is created, and after each restore (recovery, rollback), before the next row or save.
 *               Variables have their values. Rows of later steps than hs_raw_session_restored_step(), or if that is -1
 *               than hs_raw_session_global_step(), follow, possibly again: discard the old ones
 *   write       A row, only while `open` has succeeded. HS_STOP: no more rows until the next `open`
 *   flush       Make all rows durable. Before each checkpoint and at the end
 *   end         The session ends normally, after at least one run. The row has no scalars
 *   close       Once per session, also if `open` was not called
 *   save_state  The sink's part of a checkpoint, after `flush`; as in hs_hook_ops
 *   load_state  Before `open`
 *   destroy     Frees `self`. Once
 *
 *   failing callback                  what happens
 *   the first `open`                  opening the session fails
 *   `save_state`, `load_state`        the save or the restore fails
 *   `open`, `write`, `flush`, `end`   reported under the sink's name (hs_raw_session_report_result); the next row tries
 *                                     again
 *
 * HS_INVALID_ARGUMENT without os_error ends the training in any case. If `open` failed, the next row calls it first. */
typedef struct hs_scalar_sink_ops {
    size_t size;
    const char *name; /* (required) for messages, the outcome and the checkpoint */
    hs_code (*open)(void *self, hs_raw_session *session, hs_error *err);
    hs_code (*write)(void *self, const hs_scalar_row *row, hs_error *err); /* (required) */
    hs_code (*flush)(void *self, hs_error *err);
    hs_code (*end)(void *self, const hs_scalar_row *row, hs_error *err);
    void (*close)(void *self);
    hs_save_state_fn save_state;
    hs_load_state_fn load_state;
    void (*destroy)(void *self);
} hs_scalar_sink_ops;

/* A sink. `ops` must live as long as the hook. Frozen. */
typedef struct hs_scalar_sink {
    const hs_scalar_sink_ops *ops; /* NULL: no sink */
    void *self;
} hs_scalar_sink;

HS_END_DECLS

#endif
