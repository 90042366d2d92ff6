/* SPDX-License-Identifier: Apache-2.0 */
/* When hooks act (schedule.h). A run calls hs__schedule_before, then hs__schedule_after, and hs__schedule_acted for each
 * hook with conditions that it has called. These three go through all hooks only if one may be due. The position of each
 * hook is saved as its own state. */
#include "session/schedule.h"

#include "base/trigger.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

/* Values of positions. */
enum { UNKNOWN = -1, NO_MARK = -1 };

static int64_t plus(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Opening. */

static int compare_steps(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

hs_code hs__schedule_add(struct hs_session *session, size_t index, const hs_hook *given, hs_error *err)
{
    const hs_trigger *when = &given->when;
    const hs__hook *hook = &session->hooks[index];
    hs__hook_schedule *h = &hook->cold->when;
    *h = (hs__hook_schedule){
        .is_set = hs__trigger_is_set(when) || given->flags & HS__HOOK_AFTER_SAVES,
        .is_before =
            (hook->before_run && !(given->flags & HS__HOOK_WATCHES_BEFORE)) || hook->cold->ops.fetches || when->counts_runs,
        .chief_only = given->flags & HS_HOOK_CHIEF_ONLY || !hs__is_in_group(session),
        .on_request = when->on_request,
        .first = when->first,
        .last = when->last,
        .counts_runs = when->counts_runs,
        .after_saves = given->flags & HS__HOOK_AFTER_SAVES,
        .kinds = (uint8_t)hook->cold->wanted_kinds,
        .every_n_steps = when->every_n_steps,
        .due_from = INT64_MAX,
        .next_listed = INT64_MAX,
        .is_saved = when->every_n_steps || (when->at_steps && when->at_steps[0] != -1),
    };
    session->schedule.n_added = index + 1;
    if (!hs__trigger_is_set(when))
        return HS_OK;
    hs_code code = hs__trigger_check(when, err);
    if (code) {
        hs_error_prefix(err, "hook '%s': when", hook->cold->ops.name);
        return code;
    }
    h->every_ns = when->every_n_secs > 0 && when->every_n_secs < 1e-9 ? 1 : (int64_t)(when->every_n_secs * 1e9);
    while (when->at_steps && when->at_steps[h->n_steps] != -1)
        h->n_steps++;
    if (h->n_steps && !(h->steps = hs__alloc(&session->env, h->n_steps, sizeof *h->steps)))
        return hs__no_memory(err, h->n_steps, "the steps of a hook");
    if (h->n_steps) {
        h->next_listed = UNKNOWN;
        memcpy(h->steps, when->at_steps, h->n_steps * sizeof *h->steps);
        qsort(h->steps, h->n_steps, sizeof *h->steps, compare_steps);
    }
    return HS_OK;
}

void hs__schedule_free(struct hs_session *session)
{
    for (size_t i = 0; i < session->schedule.n_added; i++)
        hs__free(&session->env, session->cold[i].when.steps);
    hs__free(&session->env, session->schedule.due);
}

/* Whether global steps can still meet a condition. If all listed steps have passed, the step is not read for them, so that
 * they do not come again if the program sets it back. */
static bool needs_step(const hs__hook_schedule *h)
{
    return !h->counts_runs && (h->every_n_steps || h->next_listed != INT64_MAX || h->due_from != INT64_MAX);
}

/* Which hooks have conditions, and whether a run must read the clock for them. */
static void find_needs(struct hs_session *session)
{
    hs__schedule *s = &session->schedule;
    s->has_conditions = s->reads_clock = false;
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook_schedule *h = &session->cold[i].when;
        h->is_set |= h->sets_due;
        s->has_conditions |= h->is_set;
        s->reads_clock |= h->every_ns > 0;
    }
}

/* Lists the hooks that this run calls. */
static void list_due(struct hs_session *session)
{
    hs__schedule *s = &session->schedule;
    s->n_due = 0;
    s->is_acting = session->plans[0].is_whole = false;
    for (size_t i = 0; i < session->n_hooks; i++) {
        const hs__hook_schedule *h = &session->cold[i].when;
        s->is_acting |= h->acts;
        if (h->acts || !h->is_set)
            s->due[s->n_due++] = &session->hooks[i];
    }
}

hs_code hs__schedule_begin(struct hs_session *session, hs_error *err)
{
    const hs_backend backend = session->raw.backend;
    for (size_t i = 0; i < session->n_hooks; i++) {
        const hs__hook_cold *cold = session->hooks[i].cold;
        const char *const *fetches = cold->ops.fetches;
        hs_code code = needs_step(&session->cold[i].when) ? hs_backend_check_global_step(backend, err) : HS_OK;
        for (size_t k = 0; !code && !cold->best_effort && fetches && fetches[k]; k++)
            code = hs_backend_check_tensor(backend, fetches[k], err);
        if (code) {
            hs_error_prefix(err, "hook '%s'", cold->ops.name);
            return code;
        }
    }
    session->schedule.has_step = hs_backend_global_step_name(backend) != NULL;
    find_needs(session);
    list_due(session);
    return HS_OK;
}

/* Decisions. */

static int64_t now_of(const hs__schedule *s, const hs__hook_schedule *h)
{
    return h->chief_only ? s->now_ns : s->group_ns;
}

static int64_t requests_of(const struct hs_session *session, const hs__hook_schedule *h)
{
    return h->chief_only ? (int64_t)atomic_load_explicit(&session->save_requests, memory_order_relaxed)
                         : session->schedule.group_requests;
}

/* What the hook's steps count: global steps, or the successful runs of its kinds. Without global steps: all runs. */
static int64_t position(const hs__schedule *s, const hs__hook_schedule *h)
{
    if (!h->counts_runs)
        return s->has_step ? s->step : (int64_t)s->all_runs;
    int64_t runs = h->runs_before;
    for (int kind = HS_RUN_TRAIN; kind <= HS_RUN_AUX; kind++)
        if (h->kinds >> kind & 1)
            runs += (int64_t)s->runs[kind];
    return runs;
}

/* The first listed step from `step` on. */
static int64_t listed_from(const hs__hook_schedule *h, int64_t step)
{
    size_t low = 0, high = h->n_steps;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->steps[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < h->n_steps ? h->steps[low] : INT64_MAX;
}

/* Begins, or begins again, at a position. Without `first`, the intervals count from here. */
static void start(const hs__schedule *s, hs__hook_schedule *h, int64_t at)
{
    h->started = true;
    h->has_acted &= h->acted == at;
    h->acted = at;
    if (h->counts_from > at)
        h->marked = false;
    if (h->next_listed == UNKNOWN)
        h->next_listed = listed_from(h, at);
    else if (h->next_listed > at) /* listed steps up to `at` have fired; a recovery may have changed it */
        h->next_listed = listed_from(h, plus(at, 1));
    else /* it was reached, but has not fired */
        h->next_listed = listed_from(h, h->next_listed);
    if (!h->marked && !h->first) {
        h->marked = true;
        h->counts_from = at;
        h->last_ns = now_of(s, h);
    }
}

static bool is_due(const struct hs_session *session, hs__hook_schedule *h, int64_t at)
{
    const hs__schedule *s = &session->schedule;
    const int64_t now = now_of(s, h);
    h->requested = requests_of(session, h);
    if (h->marked && !h->last_ns)
        h->last_ns = now;
    h->by_steps =
        h->marked ? h->every_n_steps && at >= h->counts_from && at - h->counts_from >= h->every_n_steps : h->first;
    /* after a run without a step, a second act by time would repeat the first */
    const bool by_time = h->every_ns && h->marked && now - h->last_ns >= h->every_ns && at != h->acted;
    h->by_when = h->by_steps || at >= h->next_listed || by_time || (h->on_request && h->requested != h->requests);
    return h->by_when || at >= h->due_from || h->is_news;
}

/* Finds the earliest values at which a hook is due: below them, no decision is needed. And whether a run must read the
 * step: in a group, the hooks of all ranks must see on each rank that it is set back, whatever the chief's own hooks read.
 */
static void find_next(struct hs_session *session)
{
    hs__schedule *s = &session->schedule;
    s->next_before = s->next_after = s->next_ns = s->next_group_ns = INT64_MAX;
    s->next_run = UINT64_MAX;
    s->reads_step = false;
    for (size_t i = 0; i < session->n_hooks; i++) {
        const hs__hook_schedule *h = &session->cold[i].when;
        if (!h->is_set || !session->hooks[i].kinds) /* hs__unmute_due decides again */
            continue;
        s->reads_step |= needs_step(h) || (!h->chief_only && s->has_step);
        int64_t next = smaller(h->due_from, h->next_listed);
        if (h->is_news || (!h->marked && h->first) || (h->on_request && requests_of(session, h) != h->requests))
            next = 0;
        else if (h->marked && h->every_n_steps)
            next = smaller(next, plus(h->counts_from, h->every_n_steps));
        if (h->counts_runs) {
            const int64_t last = position(s, h) + 1; /* before the runs that are left */
            const uint64_t from = s->all_runs + (next > last ? (uint64_t)(next - last) : 0);
            s->next_run = from < s->next_run ? from : s->next_run;
        } else if (h->is_before) {
            s->next_before = smaller(s->next_before, next - 1);
        } else {
            s->next_after = smaller(s->next_after, next);
        }
        int64_t *next_ns = h->chief_only ? &s->next_ns : &s->next_group_ns;
        if (h->every_ns && h->marked)
            *next_ns = smaller(*next_ns, h->last_ns ? plus(h->last_ns, h->every_ns) : 0);
    }
}

hs_code hs__schedule_decide_before(struct hs_session *session, hs_error *err)
{
    hs__schedule *s = &session->schedule;
    if (s->restores != session->raw.restores)
        hs__schedule_restart(session);
    if (s->is_stale)
        find_needs(session);
    if (s->restarts)
        s->first_run = s->all_runs + 1;
    if (s->has_step && (s->restarts || (s->reads_step && s->moves != session->raw.moves))) {
        const int64_t step = hs_run_context_global_step(&session->context, err);
        if (step < 0)
            return err->code;
        if (step < s->step)
            hs__schedule_restart(session);
        s->step = step;
        s->moves = session->raw.moves;
    }
    if (s->restarts) {
        s->seen_step = s->step;
        atomic_store_explicit(&session->signals.next_step, s->step + 1, memory_order_relaxed);
    }
    const bool was_stale = s->is_stale;
    s->is_stale = s->restarts = false;
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook_schedule *h = &session->cold[i].when;
        const int64_t at = position(s, h);
        if (h->is_set && !h->started)
            start(s, h, at);
        const bool called = session->hooks[i].kinds >> session->context.kind & 1;
        h->acts = h->is_set && h->is_before && called && is_due(session, h, plus(at, 1));
    }
    s->seen_before = hs__schedule_seen(session);
    list_due(session);
    if (was_stale || !s->is_acting) /* otherwise the next run decides again */
        find_next(session);
    return HS_OK;
}

void hs__schedule_decide_after(struct hs_session *session)
{
    hs__schedule *s = &session->schedule;
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook_schedule *h = &session->cold[i].when;
        const bool called = session->hooks[i].kinds >> session->context.kind & 1;
        if (h->is_set && !h->started)
            start(s, h, position(s, h));
        if (!h->is_set || h->is_before)
            continue;
        h->acts = called && is_due(session, h, position(s, h));
    }
    s->seen_after = hs__schedule_seen(session);
    list_due(session);
    find_next(session);
}

void hs__schedule_stall(struct hs_session *session)
{
    hs__schedule *s = &session->schedule;
    if (s->warns_of_stall && !s->stalled)
        hs_log(&session->env, HS_LOG_WARNING,
               "step %lld: the global step does not advance; check that runs fetch the training op, and that it advances "
               "the step",
               (long long)s->step);
    s->stalled = true;
}

bool hs__raw_session_interval_has_begun(const hs_raw_session *raw)
{
    const struct hs_session *session = raw->owner;
    return session->callee->cold->when.marked;
}

void hs__raw_session_warn_of_stalls(hs_raw_session *raw)
{
    raw->owner->schedule.warns_of_stall = true;
}

/* The hook has acted: every_n_secs counts from now on, and every_n_steps if it or `first` was met. */
static void mark(struct hs_session *session, hs__hook_schedule *h)
{
    const hs__schedule *s = &session->schedule;
    const int64_t at = position(s, h);
    h->last_ns = now_of(s, h);
    h->requests = h->requested;
    if (!h->started) /* a hook of this run has restored another position */
        return;
    if (!h->marked || !h->every_n_steps || h->by_steps)
        h->counts_from = at;
    h->marked = true;
    h->acted = at;
    h->has_acted = true;
    h->next_listed = listed_from(h, plus(at, 1));
}

void hs__schedule_acted(struct hs_session *session, const hs__hook *hook)
{
    hs__hook_schedule *h = &hook->cold->when;
    h->acts = h->is_news = false;
    if (h->is_set && h->by_when)
        mark(session, h);
}

bool hs__run_context_is_due(const hs_run_context *run)
{
    const struct hs_session *session = run->session;
    const hs__hook_schedule *h = &session->callee->cold->when;
    return h->by_when || !h->is_set;
}

bool hs__run_context_is_requested(hs_run_context *run)
{
    struct hs_session *session = run->session;
    hs__hook_schedule *h = &session->callee->cold->when;
    if (run->boundary)
        h->requested = requests_of(session, h);
    return h->requested != h->requests;
}

void hs__run_context_acted(hs_run_context *run, bool restarts)
{
    struct hs_session *session = run->session;
    hs__schedule *s = &session->schedule;
    hs__hook_schedule *h = &session->callee->cold->when;
    if (s->restores != session->raw.restores)
        hs__schedule_restart(session);
    const int64_t step = hs_run_context_global_step(run, NULL);
    s->step = step < 0 ? s->step : step;
    if (s->reads_clock)
        s->now_ns = hs__run_context_coarse_now(run);
    if (!h->started)
        start(s, h, position(s, h));
    h->by_steps = restarts;
    mark(session, h);
    s->is_stale = true;
}

hs_code hs__schedule_decide_again(struct hs_session *session, size_t *i, hs_error *err)
{
    hs__schedule *s = &session->schedule;
    const hs__hook *hook = s->due[*i];
    if (s->has_step) {
        const int64_t step = hs_run_context_global_step(&session->context, err), before = s->step;
        if (step < 0)
            return err->code;
        s->moves = session->raw.moves;
        s->step = step;
        if (step < before)
            hs__schedule_restart(session);
    }
    hs__schedule_decide_after(session);
    for (*i = s->n_due; *i > 0 && s->due[*i - 1] > hook; --*i)
        continue;
    --*i; /* of the hook, or of the one before it if it has acted */
    return HS_OK;
}

bool hs__schedule_is_due_last(struct hs_session *session, const hs__hook *hook)
{
    hs__schedule *s = &session->schedule;
    const hs__hook_schedule *h = &hook->cold->when;
    if (!s->all_runs)
        return false;
    if (s->has_step && !h->counts_runs) { /* runs without hooks may have changed it */
        int64_t step = hs_raw_session_global_step(&session->raw, NULL);
        s->step = step < 0 ? s->step : step;
    }
    return !h->has_acted || position(s, h) != h->acted;
}

void hs__schedule_saved(struct hs_session *session)
{
    for (size_t i = 0; i < session->n_hooks; i++)
        session->cold[i].when.is_news = session->cold[i].when.after_saves;
    session->schedule.is_stale = true;
}

void hs__schedule_restart(struct hs_session *session)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook_schedule *h = &session->cold[i].when;
        h->started = false;
        h->marked &= !h->first || h->is_saved;
        h->is_news = h->after_saves;
    }
    session->schedule.is_stale = session->schedule.restarts = true;
    session->schedule.restores = session->raw.restores;
}

void hs_raw_session_due_from(hs_raw_session *raw, int64_t step)
{
    struct hs_session *session = raw ? raw->owner : NULL;
    if (!session || !session->callee)
        return;
    hs__hook_schedule *h = &session->callee->cold->when;
    const bool counts = session->schedule.has_step || h->counts_runs;
    const int64_t from = step == HS_NEVER || !counts ? INT64_MAX : step < 0 ? 0 : step;
    if (from == h->due_from && h->is_set)
        return;
    h->due_from = from;
    h->sets_due = session->schedule.has_conditions = session->schedule.is_stale = true; /* from the next run on */
}

/* The position of a hook in checkpoints: the step from which every_n_steps counts (0 if only that there is one matters), or
 * NO_MARK; the next listed step, or UNKNOWN; the runs, with counts_runs. */

hs_code hs__schedule_save(void *self, hs_state_writer *out, hs_error *err)
{
    const hs__hook *hook = self;
    const hs__hook_schedule *h = &hook->cold->when;
    int64_t state[] = {NO_MARK, h->n_steps ? h->next_listed : UNKNOWN,
                       h->counts_runs ? position(&hook->cold->session->schedule, h) : 0};
    if (h->marked) /* otherwise the state would depend on the clock */
        state[0] = h->every_ns && !h->every_n_steps ? 0 : h->counts_from;
    return hs_state_writer_write(out, state, sizeof state, err);
}

hs_code hs__schedule_load(void *self, hs_state_reader *in, hs_error *err)
{
    const hs__hook *hook = self;
    hs__schedule *s = &hook->cold->session->schedule;
    hs__hook_schedule *h = &hook->cold->when;
    int64_t state[3];
    hs_code code = hs_state_reader_read(in, state, sizeof state, err);
    if (code)
        return code;
    if (state[2] < 0 || state[2] > INT64_MAX / 2)
        return hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld runs", (long long)state[2]);
    h->started = h->by_steps = false;
    h->marked = state[0] >= 0;
    h->counts_from = h->marked ? state[0] : 0;
    h->last_ns = 0;
    h->next_listed = !h->n_steps ? INT64_MAX : state[1] >= 0 ? state[1] : UNKNOWN;
    h->runs_before += h->counts_runs ? state[2] - position(s, h) : 0;
    s->is_stale = s->restarts = true;
    return HS_OK;
}
