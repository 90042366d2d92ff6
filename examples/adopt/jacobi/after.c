/* SPDX-License-Identifier: Apache-2.0 */
/* A solver: Laplace's equation on a square with a warm edge, by Jacobi's method. Each sweep computes one grid from the
 * other, and swaps the two. */
#include <hooksess/hooksess.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 96, SWEEPS = 100000 };

static double sweep(const double *u, double *next)
{
    double residual = 0;
    for (int i = 1; i < N - 1; i++)
        for (int j = 1; j < N - 1; j++) {
            next[i * N + j] = (u[(i - 1) * N + j] + u[(i + 1) * N + j] + u[i * N + j - 1] + u[i * N + j + 1]) / 4;
            residual = fmax(residual, fabs(next[i * N + j] - u[i * N + j]));
        }
    return residual;
}

static int save(const double *u)
{
    FILE *file = fopen("grid", "wb");
    if (!file)
        return 1;
    size_t written = fwrite(u, sizeof *u, N * N, file);
    return fclose(file) != 0 || written != N * N;
}

int main(void)
{
    double *u = calloc(N * N, sizeof *u), *next = calloc(N * N, sizeof *next), residual = 1;
    if (!u || !next)
        return 1;
    for (int j = 0; j < N; j++)
        u[j] = next[j] = 100; /* the warm edge */

    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable_at(g, "u", HS_DOUBLE, HS_SHAPE(N, N), &u);
    hs_graph_variable(g, "residual", HS_DOUBLE, HS_SCALAR, &residual);
    hs_session *s = hs_training_session_open(hs_graph_backend(g),
                                             HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .save_checkpoint_steps = 1000,
                                                                 .signals = true, .scalars = HS_NAMES("residual"),
                                                                 .hooks = HS_HOOKS(hs_stop_at_step(.last_step = SWEEPS))),
                                             NULL);
    while (residual > 1e-4 && hs_step_begin(s)) {
        residual = sweep(u, next);
        double *swapped = u;
        u = next;
        next = swapped;
        printf("%.9g\n", residual);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    int code = hs_outcome_exit_code(&outcome), status = code ? code : save(u);
    free(u);
    free(next);
    return status;
}
