/* SPDX-License-Identifier: Apache-2.0 */
/* lines DIRECTORY: programs in the lines that C11 and C++20 share, which lines.cpp compiles as C++. */
#include <hooksess/hooksess.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                        \
    do                                                                                                                     \
        if (!(what)) {                                                                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                     \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    while (0)

typedef struct {
    float weights[10], loss, learning_rate;
    uint64_t position; /* of the reader */
} model;

static void make_step(model *m)
{
    m->position++;
    m->loss = 0;
    for (int i = 0; i < 10; i++) {
        m->weights[i] += m->learning_rate * (1 - m->weights[i]);
        m->loss += fabsf(1 - m->weights[i]);
    }
}

/* A sink of the program's own. */

static hs_code note_row(void *self, const hs_scalar_row *row, hs_error *err)
{
    (void)err;
    for (const hs_scalar *scalar = row->scalars; scalar->name; scalar++)
        if (scalar->known)
            *(double *)self = scalar->value;
    return HS_OK;
}

static const hs_scalar_sink_ops noting = HS_INIT(hs_scalar_sink_ops, .name = "noting", .write = note_row);

/* A loop that stays the program's, until the given step; how it ended. */
static int own_loop(const char *directory, int64_t last_step, model *m)
{
    int64_t step = 0;
    double noted = 0;
    memset(m, 0, sizeof *m);
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(2, 5), m->weights);
    hs_graph_variable(g, "reader", HS_UINT64, HS_SCALAR, &m->position);
    hs_graph_global_step(g, NULL, &step);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    hs_graph_value(g, "learning_rate", HS_FLOAT, HS_SCALAR, &m->learning_rate);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_steps = 2, .log_step_count_steps = HS_NEVER,
                            .signals = true, .scalars = HS_NAMES("loss"),
                            .hooks =
                                HS_HOOKS(hs_stop_at_step(.last_step = last_step), hs_nan_tensor(.tensor = "loss"),
                                         hs_finite_guard(.losses = HS_NAMES("loss"), .policy = HS_GUARD_WARN),
                                         hs_moving_average(.variables = HS_NAMES("weights"), .decay = 0.9),
                                         hs_step_counter(.summary_dir = directory, .units_per_step = 5, .unit = "points"),
                                         hs_schedule(.value = "learning_rate", .warmup_steps = 2, .decay = HS_DECAY_COSINE,
                                                     .from = 0.1, .to = 0.01, .decay_steps = 4),
                                         hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 1,
                                                    .sink = {.ops = &noting, .self = &noted}),
                                         hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 100))),
        NULL);
    while (hs_step_begin(s)) {
        make_step(m);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    CHECK(outcome.step == last_step && noted == (double)m->loss);
    return hs_outcome_exit_code(&outcome);
}

/* Memory that the program allocates in its first step, and swaps. */

typedef struct {
    float *u, *next, *moments, *located;
    float best;
    uint64_t rng;
} moving_model;

static hs_code locate(void *self, size_t bytes, bool allocate, void **data, hs_error *err)
{
    moving_model *m = (moving_model *)self;
    (void)err;
    if (!m->located && allocate)
        m->located = (float *)malloc(bytes);
    *data = m->located;
    return HS_OK;
}

static void make_moving_step(moving_model *m)
{
    if (!m->moments)
        m->moments = (float *)calloc(4, sizeof *m->moments);
    if (!m->located)
        m->located = (float *)calloc(4, sizeof *m->located);
    for (int i = 0; i < 4; i++) {
        m->moments[i] = 0.5f * m->moments[i] + m->located[i];
        m->located[i] += 1;
        m->next[i] = m->u[i] + m->moments[i] + (float)(m->rng++ % 3);
        m->best = fminf(m->best, -m->next[i]);
    }
    float *before = m->u;
    m->u = m->next;
    m->next = before;
}

static void moving_loop(const char *directory, int64_t last_step, moving_model *m)
{
    memset(m, 0, sizeof *m);
    m->u = (float *)calloc(4, sizeof *m->u);
    m->next = (float *)calloc(4, sizeof *m->next);
    m->best = INFINITY;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable_at(g, "u", HS_FLOAT, HS_SHAPE(4), &m->u);
    hs_graph_add_variable(g, HS_VARIABLE_DEF(.name = "moments", .dtype = HS_FLOAT, .shape = HS_SHAPE(4),
                                             HS_DATA_AT(&m->moments), .memory = NULL));
    hs_graph_add_variable(
        g, HS_VARIABLE_DEF(.name = "best", .dtype = HS_FLOAT, .shape = HS_SCALAR, .data = &m->best, .nonfinite = true));
    hs_graph_add_variable(
        g, HS_VARIABLE_DEF(.name = "located", .dtype = HS_FLOAT, .shape = HS_SHAPE(4), .locate = locate, .user = m));
    hs_graph_bytes(g, "rng", &m->rng, sizeof m->rng);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last_step))), NULL);
    while (hs_step_begin(s)) {
        make_moving_step(m);
        hs_step_end(s);
    }
    CHECK(hs_session_close(s, NULL).step == last_step);
    hs_graph_free(g);
}

static void moving_memory(const char *directory)
{
    char whole[4096], parts[4096];
    moving_model one, first, second;
    snprintf(whole, sizeof whole, "%s/moving_whole", directory);
    snprintf(parts, sizeof parts, "%s/moving_parts", directory);
    moving_loop(whole, 6, &one);
    moving_loop(parts, 3, &first);
    moving_loop(parts, 6, &second);
    CHECK(memcmp(one.u, second.u, 4 * sizeof *one.u) == 0);
    CHECK(memcmp(one.moments, second.moments, 4 * sizeof *one.u) == 0);
    CHECK(memcmp(one.located, second.located, 4 * sizeof *one.u) == 0);
    CHECK(one.best == second.best && one.rng == second.rng);
    moving_model *const all[] = {&one, &first, &second};
    for (int i = 0; i < 3; i++) {
        free(all[i]->u);
        free(all[i]->next);
        free(all[i]->moments);
        free(all[i]->located);
    }
}

/* The step as an op, with a hook of the program's own. */

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    make_step((model *)self);
    return HS_OK;
}

typedef struct {
    double best;
    int patience, bad;
} early_stop;

static const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)err;
    *args = &wanted;
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    early_stop *h = (early_stop *)self;
    double loss = hs_run_values_number(values, 0);
    (void)err;
    h->bad = loss < h->best * 0.99 ? 0 : h->bad + 1;
    h->best = loss < h->best ? loss : h->best;
    if (h->bad == h->patience)
        hs_run_context_request_stop(run);
    return HS_OK;
}

static const hs_hook_ops early_stop_ops =
    HS_INIT(hs_hook_ops, .name = "early_stop", .before_run = before_run, .after_run = after_run);

static void stopped_by_a_hook(void)
{
    hs_error err;
    model m;
    memset(&m, 0, sizeof m);
    m.learning_rate = 0.1f;
    early_stop h = {.best = INFINITY, .patience = 1, .bad = 0};
    hs_hook hook = HS_HOOK(.ops = &early_stop_ops, .self = &h);
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(10), m.weights);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m.loss);
    hs_graph_global_step(g, NULL, NULL);
    hs_graph_op(g, .name = "train", .run = train, .user = &m, .writes = HS_NAMES("weights", "loss"), .advances_step = true);
    hs_session *s = hs_session_open(hs_graph_backend(g), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "train", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(s, &err);
    hs_graph_free(g);
    CHECK(outcome.reason == HS_REASON_STOPPED && strcmp(outcome.hook, "early_stop") == 0);
}

/* Feeds, and nested fetches. */

static hs_code add(void *self, hs_op *op, hs_error *err)
{
    const float *x = (const float *)hs_op_input(op, 0)->data;
    const int64_t *y = (const int64_t *)hs_op_input(op, 1)->data;
    float *sum = (float *)hs_op_output(op, 0)->data;
    (void)self, (void)err;
    *sum = x[0] + x[1] + (float)*y;
    return HS_OK;
}

static void feeds_and_fetches(void)
{
    hs_error err;
    const float images[2] = {1, 2};
    const int64_t label = 4;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_placeholder(g, "images", HS_FLOAT, HS_SHAPE(1, 2));
    hs_graph_placeholder(g, "labels", HS_INT64, HS_SCALAR);
    hs_graph_op(g, .name = "sum", .run = add, .inputs = HS_NAMES("images", "labels"),
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}));
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, &err);
    const hs_run_values *v;
    hs_code code =
        hs_session_run_args(s,
                            HS_RUN_ARGS(.fetches = HS_DICT({"all", HS_LIST(HS_LEAF("sum"), HS_LEAF("labels"))},
                                                           {"metrics", HS_DICT({"sum", HS_LEAF("sum:0")})}),
                                        .feeds = HS_FEEDS({"images", hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 2), images)},
                                                          {"labels", hs_tensor_of(HS_INT64, HS_SCALAR, &label)})),
                            &v, &err);
    CHECK(code == HS_OK);
    CHECK(hs_run_values_number_at(v, "metrics/sum") == 7);
    hs_session_close(s, &err);
    hs_graph_free(g);
}

int main(int argc, char **argv)
{
    model whole, resumed;
    char directory[1024];
    if (argc != 2)
        return 2;
    snprintf(directory, sizeof directory, "%s/whole", argv[1]);
    CHECK(own_loop(directory, 6, &whole) == 0);
    snprintf(directory, sizeof directory, "%s/resumed", argv[1]);
    CHECK(own_loop(directory, 3, &resumed) == 0);
    CHECK(own_loop(directory, 6, &resumed) == 0);
    CHECK(memcmp(whole.weights, resumed.weights, sizeof whole.weights) == 0 && whole.position == resumed.position);
    moving_memory(argv[1]);
    stopped_by_a_hook();
    feeds_and_fetches();
    return 0;
}
