/* SPDX-License-Identifier: Apache-2.0 */
/* A clock, memory, a log and files for tests. They wrap the system's, count, and fail on request. */
#include <hooksess/testing.h>

#include "testing/seconds.h"
#include "testing/string_buffer.h"

#include <pthread.h>

/* Calls of one kind. */
typedef struct {
    size_t n;        /* since the last request */
    size_t fails_at; /* this call fails, counted from 1. 0: none */
    bool all_later;  /* so do all later ones */
    hs_code code;    /* of calls that fail */
    size_t held;     /* blocks or files that are not released yet */
} counter;

struct hs_test_system {
    hs_env env;
    pthread_mutex_t lock; /* of all below */
    int64_t now_ns;
    hs__string_buffer log;
    counter memory, files;
};

/* Counts a call. Returns the requested code if it fails, or HS_OK. */
static hs_code count_call(hs_test_system *system, counter *calls)
{
    pthread_mutex_lock(&system->lock);
    calls->n++;
    bool failed = calls->fails_at && (calls->n == calls->fails_at || (calls->all_later && calls->n > calls->fails_at));
    hs_code code = failed ? calls->code : HS_OK;
    pthread_mutex_unlock(&system->lock);
    return code;
}

static void add_held(hs_test_system *system, counter *calls, bool added)
{
    pthread_mutex_lock(&system->lock);
    calls->held = added ? calls->held + 1 : calls->held - 1;
    pthread_mutex_unlock(&system->lock);
}

static void request(hs_test_system *system, counter *calls, size_t n, hs_code code, bool all_later)
{
    pthread_mutex_lock(&system->lock);
    calls->n = 0;
    calls->fails_at = n;
    calls->code = code;
    calls->all_later = all_later;
    pthread_mutex_unlock(&system->lock);
}

static size_t read_count(hs_test_system *system, const size_t *count)
{
    pthread_mutex_lock(&system->lock);
    size_t value = *count;
    pthread_mutex_unlock(&system->lock);
    return value;
}

/* Memory. */

static void *system_alloc(void *user, size_t bytes)
{
    hs_test_system *system = user;
    const hs_allocator *real = &hs_env_default()->allocator;
    void *block = count_call(system, &system->memory) ? NULL : real->alloc(real->user, bytes);
    if (block)
        add_held(system, &system->memory, true);
    return block;
}

static void *system_realloc(void *user, void *block, size_t bytes)
{
    hs_test_system *system = user;
    const hs_allocator *real = &hs_env_default()->allocator;
    void *grown = count_call(system, &system->memory) ? NULL : real->realloc(real->user, block, bytes);
    if (grown && !block)
        add_held(system, &system->memory, true);
    return grown;
}

static void system_free(void *user, void *block)
{
    hs_test_system *system = user;
    const hs_allocator *real = &hs_env_default()->allocator;
    if (block)
        add_held(system, &system->memory, false);
    real->free(real->user, block);
}

void hs_test_system_fail_allocation(hs_test_system *system, size_t n)
{
    if (system)
        request(system, &system->memory, n, HS_RESOURCE_EXHAUSTED, false);
}

size_t hs_test_system_allocations(hs_test_system *system)
{
    return system ? read_count(system, &system->memory.n) : 0;
}

size_t hs_test_system_live_blocks(hs_test_system *system)
{
    return system ? read_count(system, &system->memory.held) : 0;
}

/* The clock. */

static int64_t system_now(void *user)
{
    hs_test_system *system = user;
    pthread_mutex_lock(&system->lock);
    int64_t now = system->now_ns;
    pthread_mutex_unlock(&system->lock);
    return now;
}

static void system_sleep(void *user, int64_t ns)
{
    hs_test_system *system = user;
    pthread_mutex_lock(&system->lock);
    system->now_ns += ns > 0 ? ns : 0;
    pthread_mutex_unlock(&system->lock);
}

void hs_test_system_advance(hs_test_system *system, double secs)
{
    if (system)
        system_sleep(system, hs__seconds_to_ns(secs));
}

/* The log. */

static void system_log(void *user, hs_log_level level, const char *text)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    hs_test_system *system = user;
    pthread_mutex_lock(&system->lock);
    if (level >= HS_LOG_DEBUG && level <= HS_LOG_ERROR)
        hs__string_buffer_add(&system->log, "%s: %s\n", names[level], text);
    else
        hs__string_buffer_add(&system->log, "LEVEL %d: %s\n", (int)level, text);
    pthread_mutex_unlock(&system->lock);
}

const char *hs_test_system_log(hs_test_system *system)
{
    if (!system)
        return "";
    pthread_mutex_lock(&system->lock);
    const char *text = hs__string_buffer_text(&system->log);
    pthread_mutex_unlock(&system->lock);
    return text;
}

/* Files. Each call counts and may fail, except unlock. */

static const hs_file_system_ops *real(void)
{
    return hs_env_default()->files.ops;
}

static void *real_user(void)
{
    return hs_env_default()->files.user;
}

/* Counts a call of the function `what`. */
static hs_code count(hs_test_system *system, const char *what, const char *path, hs_error *err)
{
    hs_code code = count_call(system, &system->files);
    return code ? hs_error_set(err, code, "%s%s%s: the test makes this call fail", what, *path ? " " : "", path) : HS_OK;
}

static hs_code system_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    hs_test_system *system = user;
    hs_code code = count(system, "open", path, err);
    if (!code && !(code = real()->open(real_user(), path, mode, file, err)))
        add_held(system, &system->files, true);
    return code;
}

static hs_code system_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    hs_code code = count(user, "read", "", err);
    return code ? code : real()->read(real_user(), file, offset, data, bytes, got, err);
}

/* A write that fails has written half of its bytes, as on a full disk. */
static hs_code system_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    hs_code code = count(user, "write", "", err);
    if (!code)
        return real()->write(real_user(), file, data, bytes, err);
    if (bytes > 1)
        real()->write(real_user(), file, data, bytes / 2, NULL);
    return code;
}

/* Syncs nothing: files of a test need not survive a power cut. */
static hs_code system_sync(void *user, void *file, hs_error *err)
{
    (void)file;
    return count(user, "sync", "", err);
}

static hs_code system_close(void *user, void *file, hs_error *err)
{
    hs_test_system *system = user;
    hs_code code = count(system, "close", "", err);
    hs_code closed = real()->close(real_user(), file, code ? NULL : err);
    add_held(system, &system->files, false);
    return code ? code : closed;
}

static hs_code system_rename(void *user, const char *from, const char *to, hs_error *err)
{
    hs_code code = count(user, "rename", from, err);
    return code ? code : real()->rename(real_user(), from, to, err);
}

static hs_code system_remove(void *user, const char *path, hs_error *err)
{
    hs_code code = count(user, "remove", path, err);
    return code ? code : real()->remove(real_user(), path, err);
}

static hs_code system_sync_directory(void *user, const char *path, hs_error *err)
{
    return count(user, "sync_directory", path, err);
}

static hs_code system_make_directory(void *user, const char *path, hs_error *err)
{
    hs_code code = count(user, "make_directory", path, err);
    return code ? code : real()->make_directory(real_user(), path, err);
}

static hs_code system_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    hs_code code = count(user, "stat", path, err);
    return code ? code : real()->stat(real_user(), path, out, err);
}

static hs_code system_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                           hs_error *err)
{
    hs_code code = count(user, "list", path, err);
    return code ? code : real()->list(real_user(), path, visit, visitor, err);
}

static hs_code system_lock(void *user, const char *path, void **lock, hs_error *err)
{
    hs_code code = count(user, "lock", path, err);
    return code ? code : real()->lock(real_user(), path, lock, err);
}

static void system_unlock(void *user, void *lock)
{
    (void)user;
    real()->unlock(real_user(), lock);
}

static hs_code system_free_space(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    hs_code code = count(user, "free_space", path, err);
    return code ? code : real()->free_space(real_user(), path, bytes, err);
}

static hs_code system_remove_directory(void *user, const char *path, hs_error *err)
{
    hs_code code = count(user, "remove_directory", path, err);
    return code ? code : real()->remove_directory(real_user(), path, err);
}

void hs_test_system_fail_file_call(hs_test_system *system, size_t n, hs_code code, bool all_later)
{
    if (system)
        request(system, &system->files, n, code, all_later);
}

size_t hs_test_system_file_calls(hs_test_system *system)
{
    return system ? read_count(system, &system->files.n) : 0;
}

size_t hs_test_system_open_files(hs_test_system *system)
{
    return system ? read_count(system, &system->files.held) : 0;
}

static const hs_file_system_ops file_ops = HS_INIT(
    hs_file_system_ops, .open = system_open, .read = system_read, .write = system_write, .sync = system_sync,
    .close = system_close, .rename = system_rename, .remove = system_remove, .sync_directory = system_sync_directory,
    .make_directory = system_make_directory, .stat = system_stat, .list = system_list, .lock = system_lock,
    .unlock = system_unlock, .free_space = system_free_space, .remove_directory = system_remove_directory);

/* The system. */

hs_test_system *hs_test_system_new(void)
{
    hs_test_system *system = hs_env_alloc(NULL, sizeof *system);
    if (system && pthread_mutex_init(&system->lock, NULL) != 0) {
        hs_env_free(NULL, system);
        return NULL;
    }
    if (!system)
        return NULL;
    system->now_ns = HS__CLOCK_START_NS;
    hs__string_buffer_init(&system->log, hs_env_default());
    system->env = (hs_env)HS_INIT(hs_env, .allocator = {system_alloc, system_realloc, system_free, system},
                                  .clock = {system_now, system_now, system_sleep, system}, .logger = {system_log, system},
                                  .files = {&file_ops, system});
    return system;
}

void hs_test_system_free(hs_test_system *system)
{
    if (!system)
        return;
    hs__string_buffer_free(&system->log);
    pthread_mutex_destroy(&system->lock);
    hs_env_free(NULL, system);
}

static void missing_log(void *user, hs_log_level level, const char *text)
{
    const hs_logger *real_logger = &hs_env_default()->logger;
    (void)user;
    real_logger->write(real_logger->user, level, text);
}

const hs_env *hs_test_system_env(const hs_test_system *system)
{
    /* The system of NULL: each allocation and each file call fails. */
    static hs_test_system missing = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .now_ns = HS__CLOCK_START_NS,
        .memory = {.fails_at = 1, .all_later = true, .code = HS_RESOURCE_EXHAUSTED},
        .files = {.fails_at = 1, .all_later = true, .code = HS_RESOURCE_EXHAUSTED},
    };
    static const hs_env missing_env = HS_INIT(hs_env, .allocator = {system_alloc, system_realloc, system_free, &missing},
                                              .clock = {system_now, system_now, system_sleep, &missing},
                                              .logger = {missing_log, NULL}, .files = {&file_ops, &missing});
    return system ? &system->env : &missing_env;
}
