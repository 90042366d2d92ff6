/* SPDX-License-Identifier: Apache-2.0 */
/* Merging all summaries of a graph. */
#include "backends/graph/graph.h"
#include "summary/shown.h"

/* Merging. */

static void add_two(bare *b)
{
    shown_add_loss(b);
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "a", .tensor = "loss");
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "b", .tensor = "loss");
}

static void all_are_merged(void **state)
{
    bare *b = *state;
    const char *merged;
    add_two(b);
    assert_int_equal(hs_graph_merge_all_summaries(b->graph, &merged), HS_OK);
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5");
}

static void merging_twice_adds_one_op(void **state)
{
    bare *b = *state;
    const char *first, *second;
    add_two(b);
    hs_graph_merge_all_summaries(b->graph, &first);
    size_t nodes = b->graph->n_nodes;
    assert_int_equal(hs_graph_merge_all_summaries(b->graph, &second), HS_OK);
    assert_string_equal(first, second);
    assert_int_equal(b->graph->n_nodes, nodes);
    assert_int_equal(shown_collected(b, HS_SUMMARY_OP), 1);
    bare_open(b);
    assert_int_equal(hs_graph_merge_all_summaries(b->graph, &second), HS_OK); /* the op exists already */
}

static void summaries_that_are_added_later_are_merged(void **state)
{
    bare *b = *state;
    const char *merged;
    hs_graph_merge_all_summaries(b->graph, &merged);
    add_two(b);
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5");
    bare_close(b);
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "c", .tensor = "loss");
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5,c=0.5");
    bare_close(b);
    hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR,
                         HS_GRAPH_SUMMARY_DEF(.name = "d", .tensor = "loss", .collection = ""));
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5,c=0.5");
    bare_close(b);
    hs_graph_collect(b->graph, HS_SUMMARIES, "summary/d");
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5,c=0.5,d=0.5");
}

static void merging_no_summaries_gives_an_empty_summary(void **state)
{
    bare *b = *state;
    const char *merged;
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "");
}

static void a_summary_that_is_collected_twice_is_merged_once(void **state)
{
    bare *b = *state;
    const char *merged;
    add_two(b);
    hs_graph_collect(b->graph, HS_SUMMARIES, "summary/a");
    hs_graph_merge_all_summaries(b->graph, &merged);
    hs_graph_collect(b->graph, HS_SUMMARIES, "summary/b");
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5");
}

static void a_summary_in_no_collection_is_not_merged(void **state)
{
    bare *b = *state;
    const char *merged;
    add_two(b);
    hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR,
                         HS_GRAPH_SUMMARY_DEF(.name = "c", .tensor = "loss", .collection = ""));
    hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR,
                         HS_GRAPH_SUMMARY_DEF(.name = "d", .tensor = "loss", .collection = "rare"));
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5");
    assert_string_equal(shown_by(b, "summary/c"), "c=0.5");
    assert_int_equal(shown_collected(b, "rare"), 1);
}

static hs_code output_two_strings(void *self, hs_op *op, hs_error *err)
{
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(2), self);
    return hs_op_set_output(op, 0, &value, err);
}

static void ops_of_the_program_are_merged(void **state)
{
    bare *b = *state;
    const char *merged;
    hs_summary *summary = hs_summary_new(NULL);
    hs_summary_scalar(summary, "own", 2, NULL);
    hs_string strings[2] = {hs_summary_serialized(summary), {NULL, 0}};
    add_two(b);
    hs_graph_op(b->graph, .name = "own", .run = output_two_strings, .user = strings,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_collect(b->graph, HS_SUMMARIES, "own");
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5,own=2");
    hs_summary_free(summary);
}

static void bytes_that_are_not_a_summary_are_not_merged(void **state)
{
    bare *b = *state;
    const char *merged;
    add_two(b);
    hs_graph_collect(b->graph, HS_SUMMARIES, "loss");
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES(merged), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "'loss'");
}

static void bytes_without_data_are_not_merged(void **state)
{
    bare *b = *state;
    const char *merged;
    hs_string strings[2] = {{"", 0}, {NULL, 5}};
    hs_graph_op(b->graph, .name = "own", .run = output_two_strings, .user = strings,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_collect(b->graph, HS_SUMMARIES, "own");
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES(merged), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "'own'");
}

static void a_summary_op_of_the_program_is_the_only_one(void **state)
{
    bare *b = *state;
    add_two(b);
    hs_graph_collect(b->graph, HS_SUMMARY_OP, "summary/a");
    assert_int_equal(hs_graph_merge_all_summaries(b->graph, NULL), HS_ALREADY_EXISTS);
    assert_contains(test_graph_error(b->graph)->message, "'summary/a'");
}

static void the_name_of_the_merging_op_avoids_conflicts(void **state)
{
    bare *b = *state;
    const char *merged;
    bare_op(b, .name = "Merge/MergeSummary");
    hs_graph_merge_all_summaries(b->graph, &merged);
    assert_string_equal(merged, "Merge/MergeSummary_1");
}

static void summaries_that_are_not_fetched_are_not_executed(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "metric", .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    bare_op(b, .name = "train");
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "metric");
    hs_graph_merge_all_summaries(b->graph, NULL);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("train"), NULL, NULL), &b->err);
    assert_string_equal(b->trace, "train");
}

static void after_the_first_runs_a_run_allocates_nothing(void **state)
{
    bare *b = *state;
    const char *merged;
    add_two(b);
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    shown_by(b, merged);
    size_t before = b->t.allocations;
    assert_ok(bare_run(b, HS_NAMES(merged), NULL, NULL), &b->err);
    assert_int_equal(b->t.allocations, before);
}

/* The default summary op of a scaffold. */

static const char *default_op(bare *b, hs_scaffold **scaffold)
{
    *scaffold = hs_scaffold_new(NULL, NULL);
    assert_ok(hs_scaffold_finalize(*scaffold, hs_graph_backend(b->graph), &b->err), &b->err);
    return hs_scaffold_fields(*scaffold)->summary_op;
}

static void a_scaffold_merges_all_summaries(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold;
    add_two(b);
    const char *merged = default_op(b, &scaffold);
    assert_non_null(merged);
    assert_ok(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &b->session, &b->err), &b->err);
    assert_string_equal(shown_by(b, merged), "a=0.5,b=0.5");
    hs_scaffold_free(scaffold);
}

static void a_second_scaffold_uses_the_same_op(void **state)
{
    bare *b = *state;
    hs_scaffold *first, *second;
    add_two(b);
    const char *merged = default_op(b, &first);
    size_t nodes = b->graph->n_nodes;
    assert_string_equal(default_op(b, &second), merged);
    assert_int_equal(b->graph->n_nodes, nodes);
    hs_scaffold_free(first);
    hs_scaffold_free(second);
}

static void without_summaries_a_scaffold_has_no_summary_op(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold;
    shown_add_loss(b);
    assert_null(default_op(b, &scaffold));
    hs_scaffold_free(scaffold);
}

static void a_scaffold_uses_the_programs_summary_op(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold;
    add_two(b);
    hs_graph_collect(b->graph, HS_SUMMARY_OP, "summary/b");
    assert_string_equal(default_op(b, &scaffold), "summary/b");
    assert_null(b->graph->merge_summaries);
    hs_scaffold_free(scaffold);
}

static void a_graph_in_use_is_not_changed(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold;
    add_two(b);
    bare_open(b);
    size_t nodes = b->graph->n_nodes;
    assert_null(default_op(b, &scaffold));
    assert_int_equal(b->graph->n_nodes, nodes);
    assert_true(test_env_logged(&b->t, "not merged"));
    hs_scaffold_free(scaffold);
}

/* Several sessions. */

static void sessions_have_separate_values(void **state)
{
    bare *b = *state;
    const char *merged;
    hs_node node;
    hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = "w", .dtype = HS_DOUBLE, .shape = HS_SCALAR));
    hs_graph_op(b->graph, .name = "bump", .run = bare_bump, .writes = HS_NAMES("w"));
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "w");
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    void *first = b->session, *second;
    assert_ok(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &second, &b->err), &b->err);
    assert_ok(b->ops->find(b->graph, merged, &node, &b->err), &b->err);
    assert_ok(bare_run(b, HS_NAMES("init"), NULL, NULL), &b->err);
    hs_tensor value;
    hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .values = &value};
    assert_ok(b->ops->run(first, &call, &b->err), &b->err);
    const hs_tensor of_first = value;
    b->session = second;
    assert_ok(bare_run(b, HS_NAMES("init"), NULL, NULL), &b->err);
    assert_ok(bare_run(b, HS_NAMES("bump"), NULL, NULL), &b->err);
    assert_string_equal(shown_by(b, merged), "s=1");
    assert_string_equal(shown_text(&of_first), "s=0");
    b->ops->close(second, NULL);
    b->session = first;
}

static hs_code build_and_run(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_graph *graph = hs_graph_new(&t->env);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &shown_loss);
    hs_graph_summary(graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "loss");
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.env = &t->env), &err);
    hs_backend backend = hs_graph_backend(graph);
    hs_code code = scaffold ? hs_scaffold_finalize(scaffold, backend, &err) : err.code;
    void *session = NULL;
    hs_node node;
    hs_tensor value;
    if (!code && !(code = backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err)) &&
        !(code = hs_backend_find(backend, hs_scaffold_fields(scaffold)->summary_op, &node, &err))) {
        hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .values = &value};
        code = backend.ops->run(session, &call, &err);
    }
    if (!code)
        assert_string_equal(shown_text(&value), "s=0.5");
    if (session)
        backend.ops->close(session, NULL);
    hs_scaffold_free(scaffold);
    hs_graph_free(graph);
    return code;
}

static void every_allocation(void **state)
{
    (void)state;
    shown_loss = 0.5;
    test_each_allocation(build_and_run, NULL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(all_are_merged),
        test(merging_twice_adds_one_op),
        test(summaries_that_are_added_later_are_merged),
        test(merging_no_summaries_gives_an_empty_summary),
        test(a_summary_that_is_collected_twice_is_merged_once),
        test(a_summary_in_no_collection_is_not_merged),
        test(ops_of_the_program_are_merged),
        test(bytes_that_are_not_a_summary_are_not_merged),
        test(bytes_without_data_are_not_merged),
        test(a_summary_op_of_the_program_is_the_only_one),
        test(the_name_of_the_merging_op_avoids_conflicts),
        test(summaries_that_are_not_fetched_are_not_executed),
        test(after_the_first_runs_a_run_allocates_nothing),
        test(a_scaffold_merges_all_summaries),
        test(a_second_scaffold_uses_the_same_op),
        test(without_summaries_a_scaffold_has_no_summary_op),
        test(a_scaffold_uses_the_programs_summary_op),
        test(a_graph_in_use_is_not_changed),
        test(sessions_have_separate_values),
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
