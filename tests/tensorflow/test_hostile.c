/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged graphs: for any bytes, opening returns a graph or an error with a message. */
#include "tensorflow/graphs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

static char *read_graph(const char *name, size_t *bytes)
{
    FILE *file = fopen(graph_path(name), "rb");
    char *data = malloc(1 << 20);
    assert_non_null(file);
    assert_non_null(data);
    *bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void open_and_free(const char *data, size_t bytes)
{
    hs_error err = {0};
    hs_env env = HS_INIT(hs_env, .logger = {no_log, NULL});
    const char *op;
    char *copy = malloc(bytes + 1); /* of this size, so that tools find accesses beyond it */
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    hs_backend backend = hs_tensorflow_open_bytes((hs_bytes){copy, bytes}, HS_TENSORFLOW_OPTIONS(.env = &env), &err);
    free(copy);
    if (err.code)
        assert_true(strlen(err.message) > 10);
    test_collection_size(backend, HS_SAVERS);
    test_collection_size(backend, HS_QUEUE_RUNNERS);
    if (!err.code)
        backend.ops->default_op(backend.self, HS_READY_OP, &op, &err);
    if (!err.code)
        backend.ops->default_op(backend.self, HS_LOCAL_INIT_OP, &op, &err);
    hs_tensorflow_free(backend);
}

static const char *const graphs[] = {"ref.meta",    "queue.meta",    "ref.pb",       "ref.pbtxt",
                                     "reader.meta", "iterator.meta", "several.meta", "alone_old.meta"};

static void cut_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        size_t bytes;
        char *data = read_graph(graphs[i], &bytes);
        for (size_t n = 1; n < bytes; n += 1 + bytes / 500)
            open_and_free(data, n);
        free(data);
    }
}

enum { N_GRAPHS = sizeof graphs / sizeof *graphs, CHANGES = 1500 };

/* Makes change number `k`, which is the same in each process. */
static void change(char *data, size_t bytes, uint64_t k)
{
    uint64_t random = (k + 1) * 0x9e3779b97f4a7c15;
    random = (random ^ (random >> 30)) * 0xbf58476d1ce4e5b9;
    random = (random ^ (random >> 27)) * 0x94d049bb133111eb;
    size_t at = (size_t)(random >> 8) % bytes;
    char before = data[at];
    data[at] = (char)(random & 0xff);
    open_and_free(data, bytes);
    data[at] = before;
}

/* Makes all changes from *at on, in a child process. */
static void change_from(volatile uint64_t *at, const char *log)
{
    if (!freopen(log, "w", stderr))
        _exit(3);
    for (uint64_t i = *at / CHANGES; i < N_GRAPHS; i++) {
        size_t bytes;
        char *data = read_graph(graphs[i], &bytes);
        for (; *at < (i + 1) * CHANGES; ++*at)
            change(data, bytes, *at);
        free(data);
    }
    _exit(0);
}

static bool contains(const char *path, const char *text)
{
    char content[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    return strstr(content, text) != NULL;
}

/* Returns zeroed memory that processes share. */
static volatile uint64_t *share(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, sizeof(uint64_t)), 0);
    volatile uint64_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(shared != MAP_FAILED);
    close(file);
    return shared;
}

/* For a few graphs TensorFlow ends the process (tensorflow.h): those are skipped. */
static void changed_anywhere(void **state)
{
    (void)state;
    char *directory = make_directory(), log[256];
    int ended = 0, status;
    snprintf(log, sizeof log, "%s/shared", directory);
    volatile uint64_t *at = share(log);
    snprintf(log, sizeof log, "%s/log", directory);
    do {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child)
            change_from(at, log);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !contains(log, "Check failed"))
            fail_msg("change %llu of '%s': status %d", (unsigned long long)*at, graphs[*at / CHANGES], status);
    } while (++*at < (uint64_t)N_GRAPHS * CHANGES && ++ended < 20);
    assert_in_range(ended, 0, 19);
    munmap((void *)at, sizeof *at);
    remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_anywhere), /* first, as it forks: TensorFlow's threads do not exist yet */
        cmocka_unit_test(cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
