/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_CHECK_H
#define HS_SUMMARY_EVENT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* Are these bytes a serialized Event, a serialized Summary? Looked at as far as the values: their fields are whole and of
 * the kinds that they should be, and what nobody knows is whole. What is in an image or a graph is not looked at. No
 * memory is asked for. Empty bytes are an empty message. */
bool hs__is_event(const void *data, size_t bytes);
bool hs__is_summary(const void *data, size_t bytes);

#endif
