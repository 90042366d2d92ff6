/* A loop that announces its update to a background save. */
#include <hooksess/hooksess.h>
#include <stdlib.h>

enum { N = 1 << 16 };

static float weights[N], gradients[N];
static int stream;

static void forward(int on)
{
    (void)on;
}

static void backward(int on)
{
    (void)on;
    for (int i = 0; i < N; i++)
        gradients[i] = weights[i] - 2;
}

static void update(int on)
{
    (void)on;
    for (int i = 0; i < N; i++)
        weights[i] -= gradients[i] / 2;
}

int main(void)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(N), weights);
    hs_session *s = hs_training_session_open(hs_graph_backend(g),
                                             HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .save_checkpoint_steps = 1,
                                                                 .background = true,
                                                                 .hooks = HS_HOOKS(hs_stop_at_step(.num_steps = 3))),
                                             NULL);
    /* BLOCK */
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome) == 0 && weights[0] == 1.75f ? 0 : 1;
}
