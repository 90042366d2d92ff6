/* SPDX-License-Identifier: Apache-2.0 */
/* A list of writers: adding them, logging START once per writer and creation, flushing and closing. A writer that retries
 * does not fail: its new failures are reported (report_new). */
#include "summary/writer_cache.h"

#include "base/error.h"
#include "summary/writer_inside.h"

#include <assert.h>
#include <string.h>

static hs_code add(hs__writer_cache *cache, char *directory, hs_summary_writer *writer, hs_error *err)
{
    hs_code code = hs__reserve(cache->env, &cache->items, &cache->capacity, cache->n + 1, sizeof *cache->items, err);
    if (!code)
        cache->items[cache->n++] =
            (struct hs__cached_writer){directory, writer, 0, hs_summary_writer_status(writer).failures};
    return code;
}

hs_code hs__writer_cache_get(hs__writer_cache *cache, const char *directory, hs_summary_writer **writer, hs_error *err)
{
    if (!directory || !*directory)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the directory of an event file is missing");
    size_t length = hs__path_length_without_slashes(directory);
    for (size_t i = 0; i < cache->n; i++)
        if (cache->items[i].directory && strlen(cache->items[i].directory) == length &&
            memcmp(cache->items[i].directory, directory, length) == 0) {
            *writer = cache->items[i].writer;
            return HS_OK;
        }
    char *kept = hs__strndup(cache->env, directory, length);
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = cache->env);
    hs_error error = {0};
    hs_summary_writer *opened = NULL;
    if (!kept)
        hs__no_memory(&error, length, "a path");
    else if ((opened = hs_summary_writer_shared(kept, &options, &error)))
        add(cache, kept, opened, &error);
    hs_code code = hs__error_copy(err, &error);
    if (code) {
        if (opened)
            hs_summary_writer_close(opened, NULL);
        hs__free(cache->env, kept);
        return code;
    }
    *writer = opened;
    return HS_OK;
}

hs_code hs__writer_cache_use(hs__writer_cache *cache, hs_summary_writer *writer, hs_error *err)
{
    for (size_t i = 0; i < cache->n; i++)
        if (cache->items[i].writer == writer)
            return HS_OK;
    return add(cache, NULL, writer, err);
}

hs_code hs__writer_cache_start(hs__writer_cache *cache, hs_summary_writer *writer, uint64_t creation, int64_t step,
                               hs_error *err)
{
    size_t i = 0;
    while (i < cache->n && cache->items[i].writer != writer)
        i++;
    assert(i < cache->n);
    if (cache->items[i].started == creation)
        return HS_OK;
    hs_code code = hs_summary_writer_session_log(writer, HS_SESSION_LOG_START, NULL, NULL, step, err);
    if (!code)
        cache->items[i].started = creation;
    return code;
}

/* Reports new failures of a writer that retries. */
static void report_new(const hs__writer_cache *cache, struct hs__cached_writer *item, const hs_writer_status *status)
{
    if (status->retries && status->failures != item->failures)
        cache->report(cache->user, status->failures - item->failures, &status->last_error);
    item->failures = status->failures;
}

static hs_code flush(const hs__writer_cache *cache, struct hs__cached_writer *item, bool sync, hs_error *err)
{
    hs_code code = hs_summary_writer_flush(item->writer, sync, err);
    const hs_writer_status status = hs_summary_writer_status(item->writer);
    report_new(cache, item, &status);
    if (!code || !status.retries)
        return code;
    hs__clear(err);
    return HS_OK;
}

hs_code hs__writer_cache_flush(hs__writer_cache *cache, hs_error *err)
{
    hs_code first = HS_OK;
    for (size_t i = 0; i < cache->n; i++) {
        hs_code code = flush(cache, &cache->items[i], false, first ? NULL : err);
        first = first ? first : code;
    }
    return first;
}

hs_code hs__writer_cache_flush_one(hs__writer_cache *cache, hs_summary_writer *writer, bool sync, hs_error *err)
{
    struct hs__cached_writer unknown = {.writer = writer};
    unknown.failures = hs_summary_writer_status(writer).failures;
    for (size_t i = 0; i < cache->n; i++)
        if (cache->items[i].writer == writer)
            return flush(cache, &cache->items[i], sync, err);
    return flush(cache, &unknown, sync, err);
}

hs_code hs__writer_cache_close(hs__writer_cache *cache, hs_error *err)
{
    hs_code first = HS_OK;
    for (size_t i = 0; i < cache->n; i++) {
        struct hs__cached_writer *item = &cache->items[i];
        if (!item->directory)
            continue; /* the program's */
        hs_error error = {0};
        const hs_writer_status status = hs_summary_writer_status(item->writer);
        report_new(cache, item, &status);
        hs_summary_writer_close(item->writer, &error);
        if (error.code && status.retries)
            cache->report(cache->user, 1, &error);
        else if (!first)
            first = hs__error_copy(err, &error);
        hs__free(cache->env, item->directory);
    }
    hs__free(cache->env, cache->items);
    cache->items = NULL;
    cache->n = cache->capacity = 0;
    return first;
}
