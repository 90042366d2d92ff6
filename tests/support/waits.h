/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_WAITS_H
#define HS_TESTS_SUPPORT_WAITS_H

#include <stddef.h>

/* Looking at threads that wait (hooksess_count_waits in CMake links a test so that it can). */

/* How many wait for a condition now. One that is counted holds the condition's mutex until it waits: whoever has taken the
 * mutex since knows that it does. */
size_t threads_waiting(void);
/* Until so many do. */
void await_waiting(size_t n);
/* How often the main thread has begun to wait. */
size_t waits_of_main(void);
/* How many seconds after now the last wait with a limit ends. */
double longest_wait(void);

#endif
