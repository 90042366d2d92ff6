/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_VALUE_H
#define HS_SUMMARY_VALUE_H

#include <hooksess/summary.h>

#include "base/wire_write.h"

/* Shared by all kinds of summary values. */

typedef struct hs__histogram hs__histogram;

struct hs_summary {
    hs_env env;
    hs__buffer serialized;
    /* Reused by all values. */
    hs_host_copy copy;
    hs__buffer scratch;
    hs__histogram *histogram; /* NULL until the first histogram */
};

/* The fields of a Summary.Value. */
enum {
    HS__VALUE_SIMPLE = 2,
    HS__VALUE_IMAGE = 4,
    HS__VALUE_HISTOGRAM = 5,
    HS__VALUE_AUDIO = 6,
    HS__VALUE_TENSOR = 8,
};

/* A value that is being encoded. */
typedef struct hs__value {
    hs__buffer *out;
    size_t before, begun; /* sizes of `out` before the value, and after its head */
} hs__value;

/* INVALID_ARGUMENT unless the text is UTF-8. NULL is allowed. `what` is for the message. */
hs_code hs__check_text(const char *text, const char *what, hs_error *err);

/* Checks the parameters that all functions have. Clears `err`. */
hs_code hs__check_value(const hs_summary *summary, const char *tag, hs_error *err);
/* Checks a tensor and copies it to the host if needed. `host` is valid until the next call. */
hs_code hs__value_tensor(hs_summary *summary, const char *tag, const hs_tensor *tensor, hs_tensor *host, hs_error *err);

/* Begins a value with the tag `tag` + `suffix`. */
hs__value hs__begin_value(hs_summary *summary, const char *tag, const char *suffix);
/* Ends a value. Removes it from the Summary if `code`, whose message is in `err`, is an error, or if memory is out. */
hs_code hs__end_value(hs__value *value, hs_code code, hs_error *err);

typedef struct hs__metadata {
    const char *plugin, *display_name, *description;
    hs_string content;
} hs__metadata;
/* Appends the metadata of a value. */
void hs__put_metadata(hs__buffer *out, const hs__metadata *metadata);

/* Adds at most `most` items of a batch of `n`, each as a value with its own tag: "TAG/KIND" if `most` is 1, otherwise
 * "TAG/KIND/0", "TAG/KIND/1", ... `put` appends an item to the value. After a failure, none is added. */
typedef hs_code (*hs__put_item)(hs_summary *summary, size_t index, void *user, hs_error *err);
hs_code hs__put_batch(hs_summary *summary, const char *tag, const char *kind, size_t n, int64_t most, hs__put_item put,
                      void *user, hs_error *err);

/* Begins a TensorProto with its dtype and shape. Append its elements, then call hs__end_field. */
size_t hs__begin_tensor(hs__buffer *out, hs_dtype dtype, const hs_shape *shape);
enum { HS__TENSOR_CONTENT = 4, HS__TENSOR_STRING = 8 };

/* True if audio may have this sample rate, in frames per second. */
static inline bool hs__is_sample_rate(double frames)
{
    return frames >= 1 && frames <= 1e6;
}

#endif
