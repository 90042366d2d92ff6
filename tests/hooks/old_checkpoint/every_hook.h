/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_HOOKS_OLD_CHECKPOINT_EVERY_HOOK_H
#define HS_TESTS_HOOKS_OLD_CHECKPOINT_EVERY_HOOK_H

/* A small training with every built-in hook, of which write.c makes a checkpoint by an old version of the library, and
 * test_old_checkpoint.c restores it. So it uses only what both versions have. */

#include <hooksess/hooksess.h>

#include <math.h>
#include <stdio.h>

enum { MOST_HOOKS = 32, STEP_SECS = 3 };

typedef struct trained {
    hs_graph *graph;
    double weights[2], rate;       /* variables */
    double loss, wild, gradient;   /* values of the last run */
    double knob;                   /* of the hook control */
    int64_t step, runs;            /* runs: of this process */
    int64_t nan_wild_in, spike_in; /* the runs in which `wild` is NaN, or a spike. 0: none */
    int64_t nan_gradient_in;       /* the run in which `gradient` is NaN */
    int64_t rows;                  /* of the sink of the hook scalars, with those of earlier processes */
    double row_accuracy;           /* of the last one; NaN: not set */
    int64_t patience[2];           /* of the hooks early_stopping; 0: 100 */
    double total_secs;             /* of the hook stop_after; 0: 1000 */
    double floor_secs;             /* of the hook watchdog */
    int descriptor;                /* for the hook progress */
    void (*advance)(void *user, double secs);
    void *user;
} trained;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    trained *t = self;
    const int64_t step = hs_op_global_step(op, err) + 1;
    t->runs++;
    t->loss = step == 2 ? 0.5 : 1;
    t->wild = t->runs == t->nan_wild_in ? NAN : t->runs == t->spike_in ? 1000 : step % 2 ? 1 : 2;
    t->gradient = t->runs == t->nan_gradient_in ? NAN : 1;
    t->advance(t->user, STEP_SECS);
    return HS_OK;
}

static hs_code update(void *self, hs_op *op, hs_error *err)
{
    trained *t = self;
    (void)op, (void)err;
    t->weights[0] += 1;
    t->weights[1] -= 1;
    return HS_OK;
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    static const hs_string nothing = {"", 0};
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &nothing);
    (void)self;
    return hs_op_set_output(op, 0, &value, err);
}

static void build(trained *t, const hs_env *env)
{
    t->graph = hs_graph_new(env);
    hs_graph_variable(t->graph, "weights", HS_DOUBLE, HS_SHAPE(2), t->weights);
    hs_graph_variable(t->graph, "rate", HS_DOUBLE, HS_SCALAR, &t->rate);
    hs_graph_global_step(t->graph, NULL, &t->step);
    hs_graph_value(t->graph, "loss", HS_DOUBLE, HS_SCALAR, &t->loss);
    hs_graph_value(t->graph, "wild", HS_DOUBLE, HS_SCALAR, &t->wild);
    hs_graph_value(t->graph, "gradient", HS_DOUBLE, HS_SCALAR, &t->gradient);
    hs_graph_op(t->graph, .name = "train", .run = train, .user = t, .writes = HS_NAMES("loss", "wild", "gradient"));
    hs_graph_op(t->graph, .name = "update", .run = update, .user = t, .writes = HS_NAMES("weights"), .advances_step = true);
    hs_graph_op(t->graph, .name = "summary", .run = summarize, .user = t, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
}

/* The sink of the hook scalars. */

static hs_code write_row(void *self, const hs_scalar_row *row, hs_error *err)
{
    trained *t = self;
    (void)err;
    t->rows++;
    t->row_accuracy = row->scalars[1].value;
    return HS_OK;
}

static hs_code save_rows(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((trained *)self)->rows, sizeof(int64_t), err);
}

static hs_code load_rows(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((trained *)self)->rows, sizeof(int64_t), err);
}

static hs_code feed_nothing(void *user, const hs_feed **feeds, hs_error *err)
{
    (void)user, (void)err;
    *feeds = NULL;
    return HS_OK;
}

static const char *in(const char *directory, const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", directory, name);
    return path;
}

/* Makes the hooks, which write to `directory`, and a {0} behind them. */
static void make_hooks(trained *t, const char *directory, hs_hook hooks[MOST_HOOKS])
{
    static const hs_scalar_sink_ops sink =
        HS_INIT(hs_scalar_sink_ops, .name = "rows", .write = write_row, .save_state = save_rows, .load_state = load_rows);
    const hs_knob knob = {.name = "knob", .value = &t->knob};
    char path[512];
    size_t n = 0;
    hooks[n++] = hs_watchdog(.floor_secs = t->floor_secs);
    hooks[n++] = hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_SKIP_STEP, .update_op = "update",
                                 .max_skips = 1);
    hooks[n++] =
        hs_finite_guard(.losses = HS_NAMES("wild"), .spike_window = 2, .policy = HS_GUARD_ROLLBACK, .max_rollbacks = 1);
    hooks[n++] = hs_finite_guard(.parameters = HS_NAMES("weights"), .every_n_steps = 2);
    hooks[n++] = hs_nan_tensor(.tensor = "loss", .every_n_steps = 2);
    hooks[n++] = hs_schedule(.value = "rate", .from = 1);
    hooks[n++] = hs_moving_average(.variables = HS_NAMES("weights"), .decay = 0.5);
    hooks[n++] = hs_evaluation(.metrics = HS_NAMES("loss"), .every_n_steps = 2);
    hooks[n++] = hs_early_stopping(.tensor = "loss", .patience = t->patience[0] ? t->patience[0] : 100);
    hooks[n++] = hs_early_stopping(.metric = "eval/loss", .patience = t->patience[1] ? t->patience[1] : 100);
    hooks[n++] = hs_stop_at_step(.last_step = 100);
    hooks[n++] = hs_stop_after(.total_secs = t->total_secs > 0 ? t->total_secs : 1000);
    hooks[n++] = hs_control(.path = in(directory, "control", path), .knobs = HS_KNOBS(knob));
    hooks[n++] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 4);
    hooks[n++] = hs_step_counter(.every_n_steps = 4);
    hooks[n++] =
        hs_scalars(.tensors = HS_NAMES("loss"), .metrics = HS_NAMES("accuracy"), .every_n_steps = 4, .sink = {&sink, t});
    hooks[n++] = hs_metrics_file(.path = in(directory, "rows.csv", path), .tensors = HS_NAMES("loss"),
                                 .metrics = HS_NAMES("accuracy"), .every_n_steps = 4, .no_wall_time = true);
    hooks[n++] = hs_progress(.descriptor = t->descriptor, .every_n_steps = 4);
    hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_dir = directory, .every_n_steps = 4);
    hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_dir = directory, .every_n_secs = 5);
    hooks[n++] = hs_profiler(.trace_dir = directory, .every_n_steps = 4);
    hooks[n++] = hs_replica_check(.every_n_steps = 4);
    hooks[n++] = hs_feed_fn(.feeds = feed_nothing);
    hooks[n++] = hs_final_ops(.names = HS_NAMES("summary"));
    hooks[n++] = hs_global_step_waiter(.wait_until_step = 0);
    hooks[n++] = hs_run_status(.status_dir = directory);
    hooks[n++] = hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = 2, .no_graph_def = true);
    hooks[n] = (hs_hook){.ops = NULL};
}

#endif
