/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the data, makes the model, computes one step, and tests the model. The graph of ops around it is in graph.c. */
#include "trainer.h"

#include <string.h>

enum { MAX_PIXELS = 1 << 16 };

hs_code trainer_load(struct trainer *trainer, const char *directory, hs_error *err)
{
    hs_code code = dataset_load(&trainer->train, directory, "train", err);
    if (!code)
        code = dataset_load(&trainer->test, directory, "t10k", err);
    if (!code && trainer->train.pixels != trainer->test.pixels)
        code =
            hs_error_set(err, HS_INVALID_ARGUMENT, "%s: the images to train with have %zu pixels, those to test with %zu",
                         directory, trainer->train.pixels, trainer->test.pixels);
    if (!code && trainer->train.pixels > MAX_PIXELS)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "%s: images of %zu pixels are too large", directory,
                            trainer->train.pixels);
    return code;
}

hs_code trainer_model(struct mlp *model, size_t pixels, const struct options *options, hs_error *err)
{
    int widths[MAX_LAYERS + 1], n = 0;
    int rows = options->batch_size > TEST_ROWS ? (int)options->batch_size : TEST_ROWS;
    widths[n++] = (int)pixels;
    for (int i = 0; i < options->n_hidden; i++)
        widths[n++] = options->hidden[i];
    widths[n] = CLASSES;
    return mlp_init(model, widths, n, rows, (uint64_t)options->seed, err);
}

hs_code trainer_init(struct trainer *trainer, const struct options *options, hs_error *err)
{
    uint64_t seed = (uint64_t)options->seed;
    hs_code code;
    if ((code = trainer_model(&trainer->model, trainer->train.pixels, options, err)) ||
        (code = input_init(&trainer->input, &trainer->train, (size_t)options->batch_size, seed, err)) ||
        (code = report_init(&trainer->report, &trainer->test, &trainer->result, err)))
        return code;
    return optimizer_init(&trainer->optimizer, options->optimizer, options->learning_rate, trainer->model.n_parameters,
                          err);
}

void trainer_free(struct trainer *trainer)
{
    report_free(&trainer->report);
    optimizer_free(&trainer->optimizer);
    input_free(&trainer->input);
    mlp_free(&trainer->model);
    dataset_free(&trainer->train);
    dataset_free(&trainer->test);
}

void trainer_compute(struct trainer *trainer, const float *pixels, const unsigned char *labels, int rows)
{
    struct mlp *model = &trainer->model;
    if (rows == 0) {
        memset(model->gradients, 0, model->n_parameters * sizeof *model->gradients);
        trainer->loss = 0;
        return;
    }
    mlp_forward(model, pixels, rows);
    trainer->loss = mlp_backward(model, labels, rows);
}

void trainer_learn(struct trainer *trainer, const float *pixels, const unsigned char *labels, int rows, uint64_t epoch,
                   int64_t step)
{
    struct mlp *model = &trainer->model;
    trainer_compute(trainer, pixels, labels, rows);
    optimizer_update(&trainer->optimizer, model->parameters, model->gradients, step, epoch);
}

int best_class(const float *scores)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

void trainer_test(struct trainer *trainer, struct test_result *result)
{
    const struct dataset *set = &trainer->test;
    test_result_clear(result);
    for (size_t at = 0; at < set->n; at += TEST_ROWS) {
        size_t rows = set->n - at < TEST_ROWS ? set->n - at : TEST_ROWS;
        pixels_to_floats(trainer->model.pixels, set->images + at * set->pixels, rows * set->pixels);
        const float *scores = mlp_forward(&trainer->model, trainer->model.pixels, (int)rows);
        for (size_t i = 0; i < rows; i++)
            test_result_add(result, at + i, set->labels[at + i], best_class(scores + i * CLASSES));
    }
}
