/* SPDX-License-Identifier: Apache-2.0 */
/* Counts forks with a handler of pthread_atfork. */
#include "base/forks.h"

#include <pthread.h>

atomic_uint hs__forks;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&hs__forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

unsigned hs__fork_generation(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&hs__forks, memory_order_relaxed);
}

hs_code hs__refuse_inherited(const char *what, hs_error *err)
{
    return hs_error_set(err, HS_FAILED_PRECONDITION, "a forked child can neither use nor close the %s of its parent", what);
}
