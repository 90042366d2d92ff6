/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring models that are too large to be kept in memory twice. */
#include "checkpoint/model.h"

#include <errno.h>
#include <pthread.h>

/* About 72 MiB: two variables in the program's memory, one in the session's, one on a device. */
enum { PIECE = 8 << 20 /* of a copy to a device */, LARGE = 6 << 20, VARIABLES = 3, OWN = 1, DEVICE = 2, SMALL = 1000 };

typedef struct {
    hs_env env;
    hs_file_system_ops files;
    char *directory, *prefix;
    float *data[VARIABLES];
    hs_memory memory;
    size_t copied; /* to the device */
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
    hs_error err;
} large;

static size_t reads, fail_read_at;

/* A clock that advances only when a file is read, and the log. Several threads read. */
static int64_t now_ns, read_ns;
static char lines[4096];
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t read_clock(void *user)
{
    (void)user;
    return __atomic_load_n(&now_ns, __ATOMIC_RELAXED);
}

static void do_not_sleep(void *user, int64_t ns)
{
    (void)user, (void)ns;
}

static void keep_line(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    pthread_mutex_lock(&lines_lock);
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", text);
    pthread_mutex_unlock(&lines_lock);
}

/* Several threads call it, but only one call fails. */
static hs_code counted_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    (void)user;
    __atomic_add_fetch(&now_ns, read_ns, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED) == fail_read_at)
        return hs_error_set_errno(err, EIO, "injected I/O error");
    return hs_env_default()->files.ops->read(NULL, file, offset, data, bytes, got, err);
}

static hs_code to_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    ((large *)user)->copied++;
    return to_host(NULL, to, from, bytes, err);
}

static void fill(large *l, float first)
{
    for (size_t k = 0; k < VARIABLES; k++)
        for (size_t i = 0; i < LARGE; i++)
            l->data[k][i] = first + (float)k + (float)(i % 1000);
}

static bool is_filled(const large *l, float first)
{
    for (size_t k = 0; k < VARIABLES; k++)
        for (size_t i = 0; i < LARGE; i++)
            if (l->data[k][i] != first + (float)k + (float)(i % 1000))
                return false;
    return true;
}

static const float small_values[SMALL] = {1, 2, 3};

static void open_model(large *l)
{
    static const char *const names[VARIABLES] = {"first", "second", "third"};
    l->graph = hs_graph_new(&l->env);
    for (size_t i = 0; i < VARIABLES; i++)
        hs_graph_add_variable(l->graph, HS_VARIABLE_DEF(.name = names[i], .dtype = HS_FLOAT, .shape = HS_SHAPE(LARGE),
                                                        .data = l->data[i], .memory = i == DEVICE ? &l->memory : NULL));
    hs_graph_add_variable(
        l->graph, HS_VARIABLE_DEF(.name = "own", .dtype = HS_FLOAT, .shape = HS_SHAPE(SMALL), .initial = small_values));
    l->session = hs_session_open(hs_graph_backend(l->graph), NULL, &l->err);
    hs_saver_options options = HS_INIT(hs_saver_options, .env = &l->env);
    l->saver = hs_saver_new(&options, &l->err);
    assert_ok(l->err.code, &l->err);
}

static void close_model(large *l)
{
    hs_session_close(l->session, NULL);
    hs_saver_free(l->saver);
    hs_graph_free(l->graph);
}

/* NULL for allocations as large as a variable. */
static bool no_room;

static void *some_alloc(void *user, size_t bytes)
{
    (void)user;
    return no_room && bytes == LARGE * sizeof(float) ? NULL : malloc(bytes);
}

static void *some_realloc(void *user, void *block, size_t bytes)
{
    (void)user;
    return no_room && bytes == LARGE * sizeof(float) ? NULL : realloc(block, bytes);
}

static void some_free(void *user, void *block)
{
    (void)user;
    free(block);
}

static int setup(void **state)
{
    large *l = calloc(1, sizeof *l);
    no_room = false;
    l->env = (hs_env)HS_INIT(hs_env, .allocator = {some_alloc, some_realloc, some_free, NULL},
                             .clock = {read_clock, read_clock, do_not_sleep, NULL}, .logger = {keep_line, NULL});
    read_ns = 0;
    lines[0] = '\0';
    l->files = *hs_env_default()->files.ops;
    l->files.read = counted_read;
    l->env.files = (hs_file_system){&l->files, NULL};
    l->memory = (hs_memory)HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host, .user = l);
    l->directory = test_make_directory();
    l->prefix = strdup(test_path(l->directory, "large"));
    for (size_t i = 0; i < VARIABLES; i++)
        l->data[i] = malloc(LARGE * sizeof(float));
    fail_read_at = 0;
    open_model(l);
    fill(l, 1);
    assert_ok(hs_saver_save(l->saver, hs_session_raw(l->session), l->prefix, -1, NULL, &l->err), &l->err);
    fill(l, 2);
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    large *l = *state;
    close_model(l);
    for (size_t i = 0; i < VARIABLES; i++)
        free(l->data[i]);
    test_remove_directory(l->directory);
    free(l->prefix);
    free(l);
    return 0;
}
#define with_model(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static hs_code restore(large *l)
{
    reads = 0;
    return hs_saver_restore(l->saver, hs_session_raw(l->session), l->prefix, NULL, &l->err);
}

static void all_of_it_is_restored(void **state)
{
    large *l = *state;
    l->copied = 0;
    assert_ok(restore(l), &l->err);
    assert_true(is_filled(l, 1));
    assert_int_equal(l->copied, (LARGE * sizeof(float) + PIECE - 1) / PIECE);
}

static size_t count(const char *part)
{
    size_t n = 0;
    for (const char *at = lines; (at = strstr(at, part)); at++)
        n++;
    return n;
}

static void a_restore_of_a_second_is_logged_with_its_progress(void **state)
{
    large *l = *state;
    assert_ok(restore(l), &l->err);
    assert_int_equal(count("restoring"), 0);
    read_ns = 3 * (int64_t)10000000000 / (int64_t)reads; /* half a minute in all */
    assert_ok(restore(l), &l->err);
    assert_contains(lines, "restoring ");
    assert_contains(lines, "/large (72.0 MiB): ");
    assert_in_range(count(" %\n"), 2, 3);
}

/* Its memory is available before it has a value. */
static void a_variable_of_the_sessions_own_has_its_value_afterwards(void **state)
{
    large *l = *state;
    const hs_run_values *values;
    hs_error err;
    close_model(l);
    open_model(l);
    assert_ok(restore(l), &l->err);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("own"));
    assert_ok(hs_raw_session_run(hs_session_raw(l->session), &args, &values, &err), &err);
    assert_memory_equal(hs_run_values_tensor(values, 0)->data, small_values, sizeof small_values);
}

static void damage_anywhere_changes_nothing(void **state)
{
    large *l = *state;
    char *data = strdup(test_path(l->directory, "large." DATA));
    const size_t places[] = {5, (size_t)LARGE * 4 + 77, (size_t)LARGE * 12 - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        flip_bit(data, 8 * places[i]);
        assert_fails(restore(l), HS_DATA_LOSS, &l->err, "checksum mismatch");
        assert_true(is_filled(l, 2));
        flip_bit(data, 8 * places[i]);
    }
    free(data);
    assert_ok(restore(l), &l->err);
}

/* For the copy that goes to the device. */
static void without_memory_for_a_value_nothing_is_changed(void **state)
{
    large *l = *state;
    no_room = true;
    assert_fails(restore(l), HS_RESOURCE_EXHAUSTED, &l->err, "no memory for a value of a checkpoint");
    assert_true(is_filled(l, 2));
}

static void a_disk_that_fails_while_it_is_verified_changes_nothing(void **state)
{
    large *l = *state;
    for (fail_read_at = 1; fail_read_at < 200; fail_read_at += 37) {
        assert_fails(restore(l), HS_UNKNOWN, &l->err, "injected I/O error");
        assert_true(is_filled(l, 2));
    }
}

/* The model is then partly restored, and the error says so. */
static void a_disk_error_during_the_second_read_is_reported(void **state)
{
    large *l = *state;
    assert_ok(restore(l), &l->err);
    fail_read_at = reads - 10;
    assert_fails(restore(l), HS_UNKNOWN, &l->err, "do not train with this session");
    assert_contains(l->err.message, "injected I/O error");
}

/* Memory that moves. */

typedef struct {
    float *grids[2];
    int64_t parity;
} grids;

static hs_code save_parity(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((grids *)self)->parity, sizeof(int64_t), err);
}

/* The grid of the newest step is the first one after an even number of them. */
static hs_code load_and_swap(void *self, hs_state_reader *in, hs_error *err)
{
    grids *g = self;
    float *first = g->grids[0];
    g->grids[0] = g->grids[1];
    g->grids[1] = first;
    return hs_state_reader_read(in, &g->parity, sizeof g->parity, err);
}

static hs_code load_and_reallocate(void *self, hs_state_reader *in, hs_error *err)
{
    grids *g = self;
    for (int i = 0; i < 2; i++) {
        free(g->grids[i]);
        g->grids[i] = i ? NULL : calloc(2 * LARGE, sizeof(float));
    }
    return hs_state_reader_read(in, &g->parity, sizeof g->parity, err);
}

static bool is_grid(const float *grid, float value)
{
    bool same = true;
    for (size_t i = 0; i < 2 * LARGE; i++)
        same &= grid[i] == value + (float)(i % 100);
    return same;
}

static void fill_grid(float *grid, float value)
{
    for (size_t i = 0; i < 2 * LARGE; i++)
        grid[i] = value + (float)(i % 100);
}

static void memory_that_a_load_moves(hs_load_state_fn load, large *l)
{
    grids g = {.parity = 1};
    close_model(l);
    l->graph = hs_graph_new(&l->env);
    for (int i = 0; i < 2; i++) {
        fill_grid(g.grids[i] = malloc(2 * LARGE * sizeof(float)), 1 + (float)i);
        hs_graph_variable_at(l->graph, i ? "old" : "new", HS_FLOAT, HS_SHAPE(2 * LARGE), &g.grids[i]);
    }
    hs_graph_state(l->graph, "parity", save_parity, load, &g);
    l->session = hs_session_open(hs_graph_backend(l->graph), NULL, &l->err);
    l->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &l->env), &l->err);
    assert_ok(hs_saver_save(l->saver, hs_session_raw(l->session), l->prefix, -1, NULL, &l->err), &l->err);
    fill_grid(g.grids[0], 7);
    fill_grid(g.grids[1], 8);
    assert_ok(restore(l), &l->err);
    assert_true(is_grid(g.grids[0], 1));
    assert_true(is_grid(g.grids[1], 2));
    close_model(l);
    free(g.grids[0]);
    free(g.grids[1]);
    open_model(l);
}

static void pointers_that_a_load_swaps(void **state)
{
    memory_that_a_load_moves(load_and_swap, *state);
}

static void memory_that_a_load_frees(void **state)
{
    memory_that_a_load_moves(load_and_reallocate, *state);
}

/* A large state. */

enum { STATE = 80 << 20 };

static hs_code save_much(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, STATE, err);
}

static hs_code load_much(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, STATE, err);
}

static void the_progress_counts_states(void **state)
{
    large *l = *state;
    char *much = calloc(STATE, 1);
    close_model(l);
    l->graph = hs_graph_new(&l->env);
    hs_graph_variable(l->graph, "own", HS_FLOAT, HS_SHAPE(SMALL), l->data[0]);
    hs_graph_state(l->graph, "much", save_much, load_much, much);
    l->session = hs_session_open(hs_graph_backend(l->graph), NULL, &l->err);
    l->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &l->env), &l->err);
    assert_ok(hs_saver_save(l->saver, hs_session_raw(l->session), l->prefix, -1, NULL, &l->err), &l->err);
    assert_ok(restore(l), &l->err);
    read_ns = 3 * (int64_t)10000000000 / (int64_t)reads;
    assert_ok(restore(l), &l->err);
    assert_contains(lines, "/large (80.0 MiB): ");
    assert_in_range(count(" %\n"), 2, 3);
    assert_int_equal(count(": 100 %"), 0);
    close_model(l);
    open_model(l);
    free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_model(all_of_it_is_restored),
        with_model(a_restore_of_a_second_is_logged_with_its_progress),
        with_model(a_variable_of_the_sessions_own_has_its_value_afterwards),
        with_model(damage_anywhere_changes_nothing),
        with_model(without_memory_for_a_value_nothing_is_changed),
        with_model(a_disk_that_fails_while_it_is_verified_changes_nothing),
        with_model(a_disk_error_during_the_second_read_is_reported),
        with_model(pointers_that_a_load_swaps),
        with_model(memory_that_a_load_frees),
        with_model(the_progress_counts_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
