/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GRAPH_CLUSTER_H
#define TRAIN_GRAPH_CLUSTER_H

#include "options.h"

#include <hooksess/tensorflow.h>

/* Where this process stands: alone, before a server of somebody's, or as a task of a cluster with a server of its own. */
struct place {
    hs_tensorflow_server *server; /* NULL: none of its own */
    bool is_worker;               /* somebody else initializes, and saves */
    bool only_serves;             /* a parameter server: it trains nothing, and is over */
};

/* All zero at first; place_leave is to be called also if it fails. A parameter server stays in it. */
hs_code place_enter(struct place *place, const struct options *options, hs_error *err);
void place_leave(struct place *place);

#endif
