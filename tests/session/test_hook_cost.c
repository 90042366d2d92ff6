/* SPDX-License-Identifier: Apache-2.0 */
/* The costs of hooks that a session measures. */
#include "session/probe.h"

#include "base/c_locale.h"
#include "session/services.h"

static hs_code take_time(probe *p, const probe_call *call)
{
    play *stage = p->user;
    if (call->point == PROBE_AFTER)
        hs_script_advance(stage->script, 0.25);
    if (call->point == PROBE_BEFORE)
        hs_script_advance(stage->script, 0.125);
    return HS_OK;
}

static hs_hook_cost cost_of(play *p, size_t index)
{
    hs_hook_cost cost = {.name = NULL};
    assert_true(hs_session_hook_cost(p->session, index, &cost));
    return cost;
}

static void all_costs_are_zero_at_first(void **state)
{
    play *p = *state;
    play_open_probes(p, 2);
    hs_hook_cost cost = cost_of(p, 1);
    assert_string_equal(cost.name, "b");
    assert_int_equal(cost.runs, 0);
    assert_int_equal(cost.total_ns, 0); /* the clock has not advanced in the first boundary */
    assert_int_equal(cost.largest_step, -1);
    assert_false(hs_session_hook_cost(p->session, 2, &cost));
    assert_false(hs_session_hook_cost(NULL, 0, &cost));
    assert_false(hs_session_hook_cost(p->session, 0, NULL));
}

static void a_hook_that_takes_long_is_timed_and_named(void **state)
{
    play *p = *state;
    play_probe(p, b, .act = take_time, .user = p);
    play_open_probes(p, 3);
    for (int i = 0; i < 1000; i++)
        play_train(p);
    hs_hook_cost cost = cost_of(p, 1);
    assert_int_equal(cost.runs, 1000);
    assert_string_equal(cost.slowest, "after_run");
    assert_int_equal(cost.largest_ns, 250000000);
    assert_int_equal(cost.total_ns, 16 * 61 * (int64_t)375000000); /* the first 61 runs, and 15 that stand for 61 each */
    assert_int_equal(cost_of(p, 0).total_ns, 0);
    assert_int_equal(cost_of(p, 2).largest_ns, 0);
    play_close(p);
    assert_contains(p->t.log, "hook 'b' took ");
    assert_contains(p->t.log, "in 1000 runs, the longest 0.250 s in after_run");
    assert_lacks(p->t.log, "hook 'a' took");
}

/* Run 122 is timed, and stands for 61. */
static hs_code wait_once(probe *p, const probe_call *call)
{
    play *stage = p->user;
    if (call->point == PROBE_AFTER && p->calls[PROBE_AFTER] == 122)
        hs_script_advance(stage->script, 0.5);
    return HS_OK;
}

static void a_call_that_waited_for_a_processor_counts_once(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = wait_once, .user = p);
    play_open_probes(p, 1);
    for (int i = 0; i < 200; i++)
        play_train(p);
    assert_int_equal(cost_of(p, 0).largest_ns, 500000000);
    assert_int_equal(cost_of(p, 0).total_ns, 500000000);
}

/* Takes long in rare calls only. */
static hs_code take_time_seldom(probe *p, const probe_call *call)
{
    play *stage = p->user;
    if (call->point == PROBE_AFTER && p->calls[PROBE_AFTER] % 100 == 0)
        hs_script_advance(stage->script, 1);
    return HS_OK;
}

static void rare_slow_calls_are_found(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = take_time_seldom, .user = p);
    play_open_probes(p, 1);
    for (int i = 0; i < 100000; i++)
        assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
    hs_hook_cost cost = cost_of(p, 0);
    assert_int_equal(cost.largest_ns, 1000000000);
    assert_true(cost.total_ns > (int64_t)500 * 1000000000 && cost.total_ns < (int64_t)2000 * 1000000000);
}

/* As an initial save does. */
static hs_code take_time_at_the_opening(probe *p, const probe_call *call)
{
    play *stage = p->user;
    if (call->point == PROBE_BOUNDARY && p->calls[PROBE_BOUNDARY] == 1)
        hs_script_advance(stage->script, 3);
    return HS_OK;
}

static void the_opening_is_a_part_of_the_sessions_time(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = take_time_at_the_opening, .user = p);
    play_open_probes(p, 1);
    hs_script_advance(p->script, 1);
    play_close(p);
    assert_contains(p->t.log, "hook 'a' took 75 % of the session's 4.0 s: 3.0 s in 0 runs");
}

static hs_code take_time_in_two_runs(probe *p, const probe_call *call)
{
    play *stage = p->user;
    bool is_timed = p->calls[PROBE_AFTER] == 122 || p->calls[PROBE_AFTER] == 183; /* each stands for 61 runs */
    if (call->point == PROBE_AFTER && is_timed)
        hs_script_advance(stage->script, 1);
    return HS_OK;
}

static void no_hook_takes_more_than_all_of_the_time(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = take_time_in_two_runs, .user = p);
    play_open_probes(p, 1);
    for (int i = 0; i < 200; i++)
        play_train(p);
    assert_int_equal(cost_of(p, 0).total_ns, 62 * (int64_t)1000000000);
    play_close(p);
    assert_contains(p->t.log, "hook 'a' took 100 % of the session's 2.0 s");
}

static void a_hook_has_costs_only_in_runs_of_its_kinds(void **state)
{
    play *p = *state;
    hs_hook hooks[] = {probe_hook(&p->a), probe_hook(&p->b)};
    hooks[1].flags = HS_HOOK_EVAL | HS_HOOK_AUX;
    play_open(p, hooks, 2);
    for (int64_t kind = HS_RUN_TRAIN; kind <= HS_RUN_AUX; kind++)
        play_args(p, HS_RUN_ARGS(.names = HS_NAMES("five"), .kind = kind));
    assert_int_equal(cost_of(p, 0).runs, 1);
    assert_int_equal(cost_of(p, 1).runs, 2);
}

/* Spans. */

typedef struct {
    play *stage;
    char text[512];
} spans;

static hs_code look_at_spans(probe *p, const probe_call *call)
{
    spans *seen = p->user;
    size_t n;
    if (call->point == PROBE_AFTER && p->calls[PROBE_AFTER] == 63) /* not timed by itself */
        hs__run_context_record_spans(call->run);
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    if (call->point == PROBE_BEFORE && p->calls[PROBE_BEFORE] == 64)
        hs_script_advance(seen->stage->script, 0.5);
    if (call->point != PROBE_BOUNDARY || hs_run_context_boundary(call->run) != HS_BOUNDARY_RUN)
        return HS_OK;
    seen->text[0] = '\0';
    const hs__hook_span *at = hs__run_context_spans(call->run, &n);
    for (; n--; at++)
        hs__snprintf(seen->text + strlen(seen->text), sizeof seen->text - strlen(seen->text), "%s.%s %g ", at->hook,
                     at->callback, (double)(at->end_ns - at->begin_ns) * 1e-9);
    return HS_OK;
}

static void spans_are_recorded_to_the_end_of_the_next_run(void **state)
{
    play *p = *state;
    spans seen = {.stage = p};
    play_probe(p, a, .act = look_at_spans, .user = &seen);
    play_open_probes(p, 2);
    for (int i = 0; i < 63; i++)
        play_train(p);
    assert_string_equal(seen.text, "b.after_run 0 "); /* from now on */
    play_train(p);
    assert_string_equal(seen.text, "a.before_run 0.5 b.before_run 0 a.after_run 0 b.after_run 0 ");
    play_train(p);
    assert_string_equal(seen.text, "");
}

/* Traces the second run. */
static hs_code trace_one(probe *p, const probe_call *call)
{
    const char *directory = p->user;
    if (call->point == PROBE_BEFORE && p->calls[PROBE_BEFORE] == 2)
        hs__run_context_record_spans(call->run);
    if (call->point == PROBE_AFTER && p->calls[PROBE_AFTER] == 2)
        hs_run_context_request_boundary(call->run);
    if (call->point != PROBE_BOUNDARY || hs_run_context_boundary(call->run) != HS_BOUNDARY_RUN)
        return HS_OK;
    assert_ok(hs__run_context_write_trace(call->run, 2, &(hs__trace_options){.directory = directory}, call->err),
              call->err);
    return HS_OK;
}

static void a_hook_writes_the_trace_of_a_run(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    play_probe(p, a, .act = trace_one, .user = directory);
    play_open_probes(p, 2);
    for (int i = 0; i < 3; i++)
        play_train(p);
    play_close(p);
    char *trace = test_read_file(test_path(directory, "timeline-2.json"), NULL);
    assert_contains(trace, "\"after_run\"");
    assert_int_equal(test_count_files(directory, "timeline"), 1);
    free(trace);
    test_remove_directory(directory);
}

static hs_code write_invalid_traces(probe *p, const probe_call *call)
{
    hs_error err;
    (void)p;
    if (call->point != PROBE_AFTER)
        return HS_OK;
    assert_fails(
        hs__run_context_write_trace(call->run, 1, &(hs__trace_options){.directory = "x", .metadata = {"?", 1}}, &err),
        HS_DATA_LOSS, &err, "RunMetadata");
    return HS_OK;
}

static void invalid_traces_are_not_written(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = write_invalid_traces);
    play_open_probes(p, 1);
    play_train(p);
    play_close(p);
    assert_false(test_exists(".", "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(all_costs_are_zero_at_first),
        play_test(a_hook_that_takes_long_is_timed_and_named),
        play_test(a_call_that_waited_for_a_processor_counts_once),
        play_test(rare_slow_calls_are_found),
        play_test(the_opening_is_a_part_of_the_sessions_time),
        play_test(no_hook_takes_more_than_all_of_the_time),
        play_test(a_hook_has_costs_only_in_runs_of_its_kinds),
        play_test(spans_are_recorded_to_the_end_of_the_next_run),
        play_test(a_hook_writes_the_trace_of_a_run),
        play_test(invalid_traces_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
