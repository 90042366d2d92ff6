/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_DECODE_H
#define HS_SUMMARY_EVENT_DECODE_H

#include <hooksess/event_reader.h>

#include "base/env.h"

/* Memory for the values of an event. It grows, and the next event reuses it. */
typedef struct hs__event_values {
    const hs_env *env;
    hs_event_value *items;
    size_t capacity;
} hs__event_values;

/* Decodes a serialized Event. `event` points into `record` and `values`. Does not change `path` and `offset`. DATA_LOSS:
 * not an Event. */
hs_code hs__event_decode(hs_bytes record, hs__event_values *values, hs_event *event, hs_error *err);

#endif
