/* SPDX-License-Identifier: Apache-2.0 */
/* train_ranks HOST:PORT|DIRECTORY CHECKPOINTS LAST_STEP [CONNECT_SECS]: a rank of a training over TCP. A launcher sets
 * its number. Prints each hundredth step, and at the end the outcome and the weight. The exit code is that of the outcome.
 */
#include <hooksess/group_tcp.h>
#include <hooksess/hooksess.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 10 };

static void add(void *sum, int32_t rank, hs_bytes bytes)
{
    (void)rank;
    *(double *)sum += *(const double *)bytes.data;
}

static hs_code sum_over_ranks(const hs_group *group, double *gradient, hs_error *err)
{
    double sum = 0;
    hs_code code = group->ops->gather(group->self, (hs_bytes){gradient, sizeof sum}, 0, add, &sum, err);
    if (!code)
        code = group->ops->broadcast(group->self, &sum, sizeof sum, 0, err);
    *gradient = sum;
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    double weight = 0;
    int64_t position = 0;
    hs_error err;
    const bool is_directory = strchr(argv[1], '/');
    hs_group_tcp *tcp = hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.address = is_directory ? NULL : argv[1],
                                                                   .rendezvous_dir = is_directory ? argv[1] : NULL,
                                                                   .connect_secs = argc > 4 ? atof(argv[4]) : 30),
                                              &err);
    if (!tcp) {
        const hs_outcome failed = hs_outcome_from_error(&err);
        printf("%s\n", err.message);
        return hs_outcome_exit_code(&failed);
    }
    const hs_group *group = hs_group_tcp_get(tcp);
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &weight);
    hs_graph_bytes(graph, "position", &position, sizeof position);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argv[2], .save_checkpoint_steps = 30, .log_step_count_steps = HS_NEVER,
                            .save_summaries_steps = HS_NEVER, .group = group,
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = atoll(argv[3])))),
        &err);
    while (hs_step_begin(s)) {
        double gradient = weight - (double)((position + hs_session_rank(s)) % 100);
        poll(NULL, 0, STEP_MS);
        if (hs_step_pass_gate(s) == HS_OK) {
            if (sum_over_ranks(group, &gradient, &err) != HS_OK) {
                hs_session_fail(s, &err);
                break;
            }
            weight -= 0.01 * gradient;
            position += hs_session_rank_count(s);
        }
        hs_step_end(s);
        if (hs_session_global_step(s, NULL) % 100 == 0) {
            printf("step %lld\n", (long long)hs_session_global_step(s, NULL));
            fflush(stdout);
        }
    }
    const hs_outcome outcome = hs_session_close(s, NULL);
    printf("%s at %lld with %a: %s\n", hs_reason_name(outcome.reason), (long long)outcome.step, weight,
           outcome.error.message);
    hs_graph_free(graph);
    hs_group_tcp_free(tcp);
    return hs_outcome_exit_code(&outcome);
}
