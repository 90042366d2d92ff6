/* SPDX-License-Identifier: Apache-2.0 */
/* Threads add bytes. The thread that finds the next line due logs it. */
#include "formats/read_progress.h"

#include "base/text.h"

static const int64_t FIRST_NS = 1000000000, NEXT_NS = 10 * (int64_t)1000000000;

void hs__read_progress_begin(hs__read_progress *progress, const hs_env *env, const char *path, uint64_t bytes, double reads)
{
    progress->env = env;
    progress->path = path;
    progress->bytes = bytes;
    progress->reads = reads;
    atomic_init(&progress->read, 0);
    atomic_init(&progress->next_ns, hs_env_monotonic_ns(env) + FIRST_NS);
}

void hs__read_progress_add(hs__read_progress *progress, uint64_t bytes)
{
    char text[HS__NUMBER_TEXT];
    if (!progress || !progress->env)
        return;
    uint64_t read = atomic_fetch_add(&progress->read, bytes) + bytes;
    int64_t now_ns = hs_env_monotonic_ns(progress->env);
    int_fast64_t next_ns = atomic_load(&progress->next_ns);
    if (now_ns < next_ns || !atomic_compare_exchange_strong(&progress->next_ns, &next_ns, now_ns + NEXT_NS))
        return;
    double part = (double)read / progress->reads;
    hs_log(progress->env, HS_LOG_INFO, "restoring %s (%s): %.0f %%", progress->path, hs__bytes_text(text, progress->bytes),
           part < 1 ? part * 100 : 100);
}
