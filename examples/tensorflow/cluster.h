/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_GRAPH_CLUSTER_H
#define TRAIN_GRAPH_CLUSTER_H

#include "options.h"

#include <hooksess/tensorflow.h>

/* The role of this process: alone, a client of a running server (--target), or a task of a cluster, with a server in this
 * process (--cluster). */
struct role {
    hs_tensorflow_server *server; /* of this process; NULL without --cluster */
    bool is_worker;               /* another process initializes and saves */
    bool only_serves;             /* parameter server: role_start returns when it has ended, and nothing is trained */
};

/* Starts the server of this process, if the options ask for one. A parameter server blocks until its server ends.
 * The caller zeroes `role` first, and calls role_end afterwards, also on failure. */
hs_code role_start(struct role *role, const struct options *options, hs_error *err);
void role_end(struct role *role);

#endif
