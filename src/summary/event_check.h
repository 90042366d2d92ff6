/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_CHECK_H
#define HS_SUMMARY_EVENT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* True if the bytes are a serialized Event, or a serialized Summary. Checks the fields down to the values: each field is
 * complete and has its type. Unknown fields need only be complete. The contents of images and graphs are not checked.
 * Empty bytes are an empty message. Allocates nothing. */
bool hs__is_event(const void *data, size_t bytes);
bool hs__is_summary(const void *data, size_t bytes);

#endif
