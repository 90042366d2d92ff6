/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, syscall */
#ifdef __SANITIZE_THREAD__
#include <sys/syscall.h>
#endif
#include "support/test.h"

#include "hooks/make.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The environment. Writer threads also call its functions. */

#define INJECTED "injected into call"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool fails_now(test_env *t)
{
    pthread_mutex_lock(&lock);
    bool fails = ++t->allocations == t->fail_alloc_at;
    if (!fails)
        t->live++;
    pthread_mutex_unlock(&lock);
    return fails;
}

static void *env_alloc(void *user, size_t bytes)
{
    return fails_now(user) ? NULL : malloc(bytes);
}

static void *env_realloc(void *user, void *block, size_t bytes)
{
    test_env *t = user;
    pthread_mutex_lock(&lock);
    bool fails = ++t->allocations == t->fail_alloc_at;
    if (!fails && !block)
        t->live++;
    pthread_mutex_unlock(&lock);
    return fails ? NULL : realloc(block, bytes);
}

static void env_free(void *user, void *block)
{
    test_env *t = user;
    if (!block)
        return;
    pthread_mutex_lock(&lock);
    t->live--;
    pthread_mutex_unlock(&lock);
    free(block);
}

size_t test_env_live(test_env *t)
{
    pthread_mutex_lock(&lock);
    size_t live = t->live;
    pthread_mutex_unlock(&lock);
    return live;
}

bool test_env_logged(test_env *t, const char *part)
{
    pthread_mutex_lock(&lock);
    bool logged = strstr(t->log, part) != NULL;
    pthread_mutex_unlock(&lock);
    return logged;
}

static int64_t env_now(void *user)
{
    pthread_mutex_lock(&lock);
    int64_t now = ((test_env *)user)->now_ns;
    pthread_mutex_unlock(&lock);
    return now;
}

static void env_sleep(void *user, int64_t ns)
{
    pthread_mutex_lock(&lock);
    ((test_env *)user)->now_ns += ns;
    pthread_mutex_unlock(&lock);
}

static void env_log(void *user, hs_log_level level, const char *text)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    test_env *t = user;
    test_check_line(text);
    pthread_mutex_lock(&lock);
    size_t left = sizeof t->log - t->log_used;
    int length = snprintf(t->log + t->log_used, left, "%s: %s\n", names[level], text);
    t->log_used += (size_t)length < left ? (size_t)length : left - 1;
    pthread_mutex_unlock(&lock);
}

static hs_code file_call(test_env *t, test_call call, hs_error *err)
{
    pthread_mutex_lock(&lock);
    size_t n = ++t->file_calls;
    if (n == t->fail_file_at)
        t->failed_call = call;
    pthread_mutex_unlock(&lock);
    if (t->fail_file_at && (n == t->fail_file_at || (t->fail_file_on && n > t->fail_file_at)))
        return t->fail_file_code ? hs_error_set(err, t->fail_file_code, INJECTED " %zu", n)
                                 : hs_error_set_errno(err, t->fail_file_errno, INJECTED " %zu", n);
    return HS_OK;
}

static const hs_file_system *posix(void)
{
    return &hs_env_default()->files;
}

/* A hash of the changes. FNV-1a. */

static uint64_t hash(uint64_t seed, const void *data, size_t bytes)
{
    for (const unsigned char *at = data, *end = at + bytes; at < end; at++)
        seed = (seed ^ *at) * 0x100000001b3u;
    return seed;
}

/* Hashes a path without the directory, whose name may differ in each run. */
static uint64_t hash_name(uint64_t seed, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return hash(seed, name, strlen(name));
}

static void note_change(test_env *t, uint64_t change)
{
    pthread_mutex_lock(&lock);
    t->changes += change;
    pthread_mutex_unlock(&lock);
}

static void count_open(test_env *t, bool opens)
{
    pthread_mutex_lock(&lock);
    t->open_files = opens ? t->open_files + 1 : t->open_files - 1;
    pthread_mutex_unlock(&lock);
}

typedef struct {
    void *file;
    bool reads;
    uint64_t content; /* a hash of the name and the written bytes */
} opened;

/* Each call is counted and may fail. A failing close still closes the file. */

static hs_code f_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    bool reads = mode == HS_OPEN_READ;
    void *handle;
    hs_code code = file_call(user, reads ? TEST_READS : TEST_CHANGES, err);
    if (code || (code = posix()->ops->open(NULL, path, mode, &handle, err)))
        return code;
    opened *o = malloc(sizeof *o);
    assert_non_null(o);
    *o = (opened){handle, reads, hash_name((uint64_t)mode, path)};
    *file = o;
    count_open(user, true);
    return HS_OK;
}

static hs_code f_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    opened *o = file;
    hs_code code = file_call(user, TEST_READS, err);
    return code ? code : posix()->ops->read(NULL, o->file, offset, data, bytes, got, err);
}

static hs_code f_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    opened *o = file;
    hs_code code = file_call(user, TEST_CHANGES, err);
    if (code && bytes > 1) /* a torn write */
        posix()->ops->write(NULL, o->file, data, bytes / 2, NULL);
    if (!code)
        o->content = hash(o->content, data, bytes);
    return code ? code : posix()->ops->write(NULL, o->file, data, bytes, err);
}

static hs_code f_sync(void *user, void *file, hs_error *err)
{
    (void)file; /* the tests' files need not survive a power cut */
    return file_call(user, TEST_CHANGES, err);
}

static hs_code f_close(void *user, void *file, hs_error *err)
{
    opened *o = file;
    hs_code code = file_call(user, o->reads ? TEST_CLOSES_READ : TEST_CHANGES, err);
    hs_code closed = posix()->ops->close(NULL, o->file, code ? NULL : err);
    if (!o->reads)
        note_change(user, o->content);
    count_open(user, false);
    free(o);
    return code ? code : closed;
}

static hs_code f_rename(void *user, const char *from, const char *to, hs_error *err)
{
    hs_code code = file_call(user, TEST_CHANGES, err);
    if (code || (code = posix()->ops->rename(NULL, from, to, err)))
        return code;
    note_change(user, hash_name(hash_name(1, from), to));
    return HS_OK;
}

static hs_code f_remove(void *user, const char *path, hs_error *err)
{
    hs_code code = posix()->ops->remove(NULL, path, err); /* not counted: tests check for leftover files */
    if (!code)
        note_change(user, hash_name(2, path));
    return code;
}

static hs_code f_remove_directory(void *user, const char *path, hs_error *err)
{
    (void)user; /* likewise */
    return posix()->ops->remove_directory(NULL, path, err);
}

static hs_code f_sync_directory(void *user, const char *path, hs_error *err)
{
    (void)path;
    return file_call(user, TEST_CHANGES, err);
}

static hs_code f_make_directory(void *user, const char *path, hs_error *err)
{
    hs_code code = file_call(user, TEST_CHANGES, err);
    return code ? code : posix()->ops->make_directory(NULL, path, err);
}

static hs_code f_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    (void)user;
    return posix()->ops->stat(NULL, path, out, err);
}

static hs_code f_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                      hs_error *err)
{
    (void)user;
    return posix()->ops->list(NULL, path, visit, visitor, err);
}

static hs_code f_lock(void *user, const char *path, void **lock_, hs_error *err)
{
    hs_code code = file_call(user, TEST_CHANGES, err);
    return code ? code : posix()->ops->lock(NULL, path, lock_, err);
}

static void f_unlock(void *user, void *lock_)
{
    (void)user;
    posix()->ops->unlock(NULL, lock_);
}

static const hs_file_system_ops file_ops = HS_INIT(
    hs_file_system_ops, .open = f_open, .read = f_read, .write = f_write, .sync = f_sync, .close = f_close,
    .rename = f_rename, .remove = f_remove, .remove_directory = f_remove_directory, .sync_directory = f_sync_directory,
    .make_directory = f_make_directory, .stat = f_stat, .list = f_list, .lock = f_lock, .unlock = f_unlock);

void test_env_init(test_env *t)
{
    memset(t, 0, sizeof *t);
    t->now_ns = 1700000000000000000;
    t->fail_file_errno = ENOSPC;
    t->env = (hs_env)HS_INIT(hs_env, .allocator = {env_alloc, env_realloc, env_free, t},
                             .clock = {env_now, env_now, env_sleep, t}, .logger = {env_log, t}, .files = {&file_ops, t});
}

void test_env_advance(test_env *t, double secs)
{
    env_sleep(t, (int64_t)(secs * 1e9));
}

void test_env_clear_log(test_env *t)
{
    pthread_mutex_lock(&lock);
    t->log_used = 0;
    t->log[0] = '\0';
    pthread_mutex_unlock(&lock);
}

/* Repeats a scenario, and lets one call after the other fail. */

void test_tolerate(test_env *t, const char *line)
{
    assert_true(t->n_tolerated < sizeof t->tolerated / sizeof *t->tolerated);
    t->tolerated[t->n_tolerated++] = line;
}

void test_tolerate_harmless(test_env *t)
{
    t->tolerates_harmless = true;
}

static bool is_in_line(const char *line, size_t length, const char *part)
{
    const char *found = strstr(line, part);
    return found && found < line + length;
}

/* Returns true if a line of the log has both texts. */
static bool is_logged(const char *log, const char *failure, const char *part)
{
    for (size_t length; *log; log += length + (log[length] == '\n')) {
        length = strcspn(log, "\n");
        if (is_in_line(log, length, failure) && is_in_line(log, length, part))
            return true;
    }
    return false;
}

static size_t n_lines(const char *log)
{
    size_t n = 0;
    while ((log = strchr(log, '\n')))
        n++, log++;
    return n;
}

/* The message may depend on which thread is first. */
static bool is_tolerated(const test_env *t, const test_env *undisturbed, const char *failure)
{
    for (size_t i = 0; i < t->n_tolerated; i++)
        if (is_logged(t->log, failure, t->tolerated[i]))
            return true;
    if (t->failed_call == TEST_CLOSES_READ)
        return true;
    bool may_be_harmless = t->tolerates_harmless && (t->fail_alloc_at || t->failed_call == TEST_READS);
    return may_be_harmless && !strstr(t->log, failure) && t->changes == undisturbed->changes &&
           n_lines(t->log) == n_lines(undisturbed->log);
}

/* The hooks of the scenario get their memory from the environment. */
static hs_code play(test_scenario scenario, test_env *t, void *user)
{
    const hs_env *earlier = hs__set_hook_memory(&t->env);
    hs_code code = scenario(t, user);
    hs__set_hook_memory(earlier);
    return code;
}

/* Runs the scenario with the failures in t->fail_... Returns false if it made fewer calls than that. */
static bool try_one(test_scenario scenario, void *user, test_env *t, const test_env *undisturbed)
{
    bool is_file = t->fail_file_at;
    size_t n = t->fail_alloc_at + t->fail_file_at;
    const char *what = is_file ? "file call" : "allocation", *failure = is_file ? INJECTED : "no memory";
    hs_code expected = is_file ? hs_code_from_errno(t->fail_file_errno) : HS_RESOURCE_EXHAUSTED;
    hs_code code = play(scenario, t, user);
    bool failed = (is_file ? t->file_calls : t->allocations) >= n;
    if (code && (code != expected || !failed))
        fail_msg("with %s %zu failing: %s\n%s", what, n, hs_code_name(code), t->log);
    if (t->live || t->open_files)
        fail_msg("with %s %zu failing: %zu blocks and %zu files are left", what, n, t->live, t->open_files);
    if (failed && !code && !is_tolerated(t, undisturbed, failure))
        fail_msg("%s %zu failed, but the result is HS_OK\n%s", what, n, t->log);
    return failed;
}

void test_each_allocation(test_scenario scenario, void *user)
{
    static test_env t, undisturbed; /* large */
    test_env_init(&undisturbed);
    assert_int_equal(play(scenario, &undisturbed, user), HS_OK);
    size_t n = 0;
    do {
        test_env_init(&t);
        t.fail_alloc_at = ++n;
    } while (try_one(scenario, user, &t, &undisturbed));
    assert_true(n > 1); /* otherwise no failure was tried */
}

void test_each_file_call(test_scenario scenario, void (*after)(void *user), int os_error, bool and_all_after, void *user)
{
    static test_env t, undisturbed;
    test_env_init(&undisturbed);
    assert_int_equal(play(scenario, &undisturbed, user), HS_OK);
    size_t n = 0;
    bool failed;
    do {
        test_env_init(&t);
        t.fail_file_at = ++n;
        t.fail_file_errno = os_error;
        t.fail_file_on = and_all_after;
        failed = try_one(scenario, user, &t, &undisturbed);
        if (after)
            after(user);
    } while (failed);
    assert_true(n > 1);
}

/* Files. */

static void remove_tree(const char *path);

char *test_make_directory(void)
{
    const char *base = getenv("TMPDIR");
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/hooksess-test-XXXXXX", base ? base : "/tmp");
    char *made = mkdtemp(pattern);
    assert_non_null(made);
    return strdup(made);
}

void test_empty_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        char inside[1024];
        struct stat found;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (lstat(inside, &found) == 0 && S_ISDIR(found.st_mode))
            remove_tree(inside);
        else
            unlink(inside);
    }
    if (directory)
        closedir(directory);
}

static void remove_tree(const char *path)
{
    test_empty_directory(path);
    rmdir(path);
}

void test_remove_directory(char *path)
{
    remove_tree(path);
    free(path);
}

const char *test_path(const char *directory, const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

bool test_exists(const char *directory, const char *name)
{
    return access(test_path(directory, name), F_OK) == 0;
}

const hs_hook *test_hooks(const hs_hook *hooks, size_t n)
{
    static hs_hook list[16];
    assert_true(n < 16);
    for (size_t i = 0; i < n; i++)
        list[i] = hooks[i];
    list[n].ops = NULL;
    return list;
}

char *test_read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, file), size);
    data[size] = '\0';
    fclose(file);
    if (bytes)
        *bytes = (size_t)size;
    return data;
}

#ifdef HOOKSESS_COVERAGE
void __gcov_dump(void);
#endif

static void end_child(int status)
{
#ifdef HOOKSESS_COVERAGE
    __gcov_dump(); /* _exit does not write the counters */
#endif
#ifdef __SANITIZE_THREAD__
    syscall(SYS_exit_group, status); /* the sanitizer's _exit reports the threads of the parent as leaks */
#endif
    _exit(status);
}

int test_in_child(int (*body)(void *user), void *user)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(50);
        end_child(body(user));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void test_write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

const void *test_before_guard(const void *bytes, size_t n)
{
    static unsigned char *region;
    static size_t size; /* of the region, without the guard, a page that cannot be read */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!region || n > size) {
        if (region)
            munmap(region, size + page);
        size = (n / page + 1) * page;
        region = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(region != MAP_FAILED);
        assert_int_equal(mprotect(region + size, page, PROT_NONE), 0);
    }
    if (n)
        memcpy(region + size - n, bytes, n);
    return region + size - n;
}

size_t test_count_files(const char *path, const char *part)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    size_t n = 0;
    while (directory && (entry = readdir(directory)))
        n += strstr(entry->d_name, part) != NULL;
    if (directory)
        closedir(directory);
    return n;
}
