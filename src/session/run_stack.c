/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of nested runs, one per level, and what a run that waits for data checks. */
#include "session/session.h"

/* True from one second after a waiting run first saw that the threads stop. The delay lets a failed thread close its queue
 * with its own error. */
static bool thread_grace_over(struct hs_session *session)
{
    static const int64_t GRACE_NS = 1000000000;
    int64_t since = 0;
    if (!hs_coordinator_should_stop(session->coordinator)) {
        atomic_store(&session->data_wait.thread_failed_ns, 0);
        return false;
    }
    int64_t now = hs_env_monotonic_ns(&session->env);
    return !atomic_compare_exchange_strong(&session->data_wait.thread_failed_ns, &since, now) && now - since >= GRACE_NS;
}

void hs__forget_thread_failure(struct hs_session *session)
{
    atomic_store(&session->data_wait.thread_failed_ns, 0);
}

static bool stop_requested(void *user)
{
    return hs__stop_requested(user) || thread_grace_over(user);
}

/* A run that waits for data is in HS_PHASE_DATA. Its polls are not progress, because they continue while the data
 * stalls. */
static void set_waiting(void *user, bool waiting)
{
    struct hs_session *session = user;
    if (waiting)
        session->data_wait.phase_before = hs__enter(session, HS_PHASE_DATA);
    else
        hs__enter(session, session->data_wait.phase_before);
}

/* A raw run that the program makes between hooked runs has the same plan, but no gate. */
static hs_code pass_gate(void *user, hs_error *err)
{
    struct hs_session *session = user;
    bool trains = session->level == 1 && session->context.kind == HS_RUN_TRAIN;
    return trains ? hs__pass_gate(session, err) : HS_OK;
}

static bool has_input(void *user)
{
    return hs_session_has_input(user);
}

static hs_code new_plan(struct hs_session *session, hs_error *err)
{
    hs_code code = hs__reserve(&session->env, &session->plans, &session->plans_capacity, session->n_plans + 1,
                               sizeof *session->plans, err);
    if (code)
        return code;
    hs__run_plan *plan = hs__alloc(&session->env, 1, sizeof *plan);
    if (!plan)
        return hs__no_memory(err, sizeof *plan, "the plan of a run");
    hs__run_plan_init(plan, &session->env);
    plan->call.level = session->n_plans;
    plan->call.stop_requested = stop_requested;
    plan->call.waits = set_waiting;
    if (hs__is_replica(session) && session->n_plans == 0) { /* hooked runs */
        plan->call.pass_gate = pass_gate;
        plan->call.has_input = has_input;
    }
    plan->call.user = session;
    for (size_t i = 0; i < session->n_hooks && session->n_plans == 0; i++)
        session->hooks[i].values.plan = plan; /* hooks are called at level 0 */
    session->plans[session->n_plans++] = plan;
    return HS_OK;
}

hs_code hs__reserve_level(struct hs_session *session, size_t level, hs_error *err)
{
    hs_code code = HS_OK;
    while (!code && session->n_plans <= level)
        code = new_plan(session, err);
    if (!(session->raw.ops.flags & HS_BACKEND_KEEPS_VALUES))
        for (size_t i = 0; !code && i < level; i++)
            code = hs__run_plan_preserve(session->plans[i], err);
    return code;
}
