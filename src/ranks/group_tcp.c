/* SPDX-License-Identifier: Apache-2.0 */
/* A group over TCP: its functions, which call the detector and the collective calls; its options; making one (new_group),
 * from options or from environment variables; and the calls with which another engine uses the detector. */
#include <hooksess/group_tcp.h>

#include "base/forks.h"
#include "base/text.h"
#include "ranks/group_tcp_collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs_group_tcp {
    hs_group group;
    unsigned generation; /* of the process that made it */
    hs_env env;
    hs_group_tcp_options options; /* after connecting, its texts are not used */
    hs__tcp_edges edges;
    hs__tcp_detector detector;
};

/* The functions of the group. */

static int32_t get_rank(void *self)
{
    return ((hs_group_tcp *)self)->options.rank;
}

static int32_t get_rank_count(void *self)
{
    return ((hs_group_tcp *)self)->options.rank_count;
}

static hs_code allreduce_or(void *self, uint64_t *words, size_t n, hs_error *err)
{
    return hs__tcp_allreduce_or(&((hs_group_tcp *)self)->detector, words, n, err);
}

static hs_code broadcast(void *self, void *data, size_t bytes, int32_t root, hs_error *err)
{
    return hs__tcp_broadcast(&((hs_group_tcp *)self)->detector, data, bytes, root, err);
}

static hs_code gather(void *self, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err)
{
    return hs__tcp_gather(&((hs_group_tcp *)self)->detector, mine, root, receive, user, err);
}

static void report_exit(void *self, const hs_error *reason)
{
    hs__detector_report_exit(&((hs_group_tcp *)self)->detector, reason);
}

static hs_code query_failed_rank(void *self, int32_t *rank, hs_error *err)
{
    return hs__detector_query(&((hs_group_tcp *)self)->detector, rank, err);
}

static void set_abandon(void *self, hs_abandon_fn abandon, void *user)
{
    hs__detector_set_abandon(&((hs_group_tcp *)self)->detector, abandon, user);
}

static void report_step(void *self, hs_step_place place, int64_t step, double limit_secs)
{
    hs__detector_report_step(&((hs_group_tcp *)self)->detector, place, step, limit_secs);
}

static const hs_group_ops ops =
    HS_INIT(hs_group_ops, .name = "tcp", .rank = get_rank, .rank_count = get_rank_count, .allreduce_or = allreduce_or,
            .broadcast = broadcast, .gather = gather, .report_exit = report_exit, .query_failed_rank = query_failed_rank,
            .set_abandon = set_abandon, .report_step = report_step);

/* Options. */

static hs_code check_secs(const char *name, double secs, bool never_allowed, hs_error *err)
{
    if ((secs >= 0 && secs <= 1e9) || (never_allowed && secs == HS_NEVER))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_group_tcp_options.%s is %g, but must be 0 to 1e9%s", name, secs,
                        never_allowed ? " or HS_NEVER" : "");
}

/* Checks the options that say how the ranks find rank 0. */
static hs_code check_rendezvous(const hs_group_tcp_options *options, hs_error *err)
{
    char host[HS__ADDRESS_MAX];
    int port;
    if (options->rendezvous_dir && options->exchange)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_group_tcp_options: rendezvous_dir and exchange are set; set one of them");
    if (!options->rendezvous_dir && !options->exchange && !options->address)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_group_tcp_options: set address, rendezvous_dir or exchange, so that the ranks find rank 0");
    if (options->job && options->exchange)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_group_tcp_options: job and exchange are set, but with exchange the ranks need no job");
    for (const char *at = options->job; at && *at; at++)
        if (*at < ' ' || *at > '~' || at - options->job >= HS__HELLO_TOKEN - 1)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "hs_group_tcp_options.job must be printable ASCII of at most %d bytes",
                                HS__HELLO_TOKEN - 1);
    if (!options->address || hs__tcp_split(options->address, host, &port, err))
        return options->address ? err->code : HS_OK;
    if (!port && !options->rendezvous_dir && !options->exchange)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_group_tcp_options.address is '%s', but with address alone the port must not be 0",
                            options->address);
    return HS_OK;
}

static hs_code check_options(const hs_group_tcp_options *options, hs_error *err)
{
    hs_code code;
    if (options->rank_count < 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_group_tcp_options.rank_count is %d, but must be at least 1",
                            (int)options->rank_count);
    if (options->rank < 0 || options->rank >= options->rank_count)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_group_tcp_options.rank is %d, but must be 0 to %d",
                            (int)options->rank, (int)options->rank_count - 1);
    if ((code = check_secs("connect_secs", options->connect_secs, false, err)) ||
        (code = check_secs("collective_secs", options->collective_secs, true, err)) ||
        (code = check_secs("detector_secs", options->detector_secs, false, err)) ||
        (code = check_secs("failure_grace_secs", options->failure_grace_secs, true, err)))
        return code;
    return options->rank_count > 1 ? check_rendezvous(options, err) : HS_OK;
}

static hs_group_tcp *new_group(const hs_group_tcp_options *options, hs_error *err)
{
    hs_env env;
    hs_group_tcp *group = NULL;
    hs_code code = check_options(options, err);
    if (!code)
        code = hs__env_copy(&env, options->env, err);
    if (!code && !(group = hs__alloc(&env, 1, sizeof *group)))
        code = hs__no_memory(err, sizeof *group, "a group");
    if (code) {
        hs__rendezvous_decline(options, err);
        return NULL;
    }
    group->env = env;
    group->generation = hs__fork_generation();
    group->options = *options;
    group->group = (hs_group){&ops, group};
    if (options->rank_count > 1) {
        hs__tcp_rendezvous rendezvous;
        code = hs__rendezvous_init(&rendezvous, &group->options, &group->env, err);
        if (!code)
            code = hs__tcp_connect_ranks(&rendezvous, &group->env, &group->edges, err);
        hs__rendezvous_release(&rendezvous, &group->env);
    }
    if (!code && (code = hs__detector_start(&group->detector, &group->options, &group->env, &group->edges, err)))
        hs__detector_stop(&group->detector);
    if (code) {
        hs__tcp_release_edges(&env, &group->edges);
        hs__free(&env, group);
        return NULL;
    }
    hs_error_clear(err); /* of attempts to connect that failed */
    return group;
}

hs_group_tcp *hs_group_tcp_new(const hs_group_tcp_options *given, hs_error *err)
{
    hs_group_tcp_options options = {0};
    hs_error error = {0};
    hs_group_tcp *group = NULL;
    if (!HS_STRUCT_TAKE(hs_group_tcp_options, env, &options, given, &error))
        group = new_group(&options, &error);
    hs__report_error(options.env, "hs_group_tcp_new", &error, err);
    return group;
}

const hs_group *hs_group_tcp_get(const hs_group_tcp *group)
{
    static const hs_group unusable = {NULL, NULL};
    return group ? &group->group : &unusable;
}

void hs_group_tcp_free(hs_group_tcp *group)
{
    if (!group || hs__is_inherited(group->generation))
        return;
    const hs_env env = group->env;
    hs__detector_stop(&group->detector);
    hs__tcp_release_edges(&env, &group->edges);
    hs__free(&env, group);
}

/* Calls of another engine. */

static hs_code check_group(const hs_group_tcp *group, hs_error *err)
{
    hs_error_clear(err);
    return group ? HS_OK : hs_error_set(err, HS_INVALID_ARGUMENT, "a call of a group: the group is NULL");
}

/* Sets *number to the number of the call in progress. */
static hs_code find_call(const hs_group_tcp *group, uint64_t *number, hs_error *err)
{
    hs_code code = check_group(group, err);
    if (code)
        return code;
    const uint64_t begun = atomic_load(&group->detector.begun);
    if (begun == atomic_load(&group->detector.ended))
        return hs_error_set(err, HS_FAILED_PRECONDITION, "a call of a group: none is in progress");
    *number = begun - 1;
    return HS_OK;
}

hs_code hs_group_tcp_begin_call(hs_group_tcp *group, const char *call, hs_error *err)
{
    uint64_t number;
    hs_error unused;
    hs_code code = check_group(group, err);
    return code ? code : hs__detector_begin_call(&group->detector, call, &number, err ? err : &unused);
}

hs_code hs_group_tcp_check_call(hs_group_tcp *group, const char *call, hs_error *err)
{
    uint64_t number = 0;
    int64_t give_up_ns;
    hs_error unused;
    hs_code code = find_call(group, &number, err);
    if (code)
        return code;
    hs__detector_woken(&group->detector);
    return hs__detector_check_call(&group->detector, number, call, &give_up_ns, err ? err : &unused);
}

hs_code hs_group_tcp_fail_call(hs_group_tcp *group, int32_t rank, const char *why, hs_error *err)
{
    uint64_t number = 0;
    hs_error unused;
    hs_code code = find_call(group, &number, err);
    if (code)
        return code;
    if (rank < 0 || rank >= group->options.rank_count)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_group_tcp_fail_call: rank is %d, but must be 0 to %d", (int)rank,
                            (int)group->options.rank_count - 1);
    return hs__detector_fail_rank(&group->detector, rank, number, why, err ? err : &unused);
}

void hs_group_tcp_end_call(hs_group_tcp *group)
{
    if (group)
        hs__detector_end_call(&group->detector);
}

/* Environment variables. */

/* Reads a number. Leaves *number if the variable is not set. */
static hs_code read_variable(const char *name, int32_t *number, hs_error *err)
{
    const char *text = getenv(name);
    char *end;
    if (!text)
        return HS_OK;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 0 || value > INT32_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "environment variable %s is '%s', but must be a number", name, text);
    *number = (int32_t)value;
    return HS_OK;
}

/* The variables of a launcher. Those of `job` have the same value in all processes of a start, and together another one in
 * each start. TORCHELASTIC_RESTART_COUNT is not among them: each agent of torchrun counts for itself. */
typedef struct launcher {
    const char *rank, *count, *job[3];
} launcher;

/* The innermost first: sbatch sets the variables of Slurm also in its script, in which others may start. */
static const launcher launchers[] = {
    {"RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE"}},
    {"PMI_RANK", "PMI_SIZE", {"PMI_JOBID", "SLURM_RESTART_COUNT"}},
    {"SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
};

static hs_code read_launcher(hs_group_tcp_options *options, char job[HS__HELLO_TOKEN], hs_error *err)
{
    *job = '\0';
    for (const launcher *at = launchers; at < launchers + sizeof launchers / sizeof *launchers; at++) {
        hs_code code;
        if (!getenv(at->rank) && !getenv(at->count))
            continue;
        if (!getenv(at->rank) || !getenv(at->count))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "environment variable %s is set, but %s is not",
                                getenv(at->rank) ? at->rank : at->count, getenv(at->rank) ? at->count : at->rank);
        if ((code = read_variable(at->rank, &options->rank, err)) ||
            (code = read_variable(at->count, &options->rank_count, err)))
            return code;
        if (strcmp(at->rank, "SLURM_PROCID") == 0 && options->rank_count > 1 && !getenv("SLURM_STEP_ID"))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "environment variable SLURM_NTASKS is %d, but SLURM_STEP_ID is not set: start the program "
                                "with srun",
                                (int)options->rank_count);
        for (size_t i = 0; i < sizeof at->job / sizeof *at->job && at->job[i]; i++)
            if (getenv(at->job[i]))
                hs__append(job, HS__HELLO_TOKEN, "%s%s", *job ? "." : "", getenv(at->job[i]));
        for (char *c = job; *c; c++)
            *c = *c >= ' ' && *c <= '~' ? *c : '?';
        return HS_OK;
    }
    options->rank_count = 1;
    return HS_OK;
}

/* Sets the rank, the rank count, the job and, if the options name no way to find rank 0, the address. `address` and `job`
 * are the memory of the texts. */
static hs_code apply_environment(hs_group_tcp_options *options, char address[HS__ADDRESS_MAX], char job[HS__HELLO_TOKEN],
                                 hs_error *err)
{
    if (options->rank || options->rank_count)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_group_tcp_from_env: rank and rank_count are set, but come from the environment");
    hs_code code = read_launcher(options, job, err);
    if (!options->job && !options->exchange)
        options->job = job;
    if (code || options->rank_count <= 1 || options->address || options->rendezvous_dir || options->exchange)
        return code;
    const char *host = getenv("MASTER_ADDR");
    int32_t port = -1;
    if ((code = read_variable("MASTER_PORT", &port, err)))
        return code;
    if (!host || port < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_group_tcp_from_env: set address, rendezvous_dir or exchange, or the environment variables "
                            "MASTER_ADDR and MASTER_PORT");
    if (port >= HS__PORT_MAX)
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "environment variable MASTER_PORT is %d, but must be less than %d: the group uses the next port", (int)port,
            HS__PORT_MAX);
    /* MASTER_PORT itself belongs to the store of torchrun, or of the program's own torch */
    hs__tcp_join(address, host, port + 1);
    options->address = address;
    return HS_OK;
}

hs_group_tcp *hs_group_tcp_from_env(const hs_group_tcp_options *given, hs_error *err)
{
    hs_group_tcp_options options = {0};
    char address[HS__ADDRESS_MAX], job[HS__HELLO_TOKEN];
    hs_error error = {0};
    hs_group_tcp *group = NULL;
    if (!HS_STRUCT_TAKE(hs_group_tcp_options, env, &options, given, &error)) {
        if (apply_environment(&options, address, job, &error))
            hs__rendezvous_decline(&options, &error);
        else
            group = new_group(&options, &error);
    }
    hs__report_error(options.env, "hs_group_tcp_from_env", &error, err);
    return group;
}
