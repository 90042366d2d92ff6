/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_WAITS_H
#define HS_TESTS_SUPPORT_WAITS_H

#include <stddef.h>

/* Counts threads that wait for a condition. For tests that are linked by hooksess_count_waits (CMake). */

/* The number of threads that wait for a condition now. A thread is counted while it still holds the condition's mutex. A
 * test that then locks the mutex can rely on the thread waiting. */
size_t threads_waiting(void);
/* Returns when `n` threads wait. */
void await_waiting(size_t n);
/* The number of waits that the main thread has begun. */
size_t waits_of_main(void);
/* The time from now until the last wait with a limit ends, in seconds. */
double longest_wait(void);

#endif
