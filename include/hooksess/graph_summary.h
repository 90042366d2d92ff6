/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_GRAPH_SUMMARY_H
#define HOOKSESS_GRAPH_SUMMARY_H

#include <hooksess/graph.h>

/* Summary ops of the embedded graph (graph.h): each makes a Summary of one tensor and gives it, serialized, as a string.
 *
 *     hs_graph_summary_scalar(g, "loss", "loss");
 *     hs_graph_summary_histogram(g, "weights", "weights");
 *     hs_graph_summary_image(g, "input", "images", 3);
 *
 * They are in the graph's collection HS_SUMMARIES. What merges them all is the default of a scaffold's summary op, and so
 * what a summary saver fetches: nothing more is needed in a training session. A run that does not fetch one does not
 * execute it. Ops of the program's own that give a serialized Summary are merged too when hs_graph_collect names them
 * there.
 *
 * The name of a summary is the tag that TensorBoard shows, unless .tag is given. Its op has the name "summary/NAME": this
 * is the name for hs_session_run, control inputs and hs_graph_collect. So a summary may have the name of the tensor that it
 * shows. A summary of a placeholder makes every run in which summaries are due need its feed.
 *
 * Summaries do not count as ops of the program's own: a training session still adds a global step to the graph of a loop
 * that computes its steps itself (training_session.h). For single numbers hs_scalars (hooks/scalars.h) needs no op.
 *
 * As any op that reads a variable or a value, one is executed in its turn: define it after the ops that write what it
 * shows, or name them as control inputs. In a run in which they are not executed it shows what was written last.
 *
 * Like all functions that build a graph, these return a code, and the graph keeps its first error. What a tensor's dtype or
 * shape does not allow is HS_INVALID_ARGUMENT when the op is executed. Sessions of one graph each have values of their
 * own.
 *
 * Threads: one at a time per object. */

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
    const char *name;                  /* (required) the op is "summary/NAME"; letters as in all names of a graph */
    const char *tensor;                /* (required) a variable, a value, a placeholder, an op's output ("logits:1") */
    const char *tag;                   /* that it is shown under, UTF-8; NULL: the name */
    const char *const *control_inputs; /* ops that are executed before it; ended by NULL */
    const char *collection;            /* instead of HS_SUMMARIES; "" is none */
    int64_t max_outputs;               /* images and sound: of a batch so many are kept; 0: 3 */
    double sample_rate;                /* sound: frames a second, 1 to 10^6; 0: 44100 */
} hs_graph_summary_def;
#define HS_GRAPH_SUMMARY_DEF(...) HS_OPTIONS(hs_graph_summary_def, __VA_ARGS__)

/* Everything is copied. HS_INVALID_ARGUMENT, HS_ALREADY_EXISTS for a name, or a tag, that the graph's summaries have
 * already. TensorFlow: tf.summary.*, which names the op as the summary and makes that name unique. */
HS_API hs_code hs_graph_add_summary(hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *def);

/* The usual cases. */
HS_API hs_code hs_graph_summary_scalar(hs_graph *graph, const char *name, const char *tensor);
HS_API hs_code hs_graph_summary_histogram(hs_graph *graph, const char *name, const char *tensor);
HS_API hs_code hs_graph_summary_image(hs_graph *graph, const char *name, const char *tensor, int64_t max_outputs);
HS_API hs_code hs_graph_summary_audio(hs_graph *graph, const char *name, const char *tensor, int64_t max_outputs,
                                      double sample_rate);
HS_API hs_code hs_graph_summary_text(hs_graph *graph, const char *name, const char *tensor);
HS_API hs_code hs_graph_summary_tensor(hs_graph *graph, const char *name, const char *tensor);

/* The op that merges all that HS_SUMMARIES has, also what is added later, until a session is open: makes it at the first
 * call, and names it in HS_SUMMARY_OP. A scaffold that finds nothing there does the same, if there are summaries. `name`
 * may be NULL; what it is set to is the graph's. HS_ALREADY_EXISTS if another op is in HS_SUMMARY_OP. TensorFlow:
 * tf.summary.merge_all, which merges what is there at the call. */
HS_API hs_code hs_graph_merge_all_summaries(hs_graph *graph, const char **name);

HS_END_DECLS

#endif
