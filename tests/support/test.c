/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* The environment. Writer threads call its functions too. */

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

static hs_code file_call(test_env *t, hs_error *err)
{
    pthread_mutex_lock(&lock);
    size_t call = ++t->file_calls;
    pthread_mutex_unlock(&lock);
    if (t->fail_file_at && (call == t->fail_file_at || (t->fail_file_on && call > t->fail_file_at)))
        return t->fail_file_code ? hs_error_set(err, t->fail_file_code, "injected into call %zu", call)
                                 : hs_error_set_errno(err, t->fail_file_errno, "injected into call %zu", call);
    return HS_OK;
}

static const hs_file_system *posix(void)
{
    return &hs_env_default()->files;
}

/* Each call is counted and may fail; a failing close closes all the same. */

static hs_code f_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    hs_code code = file_call(user, err);
    return code ? code : posix()->ops->open(NULL, path, mode, file, err);
}

static hs_code f_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    hs_code code = file_call(user, err);
    return code ? code : posix()->ops->read(NULL, file, offset, data, bytes, got, err);
}

static hs_code f_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    hs_code code = file_call(user, err);
    if (code && bytes > 1) /* a torn write */
        posix()->ops->write(NULL, file, data, bytes / 2, NULL);
    return code ? code : posix()->ops->write(NULL, file, data, bytes, err);
}

static hs_code f_sync(void *user, void *file, hs_error *err)
{
    (void)file; /* the tests' files need not survive a power cut */
    return file_call(user, err);
}

static hs_code f_close(void *user, void *file, hs_error *err)
{
    hs_code code = file_call(user, err);
    hs_code closed = posix()->ops->close(NULL, file, code ? NULL : err);
    return code ? code : closed;
}

static hs_code f_rename(void *user, const char *from, const char *to, hs_error *err)
{
    hs_code code = file_call(user, err);
    return code ? code : posix()->ops->rename(NULL, from, to, err);
}

static hs_code f_remove(void *user, const char *path, hs_error *err)
{
    (void)user; /* cleaning up is let through: what must not be left behind is looked for */
    return posix()->ops->remove(NULL, path, err);
}

static hs_code f_remove_directory(void *user, const char *path, hs_error *err)
{
    (void)user; /* likewise */
    return posix()->ops->remove_directory(NULL, path, err);
}

static hs_code f_sync_directory(void *user, const char *path, hs_error *err)
{
    (void)path;
    return file_call(user, err);
}

static hs_code f_make_directory(void *user, const char *path, hs_error *err)
{
    hs_code code = file_call(user, err);
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
    hs_code code = file_call(user, err);
    return code ? code : posix()->ops->lock(NULL, path, lock_, err);
}

static void f_unlock(void *user, void *lock_)
{
    (void)user;
    posix()->ops->unlock(NULL, lock_);
}

static const hs_file_system_ops file_ops = {
    HS_FILE_SYSTEM_OPS,
    .open = f_open,
    .read = f_read,
    .write = f_write,
    .sync = f_sync,
    .close = f_close,
    .rename = f_rename,
    .remove = f_remove,
    .remove_directory = f_remove_directory,
    .sync_directory = f_sync_directory,
    .make_directory = f_make_directory,
    .stat = f_stat,
    .list = f_list,
    .lock = f_lock,
    .unlock = f_unlock,
};

void test_env_init(test_env *t)
{
    memset(t, 0, sizeof *t);
    t->now_ns = 1700000000000000000;
    t->fail_file_errno = ENOSPC;
    t->env = (hs_env){
        HS_ENV,
        .allocator = {env_alloc, env_realloc, env_free, t},
        .clock = {env_now, env_now, env_sleep, t},
        .logger = {env_log, t},
        .files = {&file_ops, t},
    };
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

void test_each_allocation(test_scenario scenario, void *user)
{
    static test_env t; /* large */
    for (size_t n = 1;; n++) {
        test_env_init(&t);
        t.fail_alloc_at = n;
        hs_code code = scenario(&t, user);
        if (code != HS_OK && code != HS_RESOURCE_EXHAUSTED)
            fail_msg("with allocation %zu failing: %s\n%s", n, hs_code_name(code), t.log);
        if (t.live)
            fail_msg("with allocation %zu failing: %zu blocks are left", n, t.live);
        if (t.allocations < n) {
            assert_int_equal(code, HS_OK);
            assert_true(n > 1); /* else nothing was tried */
            return;
        }
    }
}

void test_each_file_call(test_scenario scenario, void (*after)(void *user), int os_error, bool and_all_after, void *user)
{
    static test_env t;
    for (size_t n = 1;; n++) {
        test_env_init(&t);
        t.fail_file_at = n;
        t.fail_file_errno = os_error;
        t.fail_file_on = and_all_after;
        hs_code code = scenario(&t, user);
        if (code != HS_OK && code != hs_code_from_errno(os_error))
            fail_msg("with file call %zu failing: %s\n%s", n, hs_code_name(code), t.log);
        if (t.live)
            fail_msg("with file call %zu failing: %zu blocks are left", n, t.live);
        if (after)
            after(user);
        if (t.file_calls < n) {
            assert_int_equal(code, HS_OK);
            assert_true(n > 1);
            return;
        }
    }
}

/* Files. */

char *test_make_directory(void)
{
    const char *base = getenv("TMPDIR");
    char pattern[512];
    snprintf(pattern, sizeof pattern, "%s/hooksess-test-XXXXXX", base ? base : "/tmp");
    char *made = mkdtemp(pattern);
    assert_non_null(made);
    return strdup(made);
}

static void remove_tree(const char *path)
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

void test_write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
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
