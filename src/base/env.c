/* SPDX-License-Identifier: Apache-2.0 */
/* The default environment; hs__env_copy, which completes an environment of the program; and what the library calls of one:
 * memory, clocks and the log. */
#include "base/env.h"

#include "base/c_locale.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/write_posix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *system_alloc(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void *system_realloc(void *user, void *block, size_t bytes)
{
    (void)user;
    return realloc(block, bytes);
}

static void system_free(void *user, void *block)
{
    (void)user;
    free(block);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t system_monotonic(void *user)
{
    (void)user;
    return clock_ns(CLOCK_MONOTONIC);
}

bool hs__env_coarse_ns(const hs_env *env, int64_t *ns)
{
#ifdef CLOCK_MONOTONIC_COARSE
    bool is_system = env->clock.monotonic_ns == system_monotonic;
    if (is_system)
        *ns = clock_ns(CLOCK_MONOTONIC_COARSE);
    return is_system;
#else
    (void)env, (void)ns;
    return false;
#endif
}

static int64_t system_realtime(void *user)
{
    (void)user;
    return clock_ns(CLOCK_REALTIME);
}

static void system_sleep(void *user, int64_t ns)
{
    (void)user;
    struct timespec remaining = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (ns > 0 && nanosleep(&remaining, &remaining) != 0 && errno == EINTR)
        continue;
}

static void system_log(void *user, hs_log_level level, const char *text)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
    hs__write_signals signals;
    char blanks[HS__BLANKS];
    (void)user;
    if (level < HS_LOG_INFO || level > HS_LOG_ERROR)
        return;
    hs__block_write_signals(&signals);
    hs__blank_line(blanks, STDERR_FILENO, atomic_exchange(&hs__stderr_line, 0));
    fprintf(stderr, "%s%s: %s\n", blanks, names[level], text);
    hs__unblock_write_signals(&signals);
}

const hs_env *hs_env_default(void)
{
    static const hs_env env = HS_INIT(hs_env, .allocator = {system_alloc, system_realloc, system_free, NULL},
                                      .clock = {system_monotonic, system_realtime, system_sleep, NULL},
                                      .logger = {system_log, NULL}, .files = {&hs__posix_files, NULL});
    return &env;
}

static hs_code check_part(int set, int of, const char *part, hs_error *err)
{
    if (set == 0 || set == of)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_env.%s: %d of its %d functions are set; set all or none", part, set,
                        of);
}

static hs_code check_files(const hs_file_system *files, hs_error *err)
{
    const hs_file_system_ops *ops = files->ops;
    const size_t first_size = offsetof(hs_file_system_ops, remove_directory) + sizeof ops->remove_directory;
    if (ops->size < first_size)
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "hs_env.files.ops->size is %zu, but must be at least %zu: initialize it with HS_INIT(hs_file_system_ops, ...)",
            ops->size, first_size);
    const struct {
        const char *name;
        bool is_set;
    } required[] = {{"open", ops->open},
                    {"read", ops->read},
                    {"write", ops->write},
                    {"sync", ops->sync},
                    {"close", ops->close},
                    {"rename", ops->rename},
                    {"remove", ops->remove},
                    {"sync_directory", ops->sync_directory},
                    {"make_directory", ops->make_directory},
                    {"stat", ops->stat},
                    {"list", ops->list}};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!required[i].is_set)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_env.files.ops->%s is NULL; this function is required",
                                required[i].name);
    return HS_OK;
}

hs_code hs__env_copy(hs_env *to, const hs_env *from, hs_error *err)
{
    const hs_env *system = hs_env_default();
    if (!from) {
        *to = *system;
        return HS_OK;
    }
    hs_env env;
    hs_code code = HS_STRUCT_TAKE(hs_env, files, &env, from, err);
    if (code)
        return code;
    const hs_allocator *memory = &env.allocator;
    const hs_clock *clock = &env.clock;
    if ((code = check_part(!!memory->alloc + !!memory->realloc + !!memory->free, 3, "allocator", err)) ||
        (code = check_part(!!clock->monotonic_ns + !!clock->realtime_ns + !!clock->sleep_ns, 3, "clock", err)))
        return code;
    if (!memory->alloc)
        env.allocator = system->allocator;
    if (!clock->monotonic_ns)
        env.clock = system->clock;
    if (!env.logger.write)
        env.logger = system->logger;
    if (!env.files.ops)
        env.files = system->files;
    if ((code = check_files(&env.files, err)))
        return code;
    *to = env;
    return HS_OK;
}

void *hs__alloc(const hs_env *env, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        return NULL;
    size_t bytes = n * size;
    if (bytes == 0)
        bytes = 1;
    void *block = env->allocator.alloc(env->allocator.user, bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

void *hs__realloc(const hs_env *env, void *block, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size)
        return NULL;
    size_t bytes = n * size;
    return env->allocator.realloc(env->allocator.user, block, bytes ? bytes : 1);
}

void hs__free(const hs_env *env, void *block)
{
    if (block)
        env->allocator.free(env->allocator.user, block);
}

char *hs__strndup(const hs_env *env, const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? hs__alloc(env, bytes + 1, 1) : NULL;
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

char *hs__strdup(const hs_env *env, const char *text)
{
    return hs__strndup(env, text, strlen(text));
}

char *hs__format(const hs_env *env, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = hs__vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : hs__alloc(env, (size_t)length + 1, 1);
    if (text)
        hs__vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

hs_code hs__reserve(const hs_env *env, void *items, size_t *capacity, size_t wanted, size_t size, hs_error *err)
{
    if (wanted <= *capacity)
        return HS_OK;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < wanted)
        grown = grown > SIZE_MAX / 2 ? wanted : grown * 2;
    void *block;
    memcpy(&block, items, sizeof block);
    block = hs__realloc(env, block, grown, size);
    if (!block)
        return hs__no_memory(err, wanted * size, "a growing list");
    memcpy(items, &block, sizeof block);
    *capacity = grown;
    return HS_OK;
}

size_t hs__names_count(const char *const *names)
{
    size_t n = 0;
    while (names && names[n])
        n++;
    return n;
}

const char *const *hs__names_copy(const hs_env *env, const char *const *names)
{
    size_t n = hs__names_count(names), bytes = (n + 1) * sizeof(char *);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(names[i]) + 1;
    const char **copy = hs__alloc(env, bytes, 1);
    if (!copy)
        return NULL;
    char *text = (char *)(copy + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]) + 1;
        copy[i] = memcpy(text, names[i], length);
        text += length;
    }
    return copy;
}

/* Public functions. They use the default environment if `env` is NULL, or lacks the part that they need. */

void *hs_env_alloc(const hs_env *env, size_t bytes)
{
    return hs__alloc(env && env->allocator.alloc ? env : hs_env_default(), bytes, 1);
}

void hs_env_free(const hs_env *env, void *block)
{
    hs__free(env && env->allocator.free ? env : hs_env_default(), block);
}

static const hs_clock *clock_of(const hs_env *env)
{
    return env && env->clock.monotonic_ns ? &env->clock : &hs_env_default()->clock;
}

int64_t hs_env_monotonic_ns(const hs_env *env)
{
    const hs_clock *clock = clock_of(env);
    return clock->monotonic_ns(clock->user);
}

int64_t hs_env_realtime_ns(const hs_env *env)
{
    const hs_clock *clock = clock_of(env);
    return clock->realtime_ns(clock->user);
}

void hs_env_sleep_ns(const hs_env *env, int64_t ns)
{
    const hs_clock *clock = clock_of(env);
    clock->sleep_ns(clock->user, ns);
}

enum { LINE = 2048 }; /* longer lines are allocated */

void hs_log(const hs_env *env, hs_log_level level, const char *format, ...)
{
    const hs_logger *logger = env && env->logger.write ? &env->logger : &hs_env_default()->logger;
    char text[LINE] = "", line[LINE], *whole_text = NULL, *whole_line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = format ? hs__vsnprintf(text, sizeof text, format, arguments) : 0;
    va_end(arguments);
    if (length < 0)
        text[0] = '\0';
    if (length >= LINE && (whole_text = hs_env_alloc(env, (size_t)length + 1))) {
        va_start(arguments, format);
        hs__vsnprintf(whole_text, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    const char *message = whole_text ? whole_text : text;
    bool is_cut = length >= LINE && !whole_text;
    size_t line_length = hs__one_line(line, sizeof line, message, is_cut);
    if (line_length >= sizeof line && !is_cut && (whole_line = hs_env_alloc(env, line_length + 1)))
        hs__one_line(whole_line, line_length + 1, message, false);
    logger->write(logger->user, level, whole_line ? whole_line : line);
    hs_env_free(env, whole_line);
    hs_env_free(env, whole_text);
}

void hs__report_error(const hs_env *env, const char *what, const hs_error *error, hs_error *err)
{
    if (!err && error->code)
        hs_log(env, HS_LOG_ERROR, "%s: %s", what, error->message);
    hs__error_copy(err, error);
}
