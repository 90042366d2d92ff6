/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of fetches: their shapes, their plans, and invalid trees. */
#include "session/probe.h"

static hs_code fetch(play *p, const hs_fetch *fetches)
{
    if (!p->session)
        play_open(p, NULL, 0);
    return play_args(p, HS_RUN_ARGS(.fetches = fetches));
}

static void values_have_the_shape_of_their_fetches(void **state)
{
    play *p = *state;
    assert_ok(
        fetch(p, HS_DICT({"train", HS_LEAF("train")}, {"all", HS_LIST(HS_LEAF("five"), HS_DICT({"x", HS_LEAF("ten")}))})),
        &p->err);
    assert_int_equal(hs_run_values_count(p->values), 3);
    assert_null(hs_run_values_tensor(p->values, 0)); /* an op */
    assert_true(hs_run_values_number(p->values, 1) == 5);
    assert_true(hs_run_values_number_at(p->values, "all/0") == 5);
    assert_true(hs_run_values_number_at(p->values, "all/1/x") == 10);
    assert_null(hs_run_values_tensor_at(p->values, "train"));
    assert_null(hs_run_values_tensor_at(p->values, "all"));
    assert_null(hs_run_values_tensor_at(p->values, "all/1/y"));
}

static void a_leaf_alone_is_a_tree(void **state)
{
    play *p = *state;
    assert_ok(fetch(p, HS_LEAF("five")), &p->err);
    assert_int_equal(hs_run_values_count(p->values), 1);
    assert_true(hs_run_values_number(p->values, 0) == 5);
    assert_true(hs_run_values_number_at(p->values, "") == 5);
}

static void empty_trees_have_no_leaves(void **state)
{
    play *p = *state;
    const hs_fetch no_items = {.kind = HS_FETCH_LIST}, no_entries = {.kind = HS_FETCH_DICT};
    for (int i = 0; i < 2; i++) { /* the second time their plans exist */
        assert_ok(fetch(p, &no_items), &p->err);
        assert_int_equal(hs_run_values_count(p->values), 0);
        assert_ok(fetch(p, &no_entries), &p->err);
        assert_ok(fetch(p, HS_LIST(&no_items, &no_entries)), &p->err);
        assert_int_equal(hs_run_values_count(p->values), 0);
    }
}

static void a_flat_list_names_its_leaves(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_ok(play_run(p, HS_NAMES("ten", "five", "ten"), NULL), &p->err);
    assert_int_equal(hs_run_values_count(p->values), 3);
    assert_true(hs_run_values_number_at(p->values, "five") == 5);
    assert_true(hs_run_values_number(p->values, 2) == 10);
    assert_null(hs_run_values_tensor(p->values, 3));
    assert_null(hs_run_values_tensor_at(p->values, NULL));
}

static void loss_and_loss_0_are_one_fetch(void **state)
{
    play *p = *state;
    play_probe(p, a, .wants = HS_RUN_ARGS(.names = HS_NAMES("five:0")));
    play_open_probes(p, 1);
    assert_ok(play_run(p, HS_NAMES("five", "five:0", "five"), NULL), &p->err);
    assert_string_equal(hs_script_last_run(p->script), "fetch five; feed");
    assert_ptr_equal(hs_run_values_tensor(p->values, 0), hs_run_values_tensor(p->values, 1));
    assert_true(p->a.number == 5);
}

/* The caller may change the args in place between runs. */
static void args_at_the_same_address_are_read_again(void **state)
{
    play *p = *state;
    const char *names[] = {"five", NULL, NULL};
    char text[8];
    hs_run_args args = HS_INIT(hs_run_args, .names = names);
    play_open(p, NULL, 0);
    for (int i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "%s", i % 2 ? "ten" : "five");
        names[0] = text;
        names[1] = i % 3 == 2 ? "five" : NULL;
        assert_ok(play_args(p, &args), &p->err);
        assert_int_equal(hs_run_values_count(p->values), i % 3 == 2 ? 2 : 1);
        assert_true(hs_run_values_number(p->values, 0) == (i % 2 ? 10 : 5));
    }
}

static void equal_args_at_other_addresses_are_known(void **state)
{
    play *p = *state;
    assert_ok(fetch(p, HS_DICT({"x", HS_LIST(HS_LEAF("five"), HS_LEAF("ten"))})), &p->err);
    size_t before = p->t.allocations;
    for (int i = 0; i < 10; i++) {
        char *name = strdup("five"), *key = strdup("x");
        hs_script_clear_calls(p->script);
        assert_ok(fetch(p, HS_DICT({key, HS_LIST(HS_LEAF(name), HS_LEAF("ten"))})), &p->err);
        assert_true(hs_run_values_number_at(p->values, "x/0") == 5);
        free(name);
        free(key);
    }
    assert_int_equal(p->t.allocations, before);
}

/* Trees that differ in one detail each. */
static void similar_trees_are_distinguished(void **state)
{
    play *p = *state;
    const hs_fetch *trees[] = {
        HS_LIST(HS_LEAF("five"), HS_LEAF("ten")),
        HS_LIST(HS_LEAF("ten"), HS_LEAF("five")),
        HS_LIST(HS_LEAF("five")),
        HS_LIST(HS_LIST(HS_LEAF("five"), HS_LEAF("ten"))),
        HS_LIST(HS_LIST(HS_LEAF("five")), HS_LEAF("ten")),
        HS_DICT({"0", HS_LEAF("five")}, {"1", HS_LEAF("ten")}),
        HS_DICT({"0", HS_LEAF("five")}, {"2", HS_LEAF("ten")}),
        HS_LEAF("five"),
    };
    static const char *const paths[] = {"1", "0", "0", "0/1", "0/0", "1", "2", ""};
    static const double numbers[] = {10, 10, 5, 10, 5, 10, 10, 5};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
            assert_ok(fetch(p, trees[i]), &p->err);
            assert_true(hs_run_values_number_at(p->values, paths[i]) == numbers[i]);
        }
}

static void a_list_and_a_tree_of_the_same_names_differ(void **state)
{
    play *p = *state;
    for (int i = 0; i < 2; i++) {
        assert_ok(fetch(p, HS_LIST(HS_LEAF("five"))), &p->err);
        assert_true(hs_run_values_number_at(p->values, "0") == 5);
        assert_ok(play_run(p, HS_NAMES("five"), NULL), &p->err);
        assert_true(hs_run_values_number_at(p->values, "five") == 5);
        assert_ok(play_run(p, NULL, NULL), &p->err);
        assert_int_equal(hs_run_values_count(p->values), 0);
    }
}

/* More plans than are kept. The hook requests the same fetch in every run and gets its value. */
static void thousands_of_different_args_are_used(void **state)
{
    play *p = *state;
    play_probe(p, a, .wants = HS_RUN_ARGS(.names = HS_NAMES("ten")));
    play_open_probes(p, 1);
    char key[16];
    size_t live[2] = {0, 0};
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof key, "key%d", i % 5000);
        assert_ok(fetch(p, HS_DICT({key, HS_LEAF("five")})), &p->err);
        assert_true(hs_run_values_number_at(p->values, key) == 5);
        assert_true(p->a.number == 10);
        if (i % 5000 == 4999)
            live[i / 5000] = p->t.live;
    }
    assert_int_equal(live[0], live[1]); /* memory does not grow */
}

/* All 2^13 lists of two names make as many plans, with the text of one. */
static void the_memory_of_many_plans_is_bounded(void **state)
{
    play *p = *state;
    const char *names[14] = {NULL};
    size_t live = 0;
    play_open(p, NULL, 0);
    for (unsigned i = 0; i < 8192; i++) {
        for (unsigned bit = 0; bit < 13; bit++)
            names[bit] = i >> bit & 1 ? "five" : "ten";
        assert_ok(play_run(p, names, NULL), &p->err);
        assert_true(hs_run_values_number(p->values, 3) == (i >> 3 & 1 ? 5 : 10));
        if (i == 5000)
            live = p->t.live;
    }
    assert_int_equal(p->t.live, live);
}

static hs_code ask_for_thousands(probe *p, const probe_call *call)
{
    const char *names[14] = {NULL};
    for (unsigned i = 0; call->point == PROBE_BEFORE && i < 5000; i++) {
        for (unsigned bit = 0; bit < 13; bit++)
            names[bit] = i >> bit & 1 ? "five" : "ten";
        assert_ok(hs_raw_session_run(p->raw, HS_RUN_ARGS(.names = names), NULL, call->err), call->err);
    }
    return HS_OK;
}

/* The caller's plan is kept, however many fetches its hooks request in the run. */
static void a_hook_may_request_thousands_of_fetches_in_a_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .wants = HS_RUN_ARGS(.names = HS_NAMES("ten", "five")));
    play_probe(p, b, .act = ask_for_thousands);
    play_open_probes(p, 2);
    assert_true(play_number(p, "five") == 5);
    assert_true(p->a.number == 10);
}

/* Each hook's fetches differ, so that the run's list grows several times. */
enum { WISHES = 20 };

static hs_code check_wishes(probe *p, const probe_call *call)
{
    const int *first = p->user;
    for (int i = 0; call->point == PROBE_AFTER && i < WISHES; i++)
        assert_true(hs_run_values_number(call->values, (size_t)i) == *first + i);
    return HS_OK;
}

static void hooks_may_request_many_different_fetches(void **state)
{
    play *p = *state;
    static const int firsts[] = {0, WISHES, 2 * WISHES};
    static char names[3 * WISHES][16];
    const char *lists[3][WISHES + 1] = {{NULL}};
    double numbers[3 * WISHES];
    hs_run_args wants[3];
    for (int i = 0; i < 3 * WISHES; i++) {
        numbers[i] = i;
        snprintf(names[i], sizeof names[i], "n%d", i);
        hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &numbers[i]);
        assert_int_equal(hs_script_constant(p->script, names[i], &value), HS_OK);
        lists[i / WISHES][i % WISHES] = names[i];
    }
    for (int i = 0; i < 3; i++)
        wants[i] = *HS_RUN_ARGS(.names = lists[i]);
    play_probe(p, a, .wants = &wants[0], .act = check_wishes, .user = (void *)&firsts[0]);
    play_probe(p, b, .wants = &wants[1], .act = check_wishes, .user = (void *)&firsts[1]);
    play_probe(p, c, .wants = &wants[2], .act = check_wishes, .user = (void *)&firsts[2]);
    play_open_probes(p, 3);
    play_train(p);
}

/* A discarded plan is made again. */
static void a_hook_gets_its_fetches_after_a_long_pause(void **state)
{
    play *p = *state;
    const hs_run_args ten = HS_INIT(hs_run_args, .names = HS_NAMES("ten"));
    char key[16];
    play_open_probes(p, 1);
    for (int i = 0; i <= 5000; i++) {
        p->a.wants = i % 5000 ? NULL : &ten;
        snprintf(key, sizeof key, "key%d", i);
        assert_ok(fetch(p, HS_DICT({key, HS_LEAF("five")})), &p->err);
    }
    assert_true(p->a.number == 10);
}

static void hundreds_of_names_are_distinguished(void **state)
{
    play *p = *state;
    enum { N = 300 };
    char name[16];
    double numbers[N];
    for (int i = 0; i < N; i++) {
        numbers[i] = i;
        snprintf(name, sizeof name, "n%d", i);
        hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &numbers[i]);
        assert_int_equal(hs_script_constant(p->script, name, &value), HS_OK);
    }
    play_open(p, NULL, 0);
    for (int i = 0; i < 2 * N; i++) {
        snprintf(name, sizeof name, i % 3 ? "n%d" : "n%d:0", i % N);
        assert_true(play_number(p, name) == i % N);
    }
}

/* Depth and size. */

static hs_fetch nested[HS_MAX_FETCH_DEPTH + 2];

/* A leaf under `depth` lists. */
static const hs_fetch *deep(size_t depth)
{
    static const hs_fetch *items[HS_MAX_FETCH_DEPTH + 2][2];
    nested[depth] = (hs_fetch){.kind = HS_FETCH_LEAF, .name = "five"};
    for (size_t i = depth; i-- > 0;) {
        items[i][0] = &nested[i + 1];
        nested[i] = (hs_fetch){.kind = HS_FETCH_LIST, .items = items[i]};
    }
    return nested;
}

static void a_tree_may_be_a_thousand_deep(void **state)
{
    play *p = *state;
    for (int i = 0; i < 2; i++) {
        assert_ok(fetch(p, deep(HS_MAX_FETCH_DEPTH)), &p->err);
        assert_true(hs_run_values_number(p->values, 0) == 5);
        assert_fails(fetch(p, deep(HS_MAX_FETCH_DEPTH + 1)), HS_INVALID_ARGUMENT, &p->err, "nested too deep");
    }
}

static void a_tree_that_contains_itself_is_refused(void **state)
{
    play *p = *state;
    hs_fetch list = {.kind = HS_FETCH_LIST}, dict = {.kind = HS_FETCH_DICT};
    const hs_fetch *items[] = {HS_LEAF("five"), &list, &list, NULL};
    const hs_fetch_entry entries[] = {{"a", HS_LEAF("five")}, {"b", &dict}, {NULL, NULL}};
    list.items = items;
    dict.entries = entries;
    assert_fails(fetch(p, &list), HS_INVALID_ARGUMENT, &p->err, "check that they do not contain themselves");
    assert_fails(fetch(p, &dict), HS_INVALID_ARGUMENT, &p->err, "check that they do not contain themselves");
    assert_true(play_number(p, "five") == 5);
}

/* Without a cycle, but with 2^60 leaves. */
static void a_tree_that_unfolds_without_end_is_refused(void **state)
{
    play *p = *state;
    const hs_fetch *leaf = HS_LEAF("five");
    hs_fetch level[60];
    const hs_fetch *items[60][3];
    for (size_t i = 0; i < 60; i++) {
        const hs_fetch *below = i ? &level[i - 1] : leaf;
        items[i][0] = items[i][1] = below;
        items[i][2] = NULL;
        level[i] = (hs_fetch){.kind = HS_FETCH_LIST, .items = items[i]};
    }
    assert_fails(fetch(p, &level[59]), HS_INVALID_ARGUMENT, &p->err, "too many");
}

/* Nonsense. */

static void duplicate_keys_are_refused(void **state)
{
    play *p = *state;
    const hs_fetch *trees[] = {
        HS_DICT({"k", HS_LEAF("five")}, {"k", HS_LEAF("ten")}),
        HS_LIST(HS_DICT({"k", HS_LEAF("five")}, {"x", HS_LEAF("five")}, {"k", HS_LEAF("five")})),
        HS_DICT({"k", HS_LIST(HS_LEAF("five"))}, {"k", HS_LIST(HS_LEAF("ten"))}),
        HS_DICT({"k", HS_DICT({"x", HS_LEAF("five")})}, {"k", HS_DICT({"y", HS_LEAF("ten")})}),
        HS_DICT({"k", HS_LEAF("five")}, {"k", HS_DICT({"y", HS_LEAF("ten")})}),
    };
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        assert_fails(fetch(p, trees[i]), HS_INVALID_ARGUMENT, &p->err, "k' is listed twice");
    assert_ok(fetch(p, HS_DICT({"a", HS_DICT({"k", HS_LEAF("five")})}, {"k", HS_LEAF("ten")})), &p->err);
}

static void keys_that_make_no_path_are_refused(void **state)
{
    play *p = *state;
    assert_fails(fetch(p, HS_DICT({"", HS_LEAF("five")})), HS_INVALID_ARGUMENT, &p->err, "key ''");
    assert_fails(fetch(p, HS_DICT({"a/b", HS_LEAF("five")})), HS_INVALID_ARGUMENT, &p->err, "key 'a/b'");
}

static void invalid_nodes_are_refused(void **state)
{
    play *p = *state;
    const hs_fetch no_kind = {.name = "five"}, no_name = {.kind = HS_FETCH_LEAF}, other = {.kind = (hs_fetch_kind)7};
    const hs_fetch *lists[] = {HS_LIST(HS_LEAF("five"), &no_kind), HS_LIST(HS_LEAF("five"), &no_name),
                               HS_LIST(HS_LEAF("five"), &other), HS_DICT({"x", HS_LEAF("five")}, {"y", NULL})};
    assert_ok(fetch(p, HS_LIST(HS_LEAF("five"))), &p->err); /* the trees are first compared to this one */
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_int_equal(fetch(p, lists[i]), HS_INVALID_ARGUMENT);
    assert_ok(fetch(p, HS_DICT({"x", HS_LEAF("five")})), &p->err);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_int_equal(fetch(p, lists[i]), HS_INVALID_ARGUMENT);
    assert_int_equal(fetch(p, &no_kind), HS_INVALID_ARGUMENT);
}

/* Whether or not a plan of the tree exists. */
static void names_and_fetches_at_once_are_refused(void **state)
{
    play *p = *state;
    const hs_fetch *tree = HS_LIST(HS_LEAF("five"));
    hs_run_args both = HS_INIT(hs_run_args, .fetches = tree, .names = HS_NAMES("five"));
    play_open(p, NULL, 0);
    for (int i = 0; i < 2; i++) {
        assert_fails(play_args(p, &both), HS_INVALID_ARGUMENT, &p->err, "both names and fetches");
        assert_ok(fetch(p, tree), &p->err);
    }
}

static void the_error_of_a_missing_name_says_who_requested_it(void **state)
{
    play *p = *state;
    play_probe(p, b, .wants = HS_RUN_ARGS(.names = HS_NAMES("lost")));
    play_open_probes(p, 2);
    assert_fails(hs_session_run(p->session, "train", &p->err), HS_NOT_FOUND, &p->err, "hook 'b', before_run");
    assert_contains(p->err.message, "'lost' is not in the ");
    assert_lacks(p->err.message, "meant"); /* no defined name is similar */
    assert_fails(hs_session_run(p->session, "gone", &p->err), HS_NOT_FOUND, &p->err, "'gone'");
}

/* Hooks with different schedules make no plan for each combination. */
static const hs_run_args asks = HS_INIT(hs_run_args, .names = HS_NAMES("five"));

static hs_code ask_sometimes(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER)
        p->wants = p->calls[PROBE_AFTER] % (size_t)(intptr_t)p->user ? NULL : &asks;
    return HS_OK;
}

static void hooks_may_request_fetches_in_some_runs_only(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = ask_sometimes, .user = (void *)(intptr_t)2);
    play_probe(p, b, .act = ask_sometimes, .user = (void *)(intptr_t)3);
    play_open_probes(p, 2);
    for (int i = 0; i < 12; i++) {
        play_train(p);
        bool asked = i && (i % 2 == 0 || i % 3 == 0);
        assert_string_equal(hs_script_last_run(p->script), asked ? "fetch train five; feed" : "fetch train; feed");
        assert_true((i && i % 2 == 0) == (p->a.number == 5)); /* NaN in the other runs */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(values_have_the_shape_of_their_fetches),
        play_test(a_leaf_alone_is_a_tree),
        play_test(empty_trees_have_no_leaves),
        play_test(a_flat_list_names_its_leaves),
        play_test(loss_and_loss_0_are_one_fetch),
        play_test(args_at_the_same_address_are_read_again),
        play_test(equal_args_at_other_addresses_are_known),
        play_test(similar_trees_are_distinguished),
        play_test(a_list_and_a_tree_of_the_same_names_differ),
        play_test(thousands_of_different_args_are_used),
        play_test(the_memory_of_many_plans_is_bounded),
        play_test(a_hook_may_request_thousands_of_fetches_in_a_run),
        play_test(hooks_may_request_many_different_fetches),
        play_test(a_hook_gets_its_fetches_after_a_long_pause),
        play_test(hundreds_of_names_are_distinguished),
        play_test(a_tree_may_be_a_thousand_deep),
        play_test(a_tree_that_contains_itself_is_refused),
        play_test(a_tree_that_unfolds_without_end_is_refused),
        play_test(duplicate_keys_are_refused),
        play_test(keys_that_make_no_path_are_refused),
        play_test(invalid_nodes_are_refused),
        play_test(names_and_fetches_at_once_are_refused),
        play_test(the_error_of_a_missing_name_says_who_requested_it),
        play_test(hooks_may_request_fetches_in_some_runs_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
