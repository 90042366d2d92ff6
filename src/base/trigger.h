/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_TRIGGER_H
#define HS_BASE_TRIGGER_H

#include <hooksess/trigger.h>

/* True if any condition is used. An empty list of steps counts as one. */
bool hs__trigger_is_set(const hs_trigger *when);
/* HS_INVALID_ARGUMENT: a number is invalid, or no condition can hold. */
hs_code hs__trigger_check(const hs_trigger *when, hs_error *err);

#endif
