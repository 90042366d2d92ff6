/* SPDX-License-Identifier: Apache-2.0 */
#include "tester.h"

#include <math.h>
#include <string.h>

const char *const tester_metrics[] = {ACCURACY_TAG, LOSS_TAG, NULL};
const char *const tester_predictions[] = {"classify:0", "classify:1", "classify:2", NULL};

/* The elements of the variable "counts". */
enum { SEEN, RIGHT, LOSS, COUNTS };

/* Returns the cross-entropy of one row: -log of the softmax of a class. */
static double cross_entropy(const float *scores, int class)
{
    double sum = 0;
    for (int i = 0; i < CLASSES; i++)
        sum += exp((double)scores[i] - (double)scores[class]);
    return log(sum);
}

/* Returns the size of the next batch; 0, with an error, after the last one. */
static size_t batch_rows(size_t left, hs_error *err)
{
    if (!left)
        hs_error_set(err, HS_OUT_OF_RANGE, "all images are done");
    return left < TEST_ROWS ? left : TEST_ROWS;
}

static hs_code count(void *self, hs_op *op, hs_error *err)
{
    struct tester *tester = self;
    const struct dataset *test = &tester->test;
    double *counts = hs_op_written(op, 0)->data;
    size_t at = (size_t)counts[SEEN], rows = batch_rows(test->n - at, err);
    if (!rows)
        return HS_OUT_OF_RANGE;
    pixels_to_floats(tester->model.pixels, test->images + at * test->pixels, rows * test->pixels);
    const float *scores = mlp_forward(&tester->model, tester->model.pixels, (int)rows);
    for (size_t i = 0; i < rows; i++, scores += CLASSES) {
        counts[RIGHT] += best_class(scores) == test->labels[at + i];
        counts[LOSS] += cross_entropy(scores, test->labels[at + i]);
    }
    counts[SEEN] += (double)rows;
    return HS_OK;
}

static hs_code mean(hs_op *op, int sum)
{
    const double *counts = hs_op_input(op, 0)->data;
    *(double *)hs_op_output(op, 0)->data = counts[sum] / counts[SEEN];
    return HS_OK;
}

static hs_code accuracy(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    return mean(op, RIGHT);
}

static hs_code loss(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    return mean(op, LOSS);
}

static hs_code set_outputs(struct tester *tester, hs_op *op, size_t at, int64_t rows, hs_error *err)
{
    const hs_tensor numbers = hs_tensor_of(HS_INT64, HS_SHAPE(rows), tester->images + at),
                    classes = hs_tensor_of(HS_INT64, HS_SHAPE(rows), tester->classes),
                    probabilities = hs_tensor_of(HS_FLOAT, HS_SHAPE(rows), tester->probabilities);
    hs_code code = hs_op_set_output(op, 0, &numbers, err);
    if (!code)
        code = hs_op_set_output(op, 1, &classes, err);
    return code ? code : hs_op_set_output(op, 2, &probabilities, err);
}

static hs_code classify(void *self, hs_op *op, hs_error *err)
{
    struct tester *tester = self;
    const struct dataset *test = &tester->test;
    double *counts = hs_op_written(op, 0)->data;
    size_t at = (size_t)counts[SEEN], rows = batch_rows(tester->n_images - at, err);
    if (!rows)
        return HS_OUT_OF_RANGE;
    for (size_t i = 0; i < rows; i++)
        pixels_to_floats(tester->model.pixels + i * test->pixels,
                         test->images + (size_t)tester->images[at + i] * test->pixels, test->pixels);
    const float *scores = mlp_forward(&tester->model, tester->model.pixels, (int)rows);
    for (size_t i = 0; i < rows; i++, scores += CLASSES) {
        tester->classes[i] = best_class(scores);
        tester->probabilities[i] = (float)exp(-cross_entropy(scores, best_class(scores)));
    }
    counts[SEEN] += (double)rows;
    return set_outputs(tester, op, at, (int64_t)rows, err);
}

static hs_graph *make_graph(struct tester *tester, const hs_env *env)
{
    hs_graph *graph = hs_graph_new(env);
    trainer_add_parameters(graph, &tester->model);
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "counts", .dtype = HS_DOUBLE, .shape = HS_SHAPE(COUNTS),
                                                 .flags = HS_VARIABLE_LOCAL));
    hs_graph_op(graph, .name = "count", .run = count, .user = tester, .writes = HS_NAMES("counts"));
    hs_graph_op(graph, .name = ACCURACY_TAG, .run = accuracy, .inputs = HS_NAMES("counts"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    hs_graph_op(graph, .name = LOSS_TAG, .run = loss, .inputs = HS_NAMES("counts"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    hs_graph_op(graph, .name = "classify", .run = classify, .user = tester, .writes = HS_NAMES("counts"),
                .outputs =
                    HS_OUTPUTS({.dtype = HS_INT64, .shape = HS_SHAPE(-1)}, {.dtype = HS_INT64, .shape = HS_SHAPE(-1)},
                               {.dtype = HS_FLOAT, .shape = HS_SHAPE(-1)}));
    return graph;
}

hs_code tester_init(struct tester *tester, const struct options *options, const hs_env *env, hs_error *err)
{
    hs_code code = dataset_load(&tester->test, options->data, "t10k", err);
    if (!code)
        code = trainer_model(&tester->model, tester->test.pixels, options, err);
    if (!code && !(tester->graph = make_graph(tester, env)))
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the graph");
    return code;
}

void tester_free(struct tester *tester)
{
    hs_graph_free(tester->graph);
    mlp_free(&tester->model);
    dataset_free(&tester->test);
}
