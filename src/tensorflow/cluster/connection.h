/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_CLUSTER_CONNECTION_H
#define HS_TENSORFLOW_CLUSTER_CONNECTION_H

#include "tensorflow/tf_session.h"

/* How a session is connected, and how that ends. */

typedef struct {
    const char *target;
    hs__buffer config;    /* a serialized ConfigProto */
    hs__tf_cluster peers; /* those that must answer; none: it is in this process */
} hs__tf_connection;

/* connection.c */
void hs__tf_connection_init(hs__tf_connection *connection, const hs__tf_backend *backend);
void hs__tf_connection_free(hs__tf_connection *connection);
/* Where sessions of this target run, and with what configuration. */
hs_code hs__tf_connection_plan(hs__tf_connection *connection, const hs__tf_backend *backend, const char *target,
                               hs_bytes config, hs_error *err);

#endif
