/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_COLD_H
#define HS_BASE_COLD_H

/* Marks a function that the step seldom calls. The compiler keeps it out of its caller, which then saves fewer registers
 * in every step. */
#define HS__COLD __attribute__((noinline, cold))

#endif
