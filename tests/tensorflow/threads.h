/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TENSORFLOW_THREADS_H
#define HS_TESTS_TENSORFLOW_THREADS_H

#include <stdbool.h>

/* Returns the number of threads of the process, including the threads of TensorFlow's pools, which never end. */
long count_threads(void);
/* Waits until the process has at most `n` threads, as the system lists a thread for a moment after its end. Returns false
 * after 10 seconds. */
bool threads_fall_to(long n);

#endif
