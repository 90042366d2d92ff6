/* SPDX-License-Identifier: Apache-2.0 */
/* Run args that are built step by step and own their contents. */
#include "session/probe.h"

static void names_are_appended_to_a_flat_list(void **state)
{
    (void)state;
    hs_run_args args = HS_INIT(hs_run_args);
    char name[] = "loss";
    assert_int_equal(hs_run_args_fetch(&args, NULL, name, NULL), HS_OK);
    name[0] = '?'; /* it was copied */
    assert_int_equal(hs_run_args_fetch(&args, NULL, "train", NULL), HS_OK);
    assert_string_equal(args.names[0], "loss");
    assert_string_equal(args.names[1], "train");
    assert_null(args.names[2]);
    assert_null(args.fetches);
    hs_run_args_clear(&args);
}

static void paths_make_a_tree(void **state)
{
    (void)state;
    hs_run_args args = HS_INIT(hs_run_args);
    assert_int_equal(hs_run_args_fetch(&args, "metrics/loss", "l", NULL), HS_OK);
    assert_int_equal(hs_run_args_fetch(&args, "train", "t", NULL), HS_OK);
    assert_int_equal(hs_run_args_fetch(&args, "metrics/accuracy", "a", NULL), HS_OK);
    assert_int_equal(args.fetches->kind, HS_FETCH_DICT);
    assert_string_equal(args.fetches->entries[0].key, "metrics");
    assert_string_equal(args.fetches->entries[1].value->name, "t");
    assert_null(args.fetches->entries[2].key);
    const hs_fetch *metrics = args.fetches->entries[0].value;
    assert_string_equal(metrics->entries[1].key, "accuracy");
    assert_string_equal(metrics->entries[1].value->name, "a");
    hs_run_args_clear(&args);
}

static void a_path_is_taken_once(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_run_args args = HS_INIT(hs_run_args);
    hs_run_args_fetch(&args, "metrics/loss", "l", NULL);
    assert_fails(hs_run_args_fetch(&args, "metrics/loss", "x", &err), HS_ALREADY_EXISTS, &err,
                 "'metrics/loss' already has a fetch");
    assert_int_equal(hs_run_args_fetch(&args, "metrics", "x", &err), HS_ALREADY_EXISTS);
    assert_int_equal(hs_run_args_fetch(&args, "metrics/loss/deeper", "x", &err), HS_ALREADY_EXISTS);
    assert_int_equal(hs_run_args_fetch(&args, "metrics/los", "x", &err), HS_OK);
    assert_int_equal(err.code, HS_OK);
    hs_run_args_clear(&args);
}

static void paths_with_empty_keys_are_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_run_args args = HS_INIT(hs_run_args);
    for (const char *const *path = HS_NAMES("", "/x", "x/", "x//y", "/"); *path; path++)
        assert_fails(hs_run_args_fetch(&args, *path, "l", &err), HS_INVALID_ARGUMENT, &err, "has an empty key");
    hs_run_args_clear(&args);
}

static void lists_and_paths_do_not_mix(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_run_args flat = HS_INIT(hs_run_args), tree = HS_INIT(hs_run_args);
    hs_run_args_fetch(&flat, NULL, "a", NULL);
    hs_run_args_fetch(&tree, "x", "a", NULL);
    assert_fails(hs_run_args_fetch(&flat, "x", "b", &err), HS_INVALID_ARGUMENT, &err,
                 "cannot mix fetches with a path and fetches without a path ('b')");
    assert_fails(hs_run_args_fetch(&tree, NULL, "b", &err), HS_INVALID_ARGUMENT, &err,
                 "cannot mix fetches with a path and fetches without a path (");
    hs_run_args_clear(&flat);
    hs_run_args_clear(&tree);
}

static void a_feed_is_added_or_replaced(void **state)
{
    (void)state;
    const double one = 1, two = 2;
    hs_error err;
    hs_run_args args = HS_INIT(hs_run_args);
    hs_feed first = play_feed("x", &one), second = play_feed("x", &two);
    assert_ok(hs_run_args_feed(&args, "x", &first.value, &err), &err);
    assert_ok(hs_run_args_feed(&args, "y", &first.value, &err), &err);
    assert_ok(hs_run_args_feed(&args, "x", &second.value, &err), &err);
    assert_ptr_equal(args.feeds[0].value.data, &two);
    assert_string_equal(args.feeds[1].name, "y");
    assert_null(args.feeds[2].name);
    hs_run_args_clear(&args);
}

static void clearing_leaves_empty_args(void **state)
{
    (void)state;
    const double one = 1;
    hs_feed feed = play_feed("x", &one);
    hs_run_args args = HS_INIT(hs_run_args, .kind = HS_RUN_EVAL);
    hs_run_args_fetch(&args, "a/b/c", "x", NULL);
    hs_run_args_feed(&args, "x", &feed.value, NULL);
    hs_run_args_clear(&args);
    assert_true(!args.names && !args.fetches && !args.feeds && !args.built);
    assert_int_equal(args.kind, HS_RUN_EVAL);
    hs_run_args_clear(&args);
    hs_run_args_clear(NULL);
    assert_int_equal(hs_run_args_fetch(&args, NULL, "x", NULL), HS_OK); /* and can be filled again */
    hs_run_args_clear(&args);
    assert_true(!args.names && !args.built);
}

static void args_made_by_hand_are_not_added_to(void **state)
{
    (void)state;
    const double one = 1;
    hs_error err = {0};
    hs_feed feeds[] = {play_feed("x", &one), {NULL}};
    hs_run_args by_hand[] = {HS_INIT(hs_run_args, .names = HS_NAMES("x")), HS_INIT(hs_run_args, .fetches = HS_LEAF("x")),
                             HS_INIT(hs_run_args, .feeds = feeds)};
    for (int i = 0; i < 3; i++) {
        assert_fails(hs_run_args_fetch(&by_hand[i], NULL, "y", &err), HS_FAILED_PRECONDITION, &err,
                     "the program has set itself");
        assert_fails(hs_run_args_feed(&by_hand[i], "y", &feeds[0].value, &err), HS_FAILED_PRECONDITION, &err,
                     "the program has set itself");
    }
}

static void built_args_that_were_changed_by_hand_are_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_run_args args = HS_INIT(hs_run_args);
    hs_run_args_fetch(&args, NULL, "x", NULL);
    const char *const *built = args.names;
    args.names = HS_NAMES("y");
    assert_fails(hs_run_args_fetch(&args, NULL, "z", &err), HS_FAILED_PRECONDITION, &err, "the program has set itself");
    args.names = built;
    assert_int_equal(hs_run_args_fetch(&args, NULL, "z", &err), HS_OK);
    hs_run_args_clear(&args);
}

static void nulls_are_refused(void **state)
{
    (void)state;
    const double one = 1;
    hs_error err = {0};
    hs_feed feed = play_feed("x", &one);
    hs_run_args args = HS_INIT(hs_run_args), no_size = {0};
    assert_fails(hs_run_args_fetch(&args, NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "name is NULL");
    assert_fails(hs_run_args_feed(&args, NULL, &feed.value, &err), HS_INVALID_ARGUMENT, &err, "name is NULL");
    assert_fails(hs_run_args_feed(&args, "x", NULL, &err), HS_INVALID_ARGUMENT, &err, "hs_run_args_feed: value is NULL");
    assert_fails(hs_run_args_fetch(NULL, NULL, "x", &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_run_args");
    assert_fails(hs_run_args_fetch(&no_size, NULL, "x", &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_run_args");
    assert_fails(hs_run_args_feed(&no_size, "x", &feed.value, &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_run_args");
    assert_null(args.built);
}

/* After a refused call the args can still be used. */
static void a_failed_step_leaves_the_rest(void **state)
{
    play *p = *state;
    hs_run_args args = HS_INIT(hs_run_args);
    hs_run_args_fetch(&args, "five", "five", NULL);
    hs_run_args_fetch(&args, "five", "ten", NULL);
    hs_run_args_fetch(&args, "x//", "ten", NULL);
    play_open(p, NULL, 0);
    assert_int_equal(play_args(p, &args), HS_OK);
    assert_true(hs_run_values_number_at(p->values, "five") == 5);
    hs_run_args_clear(&args);
}

static void built_args_are_run(void **state)
{
    play *p = *state;
    const double x = 3;
    hs_feed feed = play_feed("a", &x);
    hs_run_args args = HS_INIT(hs_run_args);
    hs_run_args_fetch(&args, "in/a", "a", NULL);
    hs_run_args_fetch(&args, "in/five", "five", NULL);
    hs_run_args_feed(&args, "a", &feed.value, NULL);
    play_open(p, NULL, 0);
    assert_ok(play_args(p, &args), &p->err);
    assert_true(hs_run_values_number_at(p->values, "in/a") == 3);
    hs_run_args_fetch(&args, "ten", "ten", NULL); /* the same object grows between two runs */
    assert_ok(play_args(p, &args), &p->err);
    assert_true(hs_run_values_number_at(p->values, "ten") == 10);
    hs_run_args_clear(&args);
}

/* The args' memory comes from the default environment. */
static const hs_env *default_env;

const hs_env *__wrap_hs_env_default(void);
const hs_env *__real_hs_env_default(void);

const hs_env *__wrap_hs_env_default(void)
{
    return default_env ? default_env : __real_hs_env_default();
}

static hs_code build_with(test_env *t, void *user)
{
    hs_run_args flat = HS_INIT(hs_run_args), tree = HS_INIT(hs_run_args);
    double x = 1;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &x);
    (void)user;
    default_env = &t->env;
    hs_code code = hs_run_args_fetch(&flat, NULL, "loss", NULL);
    if (!code)
        code = hs_run_args_feed(&flat, "x", &value, NULL);
    if (!code)
        code = hs_run_args_fetch(&tree, "metrics/loss", "l", NULL);
    hs_run_args_clear(&flat);
    hs_run_args_clear(&tree);
    default_env = NULL;
    return code;
}

static void each_allocation_of_built_args(void **state)
{
    (void)state;
    test_each_allocation(build_with, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_appended_to_a_flat_list),
        cmocka_unit_test(paths_make_a_tree),
        cmocka_unit_test(a_path_is_taken_once),
        cmocka_unit_test(paths_with_empty_keys_are_refused),
        cmocka_unit_test(lists_and_paths_do_not_mix),
        cmocka_unit_test(a_feed_is_added_or_replaced),
        cmocka_unit_test(clearing_leaves_empty_args),
        cmocka_unit_test(args_made_by_hand_are_not_added_to),
        cmocka_unit_test(built_args_that_were_changed_by_hand_are_refused),
        cmocka_unit_test(nulls_are_refused),
        cmocka_unit_test(each_allocation_of_built_args),
        play_test(a_failed_step_leaves_the_rest),
        play_test(built_args_are_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
