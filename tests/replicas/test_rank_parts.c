/* SPDX-License-Identifier: Apache-2.0 */
/* The states of other ranks reach the checkpoint in pieces, while rank 0 saves. */
#include "base/file_spy.h"
#include "replicas/device.h"
#include "support/test.h"

#include <hooksess/testing.h>

#include <errno.h>
#include <stdatomic.h>

enum { RANKS = 4, STATES = 2, MIB = 1 << 20 };
enum { STEP = 2, EARLIER_STEP = 1 };

typedef struct {
    hs_error err; /* of the save */
    int64_t bytes;
    bool has_result; /* of a background save */
    int copies;      /* on the device, after the save */
    size_t peak;     /* most memory that the save allocated */
} rank_result;

typedef struct {
    char *directory;
    int32_t rank_count;
    uint64_t seed;
    size_t bytes[STATES]; /* of the states of each rank */
    size_t put_bytes;     /* that a provider writes at a time */
    bool background;
    bool on_device;           /* has a variable there */
    bool saves_earlier;       /* a checkpoint before, without faults */
    int32_t failing_rank;     /* its first provider fails in the middle. 0: none */
    int32_t counted_rank;     /* the allocations and the memory of its save count */
    size_t fail_alloc_at;     /* one fails. 0: none */
    uint64_t room;            /* on the disk. 0: unknown */
    const char *failing_call; /* of the files of rank 0, as in file_spy. NULL: none fails */
    size_t fail_call_at;
    size_t calls;        /* the number of such calls */
    int64_t collectives; /* calls of the last run */
    rank_result results[RANKS];
} scene;

/* The allocator of the counted rank. */
static atomic_size_t live_bytes, peak_bytes, allocations, live_blocks;
static size_t fail_alloc_at;

enum { BLOCK_HEAD = 64 };

static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    if (atomic_fetch_add(&allocations, 1) + 1 == fail_alloc_at)
        return NULL;
    size_t *block = calloc(1, bytes + BLOCK_HEAD);
    if (!block)
        return NULL;
    *block = bytes;
    atomic_fetch_add(&live_blocks, 1);
    size_t live = atomic_fetch_add(&live_bytes, bytes) + bytes, peak = atomic_load(&peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, live))
        ;
    return (char *)block + BLOCK_HEAD;
}

static void counted_free(void *user, void *block)
{
    (void)user;
    if (!block)
        return;
    size_t *start = (size_t *)(void *)((char *)block - BLOCK_HEAD);
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, *start);
    free(start);
}

static void *counted_realloc(void *user, void *block, size_t bytes)
{
    void *made = counted_alloc(user, bytes);
    if (made && block) {
        size_t before = *(size_t *)(void *)((char *)block - BLOCK_HEAD);
        memcpy(made, block, before < bytes ? before : bytes);
        counted_free(user, block);
    }
    return made;
}

static uint64_t room_on_disk;

static hs_code report_room(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    (void)user, (void)path, (void)err;
    *bytes = room_on_disk;
    return HS_OK;
}

static void ignore_log(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

/* The states. */

typedef struct {
    scene *s;
    int32_t rank;
    int number;
    bool fails;
} provider;

static unsigned char byte_of(const provider *p, size_t at)
{
    return (unsigned char)((at * 2654435761u >> 11) + (size_t)p->rank * 7 + (size_t)p->number);
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const provider *p = self;
    const size_t bytes = p->s->bytes[p->number], most = p->s->put_bytes;
    unsigned char *piece = malloc(most);
    hs_code code = HS_OK;
    assert_non_null(piece);
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < most ? bytes - done : most;
        for (size_t i = 0; i < n; i++)
            piece[i] = byte_of(p, done + i);
        if (p->fails && done >= bytes / 2)
            code = hs_error_set(err, HS_DATA_LOSS, "the provider has failed");
        else
            code = hs_state_writer_write(out, piece, n, err);
    }
    free(piece);
    return code;
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

static void add_states(hs_graph *graph, scene *s, int32_t rank, provider providers[STATES])
{
    static const char *const names[] = {"first", "second"}, *const identities[] = {NULL, "data of the test"};
    for (int i = 0; i < STATES; i++) {
        providers[i] = (provider){.s = s, .rank = rank, .number = i};
        hs_graph_add_state(graph, HS_STATE_PROVIDER(.name = names[i], .save = save_state, .load = load_state,
                                                    .self = &providers[i], .version = 3 * i, .identity = identities[i],
                                                    .bytes = s->bytes[i], .scope = HS_STATE_PER_RANK));
    }
    assert_ok(test_graph_error(graph)->code, test_graph_error(graph));
}

/* A rank. */

static hs_code save(scene *s, hs_saver *saver, hs_session *session, int64_t step, hs_error *err)
{
    char prefix[512];
    snprintf(prefix, sizeof prefix, "%s/model", s->directory);
    return hs_saver_save(saver, hs_session_raw(session), prefix, step, HS_SAVE_OPTIONS(.background = s->background), err);
}

static int run_rank(void *user, const hs_group *group)
{
    scene *s = user;
    const int32_t rank = group->ops->rank(group->self);
    rank_result unused, *result = rank < RANKS ? &s->results[rank] : &unused;
    provider providers[STATES];
    hs_file_system_ops files = *hs_simulation_env(group)->files.ops;
    file_spy spy;
    hs_error err = {0};
    hs_env env = *hs_simulation_env(group);
    env.logger = (hs_logger){ignore_log, NULL};
    if (rank == s->counted_rank)
        env.allocator = (hs_allocator){counted_alloc, counted_realloc, counted_free, NULL};
    if (rank == 0 && s->failing_call) {
        file_spy_init(&spy, &env);
        spy.what = s->failing_call;
        spy.os_error = ENOSPC;
        env.files = spy.env.files;
    }
    if (rank == 0 && s->room) {
        files.free_space = report_room;
        room_on_disk = s->room;
        env.files.ops = &files;
    }
    float weights[4] = {0}, *on_device = weights;
    hs_graph *graph = hs_graph_new(&env);
    add_states(graph, s, rank, providers);
    if (s->on_device)
        hs_graph_variable_at(graph, "weights", HS_FLOAT, HS_SHAPE(4), &on_device, .memory = &device);
    hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = NULL, .group = group), &err);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &err);
    if (!session || !saver) /* the rank was killed */
        *result = (rank_result){.err = err};
    if (session && saver && s->saves_earlier)
        save(s, saver, session, EARLIER_STEP, &err);
    if (session && saver && !err.code) {
        const size_t before = atomic_load(&live_bytes);
        providers[0].fails = rank && rank == s->failing_rank;
        if (rank == s->counted_rank) {
            atomic_store(&peak_bytes, before);
            atomic_store(&allocations, 0);
            fail_alloc_at = s->fail_alloc_at;
        }
        if (rank == 0 && s->failing_call)
            file_spy_fail(&spy, s->fail_call_at, HS_UNKNOWN);
        *result = (rank_result){.err.code = HS_OK};
        save(s, saver, session, STEP, &result->err);
        if (rank == s->counted_rank) {
            fail_alloc_at = 0;
            result->peak = atomic_load(&peak_bytes) - before;
        }
        if (rank == 0 && s->failing_call) {
            s->calls = spy.matches;
            file_spy_fail(&spy, 0, HS_OK);
        }
        result->has_result = hs_saver_poll(saver, NULL, NULL);
        hs_saver_wait(saver);
        result->has_result |= hs_saver_poll(saver, NULL, NULL);
        result->bytes = hs_saver_last_bytes(saver);
        result->copies = atomic_load(&device_copies);
    } else {
        result->err = err;
    }
    hs_saver_free(saver);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    return 0;
}

/* `dying` is killed in its collective call `at`. 0: none. */
static void run_and_kill(scene *s, int32_t dying, int64_t at)
{
    hs_error err = {0};
    memset(s->results, 0, sizeof s->results);
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.rank_count = s->rank_count, .seed = s->seed, .main = run_rank, .user = s), &err);
    assert_non_null(simulation);
    if (at)
        assert_int_equal(hs_simulation_kill(simulation, dying, at), HS_OK);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    s->collectives = hs_simulation_collectives(simulation, dying);
    hs_simulation_free(simulation);
    assert_int_equal(atomic_load(&live_blocks), 0);
}

static void run(scene *s)
{
    run_and_kill(s, 0, 0);
}

/* Reads the states of all ranks in a checkpoint. */
static void assert_saved(scene *s, int64_t step)
{
    static const char *const names[] = {"first", "second"};
    char prefix[512], name[64];
    hs_error err = {0};
    snprintf(prefix, sizeof prefix, "%s/model-%d", s->directory, (int)step);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, prefix, &err);
    if (!reader)
        fail_msg("%s", err.message);
    for (int32_t rank = 0; rank < s->rank_count; rank++)
        for (int i = 0; i < STATES; i++) {
            const provider p = {.s = s, .rank = rank, .number = i};
            unsigned char *data = malloc(s->bytes[i] + 1);
            hs_tensor info;
            int64_t version = 0;
            assert_non_null(data);
            snprintf(name, sizeof name, "hooksess/state/%s/%05d-of-%05d", names[i], (int)rank, (int)s->rank_count);
            assert_ok(hs_checkpoint_find(reader, name, &info, &err), &err);
            assert_int_equal(info.bytes, s->bytes[i]);
            assert_ok(hs_checkpoint_read(reader, name, data, s->bytes[i], &err), &err);
            for (size_t at = 0; at < s->bytes[i]; at++)
                if (data[at] != byte_of(&p, at))
                    fail_msg("%s differs at byte %zu", name, at);
            free(data);
            strcat(name, ":version");
            if (i)
                assert_ok(hs_checkpoint_read(reader, name, &version, sizeof version, &err), &err);
            assert_int_equal(version, 3 * i);
        }
    hs_checkpoint_close(reader);
}

static void assert_all_saved(scene *s)
{
    for (int32_t rank = 0; rank < s->rank_count && rank < RANKS; rank++)
        assert_ok(s->results[rank].err.code, &s->results[rank].err);
    assert_saved(s, STEP);
}

/* Nothing remains of the save, and the checkpoint before it is intact. */
static void assert_not_saved(scene *s)
{
    assert_int_equal(test_count_files(s->directory, "model-2"), 0);
    assert_saved(s, EARLIER_STEP);
}

static int setup(void **state)
{
    static scene s;
    s = (scene){.directory = test_make_directory(), .rank_count = RANKS, .seed = 1, .bytes = {100, 200}, .put_bytes = MIB};
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    const scene *s = *state;
    test_remove_directory(s->directory);
    return 0;
}

static void rank_0_holds_little_of_the_states_of_other_ranks(void **state)
{
    scene *s = *state;
    s->bytes[0] = 16 * MIB;
    for (int background = 0; background < 2; background++) {
        s->background = background;
        test_empty_directory(s->directory);
        run(s);
        assert_all_saved(s);
        assert_in_range(s->results[0].peak, 1, 24 * MIB);
        assert_int_equal(s->results[0].has_result, background);
    }
}

/* The end of a piece is anywhere in a record, a key, the size of a chunk or the data. */
static void states_of_all_sizes_are_complete(void **state)
{
    scene *s = *state;
    s->rank_count = 2;
    for (size_t before = 30; before < 140; before++) {
        s->bytes[0] = MIB - before;
        s->bytes[1] = before % 7 ? before : 0;
        s->put_bytes = before % 3 ? MIB / 3 : 4 * MIB;
        s->seed = before;
        s->background = before % 2;
        test_empty_directory(s->directory);
        run(s);
        assert_all_saved(s);
    }
}

static void data_may_come_byte_by_byte(void **state)
{
    scene *s = *state;
    s->rank_count = 3;
    s->put_bytes = 1;
    s->bytes[0] = 3 * MIB / 2;
    run(s);
    assert_all_saved(s);
}

/* The more ranks there are, the smaller are their first pieces. */
static void many_ranks_send_small_first_pieces(void **state)
{
    scene *s = *state;
    s->rank_count = 64;
    s->bytes[0] = MIB / 4 - 10;
    for (int background = 0; background < 2; background++) {
        s->background = background;
        test_empty_directory(s->directory);
        run(s);
        assert_all_saved(s);
        assert_in_range(s->results[0].peak, 1, background ? 64 * MIB : 32 * MIB);
    }
}

static void the_size_of_a_save_counts_all_ranks(void **state)
{
    scene *s = *state;
    for (int large = 0; large < 2; large++) {
        s->bytes[0] = large ? 2 * MIB : 100;
        const uint64_t all = RANKS * (s->bytes[0] + s->bytes[1]);
        for (int background = 0; background < 2; background++) {
            s->background = background;
            s->room = 0;
            test_empty_directory(s->directory);
            run(s);
            assert_all_saved(s);
            assert_int_equal(s->results[0].bytes, all);
        }
        s->background = false;
        s->room = all - 1;
        test_empty_directory(s->directory);
        run(s);
        for (int32_t rank = 0; rank < RANKS; rank++) {
            assert_says(&s->results[rank].err, HS_RESOURCE_EXHAUSTED, "are free on the disk");
            assert_int_equal(s->results[rank].err.os_error, ENOSPC);
        }
        assert_int_equal(test_count_files(s->directory, "model"), 0);
        s->room = all;
        run(s);
        assert_all_saved(s);
    }
}

static void a_provider_that_fails_on_one_rank_fails_the_save_on_all(void **state)
{
    static const size_t sizes[] = {100, MIB - 100, 3 * MIB};
    scene *s = *state;
    s->saves_earlier = true;
    s->put_bytes = 64;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (s->failing_rank = 1; s->failing_rank < RANKS; s->failing_rank++) {
            char says[128];
            s->bytes[0] = sizes[i];
            test_empty_directory(s->directory);
            run(s);
            snprintf(says, sizeof says,
                     "rank %d: cannot save state 'hooksess/state/first/%05d-of-%05d': the provider has failed",
                     (int)s->failing_rank, (int)s->failing_rank, RANKS);
            for (int32_t rank = 0; rank < RANKS; rank++)
                assert_says(&s->results[rank].err, HS_DATA_LOSS, says);
            assert_not_saved(s);
        }
}

static void a_full_disk_fails_the_save_on_all_ranks(void **state)
{
    static const char *const calls[] = {"open", "write", "sync", "rename"};
    scene *s = *state;
    s->bytes[0] = 5 * MIB / 2;
    s->saves_earlier = true;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        s->failing_call = calls[i];
        s->fail_call_at = 0;
        do {
            s->fail_call_at++;
            test_empty_directory(s->directory);
            run(s);
            const hs_code code = s->results[0].err.code;
            for (int32_t rank = 1; rank < RANKS; rank++)
                assert_int_equal(s->results[rank].err.code, code);
            assert_int_equal(code, s->calls < s->fail_call_at ? HS_OK : HS_RESOURCE_EXHAUSTED);
            if (test_exists(s->directory, "model-2.index")) /* only the state file is missing */
                assert_saved(s, STEP);
            else
                assert_not_saved(s);
        } while (s->calls >= s->fail_call_at);
        assert_in_range(s->fail_call_at, 2, 100);
    }
}

static void a_rank_that_dies_leaves_a_complete_checkpoint(void **state)
{
    scene *s = *state;
    s->bytes[0] = 3 * MIB / 2;
    s->saves_earlier = true;
    run(s);
    for (int32_t dying = 0; dying < 3; dying++) {
        run_and_kill(s, dying, 0);
        for (int64_t at = s->collectives, n = 0; at > 0 && n < 40; at--, n++) {
            test_empty_directory(s->directory);
            s->seed = (uint64_t)at;
            run_and_kill(s, dying, at);
            for (int32_t rank = 0; rank < RANKS; rank++)
                if (rank != dying && s->results[rank].err.code)
                    assert_int_equal(s->results[rank].err.code, HS_UNAVAILABLE);
            const bool complete = test_exists(s->directory, "model-2.index");
            if (complete)
                assert_saved(s, STEP);
            if (dying && !complete && test_exists(s->directory, "model-1.index"))
                assert_not_saved(s);
            if (dying && s->results[0].err.code)
                assert_false(complete);
        }
    }
}

/* Also in the comparison of the variables. */
static void a_rank_that_dies_leaves_no_copies_of_the_state(void **state)
{
    scene *s = *state;
    int n_failed = 0;
    s->rank_count = 2;
    s->on_device = s->background = true;
    run_and_kill(s, 1, 0);
    for (int64_t at = s->collectives; at > 0; at--) {
        test_empty_directory(s->directory);
        run_and_kill(s, 1, at);
        assert_int_equal(s->results[0].copies, 0);
        n_failed += s->results[0].err.code != HS_OK;
    }
    assert_true(n_failed > 2);
}

static void memory_that_fails_on_one_rank_fails_the_save_on_all(void **state)
{
    scene *s = *state;
    bool has_failed = true;
    s->rank_count = 3;
    s->bytes[0] = 5 * MIB / 2;
    s->saves_earlier = true;
    for (s->counted_rank = 0; s->counted_rank < 2; s->counted_rank++) {
        for (s->fail_alloc_at = 1, has_failed = true; has_failed; s->fail_alloc_at++) {
            test_empty_directory(s->directory);
            run(s);
            has_failed = atomic_load(&allocations) >= s->fail_alloc_at;
            const hs_code code = s->results[0].err.code;
            assert_true(code == HS_OK || code == HS_RESOURCE_EXHAUSTED);
            for (int32_t rank = 1; rank < s->rank_count; rank++)
                assert_int_equal(s->results[rank].err.code, code);
            if (!code)
                assert_saved(s, STEP);
        }
        assert_in_range(s->fail_alloc_at, 3, 1000);
    }
}

#define in_scene(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scene(rank_0_holds_little_of_the_states_of_other_ranks),
        in_scene(states_of_all_sizes_are_complete),
        in_scene(data_may_come_byte_by_byte),
        in_scene(many_ranks_send_small_first_pieces),
        in_scene(the_size_of_a_save_counts_all_ranks),
        in_scene(a_provider_that_fails_on_one_rank_fails_the_save_on_all),
        in_scene(a_full_disk_fails_the_save_on_all_ranks),
        in_scene(a_rank_that_dies_leaves_a_complete_checkpoint),
        in_scene(a_rank_that_dies_leaves_no_copies_of_the_state),
        in_scene(memory_that_fails_on_one_rank_fails_the_save_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
