/* SPDX-License-Identifier: Apache-2.0 */
/* periodic_hooks DIRECTORY: the two smallest hooks that act every N steps, one of them with state. A resumed training
 * prints the same lines and stops at the same step as an uninterrupted one. C11 and C++20. */
#include <hooksess/hooksess.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                        \
    do                                                                                                                     \
        if (!(what)) {                                                                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                     \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    while (0)

/* clang-format off */
static hs_code print(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)err;
    printf("%lld %g\n", (long long)hs_run_context_global_step(run, NULL), hs_run_values_number(values, 0));
    return HS_OK;
}
static const hs_hook_ops print_loss = HS_INIT(hs_hook_ops, .name = "print_loss", .fetches = HS_NAMES("loss"), .after_run = print);

typedef struct { double best; long patience, bad; } early_stop;

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)err;
    early_stop *h = (early_stop *)self;
    double loss = hs_run_values_number(values, 0);
    if (loss < h->best)
        h->best = loss, h->bad = 0;
    else if (++h->bad == h->patience)
        hs_run_context_request_stop(run);
    return HS_OK;
}
static hs_code save(void *self, hs_state_writer *out, hs_error *err) { return hs_state_writer_write(out, self, sizeof(early_stop), err); }
static hs_code load(void *self, hs_state_reader *in, hs_error *err) { return hs_state_reader_read(in, self, sizeof(early_stop), err); }

static const hs_hook_ops early_stop_ops = HS_INIT(hs_hook_ops, .name = "early_stop", .fetches = HS_NAMES("validation_loss"), .after_run = after_run,
                                                  .save_state = save, .load_state = load);
/* clang-format on */

/* The validation loss falls until step 1500. */
static hs_outcome train_to(const char *directory, int64_t last_step)
{
    double loss = 1, validation_loss = 1;
    int64_t step = 0;
    early_stop h = {.best = INFINITY, .patience = 5, .bad = 0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_global_step(g, NULL, &step);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_value(g, "validation_loss", HS_DOUBLE, HS_SCALAR, &validation_loss);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .log_step_count_steps = HS_NEVER,
                            .hooks = HS_HOOKS(HS_HOOK(.ops = &print_loss, .when = HS_EVERY_STEPS(100)),
                                              HS_HOOK(.ops = &early_stop_ops, .self = &h, .when = HS_EVERY_STEPS(500)),
                                              hs_stop_at_step(.last_step = last_step))),
        NULL);
    while (hs_step_begin(s)) {
        loss = 1 / (double)(step + 1);
        validation_loss = step < 1500 ? loss : loss + 1;
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    CHECK(hs_outcome_exit_code(&outcome) == 0);
    return outcome;
}

int main(int argc, char **argv)
{
    char path[1024], line[64], printed[64];
    if (argc != 2)
        return 2;
    snprintf(path, sizeof path, "%s/printed", argv[1]);
    CHECK(freopen(path, "w", stdout));
    snprintf(path, sizeof path, "%s/whole", argv[1]);
    hs_outcome outcome = train_to(path, 100000);
    CHECK(outcome.step == 4000 && strcmp(outcome.hook, "early_stop") == 0);
    const int64_t ends[] = {1, 99, 100, 250, 1500, 1700, 2999, 3000, 3999, 100000};
    snprintf(path, sizeof path, "%s/resumed", argv[1]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        outcome = train_to(path, ends[i]);
    CHECK(outcome.step == 4000 && strcmp(outcome.hook, "early_stop") == 0);

    CHECK(fflush(stdout) == 0);
    snprintf(path, sizeof path, "%s/printed", argv[1]);
    FILE *file = fopen(path, "r");
    CHECK(file);
    for (int i = 0; i < 80; i++) { /* each training prints 40 lines */
        int step = 100 * (i % 40 + 1);
        snprintf(line, sizeof line, "%d %g\n", step, 1.0 / step);
        CHECK(fgets(printed, sizeof printed, file) && strcmp(printed, line) == 0);
    }
    CHECK(!fgets(printed, sizeof printed, file));
    fclose(file);
    return 0;
}
