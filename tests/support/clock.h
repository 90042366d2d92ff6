/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_CLOCK_H
#define HS_TESTS_SUPPORT_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* How far the monotonic clock is ahead of the system's, in nanoseconds. A test that is linked by hooksess_move_clock
 * (CMake) can set it. If the variable is in memory that is shared with a child process, it moves the child's clock, too. */
extern _Atomic int64_t *clock_ahead_ns;

#endif
