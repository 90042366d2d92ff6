/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GRAPH_SUMMARY_H
#define HOOKSESS_GRAPH_SUMMARY_H

#include <hooksess/graph.h>

/* Summary ops of the embedded graph (graph.h). Each shows one tensor in TensorBoard. For curves of single numbers,
 * hs_scalars (hooks/scalars.h) needs no op.
 *
 *     hs_graph_summary(g, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
 *     hs_graph_summary(g, HS_SUMMARY_HISTOGRAM, .name = "weights", .tensor = "weights");
 *     hs_graph_summary(g, HS_SUMMARY_IMAGE, .name = "input", .tensor = "images", .max_outputs = 3);
 *
 * A training session merges the collection HS_SUMMARIES into a summary op, which its summary saver fetches. To merge an op
 * of the program that returns a serialized Summary, add it with hs_graph_collect().
 *
 * A summary op runs only if it is fetched, after the ops defined before it. To show values of the same run, define it after
 * the ops that write its tensor, or name them as control inputs. If the tensor is a value of an earlier step
 * (hs_raw_session_computed_at), its summary is empty. If it is a placeholder, runs that fetch summaries must feed it.
 *
 * All functions return a code, and the graph keeps its first error. If dtype or shape do not suit the kind, the op returns
 * HS_INVALID_ARGUMENT.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef enum hs_summary_kind {
    HS_SUMMARY_SCALAR,    /* one number of a real type. tf.summary.scalar */
    HS_SUMMARY_HISTOGRAM, /* as hs_summary_histogram. tf.summary.histogram */
    HS_SUMMARY_IMAGE,     /* as hs_summary_image. tf.summary.image */
    HS_SUMMARY_AUDIO,     /* as hs_summary_audio. tf.summary.audio */
    HS_SUMMARY_TEXT,      /* strings, as hs_summary_text_tensor. tf.summary.text */
    HS_SUMMARY_TENSOR     /* as hs_summary_tensor. tf.summary.tensor_summary */
} hs_summary_kind;

typedef struct hs_graph_summary_def {
    size_t size;
    const char *name;                  /* (required) the op is named "summary/NAME" */
    const char *tensor;                /* (required) variable, value, placeholder or output ("logits:1") */
    const char *tag;                   /* in TensorBoard, UTF-8. NULL: the name */
    const char *const *control_inputs; /* ops to run first. NULL: none */
    const char *collection;            /* the op is added to it. NULL: HS_SUMMARIES. "": none */
    int64_t max_outputs;               /* most images or sounds of a batch. 0: 3 */
    double sample_rate;                /* sound: frames per second, 1 to 10^6. 0: 44100 */
} hs_graph_summary_def;
#define HS_GRAPH_SUMMARY_DEF(...) HS_OPTIONS(hs_graph_summary_def, __VA_ARGS__)

/* Adds a summary op. HS_ALREADY_EXISTS: the graph has this name or tag. HS_FAILED_PRECONDITION: a session is open, or the
 * graph is finalized. TensorFlow: tf.summary.*, which names the op NAME and makes names unique. */
HS_API hs_code hs_graph_add_summary(hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *def);
#define hs_graph_summary(graph, kind, ...) hs_graph_add_summary((graph), (kind), HS_GRAPH_SUMMARY_DEF(__VA_ARGS__))

/* Returns in `name` the op that merges the collection HS_SUMMARIES, including later additions. The first call creates it
 * and adds it to HS_SUMMARY_OP. Scaffolds call this.
 *
 * name  valid as long as the graph. May be NULL
 *
 * HS_ALREADY_EXISTS: another op is in HS_SUMMARY_OP. TensorFlow: tf.summary.merge_all, which does not merge later ones. */
HS_API hs_code hs_graph_merge_all_summaries(hs_graph *graph, const char **name);

HS_END_DECLS

#endif
