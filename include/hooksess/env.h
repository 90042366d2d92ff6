/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_ENV_H
#define HOOKSESS_ENV_H

#include <hooksess/status.h>

/* What the library gets from the program: memory, time, a log, files. The environment of a backend (hs_graph_new,
 * hs_script_new) is also that of its session, hooks, saver and writers. Parts that are zero are the system's: malloc, the
 * clocks, stderr, POSIX files. Several threads call its functions, which must stay until all its objects are freed.
 *
 *     hs_env env = HS_INIT(hs_env, .logger = {my_log, NULL});
 *     hs_graph *graph = hs_graph_new(&env);
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* Memory. Set all three functions or none. `alloc` and `realloc` return NULL if it is exhausted. `free` accepts NULL.
 * Frozen. */
typedef struct hs_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void *(*realloc)(void *user, void *block, size_t bytes);
    void (*free)(void *user, void *block);
    void *user;
} hs_allocator;

/* Time, in nanoseconds. Set all three functions or none. Timers use monotonic_ns; time stamps in files use realtime_ns
 * (since 1970, UTC). Frozen. */
typedef struct hs_clock {
    int64_t (*monotonic_ns)(void *user);
    int64_t (*realtime_ns)(void *user);
    void (*sleep_ns)(void *user, int64_t ns);
    void *user;
} hs_clock;

typedef enum hs_log_level { HS_LOG_DEBUG = 0, HS_LOG_INFO = 1, HS_LOG_WARNING = 2, HS_LOG_ERROR = 3 } hs_log_level;

/* A log. `text` is one line without a newline, valid during the call. Control characters and invalid UTF-8 are written as
 * \xNN. NULL: lines of level INFO and above go to stderr; a pipe without a reader loses them. Frozen. */
typedef struct hs_logger {
    void (*write)(void *user, hs_log_level level, const char *text);
    void *user;
} hs_logger;

/* How a file is opened. Opening never waits for another process, and nothing is written through a symbolic link.
 *
 *   mode            opens                           fails with
 *   HS_OPEN_READ    an existing file                HS_INVALID_ARGUMENT: a FIFO or a device
 *   HS_OPEN_WRITE   a new file; removes a file,     HS_FAILED_PRECONDITION: a directory
 *                   link or FIFO of that name       HS_INVALID_ARGUMENT: a device, or a link to one
 *   HS_OPEN_APPEND  an existing or a new file,      HS_FAILED_PRECONDITION: a directory, a symbolic link, or a file with
 *                   written at its end              several names. HS_INVALID_ARGUMENT: a FIFO
 *   HS_OPEN_NEW     a new file                      HS_ALREADY_EXISTS: the name exists */
enum { HS_OPEN_READ = 0, HS_OPEN_WRITE = 1, HS_OPEN_APPEND = 2, HS_OPEN_NEW = 3 };

/* Frozen. */
typedef struct hs_file_stat {
    uint64_t bytes;
    int64_t modified_ns; /* since 1970 */
    bool is_directory;
    unsigned char reserved[15];
} hs_file_stat;

/* Files. lock, unlock, free_space and remove_directory may be NULL. Paths are valid during the call. One thread at a time
 * uses a file.
 *
 * Each function returns HS_OK, or a code with a message that names the path. HS_NOT_FOUND: the path does not exist.
 * HS_RESOURCE_EXHAUSTED: the disk is full, or the file has reached a limit. HS_ABORTED and HS_UNAVAILABLE become
 * HS_UNKNOWN. The system's functions, and its log, raise neither SIGPIPE nor SIGXFSZ.
 *
 *   open              sets *file to a handle, which close frees. `mode` is HS_OPEN_READ and so on
 *   read              reads `bytes` from `offset`; *got is less only at the end of the file
 *   write             appends all bytes, or fails
 *   sync              returns when the written bytes are on the disk
 *   close             frees the handle, also on failure. An error means that a write failed
 *   rename            replaces `to` atomically
 *   remove            removes a file
 *   sync_directory    returns when changed names of the directory are on the disk
 *   make_directory    creates one level. HS_ALREADY_EXISTS: the name exists
 *   stat              describes a file or directory; follows links
 *   list              calls `visit` with each name except "." and "..", until it returns non-zero. Any order
 *   lock              locks the file `path` against other processes, and creates it. The end of the process unlocks it.
 *                     *lock NULL: sets it to a new hold; a process may have several. Otherwise renews the hold on the
 *                     file that has this name now. HS_FAILED_PRECONDITION: another process, named in the message, has
 *                     the lock. HS_INVALID_ARGUMENT: not a file. HS_UNIMPLEMENTED: the file system has no locks
 *   unlock            frees a hold; the last one unlocks the file
 *   free_space        sets *bytes to the space that the program can use. HS_UNIMPLEMENTED: unknown
 *   remove_directory  removes an empty directory */
typedef struct hs_file_system_ops {
    size_t size;
    hs_code (*open)(void *user, const char *path, int mode, void **file, hs_error *err);
    hs_code (*read)(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err);
    hs_code (*write)(void *user, void *file, const void *data, size_t bytes, hs_error *err);
    hs_code (*sync)(void *user, void *file, hs_error *err);
    hs_code (*close)(void *user, void *file, hs_error *err);
    hs_code (*rename)(void *user, const char *from, const char *to, hs_error *err);
    hs_code (*remove)(void *user, const char *path, hs_error *err);
    hs_code (*sync_directory)(void *user, const char *path, hs_error *err);
    hs_code (*make_directory)(void *user, const char *path, hs_error *err);
    hs_code (*stat)(void *user, const char *path, hs_file_stat *out, hs_error *err);
    hs_code (*list)(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                    hs_error *err);
    hs_code (*lock)(void *user, const char *path, void **lock, hs_error *err);
    void (*unlock)(void *user, void *lock);
    hs_code (*free_space)(void *user, const char *path, uint64_t *bytes, hs_error *err);
    hs_code (*remove_directory)(void *user, const char *path, hs_error *err);
} hs_file_system_ops;

/* A file system: functions and their `user`. Frozen. */
typedef struct hs_file_system {
    const hs_file_system_ops *ops;
    void *user;
} hs_file_system;

/* An environment. In options, `env` is copied; NULL: the system's. */
typedef struct hs_env {
    size_t size;
    hs_allocator allocator;
    hs_clock clock;
    hs_logger logger;
    hs_file_system files;
} hs_env;

/* Returns the system's environment. */
HS_API const hs_env *hs_env_default(void);

/* For hooks and backends. hs_env_alloc() returns zeroed memory, or NULL. hs_log() writes a line of any length. */
HS_API void *hs_env_alloc(const hs_env *env, size_t bytes);
HS_API void hs_env_free(const hs_env *env, void *block);
HS_API int64_t hs_env_monotonic_ns(const hs_env *env);
HS_API int64_t hs_env_realtime_ns(const hs_env *env);
HS_API void hs_env_sleep_ns(const hs_env *env, int64_t ns);
HS_API void hs_log(const hs_env *env, hs_log_level level, const char *format, ...) HS_PRINTF(3, 4);

HS_END_DECLS

#endif
