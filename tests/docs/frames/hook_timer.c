/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

/* BLOCK */

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_timer_save(((weight_log *)self)->timer, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_timer_load(((weight_log *)self)->timer, in, err);
}

static void destroy(void *self)
{
    hs_timer_free(((weight_log *)self)->timer);
    hs_env_free(NULL, self);
}

static const hs_hook_ops weight_log_ops =
    HS_INIT(hs_hook_ops, .name = "weight_log", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .save_state = save_state, .load_state = load_state, .destroy = destroy);

/* BLOCK */

/* Trains up to a step, and writes to stdout. */
static void run(int64_t step)
{
    model m = {0};
    reader data = {0};
    hs_graph *g = new_graph(&m, &data);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run",
                            .hooks = HS_HOOKS(log_weights(HS_EVERY_STEPS(100)), hs_stop_at_step(.last_step = step))),
        NULL);
    train(s, &m, &data);
    finish(s, g, step);
}

int main(void)
{
    CHECK(freopen("log", "w", stdout));
    run(250);
    run(450); /* resumed: again at the steps of an uninterrupted run */
    CHECK(fflush(stdout) == 0);
    char *text = contents("log");
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++)
        CHECK(atoi(line) == 100 * (n + 1) && atof(strchr(line, ' ')) > 0);
    CHECK(n == 4);
    free(text);

    /* An invalid trigger is reported when the session is opened. */
    float loss = 0;
    hs_error err;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &loss);
    CHECK(!hs_session_open(hs_graph_backend(g),
                           HS_SESSION_OPTIONS(.hooks = HS_HOOKS(log_weights(HS_TRIGGER(.first = false)))), &err));
    CHECK(err.code == HS_INVALID_ARGUMENT && strstr(err.message, "weight_log"));
    hs_graph_free(g);
}
