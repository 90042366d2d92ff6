/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_CLUSTER_CLUSTER_H
#define HS_TENSORFLOW_CLUSTER_CLUSTER_H

#include <hooksess/tensor.h>

#include "base/buffer.h"

/* The tasks of a cluster. */

typedef struct {
    char *job; /* "": the target of a session whose cluster is unknown */
    int32_t index;
    char *address; /* "host:port" */
} hs__tf_task;

typedef struct {
    const hs_env *env;
    hs__tf_task *tasks; /* in the order of the text */
    size_t n_tasks, capacity;
} hs__tf_cluster;

/* cluster.c */
void hs__tf_cluster_init(hs__tf_cluster *cluster, const hs_env *env);
void hs__tf_cluster_free(hs__tf_cluster *cluster);
hs_code hs__tf_cluster_add(hs__tf_cluster *cluster, hs_string job, int32_t index, hs_string address, hs_error *err);
/* Adds the tasks of "ps=host:port;worker=host:port,host:port". */
hs_code hs__tf_cluster_read(hs__tf_cluster *cluster, const char *text, hs_error *err);
/* Returns NULL if the cluster has no such task. */
const hs__tf_task *hs__tf_cluster_task(const hs__tf_cluster *cluster, const char *job, int64_t index);
bool hs__tf_cluster_has(const hs__tf_cluster *cluster, const char *job);
/* Returns true for a job name that TensorFlow accepts. For any other, TensorFlow ends the process. */
bool hs__tf_is_job_name(hs_string name);
/* Returns the beginning of the port in "host:port", or NULL with an error. */
const char *hs__tf_port_of(hs_string address, hs_error *err);

/* server_def.c: converts a cluster, and which of its tasks the server is, to a serialized ServerDef and back. */
hs_code hs__tf_server_def(const hs__tf_cluster *cluster, const hs__tf_task *own, hs_bytes config, hs__buffer *out,
                          hs_error *err);
hs_code hs__tf_server_def_read(hs_bytes def, hs__tf_cluster *cluster, const hs__tf_task **own, hs_error *err);

/* probe_tasks.c: connects to each task. UNAVAILABLE, with the name of the first task that refuses the connection or sends
 * nothing. Takes a few seconds for all tasks together, plus the time to look up their hosts. */
hs_code hs__tf_probe_tasks(const hs__tf_cluster *cluster, hs_error *err);

#endif
