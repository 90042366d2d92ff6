/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated group: options, faults, threads and results. The calls of ranks are in simulation_calls.c, the choice of the
 * rank that runs in simulation_turns.c. */
#include "testing/simulation.h"

#include "testing/complete_env.h"
#include "testing/seconds.h"

#include <errno.h>

static int64_t simulated_now(void *user)
{
    return atomic_load(&((hs_simulation *)user)->now_ns);
}

static void simulated_sleep(void *user, int64_t ns)
{
    if (ns > 0)
        atomic_fetch_add(&((hs_simulation *)user)->now_ns, ns);
}

static hs_code check_options(const hs_simulation_options *options, hs_error *err)
{
    if (!options->main)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_simulation_options.main is NULL");
    if (options->rank_count < 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_simulation_options.rank_count is %d, but must be at least 1",
                            (int)options->rank_count);
    if (options->stack_bytes < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_simulation_options.stack_bytes is negative");
    if (options->detector_secs != HS_NEVER && hs__seconds_to_ns(options->detector_secs) < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_simulation_options.detector_secs is %g, but must be 0 to 1e9 or HS_NEVER",
                            options->detector_secs);
    return HS_OK;
}

/* Makes the ranks. Returns false if memory is exhausted. */
static bool make_ranks(hs_simulation *simulation)
{
    const hs_group_ops *ops = simulation->has_detector ? &hs__simulated_ops : &hs__simulated_ops_without_detector;
    size_t n = (size_t)simulation->rank_count;
    simulation->ready = hs_env_alloc(&simulation->env, n * sizeof *simulation->ready);
    simulation->ranks = hs_env_alloc(&simulation->env, n * sizeof *simulation->ranks);
    for (int32_t i = 0; simulation->ready && simulation->ranks && i < simulation->rank_count; i++) {
        hs__rank *rank = &simulation->ranks[i];
        rank->simulation = simulation;
        rank->number = i;
        rank->group = (hs_group){ops, rank};
        hs__rank_make_env(rank);
        sem_init(&rank->turn, 0, 0);
        simulation->ready[simulation->n_ready++] = rank;
    }
    return simulation->ready && simulation->ranks;
}

hs_simulation *hs_simulation_new(const hs_simulation_options *given, hs_error *err)
{
    hs_simulation_options options;
    hs_env env;
    hs_file_system_ops files;
    hs_error_clear(err);
    if (HS_STRUCT_TAKE(hs_simulation_options, env, &options, given, err) || check_options(&options, err))
        return NULL;
    if (!hs__complete_env(&env, options.env) ||
        HS_STRUCT_TAKE(hs_file_system_ops, remove_directory, &files, env.files.ops, NULL)) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_simulation_options.env is invalid");
        return NULL;
    }
    hs_simulation *simulation = hs_env_alloc(&env, sizeof *simulation);
    if (!simulation || pthread_mutex_init(&simulation->lock, NULL) != 0) {
        hs_env_free(&env, simulation);
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a simulation");
        return NULL;
    }
    sem_init(&simulation->done, 0, 0);
    simulation->files = files;
    simulation->env = env;
    simulation->now_ns = HS__CLOCK_START_NS;
    if (!options.env || !options.env->clock.monotonic_ns)
        simulation->env.clock = (hs_clock){simulated_now, simulated_now, simulated_sleep, simulation};
    simulation->syncs = env.files.ops != hs_env_default()->files.ops;
    hs__string_buffer_init(&simulation->trace, &simulation->env);
    hs__simulation_make_files(simulation);
    simulation->main = options.main;
    simulation->user = options.user;
    simulation->random = options.seed;
    simulation->stack_bytes = options.stack_bytes ? (size_t)options.stack_bytes : (size_t)1 << 20;
    simulation->detector_ns = options.detector_secs > 0 ? hs__seconds_to_ns(options.detector_secs) : 10000000000;
    simulation->has_detector = options.detector_secs != HS_NEVER;
    simulation->rank_count = options.rank_count;
    simulation->failed_rank = -1;
    for (int plane = 0; plane < HS__N_PLANES; plane++)
        simulation->cut[plane] = INT64_MAX;
    if (!make_ranks(simulation)) {
        hs_simulation_free(simulation);
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a simulation of %d ranks", (int)options.rank_count);
        return NULL;
    }
    return simulation;
}

void hs_simulation_free(hs_simulation *simulation)
{
    if (!simulation)
        return;
    hs_env env = simulation->env;
    for (int32_t i = 0; simulation->ready && simulation->ranks && i < simulation->rank_count; i++) {
        hs__rank *rank = &simulation->ranks[i];
        while (rank->faults) {
            hs__fault *next = rank->faults->next;
            hs_env_free(&env, rank->faults);
            rank->faults = next;
        }
        sem_destroy(&rank->turn);
    }
    hs__simulation_free_rounds(simulation);
    hs__string_buffer_free(&simulation->trace);
    hs_env_free(&env, simulation->ranks);
    hs_env_free(&env, simulation->ready);
    sem_destroy(&simulation->done);
    pthread_mutex_destroy(&simulation->lock);
    hs_env_free(&env, simulation);
}

/* Returns the rank of this number. NULL: invalid. */
static hs__rank *find_rank(const hs_simulation *simulation, int32_t rank)
{
    return simulation && rank >= 0 && rank < simulation->rank_count ? &simulation->ranks[rank] : NULL;
}

static hs_code add_fault(hs_simulation *simulation, int32_t number, hs__fault_kind kind, int64_t at_collective,
                         int64_t delay_ns)
{
    hs__rank *rank = find_rank(simulation, number);
    if (!rank || at_collective < 1 || delay_ns < 0)
        return HS_INVALID_ARGUMENT;
    hs__fault *fault = hs_env_alloc(&simulation->env, sizeof *fault);
    if (!fault)
        return HS_RESOURCE_EXHAUSTED;
    pthread_mutex_lock(&simulation->lock);
    *fault = (hs__fault){rank->faults, kind, at_collective, delay_ns};
    rank->faults = fault;
    pthread_mutex_unlock(&simulation->lock);
    return HS_OK;
}

hs_code hs_simulation_kill(hs_simulation *simulation, int32_t rank, int64_t at_collective)
{
    return add_fault(simulation, rank, HS__FAULT_KILL, at_collective, 0);
}

hs_code hs_simulation_report_exit(hs_simulation *simulation, int32_t rank, int64_t at_collective)
{
    return add_fault(simulation, rank, HS__FAULT_EXIT, at_collective, 0);
}

hs_code hs_simulation_freeze(hs_simulation *simulation, int32_t rank, int64_t at_collective)
{
    return add_fault(simulation, rank, HS__FAULT_FREEZE, at_collective, 0);
}

hs_code hs_simulation_delay(hs_simulation *simulation, int32_t rank, int64_t at_collective, double secs)
{
    return add_fault(simulation, rank, HS__FAULT_DELAY, at_collective, hs__seconds_to_ns(secs));
}

hs_code hs_simulation_kill_in_file_call(hs_simulation *simulation, int32_t number, int64_t at_file_call)
{
    hs__rank *rank = find_rank(simulation, number);
    if (!rank || at_file_call < 1)
        return HS_INVALID_ARGUMENT;
    pthread_mutex_lock(&simulation->lock);
    rank->killed_in_file_call = at_file_call;
    pthread_mutex_unlock(&simulation->lock);
    return HS_OK;
}

/* The thread of a rank. */
static void *run_rank(void *user)
{
    hs__rank *rank = user;
    hs_simulation *simulation = rank->simulation;
    while (sem_wait(&rank->turn) != 0 && errno == EINTR)
        continue;
    if (simulation->cancelled)
        return NULL;
    rank->state = HS__RANK_RUNNING;
    int result = simulation->main(simulation->user, &rank->group);
    hs_error reason;
    hs_error_set(&reason, HS_UNAVAILABLE, "rank %d has ended without a report", (int)rank->number);
    pthread_mutex_lock(&simulation->lock);
    rank->result = result;
    rank->state = HS__RANK_ENDED;
    hs__rank_leave(rank, true, &reason);
    hs__rank_yield(rank);
    pthread_mutex_unlock(&simulation->lock);
    return NULL;
}

/* Starts the threads, which wait for their turns. Returns how many. */
static int32_t start_threads(hs_simulation *simulation)
{
    pthread_attr_t attributes;
    int32_t n = 0;
    if (pthread_attr_init(&attributes) != 0)
        return 0;
    if (pthread_attr_setstacksize(&attributes, simulation->stack_bytes) == 0)
        while (n < simulation->rank_count &&
               pthread_create(&simulation->ranks[n].thread, &attributes, run_rank, &simulation->ranks[n]) == 0)
            n++;
    pthread_attr_destroy(&attributes);
    return n;
}

hs_code hs_simulation_run(hs_simulation *simulation, hs_error *err)
{
    hs_error_clear(err);
    if (!simulation)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_simulation_run: simulation is NULL");
    if (simulation->started)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "hs_simulation_run: the simulation has already run");
    simulation->started = true;
    int32_t n = start_threads(simulation);
    simulation->cancelled = n < simulation->rank_count;
    if (simulation->cancelled) {
        for (int32_t i = 0; i < n; i++)
            sem_post(&simulation->ranks[i].turn);
        hs_error_set(err, HS_RESOURCE_EXHAUSTED,
                     "cannot start the threads of %d ranks with stacks of %zu bytes; started %d",
                     (int)simulation->rank_count, simulation->stack_bytes, (int)n);
    } else {
        pthread_mutex_lock(&simulation->lock);
        hs__simulation_begin(simulation);
        while (sem_wait(&simulation->done) != 0 && errno == EINTR)
            continue;
    }
    for (int32_t i = 0; i < n; i++)
        pthread_join(simulation->ranks[i].thread, NULL);
    if (simulation->cancelled)
        return HS_RESOURCE_EXHAUSTED;
    if (err && simulation->bug.code)
        *err = simulation->bug;
    return simulation->bug.code;
}

bool hs_simulation_result(const hs_simulation *simulation, int32_t number, int *result)
{
    const hs__rank *rank = find_rank(simulation, number);
    bool ended = rank && rank->state == HS__RANK_ENDED && !atomic_load(&rank->killed);
    if (ended && result)
        *result = rank->result;
    return ended;
}

/* Reads a count of a rank. */
static int64_t read_count(hs_simulation *simulation, const hs__rank *rank, const int64_t *count)
{
    if (!rank)
        return 0;
    pthread_mutex_lock(&simulation->lock);
    int64_t value = *count;
    pthread_mutex_unlock(&simulation->lock);
    return value;
}

int64_t hs_simulation_collectives(hs_simulation *simulation, int32_t number)
{
    const hs__rank *rank = find_rank(simulation, number);
    return read_count(simulation, rank, rank ? &rank->n_collectives : NULL);
}

int64_t hs_simulation_file_calls(hs_simulation *simulation, int32_t number)
{
    const hs__rank *rank = find_rank(simulation, number);
    return read_count(simulation, rank, rank ? &rank->n_file_calls : NULL);
}

const char *hs_simulation_trace(hs_simulation *simulation)
{
    return simulation ? hs__string_buffer_text(&simulation->trace) : "";
}
