/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_ENCODE_H
#define HS_SUMMARY_EVENT_ENCODE_H

#include <hooksess/summary.h>

#include "base/buffer.h"

/* Encodes events and scalars in protobuf's wire format (base/wire/event.proto). Written by hand, because logging a scalar
 * in each step is a hot path. */

/* Appends a scalar value to a Summary. */
void hs__encode_scalar(hs__buffer *out, const char *tag, size_t tag_bytes, double value);

/* The fields of an Event. */
enum {
    HS__EVENT_FILE_VERSION = 3,
    HS__EVENT_GRAPH_DEF = 4,
    HS__EVENT_SUMMARY = 5,
    HS__EVENT_SESSION_LOG = 7,
    HS__EVENT_TAGGED_RUN_METADATA = 8,
    HS__EVENT_META_GRAPH_DEF = 9,
    HS__EVENT_SOURCE_METADATA = 10,
};

/* Writes a whole Event with one scalar, of at most hs__scalar_event_bytes_at_most bytes. Returns its end. */
size_t hs__scalar_event_bytes_at_most(size_t tag_bytes);
unsigned char *hs__put_scalar_event(unsigned char *to, int64_t realtime_ns, int64_t step, const char *tag, size_t tag_bytes,
                                    double value);

/* Appends the first fields of an Event: time and step. */
void hs__encode_event_head(hs__buffer *out, int64_t realtime_ns, int64_t step);
/* Appends the body of a SessionLog. */
void hs__encode_session_log(hs__buffer *out, hs_session_log_status status, const char *checkpoint_path,
                            const char *message);

#endif
