/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds of the caller and of hooks in one run. */
#include "session/probe.h"

#include "backends/bare.h"

static const double five = 5, ten = 10, twenty = 20;

/* Opens the play's session on a graph with placeholders a, b, c and their sum. */
static hs_graph *open_sum(play *p, const hs_hook *hooks, size_t n)
{
    hs_graph *graph = hs_graph_new(&p->t.env);
    for (const char *const *name = HS_NAMES("a", "b", "c"); *name; name++)
        hs_graph_placeholder(graph, *name, HS_DOUBLE, HS_ANY_SHAPE);
    hs_graph_op(graph, .name = "sum2", .run = bare_sum, .inputs = HS_NAMES("a", "b"), .outputs = BARE_SCALAR);
    hs_graph_op(graph, .name = "sum3", .run = bare_sum, .inputs = HS_NAMES("a", "b", "c"), .outputs = BARE_SCALAR);
    p->backend = hs_graph_backend(graph);
    play_open(p, hooks, n);
    return graph;
}

static void close_sum(play *p, hs_graph *graph)
{
    play_close(p);
    hs_graph_free(graph);
}

static void ms_050_hooks_feed_what_the_caller_does_not(void **state)
{
    play *p = *state;
    hs_feed feeds[] = {play_feed("a", &five), {NULL}, play_feed("b", &ten), {NULL}};
    play_probe(p, a, .wants = HS_RUN_ARGS(.feeds = feeds));
    play_probe(p, b, .wants = HS_RUN_ARGS(.feeds = feeds + 2));
    hs_graph *graph = open_sum(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2);
    assert_true(play_number(p, "sum2") == 15);
    close_sum(p, graph);
}

static void ms_051_hooks_and_caller_feed_together(void **state)
{
    play *p = *state;
    hs_feed feeds[] = {play_feed("a", &five), {NULL}, play_feed("b", &ten), {NULL}};
    hs_feed mine[] = {play_feed("c", &twenty), {NULL}};
    play_probe(p, a, .wants = HS_RUN_ARGS(.feeds = feeds));
    play_probe(p, b, .wants = HS_RUN_ARGS(.feeds = feeds + 2));
    hs_graph *graph = open_sum(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2);
    assert_ok(play_run(p, HS_NAMES("sum3"), mine), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 35);
    assert_string_equal(mine[0].name, "c"); /* the caller's list is unchanged */
    assert_null(mine[1].name);
    close_sum(p, graph);
}

static void ms_052_two_hooks_that_feed_one_tensor_are_named(void **state)
{
    play *p = *state;
    hs_run_args one = HS_INIT(hs_run_args, .feeds = (hs_feed[]){play_feed("a", &five), {NULL}});
    hs_run_args other =
        HS_INIT(hs_run_args, .feeds = (hs_feed[]){play_feed("a:0", &ten), {NULL}}); /* the same under another name */
    play_probe(p, a, .wants = &one);
    play_probe(p, b, .wants = &other);
    hs_feed mine[] = {play_feed("c", &twenty), {NULL}};
    play_open_probes(p, 2);
    assert_fails(play_run(p, HS_NAMES("a"), mine), HS_FAILED_PRECONDITION, &p->err, "'a:0' is fed twice: by a and by b");
    assert_contains(p->err.message, "hook 'b', before_run");
}

static void ms_104s_a_hook_that_feeds_what_the_caller_feeds_is_named(void **state)
{
    play *p = *state;
    hs_run_args args = HS_INIT(hs_run_args, .feeds = (hs_feed[]){play_feed("a", &five), {NULL}});
    play_probe(p, a, .wants = &args);
    play_open_probes(p, 2);
    play_calls(p);
    assert_fails(play_args(p, &args), HS_FAILED_PRECONDITION, &p->err, "'a' is fed twice: by the caller and by a");
    assert_string_equal(play_calls(p), "a.before");
    assert_int_equal(hs_script_runs(p->script), 0);
}

static void feeding_a_tensor_twice_is_an_error(void **state)
{
    play *p = *state;
    hs_feed feeds[] = {play_feed("a", &five), play_feed("b", &five), play_feed("a", &ten), {NULL}};
    play_open(p, NULL, 0);
    assert_fails(play_run(p, HS_NAMES("a"), feeds), HS_FAILED_PRECONDITION, &p->err, "'a' is fed twice by the caller");
    hs_raw_session *raw = hs_session_raw(p->session);
    hs_run_args args = HS_INIT(hs_run_args, .feeds = feeds);
    assert_fails(hs_raw_session_run(raw, &args, NULL, &p->err), HS_FAILED_PRECONDITION, &p->err, "by a raw run");
}

static void ms_121s_no_request_and_empty_requests(void **state)
{
    play *p = *state;
    const hs_feed none[] = {{NULL}};
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1);
    play_probe(p, a, .wants = HS_RUN_ARGS(.feeds = none, .options = &options));
    play_open_probes(p, 2); /* b requests nothing */
    assert_ok(play_run(p, HS_NAMES("a"), (hs_feed[]){play_feed("a", &five), {NULL}}), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 5);
    assert_true(p->a.number != p->a.number && p->b.number != p->b.number); /* NaN: no value */
    assert_contains(hs_script_last_run(p->script), "fetch a; feed a; trace 1");
}

static hs_code no_values(probe *p, const probe_call *call)
{
    if (call->point != PROBE_AFTER)
        return HS_OK;
    assert_int_equal(hs_run_values_count(call->values), 0);
    assert_null(hs_run_values_tensor(call->values, 0));
    assert_null(hs_run_values_tensor_at(call->values, "a"));
    assert_int_equal(hs_run_values_metadata(call->values).size, 0);
    p->user = (void *)hs_run_values_options(call->values);
    return HS_OK;
}

static void ms_121s_a_request_without_fetches_has_no_values(void **state)
{
    play *p = *state;
    hs_run_options options = HS_INIT(hs_run_options, .timeout_secs = 1);
    hs_run_args args = HS_INIT(hs_run_args, .feeds = (hs_feed[]){play_feed("a", &five), {NULL}});
    play_probe(p, a, .wants = &args, .act = no_values);
    play_probe(p, b, .wants = HS_RUN_ARGS(.options = &options), .act = no_values);
    play_probe(p, c, .act = no_values);
    play_open_probes(p, 3);
    assert_true(play_number(p, "a") == 5);
    assert_ptr_equal(p->c.user, &options); /* c requests nothing and still sees the run's options */
}

/* A plan contains the names of feeds, not their data. */
static void the_same_plan_takes_other_data(void **state)
{
    play *p = *state;
    double x = 0;
    play_open(p, NULL, 0);
    assert_ok(play_run(p, HS_NAMES("a"), (hs_feed[]){play_feed("a", &x), {NULL}}), &p->err);
    size_t before = p->t.allocations;
    for (int i = 1; i < 5; i++) {
        double *fed = malloc(sizeof *fed);
        *fed = i;
        hs_script_clear_calls(p->script);
        assert_ok(play_run(p, HS_NAMES("a"), (hs_feed[]){play_feed("a", fed), {NULL}}), &p->err);
        assert_true(hs_run_values_number(p->values, 0) == i);
        free(fed);
    }
    assert_int_equal(p->t.allocations, before);
}

static void feeds_of_other_names_are_other_plans(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    for (int i = 0; i < 8; i++) {
        hs_feed feeds[] = {play_feed(i % 2 ? "a" : "b", &five), {NULL}};
        assert_ok(play_run(p, HS_NAMES("ten"), feeds), &p->err);
        assert_string_equal(hs_script_last_run(p->script), i % 2 ? "fetch ten; feed a" : "fetch ten; feed b");
        if (i < 4)
            continue; /* first in consecutive runs, then with a run without feeds in between */
        assert_ok(play_run(p, HS_NAMES("ten"), NULL), &p->err);
        assert_string_equal(hs_script_last_run(p->script), "fetch ten; feed");
    }
}

static void a_feed_that_is_not_there_is_named(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_fails(play_run(p, NULL, (hs_feed[]){play_feed("lost", &five), {NULL}}), HS_NOT_FOUND, &p->err, "'lost'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_050_hooks_feed_what_the_caller_does_not),
        play_test(ms_051_hooks_and_caller_feed_together),
        play_test(ms_052_two_hooks_that_feed_one_tensor_are_named),
        play_test(ms_104s_a_hook_that_feeds_what_the_caller_feeds_is_named),
        play_test(feeding_a_tensor_twice_is_an_error),
        play_test(ms_121s_no_request_and_empty_requests),
        play_test(ms_121s_a_request_without_fetches_has_no_values),
        play_test(the_same_plan_takes_other_data),
        play_test(feeds_of_other_names_are_other_plans),
        play_test(a_feed_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
