/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/event_check.h"

#include "base/wire_read.h"

enum { VARINT = HS__WIRE_VARINT, FIXED64 = HS__WIRE_FIXED64, BYTES = HS__WIRE_BYTES, FIXED32 = HS__WIRE_FIXED32 };

/* The known fields of a message, by number. Other fields may have any type. */
typedef struct message {
    struct {
        unsigned char wire_type; /* plus 1; 0: any */
        const struct message *inside;
    } fields[11];
} message;

#define FIELD(type)                                                                                                        \
    {                                                                                                                      \
        (type) + 1, NULL                                                                                                   \
    }
#define MESSAGE(of)                                                                                                        \
    {                                                                                                                      \
        BYTES + 1, &(of)                                                                                                   \
    }

static const message plugin_data = {{[1] = FIELD(BYTES), [2] = FIELD(BYTES)}};
static const message metadata = {{[1] = MESSAGE(plugin_data), [2] = FIELD(BYTES), [3] = FIELD(BYTES), [4] = FIELD(VARINT)}};
static const message value = {{[1] = FIELD(BYTES),
                               [2] = FIELD(FIXED32),
                               [4] = FIELD(BYTES),
                               [5] = FIELD(BYTES),
                               [6] = FIELD(BYTES),
                               [7] = FIELD(BYTES),
                               [8] = FIELD(BYTES),
                               [9] = MESSAGE(metadata)}};
static const message summary = {{[1] = MESSAGE(value)}};
static const message session_log = {{[1] = FIELD(VARINT), [2] = FIELD(BYTES), [3] = FIELD(BYTES)}};
static const message log_message = {{[1] = FIELD(VARINT), [2] = FIELD(BYTES)}};
static const message run_metadata = {{[1] = FIELD(BYTES), [2] = FIELD(BYTES)}};
static const message source_metadata = {{[1] = FIELD(BYTES)}};
static const message event = {{[1] = FIELD(FIXED64),
                               [2] = FIELD(VARINT),
                               [3] = FIELD(BYTES),
                               [4] = FIELD(BYTES),
                               [5] = MESSAGE(summary),
                               [6] = MESSAGE(log_message),
                               [7] = MESSAGE(session_log),
                               [8] = MESSAGE(run_metadata),
                               [9] = FIELD(BYTES),
                               [10] = MESSAGE(source_metadata)}};

static bool is_message(const message *of, hs_bytes bytes)
{
    hs__fields fields = hs__fields_of(bytes);
    hs__field field;
    while (hs__fields_next(&fields, &field)) {
        bool known = field.number < sizeof of->fields / sizeof *of->fields && of->fields[field.number].wire_type;
        if (!known)
            continue;
        if (of->fields[field.number].wire_type != field.type + 1)
            return false;
        const message *inside = of->fields[field.number].inside; /* the tables limit the depth */
        if (inside && !is_message(inside, field.bytes))
            return false;
    }
    return !fields.failed;
}

bool hs__is_event(const void *data, size_t bytes)
{
    return is_message(&event, (hs_bytes){data, bytes});
}

bool hs__is_summary(const void *data, size_t bytes)
{
    return is_message(&summary, (hs_bytes){data, bytes});
}
