/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a simulated group: each joins the round of its number, and waits in it for other ranks. */
#include "testing/simulation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Describes a call: "gather to rank 0". */
static const char *describe(const hs__call *call, char text[64])
{
    const char *name = hs__collective_name(call->kind);
    switch (call->kind) {
    case HS__ALLREDUCE_OR:
        snprintf(text, 64, "%s of %zu words", name, call->n);
        return text;
    case HS__BROADCAST:
        snprintf(text, 64, "%s of %zu bytes from rank %d", name, call->n, (int)call->root);
        return text;
    case HS__GATHER:
        snprintf(text, 64, "%s to rank %d", name, (int)call->root);
        return text;
    case HS__SUM:
        snprintf(text, 64, "%s of %zu numbers", name, call->n);
        return text;
    default:
        return name;
    }
}

static bool calls_match(const hs__call *a, const hs__call *b)
{
    return a->kind == b->kind && a->root == b->root && (a->kind == HS__GATHER || a->n == b->n);
}

/* Returns the round of this index. Creates it for the first rank that joins. NULL: out of memory. */
static hs__round *find_round(hs_simulation *simulation, const hs__call *call, const hs__rank *rank)
{
    hs__plane plane = hs__collective_plane(call->kind);
    int64_t index = rank->made[plane];
    hs__round **at = &simulation->rounds[plane];
    while (*at && (*at)->index < index)
        at = &(*at)->next;
    if (*at)
        return *at;
    hs__round *round = simulation->unused;
    if (round)
        simulation->unused = round->next;
    else if (!(round = hs_env_alloc(&simulation->env, sizeof *round)))
        return NULL;
    hs_bytes *parts = round->parts;
    *round = (hs__round){.index = index, .call = *call, .first_rank = rank->number, .parts = parts};
    *at = round;
    return round;
}

/* Copies n bytes, also if n is 0. */
static void *copy_bytes(hs_simulation *simulation, const void *data, size_t n)
{
    void *copy = hs_env_alloc(&simulation->env, n ? n : 1);
    if (copy && n)
        memcpy(copy, data, n);
    return copy;
}

/* Adds what this rank contributes to the round. Returns false if memory is exhausted. */
static bool contribute(hs__round *round, const hs__rank *rank, const hs__call *call)
{
    hs_simulation *simulation = rank->simulation;
    const uint64_t *words = call->data;
    bool has_parts = call->kind == HS__GATHER || call->kind == HS__SUM;
    if (has_parts && !round->parts &&
        !(round->parts = hs_env_alloc(&simulation->env, (size_t)simulation->rank_count * sizeof *round->parts)))
        return false;
    switch (call->kind) {
    case HS__ALLREDUCE_OR:
        for (size_t i = 0; i < call->n; i++)
            round->words[i] |= words[i];
        return true;
    case HS__BROADCAST:
        return rank->number != call->root || (round->data = copy_bytes(simulation, call->data, call->n));
    case HS__GATHER:
        round->parts[rank->number] = (hs_bytes){copy_bytes(simulation, call->data, call->n), call->n};
        return round->parts[rank->number].data != NULL;
    case HS__SUM:
        round->parts[rank->number] = (hs_bytes){call->data, call->n};
        return true;
    default:
        return true;
    }
}

/* Adds the numbers of all ranks, in the order of the ranks. Returns false if memory is exhausted. */
static bool add_numbers(const hs_simulation *simulation, hs__round *round)
{
    size_t n = round->call.n;
    double *sums = round->data = hs_env_alloc(&simulation->env, n ? n * sizeof *sums : 1);
    for (int32_t rank = 0; sums && rank < simulation->rank_count; rank++) {
        const double *numbers = round->parts[rank].data;
        for (size_t i = 0; i < n; i++)
            sums[i] += numbers[i];
    }
    return sums != NULL;
}

/* Wakes the ranks that waited for this one. Returns true if this rank waits itself. */
static bool must_wait(hs_simulation *simulation, hs__round *round, const hs__rank *rank)
{
    const hs__call *call = &round->call;
    bool all = round->n_joined == simulation->rank_count, is_root = rank->number == call->root;
    bool wakes = all || (call->kind == HS__BROADCAST && is_root);
    while (wakes && round->waiters) {
        hs__rank *waiter = round->waiters;
        round->waiters = waiter->next_waiter;
        hs__rank_wake(waiter, HS_OK);
    }
    if (all)
        return false;
    if (call->kind == HS__BROADCAST && !is_root)
        return !round->data;
    if (call->kind == HS__BROADCAST || (call->kind == HS__GATHER && !is_root))
        return hs__simulation_random(simulation, 2) == 0;
    return true;
}

static void clear_round(const hs_simulation *simulation, hs__round *round)
{
    hs_env_free(&simulation->env, round->data);
    for (int32_t i = 0; round->parts && i < simulation->rank_count; i++) {
        if (round->call.kind == HS__GATHER)
            hs_env_free(&simulation->env, (void *)round->parts[i].data);
        round->parts[i] = (hs_bytes){NULL, 0};
    }
}

static void leave_round(hs_simulation *simulation, hs__round *round)
{
    hs__round **at = &simulation->rounds[hs__collective_plane(round->call.kind)];
    if (++round->n_left < simulation->rank_count)
        return;
    while (*at != round)
        at = &(*at)->next;
    *at = round->next;
    clear_round(simulation, round);
    round->next = simulation->unused;
    simulation->unused = round;
}

static void free_rounds(hs_simulation *simulation, hs__round *round)
{
    while (round) {
        hs__round *next = round->next;
        hs_env_free(&simulation->env, round->parts);
        hs_env_free(&simulation->env, round);
        round = next;
    }
}

void hs__simulation_free_rounds(hs_simulation *simulation)
{
    for (int plane = 0; plane < HS__N_PLANES; plane++) {
        for (hs__round *round = simulation->rounds[plane]; round; round = round->next)
            clear_round(simulation, round);
        free_rounds(simulation, simulation->rounds[plane]);
    }
    free_rounds(simulation, simulation->unused);
}

/* Sets the error of a call that cannot complete: the bug, the first failed rank, or the rank that does not join. */
static hs_code set_failure(hs__rank *rank, hs__plane plane, hs_error *err)
{
    hs_simulation *simulation = rank->simulation;
    if (simulation->bug.code) {
        *err = simulation->bug;
    } else if (atomic_load(&rank->killed)) {
        hs_error_set(err, HS_UNAVAILABLE, "rank %d was killed", (int)rank->number);
    } else {
        if (simulation->failed_rank < 0 && simulation->cut_rank[plane] >= 0) {
            simulation->failed_rank = simulation->cut_rank[plane];
            simulation->failure = simulation->cut_reason[plane];
        }
        *err = simulation->failure.code ? simulation->failure : simulation->cut_reason[plane];
    }
    return err->code;
}

/* Makes the faults happen that were requested for this call. Returns an error if the call does not happen. */
static hs_code make_faults(hs__rank *rank, const char *what, hs__plane plane, hs_error *err)
{
    hs_simulation *simulation = rank->simulation;
    for (hs__fault *fault = rank->faults; fault; fault = fault->next) {
        if (fault->at_collective != rank->n_collectives)
            continue;
        static const char *const done[] = {"is killed", "exits", "is frozen", "is delayed"};
        hs__string_buffer_add(&simulation->trace, "rank %d: %s in %s\n", (int)rank->number, done[fault->kind], what);
        switch (fault->kind) {
        case HS__FAULT_DELAY:
            hs_env_sleep_ns(&simulation->env, fault->delay_ns);
            break;
        case HS__FAULT_FREEZE:
            rank->state = HS__RANK_FROZEN;
            simulation->n_frozen++;
            hs__rank_yield(rank);
            return set_failure(rank, plane, err);
        default:
            hs__rank_kill(rank, fault->kind == HS__FAULT_KILL ? "was killed" : "has exited without the other ranks");
            hs__rank_block(rank);
            return set_failure(rank, plane, err);
        }
    }
    return HS_OK;
}

/* Joins the round of this call, and waits in it. On HS_OK, *round has the results. */
static hs_code join_round(hs__rank *rank, const hs__call *call, const char *what, hs__round **round, hs_error *err)
{
    hs_simulation *simulation = rank->simulation;
    hs__plane plane = hs__collective_plane(call->kind);
    hs__round *joined = *round = find_round(simulation, call, rank);
    char first[64];
    if (joined && !calls_match(&joined->call, call)) {
        hs__simulation_break(
            simulation, HS_INTERNAL, "mixed collectives: call %" PRId64 " of rank %d is %s, but that of rank %d is %s",
            rank->made[plane] + 1, (int)rank->number, what, (int)joined->first_rank, describe(&joined->call, first));
        return set_failure(rank, plane, err);
    }
    if (!joined || !contribute(joined, rank, call) ||
        (++joined->n_joined == simulation->rank_count && call->kind == HS__SUM && !add_numbers(simulation, joined))) {
        hs__simulation_break(simulation, HS_RESOURCE_EXHAUSTED, "no memory for %s", what);
        return set_failure(rank, plane, err);
    }
    rank->made[plane]++;
    if (must_wait(simulation, joined, rank)) {
        rank->state = HS__RANK_WAITING;
        rank->waits_in = call->kind;
        rank->next_waiter = joined->waiters;
        joined->waiters = rank;
        simulation->n_waiting[plane]++;
    } else {
        hs__rank_wake(rank, HS_OK);
    }
    hs__rank_yield(rank);
    if (atomic_load(&rank->killed)) /* by another thread */
        hs__rank_block(rank);
    return rank->woken_with || atomic_load(&rank->killed) ? set_failure(rank, plane, err) : HS_OK;
}

static void copy_results(const hs__rank *rank, const hs__call *call, const hs__round *round)
{
    size_t bytes = call->kind == HS__ALLREDUCE_OR ? call->n * sizeof *round->words
                   : call->kind == HS__SUM        ? call->n * sizeof(double)
                   : call->kind == HS__BROADCAST  ? call->n
                                                  : 0;
    if (bytes)
        memcpy(call->data, call->kind == HS__ALLREDUCE_OR ? (const void *)round->words : round->data, bytes);
    for (int32_t i = 0; call->kind == HS__GATHER && call->root == rank->number && i < rank->simulation->rank_count; i++)
        call->receive(call->user, i, round->parts[i]);
}

static hs_code make_call(hs__rank *rank, const hs__call *call, hs_error *err)
{
    hs_simulation *simulation = rank->simulation;
    hs__plane plane = hs__collective_plane(call->kind);
    hs__round *round;
    char text[64];
    const char *what = describe(call, text);
    hs_error unused;
    err = err ? err : &unused;
    if (!hs__rank_is_self(rank))
        return hs_error_set(err, HS_FAILED_PRECONDITION, "rank %d calls %s in another thread than its main",
                            (int)rank->number, hs__collective_name(call->kind));
    pthread_mutex_lock(&simulation->lock);
    if (atomic_load(&rank->killed))
        hs__rank_block(rank);
    hs_code code = HS_OK;
    if (simulation->over || simulation->bug.code) {
        code = set_failure(rank, plane, err);
    } else {
        rank->n_collectives++;
        code = make_faults(rank, what, plane, err);
    }
    bool fails = !code && rank->made[plane] >= simulation->cut[plane];
    if (!code)
        hs__string_buffer_add(&simulation->trace, "rank %d: %s%s\n", (int)rank->number, what, fails ? " fails" : "");
    if (fails)
        code = set_failure(rank, plane, err);
    if (!code && !(code = join_round(rank, call, what, &round, err))) {
        pthread_mutex_unlock(&simulation->lock);
        copy_results(rank, call, round);
        pthread_mutex_lock(&simulation->lock);
        leave_round(simulation, round);
    }
    pthread_mutex_unlock(&simulation->lock);
    return code;
}

/* The functions of the group. */

static int32_t get_rank(void *self)
{
    return ((const hs__rank *)self)->number;
}

static int32_t get_rank_count(void *self)
{
    return ((const hs__rank *)self)->simulation->rank_count;
}

static hs_code allreduce_or(void *self, uint64_t *words, size_t n, hs_error *err)
{
    if (n > 8)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "allreduce_or: %zu words; at most 8 are allowed", n);
    return make_call(self, &(hs__call){.kind = HS__ALLREDUCE_OR, .n = n, .data = words}, err);
}

static hs_code check_root(const hs__rank *rank, hs__collective kind, int32_t root, hs_error *err)
{
    int32_t rank_count = rank->simulation->rank_count;
    if (root >= 0 && root < rank_count)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: root %d is not in a group of %d ranks", hs__collective_name(kind),
                        (int)root, (int)rank_count);
}

static hs_code broadcast(void *self, void *data, size_t bytes, int32_t root, hs_error *err)
{
    hs_code code = check_root(self, HS__BROADCAST, root, err);
    return code ? code : make_call(self, &(hs__call){.kind = HS__BROADCAST, .root = root, .n = bytes, .data = data}, err);
}

static hs_code gather(void *self, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err)
{
    hs_code code = check_root(self, HS__GATHER, root, err);
    const hs__call call = {.kind = HS__GATHER,
                           .root = root,
                           .n = mine.size,
                           .data = (void *)mine.data, /* only read */
                           .receive = receive,
                           .user = user};
    return code ? code : make_call(self, &call, err);
}

static hs_code barrier(void *self, hs_error *err)
{
    return make_call(self, &(hs__call){.kind = HS__BARRIER}, err);
}

static void report_exit(void *self, const hs_error *reason)
{
    hs__rank *rank = self;
    hs_simulation *simulation = rank->simulation;
    hs_error gone;
    pthread_mutex_lock(&simulation->lock);
    hs_error_set(&gone, HS_UNAVAILABLE, "rank %d has %s%s%s", (int)rank->number, reason->code ? "failed" : "ended",
                 reason->message[0] ? ": " : "", reason->message);
    if (!rank->gone)
        hs__string_buffer_add(&simulation->trace, "rank %d: reports its exit: %s\n", (int)rank->number,
                              hs_code_name(reason->code));
    hs__rank_leave(rank, reason->code != HS_OK, &gone);
    pthread_mutex_unlock(&simulation->lock);
}

static hs_code query_failed_rank(void *self, int32_t *rank, hs_error *err)
{
    hs_simulation *simulation = ((hs__rank *)self)->simulation;
    pthread_mutex_lock(&simulation->lock);
    hs_code code = simulation->failed_rank < 0 ? HS_OK : HS_UNAVAILABLE;
    if (code) {
        *rank = simulation->failed_rank;
        *err = simulation->failure;
    }
    pthread_mutex_unlock(&simulation->lock);
    return code;
}

/* A rank that hangs in a step hangs the simulation: no other one runs meanwhile. */
static void ignore_step(void *self, hs_step_place place, int64_t step, double limit_secs)
{
    (void)self, (void)place, (void)step, (void)limit_secs;
}

const hs_group_ops hs__simulated_ops =
    HS_INIT(hs_group_ops, .name = "simulation", .rank = get_rank, .rank_count = get_rank_count,
            .allreduce_or = allreduce_or, .broadcast = broadcast, .gather = gather, .barrier = barrier,
            .report_exit = report_exit, .query_failed_rank = query_failed_rank, .report_step = ignore_step);

const hs_group_ops hs__simulated_ops_without_detector =
    HS_INIT(hs_group_ops, .name = "simulation", .rank = get_rank, .rank_count = get_rank_count,
            .allreduce_or = allreduce_or, .broadcast = broadcast, .gather = gather, .barrier = barrier);

hs__rank *hs__simulated_rank(const hs_group *group)
{
    return group && (group->ops == &hs__simulated_ops || group->ops == &hs__simulated_ops_without_detector) ? group->self
                                                                                                            : NULL;
}

hs_code hs_simulation_sum(const hs_group *group, double *numbers, size_t n, hs_error *err)
{
    hs__rank *rank = hs__simulated_rank(group);
    hs_error_clear(err);
    if (!rank || (n && !numbers))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_simulation_sum: %s",
                            rank ? "numbers is NULL" : "the group is not simulated");
    return make_call(rank, &(hs__call){.kind = HS__SUM, .n = n, .data = numbers}, err);
}
