/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a cluster to a ServerDef, the argument of TensorFlow's servers, and back. */
#include "tensorflow/cluster/cluster.h"
#include "tensorflow/cluster/config.h"

#include "base/proto.h"

#include <string.h>

/* Fields of ServerDef, ClusterDef and JobDef. */
enum { SERVER_CLUSTER = 1, SERVER_CONFIG = 4, CLUSTER_JOB = 1, JOB_NAME = 1, JOB_TASKS = 2 };

/* Appends a JobDef with the tasks of the job of `first`, up to the next job. Returns their number. */
static size_t put_job(const hs__tf_task *first, size_t n, hs__buffer *cluster)
{
    hs__buffer job;
    size_t used = 0;
    hs__buffer_init(&job, cluster->env);
    hs__proto_put_bytes(&job, JOB_NAME, first->job, strlen(first->job));
    for (; used < n && strcmp(first[used].job, first->job) == 0; used++) {
        Hs__Pb__JobDef__TasksEntry task = HS__PB__JOB_DEF__TASKS_ENTRY__INIT;
        task.key = first[used].index;
        task.value = first[used].address;
        hs__proto_put_message(&job, JOB_TASKS, &task.base);
    }
    cluster->failed |= job.failed;
    hs__proto_put_bytes(cluster, CLUSTER_JOB, job.data, job.size);
    hs__buffer_free(&job);
    return used;
}

hs_code hs__tf_server_def(const hs__tf_cluster *cluster, const hs__tf_task *own, hs_bytes config, hs__buffer *out,
                          hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(out->env);
    Hs__Pb__ConfigProto *parsed; /* only to check it; empty bytes are valid */
    hs_code code = hs__tf_config_read(config, out->env, &parsed, err);
    if (code)
        return code;
    protobuf_c_message_free_unpacked(&parsed->base, &allocator);
    hs__buffer jobs;
    hs__buffer_init(&jobs, out->env);
    for (size_t i = 0; i < cluster->n_tasks;)
        i += put_job(&cluster->tasks[i], cluster->n_tasks - i, &jobs);
    Hs__Pb__ServerDef def = HS__PB__SERVER_DEF__INIT;
    def.job_name = own->job;
    def.task_index = own->index;
    def.protocol = hs__proto_string("grpc");
    hs__proto_put_bytes(out, SERVER_CLUSTER, jobs.data, jobs.size);
    hs__proto_pack(&def.base, out);
    if (config.size)
        hs__proto_put_bytes(out, SERVER_CONFIG, config.data, config.size);
    out->failed |= jobs.failed;
    hs__buffer_free(&jobs);
    return hs__buffer_check(out, "a server's definition", err);
}

static hs_code add_jobs(const Hs__Pb__ServerDef *def, hs__tf_cluster *cluster, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && def->cluster && i < def->cluster->n_job; i++) {
        const Hs__Pb__JobDef *job = def->cluster->job[i];
        hs_string name = {job->name, strlen(job->name)};
        if (!hs__tf_is_job_name(name))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "server_def: '%s' is not a valid name of a job", job->name);
        for (size_t k = 0; !code && k < job->n_tasks; k++) {
            hs_string address = {job->tasks[k]->value, strlen(job->tasks[k]->value)};
            if (job->tasks[k]->key < 0)
                return hs_error_set(err, HS_INVALID_ARGUMENT, "server_def: job '%s' has task %d", job->name,
                                    (int)job->tasks[k]->key);
            if (!hs__tf_port_of(address, err)) {
                hs_error_prefix(err, "server_def: job '%s', task %d", job->name, (int)job->tasks[k]->key);
                return HS_INVALID_ARGUMENT;
            }
            code = hs__tf_cluster_add(cluster, name, job->tasks[k]->key, address, err);
        }
    }
    return code;
}

hs_code hs__tf_server_def_read(hs_bytes bytes, hs__tf_cluster *cluster, const hs__tf_task **own, hs_error *err)
{
    bool no_memory;
    ProtobufCAllocator allocator = hs__proto_allocator(cluster->env);
    Hs__Pb__ServerDef *def = (Hs__Pb__ServerDef *)hs__proto_unpack(&hs__pb__server_def__descriptor, cluster->env,
                                                                   bytes.data, bytes.size, &no_memory);
    if (!def)
        return no_memory ? hs__no_memory(err, bytes.size, "a server's definition")
                         : hs_error_set(err, HS_INVALID_ARGUMENT, "server_def is not a serialized ServerDef");
    hs_code code = hs__tf_config_check(def->default_session_config, err);
    if (!code)
        code = add_jobs(def, cluster, err);
    if (!code && !(*own = hs__tf_cluster_task(cluster, def->job_name, def->task_index)))
        code = hs_error_set(err, HS_INVALID_ARGUMENT,
                            "server_def is for task %d of job '%s', but its cluster has no such task", (int)def->task_index,
                            def->job_name);
    protobuf_c_message_free_unpacked(&def->base, &allocator);
    return code;
}
