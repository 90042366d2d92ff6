/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread runs `work`, which takes the number of the next part until all are done or one has failed. */
#include "base/parallel.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <unistd.h>

size_t hs__workers_for(size_t parts, uint64_t bytes)
{
    const uint64_t SMALL = (uint64_t)8 << 20;
    if (bytes < SMALL || parts < 1)
        return 1;
    long processors = sysconf(_SC_NPROCESSORS_ONLN); /* reads a file */
    size_t workers = processors < 1 ? 1 : processors < HS__MOST_WORKERS ? (size_t)processors : HS__MOST_WORKERS;
    return workers < parts ? workers : parts;
}

typedef struct {
    size_t n;
    hs__do_part do_part;
    void *user;
    atomic_size_t next;
    atomic_bool failed;
} job;

typedef struct {
    job *job;
    size_t worker, failed_at; /* which part; n: none */
    hs_error error;
    bool runs;
    pthread_t thread;
} worker;

static void *work(void *user)
{
    worker *w = user;
    job *j = w->job;
    w->failed_at = j->n;
    while (!atomic_load(&j->failed)) {
        size_t part = atomic_fetch_add(&j->next, 1);
        if (part >= j->n)
            break;
        hs_error_clear(&w->error);
        hs_code code = j->do_part(j->user, w->worker, part, &w->error);
        if (!code)
            continue;
        hs__normalize_error(code, "a part of the work", &w->error);
        w->failed_at = part;
        atomic_store(&j->failed, true);
    }
    return NULL;
}

hs_code hs__in_parallel(size_t workers, size_t n, hs__do_part do_part, void *user, hs_error *err)
{
    worker all[HS__MOST_WORKERS];
    job j = {.n = n, .do_part = do_part, .user = user};
    atomic_init(&j.next, 0);
    atomic_init(&j.failed, false);
    for (size_t i = 0; i < workers; i++)
        all[i] = (worker){.job = &j, .worker = i};
    for (size_t i = 1; i < workers; i++)
        all[i].runs = hs__thread_start(&all[i].thread, work, &all[i]) == 0;
    work(&all[0]);
    const worker *first = &all[0];
    for (size_t i = 1; i < workers; i++) {
        if (!all[i].runs)
            continue;
        pthread_join(all[i].thread, NULL);
        if (all[i].failed_at < first->failed_at)
            first = &all[i];
    }
    return first->failed_at < n ? hs__error_copy(err, &first->error) : HS_OK;
}
