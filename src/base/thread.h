/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_THREAD_H
#define HS_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that blocks all signals, so that the program's threads get them. Returns 0 or an errno value. */
int hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

#endif
