/* SPDX-License-Identifier: Apache-2.0 */
#include "open_session.h"

enum { N = 4 };

typedef struct {
    float backbone[N], head[N];
} network;

static int n_backbone, n_head;

static void compute_gradients(network *n)
{
    (void)n;
}

static void update_head(network *n)
{
    n->head[0] += 1;
    n_head++;
}

static void update_backbone(network *n, float *momentum)
{
    momentum[0] += 1;
    n->backbone[0] += momentum[0];
    n_backbone++;
}

/* Trains up to a step. Returns the momentum. */
static float *run(network *trained, int64_t step)
{
    network layers = {{0}, {0}};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "backbone", HS_FLOAT, HS_SHAPE(N), layers.backbone);
    hs_graph_variable(g, "head", HS_FLOAT, HS_SHAPE(N), layers.head);
    last_step = step;
    n_backbone = n_head = 0;
    /* BLOCK */
    finish(s, g, step);
    *trained = layers;
    return momentum;
}

int main(void)
{
    network layers;
    CHECK(run(&layers, 400) == NULL);
    CHECK(n_backbone == 0 && n_head == 400 && layers.backbone[0] == 0);
    float *momentum = run(&layers, 600);
    CHECK(n_backbone == 100 && n_head == 200 && momentum[0] == 100);
    free(momentum);
    momentum = run(&layers, 700);
    CHECK(n_backbone == 100 && momentum[0] == 200 && layers.head[0] == 700);
    CHECK(layers.backbone[0] == 200 * 201 / 2);
    free(momentum);
}
