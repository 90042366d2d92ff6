/* SPDX-License-Identifier: Apache-2.0 */
/* A held hook that several sessions use one after the other starts again in each. */
#include "hooks/stage.h"

#include <fcntl.h>
#include <unistd.h>

/* A run takes a second. */
static hs_code take_a_second(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)run, (void)args, (void)err;
    test_env_advance(self, 1);
    return HS_OK;
}

static const hs_hook_ops slow = HS_INIT(hs_hook_ops, .name = "slow", .before_run = take_a_second);

/* Writes a session of four runs to `text`: the fetches of each run, the log, and the checkpoints. The third run has a
 * request. */
static void play(stage *s, hs_hook hook, char *text, size_t size)
{
    size_t used = 0;
    test_empty_directory(s->directory);
    test_env_clear_log(&s->t);
    hs_script_set_step(s->script, 0);
    const hs_hook hooks[] = {hs_hook_hold(hook), {.ops = &slow, .self = &s->t}};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            hs_session_request_save(s->session);
        stage_run(s, "train", 1, 0);
        test_env_advance(&s->t, 5);
        used += (size_t)snprintf(text + used, size - used, "%s\n", hs_script_last_run(s->script));
        for (int64_t step = 0; step <= 4; step++) {
            char name[48];
            snprintf(name, sizeof name, "model.ckpt-%lld.index", (long long)step);
            if (test_exists(s->directory, name))
                used += (size_t)snprintf(text + used, size - used, "%s\n", name);
        }
    }
    stage_close(s);
    snprintf(text + used, size - used, "%s", s->t.log);
}

/* Intervals and seen requests belong to the session. */
static void begins_again(stage *s, hs_hook hook)
{
    static char first[4096], second[4096];
    play(s, hook, first, sizeof first);
    test_env_advance(&s->t, 100);
    play(s, hook, second, sizeof second);
    assert_string_equal(second, first);
    hs_hook_free(hook);
}

#define EVERY_10_SECS .when = HS_TRIGGER(.every_n_secs = 10, .on_request = true)

static void each_hook_with_a_trigger(void **state)
{
    stage *s = *state;
    const double number = 1;
    const hs_tensor loss = hs_tensor_of(HS_DOUBLE, HS_SCALAR, (void *)&number);
    int null = open("/dev/null", O_WRONLY);
    assert_int_equal(hs_script_constant(s->script, "loss", &loss), HS_OK);
    begins_again(s, hs_logging_tensor(.tensors = HS_NAMES("loss"), EVERY_10_SECS));
    begins_again(s, hs_progress(.descriptor = null, .tensors = HS_NAMES("loss"), EVERY_10_SECS));
    begins_again(s, hs_profiler(.trace_dir = s->directory, EVERY_10_SECS));
    begins_again(s, hs_step_counter(EVERY_10_SECS));
    begins_again(s, hs_evaluation(.metrics = HS_NAMES("loss"), EVERY_10_SECS));
    begins_again(s, hs_evaluation(.metrics = HS_NAMES("loss"), .at_end = true, .when = HS_EVERY_SECS(1000)));
    begins_again(s, hs_finite_guard(.gradients = HS_NAMES("loss"), EVERY_10_SECS));
    begins_again(s, hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("loss"), EVERY_10_SECS));
    begins_again(s, hs_scalars(.tensors = HS_NAMES("loss"), EVERY_10_SECS, .summary_dir = s->directory));
    begins_again(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, EVERY_10_SECS));
    close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_stage(each_hook_with_a_trigger)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
