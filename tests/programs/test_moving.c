/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with their own loops and with memory that they move and allocate. Stopped and started again, they end as
 * without the stop. */
#include "support/test.h"

#include <math.h>

enum { N = 32, LAST = 10 };

/* A solver that computes the next grid from this one, and swaps the two. */

typedef struct {
    float memory[2][N], *u, *next;
} solver;

static void solve_step(solver *s)
{
    for (int i = 0; i < N; i++)
        s->next[i] = (s->u[(i + N - 1) % N] + s->u[(i + 1) % N]) / 2 + 1;
    float *before = s->u;
    s->u = s->next;
    s->next = before;
}

static void solve(solver *s, const char *directory, int64_t last_step, int64_t save_steps)
{
    *s = (solver){.u = s->memory[0], .next = s->memory[1]};
    s->u[3] = 100;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable_at(g, "u", HS_FLOAT, HS_SHAPE(N), &s->u);
    hs_session *session =
        hs_training_session_open(hs_graph_backend(g),
                                 HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_steps = save_steps,
                                                     .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last_step))),
                                 NULL);
    while (hs_step_begin(session)) {
        solve_step(s);
        hs_step_end(session);
    }
    assert_int_equal(hs_session_close(session, NULL).step, last_step);
    hs_graph_free(g);
}

static void a_solver_that_swaps_its_grids(void **state)
{
    (void)state;
    for (int64_t stop = 1; stop < LAST; stop++) { /* at odd and even steps */
        char *directory = test_make_directory();
        solver whole, parts;
        solve(&whole, test_path(directory, "whole"), LAST, 100);
        solve(&parts, test_path(directory, "parts"), stop, 100);
        solve(&parts, test_path(directory, "parts"), LAST, 100);
        assert_memory_equal(parts.u, whole.u, sizeof whole.memory[0]);
        test_remove_directory(directory);
    }
}

/* A trainer whose first update allocates the moments, as llm.c's does. */

typedef struct {
    float weights[N], *m, *v, loss, best;
    uint64_t rng;
} trainer;

static float draw(uint64_t *rng)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    return (float)(*rng >> 40) / (float)(1 << 24);
}

static void update(trainer *t, int first_update)
{
    float gradients[N];
    t->loss = 0;
    for (int i = 0; i < N; i++) {
        gradients[i] = t->weights[i] - draw(&t->rng);
        t->loss += gradients[i] * gradients[i];
    }
    t->best = fminf(t->best, t->loss);
    if (first_update)
        return;
    if (!t->m) {
        t->m = calloc(N, sizeof *t->m);
        t->v = calloc(N, sizeof *t->v);
    }
    for (int i = 0; i < N; i++) {
        t->m[i] = 0.9f * t->m[i] + 0.1f * gradients[i];
        t->v[i] = 0.99f * t->v[i] + 0.01f * gradients[i] * gradients[i];
        t->weights[i] -= 0.1f * t->m[i] / (sqrtf(t->v[i]) + 1e-8f);
    }
}

static hs_code locate_v(void *user, size_t bytes, bool allocate, void **data, hs_error *err)
{
    trainer *t = user;
    (void)err;
    if (!t->v && allocate)
        t->v = malloc(bytes);
    *data = t->v;
    return HS_OK;
}

/* The first two steps read data and update nothing. */
static void train(trainer *t, const char *directory, int64_t last_step)
{
    *t = (trainer){.rng = 42, .best = INFINITY};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "weights", HS_FLOAT, HS_SHAPE(N), t->weights);
    hs_graph_variable_at(g, "adam_m", HS_FLOAT, HS_SHAPE(N), &t->m);
    hs_graph_add_variable(
        g, HS_VARIABLE_DEF(.name = "adam_v", .dtype = HS_FLOAT, .shape = HS_SHAPE(N), .locate = locate_v, .user = t));
    hs_graph_add_variable(g, HS_VARIABLE_DEF(.name = "best", .dtype = HS_FLOAT, .data = &t->best, .nonfinite = true));
    hs_graph_bytes(g, "rng", &t->rng, sizeof t->rng);
    hs_session *session = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .hooks = HS_HOOKS(hs_stop_at_step(.last_step = last_step))), NULL);
    while (hs_step_begin(session)) {
        update(t, hs_session_global_step(session, NULL) < 2);
        hs_step_end(session);
    }
    assert_int_equal(hs_session_close(session, NULL).step, last_step);
    hs_graph_free(g);
}

static void forget(trainer *t)
{
    free(t->m);
    free(t->v);
}

static void a_trainer_that_allocates_its_moments(void **state)
{
    (void)state;
    for (int64_t stop = 1; stop < LAST; stop++) {
        char *directory = test_make_directory();
        trainer whole, first, second;
        train(&whole, test_path(directory, "whole"), LAST);
        train(&first, test_path(directory, "parts"), stop);
        train(&second, test_path(directory, "parts"), LAST);
        assert_memory_equal(second.weights, whole.weights, sizeof whole.weights);
        assert_memory_equal(second.m, whole.m, sizeof whole.weights);
        assert_memory_equal(second.v, whole.v, sizeof whole.weights);
        assert_true(second.best == whole.best && second.rng == whole.rng);
        forget(&whole);
        forget(&first);
        forget(&second);
        test_remove_directory(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_solver_that_swaps_its_grids),
        cmocka_unit_test(a_trainer_that_allocates_its_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
