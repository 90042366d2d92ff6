/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_TIMER_H
#define HS_HOOKS_TIMER_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* When something that is done from time to time is due. TensorFlow: SecondOrStepTimer, for one interval. */
typedef struct hs__timer {
    int64_t every_ns, every_n_steps; /* 0: not so */
    int64_t *at;                     /* the listed steps, ascending; owned */
    size_t n_at;
    bool on_request, first, last; /* first: due while it is not marked. last is for the hook to heed */
    bool from_zero;               /* the state counts from 0 what the hook counts from 1 */
    bool marked;
    bool by_steps;     /* what is due is so by steps, or for the first time: the rhythm goes on from it */
    uint32_t requests; /* seen so far */
    int64_t listed;    /* the next of the listed steps; INT64_MAX: none; negative: not known before it is started */
    int64_t last_ns;   /* when it was done last */
    int64_t last_step; /* where the rhythm by steps goes on from */
    int64_t done_step; /* where it was done last, or where the session began: nothing new is to be done there */
} hs__timer;

/* What a hook's options say: a pair, of which one is given, or a trigger. */
typedef struct hs__timing {
    double secs;
    int64_t steps;
    const hs_trigger *trigger;
    const char *secs_name, *steps_name; /* the options' names, for messages */
    bool first;                         /* the pair fires in the first run, too */
    bool optional;                      /* nothing given is no error: it is never due */
    bool on_request;                    /* requests count, whatever is given */
} hs__timing;

/* HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. After a failure there is nothing to free. */
hs_code hs__timer_init(hs__timer *timer, const hs__timing *timing, const hs_env *env, hs_error *err);
void hs__timer_free(hs__timer *timer, const hs_env *env);

/* For begin: nothing was done so far, nor requested. */
void hs__timer_reset(hs__timer *timer);
/* Once a session is there (again), before its first run: the step where it stands. A mark beyond it is none; what the list
 * has before it has passed. */
void hs__timer_start(hs__timer *timer, int64_t step);
/* The intervals begin here, unless they go on, or the first run is due. Reads the clock, if so. */
void hs__timer_begin(hs__timer *timer, hs_run_context *run, int64_t step);
/* Both, where the session was restored after its first run: what was done first is not done again. */
void hs__timer_go_on(hs__timer *timer, hs_run_context *run, int64_t step);

/* Does it need to know the step in every run? So it rides in the checkpoint, too. */
bool hs__timer_goes_by_steps(const hs__timer *timer);
/* May it be due in this run? Reads the clock (shared by all hooks) only if it goes by time, and never the step: what may be
 * due is worth reading it for. */
bool hs__timer_may_be_due(const hs__timer *timer, hs_run_context *run);
/* Is it, if this is the step? */
bool hs__timer_due_in(hs__timer *timer, hs_run_context *run, int64_t step);
/* Marks that what was due is done. True, and the seconds since then, if it was done before. Reads the clock only if it goes
 * by time, or for the seconds. */
bool hs__timer_mark_in(hs__timer *timer, hs_run_context *run, int64_t step, double *elapsed_secs);
/* All of the above, after a run, by the global step. By time, it does not fire in a run that makes no step: the next step
 * fires, instead of waiting for another interval. */
hs_code hs__timer_fires(hs__timer *timer, hs_run_context *run, bool *fires, hs_error *err);
/* Is the next of the listed steps reached? */
bool hs__timer_is_listed(const hs__timer *timer, int64_t step);
/* Was something requested that was not seen to? It is, from now on. */
bool hs__timer_is_requested(const hs__timer *timer, const hs_run_context *run);
void hs__timer_take_request(hs__timer *timer, const hs_run_context *run);

/* The same without a run: everything that is due at this moment; and a mark from which both intervals begin, with the time
 * and the steps since the mark before. */
bool hs__timer_due(const hs__timer *timer, int64_t step, int64_t now_ns, uint32_t requests);
bool hs__timer_mark(hs__timer *timer, int64_t step, int64_t now_ns, double *elapsed_secs, int64_t *elapsed_steps);

/* For a hook's save_state and load_state, the last part of its state, so that a resumed run goes on in the rhythm of the
 * one before. Only steps are remembered: a timer that goes by seconds begins anew, and two runs of the same steps save the
 * same bytes. Time that has elapsed is reckoned from `now_ns`, the moment of the loading.
 *
 * An int64, the step of the last mark, or -1; where steps are listed, another one, the next of them. What is there of
 * another trigger than the timer's is passed over. */
hs_code hs__timer_save(const hs__timer *timer, hs_state_writer *out, hs_error *err);
hs_code hs__timer_load(hs__timer *timer, int64_t now_ns, hs_state_reader *in, hs_error *err);

#endif
