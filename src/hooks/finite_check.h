/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_FINITE_CHECK_H
#define HS_HOOKS_FINITE_CHECK_H

#include <hooksess/hooks/finite_guard.h>

/* HS_INVALID_ARGUMENT for a guard's options that contradict each other, or make no sense. */
hs_code hs__finite_check(const void *options, hs_error *err);

#endif
