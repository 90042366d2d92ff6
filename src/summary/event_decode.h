/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_DECODE_H
#define HS_SUMMARY_EVENT_DECODE_H

#include <hooksess/event_reader.h>

#include "base/env.h"

/* A place for an event's values, which grows and is used again. */
typedef struct hs__event_values {
    const hs_env *env;
    hs_event_value *items;
    size_t capacity;
} hs__event_values;

/* A view of a serialized Event; `path` and `offset` are left alone. DATA_LOSS: it is none. */
hs_code hs__event_decode(hs_bytes record, hs__event_values *values, hs_event *event, hs_error *err);

#endif
