/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BASE_FILE_SPY_H
#define HS_TESTS_BASE_FILE_SPY_H

#include "support/test.h"

/* A file system over another one that writes down what is asked of it, and fails on command. Its functions go by short
 * names: open, read, write, sync, close, rename, remove, directory (is synced), make, stat and list. */
typedef struct file_spy {
    hs_env env; /* the environment that it was made with, with these files */
    hs_file_system under;

    /* Failing. `matches` counts the calls of `what` on paths that have `where` in them; NULL is any. */
    const char *what, *where;
    size_t fail_at; /* this one of them fails, counted from 1; 0: none */
    bool fail_on;   /* and all that follow */
    hs_code code;   /* with this code */
    bool silent;    /* which is returned, and nothing else */
    size_t matches;
    uint64_t bytes_read; /* from all files together */

    /* Writing down: "open:NAME sync:NAME directory ...", NAME without its directory and without `strip` at its beginning.
     */
    const char *noted; /* the functions that are written down, "sync rename"; NULL: none */
    const char *strip;
    bool no_names;
    char calls[4096];
} file_spy;

/* `env` must be complete. */
void file_spy_init(file_spy *spy, const hs_env *env);
/* Empties `calls`. */
void file_spy_forget(file_spy *spy);
/* From now on the n-th call fails. */
void file_spy_fail(file_spy *spy, size_t n, hs_code code);

#endif
