/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_GROUP_OF_ONE_H
#define HS_TESTS_SUPPORT_GROUP_OF_ONE_H

/* A group with a single rank, whose collective calls do nothing. */

#include <hooksess/group.h>

static inline int32_t group_of_one_rank(void *self)
{
    (void)self;
    return 0;
}

static inline int32_t group_of_one_rank_count(void *self)
{
    (void)self;
    return 1;
}

static inline hs_code group_of_one_allreduce_or(void *self, uint64_t *words, size_t n, hs_error *err)
{
    (void)self, (void)words, (void)n, (void)err;
    return HS_OK;
}

static inline hs_code group_of_one_broadcast(void *self, void *data, size_t bytes, int32_t root, hs_error *err)
{
    (void)self, (void)data, (void)bytes, (void)root, (void)err;
    return HS_OK;
}

static inline hs_code group_of_one_gather(void *self, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user,
                                          hs_error *err)
{
    (void)self, (void)root, (void)err;
    receive(user, 0, mine);
    return HS_OK;
}

static const hs_group_ops group_of_one_ops =
    HS_INIT(hs_group_ops, .name = "one", .rank = group_of_one_rank, .rank_count = group_of_one_rank_count,
            .allreduce_or = group_of_one_allreduce_or, .broadcast = group_of_one_broadcast, .gather = group_of_one_gather);

static const hs_group group_of_one = {.ops = &group_of_one_ops, .self = NULL};

#endif
