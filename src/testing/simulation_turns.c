/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules the ranks of a simulation, and handles deadlocks and failures of ranks. */
#include "testing/simulation.h"

#include "base/c_locale.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* SplitMix64. The bias of the remainder does not matter here. */
uint32_t hs__simulation_random(hs_simulation *simulation, uint32_t n)
{
    uint64_t z = simulation->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % n);
}

hs__plane hs__collective_plane(hs__collective kind)
{
    return kind == HS__SUM ? HS__PLANE_PROGRAM : HS__PLANE_GROUP;
}

const char *hs__collective_name(hs__collective kind)
{
    static const char *const names[] = {"allreduce_or", "broadcast", "gather", "barrier", "sum"};
    return names[kind];
}

bool hs__rank_is_self(const hs__rank *rank)
{
    return pthread_equal(rank->thread, pthread_self());
}

void hs__rank_wake(hs__rank *rank, hs_code code)
{
    hs_simulation *simulation = rank->simulation;
    if (rank->state == HS__RANK_WAITING)
        simulation->n_waiting[hs__collective_plane(rank->waits_in)]--;
    else if (rank->state == HS__RANK_FROZEN)
        simulation->n_frozen--;
    rank->state = HS__RANK_READY;
    rank->woken_with = code;
    simulation->ready[simulation->n_ready++] = rank;
}

static void wake_waiters(hs__round *round, hs_code code)
{
    while (round->waiters) {
        hs__rank *rank = round->waiters;
        round->waiters = rank->next_waiter;
        hs__rank_wake(rank, code);
    }
}

void hs__simulation_cut(hs_simulation *simulation, hs__plane plane, int64_t index, int32_t rank, const hs_error *reason)
{
    if (index < simulation->cut[plane]) {
        simulation->cut[plane] = index;
        simulation->cut_rank[plane] = rank;
        simulation->cut_reason[plane] = *reason;
    }
    for (hs__round *round = simulation->rounds[plane]; round; round = round->next)
        if (round->index >= simulation->cut[plane])
            wake_waiters(round, HS_UNAVAILABLE);
}

void hs__rank_leave(hs__rank *rank, bool failed, const hs_error *reason)
{
    hs_simulation *simulation = rank->simulation;
    if (rank->gone)
        return;
    rank->gone = true;
    if (!simulation->has_detector)
        return;
    if (failed && simulation->failed_rank < 0) {
        simulation->failed_rank = rank->number;
        simulation->failure = *reason;
    }
    for (int plane = 0; plane < HS__N_PLANES; plane++)
        hs__simulation_cut(simulation, (hs__plane)plane, rank->made[plane], rank->number, reason);
}

void hs__rank_kill(hs__rank *rank, const char *how)
{
    hs_error reason;
    hs_error_set(&reason, HS_UNAVAILABLE, "rank %d %s", (int)rank->number, how);
    atomic_store(&rank->killed, true);
    hs__rank_leave(rank, true, &reason);
}

void hs__rank_block(hs__rank *rank)
{
    if (rank->simulation->over)
        return;
    rank->state = HS__RANK_KILLED;
    hs__rank_yield(rank);
}

void hs__simulation_break(hs_simulation *simulation, hs_code code, const char *format, ...)
{
    if (simulation->bug.code)
        return;
    va_list arguments;
    va_start(arguments, format);
    hs_error_vset(&simulation->bug, code, format, arguments);
    va_end(arguments);
    hs__string_buffer_add(&simulation->trace, "%s\n", simulation->bug.message);
    for (int plane = 0; plane < HS__N_PLANES; plane++)
        for (hs__round *round = simulation->rounds[plane]; round; round = round->next)
            wake_waiters(round, code);
    for (int32_t i = 0; i < simulation->rank_count; i++)
        if (simulation->ranks[i].state == HS__RANK_FROZEN)
            hs__rank_wake(&simulation->ranks[i], code);
}

/* Describes the activity of a rank, for the message of a deadlock. */
enum { FROZEN = HS__N_COLLECTIVES, KILLED, ENDED, N_ACTIVITIES };

static int activity_of(const hs__rank *rank)
{
    switch (rank->state) {
    case HS__RANK_WAITING:
        return (int)rank->waits_in;
    case HS__RANK_FROZEN:
        return FROZEN;
    case HS__RANK_KILLED:
        return KILLED;
    default:
        return ENDED;
    }
}

/* Appends to a text. Cuts it off if it is too long. */
static void append(char text[HS_MESSAGE_SIZE], const char *format, ...) HS_PRINTF(2, 3);
static void append(char text[HS_MESSAGE_SIZE], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    hs__vsnprintf(text + used, HS_MESSAGE_SIZE - used, format, arguments);
    va_end(arguments);
}

/* Appends the ranks with this activity: "ranks 0-2, 5 wait in gather". */
static void append_ranks(char text[HS_MESSAGE_SIZE], const hs_simulation *simulation, int activity)
{
    static const char *const others[][2] = {
        {"is frozen", "are frozen"}, {"was killed", "were killed"}, {"has ended", "have ended"}};
    char list[256] = "";
    int32_t n = 0;
    for (int32_t i = 0; i < simulation->rank_count; i++) {
        int32_t first = i;
        if (activity_of(&simulation->ranks[i]) != activity)
            continue;
        while (i + 1 < simulation->rank_count && activity_of(&simulation->ranks[i + 1]) == activity)
            i++;
        size_t used = strlen(list);
        const char *comma = n ? ", " : "";
        n += i - first + 1;
        if (used > sizeof list - 32)
            continue;
        if (i > first)
            snprintf(list + used, sizeof list - used, "%s%d-%d", comma, (int)first, (int)i);
        else
            snprintf(list + used, sizeof list - used, "%s%d", comma, (int)i);
        if (strlen(list) > sizeof list - 32)
            strcat(list, ", ...");
    }
    if (!n)
        return;
    append(text, "%s%s %s ", *text ? "; " : "", n > 1 ? "ranks" : "rank", list);
    if (activity < HS__N_COLLECTIVES)
        append(text, "%s in %s", n > 1 ? "wait" : "waits", hs__collective_name((hs__collective)activity));
    else
        append(text, "%s", others[activity - FROZEN][n > 1]);
}

static void report_deadlock(hs_simulation *simulation)
{
    char text[HS_MESSAGE_SIZE] = "";
    for (int activity = 0; activity < N_ACTIVITIES; activity++)
        append_ranks(text, simulation, activity);
    hs__simulation_break(simulation, HS_INTERNAL, "deadlock: %s", text);
}

/* The detector reports the first frozen rank that is not reported yet. Returns false if no such rank exists. */
static bool report_frozen(hs_simulation *simulation)
{
    for (int32_t i = 0; i < simulation->rank_count; i++) {
        hs__rank *rank = &simulation->ranks[i];
        if (rank->state == HS__RANK_FROZEN && !rank->gone) {
            hs_error reason;
            hs_error_set(&reason, HS_UNAVAILABLE, "rank %d has not responded for %g s", (int)i,
                         (double)simulation->detector_ns / 1e9);
            hs__string_buffer_add(&simulation->trace, "%s\n", reason.message);
            hs__rank_leave(rank, true, &reason);
            return true;
        }
    }
    return false;
}

/* The group's calls in which ranks wait while others wait in the program's communication. They fail after a limit. */
static void time_out(hs_simulation *simulation)
{
    hs__round *round = simulation->rounds[HS__PLANE_GROUP];
    char text[HS_MESSAGE_SIZE] = "";
    hs_error reason;
    while (!round->waiters)
        round = round->next;
    append_ranks(text, simulation, HS__SUM);
    hs_error_set(&reason, HS_UNAVAILABLE, "%s has waited for %g s: %s", hs__collective_name(round->call.kind),
                 (double)simulation->detector_ns / 1e9, text);
    hs__string_buffer_add(&simulation->trace, "%s\n", reason.message);
    hs__simulation_cut(simulation, HS__PLANE_GROUP, round->index, -1, &reason);
}

/* Called if no rank can run. Makes one rank ready and returns true, or returns false if all ranks have ended. */
static bool resolve(hs_simulation *simulation)
{
    int32_t n_waiting = simulation->n_waiting[HS__PLANE_GROUP] + simulation->n_waiting[HS__PLANE_PROGRAM];
    if (!n_waiting && !simulation->n_frozen)
        return false;
    if (!simulation->has_detector) {
        report_deadlock(simulation);
    } else if (!n_waiting) {
        for (int32_t i = 0; i < simulation->rank_count; i++)
            if (simulation->ranks[i].state == HS__RANK_FROZEN)
                hs__rank_wake(&simulation->ranks[i], HS_UNAVAILABLE);
    } else {
        hs_env_sleep_ns(&simulation->env, simulation->detector_ns);
        if (report_frozen(simulation))
            return true;
        if (simulation->n_waiting[HS__PLANE_GROUP] && simulation->n_waiting[HS__PLANE_PROGRAM])
            time_out(simulation);
        else
            report_deadlock(simulation);
    }
    return true;
}

/* Removes the next rank from the ranks that can run. Returns NULL if all ranks have ended. */
static hs__rank *pick_next(hs_simulation *simulation)
{
    for (;;) {
        if (simulation->n_ready) {
            uint32_t i = hs__simulation_random(simulation, (uint32_t)simulation->n_ready);
            hs__rank *rank = simulation->ready[i];
            simulation->ready[i] = simulation->ready[--simulation->n_ready];
            return rank;
        }
        if (!simulation->over && resolve(simulation))
            continue;
        simulation->over = true;
        while (simulation->n_resumed < simulation->rank_count) {
            hs__rank *rank = &simulation->ranks[simulation->n_resumed++];
            if (rank->state == HS__RANK_KILLED)
                return rank;
        }
        return NULL;
    }
}

void hs__simulation_begin(hs_simulation *simulation)
{
    hs__rank *first = pick_next(simulation);
    pthread_mutex_unlock(&simulation->lock);
    sem_post(&first->turn);
}

void hs__rank_yield(hs__rank *rank)
{
    hs_simulation *simulation = rank->simulation;
    hs__rank *next = pick_next(simulation);
    if (next != rank) {
        bool ended = rank->state == HS__RANK_ENDED;
        pthread_mutex_unlock(&simulation->lock);
        sem_post(next ? &next->turn : &simulation->done);
        while (!ended && sem_wait(&rank->turn) != 0 && errno == EINTR)
            continue;
        pthread_mutex_lock(&simulation->lock);
        if (ended)
            return;
    }
    rank->state = HS__RANK_RUNNING;
}
