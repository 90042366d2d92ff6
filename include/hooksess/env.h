/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_ENV_H
#define HOOKSESS_ENV_H

#include <hooksess/status.h>

/* What the library asks of its host: memory, time, a place for log lines, files.
 *
 * An environment is given once, where a backend is made (hs_graph_new, hs_script_new); the session, its hooks, saver and
 * writers use the backend's. Whatever is left out is the system's own: malloc, the clocks, stderr, POSIX files. A test
 * gives failing ones, a program may bring an object store.
 *
 * Threads: any. */

HS_BEGIN_DECLS

/* Memory. Set all three functions or none. `free` takes NULL and no size, so that the functions can be lent on (to zlib
 * and protobuf-c; Jansson, which safetensors.h needs, takes none and has malloc's). alloc and realloc return NULL when
 * there is none left. Called from several threads. Frozen. */
typedef struct hs_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void *(*realloc)(void *user, void *block, size_t bytes);
    void (*free)(void *user, void *block);
    void *user;
} hs_allocator;

/* Time, in nanoseconds. Set all three functions or none. Timers go by monotonic_ns, time stamps in files by realtime_ns
 * (since 1970, UTC). Called from several threads. Frozen. */
typedef struct hs_clock {
    int64_t (*monotonic_ns)(void *user);
    int64_t (*realtime_ns)(void *user);
    void (*sleep_ns)(void *user, int64_t ns);
    void *user;
} hs_clock;

typedef enum hs_log_level { HS_LOG_DEBUG = 0, HS_LOG_INFO = 1, HS_LOG_WARNING = 2, HS_LOG_ERROR = 3 } hs_log_level;

/* Log lines: `text` is one line without its end, valid during the call. Control characters, and bytes that are not UTF-8,
 * are written as \xNN: names of files and tensors may contain them. A long line is cut if there is no memory for it, and
 * ends in "...". Called from several threads. Left out: lines of level INFO and above go to stderr. Frozen. */
typedef struct hs_logger {
    void (*write)(void *user, hs_log_level level, const char *text);
    void *user;
} hs_logger;

/* How a file is opened. Others may be able to write to the directory, so the library never writes through a link.
 *
 *   HS_OPEN_READ    an existing file. A FIFO or a device is HS_INVALID_ARGUMENT
 *   HS_OPEN_WRITE   a new, empty file. What has the name (a file, a link, a FIFO) is removed first; a file that has other
 *                   names keeps its content there. A directory is HS_FAILED_PRECONDITION; a device, or a link to one, is
 *                   HS_INVALID_ARGUMENT
 *   HS_OPEN_APPEND  an existing or a new file, written to at its end. A symbolic link, a file that has other names (hard
 *                   links) or a directory is HS_FAILED_PRECONDITION, a FIFO HS_INVALID_ARGUMENT
 *   HS_OPEN_NEW     a new file; HS_ALREADY_EXISTS if anything has the name
 *
 * Opening never waits for another process. */
enum { HS_OPEN_READ = 0, HS_OPEN_WRITE = 1, HS_OPEN_APPEND = 2, HS_OPEN_NEW = 3 };

/* What is known of a path. Frozen. */
typedef struct hs_file_stat {
    uint64_t bytes;
    int64_t modified_ns; /* since 1970 */
    bool is_directory;
    unsigned char reserved[15];
} hs_file_stat;

/* Files. All members are required but the last four. Paths are the caller's, valid during the call. Each function returns
 * HS_OK or a code with a message that names the path; a missing path is HS_NOT_FOUND, a full disk HS_RESOURCE_EXHAUSTED.
 * HS_ABORTED and HS_UNAVAILABLE become HS_UNKNOWN: a failing file does not mean that the session is lost (hs_recovery). A
 * file is used by one thread at a time; different files by several threads at once.
 *
 *   open      *file is the handle, for the other functions and for close.
 *   read      up to `bytes` from `offset`; *got is less only at the end of the file.
 *   write     all of it, at the end of what was written so far, or an error.
 *   sync      what was written is on the disk when it returns.
 *   close     frees the handle, also when it fails. An error here is a failed write.
 *   rename    replaces `to` at once: whoever looks sees the old file or the new one, never neither.
 *   remove    a file. A missing one is HS_NOT_FOUND.
 *   sync_directory   names made, renamed or removed in it are on the disk when it returns.
 *   make_directory   one level. HS_ALREADY_EXISTS if something of that name is there.
 *   list      calls visit with each name in the directory but "." and "..", in any order, until one returns non-zero.
 *   lock      holds `path`, a file that is made if it is missing, against other processes until it is unlocked or this
 *             process has ended, in whatever way. *lock NULL: a new hold, which *lock then is, one of several that the
 *             process may have of it; else it makes sure of that one, on the file that has this name now.
 *             HS_FAILED_PRECONDITION names the process that has it; HS_INVALID_ARGUMENT: a symbolic link, or not a file;
 *             HS_UNIMPLEMENTED: there are no locks here.
 *   unlock    frees a hold. With the last of them others may have the file.
 *   remove_directory   an empty one. Without it such as others have left aside stay.
 */
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

/* A file system and its state; both stay the caller's and outlive whatever was made with them. Frozen. */
typedef struct hs_file_system {
    const hs_file_system_ops *ops;
    void *user;
} hs_file_system;

/* hs_env env = HS_INIT(hs_env, .logger = {my_log, NULL}); */
typedef struct hs_env {
    size_t size;
    hs_allocator allocator;
    hs_clock clock;
    hs_logger logger;
    hs_file_system files;
} hs_env;

/* The system's own. Static, complete. */
HS_API const hs_env *hs_env_default(void);

/* For hooks and backends. `env` NULL is the system's own; parts that are left out likewise.
 * hs_env_alloc gives zeroed memory, or NULL. */
HS_API void *hs_env_alloc(const hs_env *env, size_t bytes);
HS_API void hs_env_free(const hs_env *env, void *block);
HS_API int64_t hs_env_monotonic_ns(const hs_env *env);
HS_API int64_t hs_env_realtime_ns(const hs_env *env);
HS_API void hs_env_sleep_ns(const hs_env *env, int64_t ns);
HS_API void hs_log(const hs_env *env, hs_log_level level, const char *format, ...) HS_PRINTF(3, 4);

HS_END_DECLS

#endif
