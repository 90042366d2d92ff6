/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SUMMARY_VALUES_H
#define HOOKSESS_SUMMARY_VALUES_H

#include <hooksess/summary.h>

/* What a Summary holds besides scalars: histograms, images, sound, text, tensors, precision-recall curves, the layout of
 * custom charts. Hyperparameters are in hparams.h.
 *
 * Each function appends to the Summary under a tag, which is UTF-8 and not empty. If it fails, the Summary is as it was
 * before, and HS_INVALID_ARGUMENT tells of a NULL, a dtype, a shape or a number that does not fit; HS_RESOURCE_EXHAUSTED is
 * want of memory, a NULL Summary being what hs_summary_new gives without it. Tensors may lie in a device's memory; nothing
 * is kept of them.
 *
 * Threads: one at a time per object. Any thread may use a writer. */

HS_BEGIN_DECLS

/* Histograms. */

/* The distribution of all elements, in TensorFlow's buckets: their edges are 0 and, on either side, 1e-12 and every 1.1th
 * multiple of it below 1e20, and then the largest double. A run of empty buckets is kept as one. min, max, num, sum and
 * sum_squares are those of the elements as doubles.
 *
 * `values`: float, double, half, bfloat16, bool, or integers of any width, of any shape, also empty. Where TensorFlow fails
 * with NaN or infinity, they are left out here and counted in scalars beside the histogram, TAG/nan and TAG/infinity, each
 * of which is there only if it is not 0 (hs_tensor_nonfinite tells of them beforehand).
 *
 * Filled again after hs_summary_clear it allocates nothing. TensorFlow: tf.summary.histogram of version 1. */
HS_API hs_code hs_summary_histogram(hs_summary *summary, const char *tag, const hs_tensor *values, hs_error *err);

typedef struct hs_uniform_histogram_options {
    size_t size;
    int64_t buckets;         /* 0: 30. At most 2^20 */
    const char *description; /* Markdown, UTF-8; NULL: none */
} hs_uniform_histogram_options;
#define HS_UNIFORM_HISTOGRAM_OPTIONS(...) HS_OPTIONS(hs_uniform_histogram_options, __VA_ARGS__)

/* The same elements in `buckets` buckets of equal width from the least element to the greatest: a tensor of rows (left
 * edge, right edge, count), as TensorBoard's own summaries have it. If all elements are the same the last bucket has them;
 * if there is none all rows are 0. `options` may be NULL. TensorFlow: tf.summary.histogram of version 2. */
HS_API hs_code hs_summary_histogram_uniform(hs_summary *summary, const char *tag, const hs_tensor *values,
                                            const hs_uniform_histogram_options *options, hs_error *err);

/* A histogram that the caller has counted. */
typedef struct hs_histogram_counts {
    size_t size;
    double min, max, num, sum, sum_squares;
    size_t buckets;       /* at least 1 */
    const double *limits; /* the right edge of each bucket, ascending; its left one is the right one of that before */
    const double *counts; /* not negative */
} hs_histogram_counts;

/* Kept as given. TensorFlow: HistogramProto. */
HS_API hs_code hs_summary_histogram_counted(hs_summary *summary, const char *tag, const hs_histogram_counts *counts,
                                            hs_error *err);

/* Images. */

typedef struct hs_image_options {
    size_t size;
    int64_t max_outputs; /* 0: 3. So many images of a batch are kept, the first ones */
} hs_image_options;
#define HS_IMAGE_OPTIONS(...) HS_OPTIONS(hs_image_options, __VA_ARGS__)

/* Images as PNG. Shape [height, width], [height, width, channels] or [n, height, width, channels], each at least 1 (n may
 * be 0); 1 channel is gray, 3 are RGB, 4 RGBA. An image has at most 2^30 bytes of pixels.
 *
 * uint8 is kept as it is. Float, double, half and bfloat16 are scaled, each image of a batch for itself: if no element is
 * negative so that the greatest becomes 255, else so that 0 becomes 128 and the greatest magnitude is 127 away from it. A
 * pixel that has an element that is not finite becomes red (in a gray image white), and counts for no scale.
 *
 * The tag is TAG/image, or TAG/image/0, TAG/image/1, ... for a batch of which more than one image may be kept. `options`
 * may be NULL. TensorFlow: tf.summary.image. */
HS_API hs_code hs_summary_image(hs_summary *summary, const char *tag, const hs_tensor *images,
                                const hs_image_options *options, hs_error *err);

/* Sound. */

typedef struct hs_audio_options {
    size_t size;
    double sample_rate;  /* frames a second, 1 to 10^6; 0: 44100 */
    int64_t max_outputs; /* 0: 3. So many clips of a batch are kept, the first ones */
} hs_audio_options;
#define HS_AUDIO_OPTIONS(...) HS_OPTIONS(hs_audio_options, __VA_ARGS__)

/* Sound as WAV of 16 bits. Float, shape [frames], [frames, channels] or [n, frames, channels], 1 to 65535 channels;
 * elements in -1 to 1, those beyond are cut off, NaN is silence. The tag is TAG/audio, or TAG/audio/0, ... for a batch of
 * which more than one clip may be kept. `options` may be NULL. TensorFlow: tf.summary.audio. */
HS_API hs_code hs_summary_audio(hs_summary *summary, const char *tag, const hs_tensor *audio,
                                const hs_audio_options *options, hs_error *err);

/* Text. */

/* Text, in UTF-8, which TensorBoard reads as Markdown. */
HS_API hs_code hs_summary_text(hs_summary *summary, const char *tag, const char *text, hs_error *err);
/* A string tensor of UTF-8 text: TensorBoard shows one of rank 1 as a table of a column, one of rank 2 as a table of rows
 * and columns, and of a higher rank a part. TensorFlow: tf.summary.text. */
HS_API hs_code hs_summary_text_tensor(hs_summary *summary, const char *tag, const hs_tensor *strings, hs_error *err);

/* Tensors. */

/* Whose tensor it is. */
typedef struct hs_summary_plugin {
    size_t size;
    const char *name;         /* the plugin of TensorBoard that shows it; NULL: none */
    hs_string content;        /* what that plugin wants to know, often a serialized message; may be empty */
    const char *display_name; /* NULL: the tag */
    const char *description;  /* Markdown; NULL: none */
} hs_summary_plugin;
#define HS_SUMMARY_PLUGIN(...) HS_OPTIONS(hs_summary_plugin, __VA_ARGS__)

/* Any tensor, as it is. `plugin` may be NULL. TensorFlow: tf.summary.tensor_summary. */
HS_API hs_code hs_summary_tensor(hs_summary *summary, const char *tag, const hs_tensor *tensor,
                                 const hs_summary_plugin *plugin, hs_error *err);

/* Precision and recall. */

typedef struct hs_pr_curve {
    size_t size;
    const hs_tensor *labels; /* (required) bool, or a number that is 0 or 1 */
    /* (required) float, double, half or bfloat16, shape of `labels`; beyond 0 to 1 they count as 0, 1 */
    const hs_tensor *predictions;
    const hs_tensor *weights; /* numbers, shape of `labels` or one for all; NULL: 1 */
    int64_t thresholds;       /* 0: 201. 2 to 2^20, evenly from 0 to 1 */
    const char *display_name; /* NULL: the tag */
    const char *description;  /* Markdown; NULL: none */
} hs_pr_curve;
#define HS_PR_CURVE(...) HS_OPTIONS(hs_pr_curve, __VA_ARGS__)

/* How a classifier of two classes does at each threshold. The value is a float tensor [6, thresholds]: true positives,
 * false positives, true negatives, false negatives, precision, recall; a prediction not below the threshold is positive.
 * The tag is TAG/pr_curves. A NaN is refused. TensorBoard: pr_curve.summary. */
HS_API hs_code hs_summary_pr_curve(hs_summary *summary, const char *tag, const hs_pr_curve *curve, hs_error *err);

/* Custom charts. */

/* A line with a band round it, all three by the tags of scalars. Frozen. */
typedef struct hs_chart_margin {
    const char *value, *lower, *upper;
} hs_chart_margin;

/* A chart of lines, or of lines with bands; one of both is given. Frozen. */
typedef struct hs_chart {
    const char *title;
    const char *const *tags;        /* regular expressions of the scalars' tags, NULL-terminated */
    const hs_chart_margin *margins; /* HS_CHART_MARGINS(...). NULL: none */
    void *reserved[2];              /* NULL */
} hs_chart;

/* Lists of them. A named array ends with {0}. */
#define HS_CHART_MARGINS(...) HS__LIST(hs_chart_margin, __VA_ARGS__, {.value = NULL})
#define HS_CHARTS(...)        HS__LIST(hs_chart, __VA_ARGS__, {.title = NULL})

/* Charts that stand together. Frozen. */
typedef struct hs_chart_category {
    const char *title;
    const hs_chart *charts; /* HS_CHARTS(...). NULL: none */
    bool closed;            /* shown folded */
    unsigned char reserved_closed[7];
    void *reserved[2]; /* NULL */
} hs_chart_category;

#define HS_CHART_CATEGORIES(...) HS__LIST(hs_chart_category, __VA_ARGS__, {.title = NULL})

/* What TensorBoard shows under Custom Scalars: HS_CHART_CATEGORIES(...). One Summary of a run has it. TensorBoard:
 * custom_scalar.summary. */
HS_API hs_code hs_summary_chart_layout(hs_summary *summary, const hs_chart_category *categories, hs_error *err);

/* Summaries from elsewhere. */

/* Appends the values of a serialized Summary, unchanged byte for byte, whatever kind they are of (those of a summary op of
 * TensorFlow, for one). HS_DATA_LOSS if the bytes are no Summary. `serialized` may be a part of this Summary. TensorFlow:
 * tf.summary.merge, which refuses a tag that is there twice. */
HS_API hs_code hs_summary_merge(hs_summary *summary, hs_string serialized, hs_error *err);

/* Values as events of their own. Each makes a Summary (by malloc) and adds it to the writer, whose errors come back too;
 * who adds many keeps a Summary, and adds it with hs_summary_writer_summary. */
HS_API hs_code hs_summary_writer_histogram(hs_summary_writer *writer, const char *tag, const hs_tensor *values,
                                           int64_t step, hs_error *err);
HS_API hs_code hs_summary_writer_image(hs_summary_writer *writer, const char *tag, const hs_tensor *images, int64_t step,
                                       hs_error *err);
HS_API hs_code hs_summary_writer_text(hs_summary_writer *writer, const char *tag, const char *text, int64_t step,
                                      hs_error *err);

HS_END_DECLS

#endif
