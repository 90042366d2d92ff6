/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/event_check.h"

#include "base/buffer.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* The fields of a message by their numbers, of which those that are missing may be anything. */
typedef struct message {
    struct {
        unsigned char wire_type; /* 1 more; 0: any */
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

/* Passes over a field's value; of BYTES, *size is how many. */
static bool pass(const unsigned char **at, const unsigned char *end, unsigned wire_type, uint64_t *size)
{
    uint64_t number;
    *size = wire_type == FIXED64 ? 8 : 4;
    switch (wire_type) {
    case VARINT:
        return hs__get_varint(at, end, &number);
    case BYTES:
        if (!hs__get_varint(at, end, size))
            return false;
        break;
    case FIXED64:
    case FIXED32:
        break;
    default:
        return false;
    }
    if (*size > (uint64_t)(end - *at))
        return false;
    *at += *size;
    return true;
}

static bool is_message(const message *of, const unsigned char *at, const unsigned char *end)
{
    const uint64_t LAST_FIELD = ((uint64_t)1 << 29) - 1;
    while (at < end) {
        uint64_t key, size;
        if (!hs__get_varint(&at, end, &key) || !(key >> 3) || key >> 3 > LAST_FIELD)
            return false;
        unsigned wire_type = key & 7;
        bool known = key >> 3 < sizeof of->fields / sizeof *of->fields && of->fields[key >> 3].wire_type;
        if ((known && of->fields[key >> 3].wire_type != wire_type + 1) || !pass(&at, end, wire_type, &size))
            return false;
        /* The depth is that of the tables. */
        if (known && of->fields[key >> 3].inside && !is_message(of->fields[key >> 3].inside, at - size, at))
            return false;
    }
    return true;
}

static bool is_whole(const message *of, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    return !bytes || is_message(of, at, at + bytes);
}

bool hs__is_event(const void *data, size_t bytes)
{
    return is_whole(&event, data, bytes);
}

bool hs__is_summary(const void *data, size_t bytes)
{
    return is_whole(&summary, data, bytes);
}
