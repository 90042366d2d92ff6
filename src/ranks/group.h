/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_H
#define HS_RANKS_GROUP_H

/* Calls the functions of a group. In all functions NULL is a group of one rank without a failure detector: its collective
 * calls return immediately. Of the errors of an engine, the returned code counts; an error without a message gets one. */

#include <hooksess/group.h>

/* Words in one call of hs__group_allreduce_or. */
#define HS__GROUP_WORDS_MAX 8

/* Validates a group that the program passes: its functions, rank and rank count. Call it before all other functions.
 * HS_INVALID_ARGUMENT: `ops` is NULL or too small, a required function is missing, or the rank is not in the group. */
hs_code hs__group_check(const hs_group *group, hs_error *err);

int32_t hs__group_rank(const hs_group *group);
int32_t hs__group_rank_count(const hs_group *group);

/* The collective calls (group.h). HS_INVALID_ARGUMENT, before the engine is called: more than HS__GROUP_WORDS_MAX words, or
 * `root` is not a rank. `err` may be NULL. */
hs_code hs__group_allreduce_or(const hs_group *group, uint64_t *words, size_t n, hs_error *err);
hs_code hs__group_broadcast(const hs_group *group, void *data, size_t bytes, int32_t root, hs_error *err);
hs_code hs__group_gather(const hs_group *group, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user,
                         hs_error *err);
hs_code hs__group_barrier(const hs_group *group, hs_error *err);

/* Any thread. `reason` NULL: this rank ends normally. Returns false if the engine does not report exits. */
bool hs__group_report_exit(const hs_group *group, const hs_error *reason);

/* Any thread. Returns HS_OK and sets *rank to -1, or HS_UNAVAILABLE with the failed rank. HS_OK if the engine has no
 * detector. */
hs_code hs__group_query_failed_rank(const hs_group *group, int32_t *rank, hs_error *err);

/* Installs the function that the engine calls before it ends this process (group.h). NULL: removes it. */
void hs__group_set_abandon(const hs_group *group, hs_abandon_fn abandon, void *user);

/* Reports where this rank is (group.h). Returns false if the engine has no limit of steps. */
bool hs__group_report_step(const hs_group *group, hs_step_place place, int64_t step, double limit_secs);

#endif
