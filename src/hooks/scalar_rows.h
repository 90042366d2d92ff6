/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_SCALAR_ROWS_H
#define HS_HOOKS_SCALAR_ROWS_H

#include <hooksess/scalar_sink.h>

#include "hooks/make.h"

/* Fetches numbers on a schedule and passes them to a sink, row by row. Used by hs_scalars, hs_metrics_file and
 * hs_progress. */

/* The last value of a metric of the session. A restore clears the session's metrics, so those that no row has are saved in
 * the checkpoint. */
typedef struct hs__seen_metric {
    int64_t is_set, is_written; /* 0 or 1. is_written: a row has it */
    int64_t step;
    double value;
} hs__seen_metric;

/* The state of such a hook begins with this. The `self` of a built-in sink is the hook. */
typedef struct hs__scalar_rows {
    hs__hook_base base;
    hs_scalar_sink_ops sink;
    void *sink_self;
    bool for_display;
    const char *const *tensors, *const *labels, *const *metrics; /* copies. NULL: none */
    size_t n_tensors, n_metrics;
    hs_scalar *scalars;    /* a row: first the tensors, then the metrics, then the end of the list */
    hs__seen_metric *seen; /* of each metric */
    hs_run_args args;      /* the tensors */
    const hs_env *session_env;
    hs_raw_session *session;      /* NULL: not created yet, or closed */
    bool has_begun;               /* the next four are valid */
    int64_t restore_generation;   /* hs_raw_session_restores at the last opening of the sink */
    int64_t begin_step, begin_ns; /* hs_scalar_row */
    int64_t step;                 /* of the last run since then with a row or without values, or begin_step */
    bool has_row;                 /* there was a row since then */
    bool opened, is_open;         /* opened: at least once since begin */
    bool full;                    /* the sink accepts no more rows */
} hs__scalar_rows;

typedef struct hs__scalar_rows_options {
    const char *const *tensors, *const *labels, *const *metrics;
    hs__when_options when; /* its `first` and default_steps are set: none of the three is 100 steps */
    hs_scalar_sink sink;
    /* For display only: names are optional, larger tensors show their first element, and nothing is saved */
    bool for_display;
} hs__scalar_rows_options;

/* Fills a state from hs__hook_new. The hook then owns the sink, also after an error, except if the size of the sink's ops
 * is refused. hs__scalar_rows_destroy frees all of it. */
hs_code hs__scalar_rows_init(hs__scalar_rows *rows, const hs__scalar_rows_options *options, hs_error *err);

/* The callbacks of the hook. */
hs_code hs__scalar_rows_begin(void *self, hs_backend backend, hs_error *err);
hs_code hs__scalar_rows_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err);
hs_code hs__scalar_rows_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err);
hs_code hs__scalar_rows_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
hs_code hs__scalar_rows_end(void *self, hs_raw_session *session, hs_error *err);
void hs__scalar_rows_close(void *self, const hs_outcome *outcome);
hs_code hs__scalar_rows_save(void *self, hs_state_writer *out, hs_error *err);
hs_code hs__scalar_rows_load(void *self, hs_state_reader *in, hs_error *err);
void hs__scalar_rows_destroy(void *self);

#define HS__SCALAR_ROWS_CALLBACKS                                                                                          \
    .begin = hs__scalar_rows_begin, .after_create_session = hs__scalar_rows_create, .before_run = hs__scalar_rows_before,  \
    .after_run = hs__scalar_rows_after, .end = hs__scalar_rows_end, .close = hs__scalar_rows_close,                        \
    .destroy = hs__scalar_rows_destroy
#define HS__SCALAR_ROWS_STATE .save_state = hs__scalar_rows_save, .load_state = hs__scalar_rows_load, .state_version = 1

/* True: the value of a scalar of this type is in `integer`. */
bool hs__is_integer(hs_dtype dtype);

#endif
