/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_WRITER_CACHE_H
#define HS_SUMMARY_WRITER_CACHE_H

#include <hooksess/summary.h>

#include "base/env.h"

/* The event-file writers of a session: one shared writer per directory, which all its hooks use, and the writers that the
 * program has passed. */
typedef struct hs__writer_cache {
    const hs_env *env;
    /* Writers that retry do not fail: gets the number of failed attempts since the last call, and their last error */
    void (*report)(void *user, int64_t failures, const hs_error *error);
    void *user; /* for `report` */
    struct hs__cached_writer {
        char *directory; /* NULL: passed by the program */
        hs_summary_writer *writer;
        uint64_t started; /* the creation for which START was logged */
        int64_t failures; /* number of reported failures */
    } * items;
    size_t n, capacity;
} hs__writer_cache;

/* The shared writer of a directory. Opens it with the first call. */
hs_code hs__writer_cache_get(hs__writer_cache *cache, const char *directory, hs_summary_writer **writer, hs_error *err);
/* Adds a writer of the program. */
hs_code hs__writer_cache_use(hs__writer_cache *cache, hs_summary_writer *writer, hs_error *err);
/* Logs START at a step for a writer of the cache, once per creation of the session. `creation` is the creation's number. */
hs_code hs__writer_cache_start(hs__writer_cache *cache, hs_summary_writer *writer, uint64_t creation, int64_t step,
                               hs_error *err);
/* Flushes all writers. Returns the first error of a writer with HS_WRITER_FAILS. */
hs_code hs__writer_cache_flush(hs__writer_cache *cache, hs_error *err);
/* Flushes one writer, which need not be in the cache. Reports and fails as hs__writer_cache_flush. `sync`: also waits until
 * the data is on disk. */
hs_code hs__writer_cache_flush_one(hs__writer_cache *cache, hs_summary_writer *writer, bool sync, hs_error *err);
/* Closes the shared writers. Reports and fails in the same way. */
hs_code hs__writer_cache_close(hs__writer_cache *cache, hs_error *err);

#endif
