/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_CLOCK_H
#define HS_TESTS_SUPPORT_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* The system's monotonic clock, where a test has moved it (hooksess_move_clock in CMake links the test so that it can): it
 * is ahead by *clock_ahead_ns. That may lie in memory which is shared with a child, whose clock it is then, too. */
extern _Atomic int64_t *clock_ahead_ns;

#endif
