/* SPDX-License-Identifier: Apache-2.0 */
/* Validates and calls the functions of a group. Without a group, acts as a group of one rank. */
#include "ranks/group.h"

#include "base/error.h"

/* True if the group has the function. An engine that was compiled with older headers has a smaller struct. */
#define HAS(group, member)                                                                                                 \
    ((group)->ops->size >= offsetof(hs_group_ops, member) + sizeof(group)->ops->member && (group)->ops->member)

hs_code hs__group_check(const hs_group *group, hs_error *err)
{
    hs_group_ops ops;
    hs_error_clear(err);
    if (!group)
        return HS_OK;
    if (!group->ops)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_group.ops is NULL");
    hs_code code = HS_STRUCT_TAKE(hs_group_ops, report_step, &ops, group->ops, err);
    if (code)
        return code;
    if (!ops.name || !ops.rank || !ops.rank_count || !ops.allreduce_or || !ops.broadcast || !ops.gather)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "group '%s' lacks one of the required members name, rank, rank_count, allreduce_or, broadcast "
                            "and gather",
                            ops.name ? ops.name : "?");
    int32_t rank = ops.rank(group->self), rank_count = ops.rank_count(group->self);
    if (rank < 0 || rank >= rank_count)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "group '%s': rank %d is not in a group of %d ranks", ops.name,
                            (int)rank, (int)rank_count);
    return HS_OK;
}

int32_t hs__group_rank(const hs_group *group)
{
    return group ? group->ops->rank(group->self) : 0;
}

int32_t hs__group_rank_count(const hs_group *group)
{
    return group ? group->ops->rank_count(group->self) : 1;
}

/* Checks the root of a collective call. */
static hs_code check_root(const hs_group *group, const char *what, int32_t root, hs_error *err)
{
    int32_t rank_count = hs__group_rank_count(group);
    if (root >= 0 && root < rank_count)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: root %d is not in a group of %d ranks", what, (int)root,
                        (int)rank_count);
}

hs_code hs__group_allreduce_or(const hs_group *group, uint64_t *words, size_t n, hs_error *err)
{
    hs_error unused;
    err = err ? err : &unused;
    hs__clear(err);
    if (n > HS__GROUP_WORDS_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "allreduce_or: %zu words; at most %d are allowed", n,
                            HS__GROUP_WORDS_MAX);
    if (!group)
        return HS_OK;
    return hs__normalize_error(group->ops->allreduce_or(group->self, words, n, err), "allreduce_or of the group", err);
}

hs_code hs__group_broadcast(const hs_group *group, void *data, size_t bytes, int32_t root, hs_error *err)
{
    hs_error unused;
    err = err ? err : &unused;
    hs__clear(err);
    hs_code code = check_root(group, "broadcast", root, err);
    if (code || !group)
        return code;
    return hs__normalize_error(group->ops->broadcast(group->self, data, bytes, root, err), "broadcast of the group", err);
}

hs_code hs__group_gather(const hs_group *group, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user,
                         hs_error *err)
{
    hs_error unused;
    err = err ? err : &unused;
    hs__clear(err);
    hs_code code = check_root(group, "gather", root, err);
    if (code)
        return code;
    if (!group) {
        receive(user, 0, mine);
        return HS_OK;
    }
    return hs__normalize_error(group->ops->gather(group->self, mine, root, receive, user, err), "gather of the group", err);
}

hs_code hs__group_barrier(const hs_group *group, hs_error *err)
{
    hs_error unused;
    err = err ? err : &unused;
    if (!group || !HAS(group, barrier))
        return hs__group_allreduce_or(group, NULL, 0, err);
    hs__clear(err);
    return hs__normalize_error(group->ops->barrier(group->self, err), "barrier of the group", err);
}

bool hs__group_report_exit(const hs_group *group, const hs_error *reason)
{
    static const hs_error normal;
    if (!group || !HAS(group, report_exit))
        return false;
    group->ops->report_exit(group->self, reason ? reason : &normal);
    return true;
}

hs_code hs__group_query_failed_rank(const hs_group *group, int32_t *rank, hs_error *err)
{
    hs_error unused;
    err = err ? err : &unused;
    hs__clear(err);
    *rank = -1;
    if (!group || !HAS(group, query_failed_rank))
        return HS_OK;
    return hs__normalize_error(group->ops->query_failed_rank(group->self, rank, err), "failure detector of the group", err);
}

bool hs__group_report_step(const hs_group *group, hs_step_place place, int64_t step, double limit_secs)
{
    const bool has = HAS(group, report_step);
    if (has)
        group->ops->report_step(group->self, place, step, limit_secs);
    return has;
}

void hs__group_set_abandon(const hs_group *group, hs_abandon_fn abandon, void *user)
{
    if (group && HAS(group, set_abandon))
        group->ops->set_abandon(group->self, abandon, user);
}
