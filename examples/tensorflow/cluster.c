/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <string.h>

#define PARAMETER_SERVERS "ps"
#define CHIEF             "chief"

/* Returns true if `cluster`, for example "ps=a:1;worker=b:2,c:3", lists `job`. */
static bool has_job(const char *cluster, const char *job)
{
    size_t length = strlen(job);
    for (const char *at = cluster; at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL)
        if (strncmp(at, job, length) == 0 && at[length] == '=')
            return true;
    return false;
}

static bool is_worker(const struct options *options)
{
    if (!*options->job || strcmp(options->job, CHIEF) == 0)
        return false;
    return options->task || !options->cluster || has_job(options->cluster, CHIEF);
}

hs_code role_start(struct role *role, const struct options *options, hs_error *err)
{
    role->is_worker = is_worker(options);
    role->only_serves = strcmp(options->job, PARAMETER_SERVERS) == 0;
    if (!options->cluster)
        return HS_OK;
    role->server = hs_tensorflow_server_start(
        HS_TENSORFLOW_SERVER_OPTIONS(.cluster = options->cluster, .job = options->job, .task = options->task), err);
    if (!role->server)
        return err->code;
    return role->only_serves ? hs_tensorflow_server_join(role->server, err) : HS_OK;
}

void role_end(struct role *role)
{
    hs_tensorflow_server_free(role->server);
    role->server = NULL;
}
