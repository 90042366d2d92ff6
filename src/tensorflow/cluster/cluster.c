/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster and its text form. The text is checked here, as TensorFlow's errors do not name the wrong part, or only say
 * that a task does not answer. */
#include "tensorflow/cluster/cluster.h"

#include <ctype.h>
#include <string.h>

void hs__tf_cluster_init(hs__tf_cluster *cluster, const hs_env *env)
{
    *cluster = (hs__tf_cluster){.env = env};
}

void hs__tf_cluster_free(hs__tf_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n_tasks; i++) {
        hs__free(cluster->env, cluster->tasks[i].job);
        hs__free(cluster->env, cluster->tasks[i].address);
    }
    hs__free(cluster->env, cluster->tasks);
    hs__tf_cluster_init(cluster, cluster->env);
}

hs_code hs__tf_cluster_add(hs__tf_cluster *cluster, hs_string job, int32_t index, hs_string address, hs_error *err)
{
    hs_code code =
        hs__reserve(cluster->env, &cluster->tasks, &cluster->capacity, cluster->n_tasks + 1, sizeof *cluster->tasks, err);
    if (code)
        return code;
    hs__tf_task task = {hs__strndup(cluster->env, job.data, job.bytes), index,
                        hs__strndup(cluster->env, address.data, address.bytes)};
    if (task.job && task.address) {
        cluster->tasks[cluster->n_tasks++] = task;
        return HS_OK;
    }
    hs__free(cluster->env, task.job);
    hs__free(cluster->env, task.address);
    return hs__no_memory(err, job.bytes + address.bytes, "a cluster's task");
}

const hs__tf_task *hs__tf_cluster_task(const hs__tf_cluster *cluster, const char *job, int64_t index)
{
    for (size_t i = 0; i < cluster->n_tasks; i++)
        if (cluster->tasks[i].index == index && strcmp(cluster->tasks[i].job, job) == 0)
            return &cluster->tasks[i];
    return NULL;
}

bool hs__tf_cluster_has(const hs__tf_cluster *cluster, const char *job)
{
    for (size_t i = 0; i < cluster->n_tasks; i++)
        if (strcmp(cluster->tasks[i].job, job) == 0)
            return true;
    return false;
}

/* "host:port", "[::1]:port". */
const char *hs__tf_port_of(hs_string address, hs_error *err)
{
    const char *end = address.data + address.bytes, *port = end;
    int64_t number = 0;
    while (port > address.data && isdigit((unsigned char)port[-1]))
        port--;
    for (const char *digit = port; digit < end && number <= UINT16_MAX; digit++)
        number = number * 10 + (*digit - '0');
    size_t host = port - address.data < 1 ? 0 : (size_t)(port - address.data) - 1;
    bool bracketed = host > 2 && address.data[0] == '[' && address.data[host - 1] == ']';
    bool good = port < end && host > 0 && port[-1] == ':' && number <= UINT16_MAX &&
                (bracketed || !memchr(address.data, ':', host));
    for (size_t i = 0; i < host; i++)
        good &= isgraph((unsigned char)address.data[i]) && !strchr("/=,;@", address.data[i]);
    if (good)
        return port;
    hs_error_set(err, HS_INVALID_ARGUMENT, "'%.*s' is not an address; give \"host:port\" or \"[IPv6]:port\"",
                 (int)address.bytes, address.data);
    return NULL;
}

bool hs__tf_is_job_name(hs_string name)
{
    bool good = name.bytes > 0 && isalpha((unsigned char)name.data[0]);
    for (size_t i = 0; i < name.bytes; i++)
        good &= isalnum((unsigned char)name.data[i]) || name.data[i] == '_';
    return good;
}

/* Returns the text up to the separator or the end, and moves *at past the separator. */
static hs_string next_part(const char **at, char separator)
{
    const char *begin = *at;
    size_t length = 0;
    while (begin[length] && begin[length] != separator)
        length++;
    *at = begin + length + (begin[length] != '\0');
    return (hs_string){begin, length};
}

static hs_code add_address(hs__tf_cluster *cluster, hs_string job, int32_t index, hs_string address, hs_error *err)
{
    if (!hs__tf_port_of(address, err)) {
        hs_error_prefix(err, "cluster: job '%.*s', task %d", (int)job.bytes, job.data, (int)index);
        return HS_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < cluster->n_tasks; i++) {
        const hs__tf_task *other = &cluster->tasks[i];
        if (strlen(other->address) == address.bytes && memcmp(other->address, address.data, address.bytes) == 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "cluster: address '%s' is given twice: for task %d of job '%s', and for job '%.*s'",
                                other->address, (int)other->index, other->job, (int)job.bytes, job.data);
    }
    return hs__tf_cluster_add(cluster, job, index, address, err);
}

/* "name=host:port,host:port" */
static hs_code read_job(hs__tf_cluster *cluster, hs_string text, hs_error *err)
{
    const char *equals = memchr(text.data, '=', text.bytes), *end = text.data + text.bytes;
    hs_string name = {text.data, equals ? (size_t)(equals - text.data) : text.bytes};
    if (!equals || !hs__tf_is_job_name(name))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "cluster: '%.*s' is not a job; give \"name=host:port,host:port\" with a name of letters, digits and '_'",
            (int)text.bytes, text.data);
    for (size_t i = 0; i < cluster->n_tasks; i++)
        if (strlen(cluster->tasks[i].job) == name.bytes && memcmp(cluster->tasks[i].job, name.data, name.bytes) == 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "cluster: job '%s' is given twice", cluster->tasks[i].job);
    hs_code code = HS_OK;
    int32_t index = 0;
    for (const char *at = equals + 1, *comma; !code && at <= end; at = comma + 1) {
        comma = memchr(at, ',', (size_t)(end - at));
        comma = comma ? comma : end;
        code = add_address(cluster, name, index++, (hs_string){at, (size_t)(comma - at)}, err);
    }
    return code;
}

hs_code hs__tf_cluster_read(hs__tf_cluster *cluster, const char *text, hs_error *err)
{
    hs_code code = HS_OK;
    if (!text || !*text)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "cluster is missing; give, for example, \"ps=host:port;worker=host:port,host:port\"");
    while (!code && *text)
        code = read_job(cluster, next_part(&text, ';'), err);
    return code;
}
