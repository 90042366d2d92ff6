/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SUMMARY_VALUES_H
#define HOOKSESS_SUMMARY_VALUES_H

#include <hooksess/summary.h>

/* Values of a Summary other than scalars.
 *
 *     hs_tensor weights = hs_tensor_of(HS_FLOAT, HS_SHAPE(128, 10), data);
 *     hs_summary_histogram(summary, "weights", &weights, &err);
 *     hs_summary_text(summary, "note", "learning rate halved", &err);
 *     hs_summary_writer_summary(writer, hs_summary_serialized(summary), step, &err);
 *
 * Each function appends to the Summary under `tag`, which is UTF-8 and not empty. Data is copied. It may be in device
 * memory, of which hs_summary_histogram copies pieces of 8 MiB. `options` and `plugin` may be NULL. If a function fails,
 * the Summary is unchanged:
 *
 *   HS_INVALID_ARGUMENT     a NULL, or a tag, dtype, shape, number or option out of range
 *   HS_RESOURCE_EXHAUSTED   out of memory, or `summary` is NULL
 *   others                  from hs_memory.to_host
 *
 * Threads: one thread at a time per object. Any thread may use a writer at any time. */

HS_BEGIN_DECLS

/* Histograms. */

/* The distribution of all elements, in TensorFlow's exponential buckets. A run of empty buckets becomes one.
 *
 * values  float, double, half, bfloat16, bool or integers, of any shape, also empty
 *
 * Scalars TAG/nan and TAG/infinity count NaN and infinities, which the histogram omits. TensorFlow: version 1 of
 * tf.summary.histogram, which fails instead. */
HS_API hs_code hs_summary_histogram(hs_summary *summary, const char *tag, const hs_tensor *values, hs_error *err);

typedef struct hs_uniform_histogram_options {
    size_t size;
    int64_t buckets;         /* 0: 30; at most 2^20 */
    const char *description; /* Markdown, UTF-8. NULL: none */
} hs_uniform_histogram_options;
#define HS_UNIFORM_HISTOGRAM_OPTIONS(...) HS_OPTIONS(hs_uniform_histogram_options, __VA_ARGS__)

/* The same in buckets of equal width between the least and the greatest finite element. The value is a double tensor with
 * a row (left edge, right edge, count) per bucket. If all elements are equal, the last bucket counts them. TensorFlow:
 * version 2 of tf.summary.histogram. */
HS_API hs_code hs_summary_histogram_uniform(hs_summary *summary, const char *tag, const hs_tensor *values,
                                            const hs_uniform_histogram_options *options, hs_error *err);

/* A histogram that the program has counted. */
typedef struct hs_histogram_counts {
    size_t size;
    double min, max, num, sum, sum_squares;
    size_t buckets;       /* at least 1 */
    const double *limits; /* right edge of each bucket, ascending */
    const double *counts; /* of each bucket, not negative */
} hs_histogram_counts;

/* Appends `counts` unchanged. TensorFlow: HistogramProto. */
HS_API hs_code hs_summary_histogram_counted(hs_summary *summary, const char *tag, const hs_histogram_counts *counts,
                                            hs_error *err);

/* Images. */

typedef struct hs_image_options {
    size_t size;
    int64_t max_outputs; /* images to write of a batch. 0: 3 */
} hs_image_options;
#define HS_IMAGE_OPTIONS(...) HS_OPTIONS(hs_image_options, __VA_ARGS__)

/* Images, as PNG. At most 2^30 bytes of pixels per image.
 *
 * images   [height, width], [height, width, channels] or [n, height, width, channels], only n may be 0. 1 channel is
 *          gray, 3 are RGB, 4 RGBA
 *
 * uint8 is unchanged. Float, double, half and bfloat16 are scaled, each image separately: the greatest becomes 255; with
 * negative elements, 0 becomes 128 and the greatest magnitude 127 away from it. NaN and infinity become red, or white in
 * gray.
 *
 * The tag is TAG/image, or TAG/image/0 ... for a batch with max_outputs above 1. TensorFlow: tf.summary.image. */
HS_API hs_code hs_summary_image(hs_summary *summary, const char *tag, const hs_tensor *images,
                                const hs_image_options *options, hs_error *err);

/* Sound. */

typedef struct hs_audio_options {
    size_t size;
    double sample_rate;  /* frames per second, 1 to 1e6. 0: 44100 */
    int64_t max_outputs; /* clips to write of a batch. 0: 3 */
} hs_audio_options;
#define HS_AUDIO_OPTIONS(...) HS_OPTIONS(hs_audio_options, __VA_ARGS__)

/* Sound, as 16-bit WAV of less than 2 GiB.
 *
 * audio    float, [frames], [frames, channels] or [n, frames, channels], 1 to 65535 channels. Elements are clipped to -1 to
 *          1; NaN is silence
 *
 * The tag is TAG/audio, or TAG/audio/0 ... for a batch with max_outputs above 1. TensorFlow: tf.summary.audio. */
HS_API hs_code hs_summary_audio(hs_summary *summary, const char *tag, const hs_tensor *audio,
                                const hs_audio_options *options, hs_error *err);

/* Text. */

/* UTF-8 text, shown as Markdown. */
HS_API hs_code hs_summary_text(hs_summary *summary, const char *tag, const char *text, hs_error *err);
/* A string tensor of UTF-8 text, shown as a column or a table. TensorFlow: tf.summary.text. */
HS_API hs_code hs_summary_text_tensor(hs_summary *summary, const char *tag, const hs_tensor *strings, hs_error *err);

/* Tensors. */

/* How TensorBoard shows a tensor. */
typedef struct hs_summary_plugin {
    size_t size;
    const char *name;         /* TensorBoard's plugin. NULL: none */
    hs_string content;        /* data of the plugin; needs `name`. Empty: none */
    const char *display_name; /* NULL: the tag */
    const char *description;  /* Markdown. NULL: none */
} hs_summary_plugin;
#define HS_SUMMARY_PLUGIN(...) HS_OPTIONS(hs_summary_plugin, __VA_ARGS__)

/* Any tensor, unchanged. TensorFlow: tf.summary.tensor_summary. */
HS_API hs_code hs_summary_tensor(hs_summary *summary, const char *tag, const hs_tensor *tensor,
                                 const hs_summary_plugin *plugin, hs_error *err);

/* Precision and recall. */

typedef struct hs_pr_curve {
    size_t size;
    const hs_tensor *labels; /* (required) bool, or numbers that are 0 or 1 */
    /* (required) float, double, half or bfloat16, of the shape of `labels`. Clipped to 0 to 1. NaN is refused */
    const hs_tensor *predictions;
    const hs_tensor *weights; /* finite numbers, one for all or of the shape of `labels`. NULL: 1 */
    int64_t thresholds;       /* equally spaced thresholds from 0 to 1, 2 to 2^20. 0: 201 */
    const char *display_name; /* NULL: the tag */
    const char *description;  /* Markdown. NULL: none */
} hs_pr_curve;
#define HS_PR_CURVE(...) HS_OPTIONS(hs_pr_curve, __VA_ARGS__)

/* Counts a binary classifier's results: a prediction at or above a threshold is positive. The value is a float tensor [6,
 * thresholds] under the tag TAG/pr_curves. Rows: true positives, false positives, true negatives, false negatives,
 * precision, recall. TensorBoard: pr_curve.summary. */
HS_API hs_code hs_summary_pr_curve(hs_summary *summary, const char *tag, const hs_pr_curve *curve, hs_error *err);

/* Custom charts. */

/* A line with a band: the tags of three scalars, all required. Frozen. */
typedef struct hs_chart_margin {
    const char *value, *lower, *upper;
} hs_chart_margin;

/* A chart. Set either `tags` or `margins`. Frozen. */
typedef struct hs_chart {
    const char *title;              /* (required) */
    const char *const *tags;        /* HS_NAMES(...): regular expressions for tags of scalars, a line each. NULL: none */
    const hs_chart_margin *margins; /* HS_CHART_MARGINS(...): lines with bands. NULL: none */
    void *reserved[2];              /* NULL */
} hs_chart;

#define HS_CHART_MARGINS(...) HS__LIST(hs_chart_margin, __VA_ARGS__, {.value = NULL})
#define HS_CHARTS(...)        HS__LIST(hs_chart, __VA_ARGS__, {.title = NULL})

/* A group of charts. Frozen. */
typedef struct hs_chart_category {
    const char *title;      /* (required) */
    const hs_chart *charts; /* HS_CHARTS(...). NULL: none */
    bool closed;            /* shown folded */
    unsigned char reserved_closed[7];
    void *reserved[2]; /* NULL */
} hs_chart_category;

#define HS_CHART_CATEGORIES(...) HS__LIST(hs_chart_category, __VA_ARGS__, {.title = NULL})

/* The layout of TensorBoard's tab Custom Scalars. Write it once, at step 0. `categories` has at least one. TensorBoard:
 * custom_scalar.summary. */
HS_API hs_code hs_summary_chart_layout(hs_summary *summary, const hs_chart_category *categories, hs_error *err);

/* Other Summaries. */

/* Appends the values of a serialized Summary, unchanged. `serialized` may point into `summary`. HS_DATA_LOSS: the bytes
 * are not a Summary. TensorFlow: tf.summary.merge, which refuses equal tags. */
HS_API hs_code hs_summary_merge(hs_summary *summary, hs_string serialized, hs_error *err);

/* Add one value as an event, with the errors of Summary and writer. For many, reuse a Summary. */
HS_API hs_code hs_summary_writer_histogram(hs_summary_writer *writer, const char *tag, const hs_tensor *values,
                                           int64_t step, hs_error *err);
HS_API hs_code hs_summary_writer_image(hs_summary_writer *writer, const char *tag, const hs_tensor *images, int64_t step,
                                       hs_error *err);
HS_API hs_code hs_summary_writer_text(hs_summary_writer *writer, const char *tag, const char *text, int64_t step,
                                      hs_error *err);

HS_END_DECLS

#endif
