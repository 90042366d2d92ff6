/* SPDX-License-Identifier: Apache-2.0 */
/* profile_meta GRAPH DIRECTORY STEPS: trains a graph up to a step, traces every third run, and requests the partition
 * graphs. Prints nothing on success. */
#include "tensorflow/graphs.h"

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user;
    test_check_line(text);
    if (level >= HS_LOG_WARNING)
        fprintf(stderr, "%s\n", text);
}

int main(int n, char **arguments)
{
    if (n != 4)
        return 2;
    hs_error err = {0};
    hs_env env = HS_INIT(hs_env, .logger = {no_log, NULL});
    hs_run_options options = HS_INIT(hs_run_options, .output_partition_graphs = true, .timeout_secs = 60);
    hs_backend tf = hs_tensorflow_open(arguments[1], HS_TENSORFLOW_OPTIONS(.env = &env), &err);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = strtoll(arguments[3], NULL, 10)),
                       hs_profiler(.every_n_steps = 3, .trace_dir = arguments[2], .show_memory = true),
                       {.ops = NULL}};
    hs_session *session = hs_training_session_open(
        tf, HS_TRAINING_OPTIONS(.hooks = hooks, .checkpoint_dir = arguments[2], .save_summaries_steps = 1), &err);
    while (!hs_session_should_stop(session)) {
        batch b;
        fill_batch(&b, hs_session_global_step(session, NULL));
        hs_run_args args =
            HS_INIT(hs_run_args, .names = HS_NAMES("loss", "train_op"), .feeds = b.feeds, .options = &options);
        if (hs_session_run_args(session, &args, NULL, &err) != HS_OK)
            break;
    }
    hs_outcome outcome = hs_session_close(session, &err);
    hs_tensorflow_free(tf);
    return hs_outcome_exit_code(&outcome);
}
