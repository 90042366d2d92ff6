/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_CLUSTER_CONNECTION_H
#define HS_TENSORFLOW_CLUSTER_CONNECTION_H

#include "tensorflow/tf_session.h"

/* The arguments with which a session is opened. */

typedef struct {
    const char *target;
    hs__buffer config;    /* a serialized ConfigProto */
    hs__tf_cluster peers; /* tasks that must answer; empty: the session runs in this process */
} hs__tf_connection;

void hs__tf_connection_init(hs__tf_connection *connection, const hs__tf_backend *backend);
void hs__tf_connection_free(hs__tf_connection *connection);
/* Determines target, configuration and peers of a session. NULL or "" as target, and an empty config, are the backend's. */
hs_code hs__tf_connection_plan(hs__tf_connection *connection, const hs__tf_backend *backend, const char *target,
                               hs_bytes config, hs_error *err);

#endif
