/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BASE_FILE_SPY_H
#define HS_TESTS_BASE_FILE_SPY_H

#include "support/test.h"

/* A file system that records its calls, fails on command, and otherwise calls another file system. Short names of its
 * functions: open, read, write, sync, close, rename, remove, directory (sync_directory), make, stat and list. */
typedef struct file_spy {
    hs_env env; /* the given environment with these files */
    hs_file_system under;

    /* Failures. `matches` counts the calls of `what` on paths that contain `where`; NULL: any. */
    const char *what, *where;
    size_t fail_at; /* the number of the match that fails, counted from 1; 0: none */
    bool fail_on;   /* all later matches also fail */
    hs_code code;   /* the code of the failure */
    int os_error;   /* its errno, which determines the code. 0: none */
    bool silent;    /* do not set the error */
    size_t matches;
    uint64_t bytes_read; /* from all files */

    /* Writing down: "open:NAME sync:NAME directory ...", NAME without its directory and without `strip` at its beginning.
     */
    const char *noted; /* the functions to record, as "sync rename"; NULL: none */
    const char *strip;
    bool no_names;
    char calls[4096];
} file_spy;

/* `env` must be complete. */
void file_spy_init(file_spy *spy, const hs_env *env);
/* Empties `calls`. */
void file_spy_forget(file_spy *spy);
/* Makes the n-th call from now on fail. */
void file_spy_fail(file_spy *spy, size_t n, hs_code code);

#endif
