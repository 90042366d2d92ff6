/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_TENSORFLOW_THREADS_H
#define HS_TESTS_BACKENDS_TENSORFLOW_THREADS_H

#include <stdbool.h>

/* Threads of the process; TensorFlow's pools are among them, and stay. */
long count_threads(void);
/* Waits, within reason, until there are no more than so many: one that has ended is seen a little longer. */
bool threads_fall_to(long n);

#endif
