/* SPDX-License-Identifier: Apache-2.0 */
/* A state of 256 MiB: saves and restores take no second copy of it. */
#include "checkpoint/model.h"

#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

enum { BYTES = 256 << 20, PIECE = 3 << 20, MOST_GROWTH = 96 << 20 };

/* Ways to add a state to the session. */
typedef enum { PLAIN, PROVIDER, LATE } kind;

typedef struct {
    char *directory;
    unsigned char *data;
} program;

static hs_code save_pieces(void *self, hs_state_writer *out, hs_error *err)
{
    const program *p = self;
    hs_code code = HS_OK;
    for (size_t done = 0, n; !code && done < BYTES; done += n) {
        n = BYTES - done < PIECE ? BYTES - done : PIECE;
        code = hs_state_writer_write(out, p->data + done, n, err);
    }
    return code;
}

/* In pieces of all sizes. */
static hs_code load_pieces(void *self, hs_state_reader *in, hs_error *err)
{
    const program *p = self;
    hs_code code = HS_OK;
    size_t done = 0;
    for (size_t n = 1; !code && hs_state_reader_remaining(in); n = n < PIECE ? 3 * n : 1) {
        size_t left = hs_state_reader_remaining(in);
        n = n < left ? n : left;
        code = hs_state_reader_read(in, p->data + done, n, err);
        done += n;
    }
    return code;
}

static void fill(program *p)
{
    for (size_t i = 0; i < BYTES; i++)
        p->data[i] = (unsigned char)(i * 7 + i / 1000);
}

static int is_filled(const program *p)
{
    for (size_t i = 0; i < BYTES; i++)
        if (p->data[i] != (unsigned char)(i * 7 + i / 1000))
            return 0;
    return 1;
}

/* The most memory that the process ever had, in bytes. */
static long peak(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib < 0 ? -1 : kib * 1024;
}

/* The growth of the peak by a save or a restore in bytes; -1: it failed. */
static long growth(program *p, kind how, int saves)
{
    hs_error err = {0};
    hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "large", .save = save_pieces, .load = load_pieces, .self = p);
    hs_graph *graph = hs_graph_new(NULL);
    if (how == PLAIN)
        hs_graph_bytes(graph, "large", p->data, BYTES);
    else if (how == PROVIDER)
        hs_graph_add_state(graph, &provider);
    hs_saver *saver = hs_saver_new(NULL, &err);
    const char *prefix = test_path(p->directory, "model.ckpt");
    long before = peak();
    hs_session *session =
        hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.checkpoint_prefix = saves ? NULL : prefix), &err);
    hs_code code = session ? HS_OK : err.code;
    if (!code && how == LATE)
        code = hs_raw_session_add_state(hs_session_raw(session), &provider, &err);
    if (!code && saves)
        code = hs_saver_save(saver, hs_session_raw(session), prefix, -1, NULL, &err);
    long after = peak();
    hs_session_close(session, NULL);
    hs_saver_free(saver);
    hs_graph_free(graph);
    if (code)
        fprintf(stderr, "%s\n", err.message);
    return code || before < 0 ? -1 : after - before;
}

/* In a new process, whose peak is low. */
static void check_growth(program *p, kind how, int saves)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        p->data = malloc(BYTES);
        memset(p->data, 0xff, BYTES);
        if (saves)
            fill(p);
        long grown = growth(p, how, saves);
        fprintf(stderr, "%s %d: the peak grew by %ld MiB\n", saves ? "save" : "restore", (int)how, grown >> 20);
        _exit(grown < 0 ? 1 : grown > MOST_GROWTH ? 2 : !is_filled(p) ? 3 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_save_and_a_restore_take_no_copy_of_it(void **state)
{
    (void)state;
    if (SANITIZED)
        test_skip("a sanitizer takes memory for the memory that is used");
    program p = {.directory = test_make_directory()};
    check_growth(&p, PLAIN, 1);
    check_growth(&p, PLAIN, 0);
    check_growth(&p, LATE, 0);
    check_growth(&p, PROVIDER, 1);
    check_growth(&p, PROVIDER, 0);
    test_remove_directory(p.directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_save_and_a_restore_take_no_copy_of_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
