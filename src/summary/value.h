/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_VALUE_H
#define HS_SUMMARY_VALUE_H

#include <hooksess/summary.h>

#include "summary/wire_write.h"

/* What all kinds of summary values share. */

typedef struct hs__histogram hs__histogram;

struct hs_summary {
    hs_env env;
    hs__buffer serialized;
    /* Kept from one value to the next. */
    hs_host_copy copy;
    hs__buffer scratch;
    hs__histogram *histogram; /* made when it is needed */
};

/* The fields of a Summary.Value, besides its tag. */
enum {
    HS__VALUE_SIMPLE = 2,
    HS__VALUE_IMAGE = 4,
    HS__VALUE_HISTOGRAM = 5,
    HS__VALUE_AUDIO = 6,
    HS__VALUE_TENSOR = 8,
};

/* A value while it is put together. */
typedef struct hs__value {
    hs__buffer *out;
    size_t before, begun;
} hs__value;

/* INVALID_ARGUMENT unless it is UTF-8 with no 0 in it; `what` names it. NULL is fine. */
hs_code hs__check_text(const char *text, const char *what, hs_error *err);
bool hs__is_utf8(const char *text, size_t bytes);

/* Looks at what every function is given. `err` is cleared. */
hs_code hs__check_value(const hs_summary *summary, const char *tag, hs_error *err);
/* Looks at a tensor, and brings it to the host until the next call. */
hs_code hs__value_tensor(hs_summary *summary, const char *tag, const hs_tensor *tensor, hs_tensor *host, hs_error *err);

/* Begins a value with its tag. "TAG SUFFIX" in one, where `suffix` is not "". */
hs__value hs__begin_value(hs_summary *summary, const char *tag, const char *suffix);
/* Ends it: what goes wrong (`code`, with its message in `err`, or the memory) takes back all since it was begun. */
hs_code hs__end_value(hs__value *value, hs_code code, hs_error *err);

/* Appends the metadata of a value. */
typedef struct hs__metadata {
    const char *plugin, *display_name, *description;
    hs_string content;
} hs__metadata;
void hs__put_metadata(hs__buffer *out, const hs__metadata *metadata);

/* Items of a batch are kept under tags of their own: "/KIND", or "/KIND/0", ... where more than one may be. Each is put by
 * a function that appends to the begun value. A failure takes back all. */
typedef hs_code (*hs__put_item)(hs_summary *summary, size_t index, void *user, hs_error *err);
hs_code hs__put_batch(hs_summary *summary, const char *tag, const char *kind, size_t n, int64_t most, hs__put_item put,
                      void *user, hs_error *err);

/* Begins a TensorProto with its dtype and shape; the value's elements follow, and hs__end_field. */
size_t hs__begin_tensor(hs__buffer *out, hs_dtype dtype, const hs_shape *shape);
enum { HS__TENSOR_CONTENT = 4, HS__TENSOR_STRING = 8 };

/* Frames a second that sound may have. */
static inline bool hs__is_sample_rate(double frames)
{
    return frames >= 1 && frames <= 1e6;
}

#endif
