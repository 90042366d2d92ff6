/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer.h"

#include <stdlib.h>

enum { MOST_PIXELS = 1 << 16 };

hs_code trainer_load(struct trainer *trainer, const char *directory, hs_error *err)
{
    hs_code code = dataset_load(&trainer->train, directory, "train", err);
    if (!code)
        code = dataset_load(&trainer->test, directory, "t10k", err);
    if (!code && trainer->train.pixels != trainer->test.pixels)
        code =
            hs_error_set(err, HS_INVALID_ARGUMENT, "%s: the images to train with have %zu pixels, those to test with %zu",
                         directory, trainer->train.pixels, trainer->test.pixels);
    if (!code && trainer->train.pixels > MOST_PIXELS)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "%s: images of %zu pixels are too large", directory,
                            trainer->train.pixels);
    return code;
}

hs_code trainer_model(struct mlp *model, size_t pixels, const struct options *options, hs_error *err)
{
    int widths[MOST_LAYERS + 1], n = 0;
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
        (code = report_init(&trainer->report, &trainer->test, &trainer->tested, err)))
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

int best_class(const float *scores)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

void trainer_test(struct trainer *trainer, struct tested *tested)
{
    const struct dataset *set = &trainer->test;
    tested_clear(tested);
    for (size_t at = 0; at < set->n; at += TEST_ROWS) {
        size_t rows = set->n - at < TEST_ROWS ? set->n - at : TEST_ROWS;
        pixels_to_floats(trainer->model.pixels, set->images + at * set->pixels, rows * set->pixels);
        const float *scores = mlp_forward(&trainer->model, trainer->model.pixels, (int)rows);
        for (size_t i = 0; i < rows; i++)
            tested_add(tested, at + i, set->labels[at + i], best_class(scores + i * CLASSES));
    }
}
