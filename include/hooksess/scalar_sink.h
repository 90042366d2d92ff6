/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SCALAR_SINK_H
#define HOOKSESS_SCALAR_SINK_H

#include <hooksess/hook.h>

/* A scalar sink writes the numbers that hs_scalars (hooks/scalars.h) fetches: to a file, a socket, a screen. The event file
 * of hs_scalars, the file of hs_metrics_file and the line of hs_progress are sinks too.
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
 * examples/prometheus writes a text file for Prometheus.
 *
 * The session's thread calls all callbacks. No TensorFlow equivalent. */

HS_BEGIN_DECLS

/* One number of a row. Frozen. */
typedef struct hs_scalar {
    const char *name; /* the label, or the name of the tensor or of the metric. NULL: the end of the row */
    int64_t step;     /* the global step that the number belongs to: the row's; of a metric the step at which it was set */
    double value;     /* NaN if it is not known */
    int64_t integer;  /* the exact value if `dtype` is an integer type or HS_BOOL; of HS_UINT64 the same bits */
    hs_dtype dtype;   /* of the tensor; HS_DOUBLE of a metric */
    bool known;       /* false: a metric that was not set since the row before */
    unsigned char reserved[3];
} hs_scalar;

/* A row: the numbers of one run. The library fills it. It is valid during the call. */
typedef struct hs_scalar_row {
    size_t size;
    int64_t step;             /* the global step after the run */
    const hs_scalar *scalars; /* tensors, then metrics; ended by a scalar without a name. The same names in each row */
    int64_t unix_ns;          /* the time: nanoseconds since 1970, UTC */
    int64_t now_ns;           /* the time by the monotonic clock */
    /* Step and monotonic time at which the session began to run: after its creation, a restore, or a step that decreased.
     * (step - begin_step) * 1e9 / (now_ns - begin_ns) are the steps per second since then */
    int64_t begin_step;
    int64_t begin_ns;
} hs_scalar_row;

/* The callbacks. Any but `write` may be NULL.
 *
 *   open        the session is created and its variables have their values; again after each restore (a recovery, a
 *               rollback), with the step of hs_raw_session_global_step: rows of later steps follow, also some that were
 *               written before. The file of hs_metrics_file is cut here
 *   write       a row. Called only while open has succeeded. HS_STOP: the sink takes no more rows, and nothing is fetched
 *               until open is called again
 *   flush       all rows are durable when it returns. Called before a checkpoint is saved and at the end
 *   end         the session ends normally, after at least one run. The row has no scalars
 *   close       always, once for each session, however it ended; also if open was not called
 *   save_state, load_state
 *               the sink's part of the checkpoint, as in hs_hook_ops. save_state is called after flush, load_state before
 *               open
 *   destroy     frees self. Once
 *
 * Failures. If the first call of open fails, opening the session fails. HS_INVALID_ARGUMENT is always passed on and ends
 * the training, as is every failure of save_state and load_state. Any other failure of open, write, flush and end does not
 * end it: it is logged, counted in the outcome under the sink's name, and the next row is tried, after open has succeeded
 * if that was what failed. */
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

/* A sink: its functions and its state. Travels by value. `ops` must live as long as the hook. Frozen. */
typedef struct hs_scalar_sink {
    const hs_scalar_sink_ops *ops; /* NULL: no sink */
    void *self;
} hs_scalar_sink;

HS_END_DECLS

#endif
