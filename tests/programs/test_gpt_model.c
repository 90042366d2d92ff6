/* SPDX-License-Identifier: Apache-2.0 */
/* The mathematics of examples/gpt: its gradients are those of finite differences. */
#include "support/test.h"

#include "layers.h"
#include "model.h"
#include "optimizer.h"
#include "rng.h"
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, SEQUENCE = 8, ROWS = BATCH * SEQUENCE };

static const int32_t sizes[N_SIZES] = {[CONTEXT] = SEQUENCE, [LAYERS] = 2, [HEADS] = 2, [WIDTH] = 20};
static int32_t tokens[ROWS], targets[ROWS];

/* Makes a model whose parameters all differ from 0, so that each has an effect. */
static void init(struct gpt *model, int threads, float dropout)
{
    struct rng rng;
    assert_int_equal(gpt_init(model, sizes, BATCH, threads, 1, NULL), HS_OK);
    model->dropout = dropout;
    rng_seed(&rng, 1, 9);
    for (size_t i = 0; i < model->n_parameters; i++)
        model->parameters[i] += 0.2f * rng_symmetric(&rng);
    for (int i = 0; i < ROWS; i++) {
        tokens[i] = (int32_t)rng_below(&rng, VOCABULARY);
        targets[i] = (int32_t)rng_below(&rng, VOCABULARY);
    }
}

static double loss(struct gpt *model, uint64_t dropout_key)
{
    gpt_forward(model, tokens, BATCH, 0, SEQUENCE, dropout_key);
    return gpt_loss(model, targets, 1);
}

/* Moves all numbers of a tensor by +-h in a random direction, and compares the change of the loss with the gradient. */
static void check_direction(struct gpt *model, const struct gpt_tensor *tensor, uint64_t dropout_key, struct rng *rng)
{
    enum { MOST = 4096 * 4 };
    static float before[MOST], direction[MOST];
    size_t n = (size_t)(tensor->rows ? tensor->rows : 1) * (size_t)tensor->columns;
    float *parameters = model->parameters + tensor->at;
    const float h = 2e-3f;
    double by_gradient = 0, norm = 0, change[2];
    assert_true(n <= MOST);
    memcpy(before, parameters, n * sizeof *before);
    for (size_t i = 0; i < n; i++) {
        direction[i] = rng_next(rng) >> 63 ? 1 : -1;
        by_gradient += (double)(direction[i] * model->gradients[tensor->at + i]);
        norm += pow((double)model->gradients[tensor->at + i], 2);
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            parameters[i] = before[i] + (side ? h : -h) * direction[i];
        change[side] = loss(model, dropout_key);
    }
    memcpy(parameters, before, n * sizeof *before);
    double by_difference = (change[1] - change[0]) / (2 * (double)h), error = fabs(by_difference - by_gradient);
    assert_true(norm > 0);
    if (error > 0.005 * sqrt(norm))
        fail_msg("%s: finite differences give %g, the gradient %g", tensor->name, by_difference, by_gradient);
}

static void check_gradients(float dropout)
{
    const uint64_t dropout_key = 77;
    struct gpt model;
    struct rng rng;
    init(&model, 2, dropout);
    loss(&model, dropout_key);
    gpt_backward(&model);
    rng_seed(&rng, 2, 9);
    for (int i = 0; i < model.n_tensors; i++)
        for (int k = 0; k < 3; k++)
            check_direction(&model, &model.tensors[i], dropout_key, &rng);
    gpt_free(&model);
}

static void gradients_are_those_of_finite_differences(void **state)
{
    (void)state;
    check_gradients(0);
}

static void gradients_with_dropout_are_those_of_finite_differences(void **state)
{
    (void)state;
    check_gradients(0.3f);
}

static void gradients_of_two_passes_add_up(void **state)
{
    (void)state;
    struct gpt model;
    init(&model, 2, 0);
    loss(&model, 0);
    gpt_backward(&model);
    float *once = malloc(model.n_parameters * sizeof *once);
    memcpy(once, model.gradients, model.n_parameters * sizeof *once);
    loss(&model, 0);
    gpt_backward(&model);
    for (size_t i = 0; i < model.n_parameters; i++)
        assert_true(fabsf(model.gradients[i] - 2 * once[i]) <= 1e-5f * (1 + fabsf(once[i])));
    free(once);
    gpt_free(&model);
}

static void gelu_is_that_of_gpt_2(void **state)
{
    (void)state;
    enum { N = 2000 };
    static float in[N], out[N];
    for (int i = 0; i < N; i++)
        in[i] = (float)(i - N / 2) / 80;
    gelu(out, in, N);
    for (int i = 0; i < N; i++) {
        double x = (double)in[i], right = x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
        assert_true(fabs((double)out[i] - right) < 1e-6);
    }
}

static void a_softmax_has_the_sum_one_and_keeps_nan(void **state)
{
    (void)state;
    float row[] = {3, -200, 1, 88, 87, -1e30f}, bad[] = {1, NAN, 2};
    double sum = exp(0) + exp(-1) + exp(-85) + exp(-87);
    softmax(row, 6);
    assert_true(fabs((double)row[3] - 1 / sum) < 1e-6 && fabs((double)row[4] - exp(-1) / sum) < 1e-6);
    assert_true(row[1] < 1e-30f && row[5] < 1e-30f && row[5] >= 0);
    softmax(bad, 3);
    assert_true(isnan(bad[0]) && isnan(bad[2]));
}

static void dropout_drops_and_scales(void **state)
{
    (void)state;
    enum { N = 100000 };
    static float numbers[N], dropped[N];
    int n = 0;
    for (int i = 0; i < N; i++)
        numbers[i] = 1;
    drop(dropped, numbers, N, 5, (struct mask){.key = 3, .limit = 1u << 30, .scale = 4.0f / 3});
    for (int i = 0; i < N; i++) {
        assert_true(dropped[i] == 0 || dropped[i] == 4.0f / 3);
        n += dropped[i] == 0;
    }
    assert_in_range(n, N / 4 - 500, N / 4 + 500);
}

static void a_text_longer_than_the_context_is_continued(void **state)
{
    (void)state;
    struct gpt model;
    unsigned char text[5 * SEQUENCE] = "In the beginning", again[sizeof text] = "In the beginning";
    struct rng rng;
    init(&model, 2, 0);
    rng_seed(&rng, 1, 1);
    assert_int_equal(sample_text(&model, text, 16, sizeof text, &rng, NULL), HS_OK);
    assert_memory_equal(text, "In the beginning", 16);
    rng_seed(&rng, 1, 1);
    assert_int_equal(sample_text(&model, again, 16, sizeof again, &rng, NULL), HS_OK);
    assert_memory_equal(text, again, sizeof text);
    gpt_free(&model);
}

/* Generation computes the logits of one token after the other. */
static void logits_of_one_token_after_the_other_are_those_of_all(void **state)
{
    (void)state;
    struct gpt whole, single;
    init(&whole, 1, 0);
    init(&single, 1, 0);
    gpt_forward(&whole, tokens, 1, 0, SEQUENCE, 0);
    for (int i = 0; i < SEQUENCE; i++)
        gpt_forward(&single, tokens, 1, i, i + 1, 0);
    for (int i = 0; i < SEQUENCE * VOCABULARY; i++)
        assert_true(fabsf(whole.logits[i] - single.logits[i]) < 1e-5f);
    gpt_free(&whole);
    gpt_free(&single);
}

static void threads_only_change_the_rounding(void **state)
{
    (void)state;
    struct gpt one, four;
    init(&one, 1, 0.1f);
    init(&four, 4, 0.1f);
    assert_true(fabs(loss(&one, 5) - loss(&four, 5)) < 1e-6);
    gpt_backward(&one);
    gpt_backward(&four);
    for (size_t i = 0; i < one.n_parameters; i++)
        assert_true(fabsf(one.gradients[i] - four.gradients[i]) < 1e-6f);
    gpt_free(&one);
    gpt_free(&four);
}

/* Several processes compute shares of a batch. The masks of a sequence are the same in each share. */
static void shares_of_a_batch_add_up_to_the_whole(void **state)
{
    (void)state;
    struct gpt whole, shares;
    init(&whole, 1, 0.1f);
    init(&shares, 1, 0.1f);
    loss(&whole, 5);
    gpt_backward(&whole);
    for (int count = 1; count < BATCH; shares.first += count++) {
        int at = shares.first * SEQUENCE;
        gpt_forward(&shares, tokens + at, count, 0, SEQUENCE, 5);
        gpt_loss(&shares, targets + at, (float)count / BATCH);
        gpt_backward(&shares);
    }
    assert_int_equal(shares.first, BATCH);
    for (size_t i = 0; i < whole.n_parameters; i++)
        assert_true(fabsf(whole.gradients[i] - shares.gradients[i]) < 1e-6f);
    gpt_free(&whole);
    gpt_free(&shares);
}

static void the_loss_falls_when_a_batch_is_learned(void **state)
{
    (void)state;
    struct gpt model;
    struct adamw adamw;
    init(&model, 2, 0);
    assert_int_equal(adamw_init(&adamw, &model, NULL), HS_OK);
    double first = loss(&model, 0);
    for (int64_t step = 1; step <= 100; step++) {
        loss(&model, 0);
        gpt_backward(&model);
        adamw_update(&adamw, &model, 0.01, step);
    }
    assert_true(first > 5);
    assert_true(loss(&model, 0) < 0.1);
    adamw_free(&adamw);
    gpt_free(&model);
}

/* The first update of a matrix, computed by hand. */
static void the_update_is_that_of_adamw(void **state)
{
    (void)state;
    struct gpt model;
    struct adamw adamw;
    init(&model, 2, 0);
    assert_int_equal(adamw_init(&adamw, &model, NULL), HS_OK);
    float weight = model.parameters[7];
    model.gradients[7] = 3;
    model.gradients[8] = -4;
    assert_true(adamw_update(&adamw, &model, 0.5, 1) == 5);
    assert_true(fabsf(adamw.mean[7] - 0.1f * 0.6f) < 1e-6f);
    assert_true(fabsf(adamw.square[8] - 0.05f * 0.64f) < 1e-6f);
    assert_true(fabsf(model.parameters[7] - (weight - 0.5f * (0.1f * weight + 1))) < 1e-5f);
    assert_true(model.gradients[7] == 0);
    adamw_free(&adamw);
    gpt_free(&model);
}

static void the_measured_peak_is_finite_for_the_smallest_model(void **state)
{
    (void)state;
    const int32_t smallest[N_SIZES] = {[CONTEXT] = 2, [LAYERS] = 1, [HEADS] = 1, [WIDTH] = 1};
    struct gpt model;
    assert_int_equal(gpt_init(&model, smallest, 1, 4, 1, NULL), HS_OK);
    double peak = gpt_measure_peak(&model);
    assert_true(isfinite(peak) && peak > 0);
    gpt_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(gradients_with_dropout_are_those_of_finite_differences),
        cmocka_unit_test(gradients_of_two_passes_add_up),
        cmocka_unit_test(gelu_is_that_of_gpt_2),
        cmocka_unit_test(a_softmax_has_the_sum_one_and_keeps_nan),
        cmocka_unit_test(dropout_drops_and_scales),
        cmocka_unit_test(a_text_longer_than_the_context_is_continued),
        cmocka_unit_test(logits_of_one_token_after_the_other_are_those_of_all),
        cmocka_unit_test(threads_only_change_the_rounding),
        cmocka_unit_test(shares_of_a_batch_add_up_to_the_whole),
        cmocka_unit_test(the_loss_falls_when_a_batch_is_learned),
        cmocka_unit_test(the_update_is_that_of_adamw),
        cmocka_unit_test(the_measured_peak_is_finite_for_the_smallest_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
