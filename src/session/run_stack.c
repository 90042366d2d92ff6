/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of the two levels of runs, with the functions that a backend calls during a run: while it waits for data, and
 * at the gate of a group. */
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

void hs__plans_init(struct hs_session *session)
{
    for (size_t level = 0; level < 2; level++) {
        hs__run_plan *plan = &session->plans[level];
        plan->env = &session->env;
        plan->call = (hs_backend_call){.size = sizeof plan->call,
                                       .level = level,
                                       .stop_requested = stop_requested,
                                       .waits = set_waiting,
                                       .user = session};
        session->raw_values[level].plan = plan;
    }
    session->values.plan = &session->plans[0];
    for (size_t i = 0; i < session->n_hooks; i++)
        session->hooks[i].values.plan = &session->plans[0];
    if (hs__is_in_group(session)) {
        session->plans[0].call.pass_gate = pass_gate;
        session->plans[0].call.has_input = has_input;
    }
}
