/* SPDX-License-Identifier: Apache-2.0 */
/* env_ranks [HOST:PORT | DIRECTORY]: a rank of a group over TCP, for test_torchrun.py and test_hosts.py. A launcher sets
 * its number. Prints "rank R of N" after a call of all ranks, or prints the error and exits with its code. */
#include <hooksess/group_tcp.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    hs_error err;
    const char *way = argc > 1 ? argv[1] : NULL;
    const bool is_directory = way && strchr(way, '/');
    hs_group_tcp *tcp =
        hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.address = is_directory ? NULL : way,
                                                   .rendezvous_dir = is_directory ? way : NULL, .connect_secs = 30),
                              &err);
    hs_code code = tcp ? HS_OK : err.code;
    if (!code) {
        const hs_group *group = hs_group_tcp_get(tcp);
        const int32_t rank = group->ops->rank(group->self), n = group->ops->rank_count(group->self);
        uint64_t word = UINT64_C(1) << rank;
        code = group->ops->allreduce_or(group->self, &word, 1, &err);
        if (!code && word == (UINT64_C(1) << n) - 1)
            printf("rank %d of %d\n", (int)rank, (int)n);
    }
    if (code)
        printf("%s\n", err.message);
    hs_group_tcp_free(tcp);
    return (int)code;
}
