/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_GRAPH_SAVER_H
#define HS_CHECKPOINT_GRAPH_SAVER_H

#include <hooksess/checkpoint.h>

#include "graph.pb-c.h"

#include "base/buffer.h"
#include "checkpoint/new_checkpoint.h"

/* A SaverDef: the ops of a graph that save and restore its variables, as TensorFlow's Saver has added them. */

typedef struct hs__graph_saver {
    const hs_env *env;
    Hs__Pb__SaverDef *def; /* NULL: the saver knows of none */
    bool saves, restores;  /* by those ops */
} hs__graph_saver;

/* Takes what the options say of it. INVALID_ARGUMENT: it is no SaverDef, one that lacks an op which is wanted, or of
 * TensorFlow's first format. To be freed in any case. */
hs_code hs__graph_saver_take(hs__graph_saver *graph, const hs_env *env, const hs_saver_options *options, hs_error *err);
/* Runs one of its ops over the files that begin with `prefix`. */
hs_code hs__graph_saver_run(const hs__graph_saver *graph, hs_raw_session *session, const char *name, const char *prefix,
                            hs_error *err);
void hs__graph_saver_free(hs__graph_saver *graph);
/* Appends the SaverDef, with another word on how many checkpoints are kept. */
void hs__graph_saver_pack(const hs__graph_saver *graph, const Hs__Pb__SaverDef *kept, hs__buffer *out);

/* What was not finite, as soon as it is known. */
typedef struct hs__poison {
    size_t n; /* tensors */
    char *name;
    hs_nonfinite found; /* in the first of them */
} hs__poison;

/* Lets the graph write the variables, and writes the state beside them: to the files that `files` gets names for, synced,
 * verified, and one index of all of them. poison->name is to be freed. */
hs_code hs__graph_save(const hs_saver *saver, hs_raw_session *session, hs__new_checkpoint *files, hs__poison *poison,
                       hs_error *err);
/* Removes what is left aside. */
void hs__graph_save_clear(const hs_env *env, const char *prefix);

/* Lets the graph read its variables from a checkpoint that was verified. */
hs_code hs__graph_restore(const hs__graph_saver *graph, hs_raw_session *session, const char *prefix, hs_error *err);

#endif
