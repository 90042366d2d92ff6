/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* The times of checkpoints, relative to the limits of disk and memory.
 *
 *   save_over_limit              a durable save, over the faster of plain and O_DIRECT write+fsync of the same bytes
 *   restore_over_limit           a restore, over reading the files and copying them
 *   stall_over_memcpy            how long a background save blocks the training thread, over a memcpy of the state
 *   first_stall_over_memcpy      the same of the first save of a saver, which allocates the memory of the copy
 *   stall_declared_over_memcpy   the same if an op declares its writes (overlap): the save, and the additional time of the
 *                                next step. That step computes for twice the time of a memcpy, then updates all variables
 *   check_share                  additional time of a save over the same writes and syncs without checksum and finite check
 *   small_over_one               the same bytes in tensors of 4 KiB, over one tensor
 *   extra_bytes                  peak memory that a foreground save allocates
 *
 * Arguments: MiB (1024) and a directory (the current one). Medians over interleaved rounds; GB/s are printed as well. */
/* clang-format on */
#include <hooksess/hooksess.h>

#include "bench.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 9, TENSORS = 64, SMALL_BYTES = 4096, PIECE = 1 << 20 };

static size_t live, most;

static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    size_t *block = calloc(1, bytes + 64);
    if (!block)
        return NULL;
    *block = bytes;
    live += bytes;
    most = live > most ? live : most;
    return (char *)block + 64;
}

static void counted_free(void *user, void *block)
{
    (void)user;
    if (!block)
        return;
    size_t *start = (size_t *)(void *)((char *)block - 64);
    live -= *start;
    free(start);
}

static void *counted_realloc(void *user, void *block, size_t bytes)
{
    void *made = counted_alloc(user, bytes);
    if (made && block) {
        size_t before = *(size_t *)(void *)((char *)block - 64);
        memcpy(made, block, before < bytes ? before : bytes);
        counted_free(user, block);
    }
    return made;
}

static const hs_env env = HS_INIT(hs_env, .allocator = {counted_alloc, counted_realloc, counted_free, NULL});

static void fail(const hs_error *err)
{
    fprintf(stderr, "bench: %s\n", err->message);
    exit(1);
}

/* A model whose tensors share one block of memory, and a step that computes and then updates all of them. */
typedef struct {
    float *data;
    size_t tensors, first; /* the number of tensors, and of the first one's name */
    double compute_secs;
    size_t bytes;
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
} model;

static hs_code compute(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    for (double end = bench_now() + ((model *)self)->compute_secs; bench_now() < end;)
        ;
    return HS_OK;
}

/* Updates one element of each tensor, as only the wait before the update is measured. */
static hs_code update(void *self, hs_op *op, hs_error *err)
{
    const model *m = self;
    (void)op, (void)err;
    for (size_t i = 0; i < m->tensors; i++)
        m->data[i * (m->bytes / m->tensors / sizeof *m->data)] += 1;
    return HS_OK;
}

static void add_step(model *m, const char *const *written)
{
    hs_graph_op(m->graph, .name = "compute", .run = compute, .user = m, .writes = HS_NAMES(NULL));
    hs_graph_op(m->graph, .name = "update", .run = update, .user = m, .control_inputs = HS_NAMES("compute"),
                .writes = written);
}

static void open_saver(model *m)
{
    hs_error err = {0};
    hs_saver_options options = HS_INIT(hs_saver_options, .env = &env, .max_to_keep = 1);
    if (!(m->saver = hs_saver_new(&options, &err)))
        fail(&err);
}

static void open_model(model *m, size_t tensors)
{
    char(*names)[32] = calloc(tensors, sizeof *names);
    const char **written = calloc(tensors + 1, sizeof *written);
    hs_error err = {0};
    size_t each = m->bytes / tensors;
    m->tensors = tensors;
    m->graph = hs_graph_new(&env);
    for (size_t i = 0; i < tensors; i++) {
        snprintf(names[i], sizeof names[i], "tensor/%05zu", m->first + i);
        written[i] = names[i];
        hs_graph_variable(m->graph, names[i], HS_FLOAT, HS_SHAPE((int64_t)(each / sizeof(float))),
                          (char *)m->data + i * each);
    }
    add_step(m, written);
    free(written);
    free(names);
    if (!(m->session = hs_session_open(hs_graph_backend(m->graph), NULL, &err)))
        fail(&err);
    open_saver(m);
}

static void close_model(model *m)
{
    hs_saver_free(m->saver);
    hs_session_close(m->session, NULL);
    hs_graph_free(m->graph);
}

enum { FOREGROUND = 0, BACKGROUND = 1, OVERLAP = 2 };

static double step(const model *m)
{
    hs_error err = {0};
    double start = bench_now();
    if (hs_session_run(m->session, "update", &err))
        fail(&err);
    return bench_now() - start;
}

/* Time for which a save blocks the thread; with OVERLAP, including the next step. */
static double save(const model *m, const char *prefix, int how)
{
    hs_error err = {0};
    hs_save_options options = HS_INIT(hs_save_options, .no_meta_graph = true, .state_file = "bench-state",
                                      .background = how != FOREGROUND, .overlap = how == OVERLAP);
    double usual = how == OVERLAP ? step(m) : 0;
    double start = bench_now();
    if (hs_saver_save(m->saver, hs_session_raw(m->session), prefix, -1, &options, &err))
        fail(&err);
    double took = bench_now() - start;
    if (how == OVERLAP)
        took += step(m) - usual;
    hs_saver_wait(m->saver);
    return took;
}

static double restore(const model *m, const char *prefix)
{
    hs_error err = {0};
    double start = bench_now();
    if (hs_saver_restore(m->saver, hs_session_raw(m->session), prefix, NULL, &err))
        fail(&err);
    return bench_now() - start;
}

/* The limits. */

static double write_plainly(const char *path, const char *data, size_t bytes, int flags)
{
    double start = bench_now();
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | flags, 0666);
    for (size_t done = 0; file >= 0 && done < bytes;) {
        size_t piece = bytes - done < 8 * PIECE ? bytes - done : 8 * PIECE;
        ssize_t n = write(file, data + done, piece);
        if (n <= 0) {
            close(file);
            return 1e9; /* not supported by this disk */
        }
        done += (size_t)n;
    }
    if (file < 0)
        return 1e9;
    fsync(file);
    close(file);
    return bench_now() - start;
}

static double read_and_copy(const char *path, char *to, size_t bytes)
{
    static char piece[PIECE];
    double start = bench_now();
    int file = open(path, O_RDONLY);
    size_t done = 0;
    for (ssize_t n; (n = read(file, piece, sizeof piece)) > 0 && done + (size_t)n <= bytes; done += (size_t)n)
        memcpy(to + done, piece, (size_t)n);
    close(file);
    return bench_now() - start;
}

static double copy(char *to, const char *from, size_t bytes)
{
    double start = bench_now();
    memcpy(to, from, bytes);
    return bench_now() - start;
}

/* Only the file calls of the saver, for the same bytes. */
static double write_unchecked(const char *path, const model *m)
{
    const hs_file_system files = hs_env_default()->files;
    hs_error err = {0};
    void *file;
    double start = bench_now();
    if (files.ops->open(files.user, path, HS_OPEN_WRITE, &file, &err))
        fail(&err);
    size_t each = m->bytes / TENSORS;
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t done = 0; done < each; done += 4 * PIECE) {
            size_t n = each - done < 4 * PIECE ? each - done : 4 * PIECE;
            if (files.ops->write(files.user, file, (char *)m->data + i * each + done, n, &err))
                fail(&err);
        }
    if (files.ops->sync(files.user, file, &err) || files.ops->close(files.user, file, &err))
        fail(&err);
    return bench_now() - start;
}

enum { BUFFERED, DIRECT, UNCHECKED, SAVE, WRITERS };

static double time_writer(int which, const model *m, const char *prefix, const char *plain)
{
    unlink(plain);
    hs_checkpoint_remove(NULL, prefix, NULL);
    most = live;
    switch (which) {
    case BUFFERED:
        return write_plainly(plain, (char *)m->data, m->bytes, 0);
    case DIRECT:
        return write_plainly(plain, (char *)m->data, m->bytes, O_DIRECT);
    case UNCHECKED:
        return write_unchecked(plain, m);
    default:
        return save(m, prefix, FOREGROUND);
    }
}

static double median_of(const double *values)
{
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    return bench_median(sorted, ROUNDS);
}

static double median_ratio(const double *a, const double *b)
{
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        ratios[i] = a[i] / b[i];
    return bench_median(ratios, ROUNDS);
}

/* A save and its limits, in a different order in each round, as a disk is slower after writes. */
static void bench_saving(const model *m, const char *prefix, const char *plain)
{
    double secs[WRITERS][ROUNDS];
    int order[WRITERS] = {BUFFERED, DIRECT, UNCHECKED, SAVE};
    size_t extra = 0;
    srand(1);
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = WRITERS - 1; k > 0; k--) {
            int other = rand() % (k + 1), which = order[k];
            order[k] = order[other];
            order[other] = which;
        }
        for (int k = 0; k < WRITERS; k++) {
            size_t before = live;
            secs[order[k]][i] = time_writer(order[k], m, prefix, plain);
            if (order[k] == SAVE)
                extra = most - before;
        }
    }
    unlink(plain);
    const double *limit = median_of(secs[DIRECT]) < median_of(secs[BUFFERED]) ? secs[DIRECT] : secs[BUFFERED];
    double bytes = (double)m->bytes / 1e9;
    bench_print("save_over_limit", median_ratio(limit, secs[SAVE]), "1");
    bench_print("save_gb_per_s", bytes / median_of(secs[SAVE]), "GB/s");
    bench_print("buffered_gb_per_s", bytes / median_of(secs[BUFFERED]), "GB/s");
    bench_print("direct_gb_per_s", bytes / median_of(secs[DIRECT]), "GB/s");
    bench_print("check_share", median_ratio(secs[SAVE], secs[UNCHECKED]) - 1, "1");
    bench_print("extra_bytes", (double)extra, "bytes");
}

static void bench_restoring(const model *m, const char *prefix, char *spare)
{
    double restores[ROUNDS], reads[ROUNDS], over[ROUNDS];
    char data[600];
    snprintf(data, sizeof data, "%s.data-00000-of-00001", prefix);
    save(m, prefix, FOREGROUND);
    restore(m, prefix);
    for (int i = 0; i < ROUNDS; i++) {
        reads[i] = read_and_copy(data, spare, m->bytes);
        restores[i] = restore(m, prefix);
        over[i] = reads[i] / restores[i];
    }
    double bytes = (double)m->bytes / 1e9;
    bench_print("restore_over_limit", bench_median(over, ROUNDS), "1");
    bench_print("restore_gb_per_s", bytes / bench_median(restores, ROUNDS), "GB/s");
    bench_print("read_gb_per_s", bytes / bench_median(reads, ROUNDS), "GB/s");
}

static void bench_stalls(model *m, const char *prefix, char *spare)
{
    double stalls[ROUNDS], over[3][ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double memcpy_secs = copy(spare, (char *)m->data, m->bytes);
        hs_saver_free(m->saver);
        open_saver(m);
        hs_checkpoint_remove(NULL, prefix, NULL);
        over[2][i] = save(m, prefix, BACKGROUND) / memcpy_secs;
        hs_checkpoint_remove(NULL, prefix, NULL);
        stalls[i] = save(m, prefix, BACKGROUND);
        over[0][i] = stalls[i] / memcpy_secs;
        m->compute_secs = 2 * memcpy_secs;
        hs_checkpoint_remove(NULL, prefix, NULL);
        over[1][i] = save(m, prefix, OVERLAP) / memcpy_secs;
    }
    bench_print("stall_over_memcpy", bench_median(over[0], ROUNDS), "1");
    bench_print("first_stall_over_memcpy", bench_median(over[2], ROUNDS), "1");
    bench_print("stall_declared_over_memcpy", bench_median(over[1], ROUNDS), "1");
    bench_print("stall_s", bench_median(stalls, ROUNDS), "s");
}

static void bench_large(model *m, const char *directory, char *spare)
{
    char prefix[512], plain[512];
    snprintf(prefix, sizeof prefix, "%s/bench-ckpt", directory);
    snprintf(plain, sizeof plain, "%s/bench-plain", directory);
    open_model(m, TENSORS);
    bench_saving(m, prefix, plain);
    bench_restoring(m, prefix, spare);
    bench_stalls(m, prefix, spare);
    close_model(m);
    hs_checkpoint_remove(NULL, prefix, NULL);
}

/* 10,000 tensors of 4 KiB, and one tensor of the same size. */
static void bench_small(model *m, const char *directory)
{
    enum { MOST = 10000, SMALL_ROUNDS = 21 };
    size_t n = m->bytes / SMALL_BYTES < MOST ? m->bytes / SMALL_BYTES : MOST;
    model small = {.data = m->data, .bytes = n * SMALL_BYTES}, one = small;
    double ratios[SMALL_ROUNDS], saves[SMALL_ROUNDS], restores[SMALL_ROUNDS];
    char prefix[2][512];
    snprintf(prefix[0], sizeof prefix[0], "%s/bench-small", directory);
    snprintf(prefix[1], sizeof prefix[1], "%s/bench-one", directory);
    open_model(&small, n);
    open_model(&one, 1);
    for (int i = 0; i < SMALL_ROUNDS; i++) {
        double secs[2];
        for (int k = 0; k < 2; k++) { /* each is first in half of the rounds */
            int which = (i + k) % 2;
            hs_checkpoint_remove(NULL, prefix[which], NULL);
            secs[which] = save(which ? &one : &small, prefix[which], FOREGROUND);
        }
        ratios[i] = secs[0] / secs[1];
        saves[i] = secs[0];
        restores[i] = restore(&small, prefix[0]);
    }
    double gigabytes = (double)small.bytes / 1e9;
    bench_print("small_over_one", bench_median(ratios, SMALL_ROUNDS), "1");
    bench_print("small_gb_per_s", gigabytes / bench_median(saves, SMALL_ROUNDS), "GB/s");
    bench_print("small_restore_gb_per_s", gigabytes / bench_median(restores, SMALL_ROUNDS), "GB/s");
    close_model(&small);
    close_model(&one);
    hs_checkpoint_remove(NULL, prefix[0], NULL);
    hs_checkpoint_remove(NULL, prefix[1], NULL);
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 1024) << 20;
    const char *directory = argc > 2 ? argv[2] : ".";
    char *spare = malloc(bytes);
    model m = {.data = aligned_alloc(4096, bytes ? bytes : 4096), .bytes = bytes};
    if (!bytes || !spare || !m.data) {
        fprintf(stderr, "usage: checkpoint [MiB [DIRECTORY]]\n");
        return 2;
    }
    for (size_t i = 0; i < bytes / sizeof *m.data; i++)
        m.data[i] = (float)(i % 1000003) * 0.001f;
    memset(spare, 1, bytes);
    bench_large(&m, directory, spare);
    bench_small(&m, directory);
    free(spare);
    free(m.data);
    return 0;
}
