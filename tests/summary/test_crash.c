/* SPDX-License-Identifier: Apache-2.0 */
/* Event files on a disk that loses data and fails: what can be read of a file is always a prefix. */
#include "support/disk.h"

#include "formats/records.h"

#define DIRECTORY "/logs/run"
enum { EVENTS = 12, GRAPH = 1500, MOST = 4096 };

typedef struct {
    test_env t;
    disk disk;
    hs_error err;
    bool opened;
    uint64_t sure;  /* bytes of the file that must not be lost */
    bool reported;  /* the writer reported an error */
    const char *at; /* for messages */
    size_t where, loss;
} scene;

/* The file as written without a failure. */
static unsigned char whole[MOST];
static size_t whole_bytes;

static void begin(scene *s, const char *at, size_t where)
{
    memset(s, 0, sizeof *s);
    test_env_init(&s->t);
    disk_init(&s->disk);
    s->t.env.files = s->disk.files;
    s->at = at;
    s->where = where;
}

static void end(scene *s)
{
    disk_free(&s->disk);
    assert_int_equal(s->t.live, 0);
}

static void wrong(const scene *s, const char *what)
{
    fail_msg("%s %zu, loss %zu: %s: %s", s->at, s->where, s->loss, what, s->err.message);
}

/* The first event file. NULL: no event file. */
static const disk_name *event_file(const disk *d)
{
    const disk_name *found = NULL;
    for (size_t i = 0; i < d->cached.n; i++)
        if (strstr(d->cached.items[i].path, "tfevents") && (!found || strcmp(d->cached.items[i].path, found->path) < 0))
            found = &d->cached.items[i];
    return found;
}

static hs_code add(hs_summary_writer *writer, int step, hs_error *err)
{
    static const unsigned char graph[GRAPH] = {1, 2, 3};
    return step == EVENTS / 2 ? hs_summary_writer_graph(writer, (hs_bytes){graph, GRAPH}, step, err)
                              : hs_summary_writer_scalar(writer, "loss", step, step, err);
}

static hs_summary_writer *open_writer(scene *s)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &s->t.env, .on_error = HS_WRITER_FAILS);
    return hs_summary_writer_open(DIRECTORY, &options, &s->err);
}

/* Writes events until all are written or the disk fails. Flushes each, and syncs some. */
static void write_events(scene *s)
{
    hs_summary_writer *writer = open_writer(s);
    if (!writer) {
        s->reported = true;
        return;
    }
    const disk_file *file = disk_find(&s->disk, hs_summary_writer_path(writer));
    s->opened = !s->disk.off;
    s->sure = s->opened ? file->cached.size : 0;
    for (int step = 0; step < EVENTS; step++) {
        bool sync = step % 4 == 3;
        s->reported |= add(writer, step, &s->err) || hs_summary_writer_flush(writer, sync, &s->err);
        if (!s->reported && !s->disk.off && sync)
            s->sure = file->cached.size;
    }
    s->reported |= hs_summary_writer_close(writer, &s->err) != HS_OK;
    if (!s->reported && !s->disk.off)
        s->sure = file->cached.size;
}

/* The size of the records that readers can read. */
static uint64_t readable(scene *s, const char *path)
{
    hs_record_reader reader;
    hs_bytes record;
    hs_code code = hs__record_reader_open(&reader, &s->t.env, path, HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, &s->err);
    if (code)
        wrong(s, "the file cannot be opened");
    while (!(code = hs_record_reader_next(&reader, &record, &s->err)))
        ;
    if (code != HS_OUT_OF_RANGE && code != HS_DATA_LOSS)
        wrong(s, "the file cannot be read");
    uint64_t bytes = reader.offset;
    hs_record_reader_close(&reader);
    return bytes;
}

/* Checks that readers see a prefix of the file with at least `sure` bytes. `torn`: all bytes of the file are a prefix,
 * which may end inside a record. */
static void check_file(scene *s, bool torn)
{
    const disk_name *name = event_file(&s->disk);
    if (!name) {
        if (s->opened)
            wrong(s, "the file is gone");
        return;
    }
    const disk_bytes *file = &s->disk.content[name->file].cached;
    uint64_t bytes = readable(s, name->path);
    size_t same = torn ? file->size : (size_t)bytes;
    if (file->size > whole_bytes || (same && memcmp(file->data, whole, same) != 0))
        wrong(s, "the file has bytes that were never written");
    if (bytes < s->sure)
        wrong(s, "events are lost");
}

/* Checks that the next process writes a new file, which sorts after this one. */
static void check_next_process(scene *s)
{
    char before[DISK_PATH] = "";
    const disk_name *name = event_file(&s->disk);
    if (name)
        strcpy(before, name->path);
    size_t bytes = name ? s->disk.content[name->file].cached.size : 0;
    hs_summary_writer *writer = open_writer(s);
    if (!writer || strcmp(hs_summary_writer_path(writer), before) <= 0)
        wrong(s, "no new file");
    if (add(writer, 0, &s->err) || hs_summary_writer_close(writer, &s->err))
        wrong(s, "it cannot continue");
    if (*before && disk_find(&s->disk, before)->cached.size != bytes)
        wrong(s, "the old file was changed");
}

static int find_whole(void **state)
{
    (void)state;
    scene s;
    begin(&s, "without a fault", 0);
    write_events(&s);
    const disk_bytes *file = &s.disk.content[event_file(&s.disk)->file].cached;
    whole_bytes = file->size;
    assert_true(!s.reported && whole_bytes < MOST && s.sure == whole_bytes);
    memcpy(whole, file->data, whole_bytes);
    assert_true(readable(&s, event_file(&s.disk)->path) == whole_bytes);
    end(&s);
    return 0;
}

/* Simulates each loss. After a failed sync, the file may have zeros with any loss. */
static void each_loss(scene *left)
{
    enum { SEEDS = 8 };
    for (size_t n = 0; n < SEEDS * DISK_CONTENTS_LOSSES * DISK_NAMES_LOSSES; n++) {
        disk_loss loss = {(int)(n % DISK_CONTENTS_LOSSES), (int)(n / DISK_CONTENTS_LOSSES % DISK_NAMES_LOSSES), n};
        scene s = *left;
        disk_copy(&s.disk, &left->disk);
        s.t.env.files = s.disk.files;
        s.t.env.allocator.user = s.t.env.logger.user = s.t.env.clock.user = &s.t;
        s.loss = n;
        disk_lose_power(&s.disk, loss);
        check_file(&s, loss.contents <= DISK_TEARS_SECTORS && !left->disk.failed);
        check_next_process(&s);
        end(&s);
    }
}

static void after_a_power_failure_the_file_is_a_prefix_with_all_synced_events(void **state)
{
    (void)state;
    static scene s;
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        begin(&s, "a cut before change", at);
        s.disk.cut_at = at;
        write_events(&s);
        cut = s.disk.off;
        each_loss(&s);
        end(&s);
    }
}

/* After an error, the writer writes nothing more and reports it. */
static void fail_at(size_t at, hs_code code, bool *failed)
{
    static scene s;
    begin(&s, "failing call", at);
    s.disk.fail_at = at;
    s.disk.fail_code = code;
    write_events(&s);
    *failed = s.disk.failed;
    s.disk.fail_at = 0;
    if (s.reported)
        assert_int_equal(s.err.code, code);
    check_file(&s, true);
    each_loss(&s);
    end(&s);
}

static void a_disk_error_is_reported_and_leaves_a_prefix(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t at = 1; failed; at++)
        fail_at(at, HS_UNKNOWN, &failed);
}

static void a_full_disk_leaves_a_prefix(void **state)
{
    (void)state;
    for (size_t room = 1; room < whole_bytes; room++) {
        static scene s;
        begin(&s, "room for", room);
        s.disk.room = room;
        write_events(&s);
        s.disk.room = 0;
        assert_true(s.reported);
        assert_int_equal(s.err.code, HS_RESOURCE_EXHAUSTED);
        check_file(&s, true);
        end(&s);
    }
}

/* Writers that retry. */

/* The number of records of all files without their versions, in the order of the files' names. Ignores truncated records.
 * *clean is false if there is an unexpected record. */
static size_t records_of_all(scene *s, bool *clean)
{
    size_t n = 0;
    uint64_t events = 0;
    *clean = true;
    char before[DISK_PATH] = "";
    for (;;) {
        const disk_name *next = NULL;
        for (size_t i = 0; i < s->disk.cached.n; i++) {
            const disk_name *name = &s->disk.cached.items[i];
            if (strstr(name->path, "tfevents") && strcmp(name->path, before) > 0 &&
                (!next || strcmp(name->path, next->path) < 0))
                next = name;
        }
        if (!next)
            return n;
        strcpy(before, next->path);
        hs_record_reader reader;
        hs_bytes record;
        hs__record_reader_open(&reader, &s->t.env, before, HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, NULL);
        for (bool version = true; !hs_record_reader_next(&reader, &record, NULL); version = false) {
            const unsigned char *data = record.data;
            if (version)
                continue;
            /* Step 0 is omitted. */
            uint64_t step = data[9] == 0x10 ? data[10] : 0;
            *clean &= step == events++;
            n++;
        }
        hs_record_reader_close(&reader);
    }
}

static hs_summary_writer *open_going_on(scene *s)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &s->t.env);
    hs_summary_writer *writer = hs_summary_writer_open(DIRECTORY, &options, &s->err);
    if (!writer)
        wrong(s, "it cannot be opened");
    return writer;
}

/* Wherever the disk becomes full: when it has free space again, each event is written once, in order. */
static void a_full_disk_that_gets_free_space_loses_nothing(void **state)
{
    (void)state;
    for (size_t room = whole_bytes / 8; room < whole_bytes; room += 5) {
        static scene s;
        bool clean;
        begin(&s, "room for", room);
        hs_summary_writer *writer = open_going_on(&s);
        s.disk.room = room;
        for (int step = 0; step < EVENTS; step++) {
            assert_ok(add(writer, step, &s.err), &s.err);
            hs_summary_writer_flush(writer, step % 3 == 0, NULL);
        }
        s.disk.room = 0;
        if (hs_summary_writer_close(writer, &s.err))
            wrong(&s, "it did not get over it");
        if (records_of_all(&s, &clean) != EVENTS || !clean)
            wrong(&s, "not each event is there once");
        end(&s);
    }
}

/* Writes events and syncs some of them, on a disk whose call number `at` fails. Returns the number of events that must not
 * be lost. */
static size_t write_on(scene *s, const char *what, size_t at, bool *failed)
{
    hs_summary_writer *writer = open_going_on(s);
    size_t sure = 0;
    s->disk.fail_what = what;
    s->disk.fail_at = s->disk.calls + at;
    s->disk.fail_code = HS_RESOURCE_EXHAUSTED;
    for (int step = 0; step < EVENTS; step++) {
        assert_ok(add(writer, step, &s->err), &s->err);
        if (!hs_summary_writer_flush(writer, step % 3 == 2, NULL) && step % 3 == 2)
            sure = (size_t)step + 1;
    }
    *failed = s->disk.failed;
    hs_summary_writer_close(writer, NULL);
    return sure;
}

/* Events that a flush has synced survive a power failure, even if a write has failed before. */
static void events_synced_after_a_failure_are_not_lost(void **state)
{
    (void)state;
    enum { LOSSES = 8 * DISK_CONTENTS_LOSSES * DISK_NAMES_LOSSES, EVERY = 7 };
    bool failed = true, clean;
    for (size_t at = 1; failed; at++)
        for (size_t n = at % EVERY; n < LOSSES; n += EVERY) {
            static scene s;
            begin(&s, "failing write", at);
            size_t sure = write_on(&s, "write", at, &failed);
            assert_true(sure > 0);
            disk_lose_power(&s.disk, (disk_loss){(int)(n % DISK_CONTENTS_LOSSES),
                                                 (int)(n / DISK_CONTENTS_LOSSES % DISK_NAMES_LOSSES), n});
            if (records_of_all(&s, &clean) < sure || !clean)
                wrong(&s, "synced events are lost");
            end(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_power_failure_the_file_is_a_prefix_with_all_synced_events),
        cmocka_unit_test(a_disk_error_is_reported_and_leaves_a_prefix),
        cmocka_unit_test(a_full_disk_leaves_a_prefix),
        cmocka_unit_test(a_full_disk_that_gets_free_space_loses_nothing),
        cmocka_unit_test(events_synced_after_a_failure_are_not_lost),
    };
    return cmocka_run_group_tests(tests, find_whole, NULL);
}
