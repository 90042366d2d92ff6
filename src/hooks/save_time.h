/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_SAVE_TIME_H
#define HS_HOOKS_SAVE_TIME_H

#include <hooksess/hook.h>

/* How long saves take, and whether one fits into the time that a signal leaves (hs_raw_session_grace_secs). Where it does
 * not, the state is saved more often than was asked for: what the end cannot save is then at least not old. */
typedef struct hs__save_time {
    int64_t began_ns;
    int64_t often_ns; /* 0: as often as was asked for */
    int64_t last_ns;  /* when the last save was made; meant where often_ns is given */
    bool told, fits;
} hs__save_time;

void hs__save_time_begin(hs__save_time *time, const hs_run_context *run);
/* It succeeded. */
void hs__save_time_end(hs__save_time *time, const hs_run_context *run);
/* How long the last save took, in seconds. */
double hs__save_time_last(const hs__save_time *time);
/* Logs that a save takes half of the time or more, that it does not fit, and that it fits again. */
void hs__save_time_tell(hs__save_time *time, const hs_run_context *run);
/* Is a save due only because one at the end would not fit? */
bool hs__save_time_due(const hs__save_time *time, hs_run_context *run);

#endif
