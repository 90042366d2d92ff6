/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/shop.h"

#include <math.h>

int shop_setup(void **state)
{
    shop *h = calloc(1, sizeof *h);
    void *s;
    assert_non_null(h);
    stage_setup(&s);
    h->s = s;
    h->env = &h->s->t.env;
    h->batches = 3;
    h->save_steps = 5;
    *state = h;
    return 0;
}

int shop_teardown(void **state)
{
    shop *h = *state;
    void *s = h->s;
    int left = h->open;
    hs_estimator_free(h->e);
    free(h);
    stage_teardown(&s);
    assert_int_equal(left, 0);
    return 0;
}

/* The ops. */

static hs_code next_batch(void *self, hs_op *op, hs_error *err)
{
    shop *h = self;
    if (h->batches && h->next > h->batches)
        return hs_error_set(err, HS_OUT_OF_RANGE, "no more");
    *(double *)hs_op_output(op, 0)->data = (double)h->next++;
    return HS_OK;
}

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    shop *h = self;
    double *w = hs_op_written(op, 0)->data;
    (void)err;
    *w += 1;
    h->loss = *w == h->diverges ? (double)NAN : 1 / *w;
    return HS_OK;
}

static hs_code add(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(double *)hs_op_written(op, 0)->data += hs_tensor_number(hs_op_input(op, 0), 0);
    return HS_OK;
}

static hs_code pair(void *self, hs_op *op, hs_error *err)
{
    double batch = hs_tensor_number(hs_op_input(op, 0), 0), *rows = hs_op_output(op, 0)->data;
    (void)self, (void)err;
    rows[0] = batch;
    rows[1] = batch * 10;
    return HS_OK;
}

static hs_code copy(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(double *)hs_op_output(op, 0)->data = hs_tensor_number(hs_op_input(op, 0), 0);
    return HS_OK;
}

hs_graph *shop_graph(shop *h, hs_mode mode)
{
    hs_graph *g = hs_graph_new(h->env);
    hs_graph_add_variable(g, HS_VARIABLE_DEF(.name = "w", .dtype = HS_DOUBLE));
    hs_graph_global_step(g, NULL, NULL);
    if (mode == HS_MODE_TRAIN) {
        hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &h->loss);
        hs_graph_op(g, .name = "train", .run = train, .user = h, .inputs = HS_NAMES("next"),
                    .writes = HS_NAMES("w", "loss"), .advances_step = true);
        return g;
    }
    hs_graph_add_variable(g, HS_VARIABLE_DEF(.name = "sum", .dtype = HS_DOUBLE, .flags = HS_VARIABLE_LOCAL));
    hs_graph_op(g, .name = "count", .run = add, .inputs = HS_NAMES("next"), .writes = HS_NAMES("sum"));
    hs_graph_op(g, .name = "loss", .run = copy, .inputs = HS_NAMES("next"), .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    hs_graph_op(g, .name = "pair", .run = pair, .inputs = HS_NAMES("next"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(2)}));
    return g;
}

/* Graphs in use are nested, so the last one is released first. */
static void release(void *self)
{
    shop *h = self;
    hs_graph_free(h->graphs[--h->open]);
    h->released++;
}

static hs_code model(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err)
{
    static const char *const metrics[] = {"sum", "w", NULL}, *const predictions[] = {"pair", "w", NULL};
    shop *h = user;
    hs_graph *g = shop_graph(h, mode);
    if (!g)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no graph");
    h->graphs[h->open++] = g;
    spec->backend = hs_graph_backend(g);
    spec->train_op = "train";
    spec->loss = h->no_loss ? NULL : "loss";
    spec->eval_op = "count";
    spec->metrics = metrics;
    spec->predictions = h->predictions ? h->predictions : predictions;
    spec->hooks = h->hooks;
    spec->release = release;
    spec->self = h;
    return h->model_fails;
}

static hs_code input(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err)
{
    shop *h = user;
    (void)hook, (void)err;
    h->next = 1;
    if (mode == HS_MODE_TRAIN)
        h->next = INT64_MIN; /* endless */
    return hs_graph_op(hs_graph_of(backend), .name = "next", .run = next_batch, .user = h,
                       .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
}

hs_input shop_input(shop *h)
{
    return (hs_input){input, h};
}

void shop_open(shop *h)
{
    h->e = hs_estimator_new(HS_ESTIMATOR_OPTIONS(.model_fn = model, .user = h, .checkpoint_dir = h->s->directory,
                                                 .save_checkpoint_steps = h->save_steps, .max_to_keep = h->max_to_keep,
                                                 .env = h->env),
                            &h->s->err);
    if (!h->e)
        fail_msg("%s", h->s->err.message);
}

hs_outcome shop_train(shop *h, hs_estimator_train_options options)
{
    if (!h->e)
        shop_open(h);
    options.input = shop_input(h);
    h->s->outcome = hs_estimator_train(h->e, &options, &h->s->err);
    return h->s->outcome;
}

void shop_train_to(shop *h, int64_t step)
{
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = step));
    assert_ok(h->s->outcome.error.code, &h->s->err);
    assert_int_equal(h->s->outcome.step, step);
}

static hs_code ignore(void *user, int64_t index, const hs_tensor *values, size_t n, hs_error *err)
{
    (void)user, (void)index, (void)values, (void)n, (void)err;
    return HS_OK;
}

hs_code shop_try(shop *h, const hs_env *env, hs_error *err)
{
    char *directory = strdup(test_path(h->s->directory, "tried"));
    const hs_estimator_options options =
        HS_INIT(hs_estimator_options, .model_fn = model, .user = h, .checkpoint_dir = directory, .save_checkpoint_steps = 5,
                .max_to_keep = 2, .env = env);
    h->env = env;
    hs_estimator *e = hs_estimator_new(&options, err);
    hs_estimator_evaluate_options evaluate = HS_INIT(hs_estimator_evaluate_options, .input = shop_input(h), .steps = 1);
    if (e) {
        hs_estimator_train_and_evaluate(
            e, HS_ESTIMATOR_TRAIN_OPTIONS(.input = shop_input(h), .max_steps = 2),
            HS_ESTIMATOR_EVAL_SPEC(.evaluate = &evaluate, .start_delay_secs = HS_NEVER, .throttle_secs = HS_NEVER), err);
        if (!err->code)
            hs_estimator_predict(
                e, HS_ESTIMATOR_PREDICT_OPTIONS(.input = shop_input(h), .keys = HS_NAMES("pair"), .predicted = ignore),
                err);
    }
    hs_estimator_free(e);
    test_remove_directory(directory);
    h->env = &h->s->t.env;
    return err->code;
}

hs_evaluation_result *shop_evaluate(shop *h, hs_estimator_evaluate_options options)
{
    if (!h->e)
        shop_open(h);
    options.input = shop_input(h);
    return hs_estimator_evaluate(h->e, &options, &h->s->err);
}

hs_code shop_evaluated(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    shop *h = user;
    (void)err;
    h->steps[h->evaluations++] = hs_evaluation_result_step(metrics);
    return HS_OK;
}

static hs_code steal(void *self, hs_backend backend, hs_error *err)
{
    thief *t = self;
    char path[1024];
    (void)backend;
    if (t->trains)
        shop_train_to(t->trains, 12);
    t->trains = NULL;
    snprintf(path, sizeof path, "%s/model.ckpt-%lld", t->directory, (long long)t->step);
    return hs_checkpoint_remove(NULL, path, err);
}

hs_hook thief_hook(thief *t)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "thief", .begin = steal);
    return (hs_hook){.ops = &ops, .self = t};
}
