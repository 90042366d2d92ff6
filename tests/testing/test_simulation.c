/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated group: exchange of data, schedules, bugs of programs, and faults. */
#include "support/test.h"

#include <hooksess/testing.h>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#define N_SEEDS 32

static hs_error err;

static int32_t rank_of(const hs_group *group)
{
    return group->ops->rank(group->self);
}

static int32_t count_of(const hs_group *group)
{
    return group->ops->rank_count(group->self);
}

static hs_code allreduce(const hs_group *group, uint64_t *words, size_t n, hs_error *error)
{
    return group->ops->allreduce_or(group->self, words, n, error);
}

static hs_code barrier(const hs_group *group, hs_error *error)
{
    return group->ops->barrier(group->self, error);
}

static hs_simulation *simulate(int32_t rank_count, uint64_t seed, hs_rank_main_fn main, void *user)
{
    hs_simulation *simulation;
    assert_clears(&err,
                  simulation = hs_simulation_new(
                      HS_SIMULATION_OPTIONS(.rank_count = rank_count, .seed = seed, .main = main, .user = user), &err));
    return simulation;
}

static void assert_result(hs_simulation *simulation, int32_t rank, int expected)
{
    int result;
    assert_true(hs_simulation_result(simulation, rank, &result));
    assert_int_equal(result, expected);
}

/* Data that the ranks of a test's program share. Ranks run one at a time. */
typedef struct {
    hs_simulation *simulation;
    const char *path;
    hs_code codes[16];
    hs_error errors[16];
    int32_t failed[16]; /* as the detector names it. -1: none */
    int n_past;         /* ranks that got past the call in question */
    int order[16];      /* the ranks in the order in which they began */
    int n_begun;
    int64_t now_ns;
    bool was_killed_after, began_in_2001;
} shared;

static void query(shared *s, const hs_group *group)
{
    hs_error error;
    int32_t rank = rank_of(group);
    s->failed[rank] = -1;
    group->ops->query_failed_rank(group->self, &s->failed[rank], &error);
}

/* Data. */

typedef struct {
    int32_t next; /* the rank that is received next */
    bool wrong;
} received;

static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    received *r = user;
    const unsigned char *data = bytes.data;
    r->wrong |= rank != r->next++ || bytes.size != (size_t)rank * 3;
    for (size_t i = 0; i < bytes.size; i++)
        r->wrong |= data[i] != (unsigned char)(rank + (int32_t)i);
}

/* Makes each call with each root. Returns the number of the first call with a wrong result. */
static int exchange(void *user, const hs_group *group)
{
    int32_t rank = rank_of(group), n = count_of(group);
    hs_error error;
    (void)user;
    for (int32_t root = 0; root < n; root++) {
        uint64_t words[2] = {UINT64_C(1) << rank, (uint64_t)root};
        unsigned char mine[64];
        char text[32] = "";
        double numbers[2] = {rank, 1};
        received all = {0, false};
        if (allreduce(group, words, 2, &error) || words[0] != (UINT64_C(1) << n) - 1 || words[1] != (uint64_t)root)
            return 1;
        if (rank == root)
            snprintf(text, sizeof text, "from %d", (int)root);
        if (group->ops->broadcast(group->self, text, sizeof text, root, &error) || atoi(text + 5) != root)
            return 2;
        for (int32_t i = 0; i < rank * 3; i++)
            mine[i] = (unsigned char)(rank + i);
        if (group->ops->gather(group->self, (hs_bytes){mine, (size_t)rank * 3}, root, receive, &all, &error) || all.wrong ||
            all.next != (rank == root ? n : 0))
            return 3;
        memset(mine, 0xff, sizeof mine);
        if (barrier(group, &error))
            return 4;
        if (hs_simulation_sum(group, numbers, 2, &error) || numbers[0] != n * (n - 1) / 2 || numbers[1] != n)
            return 5;
        if (allreduce(group, NULL, 0, &error) || group->ops->broadcast(group->self, NULL, 0, root, &error))
            return 6;
    }
    return 0;
}

static void each_call_exchanges_data_with_any_seed(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 9; n += 2)
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
            hs_simulation *simulation = simulate(n, seed, exchange, NULL);
            assert_ok(hs_simulation_run(simulation, &err), &err);
            for (int32_t rank = 0; rank < n; rank++) {
                assert_result(simulation, rank, 0);
                assert_int_equal(hs_simulation_collectives(simulation, rank), 7 * n);
            }
            hs_simulation_free(simulation);
        }
}

static int meet_often(void *user, const hs_group *group)
{
    int *n_calls = user;
    hs_error error;
    for (int i = 0; i < *n_calls; i++) {
        uint64_t word = 1;
        if (allreduce(group, &word, 1, &error))
            return 1;
    }
    group->ops->report_exit(group->self, test_error(HS_OK, ""));
    return 0;
}

static void thousands_of_ranks_meet(void **state)
{
    int n_calls = 30;
    const int32_t n = HOOKSESS_TEST_SHARE > 1 ? 64 : 4096;
    (void)state;
    hs_simulation *simulation = simulate(n, 3, meet_often, &n_calls);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    for (int32_t rank = 0; rank < n; rank++)
        assert_result(simulation, rank, 0);
    hs_simulation_free(simulation);
}

/* The schedule. */

static char *trace_of(uint64_t seed)
{
    hs_simulation *simulation = simulate(5, seed, exchange, NULL);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    char *trace = strdup(hs_simulation_trace(simulation));
    hs_simulation_free(simulation);
    return trace;
}

static void the_same_seed_gives_the_same_trace(void **state)
{
    int n_equal = 0;
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        char *first = trace_of(seed), *second = trace_of(seed), *other = trace_of(seed + 1);
        assert_string_equal(first, second);
        n_equal += strcmp(first, other) == 0;
        free(first);
        free(second);
        free(other);
    }
    assert_int_equal(n_equal, 0);
}

static int note_order(void *user, const hs_group *group)
{
    shared *s = user;
    hs_error error;
    s->order[s->n_begun++] = rank_of(group);
    return barrier(group, &error);
}

static void the_seed_selects_the_order_of_the_ranks(void **state)
{
    bool was_first[4] = {false}, was_last[4] = {false};
    (void)state;
    for (uint64_t seed = 0; seed < 64; seed++) {
        shared s = {.n_begun = 0};
        hs_simulation *simulation = simulate(4, seed, note_order, &s);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        was_first[s.order[0]] = was_last[s.order[3]] = true;
        hs_simulation_free(simulation);
    }
    for (int i = 0; i < 4; i++)
        assert_true(was_first[i] && was_last[i]);
}

static void ignore_bytes(void *user, int32_t rank, hs_bytes bytes)
{
    (void)user, (void)rank, (void)bytes;
}

/* Notes whether rank 0 returns before any other rank has called. */
static int broadcast_first(void *user, const hs_group *group)
{
    shared *s = user;
    char byte = 0;
    if (rank_of(group) != 0)
        s->n_begun++;
    hs_code code = group->ops->broadcast(group->self, &byte, 1, 0, &err);
    if (rank_of(group) == 0 && s->n_begun == 0)
        s->n_past++;
    return code;
}

/* The same for a rank that sends. */
static int send_first(void *user, const hs_group *group)
{
    shared *s = user;
    if (rank_of(group) != 1)
        s->n_begun++;
    hs_code code = group->ops->gather(group->self, (hs_bytes){NULL, 0}, 0, ignore_bytes, NULL, &err);
    if (rank_of(group) == 1 && s->n_begun == 0)
        s->n_past++;
    return code;
}

static void a_rank_that_only_sends_may_return_before_the_others_call(void **state)
{
    const hs_rank_main_fn mains[] = {broadcast_first, send_first};
    (void)state;
    for (int i = 0; i < 2; i++) {
        shared s = {.n_past = 0};
        int n_first = 0; /* seeds with which the rank called first */
        for (uint64_t seed = 0; seed < 200; seed++) {
            char first[32];
            s.n_begun = 0;
            hs_simulation *simulation = simulate(3, seed, mains[i], &s);
            assert_ok(hs_simulation_run(simulation, &err), &err);
            snprintf(first, sizeof first, "rank %d: ", i);
            n_first += strncmp(hs_simulation_trace(simulation), first, strlen(first)) == 0;
            hs_simulation_free(simulation);
        }
        assert_true(s.n_past > 0 && s.n_past < n_first);
    }
}

/* Bugs of programs. */

static int gather_on_rank_3(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    uint64_t word = 0;
    barrier(group, &s->errors[rank]);
    s->codes[rank] = rank == 3 ? group->ops->gather(group->self, (hs_bytes){&word, 8}, 0, receive, NULL, &s->errors[rank])
                               : allreduce(group, &word, 1, &s->errors[rank]);
    return 0;
}

static int wrong_root(void *user, const hs_group *group)
{
    char byte = 0;
    (void)user;
    return group->ops->broadcast(group->self, &byte, 1, rank_of(group) == 2 ? 2 : 0, &err);
}

static int wrong_size(void *user, const hs_group *group)
{
    char bytes[8] = "";
    (void)user;
    return group->ops->broadcast(group->self, bytes, rank_of(group) == 1 ? 7 : 8, 0, &err);
}

static int wrong_words(void *user, const hs_group *group)
{
    uint64_t words[4] = {0};
    (void)user;
    return allreduce(group, words, rank_of(group) == 1 ? 3 : 4, &err);
}

static void assert_bug(hs_rank_main_fn main, void *user, const char *text, const char *other)
{
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        hs_simulation *simulation = simulate(4, seed, main, user);
        assert_fails(hs_simulation_run(simulation, &err), HS_INTERNAL, &err, "mixed collectives: call ");
        assert_contains(err.message, text);
        assert_contains(err.message, other);
        assert_contains(hs_simulation_trace(simulation), err.message);
        hs_simulation_free(simulation);
    }
}

static void mixed_collectives_are_an_error_that_names_the_ranks(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    assert_bug(gather_on_rank_3, &s, "of rank 3 is gather to rank 0", "is allreduce_or of 1 words");
    for (int i = 0; i < 4; i++)
        assert_fails(s.codes[i], HS_INTERNAL, &s.errors[i], "mixed collectives: call 2 ");
    assert_bug(wrong_root, NULL, "of rank 2 is broadcast of 1 bytes from rank 2", "is broadcast of 1 bytes from rank 0");
    assert_bug(wrong_size, NULL, "of rank 1 is broadcast of 7 bytes", "is broadcast of 8 bytes");
    assert_bug(wrong_words, NULL, "of rank 1 is allreduce_or of 3 words", "is allreduce_or of 4 words");
}

static int leave_on_rank_3(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    uint64_t word = 0;
    return rank == 3 ? 0 : allreduce(group, &word, 1, &s->errors[rank]);
}

static hs_simulation *without_detector(int32_t rank_count, uint64_t seed, hs_rank_main_fn main, void *user)
{
    return hs_simulation_new(HS_SIMULATION_OPTIONS(.main = main, .user = user, .seed = seed, .rank_count = rank_count,
                                                   .detector_secs = HS_NEVER),
                             &err);
}

static void a_deadlock_is_an_error_that_says_where_each_rank_waits(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        hs_simulation *simulation = without_detector(6, seed, leave_on_rank_3, &s);
        assert_fails(hs_simulation_run(simulation, &err), HS_INTERNAL, &err,
                     "deadlock: ranks 0-2, 4-5 wait in allreduce_or; rank 3 has ended");
        assert_result(simulation, 0, HS_INTERNAL);
        assert_result(simulation, 3, 0);
        assert_string_equal(s.errors[0].message, err.message);
        hs_simulation_free(simulation);
    }
}

static void without_a_detector_a_killed_or_frozen_rank_is_a_deadlock(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    hs_simulation *simulation = without_detector(3, 1, note_order, &s);
    assert_ok(hs_simulation_kill(simulation, 1, 1), &err);
    assert_ok(hs_simulation_freeze(simulation, 2, 1), &err);
    assert_fails(hs_simulation_run(simulation, &err), HS_INTERNAL, &err,
                 "deadlock: rank 0 waits in barrier; rank 2 is frozen; rank 1 was killed");
    hs_simulation_free(simulation);
}

static void *call_in_a_thread(void *user)
{
    hs_error error;
    barrier(user, &error);
    hs_error_set(&err, error.code, "%s", error.message);
    return NULL;
}

static int call_in_another_thread(void *user, const hs_group *group)
{
    pthread_t thread;
    (void)user;
    if (pthread_create(&thread, NULL, call_in_a_thread, (void *)group) != 0)
        return 1;
    pthread_join(thread, NULL);
    return err.code;
}

static void a_call_in_another_thread_is_refused(void **state)
{
    (void)state;
    hs_simulation *simulation = simulate(1, 1, call_in_another_thread, NULL);
    assert_int_equal(hs_simulation_run(simulation, NULL), HS_OK);
    assert_result(simulation, 0, HS_FAILED_PRECONDITION);
    assert_string_equal(err.message, "rank 0 calls barrier in another thread than its main");
    hs_simulation_free(simulation);
}

/* Failures of ranks. */

/* Makes three calls, and records the code of the failing call. */
static int meet_thrice(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    for (int i = 0; i < 3; i++) {
        uint64_t word = 1;
        if ((s->codes[rank] = allreduce(group, &word, 1, &s->errors[rank]))) {
            s->was_killed_after |= hs_simulation_is_killed(group);
            query(s, group);
            return 100 + i;
        }
    }
    s->n_past++;
    query(s, group);
    return 0;
}

static void a_killed_rank_is_named_in_the_calls_of_the_others(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = simulate(4, seed, meet_thrice, &s);
        assert_ok(hs_simulation_kill(simulation, 1, 2), &err);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        assert_false(hs_simulation_result(simulation, 1, NULL));
        for (int32_t rank = 0; rank < 4; rank++)
            if (rank != 1) {
                assert_result(simulation, rank, 101);
                assert_fails(s.codes[rank], HS_UNAVAILABLE, &s.errors[rank], "rank 1 was killed");
                assert_int_equal(s.failed[rank], 1);
            }
        assert_contains(hs_simulation_trace(simulation), "rank 1: is killed in allreduce_or of 1 words\n");
        hs_simulation_free(simulation);
    }
}

/* Notes which ranks run user code after the call that kills rank 1. */
static int note_past(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    s->codes[rank] = barrier(group, &s->errors[rank]);
    if (rank == 1)
        s->was_killed_after = hs_simulation_is_killed(group) && s->n_past == 2;
    else
        s->n_past++;
    return 0;
}

static void a_killed_rank_runs_after_all_others_have_ended(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = simulate(3, seed, note_past, &s);
        assert_ok(hs_simulation_kill(simulation, 1, 1), &err);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        assert_true(s.was_killed_after);
        assert_fails(s.codes[1], HS_UNAVAILABLE, &s.errors[1], "rank 1 was killed");
        hs_simulation_free(simulation);
    }
}

static int fail_on_rank_2(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    if (rank == 2) {
        group->ops->report_exit(group->self, test_error(HS_INTERNAL, "the disk is on fire"));
        return 5;
    }
    s->codes[rank] = barrier(group, &s->errors[rank]);
    query(s, group);
    return 6;
}

static void a_report_of_an_exit_wakes_the_others_with_its_reason(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = simulate(3, seed, fail_on_rank_2, &s);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        assert_result(simulation, 2, 5);
        for (int rank = 0; rank < 2; rank++) {
            assert_result(simulation, rank, 6);
            assert_fails(s.codes[rank], HS_UNAVAILABLE, &s.errors[rank], "rank 2 has failed: the disk is on fire");
            assert_int_equal(s.failed[rank], 2);
        }
        hs_simulation_free(simulation);
    }
}

static void a_rank_that_exits_in_a_call_is_named(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    hs_simulation *simulation = simulate(3, 4, meet_thrice, &s);
    assert_ok(hs_simulation_report_exit(simulation, 0, 3), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_false(hs_simulation_result(simulation, 0, NULL));
    assert_fails(s.codes[1], HS_UNAVAILABLE, &s.errors[1], "rank 0 has exited");
    hs_simulation_free(simulation);
}

static int return_early_on_rank_0(void *user, const hs_group *group)
{
    return rank_of(group) == 0 ? 0 : meet_thrice(user, group);
}

static void a_rank_that_ends_without_a_report_has_failed(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    hs_simulation *simulation = simulate(2, 4, return_early_on_rank_0, &s);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_fails(s.codes[1], HS_UNAVAILABLE, &s.errors[1], "rank 0 has ended without a report");
    assert_int_equal(s.failed[1], 0);
    hs_simulation_free(simulation);
}

/* Rank 0 sends its last data and ends. The other ranks need no further data from it. */
static int send_and_end(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    char text[4] = "";
    if (rank == 0)
        strcpy(text, "end");
    s->codes[rank] = group->ops->broadcast(group->self, text, sizeof text, 0, &s->errors[rank]);
    if (rank == 0)
        group->ops->report_exit(group->self, test_error(HS_OK, ""));
    else
        query(s, group);
    return strcmp(text, "end");
}

static int meet_and_query(void *user, const hs_group *group)
{
    shared *s = user;
    hs_code code = barrier(group, NULL);
    query(s, group);
    return code;
}

static void the_detector_names_a_rank_that_has_ended_without_a_report(void **state)
{
    int n_named = 0;
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = simulate(2, seed, meet_and_query, &s);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        assert_result(simulation, 1, HS_OK);
        n_named += s.failed[1] == 0;
        hs_simulation_free(simulation);
    }
    assert_true(n_named > 0 && n_named < N_SEEDS);
}

static int report_twice(void *user, const hs_group *group)
{
    shared *s = user;
    group->ops->report_exit(group->self, test_error(HS_OK, "done"));
    group->ops->report_exit(group->self, test_error(HS_INTERNAL, "late"));
    query(s, group);
    return barrier(group, &s->errors[0]);
}

static void only_the_first_report_of_a_rank_counts(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    hs_simulation *simulation = simulate(1, 1, report_twice, &s);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_int_equal(s.failed[0], -1);
    assert_result(simulation, 0, HS_UNAVAILABLE);
    assert_string_equal(s.errors[0].message, "rank 0 has ended: done");
    assert_string_equal(hs_simulation_trace(simulation), "rank 0: reports its exit: OK\nrank 0: barrier fails\n");
    hs_simulation_free(simulation);
}

static void calls_that_a_rank_has_made_complete_after_its_exit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = simulate(3, seed, send_and_end, &s);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        for (int32_t rank = 0; rank < 3; rank++)
            assert_result(simulation, rank, 0);
        hs_simulation_free(simulation);
    }
}

static int note_clock(void *user, const hs_group *group)
{
    shared *s = user;
    const hs_env *env = hs_simulation_env(group);
    int64_t begin_ns = hs_env_monotonic_ns(env);
    s->began_in_2001 = begin_ns == 1000000000000000000;
    int result = meet_thrice(user, group);
    s->now_ns = hs_env_monotonic_ns(env) - begin_ns;
    return result;
}

static void the_detector_names_a_frozen_rank_after_a_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = hs_simulation_new(
            HS_SIMULATION_OPTIONS(.main = note_clock, .user = &s, .seed = seed, .detector_secs = 3, .rank_count = 3), &err);
        assert_ok(hs_simulation_freeze(simulation, 1, 2), &err);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        for (int32_t rank = 0; rank < 3; rank++) {
            assert_result(simulation, rank, 101);
            assert_fails(s.codes[rank], HS_UNAVAILABLE, &s.errors[rank], "rank 1 has not responded for 3 s");
            assert_int_equal(s.failed[rank], 1);
            assert_contains(hs_simulation_trace(simulation), s.errors[rank].message);
        }
        assert_true(s.now_ns == 3000000000);
        hs_simulation_free(simulation);
    }
}

static void a_delay_advances_the_clock_and_nothing_else(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    hs_simulation *simulation = simulate(3, 1, note_clock, &s);
    assert_ok(hs_simulation_delay(simulation, 1, 2, 60), &err);
    assert_ok(hs_simulation_delay(simulation, 1, 3, 0.5), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_int_equal(s.n_past, 3);
    assert_true(s.began_in_2001);
    assert_true(s.now_ns == 60500000000);
    hs_simulation_free(simulation);
}

static void the_clock_of_the_options_is_used(void **state)
{
    shared s = {.n_past = 0};
    hs_test_system *system = hs_test_system_new();
    const hs_env *env = hs_test_system_env(system);
    int64_t begin_ns = hs_env_monotonic_ns(env);
    (void)state;
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.env = env, .main = note_clock, .user = &s, .seed = 1, .rank_count = 3), &err);
    assert_ok(hs_simulation_delay(simulation, 1, 2, 60), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_true(hs_env_monotonic_ns(env) - begin_ns == 60000000000);
    hs_simulation_free(simulation);
    assert_int_equal(hs_test_system_live_blocks(system), 0);
    hs_test_system_free(system);
}

/* After the gate, rank 2 fails and agrees on it, while the others add their gradients. */
static int fail_after_the_gate(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group);
    double number = 1;
    barrier(group, &s->errors[rank]);
    s->codes[rank] = rank == 2 ? barrier(group, &s->errors[rank]) : hs_simulation_sum(group, &number, 1, &s->errors[rank]);
    if (rank == 2)
        group->ops->report_exit(group->self, test_error(HS_DATA_LOSS, "a bad sample"));
    return 0;
}

static void a_call_fails_after_a_limit_if_others_wait_in_the_programs_own(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        shared s = {.n_past = 0};
        hs_simulation *simulation = simulate(3, seed, fail_after_the_gate, &s);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        assert_fails(s.codes[2], HS_UNAVAILABLE, &s.errors[2], "barrier has waited for 10 s: ranks 0-1 wait in sum");
        assert_contains(hs_simulation_trace(simulation), s.errors[2].message);
        for (int rank = 0; rank < 2; rank++)
            assert_fails(s.codes[rank], HS_UNAVAILABLE, &s.errors[rank], "rank 2 has failed: a bad sample");
        hs_simulation_free(simulation);
    }
}

/* Random programs of 8 ranks with a random fault each. */

static int make_random_calls(void *user, const hs_group *group)
{
    shared *s = user;
    int32_t rank = rank_of(group), n = count_of(group);
    unsigned random = (unsigned)s->now_ns; /* the seed of the program */
    for (int i = 0; i < 20; i++) {
        random = random * 1664525 + 1013904223;
        uint64_t word = 0;
        double number = 1;
        received all = {0, false};
        int32_t root = (int32_t)(random >> 16) % n;
        hs_error *error = &s->errors[rank];
        hs_code code = HS_OK;
        switch (random >> 28 & 3) {
        case 0:
            code = allreduce(group, &word, 1, error);
            break;
        case 1:
            code = group->ops->broadcast(group->self, &word, sizeof word, root, error);
            break;
        case 2:
            code = group->ops->gather(group->self, (hs_bytes){NULL, 0}, root, receive, &all, error);
            break;
        default:
            code = hs_simulation_sum(group, &number, 1, error);
        }
        if ((s->codes[rank] = code)) {
            group->ops->report_exit(group->self, error);
            query(s, group);
            return 1;
        }
    }
    group->ops->report_exit(group->self, test_error(HS_OK, ""));
    s->failed[rank] = -1;
    return 0;
}

static char *run_with_fault(unsigned seed)
{
    shared s = {.now_ns = seed / 8};
    hs_simulation *simulation = simulate(8, seed, make_random_calls, &s);
    int32_t victim = (int32_t)(seed * 7 % 8);
    int64_t at = 1 + seed * 13 % 24; /* above 20: no fault */
    switch (seed % 4) {
    case 0:
        assert_ok(hs_simulation_kill(simulation, victim, at), &err);
        break;
    case 1:
        assert_ok(hs_simulation_freeze(simulation, victim, at), &err);
        break;
    case 2:
        assert_ok(hs_simulation_report_exit(simulation, victim, at), &err);
        break;
    default:
        assert_ok(hs_simulation_delay(simulation, victim, at, 100), &err);
    }
    assert_ok(hs_simulation_run(simulation, &err), &err);
    bool fails = at <= 20 && seed % 4 != 3;
    for (int32_t rank = 0; rank < 8; rank++) {
        bool killed = fails && rank == victim && seed % 4 != 1;
        assert_int_equal(hs_simulation_result(simulation, rank, NULL), !killed);
        if (!fails)
            assert_int_equal(s.codes[rank], HS_OK);
        else if (!killed && s.codes[rank]) {
            assert_int_equal(s.codes[rank], HS_UNAVAILABLE);
            assert_int_equal(s.failed[rank], victim);
            assert_int_equal(strtol(s.errors[rank].message + strlen("rank "), NULL, 10), victim);
        }
    }
    char *trace = strdup(hs_simulation_trace(simulation));
    hs_simulation_free(simulation);
    return trace;
}

static void after_any_fault_all_ranks_end_and_name_the_same_rank(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 400 / HOOKSESS_TEST_SHARE; seed++) {
        char *first = run_with_fault(seed), *second = run_with_fault(seed);
        assert_string_equal(first, second);
        free(first);
        free(second);
    }
}

/* The environment of a rank. */

static int write_digits(void *user, const hs_group *group)
{
    shared *s = user;
    const hs_env *env = hs_simulation_env(group);
    const hs_file_system_ops *ops = env->files.ops;
    void *file;
    if (rank_of(group) != 0) {
        barrier(group, &s->errors[1]);
        return s->n_past++;
    }
    hs_log(env, HS_LOG_INFO, "begin");
    for (int i = 0; i < 3; i++) {
        if (ops->open(env->files.user, s->path, HS_OPEN_APPEND, &file, &s->errors[0]))
            break;
        hs_code code = ops->write(env->files.user, file, "0123456789", 10, &s->errors[0]);
        s->was_killed_after |= hs_simulation_is_killed(group) && s->n_past == 0;
        s->codes[0] = code ? code : ops->sync(env->files.user, file, &s->errors[0]);
        ops->close(env->files.user, file, NULL);
    }
    s->codes[1] = ops->remove(env->files.user, s->path, &s->errors[0]);
    hs_log(env, HS_LOG_INFO, "end");
    return barrier(group, &s->errors[2]);
}

static void a_killed_rank_changes_no_file_and_logs_nothing_more(void **state)
{
    char *directory = test_make_directory();
    (void)state;
    for (int64_t at = 1; at <= 13; at++) {
        shared s = {.path = test_path(directory, "digits")};
        hs_test_system *system = hs_test_system_new();
        hs_simulation *simulation = hs_simulation_new(
            HS_SIMULATION_OPTIONS(.env = hs_test_system_env(system), .main = write_digits, .user = &s, .rank_count = 2),
            &err);
        assert_ok(hs_simulation_kill_in_file_call(simulation, 0, at), &err);
        assert_ok(hs_simulation_run(simulation, &err), &err);
        char *text = test_read_file(s.path, NULL);
        size_t expected = (size_t)((at - 1) / 4 * 10 + (at % 4 == 2 ? 5 : at % 4 == 3 || at % 4 == 0 ? 10 : 0));
        assert_false(hs_simulation_result(simulation, 0, NULL));
        assert_int_equal(text ? strlen(text) : 0, expected);
        assert_fails(s.codes[1], HS_UNKNOWN, &s.errors[0], "rank 0 was killed");
        assert_says(&s.errors[1], HS_UNAVAILABLE, "rank 0 was killed");
        assert_string_equal(hs_test_system_log(system), "INFO: begin\n");
        assert_int_equal(hs_simulation_file_calls(simulation, 0), at);
        /* Calls before the kill, the half write, and the close of an open file */
        assert_int_equal(hs_test_system_file_calls(system), at - 1 + (at % 4 == 2) + (at % 4 != 1));
        assert_false(s.was_killed_after);
        free(text);
        hs_simulation_free(simulation);
        assert_int_equal(hs_test_system_open_files(system), 0);
        hs_test_system_free(system);
        remove(s.path);
    }
    test_remove_directory(directory);
}

static void the_files_of_a_rank_are_those_of_the_options(void **state)
{
    char *directory = test_make_directory();
    shared s = {.path = test_path(directory, "digits")};
    hs_test_system *system = hs_test_system_new(); /* its files and its log */
    (void)state;
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.rank_count = 2, .main = write_digits, .user = &s, .env = hs_test_system_env(system)), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_result(simulation, 0, 0);
    assert_int_equal(hs_simulation_file_calls(simulation, 0), 13);
    assert_int_equal(hs_simulation_file_calls(simulation, 1), 0);
    assert_int_equal(hs_test_system_file_calls(system), 13);
    assert_string_equal(hs_test_system_log(system), "INFO: begin\nINFO: end\n");
    hs_simulation_free(simulation);
    hs_test_system_free(system);
    test_remove_directory(directory);
}

static int lock_and_list(void *user, const hs_group *group)
{
    shared *s = user;
    const hs_file_system *files = &hs_simulation_env(group)->files;
    const char *made = test_path(s->path, "made");
    void *lock = NULL, *file;
    hs_file_stat stat;
    uint64_t bytes;
    char text[2];
    size_t got;
    hs_error *error = &s->errors[0];
    hs_code code;
    if ((code = files->ops->make_directory(files->user, made, error)) ||
        (code = files->ops->stat(files->user, made, &stat, error)) || !stat.is_directory ||
        (code = files->ops->sync_directory(files->user, made, error)) ||
        (code = files->ops->remove_directory(files->user, made, error)) ||
        (code = files->ops->free_space(files->user, s->path, &bytes, error)) ||
        (code = files->ops->lock(files->user, made, &lock, error)))
        return 1;
    files->ops->unlock(files->user, lock);
    if ((code = files->ops->rename(files->user, made, test_path(s->path, "lock"), error)) ||
        (code = files->ops->open(files->user, test_path(s->path, "lock"), HS_OPEN_READ, &file, error)))
        return 2;
    code = files->ops->read(files->user, file, 0, text, 1, &got, error);
    return files->ops->close(files->user, file, error) || code ? 3 : 0;
}

/* Files whose sync fails, over those of the system. */
static hs_code fail_to_sync(void *user, void *file, hs_error *error)
{
    (void)user, (void)file;
    return hs_error_set(error, HS_DATA_LOSS, "sync fails");
}

static hs_code fail_to_sync_directory(void *user, const char *path, hs_error *error)
{
    (void)user;
    return hs_error_set(error, HS_DATA_LOSS, "sync of %s fails", path);
}

static int sync_directory(void *user, const hs_group *group)
{
    const hs_file_system *files = &hs_simulation_env(group)->files;
    (void)user;
    return files->ops->sync_directory(files->user, "/tmp", &err);
}

static void the_directories_of_the_options_are_synced(void **state)
{
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = HS_INIT(hs_env, .files = {&ops, NULL});
    (void)state;
    ops.sync_directory = fail_to_sync_directory;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = 1, .main = sync_directory, .env = &env), &err);
    assert_int_equal(hs_simulation_run(simulation, NULL), HS_OK);
    assert_result(simulation, 0, HS_DATA_LOSS);
    hs_simulation_free(simulation);
    simulation = simulate(1, 1, sync_directory, NULL);
    assert_int_equal(hs_simulation_run(simulation, NULL), HS_OK);
    assert_result(simulation, 0, HS_OK);
    hs_simulation_free(simulation);
}

static void the_files_of_the_options_are_synced(void **state)
{
    char *directory = test_make_directory();
    shared s = {.path = test_path(directory, "digits")};
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_test_system *system = hs_test_system_new();
    hs_env env = *hs_test_system_env(system);
    (void)state;
    ops.sync = fail_to_sync;
    env.files = (hs_file_system){&ops, NULL};
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = 1, .main = write_digits, .user = &s, .env = &env), &err);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_fails(s.codes[0], HS_DATA_LOSS, &s.errors[0], "");
    hs_simulation_free(simulation);
    hs_test_system_free(system);
    test_remove_directory(directory);
}

static void all_file_functions_of_a_rank_work(void **state)
{
    char *directory = test_make_directory();
    shared s = {.path = directory};
    (void)state;
    hs_simulation *simulation = simulate(1, 1, lock_and_list, &s);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_result(simulation, 0, 0);
    assert_int_equal(hs_simulation_file_calls(simulation, 0), 10);
    hs_simulation_free(simulation);
    test_remove_directory(directory);
}

/* Arguments and memory. */

static void invalid_options_are_refused(void **state)
{
    const hs_env half = HS_INIT(hs_env, .clock = {.user = &err});
    hs_env bad = half;
    bad.allocator.alloc = hs_env_default()->allocator.alloc;
    (void)state;
    assert_null(hs_simulation_new(NULL, &err));
    assert_int_equal(err.code, HS_INVALID_ARGUMENT);
    assert_null(hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = 1), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "main is NULL");
    assert_null(hs_simulation_new(HS_SIMULATION_OPTIONS(.main = exchange), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "rank_count is 0");
    assert_null(hs_simulation_new(HS_SIMULATION_OPTIONS(.main = exchange, .stack_bytes = -1, .rank_count = 1), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "stack_bytes is negative");
    assert_null(hs_simulation_new(HS_SIMULATION_OPTIONS(.main = exchange, .detector_secs = -2, .rank_count = 1), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "detector_secs is -2");
    assert_null(hs_simulation_new(HS_SIMULATION_OPTIONS(.env = &bad, .main = exchange, .rank_count = 1), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "env is invalid");
}

static void invalid_faults_are_refused(void **state)
{
    (void)state;
    hs_simulation *simulation = simulate(2, 1, exchange, NULL);
    assert_int_equal(hs_simulation_kill(NULL, 0, 1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_simulation_kill(simulation, 2, 1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_simulation_freeze(simulation, -1, 1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_simulation_report_exit(simulation, 0, 0), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_simulation_delay(simulation, 0, 1, -1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_simulation_kill_in_file_call(simulation, 0, 0), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_simulation_kill_in_file_call(simulation, 2, 1), HS_INVALID_ARGUMENT);
    assert_false(hs_simulation_result(simulation, 0, NULL));
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_false(hs_simulation_result(simulation, 2, NULL));
    assert_fails(hs_simulation_run(simulation, &err), HS_FAILED_PRECONDITION, &err, "already run");
    hs_simulation_free(simulation);
    assert_fails(hs_simulation_run(NULL, &err), HS_INVALID_ARGUMENT, &err, "simulation is NULL");
    assert_int_equal(hs_simulation_collectives(NULL, 0), 0);
    assert_int_equal(hs_simulation_file_calls(NULL, 0), 0);
    assert_string_equal(hs_simulation_trace(NULL), "");
}

static void other_groups_are_refused(void **state)
{
    double number = 1;
    (void)state;
    assert_fails(hs_simulation_sum(NULL, &number, 1, &err), HS_INVALID_ARGUMENT, &err, "not simulated");
    assert_ptr_equal(hs_simulation_env(NULL), hs_test_system_env(NULL));
    assert_false(hs_simulation_is_killed(&(hs_group){NULL, NULL}));
}

static int check_arguments(void *user, const hs_group *group)
{
    shared *s = user;
    uint64_t words[9] = {0};
    s->codes[0] = allreduce(group, words, 9, &s->errors[0]);
    s->codes[1] = group->ops->broadcast(group->self, words, 8, 1, &s->errors[1]);
    s->codes[2] = group->ops->gather(group->self, (hs_bytes){words, 8}, -1, receive, NULL, &s->errors[2]);
    s->codes[3] = hs_simulation_sum(group, NULL, 1, &s->errors[3]);
    return 0;
}

static int add_one(void *user, const hs_group *group)
{
    double number = 1;
    (void)user;
    assert_ok(hs_simulation_sum(group, &number, 1, &err), &err);
    return (int)number;
}

static void a_sum_clears_a_stale_error(void **state)
{
    (void)state;
    hs_simulation *simulation = simulate(1, 1, add_one, NULL);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_result(simulation, 0, 1);
    hs_simulation_free(simulation);
}

static void invalid_arguments_of_calls_are_refused(void **state)
{
    shared s = {.n_past = 0};
    (void)state;
    hs_simulation *simulation = simulate(1, 1, check_arguments, &s);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    assert_fails(s.codes[0], HS_INVALID_ARGUMENT, &s.errors[0], "9 words");
    assert_fails(s.codes[1], HS_INVALID_ARGUMENT, &s.errors[1], "broadcast: root 1 is not in a group of 1 ranks");
    assert_fails(s.codes[2], HS_INVALID_ARGUMENT, &s.errors[2], "gather: root -1");
    assert_fails(s.codes[3], HS_INVALID_ARGUMENT, &s.errors[3], "numbers is NULL");
    assert_int_equal(hs_simulation_collectives(simulation, 0), 0);
    hs_simulation_free(simulation);
}

static void threads_that_cannot_start_are_an_error(void **state)
{
    (void)state;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.main = exchange, .stack_bytes = 1, .rank_count = 3), &err);
    assert_fails(hs_simulation_run(simulation, &err), HS_RESOURCE_EXHAUSTED, &err, "cannot start the threads of 3 ranks");
    hs_simulation_free(simulation);
}

/* Returns the address space of the process, in bytes. */
static rlim_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void if_some_threads_cannot_start_no_rank_runs(void **state)
{
    const rlim_t stack_bytes = 1 << 28;
    shared s = {.n_begun = 0};
    struct rlimit old, low;
    (void)state;
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.rank_count = 3, .main = note_order, .user = &s, .stack_bytes = (int64_t)stack_bytes), &err);
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    low = (struct rlimit){address_space() + 2 * stack_bytes, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    hs_code code = hs_simulation_run(simulation, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_fails(code, HS_RESOURCE_EXHAUSTED, &err, "; started 1");
    assert_int_equal(s.n_begun, 0);
    hs_simulation_free(simulation);
}

static hs_code simulate_with(test_env *t, void *user)
{
    hs_error error;
    (void)user;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.env = &t->env, .main = exchange, .rank_count = 3), &error);
    if (!simulation)
        return error.code;
    hs_code code = hs_simulation_delay(simulation, 0, 1, 1);
    if (!code)
        code = hs_simulation_run(simulation, &error);
    if (!code && strstr(hs_simulation_trace(simulation), "rest lost"))
        code = HS_RESOURCE_EXHAUSTED;
    hs_simulation_free(simulation);
    return code;
}

static void exhausted_memory_is_an_error(void **state)
{
    (void)state;
    test_each_allocation(simulate_with, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_exchanges_data_with_any_seed),
        cmocka_unit_test(thousands_of_ranks_meet),
        cmocka_unit_test(the_same_seed_gives_the_same_trace),
        cmocka_unit_test(the_seed_selects_the_order_of_the_ranks),
        cmocka_unit_test(a_rank_that_only_sends_may_return_before_the_others_call),
        cmocka_unit_test(mixed_collectives_are_an_error_that_names_the_ranks),
        cmocka_unit_test(a_deadlock_is_an_error_that_says_where_each_rank_waits),
        cmocka_unit_test(without_a_detector_a_killed_or_frozen_rank_is_a_deadlock),
        cmocka_unit_test(a_call_in_another_thread_is_refused),
        cmocka_unit_test(a_killed_rank_is_named_in_the_calls_of_the_others),
        cmocka_unit_test(a_killed_rank_runs_after_all_others_have_ended),
        cmocka_unit_test(a_report_of_an_exit_wakes_the_others_with_its_reason),
        cmocka_unit_test(a_rank_that_exits_in_a_call_is_named),
        cmocka_unit_test(a_rank_that_ends_without_a_report_has_failed),
        cmocka_unit_test(the_detector_names_a_rank_that_has_ended_without_a_report),
        cmocka_unit_test(only_the_first_report_of_a_rank_counts),
        cmocka_unit_test(calls_that_a_rank_has_made_complete_after_its_exit),
        cmocka_unit_test(the_detector_names_a_frozen_rank_after_a_limit),
        cmocka_unit_test(a_delay_advances_the_clock_and_nothing_else),
        cmocka_unit_test(the_clock_of_the_options_is_used),
        cmocka_unit_test(a_call_fails_after_a_limit_if_others_wait_in_the_programs_own),
        cmocka_unit_test(after_any_fault_all_ranks_end_and_name_the_same_rank),
        cmocka_unit_test(a_killed_rank_changes_no_file_and_logs_nothing_more),
        cmocka_unit_test(the_files_of_a_rank_are_those_of_the_options),
        cmocka_unit_test(the_directories_of_the_options_are_synced),
        cmocka_unit_test(the_files_of_the_options_are_synced),
        cmocka_unit_test(all_file_functions_of_a_rank_work),
        cmocka_unit_test(invalid_options_are_refused),
        cmocka_unit_test(invalid_faults_are_refused),
        cmocka_unit_test(other_groups_are_refused),
        cmocka_unit_test(a_sum_clears_a_stale_error),
        cmocka_unit_test(invalid_arguments_of_calls_are_refused),
        cmocka_unit_test(threads_that_cannot_start_are_an_error),
        cmocka_unit_test(if_some_threads_cannot_start_no_rank_runs),
        cmocka_unit_test(exhausted_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
