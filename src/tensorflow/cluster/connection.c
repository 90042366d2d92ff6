/* SPDX-License-Identifier: Apache-2.0 */
/* Determines where a session runs (in this process, on its server, or in another process), and which tasks must answer. */
#include "tensorflow/cluster/connection.h"

#include "tensorflow/cluster/config.h"

#include "base/proto.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_FILTERS = 4, CONFIG_TIMEOUT = 11 };

void hs__tf_connection_init(hs__tf_connection *connection, const hs__tf_backend *backend)
{
    hs__buffer_init(&connection->config, &backend->env);
    hs__tf_cluster_init(&connection->peers, &backend->env);
}

void hs__tf_connection_free(hs__tf_connection *connection)
{
    hs__buffer_free(&connection->config);
    hs__tf_cluster_free(&connection->peers);
}

/* Device filters. */

static hs_code add_filter(hs__buffer *config, const hs_env *env, const char *job, int32_t index, hs_error *err)
{
    char *filter = index < 0 ? hs__format(env, "/job:%s", job) : hs__format(env, "/job:%s/task:%d", job, (int)index);
    if (!filter)
        return hs__no_memory(err, strlen(job), "a device filter");
    hs__proto_put_bytes(config, CONFIG_FILTERS, filter, strlen(filter));
    hs__free(env, filter);
    return HS_OK;
}

/* Adds the filters of TensorFlow's RunConfig: the task uses only the parameter servers and itself. */
static hs_code add_default_filters(hs__buffer *config, const hs__tf_backend *backend, hs_error *err)
{
    static const char parameters[] = "ps";
    const hs__tf_task *own = &backend->own_task;
    if (strcmp(own->job, parameters) == 0 || !hs__tf_cluster_has(&backend->cluster, parameters))
        return HS_OK;
    hs_code code = add_filter(config, &backend->env, parameters, -1, err);
    return code ? code : add_filter(config, &backend->env, own->job, own->index, err);
}

/* Filters are, for example, "/job:ps", "/job:worker/task:1" or "/job:worker/replica:0/task:1/device:CPU:0". */
static bool filter_matches(const char *filter, const hs__tf_task *task)
{
    static const char job[] = "/job:", number[] = "/task:";
    size_t length = strlen(task->job);
    const char *at = strstr(filter, job), *of = strstr(filter, number);
    at = at ? at + sizeof job - 1 : NULL;
    if (at && (strncmp(at, task->job, length) != 0 || (at[length] != '/' && at[length] != '\0')))
        return false;
    return !of || strtol(of + sizeof number - 1, NULL, 10) == task->index;
}

static bool is_needed(const Hs__Pb__ConfigProto *config, const hs__tf_task *task)
{
    bool needed = config->n_device_filters == 0;
    for (size_t i = 0; i < config->n_device_filters; i++)
        needed |= filter_matches(config->device_filters[i], task);
    return needed;
}

/* The configuration. */

static hs_code unpack(const hs__buffer *config, Hs__Pb__ConfigProto **unpacked, hs_error *err)
{
    return hs__tf_config_read((hs_bytes){config->data, config->size}, config->env, unpacked, err);
}

/* Checks the configuration, and adds filters and a timeout if it does not set them. */
static hs_code add_defaults(hs__buffer *config, const hs__tf_backend *backend, bool is_own, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(config->env);
    Hs__Pb__ConfigProto *given;
    hs_code code = unpack(config, &given, err);
    if (code)
        return code;
    if (is_own && !given->n_device_filters)
        code = add_default_filters(config, backend, err);
    if (backend->timeout_ms && !given->operation_timeout_in_ms) {
        hs__buffer_varint(config, (uint64_t)CONFIG_TIMEOUT << 3);
        hs__buffer_varint(config, (uint64_t)backend->timeout_ms);
    }
    protobuf_c_message_free_unpacked(&given->base, &allocator);
    return code ? code : hs__buffer_check(config, "a configuration", err);
}

/* Peers. */

static hs_code add_peers(hs__tf_connection *connection, const hs__tf_backend *backend, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    Hs__Pb__ConfigProto *config;
    hs_code code = unpack(&connection->config, &config, err);
    if (code)
        return code;
    for (size_t i = 0; !code && i < backend->cluster.n_tasks; i++) {
        const hs__tf_task *task = &backend->cluster.tasks[i];
        bool is_own = task->index == backend->own_task.index && strcmp(task->job, backend->own_task.job) == 0;
        if (!is_own && is_needed(config, task))
            code = hs__tf_cluster_add(&connection->peers, (hs_string){task->job, strlen(task->job)}, task->index,
                                      (hs_string){task->address, strlen(task->address)}, err);
    }
    protobuf_c_message_free_unpacked(&config->base, &allocator);
    return code;
}

/* Adds the target as the only peer. The other tasks of its cluster are unknown. */
static hs_code add_target(hs__tf_connection *connection, const char *address, hs_error *err)
{
    hs_string text = {address, strlen(address)};
    if (!hs__tf_port_of(text, err)) {
        hs_error_prefix(err, "target '%s'", connection->target);
        return HS_INVALID_ARGUMENT;
    }
    return hs__tf_cluster_add(&connection->peers, (hs_string){"", 0}, 0, text, err);
}

hs_code hs__tf_connection_plan(hs__tf_connection *connection, const hs__tf_backend *backend, const char *target,
                               hs_bytes config, hs_error *err)
{
    static const char scheme[] = "grpc://";
    const char *chosen = target && *target ? target : backend->target;
    bool is_own = backend->server_target && strcmp(chosen, backend->server_target) == 0;
    bool is_remote = strncmp(chosen, scheme, sizeof scheme - 1) == 0;
    connection->target = strcmp(chosen, "local") == 0 ? "" : chosen; /* TensorFlow's older name of "" */
    if (!config.size)
        config = (hs_bytes){backend->config.data, backend->config.size};
    hs__buffer_append(&connection->config, config.data, config.size);
    hs_code code = hs__buffer_check(&connection->config, "a configuration", err);
    if (!code)
        code = add_defaults(&connection->config, backend, is_own, err);
    if (!code && is_own)
        code = add_peers(connection, backend, err);
    else if (!code && is_remote)
        code = add_target(connection, chosen + sizeof scheme - 1, err);
    return code;
}
