/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that a training session adds. */
#include "session/probe.h"

static void open_training(play *p, const hs_training_options *options)
{
    p->session = hs_training_session_open(p->backend, options, &p->err);
    if (!p->session)
        fail_msg("opening: %s", p->err.message);
}

static void ms_128s_a_summary_directory_alone_saves_no_checkpoint(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    open_training(p, HS_TRAINING_OPTIONS(.summary_dir = directory, .save_checkpoint_steps = 1));
    play_train(p);
    assert_int_equal(play_close(p)->last_saved_step, -1);
    assert_int_equal(test_count_files(directory, "tfevents"), 1);
    assert_int_equal(test_count_files(directory, "ckpt"), 0);
    test_remove_directory(directory);
}

static void ms_128s_with_all_intervals_off_it_only_restores(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    open_training(p, HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_steps = 1));
    play_train(p);
    assert_int_equal(play_close(p)->last_saved_step, 1);
    size_t files = test_count_files(directory, "");
    hs_script_set_step(p->script, 0);
    open_training(p, HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_secs = HS_NEVER,
                                         .save_summaries_steps = HS_NEVER, .log_step_count_steps = HS_NEVER));
    assert_int_equal(hs_session_global_step(p->session, NULL), 1);
    assert_int_equal(play_train(p), 2);
    play_close(p);
    assert_int_equal(test_count_files(directory, ""), files);
    test_remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_128s_a_summary_directory_alone_saves_no_checkpoint),
        play_test(ms_128s_with_all_intervals_off_it_only_restores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
