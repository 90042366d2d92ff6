/* SPDX-License-Identifier: Apache-2.0 */
/* The model of the block's program: it approaches 2 and 3. The program must train it and save it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct model {
    float *weights;
    float loss;
};

static int saved;

static void check(void)
{
    if (!saved)
        abort();
}

static struct model model_new(void)
{
    static float weights[2];
    atexit(check);
    return (struct model){weights, 0};
}

static void model_step(struct model *m)
{
    m->loss = fabsf(m->weights[0] - 2) + fabsf(m->weights[1] - 3);
    m->weights[0] += 0.1f * (2 - m->weights[0]);
    m->weights[1] += 0.1f * (3 - m->weights[1]);
}

static void model_save(const struct model *m)
{
    FILE *state_file = fopen("run/checkpoint", "r");
    saved = state_file && m->loss < 1e-3f && fabsf(m->weights[0] - 2) < 1e-3f;
    if (state_file)
        fclose(state_file);
}

/* BLOCK */
