/* SPDX-License-Identifier: Apache-2.0 */
/* The time of writing scalars to an event file: with the writer, and with a C loop that builds the same records, adds the
 * time, checksums and writes them. Interleaved, each to a separate file.
 *
 *     events DIRECTORY      creates files in the directory, and removes them
 *
 *     scalar_call_ns        a call of hs_summary_writer_scalar in the training thread, without other work in between
 *     scalar_cpu_ns         processor time of the thread for such a call
 *     scalar_spaced_ns      a call between other work of 2 microseconds, as in a training: the median of many
 *     scalars_per_second    with the writer, until the last is in the file
 *     limit_per_second      with the loop
 *     scalars_over_limit    the first over the second: the median of the rounds
 *     scalar_allocations    all allocations of a round in steady state
 */
#include "bench.h"

#include <hooksess/summary.h>

#include <fcntl.h>
#include <isa-l/crc.h>
#include <stdatomic.h>
#include <unistd.h>

enum { SCALARS = 400000, SPACED = 20000, BATCH = 1 << 16 };

static const char *directory;

/* An allocator that counts. */

static atomic_int allocations;

static void *count_alloc(void *user, size_t bytes)
{
    (void)user;
    allocations++;
    return malloc(bytes);
}

static void *count_realloc(void *user, void *block, size_t bytes)
{
    (void)user;
    allocations++;
    return realloc(block, bytes);
}

static void count_free(void *user, void *block)
{
    (void)user;
    free(block);
}

/* The limit: one thread, one buffer, and only the work that the bytes need. */

static unsigned char *put_bytes(unsigned char *to, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        *to++ = (unsigned char)(value >> 8 * i);
    return to;
}

static unsigned char *put_varint(unsigned char *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (unsigned char)(value | 0x80);
    *to++ = (unsigned char)value;
    return to;
}

static uint32_t masked_crc(unsigned char *data, size_t bytes)
{
    uint32_t crc = ~crc32_iscsi(data, (int)bytes, ~0U);
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static unsigned char *put_event(unsigned char *to, const char *tag, float value, int64_t step)
{
    struct timespec now;
    uint64_t time;
    uint32_t bits;
    size_t tag_bytes = strlen(tag);
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    memcpy(&time, &seconds, sizeof time);
    memcpy(&bits, &value, sizeof bits);
    *to++ = 0x09;
    to = put_bytes(to, time, 8);
    *to++ = 0x10;
    to = put_varint(to, (uint64_t)step);
    *to++ = 0x2a;
    *to++ = (unsigned char)(tag_bytes + 9);
    *to++ = 0x0a;
    *to++ = (unsigned char)(tag_bytes + 7);
    *to++ = 0x0a;
    *to++ = (unsigned char)tag_bytes;
    memcpy(to, tag, tag_bytes);
    to += tag_bytes;
    *to++ = 0x15;
    return put_bytes(to, bits, 4);
}

static unsigned char *put_record(unsigned char *to, const char *tag, float value, int64_t step)
{
    unsigned char *data = to + 12, *end = put_event(data, tag, value, step);
    put_bytes(to, (uint64_t)(end - data), 8);
    put_bytes(to + 8, masked_crc(to, 8), 4);
    return put_bytes(end, masked_crc(data, (size_t)(end - data)), 4);
}

static void write_all(int file, const unsigned char *data, size_t bytes)
{
    if (write(file, data, bytes) != (ssize_t)bytes)
        abort();
}

/* Seconds. */
static double run_limit(void)
{
    enum { RECORD = 128 };
    static unsigned char buffer[BATCH + RECORD];
    char path[4096];
    snprintf(path, sizeof path, "%s/limit", directory);
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (file < 0)
        abort();
    unsigned char *at = buffer;
    double begun = bench_now();
    for (int64_t step = 1; step <= SCALARS; step++) {
        at = put_record(at, "train/loss", (float)step, step);
        if (at - buffer < BATCH)
            continue;
        write_all(file, buffer, (size_t)(at - buffer));
        at = buffer;
    }
    write_all(file, buffer, (size_t)(at - buffer));
    double took = bench_now() - begun;
    close(file);
    unlink(path);
    return took;
}

/* The writer. */

static hs_summary_writer *open_writer(void)
{
    static const hs_env env = HS_INIT(hs_env, .allocator = {count_alloc, count_realloc, count_free, NULL});
    hs_error err = {0};
    hs_summary_writer *writer = hs_summary_writer_open(directory, HS_SUMMARY_WRITER_OPTIONS(.env = &env), &err);
    if (!writer) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return writer;
}

static void close_writer(hs_summary_writer *writer)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", hs_summary_writer_path(writer));
    if (hs_summary_writer_close(writer, NULL))
        abort();
    unlink(path);
}

static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Seconds until all events are in the file. *calls: seconds until the last call returned; *cpu: this thread's part of it.
 */
static double run_writer(hs_summary_writer *writer, double *calls, double *cpu)
{
    double begun = bench_now(), cpu_begun = cpu_now();
    for (int64_t step = 1; step <= SCALARS; step++)
        if (hs_summary_writer_scalar(writer, "train/loss", (double)step, step, NULL))
            abort();
    *calls = bench_now() - begun;
    *cpu = cpu_now() - cpu_begun;
    if (hs_summary_writer_flush(writer, false, NULL))
        abort();
    return bench_now() - begun;
}

static double run_ours(double *calls, double *cpu, int *allocated)
{
    hs_summary_writer *writer = open_writer();
    run_writer(writer, calls, cpu); /* the buffers grow to their final size */
    allocations = 0;
    double took = run_writer(writer, calls, cpu);
    *allocated = allocations;
    close_writer(writer);
    return took;
}

/* Nanoseconds of a call between other work. */
static double run_spaced(void)
{
    const double work = 2e-6;
    static double calls[SPACED], clocks[SPACED];
    hs_summary_writer *writer = open_writer();
    double before = bench_now(), after;
    for (int step = 0; step < SPACED; step++) {
        while ((after = bench_now()) - before < work)
            ;
        hs_summary_writer_scalar(writer, "train/loss", (double)step, step, NULL);
        before = bench_now();
        calls[step] = before - after;
    }
    close_writer(writer);
    for (int i = 0; i < SPACED; i++) {
        before = bench_now();
        clocks[i] = bench_now() - before;
    }
    return (bench_median(calls, SPACED) - bench_median(clocks, SPACED)) * 1e9;
}

int main(int argc, char **argv)
{
    double call_ns[BENCH_ROUNDS], cpu_ns[BENCH_ROUNDS], spaced_ns[BENCH_ROUNDS], ours[BENCH_ROUNDS], limit[BENCH_ROUNDS],
        ratio[BENCH_ROUNDS];
    int allocated = 0, most = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: events DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double calls, cpu, loop = i % 2 ? run_limit() : 0, took = run_ours(&calls, &cpu, &allocated);
        if (!(i % 2)) /* the order may matter */
            loop = run_limit();
        most = allocated > most ? allocated : most;
        call_ns[i] = calls * 1e9 / SCALARS;
        cpu_ns[i] = cpu * 1e9 / SCALARS;
        spaced_ns[i] = run_spaced();
        ours[i] = SCALARS / took;
        limit[i] = SCALARS / loop;
        ratio[i] = ours[i] / limit[i];
    }
    bench_print("scalar_call_ns", bench_median(call_ns, BENCH_ROUNDS), "ns");
    bench_print("scalar_cpu_ns", bench_median(cpu_ns, BENCH_ROUNDS), "ns");
    bench_print("scalar_spaced_ns", bench_median(spaced_ns, BENCH_ROUNDS), "ns");
    bench_print("scalars_per_second", bench_median(ours, BENCH_ROUNDS), "1/s");
    bench_print("limit_per_second", bench_median(limit, BENCH_ROUNDS), "1/s");
    bench_print("scalars_over_limit", bench_median(ratio, BENCH_ROUNDS), "ratio");
    bench_print("scalar_allocations", most, "count");
    return 0;
}
