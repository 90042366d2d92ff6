/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/trained.h"

void begin_training(training *t, stage *s, hs_training_options options)
{
    *t = (training){.s = s};
    model_set(&t->m, 0);
    model_build(&t->m, &s->t.env);
    t->m.session = s->session = hs_training_session_open(hs_graph_backend(t->m.graph), &options, &s->err);
    if (!s->session)
        fail_msg("%s", s->err.message);
}

void end_training(training *t)
{
    t->s->session = NULL;
    t->s->outcome = model_close(&t->m);
    assert_ok(t->s->outcome.error.code, &t->s->outcome.error);
}

int64_t fetch_step(stage *s)
{
    const hs_run_values *values;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("global_step"));
    assert_ok(hs_session_run_args(s->session, &args, &values, &s->err), &s->err);
    return (int64_t)hs_run_values_number(values, 0);
}

int64_t step_of_second_session(stage *s)
{
    training t;
    begin_training(&t, s, SAVING());
    int64_t step = fetch_step(s);
    end_training(&t);
    return step;
}

void refuses(stage *s, hs_training_options options, const char *message)
{
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    assert_null(s->session);
    assert_says(&s->err, HS_INVALID_ARGUMENT, message);
    assert_int_equal(test_count_files(s->directory, "") - test_count_files(s->directory, "outcome.json"), 2);
}
