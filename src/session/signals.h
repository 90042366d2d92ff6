/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SIGNALS_H
#define HS_SESSION_SIGNALS_H

#include <hooksess/session.h>

#include <stdatomic.h>

/* Signals that stop a session. signals.c writes the members. */
typedef struct hs__signals {
    bool handled;                  /* hs_session_options.signals */
    bool answers;                  /* Ctrl-C at once: on rank 0, if standard error is a terminal; with the next two */
    atomic_bool saves;             /* the session has a checkpoint saver, or was saved */
    atomic_int_fast64_t next_step; /* that the next run or the current one makes; 0: unknown, or none */
    double grace_secs;             /* 0: no limit, or not handled */
    atomic_int first;              /* the first signal that requested a stop */
    int adopted; /* the same of another rank of the group, which does not count as the first here; 0: none */
    atomic_int_fast64_t first_ns; /* its time, by the system's monotonic clock */
    int64_t deadline_ns;          /* when the process may be killed, by env; 0: not computed since the stop request */
} hs__signals;

/* Checks the options. If the session handles signals: a handler records them in the session from now on. */
hs_code hs__signals_begin(struct hs_session *session, const hs_session_options *options, hs_error *err);
void hs__signals_end(struct hs_session *session);
/* The first signal that requested a stop; 0: no signal did. */
int hs__signals_first(const struct hs_session *session);
/* In a group: the signal that another rank got. */
void hs__signals_adopt(struct hs_session *session, int signal);
/* Returns the seconds until the process may be killed: what remains of signal_grace_secs after the first signal or
 * hs_session_interrupt. 0: none, or a second signal came. HS_NEVER: no such request, or no limit. Without
 * hs_session_options.signals: 30 s from the first call that finds the request. */
double hs__grace_left_secs(struct hs_session *session);

#endif
