/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_COLD_H
#define HS_BASE_COLD_H

/* Marks a function that a step seldom calls. The compiler does not inline it, so that its caller saves fewer registers in
 * every step. */
#define HS__COLD __attribute__((noinline, cold))

#endif
