/* SPDX-License-Identifier: Apache-2.0 */
/* train_meta GRAPH DIRECTORY STEPS [show]: trains a graph up to a step, from the newest checkpoint in the directory, and
 * prints the losses. With "show", also TensorFlow's log. */
#include "tensorflow/graphs.h"

#include <inttypes.h>

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user;
    test_check_line(text);
    if (level >= HS_LOG_ERROR)
        fprintf(stderr, "%s\n", text);
}

int main(int n, char **arguments)
{
    if (n < 4)
        return 2;
    hs_error err = {0};
    hs_env env = HS_INIT(hs_env, .logger = {no_log, NULL});
    hs_backend tf = hs_tensorflow_open(arguments[1], HS_TENSORFLOW_OPTIONS(.env = &env, .show_log = n > 4), &err);
    hs_hook stop = hs_stop_at_step(.last_step = strtoll(arguments[3], NULL, 10));
    hs_session *session =
        hs_training_session_open(tf,
                                 HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(stop), .checkpoint_dir = arguments[2],
                                                     .save_checkpoint_steps = 5, .save_summaries_steps = 1),
                                 &err);
    while (!hs_session_should_stop(session)) {
        batch b;
        const hs_run_values *values;
        fill_batch(&b, hs_session_global_step(session, NULL));
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "train_op"), .feeds = b.feeds);
        if (hs_session_run_args(session, &args, &values, &err) != HS_OK)
            break;
        printf("%.17g\n", hs_run_values_number(values, 0));
    }
    hs_outcome outcome = hs_session_close(session, &err);
    hs_tensorflow_free(tf);
    return hs_outcome_exit_code(&outcome);
}
