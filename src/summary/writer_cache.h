/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_WRITER_CACHE_H
#define HS_SUMMARY_WRITER_CACHE_H

#include <hooksess/summary.h>

#include "base/env.h"

/* The event-file writers of a session: of those that the process shares, one for each directory, however many hooks ask for
 * it; and those that the program brought itself. */
typedef struct hs__writer_cache {
    const hs_env *env;
    struct hs__cached_writer {
        char *directory; /* NULL: the program's own writer */
        hs_summary_writer *writer;
        uint64_t started; /* the creation for which it has its START */
        int64_t failures; /* that were reported */
    } * items;
    size_t n, capacity;
} hs__writer_cache;

void hs__writer_cache_init(hs__writer_cache *cache, const hs_env *env);
hs_code hs__writer_cache_get(hs__writer_cache *cache, const char *directory, hs_summary_writer **writer, hs_error *err);
hs_code hs__writer_cache_use(hs__writer_cache *cache, hs_summary_writer *writer, hs_error *err);
/* Logs START at a step, once for each creation of the session, which has a number. */
hs_code hs__writer_cache_start(hs__writer_cache *cache, hs_summary_writer *writer, uint64_t creation, int64_t step,
                               hs_error *err);
/* Flushes each; the first error of one that fails of it. `report` gets those that the others went on from, since the last
 * time. */
typedef void (*hs__writer_report)(void *user, const hs_error *error);
hs_code hs__writer_cache_flush(hs__writer_cache *cache, hs__writer_report report, void *user, hs_error *err);
/* The same for one, whether the cache knows it or not. */
hs_code hs__writer_cache_flush_one(hs__writer_cache *cache, hs_summary_writer *writer, bool sync, hs__writer_report report,
                                   void *user, hs_error *err);
/* Closes those that were got here; reports and fails likewise. `report` may be NULL. */
hs_code hs__writer_cache_close(hs__writer_cache *cache, hs__writer_report report, void *user, hs_error *err);

#endif
