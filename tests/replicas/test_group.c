/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a group: without a group, with an engine that lacks functions, and with an engine that fails. */
#include "support/test.h"

#include "ranks/group.h"

/* An engine of one process that counts its calls and returns `code`. */
typedef struct engine {
    int32_t rank, rank_count;
    hs_code code;
    int n_calls, n_reports;
    size_t n_words;
    hs_error reason;
} engine;

static int32_t get_rank(void *self)
{
    return ((engine *)self)->rank;
}

static int32_t get_rank_count(void *self)
{
    return ((engine *)self)->rank_count;
}

static hs_code allreduce_or(void *self, uint64_t *words, size_t n, hs_error *err)
{
    engine *e = self;
    (void)err;
    e->n_calls++;
    e->n_words = n;
    for (size_t i = 0; i < n; i++)
        words[i] |= 1;
    return e->code;
}

static hs_code broadcast(void *self, void *data, size_t bytes, int32_t root, hs_error *err)
{
    engine *e = self;
    (void)root, (void)err;
    e->n_calls++;
    memset(data, 7, bytes);
    return e->code;
}

static hs_code gather(void *self, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err)
{
    engine *e = self;
    e->n_calls++;
    if (e->code)
        return hs_error_set(err, HS_INTERNAL, "the cable is cut");
    for (int32_t rank = 0; rank < e->rank_count && root == e->rank; rank++)
        receive(user, rank, mine);
    return HS_OK;
}

static hs_code barrier(void *self, hs_error *err)
{
    engine *e = self;
    (void)err;
    e->n_calls++;
    return e->code;
}

static void report_exit(void *self, const hs_error *reason)
{
    engine *e = self;
    e->n_reports++;
    e->reason = *reason;
}

static hs_code query_failed_rank(void *self, int32_t *rank, hs_error *err)
{
    engine *e = self;
    (void)err;
    if (e->code)
        *rank = 2;
    return e->code;
}

static const hs_group_ops ops =
    HS_INIT(hs_group_ops, .name = "test", .rank = get_rank, .rank_count = get_rank_count, .allreduce_or = allreduce_or,
            .broadcast = broadcast, .gather = gather, .barrier = barrier, .report_exit = report_exit,
            .query_failed_rank = query_failed_rank);

static hs_error err;

/* Records the ranks and sizes that a gather receives. */
typedef struct {
    char text[64];
} received;

static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    received *to = user;
    size_t used = strlen(to->text);
    snprintf(to->text + used, sizeof to->text - used, "%d:%zu ", (int)rank, bytes.size);
}

static void null_is_a_group_of_one_rank(void **state)
{
    uint64_t words[2] = {5, 6};
    char data[] = "data";
    received got = {""};
    int32_t failed = 9;
    (void)state;
    assert_ok(hs__group_check(NULL, &err), &err);
    assert_int_equal(hs__group_rank(NULL), 0);
    assert_int_equal(hs__group_rank_count(NULL), 1);
    assert_ok(hs__group_allreduce_or(NULL, words, 2, &err), &err);
    assert_true(words[0] == 5 && words[1] == 6);
    assert_ok(hs__group_broadcast(NULL, data, sizeof data, 0, &err), &err);
    assert_string_equal(data, "data");
    assert_ok(hs__group_gather(NULL, (hs_bytes){data, 3}, 0, receive, &got, &err), &err);
    assert_string_equal(got.text, "0:3 ");
    assert_ok(hs__group_barrier(NULL, &err), &err);
    hs__group_report_exit(NULL, NULL);
    assert_ok(hs__group_query_failed_rank(NULL, &failed, &err), &err);
    assert_int_equal(failed, -1);
}

static void calls_reach_the_engine(void **state)
{
    engine e = {.rank = 1, .rank_count = 3};
    const hs_group group = {&ops, &e};
    uint64_t words[8] = {4};
    char data[4];
    received got = {""};
    int32_t failed;
    (void)state;
    assert_ok(hs__group_check(&group, &err), &err);
    assert_int_equal(hs__group_rank(&group), 1);
    assert_int_equal(hs__group_rank_count(&group), 3);
    assert_ok(hs__group_allreduce_or(&group, words, 8, &err), &err);
    assert_true(words[0] == 5 && words[7] == 1);
    assert_ok(hs__group_broadcast(&group, data, sizeof data, 2, NULL), &err);
    assert_int_equal(data[3], 7);
    assert_ok(hs__group_gather(&group, (hs_bytes){data, 4}, 1, receive, &got, &err), &err);
    assert_string_equal(got.text, "0:4 1:4 2:4 ");
    assert_ok(hs__group_barrier(&group, &err), &err);
    assert_int_equal(e.n_calls, 4);
    assert_ok(hs__group_query_failed_rank(&group, &failed, &err), &err);
    assert_int_equal(failed, -1);
    hs__group_report_exit(&group, NULL);
    assert_int_equal(e.reason.code, HS_OK);
    hs__group_report_exit(&group, test_error(HS_INTERNAL, "broken"));
    assert_int_equal(e.n_reports, 2);
    assert_string_equal(e.reason.message, "broken");
}

static void a_failure_of_the_engine_has_a_message(void **state)
{
    engine e = {.rank_count = 3, .code = HS_UNAVAILABLE};
    const hs_group group = {&ops, &e};
    uint64_t word = 0;
    int32_t failed;
    (void)state;
    assert_fails(hs__group_allreduce_or(&group, &word, 1, &err), HS_UNAVAILABLE, &err, "allreduce_or of the group");
    assert_fails(hs__group_broadcast(&group, &word, 1, 0, &err), HS_UNAVAILABLE, &err, "broadcast of the group");
    assert_fails(hs__group_gather(&group, (hs_bytes){0}, 0, receive, NULL, &err), HS_INTERNAL, &err, "the cable is cut");
    assert_fails(hs__group_barrier(&group, &err), HS_UNAVAILABLE, &err, "barrier of the group");
    assert_fails(hs__group_query_failed_rank(&group, &failed, &err), HS_UNAVAILABLE, &err, "failure detector");
    assert_int_equal(failed, 2);
    assert_int_equal(hs__group_allreduce_or(&group, &word, 1, NULL), HS_UNAVAILABLE);
}

static void optional_functions_have_defaults(void **state)
{
    engine e = {.rank_count = 2, .code = HS_OK};
    hs_group_ops few = ops;
    const hs_group group = {&few, &e};
    int32_t failed;
    (void)state;
    few.barrier = NULL;
    few.report_exit = NULL;
    few.query_failed_rank = NULL;
    e.n_words = 9;
    assert_ok(hs__group_check(&group, &err), &err);
    assert_ok(hs__group_barrier(&group, &err), &err);
    assert_int_equal(e.n_calls, 1);
    assert_int_equal(e.n_words, 0);
    e.code = HS_UNAVAILABLE;
    hs__group_report_exit(&group, test_error(HS_INTERNAL, "broken"));
    assert_int_equal(e.n_reports, 0);
    assert_ok(hs__group_query_failed_rank(&group, &failed, &err), &err);
    assert_int_equal(failed, -1);
}

static void invalid_groups_are_refused(void **state)
{
    engine e = {.rank_count = 2};
    hs_group_ops wrong = ops;
    const hs_group none = {NULL, &e}, group = {&wrong, &e};
    (void)state;
    assert_fails(hs__group_check(&none, &err), HS_INVALID_ARGUMENT, &err, "hs_group.ops is NULL");
    wrong.size = sizeof wrong - 1;
    assert_fails(hs__group_check(&group, &err), HS_INVALID_ARGUMENT, &err, "hs_group_ops.size is ");
    wrong = ops;
    wrong.gather = NULL;
    assert_fails(hs__group_check(&group, &err), HS_INVALID_ARGUMENT, &err, "group 'test' lacks");
    wrong = ops;
    wrong.name = NULL;
    assert_fails(hs__group_check(&group, &err), HS_INVALID_ARGUMENT, &err, "group '?' lacks");
    wrong = ops;
    e.rank = 2;
    assert_fails(hs__group_check(&group, &err), HS_INVALID_ARGUMENT, &err, "rank 2 is not in a group of 2 ranks");
    e.rank = -1;
    assert_fails(hs__group_check(&group, &err), HS_INVALID_ARGUMENT, &err, "rank -1 is not in a group");
}

static void invalid_arguments_do_not_reach_the_engine(void **state)
{
    engine e = {.rank_count = 2};
    const hs_group group = {&ops, &e};
    uint64_t words[9] = {0};
    (void)state;
    assert_fails(hs__group_allreduce_or(&group, words, 9, &err), HS_INVALID_ARGUMENT, &err, "9 words");
    assert_fails(hs__group_broadcast(&group, words, 8, 2, &err), HS_INVALID_ARGUMENT, &err, "broadcast: root 2");
    assert_fails(hs__group_gather(&group, (hs_bytes){0}, -1, receive, NULL, &err), HS_INVALID_ARGUMENT, &err,
                 "gather: root -1");
    assert_fails(hs__group_broadcast(NULL, words, 8, 1, &err), HS_INVALID_ARGUMENT, &err, "a group of 1 ranks");
    assert_int_equal(e.n_calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_a_group_of_one_rank),
        cmocka_unit_test(calls_reach_the_engine),
        cmocka_unit_test(a_failure_of_the_engine_has_a_message),
        cmocka_unit_test(optional_functions_have_defaults),
        cmocka_unit_test(invalid_groups_are_refused),
        cmocka_unit_test(invalid_arguments_do_not_reach_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
