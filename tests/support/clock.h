/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_CLOCK_H
#define HS_TESTS_SUPPORT_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* Nanoseconds that the monotonic clock is ahead of the system's. Tests that are linked by hooksess_move_clock (CMake)
 * can set it. In memory that is shared with a child process, it also moves the child's clock. */
extern _Atomic int64_t *clock_ahead_ns;

#endif
