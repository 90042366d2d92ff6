/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GRAPH_OPTIONS_H
#define TRAIN_GRAPH_OPTIONS_H

#include "feeder.h"

/* The command line. */

enum { GO_ON = -1, MOST_JOB = 32 };

struct options {
    const char *meta_graph, *train_op, *loss; /* loss NULL: there is none */
    const char *model_dir, *data, *losses;    /* losses NULL: none */
    struct feed_wish feeds[MOST_FEEDS];
    size_t n_feeds;
    int64_t batch_size, seed, threads;                       /* threads 0: TensorFlow decides */
    int64_t max_steps, save_steps, log_steps, summary_steps; /* 0: without an end; never */
    const char *target;                                      /* NULL: not given */
    const char *cluster;                                     /* NULL: this process alone */
    char job[MOST_JOB];                                      /* of --task; "": not given */
    int64_t task;                                            /* its number */
};

/* Returns GO_ON, or what main is to return: after --help, or a mistake, which it explains on stderr. Strings are argv's. */
int options_parse(struct options *options, int argc, char **argv);

#endif
