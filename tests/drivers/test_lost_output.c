/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings whose log has no reader, or whose files reach the limit of file sizes, in child processes that have the default
 * actions of SIGPIPE and SIGXFSZ. */
#include "checkpoint/model.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STEPS = 6, SIGNAL_STEP = 3 };

typedef struct {
    const char *directory;
    bool background;
    bool limited; /* files reach the limit; otherwise the log loses its reader, and Ctrl-C was pressed */
} loss;

/* As in `program 2>&1 | tee log`, if tee has ended. */
static int close_the_log(void)
{
    int ends[2];
    return pipe(ends) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0 &&
                   close(ends[1]) == 0 && close(ends[0]) == 0
               ? 0
               : -1;
}

static int lose(const loss *what)
{
    struct rlimit limit;
    if (what->limited) {
        getrlimit(RLIMIT_FSIZE, &limit);
        limit.rlim_cur = 0;
        return setrlimit(RLIMIT_FSIZE, &limit);
    }
    raise(SIGINT);
    return close_the_log();
}

/* The body of a child. Returns the exit status of a trainer, or 9. */
static int train(void *user)
{
    const loss *what = user;
    const char *directory = what->directory;
    model m;
    struct rlimit limit;
    hs_error err = {0};
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    model_set(&m, 0);
    model_build(&m, NULL);
    hs_session *session = hs_training_session_open(
        hs_graph_backend(m.graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .save_checkpoint_steps = 2, .background = what->background,
                            .signals = true, .scalars = HS_NAMES("global_step"), .save_summaries_steps = 1,
                            .hooks =
                                HS_HOOKS(hs_watchdog(.heartbeat = test_path(directory, "beat"), .heartbeat_secs = 0.01),
                                         hs_metrics_file(.path = test_path(directory, "x.csv"),
                                                         .tensors = HS_NAMES("global_step"), .every_n_steps = 1),
                                         hs_progress(.every_n_steps = 1), hs_stop_at_step(.last_step = STEPS))),
        &err);
    while (!hs_session_should_stop(session)) {
        if (hs_session_run(session, "train", &err))
            return 9;
        if (m.step == SIGNAL_STEP && lose(what) != 0)
            return 9;
    }
    hs_outcome outcome = hs_session_close(session, &err);
    hs_graph_free(m.graph);
    getrlimit(RLIMIT_FSIZE, &limit); /* gcov writes its files when the process ends */
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    return m.step == (what->limited ? STEPS : SIGNAL_STEP) ? hs_outcome_exit_code(&outcome) : 9;
}

static void a_log_without_a_reader_does_not_prevent_the_save(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        char *directory = test_make_directory();
        assert_int_equal(test_in_child(train, &(loss){.directory = directory, .background = background}), 75);
        assert_true(test_exists(directory, "model.ckpt-3.index"));
        assert_true(test_exists(directory, "outcome.json"));
        test_remove_directory(directory);
    }
}

/* The last step is not saved, so the training fails, but not before its end. */
static void the_limit_of_file_sizes_does_not_end_the_training(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        char *directory = test_make_directory();
        const loss what = {.directory = directory, .background = background, .limited = true};
        assert_int_equal(test_in_child(train, (void *)&what), 1);
        assert_false(test_exists(directory, "model.ckpt-4.index"));
        test_remove_directory(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_without_a_reader_does_not_prevent_the_save),
        cmocka_unit_test(the_limit_of_file_sizes_does_not_end_the_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
