/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_RUN_H
#define HS_SESSION_RUN_H

#include <hooksess/session.h>

struct hs__hook;

/* run.c */

/* Flushes the writers and calls the `boundary` callback of every hook. */
hs_code hs__call_boundaries(struct hs_session *session, hs_boundary which, hs_error *err);

/* When the session ends normally: calls a late hook with its last values, and a hook whose `when` has `last`, unless it has
 * acted at this step. A raw run makes its fetches. */
hs_code hs__act_last(struct hs_session *session, struct hs__hook *hook, hs_error *err);

/* The session is closed before hs_step_end: memory holds a partial step, which is not saved. */
void hs__discard_own_step(struct hs_session *session);
/* Before the close: fails the session if the program has changed the global step since its last own step. */
void hs__check_own_step(struct hs_session *session);

/* late_values.c */

/* The after_run of late hooks (HS_HOOK_LATE). `self`: the hook's own. */
hs_code hs__late_after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
/* Calls the after_run of a late hook with its values that are not delivered yet, if there are such. */
hs_code hs__late_deliver(struct hs_session *session, const struct hs__hook *hook, hs_error *err);
/* Discards the values that are not delivered yet. */
void hs__late_discard(struct hs_session *session);

/* run_stack.c */

/* For a session with its hooks and its group. */
void hs__plans_init(struct hs_session *session);

/* values.c. The session was opened or restored: no step has computed the values of the graph. */
void hs__session_forget_values(struct hs_session *session);

/* run_context.c */

/* Returns the time of hs_run_context_now, up to some milliseconds late, at a fifth of the cost. For a check in each step.
 */
int64_t hs__run_context_coarse_now(hs_run_context *run);

#endif
