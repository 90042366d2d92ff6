/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a session. */
#include "session/probe.h"

#include "backends/refused.h"

static hs_raw_session *raw_of(play *p)
{
    play_open(p, NULL, 0);
    return hs_session_raw(p->session);
}

static void assert_metric(const hs_raw_session *raw, const char *name, double value, int64_t step)
{
    double found = 0;
    int64_t at = 0;
    assert_true(hs_raw_session_metric(raw, name, &found, &at));
    assert_true(found == value);
    assert_int_equal(at, step);
}

static void no_metric_is_set_at_first(void **state)
{
    hs_raw_session *raw = raw_of(*state);
    double value = 7;
    int64_t step = 7;
    assert_false(hs_raw_session_metric(raw, "loss", &value, &step));
    assert_true(value == 7 && step == 7);
}

static void each_name_has_its_latest_value(void **state)
{
    play *p = *state;
    hs_raw_session *raw = raw_of(p);
    char name[] = "eval/loss";
    assert_ok(hs_raw_session_set_metric(raw, name, 0.5, 10, &p->err), &p->err);
    name[0] = 'x'; /* it was copied */
    assert_ok(hs_raw_session_set_metric(raw, "test/loss", 0.75, 10, &p->err), &p->err);
    assert_ok(hs_raw_session_set_metric(raw, "eval/loss", 0.25, 20, &p->err), &p->err);
    assert_metric(raw, "eval/loss", 0.25, 20);
    assert_metric(raw, "test/loss", 0.75, 10);
    assert_true(hs_raw_session_metric(raw, "eval/loss", NULL, NULL));
}

static hs_code say(probe *p, const probe_call *call)
{
    (void)p;
    return call->point == PROBE_BOUNDARY
               ? hs_raw_session_set_metric(hs_run_context_session(call->run), "said", 3, 0, call->err)
               : HS_OK;
}

static void hooks_and_program_share_it(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = say);
    play_open_probes(p, 1);
    assert_metric(hs_session_raw(p->session), "said", 3, 0);
}

static void nulls(void **state)
{
    hs_raw_session *raw = raw_of(*state);
    assert_refused(HS_INVALID_ARGUMENT, hs_raw_session_set_metric(NULL, "loss", 1, 1, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_raw_session_set_metric(raw, NULL, 1, 1, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_raw_session_set_metric(raw, "", 1, 1, err));
    assert_false(hs_raw_session_metric(NULL, "loss", NULL, NULL));
    assert_false(hs_raw_session_metric(raw, NULL, NULL, NULL));
}

static hs_code each_scenario(test_env *t, void *user)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                        "j", "k", "l", "m", "n", "o", "p", "q"};
    hs_error err = {0};
    hs_script *script = hs_script_new(&t->env);
    (void)user;
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_session *session = hs_session_open(hs_script_backend(script), NULL, &err);
    hs_code code = session ? HS_OK : err.code;
    for (size_t i = 0; !code && i < sizeof names / sizeof *names; i++) {
        code = hs_raw_session_set_metric(hs_session_raw(session), names[i], 1, 1, &err);
        assert_true(hs_raw_session_metric(hs_session_raw(session), names[i], NULL, NULL) == !code);
    }
    hs_session_close(session, NULL);
    hs_script_free(script);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(each_scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(no_metric_is_set_at_first),        play_test(each_name_has_its_latest_value),
        play_test(hooks_and_program_share_it),       play_test(nulls),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
