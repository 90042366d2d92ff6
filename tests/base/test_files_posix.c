/* SPDX-License-Identifier: Apache-2.0 */
/* The system's file system fulfills the contract in env.h. */
#define _XOPEN_SOURCE 700 /* mknod */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

static const hs_file_system_ops *fs;
static char *directory;
static hs_error err;

/* fsync fails with each of these errors in turn, then succeeds (-Wl,--wrap). */
static int sync_errors[3];
static size_t syncs;
static ino_t synced; /* the inode of the last descriptor */

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);

int __wrap_fsync(int descriptor)
{
    struct stat found;
    assert_int_equal(fstat(descriptor, &found), 0);
    synced = found.st_ino;
    errno = syncs < 3 ? sync_errors[syncs] : 0;
    syncs++;
    return errno ? -1 : __real_fsync(descriptor);
}

static void set_sync_errors(int first, int second)
{
    sync_errors[0] = first;
    sync_errors[1] = second;
    syncs = 0;
}

static int set_up(void **state)
{
    (void)state;
    fs = hs_env_default()->files.ops;
    directory = test_make_directory();
    hs_error_clear(&err);
    set_sync_errors(0, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_directory(directory);
    return 0;
}

static const char *in(const char *name)
{
    return test_path(directory, name);
}

static void put(const char *name, const char *text)
{
    test_write_file(in(name), text, strlen(text));
}

static void assert_content(const char *name, const char *expected)
{
    char *text = test_read_file(in(name), NULL);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void *open_file(const char *name, int mode)
{
    void *file = NULL;
    assert_ok(fs->open(NULL, in(name), mode, &file, &err), &err);
    return file;
}

static void close_file(void *file)
{
    assert_ok(fs->close(NULL, file, &err), &err);
}

/* Writes each text with a separate call. */
static void write_file(const char *name, int mode, const char *const *texts)
{
    void *file = open_file(name, mode);
    for (; *texts; texts++)
        assert_ok(fs->write(NULL, file, *texts, strlen(*texts), &err), &err);
    assert_ok(fs->sync(NULL, file, &err), &err);
    close_file(file);
}

/* Opening. */

static void reading_a_missing_file_is_not_found(void **state)
{
    (void)state;
    void *file;
    assert_fails(fs->open(NULL, in("none"), HS_OPEN_READ, &file, &err), HS_NOT_FOUND, &err, in("none"));
    assert_false(test_exists(directory, "none"));
}

static void writing_in_a_missing_directory_is_not_found(void **state)
{
    (void)state;
    void *file;
    assert_fails(fs->open(NULL, in("none/f"), HS_OPEN_WRITE, &file, &err), HS_NOT_FOUND, &err, in("none/f"));
    assert_fails(fs->open(NULL, in("none/f"), HS_OPEN_APPEND, &file, &err), HS_NOT_FOUND, &err, in("none/f"));
}

static void a_directory_cannot_be_written(void **state)
{
    (void)state;
    void *file;
    mkdir(in("d"), 0777);
    assert_fails(fs->open(NULL, in("d"), HS_OPEN_WRITE, &file, &err), HS_FAILED_PRECONDITION, &err, in("d"));
    assert_fails(fs->open(NULL, in("d"), HS_OPEN_APPEND, &file, &err), HS_FAILED_PRECONDITION, &err, in("d"));
}

static void a_directory_cannot_be_read(void **state)
{
    (void)state;
    void *file = NULL;
    char data[4];
    size_t got;
    mkdir(in("d"), 0777);
    hs_code code = fs->open(NULL, in("d"), HS_OPEN_READ, &file, &err);
    if (!code) { /* some systems report it at the first read */
        code = fs->read(NULL, file, 0, data, sizeof data, &got, &err);
        fs->close(NULL, file, NULL);
    }
    assert_fails(code, HS_FAILED_PRECONDITION, &err, in("d"));
}

static void fifos_and_devices_cannot_be_read(void **state)
{
    (void)state;
    void *file = NULL;
    int next = open("/dev/null", O_RDONLY);
    close(next);
    assert_int_equal(mkfifo(in("fifo"), 0666), 0); /* without a writer */
    assert_fails(fs->open(NULL, in("fifo"), HS_OPEN_READ, &file, &err), HS_INVALID_ARGUMENT, &err,
                 "fifo: is not a regular file");
    assert_fails(fs->open(NULL, "/dev/zero", HS_OPEN_READ, &file, &err), HS_INVALID_ARGUMENT, &err,
                 "is not a regular file");
    int still_next = open("/dev/null", O_RDONLY);
    close(still_next);
    assert_int_equal(still_next, next); /* no descriptor is leaked */
}

/* ENXIO can also be an error of a disk, which must not look like a wrong kind of file. */
static void a_socket_cannot_be_read(void **state)
{
    (void)state;
    void *file = NULL;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int bound = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", in("socket"));
    assert_int_equal(bind(bound, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_not_equal(fs->open(NULL, in("socket"), HS_OPEN_READ, &file, &err), HS_OK);
    assert_int_equal(err.os_error, ENXIO);
    close(bound);
}

static void a_file_in_the_path_is_not_a_directory(void **state)
{
    (void)state;
    void *file;
    put("f", "x");
    assert_fails(fs->open(NULL, in("f/g"), HS_OPEN_READ, &file, &err), HS_FAILED_PRECONDITION, &err, in("f/g"));
}

/* Writing. */

static void writes_follow_each_other(void **state)
{
    (void)state;
    write_file("f", HS_OPEN_WRITE, HS_NAMES("one ", "", "two"));
    assert_content("f", "one two");
}

static void opening_for_writing_truncates(void **state)
{
    (void)state;
    put("f", "a long old text");
    write_file("f", HS_OPEN_WRITE, HS_NAMES("new"));
    assert_content("f", "new");
}

static void appending_continues_at_the_end(void **state)
{
    (void)state;
    put("f", "old ");
    write_file("f", HS_OPEN_APPEND, HS_NAMES("new ", "newer"));
    assert_content("f", "old new newer");
}

static void appending_makes_a_missing_file(void **state)
{
    (void)state;
    write_file("f", HS_OPEN_APPEND, HS_NAMES("first"));
    assert_content("f", "first");
}

static void a_new_file_must_not_be_there(void **state)
{
    (void)state;
    void *file;
    write_file("f", HS_OPEN_NEW, HS_NAMES("first"));
    assert_fails(fs->open(NULL, in("f"), HS_OPEN_NEW, &file, &err), HS_ALREADY_EXISTS, &err, "f: cannot open it");
    assert_content("f", "first");
}

/* Objects that another user may have placed under the name of a new file. The victim's file is "victim" with the text
 * "mine". */

static void plant_link(const char *name)
{
    put("victim", "mine");
    assert_int_equal(symlink("victim", in(name)), 0);
}

static void plant_dangling_link(const char *name)
{
    put("victim", "mine");
    assert_int_equal(symlink("nowhere", in(name)), 0);
}

static void plant_link_to_directory(const char *name)
{
    put("victim", "mine");
    mkdir(in("somewhere"), 0777);
    assert_int_equal(symlink("somewhere", in(name)), 0);
}

static void plant_hard_link(const char *name)
{
    put("victim", "mine");
    const char *victim = in("victim");
    assert_int_equal(link(victim, in(name)), 0);
}

static void plant_fifo(const char *name)
{
    put("victim", "mine");
    assert_int_equal(mkfifo(in(name), 0666), 0);
}

static void (*const plants[])(const char *name) = {plant_link, plant_dangling_link, plant_link_to_directory,
                                                   plant_hard_link, plant_fifo};
enum { PLANTS = sizeof plants / sizeof *plants };

static void assert_no_harm(void)
{
    assert_content("victim", "mine");
    assert_false(test_exists(directory, "nowhere"));
}

static void opening_for_writing_replaces_links_and_fifos(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLANTS; i++) {
        struct stat found;
        tear_down(NULL);
        set_up(NULL);
        plants[i]("f");
        write_file("f", HS_OPEN_WRITE, HS_NAMES("new"));
        assert_content("f", "new");
        assert_int_equal(lstat(in("f"), &found), 0);
        assert_true(S_ISREG(found.st_mode) && found.st_nlink == 1);
        assert_no_harm();
    }
}

static void links_and_fifos_are_not_appended_to(void **state)
{
    (void)state;
    const char *const says[PLANTS] = {"f: is a symbolic link", "f: is a symbolic link", "f: is a symbolic link",
                                      "f: has 2 hard links", "f: is not a regular file"};
    for (size_t i = 0; i < PLANTS; i++) {
        void *file;
        tear_down(NULL);
        set_up(NULL);
        plants[i]("f");
        hs_code expected = i < PLANTS - 1 ? HS_FAILED_PRECONDITION : HS_INVALID_ARGUMENT;
        assert_fails(fs->open(NULL, in("f"), HS_OPEN_APPEND, &file, &err), expected, &err, says[i]);
        assert_no_harm();
    }
}

static void a_fifo_that_is_read_is_not_appended_to(void **state)
{
    (void)state;
    void *file;
    plant_fifo("f");
    int reader = open(in("f"), O_RDONLY | O_NONBLOCK);
    assert_fails(fs->open(NULL, in("f"), HS_OPEN_APPEND, &file, &err), HS_INVALID_ARGUMENT, &err,
                 "f: is not a regular file");
    close(reader);
}

static void a_new_file_fails_if_anything_has_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLANTS; i++) {
        void *file;
        tear_down(NULL);
        set_up(NULL);
        plants[i]("f");
        assert_fails(fs->open(NULL, in("f"), HS_OPEN_NEW, &file, &err), HS_ALREADY_EXISTS, &err, "f: cannot open it");
        assert_no_harm();
    }
}

static void a_device_is_not_replaced(void **state)
{
    (void)state;
    void *file;
    struct stat found;
    if (mknod(in("f"), S_IFCHR | 0666, makedev(1, 7)) != 0)
        test_skip("only root may make a device");
    assert_fails(fs->open(NULL, in("f"), HS_OPEN_WRITE, &file, &err), HS_INVALID_ARGUMENT, &err,
                 "f: is not a regular file");
    assert_int_equal(lstat(in("f"), &found), 0);
    assert_true(S_ISCHR(found.st_mode));
}

static void a_link_to_a_device_is_not_replaced(void **state)
{
    (void)state;
    void *file;
    char target[16] = "";
    assert_int_equal(symlink("/dev/null", in("f")), 0);
    assert_fails(fs->open(NULL, in("f"), HS_OPEN_WRITE, &file, &err), HS_INVALID_ARGUMENT, &err,
                 "f: is not a regular file");
    assert_int_equal(readlink(in("f"), target, sizeof target - 1), strlen("/dev/null"));
    assert_string_equal(target, "/dev/null");
}

static void an_unknown_mode_is_refused(void **state)
{
    (void)state;
    void *file;
    assert_fails(fs->open(NULL, in("f"), 4, &file, &err), HS_INVALID_ARGUMENT, &err, "open mode");
    assert_fails(fs->open(NULL, in("f"), -1, &file, &err), HS_INVALID_ARGUMENT, &err, "open mode");
}

static void a_full_disk_is_resource_exhausted(void **state)
{
    (void)state;
    void *file;
    if (access("/dev/full", W_OK) != 0)
        test_skip("/dev/full does not exist");
    assert_ok(fs->open(NULL, "/dev/full", HS_OPEN_APPEND, &file, &err), &err);
    assert_fails(fs->write(NULL, file, "x", 1, &err), HS_RESOURCE_EXHAUSTED, &err, "/dev/full");
    assert_int_not_equal(err.os_error, 0);
    fs->close(NULL, file, NULL);
}

/* In a child process, because the limit applies to all files. */
static int write_above_the_limit(void *unused)
{
    (void)unused;
    static char data[200];
    struct rlimit limit;
    void *file;
    sigset_t pending;
    signal(SIGXFSZ, SIG_DFL);
    getrlimit(RLIMIT_FSIZE, &limit);
    const struct rlimit before = limit;
    limit.rlim_cur = 100;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (fs->open(NULL, in("f"), HS_OPEN_WRITE, &file, &err))
        return 2;
    bool right = fs->write(NULL, file, data, sizeof data, &err) == HS_RESOURCE_EXHAUSTED && err.os_error == EFBIG &&
                 strstr(err.message, "100 of 200 bytes were written");
    right &= fs->write(NULL, file, data, 1, &err) == HS_RESOURCE_EXHAUSTED;
    sigemptyset(&pending);
    sigpending(&pending);
    fs->close(NULL, file, NULL);
    setrlimit(RLIMIT_FSIZE, &before); /* gcov writes its files when the process ends */
    return right && !sigismember(&pending, SIGXFSZ) ? 0 : 3;
}

static void a_file_above_the_limit_of_sizes_raises_no_signal(void **state)
{
    (void)state;
    assert_int_equal(test_in_child(write_above_the_limit, NULL), 0);
}

static void a_file_that_is_read_cannot_be_written(void **state)
{
    (void)state;
    put("f", "kept");
    void *file = open_file("f", HS_OPEN_READ);
    assert_int_not_equal(fs->write(NULL, file, "x", 1, &err), HS_OK);
    assert_contains(err.message, in("f"));
    close_file(file);
    assert_content("f", "kept");
}

/* Reading. */

static void assert_read(void *file, uint64_t offset, size_t bytes, const char *expected)
{
    char data[64];
    size_t got = 999;
    assert_ok(fs->read(NULL, file, offset, data, bytes, &got, &err), &err);
    assert_int_equal(got, strlen(expected));
    assert_memory_equal(data, expected, got);
}

static void reads_start_anywhere_and_are_short_at_the_end_only(void **state)
{
    (void)state;
    put("f", "0123456789");
    void *file = open_file("f", HS_OPEN_READ);
    assert_read(file, 3, 4, "3456");
    assert_read(file, 0, 10, "0123456789");
    assert_read(file, 8, 5, "89");
    assert_read(file, 10, 5, "");
    assert_read(file, 1000, 5, "");
    assert_read(file, 0, 0, "");
    close_file(file);
}

static void an_open_file_shows_appended_data(void **state)
{
    (void)state;
    put("f", "old");
    void *file = open_file("f", HS_OPEN_READ);
    assert_read(file, 3, 5, "");
    write_file("f", HS_OPEN_APPEND, HS_NAMES("new"));
    assert_read(file, 3, 5, "new");
    close_file(file);
}

static void offsets_go_beyond_four_gibibytes(void **state)
{
    (void)state;
    const int64_t far = (int64_t)5 << 30;
    put("f", "start");
    if (sizeof(off_t) < 8 || truncate(in("f"), (off_t)far) != 0) /* a sparse file */
        test_skip("files of 5 GiB are not possible here");
    write_file("f", HS_OPEN_APPEND, HS_NAMES("end"));
    void *file = open_file("f", HS_OPEN_READ);
    assert_read(file, (uint64_t)far, 5, "end");
    close_file(file);
    hs_file_stat found;
    assert_ok(fs->stat(NULL, in("f"), &found, &err), &err);
    assert_int_equal(found.bytes, far + 3);
}

/* Names. */

static void rename_replaces(void **state)
{
    (void)state;
    put("a", "new");
    put("b", "old");
    assert_ok(fs->rename(NULL, in("a"), in("b"), &err), &err);
    assert_content("b", "new");
    assert_false(test_exists(directory, "a"));
}

static void renaming_a_missing_file_is_not_found(void **state)
{
    (void)state;
    put("b", "old");
    assert_fails(fs->rename(NULL, in("a"), in("b"), &err), HS_NOT_FOUND, &err, in("a"));
    assert_content("b", "old");
}

static void a_directory_is_not_replaced_by_a_file(void **state)
{
    (void)state;
    put("a", "new");
    mkdir(in("b"), 0777);
    assert_fails(fs->rename(NULL, in("a"), in("b"), &err), HS_FAILED_PRECONDITION, &err, in("b"));
    assert_content("a", "new");
}

static void remove_removes_files(void **state)
{
    (void)state;
    put("f", "x");
    assert_ok(fs->remove(NULL, in("f"), &err), &err);
    assert_false(test_exists(directory, "f"));
    assert_fails(fs->remove(NULL, in("f"), &err), HS_NOT_FOUND, &err, in("f"));
}

static void remove_leaves_directories(void **state)
{
    (void)state;
    mkdir(in("d"), 0777);
    assert_int_not_equal(fs->remove(NULL, in("d"), &err), HS_OK);
    assert_int_not_equal(err.code, HS_NOT_FOUND);
    assert_true(test_exists(directory, "d"));
}

static void remove_directory_removes_empty_ones(void **state)
{
    (void)state;
    assert_fails(fs->remove_directory(NULL, in("d"), &err), HS_NOT_FOUND, &err, in("d"));
    mkdir(in("d"), 0777);
    put("d/f", "x");
    assert_int_not_equal(fs->remove_directory(NULL, in("d"), &err), HS_OK);
    assert_true(test_exists(directory, "d/f"));
    assert_ok(fs->remove(NULL, in("d/f"), &err), &err);
    assert_ok(fs->remove_directory(NULL, in("d"), &err), &err);
    assert_false(test_exists(directory, "d"));
}

static void make_directory_makes_one_level(void **state)
{
    (void)state;
    assert_ok(fs->make_directory(NULL, in("d"), &err), &err);
    assert_ok(fs->make_directory(NULL, in("d/e"), &err), &err);
    assert_true(test_exists(directory, "d/e"));
    assert_fails(fs->make_directory(NULL, in("x/y"), &err), HS_NOT_FOUND, &err, in("x/y"));
}

static void make_directory_reports_an_existing_path(void **state)
{
    (void)state;
    put("f", "x");
    mkdir(in("d"), 0777);
    assert_fails(fs->make_directory(NULL, in("d"), &err), HS_ALREADY_EXISTS, &err, in("d"));
    assert_fails(fs->make_directory(NULL, in("f"), &err), HS_ALREADY_EXISTS, &err, in("f"));
    assert_fails(fs->make_directory(NULL, in("f/d"), &err), HS_FAILED_PRECONDITION, &err, in("f/d"));
}

static void sync_directory_needs_a_directory(void **state)
{
    (void)state;
    put("f", "x");
    assert_ok(fs->sync_directory(NULL, directory, &err), &err);
    assert_fails(fs->sync_directory(NULL, in("none"), &err), HS_NOT_FOUND, &err, in("none"));
    assert_fails(fs->sync_directory(NULL, in("f"), &err), HS_FAILED_PRECONDITION, &err, in("f"));
}

/* Syncing. */

static void assert_synced(const char *name)
{
    struct stat found;
    assert_int_equal(stat(in(name), &found), 0);
    assert_int_equal(synced, found.st_ino);
}

static void sync_reaches_the_disk(void **state)
{
    (void)state;
    void *file = open_file("f", HS_OPEN_WRITE);
    assert_ok(fs->sync(NULL, file, &err), &err);
    assert_int_equal(syncs, 1);
    assert_synced("f");
    set_sync_errors(EINTR, 0);
    assert_ok(fs->sync(NULL, file, &err), &err);
    assert_int_equal(syncs, 2);
    set_sync_errors(EIO, 0);
    assert_fails(fs->sync(NULL, file, &err), hs_code_from_errno(EIO), &err, "f: cannot sync");
    assert_int_equal(err.os_error, EIO);
    close_file(file);
}

static void sync_directory_reaches_the_disk(void **state)
{
    (void)state;
    assert_ok(fs->sync_directory(NULL, directory, &err), &err);
    assert_int_equal(syncs, 1);
    assert_synced(".");
    set_sync_errors(EINTR, EINVAL); /* EINVAL: the file system cannot sync directories */
    assert_ok(fs->sync_directory(NULL, directory, &err), &err);
    assert_int_equal(syncs, 2);
    set_sync_errors(EIO, 0);
    assert_fails(fs->sync_directory(NULL, directory, &err), hs_code_from_errno(EIO), &err, "cannot sync the directory");
}

/* Stat and list. */

static void stat_returns_size_and_time(void **state)
{
    (void)state;
    hs_file_stat found;
    const struct timespec times[] = {{1234567890, 0}, {1234567890, 987654321}};
    put("f", "12345");
    assert_int_equal(utimensat(AT_FDCWD, in("f"), times, 0), 0);
    assert_ok(fs->stat(NULL, in("f"), &found, &err), &err);
    assert_int_equal(found.bytes, 5);
    assert_false(found.is_directory);
    assert_int_equal(found.modified_ns, 1234567890987654321);
}

static void a_time_that_does_not_fit_is_the_nearest_one(void **state)
{
    (void)state;
    hs_file_stat found;
    struct stat stored;
    const struct timespec times[] = {{10000000000, 5}, {10000000000, 5}}; /* in the year 2286 */
    put("f", "12345");
    assert_int_equal(utimensat(AT_FDCWD, in("f"), times, 0), 0);
    assert_int_equal(stat(in("f"), &stored), 0);
    assert_ok(fs->stat(NULL, in("f"), &found, &err), &err);
    if (stored.st_mtim.tv_sec == times[1].tv_sec) /* not every file system has such times */
        assert_int_equal(found.modified_ns, 9223372035000000005);
}

static void stat_distinguishes_directories_and_missing_files(void **state)
{
    (void)state;
    hs_file_stat found;
    put("f", "x");
    assert_ok(fs->stat(NULL, directory, &found, &err), &err);
    assert_true(found.is_directory);
    assert_fails(fs->stat(NULL, in("none"), &found, &err), HS_NOT_FOUND, &err, in("none"));
    assert_fails(fs->stat(NULL, in("f/none"), &found, &err), HS_FAILED_PRECONDITION, &err, in("f/none"));
}

typedef struct {
    size_t n, stop_at;
    char names[200];
} listing;

static int append_name(void *visitor, const char *name)
{
    listing *l = visitor;
    strcat(strcat(l->names, name), " ");
    return ++l->n == l->stop_at;
}

static void list_visits_each_name_but_the_dots(void **state)
{
    (void)state;
    listing l = {0};
    put("a", "");
    put(".hidden", "");
    mkdir(in("sub"), 0777);
    put("sub/inner", "");
    assert_ok(fs->list(NULL, directory, append_name, &l, &err), &err);
    assert_int_equal(l.n, 3);
    assert_contains(l.names, "a ");
    assert_contains(l.names, ".hidden ");
    assert_contains(l.names, "sub ");
}

static void list_ends_when_the_visitor_says_so(void **state)
{
    (void)state;
    listing l = {.stop_at = 2};
    put("a", "");
    put("b", "");
    put("c", "");
    assert_ok(fs->list(NULL, directory, append_name, &l, &err), &err);
    assert_int_equal(l.n, 2);
}

static void list_needs_a_directory(void **state)
{
    (void)state;
    listing l = {0};
    put("f", "x");
    assert_fails(fs->list(NULL, in("none"), append_name, &l, &err), HS_NOT_FOUND, &err, in("none"));
    assert_fails(fs->list(NULL, in("f"), append_name, &l, &err), HS_FAILED_PRECONDITION, &err, in("f"));
    assert_int_equal(l.n, 0);
}

static void errors_may_be_null(void **state)
{
    (void)state;
    void *file;
    assert_int_equal(fs->open(NULL, in("none"), HS_OPEN_READ, &file, NULL), HS_NOT_FOUND);
    assert_int_equal(fs->remove(NULL, in("none"), NULL), HS_NOT_FOUND);
}

/* Pieces that bypass the system's cache and pieces that do not end up in one file. */
static void large_pieces_and_small_ones_make_one_file(void **state)
{
    enum { LARGE = 1 << 21 };
    (void)state;
    const size_t sizes[] = {LARGE, LARGE, 3, LARGE, 4093, LARGE, LARGE + 1, 0, LARGE};
    unsigned char *memory = aligned_alloc(4096, 2 * LARGE);
    size_t expected = 0, bytes;
    assert_non_null(memory);
    void *file = open_file("mixed", HS_OPEN_WRITE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(memory, (int)(i + 1), sizes[i]);
        assert_ok(fs->write(NULL, file, memory, sizes[i], &err), &err);
        expected += sizes[i];
    }
    assert_ok(fs->sync(NULL, file, &err), &err);
    close_file(file);
    unsigned char *read = (unsigned char *)test_read_file(in("mixed"), &bytes);
    assert_int_equal(bytes, expected);
    for (size_t i = 0, at = 0; i < sizeof sizes / sizeof *sizes; at += sizes[i++])
        for (size_t k = 0; k < sizes[i]; k++)
            assert_true(read[at + k] == i + 1);
    free(read);
    free(memory);
}

static void large_pieces_are_appended_at_the_end(void **state)
{
    enum { LARGE = 1 << 21 };
    (void)state;
    unsigned char *memory = aligned_alloc(4096, LARGE);
    size_t bytes;
    memset(memory, 7, LARGE);
    put("log", "begun");
    void *file = open_file("log", HS_OPEN_APPEND);
    assert_ok(fs->write(NULL, file, memory, LARGE, &err), &err);
    close_file(file);
    unsigned char *read = (unsigned char *)test_read_file(in("log"), &bytes);
    assert_int_equal(bytes, LARGE + 5);
    assert_memory_equal(read, "begun", 5);
    assert_memory_equal(read + 5, memory, LARGE);
    free(read);
    free(memory);
}

/* The errno of an earlier call is ignored. */
static void a_directory_may_be_descriptor_0(void **state)
{
    (void)state;
    int saved = dup(0);
    close(0);
    errno = EINTR;
    assert_ok(fs->sync_directory(NULL, in(""), &err), &err);
    assert_int_equal(fcntl(0, F_GETFD), -1); /* descriptor 0 is closed */
    if (saved >= 0) {
        dup2(saved, 0);
        close(saved);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(reading_a_missing_file_is_not_found),
        TEST(writing_in_a_missing_directory_is_not_found),
        TEST(a_directory_cannot_be_written),
        TEST(a_directory_cannot_be_read),
        TEST(fifos_and_devices_cannot_be_read),
        TEST(a_socket_cannot_be_read),
        TEST(a_file_in_the_path_is_not_a_directory),
        TEST(writes_follow_each_other),
        TEST(opening_for_writing_truncates),
        TEST(appending_continues_at_the_end),
        TEST(appending_makes_a_missing_file),
        TEST(a_new_file_must_not_be_there),
        TEST(opening_for_writing_replaces_links_and_fifos),
        TEST(links_and_fifos_are_not_appended_to),
        TEST(a_fifo_that_is_read_is_not_appended_to),
        TEST(a_new_file_fails_if_anything_has_its_name),
        TEST(a_device_is_not_replaced),
        TEST(a_link_to_a_device_is_not_replaced),
        TEST(an_unknown_mode_is_refused),
        TEST(a_full_disk_is_resource_exhausted),
        TEST(a_file_above_the_limit_of_sizes_raises_no_signal),
        TEST(a_file_that_is_read_cannot_be_written),
        TEST(reads_start_anywhere_and_are_short_at_the_end_only),
        TEST(an_open_file_shows_appended_data),
        TEST(offsets_go_beyond_four_gibibytes),
        TEST(rename_replaces),
        TEST(renaming_a_missing_file_is_not_found),
        TEST(a_directory_is_not_replaced_by_a_file),
        TEST(remove_removes_files),
        TEST(remove_leaves_directories),
        TEST(remove_directory_removes_empty_ones),
        TEST(make_directory_makes_one_level),
        TEST(make_directory_reports_an_existing_path),
        TEST(sync_directory_needs_a_directory),
        TEST(sync_reaches_the_disk),
        TEST(sync_directory_reaches_the_disk),
        TEST(a_directory_may_be_descriptor_0),
        TEST(stat_returns_size_and_time),
        TEST(a_time_that_does_not_fit_is_the_nearest_one),
        TEST(stat_distinguishes_directories_and_missing_files),
        TEST(list_visits_each_name_but_the_dots),
        TEST(list_ends_when_the_visitor_says_so),
        TEST(list_needs_a_directory),
        TEST(errors_may_be_null),
        TEST(large_pieces_and_small_ones_make_one_file),
        TEST(large_pieces_are_appended_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
