/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_GRAPH_SAVER_H
#define HS_CHECKPOINT_GRAPH_SAVER_H

#include <hooksess/checkpoint.h>

#include "graph.pb-c.h"

#include "base/buffer.h"
#include "checkpoint/commit.h"
#include "checkpoint/save_list.h"

/* Saving and restoring by ops of the graph itself, which a SaverDef of TensorFlow's Saver names. */

typedef struct hs__graph_saver {
    const hs_env *env;
    Hs__Pb__SaverDef *def; /* NULL: the options have none */
    bool saves, restores;  /* the saver uses those ops */
} hs__graph_saver;

/* Copies saver_def, graph_saves and graph_restores of the options. INVALID_ARGUMENT: saver_def is not a SaverDef, lacks an
 * op that is used, or is of TensorFlow's checkpoint format V1. Call hs__graph_saver_free in any case. */
hs_code hs__graph_saver_init(hs__graph_saver *graph, const hs_env *env, const hs_saver_options *options, hs_error *err);
void hs__graph_saver_free(hs__graph_saver *graph);
/* Appends the SaverDef, with the retention of `kept`. */
void hs__graph_saver_pack(const hs__graph_saver *graph, const Hs__Pb__SaverDef *kept, hs__buffer *out);
/* Runs the restore op for a checkpoint that was verified. */
hs_code hs__graph_restore(const hs__graph_saver *graph, hs_raw_session *session, const char *prefix, hs_error *err);

/* The tensors with NaN or infinity that a save has found. */
typedef struct hs__nonfinite_report {
    size_t n;
    char *name;         /* of the first */
    hs_nonfinite found; /* in the first */
} hs__nonfinite_report;

/* Lets the save op write the variables, and writes the states of the list: temporary files, synced and verified, with one
 * index. Names the files of `files`. report->name is for hs__free. */
hs_code hs__graph_save(const hs__graph_saver *graph, const hs__save_list *list, hs__new_checkpoint *files,
                       hs__nonfinite_report *report, hs_error *err);

#endif
