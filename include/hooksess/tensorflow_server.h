/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TENSORFLOW_SERVER_H
#define HOOKSESS_TENSORFLOW_SERVER_H

#include <hooksess/env.h>
#include <hooksess/tensor.h>

/* clang-format off */
/* TensorFlow's servers: the processes of a cluster, each a task of a job. Parameter servers hold the variables, chief and
 * workers run the steps. All are given the same cluster. A parameter server is this much of a program:
 *
 *     hs_tensorflow_server *server = hs_tensorflow_server_start(
 *         HS_TENSORFLOW_SERVER_OPTIONS(.cluster = "ps=host0:2222;worker=host1:2222,host2:2222", .job = "ps"), &err);
 *     hs_code code = hs_tensorflow_server_join(server, &err);
 *     hs_tensorflow_server_free(server);
 *
 * A chief and a worker start theirs and give it to hs_tensorflow_options.server: sessions of that graph run on it. The graph
 * says by its devices where its nodes stand: exported below tf.train.replica_device_setter, variables are placed on
 * "/job:ps/task:N" and all else on "/job:worker", which means the process's own task, so that chief and workers train the
 * same file; the chief is task 0 of the workers. The chief initializes or restores; a worker
 * (hs_training_options.is_worker) waits until it has.
 *
 * A task that dies shows in the runs of those that need it as HS_UNAVAILABLE, and as HS_ABORTED once it is there again, with
 * nothing of what it held: both are what a session recovers from (hs_recovery). The chief restores the newest checkpoint,
 * the workers wait for it. While a task is away no session is opened on the cluster: that is HS_UNAVAILABLE, at once, or
 * after 5 seconds if the task takes connections and says nothing, where TensorFlow waits without end; hs_recovery says how
 * often it is tried. Of a cluster that answers, opening waits for a minute (hs_tensorflow_options.timeout_secs, if given),
 * and closing for 10 seconds. What does not come to its end is left to a thread, with a warning: that one uses the env until
 * the cluster answers.
 *
 * What TensorFlow cannot do, in the version 2.21 that this was tried with: a server cannot be stopped, it serves, and keeps
 * its port, until the process ends. Where a task falls silent without closing its connections, as on a machine that loses
 * its power, or in a process that is stopped, runs that need it wait until the system gives the connections up, which for a
 * stopped process it never does, and nothing closes the session meanwhile: a request to stop is seen between runs. So set
 * hs_tensorflow_options.timeout_secs, to several times what a step takes: the run ends then, and if the task still says
 * nothing after 5 more seconds it is HS_UNAVAILABLE, from which a session recovers, and which what follows, closing too,
 * does not run into. Only the first run of each set of fetches, feeds and ops has no such time: TensorFlow brings them to
 * the tasks before it looks at the clock. Peers are not authenticated and nothing is
 * encrypted: it is for a network of one's own.
 *
 * Threads: one at a time per object. hs_tensorflow_server_stop: any thread and any signal handler. */
/* clang-format on */

HS_BEGIN_DECLS

typedef struct hs_tensorflow_server hs_tensorflow_server;

typedef struct hs_tensorflow_server_options {
    size_t size;
    const hs_env *env; /* NULL: the system's. Copied */
    /* Jobs, separated by ';', each with the addresses of its tasks 0, 1, ..., separated by ',': a name or a number, an IPv6
     * one in brackets, and a port. Port 0 is one that the system chooses: for the server's own task, which then nobody else
     * can know. */
    const char *cluster;
    hs_bytes server_def; /* instead of cluster, job and task: a serialized ServerDef */
    const char *job;     /* NULL: the only one of the cluster */
    int64_t task;        /* which of the job's */
    hs_bytes config;     /* a serialized ConfigProto, for what the server itself decides: threads, memory */
    const char *library; /* as in hs_tensorflow_options */
    bool show_log;       /* as in hs_tensorflow_options */
    unsigned char reserved[7];
} hs_tensorflow_server_options;
#define HS_TENSORFLOW_SERVER_OPTIONS(...) HS_OPTIONS(hs_tensorflow_server_options, __VA_ARGS__)

/* Starts serving, in threads of TensorFlow's. NULL on failure. HS_INVALID_ARGUMENT: options that are missing or wrong, with
 * the part of the cluster that is; HS_NOT_FOUND, HS_FAILED_PRECONDITION: the library, or a function of it, is not there;
 * HS_UNKNOWN is what TensorFlow says where the port is taken. TensorFlow: tf.train.Server. */
HS_API hs_tensorflow_server *hs_tensorflow_server_start(const hs_tensorflow_server_options *options, hs_error *err);
/* "grpc://host:port", for hs_tensorflow_options.target and hs_training_options.target of other processes. The server's.
 * NULL of NULL. */
HS_API const char *hs_tensorflow_server_target(const hs_tensorflow_server *server);
/* Waits until hs_tensorflow_server_stop is called, looking 20 times a second. NULL, a server that did not start: the error
 * that `err` has, or HS_FAILED_PRECONDITION. A signal for which the program has no handler ends the process, as anywhere: a
 * parameter server has nothing to lose that a checkpoint does not hold. TensorFlow: Server.join, which never returns. */
HS_API hs_code hs_tensorflow_server_join(hs_tensorflow_server *server, hs_error *err);
/* Ends the waiting, now or when it begins; the server goes on serving. From any thread, and from signal handlers. */
HS_API void hs_tensorflow_server_stop(hs_tensorflow_server *server);
/* Frees what is known of the server. It serves as long as the process lives, and graphs that were opened with it stay as
 * they are. NULL is fine. */
HS_API void hs_tensorflow_server_free(hs_tensorflow_server *server);

HS_END_DECLS

#endif
