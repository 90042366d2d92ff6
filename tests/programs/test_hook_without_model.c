/* SPDX-License-Identifier: Apache-2.0 */
/* An example of how to test a hook without a model. */
#include "support/test.h"

#include <math.h>

#include <hooksess/testing.h>

typedef struct {
    double best;
    long patience, bad;
} early_stop;

static const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("validation_loss"));

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)err;
    *args = &wanted;
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)err;
    early_stop *h = self;
    double loss = hs_run_values_number(values, 0);
    if (loss < h->best)
        h->best = loss, h->bad = 0;
    else if (++h->bad == h->patience)
        hs_run_context_request_stop(run);
    return HS_OK;
}

static const hs_hook_ops early_stop_ops =
    HS_INIT(hs_hook_ops, .name = "early_stop", .before_run = before_run, .after_run = after_run);

static hs_outcome train(hs_script *script, early_stop *h, hs_error *err)
{
    hs_hook hook = hs_script_watch(script, NULL, (hs_hook){.ops = &early_stop_ops, .self = h});
    hs_session *s = hs_session_open(hs_script_backend(script), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), err);
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "train", err) != HS_OK)
            break;
    return hs_session_close(s, err);
}

static void stops_when_patience_is_spent(void **state)
{
    (void)state;
    hs_error err = {0};
    early_stop h = {.best = INFINITY, .patience = 5};
    hs_script *script = hs_script_new(NULL);
    hs_script_series(script, "validation_loss", (double[]){3, 2, 2, 2, 2, 2, 2}, 7);
    hs_outcome outcome = train(script, &h, &err);
    assert_int_equal(outcome.reason, HS_REASON_STOPPED);
    assert_string_equal(outcome.hook, "early_stop");
    assert_int_equal(outcome.step, 7);
    assert_int_equal(hs_script_runs(script), 7);
    hs_script_free(script);
}

static void a_lost_worker_ends_it(void **state)
{
    (void)state;
    hs_error err = {0};
    early_stop h = {.best = INFINITY, .patience = 5};
    hs_script *script = hs_script_new(NULL);
    hs_script_series(script, "validation_loss", (double[]){3, 2, 2}, 3);
    hs_script_fail_at(script, 3, HS_UNAVAILABLE, "worker lost");
    hs_outcome outcome = train(script, &h, &err);
    assert_int_equal(outcome.reason, HS_REASON_FAILED);
    assert_says(&err, HS_UNAVAILABLE, "worker lost");
    assert_string_equal(hs_script_calls(script), "begin create before run after before run after before run close");
    assert_int_equal(h.bad, 0);
    hs_script_free(script);
}

static void the_series_ends_the_input(void **state)
{
    (void)state;
    hs_error err = {0};
    early_stop h = {.best = INFINITY, .patience = 5};
    hs_script *script = hs_script_new(NULL);
    hs_script_series(script, "validation_loss", (double[]){3, 2}, 2);
    hs_outcome outcome = train(script, &h, &err);
    assert_int_equal(outcome.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(outcome.step, 2);
    assert_string_equal(hs_script_calls(script), "begin create before run after before run after before run end close");
    hs_script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_when_patience_is_spent),
        cmocka_unit_test(a_lost_worker_ends_it),
        cmocka_unit_test(the_series_ends_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
