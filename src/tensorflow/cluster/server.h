/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_CLUSTER_SERVER_H
#define HS_TENSORFLOW_CLUSTER_SERVER_H

#include "tensorflow/cluster/cluster.h"
#include "tensorflow/tf_backend.h"

#include <hooksess/tensorflow_server.h>

struct hs_tensorflow_server {
    hs_env env;
    hs__tf_api tf;
    TF_Server *server;
    char *target;
    hs__tf_cluster cluster;
    const hs__tf_task *own;
    atomic_bool stopped;
};

#endif
