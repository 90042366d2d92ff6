/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TENSORFLOW_SERVER_H
#define HOOKSESS_TENSORFLOW_SERVER_H

#include <hooksess/env.h>
#include <hooksess/tensor.h>

/* Servers of a TensorFlow cluster. Each process is a task of a job: parameter servers hold the variables, workers run
 * steps. All get the same cluster. A parameter server is this program:
 *
 *     hs_error err = {0};
 *     hs_tensorflow_server *server = hs_tensorflow_server_start(
 *         HS_TENSORFLOW_SERVER_OPTIONS(.cluster = "ps=host0:2222;worker=host1:2222,host2:2222", .job = "ps"), &err);
 *     hs_code code = hs_tensorflow_server_join(server, &err);
 *     hs_tensorflow_server_free(server);
 *
 * Chief and workers put their server into hs_tensorflow_options.server. All train the same file, exported under
 * tf.train.replica_device_setter: "/job:worker" means the process's own task. Task 0 of the workers is the chief: it
 * initializes or restores, and the others (hs_training_options.is_worker) wait for it.
 *
 *   event                                           result
 *   a needed task dies                              runs fail with HS_UNAVAILABLE
 *   the task runs again, without its variables      runs fail with HS_ABORTED
 *   a session is opened while a task does not run   HS_UNAVAILABLE, after up to 5 s
 *   the cluster opens or closes a session slowly    opening fails with HS_UNAVAILABLE after 60 s, or
 *                                                   hs_tensorflow_options.timeout_secs; closing ends after 10 s
 *
 * Sessions recover from both codes (hs_recovery). In the last case a thread continues, with a warning in the log, and uses
 * the env until the cluster answers.
 *
 * Limits of TensorFlow 2.21:
 * - A server cannot be stopped. It keeps its port until the process ends.
 * - If a task falls silent with open connections (power loss, a stopped process), runs that need it wait until
 *   the system closes them, even if a stop is requested. With hs_tensorflow_options.timeout_secs, a run fails with
 *   HS_UNAVAILABLE if the task is silent for 5 s more; not the first run of each set of fetches, feeds and ops.
 * - Peers are not authenticated, and nothing is encrypted: use a private network.
 *
 * Threads: one thread at a time per object. Any thread and any signal handler may call hs_tensorflow_server_stop. */

HS_BEGIN_DECLS

typedef struct hs_tensorflow_server hs_tensorflow_server;

typedef struct hs_tensorflow_server_options {
    size_t size;
    const hs_env *env;
    /* Addresses of the tasks 0, 1, ... of each job: "ps=host0:2222;worker=host1:2222,[::1]:2222". Only the server's own
     * port may be 0: see hs_tensorflow_server_target(). Required without server_def */
    const char *cluster;
    hs_bytes server_def; /* a serialized ServerDef, instead of cluster, job, task and config */
    const char *job;     /* NULL: the only job of the cluster */
    int64_t task;        /* index of the task in the job */
    hs_bytes config;     /* a serialized ConfigProto for threads and memory */
    const char *library; /* as in hs_tensorflow_options */
    bool show_log;       /* as in hs_tensorflow_options */
    unsigned char reserved[7];
} hs_tensorflow_server_options;
#define HS_TENSORFLOW_SERVER_OPTIONS(...) HS_OPTIONS(hs_tensorflow_server_options, __VA_ARGS__)

/* Starts a server. HS_INVALID_ARGUMENT: wrong options. HS_NOT_FOUND, HS_FAILED_PRECONDITION: the library, or a function of
 * it, does not exist. HS_UNKNOWN: probably the port is in use. TensorFlow: tf.train.Server. */
HS_API hs_tensorflow_server *hs_tensorflow_server_start(const hs_tensorflow_server_options *options, hs_error *err);
/* Returns "grpc://host:port", the `target` in options of other processes, with the port that the system chose. */
HS_API const char *hs_tensorflow_server_target(const hs_tensorflow_server *server);
/* Blocks until hs_tensorflow_server_stop(), at most 0.05 s longer. `server` NULL: returns the error in `err`, or
 * HS_FAILED_PRECONDITION. TensorFlow: Server.join, which never returns. */
HS_API hs_code hs_tensorflow_server_join(hs_tensorflow_server *server, hs_error *err);
/* Ends the current or the next hs_tensorflow_server_join(). The server continues. */
HS_API void hs_tensorflow_server_stop(hs_tensorflow_server *server);
/* Frees the handle. The server continues, and graphs that use it stay valid. */
HS_API void hs_tensorflow_server_free(hs_tensorflow_server *server);

HS_END_DECLS

#endif
