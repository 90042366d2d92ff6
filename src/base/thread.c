/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

int hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(thread, NULL, body, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}
