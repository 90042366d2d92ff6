/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for all built-in hooks, except for run_status, which has no state, and shows an unknown step as -1. */
#include "hooks/stage.h"

#include "base/state.h"

#include <fcntl.h>
#include <unistd.h>

enum { MOST_HOOKS = 32, RUNS = 5 };

static int null = -1;

/* Each hook once, on the script's loss. Intervals fire within a few runs. */
static size_t make_hooks(stage *s, hs_hook hooks[MOST_HOOKS])
{
    static double rate = 0.5;
    static double number = 1;
    static hs_string nothing = {"", 0};
    const hs_tensor loss = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number);
    const hs_tensor summary = hs_tensor_of(HS_STRING, HS_SCALAR, &nothing);
    const hs_knob knob = {.name = "rate", .value = &rate};
    char *directory = s->directory;
    size_t n = 0;
    hs_script_constant(s->script, "loss", &loss);
    hs_script_constant(s->script, "summary", &summary);
    test_write_file(test_path(directory, "control"), "set rate=0.25\n", 14);
    hooks[n++] = hs_stop_at_step(.num_steps = RUNS);
    hooks[n++] = hs_stop_after(.total_secs = 1000);
    hooks[n++] = hs_nan_tensor(.tensor = "loss");
    hooks[n++] = hs_early_stopping(.tensor = "loss", .patience = 3, .restore_best = true);
    hooks[n++] = hs_early_stopping(.metric = "eval/loss", .patience = 3);
    hooks[n++] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 2);
    hooks[n++] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_secs = 2);
    hooks[n++] = hs_progress(.descriptor = null, .tensors = HS_NAMES("loss"), .every_n_steps = 2);
    hooks[n++] = hs_progress(.descriptor = null, .every_n_secs = 2);
    hooks[n++] = hs_step_counter(.every_n_steps = 2, .summary_dir = directory);
    hooks[n++] = hs_step_counter(.every_n_secs = 2, .summary_dir = directory);
    hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_dir = directory, .every_n_steps = 2);
    hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_dir = directory, .every_n_secs = 2);
    hooks[n++] = hs_profiler(.trace_dir = directory, .every_n_steps = 2);
    hooks[n++] = hs_evaluation(.metrics = HS_NAMES("loss"), .every_n_steps = 2, .summary_dir = directory);
    hooks[n++] = hs_metrics_file(.path = test_path(directory, "rows.csv"), .tensors = HS_NAMES("loss"), .every_n_steps = 2);
    hooks[n++] = hs_metrics_file(.path = test_path(directory, "rows.csv"), .tensors = HS_NAMES("loss"), .every_n_secs = 2);
    hooks[n++] = hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .summary_dir = directory);
    hooks[n++] = hs_scalars(.tensors = HS_NAMES("loss"), .every_n_secs = 2, .summary_dir = directory);
    hooks[n++] = hs_finite_guard(.gradients = HS_NAMES("loss"), .every_n_steps = 2);
    hooks[n++] = hs_finite_guard(.losses = HS_NAMES("loss"), .spike_window = 3, .policy = HS_GUARD_WARN);
    hooks[n++] =
        hs_finite_guard(.losses = HS_NAMES("loss"), .spike_window = 3, .policy = HS_GUARD_WARN, .when = HS_EVERY_SECS(2));
    hooks[n++] = hs_control(.path = test_path(directory, "control"), .knobs = HS_KNOBS(knob));
    hooks[n++] = hs_watchdog();
    hooks[n++] = hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = 2);
    hooks[n++] = hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_secs = 2, .background = true);
    hooks[n++] =
        hs_checkpoint_saver(.checkpoint_dir = directory, .when = HS_TRIGGER(.every_n_secs = 2, .at_steps = HS_STEPS(1, 4)));
    assert_true(n <= MOST_HOOKS);
    return n;
}

/* Makes the i-th hook. False: there are fewer hooks. */
static bool make_hook(stage *s, size_t i, hs_hook *hook)
{
    hs_hook hooks[MOST_HOOKS];
    size_t n = make_hooks(s, hooks);
    for (size_t k = 0; k < n; k++)
        if (k != i)
            hs_hook_free(hooks[k]);
    *hook = i < n ? hs_hook_hold(hooks[i]) : (hs_hook){.ops = NULL};
    return i < n;
}

static void run_some(stage *s)
{
    for (int i = 0; i < RUNS && !hs_session_should_stop(s->session); i++) {
        assert_ok(stage_run_once(s, "train"), &s->err);
        test_env_advance(&s->t, 1);
    }
}

/* Each hook reports exhausted memory while saving its state, and refuses to load a state that was cut at any byte. */
static void a_state_is_saved_and_loaded_as_a_whole(void **state)
{
    static test_env poor;
    stage *s = *state;
    hs_hook hook;
    int states = 0;
    for (size_t i = 0; make_hook(s, i, &hook); i++) {
        hs__buffer saved, unsaved;
        hs__buffer_init(&saved, &s->t.env);
        hs_state_writer out = hs__state_writer_to(&saved);
        hs_script_set_step(s->script, 0);
        assert_ok(stage_try(s, hs_script_backend(s->script), &hook, 1), &s->err);
        run_some(s);
        if (hook.ops->save_state) {
            test_env_init(&poor);
            poor.fail_alloc_at = 1;
            hs__buffer_init(&unsaved, &poor.env);
            hs_state_writer none = hs__state_writer_to(&unsaved);
            if (hook.ops->save_state(hook.self, &none, &s->err) != HS_RESOURCE_EXHAUSTED)
                fail_msg("%s saves without memory", hook.ops->name);
            assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
        }
        for (size_t bytes = 0; bytes < saved.size; bytes++) {
            hs_state_reader in = {.at = saved.data, .left = bytes, .version = hook.ops->state_version};
            if (hook.ops->load_state(hook.self, &in, &s->err) != HS_DATA_LOSS)
                fail_msg("%s loads %zu of %zu bytes", hook.ops->name, bytes, saved.size);
        }
        states += saved.size > 0;
        hs__buffer_free(&saved);
        hs_session_close(s->session, NULL);
        s->session = NULL;
        hs_hook_free(hook);
    }
    assert_int_equal(states, 12);
}

/* Saves the state of a hook after some steps of `secs` each. */
static void save_slowly(stage *s, size_t i, double secs, hs__buffer *states, hs_hook *made)
{
    hs_hook hook;
    test_empty_directory(s->directory);
    make_hook(s, i, &hook);
    *made = hook;
    hs_script_set_step(s->script, 0);
    assert_ok(stage_try(s, hs_script_backend(s->script), &hook, 1), &s->err);
    hs_state_writer out = hs__state_writer_to(states);
    for (int k = 0; k < RUNS && !hs_session_should_stop(s->session); k++) {
        assert_ok(stage_run_once(s, "train"), &s->err);
        if (hook.ops->save_state)
            assert_ok(hook.ops->save_state(hook.self, &out, &s->err), &s->err);
        test_env_advance(&s->t, secs);
    }
    hs_session_close(s->session, NULL);
    s->session = NULL;
    hs_hook_free(hook);
}

static void a_state_depends_on_the_clock_only_if_the_hook_says_so(void **state)
{
    stage *s = *state;
    hs_hook hook;
    int varying = 0;
    for (size_t i = 0; make_hook(s, i, &hook); i++) {
        hs__buffer fast, slow;
        hs_hook_free(hook);
        hs__buffer_init(&fast, &s->t.env);
        hs__buffer_init(&slow, &s->t.env);
        save_slowly(s, i, 0.25, &fast, &hook);
        save_slowly(s, i, 1.5, &slow, &hook);
        bool same = fast.size == slow.size && (!fast.size || memcmp(fast.data, slow.data, fast.size) == 0);
        if (!same && !(hook.flags & HS_HOOK_STATE_VARIES))
            fail_msg("%s, hook %zu, depends on the clock", hook.ops->name, i);
        varying += !same;
        hs__buffer_free(&fast);
        hs__buffer_free(&slow);
    }
    assert_int_equal(varying, 3);
}

/* A backend whose global step cannot be read the k-th time. */

static struct {
    hs_backend_ops ops;
    hs_code (*read)(void *session, int64_t *step, hs_error *err);
    size_t reads, fails_at;
} broken;

static hs_code read_step(void *session, int64_t *step, hs_error *err)
{
    if (++broken.reads == broken.fails_at)
        return hs_error_set(err, HS_DATA_LOSS, "the step is lost");
    return broken.read(session, step, err);
}

static hs_backend break_step(hs_backend backend, size_t fails_at)
{
    broken.ops = *backend.ops;
    broken.read = backend.ops->global_step;
    broken.ops.global_step = read_step;
    broken.reads = 0;
    broken.fails_at = fails_at;
    return (hs_backend){&broken.ops, backend.self};
}

/* True if the session or the log reports the error, or the step -1. */
static bool shows(stage *s, hs_hook hook)
{
    hs_error first = {0}, error = {0};
    test_env_clear_log(&s->t);
    hs_script_set_step(s->script, 0);
    hs_code code = stage_try(s, break_step(hs_script_backend(s->script), broken.fails_at), &hook, 1);
    if (code)
        first = s->err;
    for (int i = 0; i < RUNS && !code && !hs_session_should_stop(s->session); i++) {
        if ((code = stage_run_once(s, "train")))
            first = s->err;
        test_env_advance(&s->t, 1);
    }
    hs_outcome outcome = hs_session_close(s->session, &error);
    s->session = NULL;
    hs_hook_free(hook);
    return outcome.step == -1 || strstr(first.message, "the step is lost") || strstr(error.message, "the step is lost") ||
           strstr(s->t.log, "the step is lost") || strstr(s->t.log, "step -1");
}

static void a_step_that_cannot_be_read_is_reported(void **state)
{
    stage *s = *state;
    hs_hook hook;
    for (size_t i = 0; make_hook(s, i, &hook); i++) {
        const char *name = hook.ops->name;
        broken.fails_at = 0;
        assert_false(shows(s, hook));
        for (size_t reads = broken.reads, k = 1; k <= reads; k++) {
            test_empty_directory(s->directory);
            make_hook(s, i, &hook);
            broken.fails_at = k;
            if (!shows(s, hook))
                fail_msg("%s: read %zu of %zu", name, k, reads);
        }
        test_empty_directory(s->directory);
    }
}

int main(void)
{
    null = open("/dev/null", O_WRONLY);
    const struct CMUnitTest tests[] = {
        with_stage(a_state_is_saved_and_loaded_as_a_whole),
        with_stage(a_state_depends_on_the_clock_only_if_the_hook_says_so),
        with_stage(a_step_that_cannot_be_read_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
