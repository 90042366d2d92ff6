/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GRAPH_OPTIONS_H
#define TRAIN_GRAPH_OPTIONS_H

#include "feeder.h"

/* Options of the command line. */

enum { OPTIONS_OK = -1, MAX_JOB = 32 };

struct options {
    const char *meta_graph, *train_op, *loss; /* loss NULL: no loss is logged */
    const char *model_dir, *data, *losses;    /* losses NULL: no file */
    struct feed_spec feeds[MAX_FEEDS];
    size_t n_feeds;
    int64_t batch_size, seed, threads;                       /* threads 0: TensorFlow decides */
    int64_t max_steps, save_steps, log_steps, summary_steps; /* max_steps 0: no limit; others 0: never */
    const char *target;                                      /* NULL: not given */
    const char *cluster;                                     /* NULL: this process starts no server */
    char job[MAX_JOB];                                       /* from --task; "": not given */
    int64_t task;                                            /* the number from --task */
};

/* Parses argv. Returns OPTIONS_OK, or the exit status for main: after --help, or after an invalid option, which it reports
 * on stderr. The strings in `options` point into argv. */
int options_parse(struct options *options, int argc, char **argv);

#endif
