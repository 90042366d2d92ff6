/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_THREAD_H
#define HS_BASE_THREAD_H

#include <pthread.h>

/* A thread that takes no signals: they are the program's. 0, or the error's number. */
int hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

#endif
