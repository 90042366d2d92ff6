/* SPDX-License-Identifier: Apache-2.0 */
/* A custom hook: stops the training if the moving average of the loss has not improved for `patience` runs. Each checkpoint
 * contains the hook's state. A restarted program continues with the same average and the same count. */
#include <hooksess/hooksess.h>

#include <math.h>
#include <stdio.h>

/* The hook. */

typedef struct {
    double decay;  /* of the average, below 1; 0.9 averages over about ten runs */
    long patience; /* stops after this number of consecutive runs without a better average */
    struct {
        double average; /* NAN: no value yet */
        double best;
        long bad; /* consecutive runs without a better average */
    } seen;       /* saved in each checkpoint */
} early_stop;

/* If the restored state has reached its patience, the restarted training is already complete. */
static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    const early_stop *h = self;
    (void)session, (void)coordinator, (void)err;
    return h->seen.bad >= h->patience ? HS_STOP : HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    early_stop *h = self;
    double loss = hs_run_values_number(values, 0), average = h->seen.average;
    (void)err;
    h->seen.average = isnan(average) ? loss : h->decay * average + (1 - h->decay) * loss;
    if (h->seen.average < h->seen.best)
        h->seen.best = h->seen.average, h->seen.bad = 0;
    else if (++h->seen.bad >= h->patience)
        hs_run_context_request_stop(run);
    return HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    early_stop *h = self;
    return hs_state_writer_write(out, &h->seen, sizeof h->seen, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    early_stop *h = self;
    return hs_state_reader_read(in, &h->seen, sizeof h->seen, err);
}

static const hs_hook_ops early_stop_ops =
    HS_INIT(hs_hook_ops, .name = "early_stop", .fetches = HS_NAMES("loss"), .after_create_session = after_create_session,
            .after_run = after_run, .save_state = save_state, .load_state = load_state);

/* A program that uses the hook: gradient descent on (x - 3)^2. custom_hook [DIRECTORY] */

typedef struct {
    double x, loss;
} model;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    model *m = self;
    (void)op, (void)err;
    m->loss = (m->x - 3) * (m->x - 3);
    m->x -= 0.05 * 2 * (m->x - 3);
    return HS_OK;
}

int main(int argc, char **argv)
{
    model m = {0, 0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "x", HS_DOUBLE, HS_SCALAR, &m.x);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &m.loss);
    hs_graph_op(g, .name = "train", .run = train, .user = &m, .writes = HS_NAMES("x", "loss"), .advances_step = true);

    early_stop h = {.decay = 0.9, .patience = 5, .seen = {.average = NAN, .best = INFINITY}};
    hs_hook hook = {.ops = &early_stop_ops, .self = &h};
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argc > 1 ? argv[1] : NULL,
                            .hooks = HS_HOOKS(hs_nan_tensor(.tensor = "loss"), hook, hs_stop_at_step(.last_step = 100000))),
        NULL);
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "train", NULL) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(s, NULL);
    if (hs_outcome_exit_code(&outcome) == 0)
        printf("%s at step %lld, x = %f\n", hs_reason_name(outcome.reason), (long long)outcome.step, m.x);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
