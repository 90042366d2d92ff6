/* SPDX-License-Identifier: Apache-2.0 */
/* Prints which part of the program runs, in order: "loop TEXT" for the training loop, "hook TEXT" for a callback. The
 * picture of a step shows what it prints (make.py). */
#include <hooksess/hooksess.h>

#include <stdio.h>

enum { STEPS = 2 };

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    (void)self, (void)backend, (void)err;
    puts("hook begin");
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)self, (void)session, (void)coordinator, (void)err;
    puts("hook after_create_session");
    return HS_OK;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)args, (void)err;
    puts("hook before_run");
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    puts("hook after_run");
    if (hs_run_context_global_step(run, err) == 1)
        hs_run_context_request_boundary(run);
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    (void)self, (void)run, (void)err;
    puts("hook boundary");
    return HS_OK;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    (void)self, (void)session, (void)err;
    puts("hook end");
    return HS_OK;
}

int main(void)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "printer", .begin = begin, .after_create_session = after_create_session,
                .before_run = before_run, .after_run = after_run, .boundary = boundary, .end = end);
    int64_t step = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_global_step(g, NULL, &step);
    puts("loop hs_training_session_open");
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.log_step_count_steps = HS_NEVER,
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = STEPS), HS_HOOK(.ops = &ops))),
        NULL);
    while (puts("loop hs_step_begin"), hs_step_begin(s)) {
        puts("loop your mathematics");
        puts("loop hs_step_end");
        hs_step_end(s);
    }
    puts("loop hs_session_close");
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
