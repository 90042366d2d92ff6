/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/state.h"
#include "hooks/make.h"
#include "hooks/poisoned.h"
#include "session/own.h"
#include "summary/events.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define close_to(a, b) assert_true(fabs((a) - (b)) <= 1e-12 * fabs(b) + 1e-300)

/* The schedule itself. */

static void each_shape_has_its_values(void **state)
{
    const hs_schedule_options linear = HS_INIT(hs_schedule_options, .value = "x", .warmup_steps = 4, .hold_steps = 10,
                                               .decay = HS_DECAY_LINEAR, .from = 8, .to = 2, .decay_steps = 6);
    const hs_schedule_options cosine =
        HS_INIT(hs_schedule_options, .value = "x", .decay = HS_DECAY_COSINE, .from = 8, .to = 2, .decay_steps = 6);
    const hs_schedule_options exponential =
        HS_INIT(hs_schedule_options, .value = "x", .decay = HS_DECAY_EXPONENTIAL, .from = 8, .to = 2, .decay_steps = 2);
    const hs_schedule_options root =
        HS_INIT(hs_schedule_options, .value = "x", .decay = HS_DECAY_SQRT, .from = 8, .to = 2, .decay_steps = 4);
    const hs_schedule_options constant = HS_INIT(hs_schedule_options, .value = "x", .from = 8, .warmup_steps = 2);
    const hs_schedule_options pieces = HS_INIT(hs_schedule_options, .value = "x", .warmup_steps = 2, .from = 8,
                                               .points = HS_SCHEDULE_POINTS({3, 4}, {5, 1}));
    const struct {
        const hs_schedule_options *options;
        int64_t step;
        double value;
    } cases[] = {
        {&linear, 0, 2},         {&linear, 3, 8},      {&linear, 4, 8},      {&linear, 13, 8},     {&linear, 14, 8},
        {&linear, 15, 7},        {&linear, 17, 5},     {&linear, 19, 3},     {&linear, 20, 2},     {&linear, 21, 2},
        {&linear, INT64_MAX, 2}, {&cosine, 0, 8},      {&cosine, 2, 6.5},    {&cosine, 3, 5},      {&cosine, 4, 3.5},
        {&cosine, 6, 2},         {&exponential, 0, 8}, {&exponential, 1, 4}, {&exponential, 2, 2}, {&root, 0, 8},
        {&root, 1, 5},           {&root, 4, 2},        {&constant, 0, 4},    {&constant, 1, 8},    {&constant, 1000, 8},
        {&pieces, 0, 4},         {&pieces, 2, 8},      {&pieces, 3, 4},      {&pieces, 4, 4},      {&pieces, 5, 1},
        {&pieces, 100, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        close_to(hs_schedule_value(cases[i].options, cases[i].step), cases[i].value);
    assert_true(isnan(hs_schedule_value(&linear, -1)));
    assert_true(isnan(hs_schedule_value(NULL, 0)));
    assert_true(isnan(hs_schedule_value(HS_OPTIONS(hs_schedule_options, .from = 1), 0)));
}

/* The numbers are those of llmc/schedulers.h of llm.c, which computes with floats: a learning rate of 6e-4, 700 steps of
 * warm-up, 19560 in all, a final fraction of 0.1, and of 0 for the last one, whose decay begins at 80 %. */
static void the_schedules_of_llm_c(void **state)
{
    static const int64_t steps[] = {0, 1, 349, 699, 700, 5000, 10130, 15647, 15648, 17604, 19559};
    enum { N = sizeof steps / sizeof *steps };
    static const struct {
        hs_schedule_options options;
        double values[N];
    } cases[] = {
        {HS_INIT(hs_schedule_options, .value = "x", .warmup_steps = 700, .from = 6e-4),
         {8.57142879e-07, 1.71428576e-06, 0.000300000014, 6e-4, 6e-4, 6e-4, 6e-4, 6e-4, 6e-4, 6e-4, 6e-4}},
        {HS_INIT(hs_schedule_options, .value = "x", .warmup_steps = 700, .decay = HS_DECAY_COSINE, .from = 6e-4, .to = 6e-5,
                 .decay_steps = 18860),
         {8.57142879e-07, 1.71428576e-06, 0.000300000014, 0.000600000028, 0.000600000028, 0.00053365028, 0.000329999981,
          0.000115352756, 0.000115325456, 7.42050324e-05, 6.00000021e-05}},
        {HS_INIT(hs_schedule_options, .value = "x", .warmup_steps = 700, .decay = HS_DECAY_LINEAR, .from = 6e-4, .to = 6e-5,
                 .decay_steps = 18860),
         {8.57142879e-07, 1.71428576e-06, 0.000300000014, 0.000600000028, 0.000600000028, 0.000476882327, 0.00033000001,
          0.000172037107, 0.000172008469, 0.00011600423, 6.00286294e-05}},
        {HS_INIT(hs_schedule_options, .value = "x", .warmup_steps = 700, .hold_steps = 14948, .decay = HS_DECAY_SQRT,
                 .from = 6e-4, .decay_steps = 3912),
         {8.57142879e-07, 1.71428576e-06, 0.000300000014, 0.000600000028, 0.000600000028, 0.000600000028, 0.000600000028,
          0.000600000028, 0.000600000028, 0.000175735942, 7.67111814e-08}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < N; k++)
            if (!(fabs(hs_schedule_value(&cases[i].options, steps[k]) - cases[i].values[k]) <= 1e-6 * 6e-4))
                fail_msg("case %zu, step %lld: %.9g instead of %.9g", i, (long long)steps[k],
                         hs_schedule_value(&cases[i].options, steps[k]), cases[i].values[k]);
}

/* torch.optim.lr_scheduler computes each rate from the previous one. */
static void the_schedules_of_torch(void **state)
{
    enum { T = 50 };
    const double pi = acos(-1), base = 0.1, least = 0.01, gamma = pow(least / base, 1.0 / T);
    double cosine = base, linear = base, exponential = base, pieces = base;
    (void)state;
    for (int64_t t = 0; t <= 2 * T; t++) {
        const double values[] = {
            hs_schedule_value(HS_OPTIONS(hs_schedule_options, .value = "x", .decay = HS_DECAY_COSINE, .from = base,
                                         .to = least, .decay_steps = T),
                              t),
            hs_schedule_value(HS_OPTIONS(hs_schedule_options, .value = "x", .decay = HS_DECAY_LINEAR, .from = base,
                                         .to = least, .decay_steps = T),
                              t),
            hs_schedule_value(HS_OPTIONS(hs_schedule_options, .value = "x", .decay = HS_DECAY_EXPONENTIAL, .from = base,
                                         .to = least, .decay_steps = T),
                              t),
            hs_schedule_value(HS_OPTIONS(hs_schedule_options, .value = "x", .from = base,
                                         .points = HS_SCHEDULE_POINTS({30, base * 0.5}, {80, base * 0.25})),
                              t)};
        const double wanted[] = {cosine, linear, exponential, pieces};
        for (size_t i = 0; i < 4; i++)
            if (!(fabs(values[i] - wanted[i]) <= 1e-9 * wanted[i]))
                fail_msg("schedule %zu, step %lld: %.17g instead of %.17g", i, (long long)t, values[i], wanted[i]);
        if (t < T) {
            cosine = least + (cosine - least) * (1 + cos(pi * (double)(t + 1) / T)) /
                                 (1 + cos(pi * (double)t / T));                      /* CosineAnnealingLR */
            linear *= 1 + (least / base - 1) / (T + (double)t * (least / base - 1)); /* LinearLR */
            exponential *= gamma;                                                    /* ExponentialLR */
        }
        pieces *= t + 1 == 30 || t + 1 == 80 ? 0.5 : 1; /* MultiStepLR */
    }
}

static void invalid_options_are_refused(void **state)
{
    const struct {
        hs_hook hook;
        const char *message;
    } cases[] = {
        {hs_schedule(.from = 1), "value is missing"},
        {hs_schedule(.value = "", .from = 1), "value is missing"},
        {hs_schedule(.value = "x", .from = 1, .warmup_steps = -1), "warmup_steps is -1"},
        {hs_schedule(.value = "x", .from = 1, .hold_steps = -2), "hold_steps is -2"},
        {hs_schedule(.value = "x", .from = 1, .decay = HS_DECAY_LINEAR, .decay_steps = -3), "decay_steps is -3"},
        {hs_schedule(.value = "x", .from = 1, .warmup_steps = INT64_MAX), "warmup_steps is 9223372036854775807"},
        {hs_schedule(.value = "x", .from = 1, .decay = HS_DECAY_LINEAR), "decay_steps is missing"},
        {hs_schedule(.value = "x", .from = 1, .decay_steps = 3), "decay is missing"},
        {hs_schedule(.value = "x", .from = 1, .decay = (hs_decay)5, .decay_steps = 3), "decay is 5"},
        {hs_schedule(.value = "x", .from = 1, .decay = (hs_decay)-1, .decay_steps = 3), "decay is -1"},
        {hs_schedule(.value = "x"), "from is missing"},
        {hs_schedule(.value = "x", .from = NAN), "from is nan"},
        {hs_schedule(.value = "x", .from = 1e300), "from is 1e+300"},
        {hs_schedule(.value = "x", .from = 1, .decay = HS_DECAY_LINEAR, .to = INFINITY, .decay_steps = 3), "to is inf"},
        {hs_schedule(.value = "x", .from = 1, .to = 1), "to is 1, but decay is missing"},
        {hs_schedule(.value = "x", .decay = HS_DECAY_EXPONENTIAL, .from = 1, .decay_steps = 3), "both must be positive"},
        {hs_schedule(.value = "x", .from = 1, .points = HS_SCHEDULE_POINTS({3, 1}, {3, 2})), "points: step 3"},
        {hs_schedule(.value = "x", .from = 1, .points = HS_SCHEDULE_POINTS({-3, 1})), "points: step -3"},
        {hs_schedule(.value = "x", .from = 1, .points = HS_SCHEDULE_POINTS({3, INFINITY})), "the value at step 3 is inf"},
        {hs_schedule(.value = "x", .from = 1, .hold_steps = 1, .points = HS_SCHEDULE_POINTS({3, 1})), "points excludes"},
        {hs_schedule_hook(NULL), "hs_schedule_options is NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        stage_refuses(*state, cases[i].hook, HS_INVALID_ARGUMENT, cases[i].message);
}

/* The number. */

enum { STEPS = 10 };

static hs_schedule_options fall = HS_INIT(hs_schedule_options, .value = "rate", .warmup_steps = 2, .decay = HS_DECAY_LINEAR,
                                          .from = 1, .to = 0.5, .decay_steps = 4);

static void a_value_is_set_before_each_step(void **state)
{
    own *o = *state;
    double number = -1;
    float single = -1;
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    hs_graph_value(o->graph, "single", HS_FLOAT, HS_SCALAR, &single);
    hs_schedule_options of_single = fall;
    of_single.value = "single";
    own_open(o, NULL, HS_HOOKS(hs_schedule_hook(&fall), hs_schedule_hook(&of_single)), 2);
    close_to(number, 0.5); /* also before the first step */
    for (int64_t step = 0; step < STEPS; step++) {
        assert_true(hs_step_begin(o->session));
        close_to(number, hs_schedule_value(&fall, step));
        assert_true(single == (float)number);
        hs_step_end(o->session);
    }
    assert_int_equal(own_close(o)->error.code, HS_OK);
    assert_lacks(o->t.log, "was changed");
}

static hs_code copy(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(to, from, bytes);
    return HS_OK;
}

static void a_number_on_a_device_is_set(void **state)
{
    own *o = *state;
    double number = -1;
    const hs_memory memory = HS_INIT(hs_memory, .to_host = copy, .from_host = copy);
    const hs_variable_def rate =
        HS_INIT(hs_variable_def, .name = "rate", .dtype = HS_DOUBLE, .data = &number, .memory = &memory);
    hs_graph_add_variable(o->graph, &rate);
    own_open(o, NULL, HS_HOOKS(hs_schedule_hook(&fall)), 1);
    for (int64_t step = 0; step < STEPS; step++) {
        assert_true(hs_step_begin(o->session));
        close_to(number, hs_schedule_value(&fall, step));
        assert_int_equal(hs_step_end(o->session), HS_OK);
    }
    assert_int_equal(own_close(o)->error.code, HS_OK);
}

/* Trains, each step in a new session if `restarts`. The program multiplies the number before one of the steps. */
static void run_restarted(own *o, bool restarts, int64_t changed_before, double factor, double *number, double *seen)
{
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = o->directory);
    const hs_hook saver = hs_hook_hold(hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1));
    own_open(o, &options, HS_HOOKS(hs_schedule_hook(&fall), saver), 2);
    for (int64_t step = 0; step < STEPS; step++) {
        if (restarts && step) {
            own_close(o);
            own_forget(o);
            *number = -7;
            own_open(o, &options, HS_HOOKS(hs_schedule_hook(&fall), saver), 2);
        }
        if (step == changed_before)
            *number *= factor;
        assert_true(hs_step_begin(o->session));
        seen[step] = *number;
        own_compute(o);
        assert_int_equal(hs_step_end(o->session), HS_OK);
    }
    own_close(o);
    hs_hook_free(saver);
    test_empty_directory(o->directory);
    own_forget(o);
}

static void compare_restarts(own *o, double *number)
{
    double whole[STEPS], restarted[STEPS];
    run_restarted(o, false, 4, 0.5, number, whole);
    assert_contains(o->t.log, "step 4: 'rate' was changed from ");
    assert_contains(o->t.log, "the schedule continues, multiplied by 0.5");
    run_restarted(o, true, 4, 0.5, number, restarted);
    for (int64_t step = 0; step < STEPS; step++) {
        close_to(whole[step], hs_schedule_value(&fall, step) * (step < 4 ? 1 : 0.5));
        assert_true(restarted[step] == whole[step]);
    }
}

static void a_change_of_a_value_continues_in_proportion(void **state)
{
    own *o = *state;
    double number = 0;
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    compare_restarts(o, &number);
}

static void a_change_of_a_variable_continues_in_proportion(void **state)
{
    own *o = *state;
    double number = 0;
    hs_graph_variable(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    compare_restarts(o, &number);
}

/* Between the last step and the save at the end. */
static void a_change_that_no_step_has_seen_is_saved(void **state)
{
    own *o = *state;
    double number = 0;
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = o->directory);
    hs_graph_variable(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    for (int i = 0; i < 2; i++) {
        own_open(
            o, &options,
            HS_HOOKS(hs_schedule_hook(&fall), hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1000)),
            2);
        own_step(o);
        close_to(number, hs_schedule_value(&fall, i) * (i ? 0.25 : 1));
        number *= 0.25;
        own_close(o);
    }
}

/* The variable is then that of the checkpoint, but the schedule has written a later value. */
static void a_restore_without_the_hooks_state_changes_no_factor(void **state)
{
    own *o = *state;
    double number = 7;
    hs_graph_variable(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    own_open_hook(o, hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1000));
    own_step(o);
    own_close(o);
    own_open_hook(o, hs_schedule_hook(&fall));
    own_step(o);
    char *prefix = hs_checkpoint_latest(NULL, o->directory, NULL, &o->err);
    hs_saver *saver = hs_saver_new(NULL, &o->err);
    assert_ok(hs_saver_restore(saver, hs_session_raw(o->session), prefix, NULL, &o->err), &o->err);
    assert_true(number == 7);
    own_step(o);
    close_to(number, hs_schedule_value(&fall, 1));
    assert_lacks(o->t.log, "'rate' was changed");
    hs_saver_free(saver);
    hs_env_free(NULL, prefix);
    own_close(o);
}

static void a_held_schedule_starts_again_in_each_session(void **state)
{
    own *o = *state;
    double number = 0;
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = o->directory);
    const hs_hook hook = hs_hook_hold(hs_schedule_hook(&fall));
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    own_open(o, NULL, HS_HOOKS(hook, hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1000)), 2);
    own_step(o);
    own_close(o);
    for (int i = 0; i < 2; i++) {
        own_open(o, &options, &hook, 1);
        for (int64_t step = 1; step < 5; step++) {
            own_step(o);
            close_to(number, hs_schedule_value(&fall, step));
        }
        own_close(o);
    }
    assert_lacks(o->t.log, "'rate' was changed");
    hs_hook_free(hook);
}

static void a_change_from_or_to_0_is_overwritten(void **state)
{
    own *o = *state;
    double number = 0;
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    own_open_hook(o, hs_schedule(.value = "rate", .from = 0, .points = HS_SCHEDULE_POINTS({2, 1})));
    own_step(o);
    number = 3;
    own_step(o);
    assert_contains(o->t.log, "'rate' was changed from 0 to 3; the schedule overwrites it");
    assert_true(number == 0);
    own_step(o);
    number = 0;
    own_step(o);
    assert_contains(o->t.log, "'rate' was changed from 1 to 0; the schedule overwrites it");
    assert_true(number == 1);
    own_close(o);
}

static void control_changes_a_scheduled_number(void **state)
{
    own *o = *state;
    double number = 0;
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    const char *path = test_path(o->directory, "control");
    test_write_file(path, "set rate=0.25\n", 14);
    own_open(
        o, NULL,
        HS_HOOKS(hs_schedule_hook(&fall), hs_control(.path = path, .knobs = HS_KNOBS({.name = "rate", .value = &number}))),
        2);
    own_step(o);
    for (int64_t step = 1; step < STEPS; step++) {
        own_step(o);
        close_to(number, hs_schedule_value(&fall, step) * 0.5); /* 0.25 instead of 0.5 */
    }
    own_close(o);
}

/* The control file changes the number at step 4. A process is killed after each step, and the next one continues. */
static void train_some(own *o, double *number, int64_t from, int64_t until, double *seen)
{
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = o->directory);
    const char *path = test_path(o->directory, "control");
    own_forget(o);
    *number = -7;
    own_open(o, &options,
             HS_HOOKS(hs_schedule_hook(&fall),
                      hs_control(.path = path, .knobs = HS_KNOBS({.name = "rate", .value = number})),
                      hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1)),
             3);
    for (int64_t step = from; step < until; step++) {
        if (step == 4) {
            test_write_file(path, "set rate=0.25\n", 14);
            chmod(path, 0600);
        }
        test_env_advance(&o->t, 2);
        assert_true(hs_step_begin(o->session));
        seen[step] = *number;
        own_compute(o);
        assert_int_equal(hs_step_end(o->session), HS_OK);
    }
}

static void compare_kills(own *o, double *number)
{
    double *killed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), whole[STEPS];
    assert_true(killed != MAP_FAILED);
    for (int64_t step = 0; step < STEPS; step++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            train_some(o, number, step, step + 1, killed);
            kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    test_empty_directory(o->directory);
    train_some(o, number, 0, STEPS, whole);
    own_close(o);
    for (int64_t step = 0; step < STEPS; step++) {
        double factor = step <= 4 ? 1 : 0.25 / hs_schedule_value(&fall, 4);
        close_to(whole[step], hs_schedule_value(&fall, step) * factor);
        if (killed[step] != whole[step])
            fail_msg("step %lld: %.17g instead of %.17g", (long long)step, killed[step], whole[step]);
    }
    munmap(killed, 4096);
}

static void a_killed_process_continues_with_the_same_value(void **state)
{
    own *o = *state;
    double number = 0;
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    compare_kills(o, &number);
}

static void a_killed_process_continues_with_the_same_variable(void **state)
{
    own *o = *state;
    double number = 0;
    hs_graph_variable(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    compare_kills(o, &number);
}

/* Like any number of the graph. A log line and an event have the value that the step used. */
static void the_number_is_logged_and_charted(void **state)
{
    own *o = *state;
    float number = 0;
    hs_graph_value(o->graph, "rate", HS_FLOAT, HS_SCALAR, &number);
    hs_graph_summary_scalar(o->graph, "learning_rate", "rate");
    own_open(o, NULL,
             HS_HOOKS(hs_schedule(.value = "rate", .from = 1, .points = HS_SCHEDULE_POINTS({1, 0.5}, {2, 0.25})),
                      hs_logging_tensor(.tensors = HS_NAMES("rate"), .every_n_steps = 1),
                      hs_summary_saver(.summary_ops = HS_NAMES("summary/learning_rate"), .summary_dir = o->directory,
                                       .every_n_steps = 1)),
             3);
    own_loop(o, 3);
    own_close(o);
    assert_contains(o->t.log, "rate = 1");
    assert_contains(o->t.log, "rate = 0.5");
    assert_contains(o->t.log, "rate = 0.25");
    assert_contains(events_text(o->directory), "learning_rate=1@1 learning_rate=0.5@2 learning_rate=0.25@3");
}

/* The number was changed at a step after the checkpoint. */
static void a_rollback_undoes_a_change(poisoned *p, double *rate)
{
    const char *path = test_path(p->s->directory, "control");
    p->bad[0] = 6;
    hs_hook hooks[] = {
        hs_schedule_hook(&fall),
        poisoned_saver(p, .every_n_steps = 3),
        hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_ROLLBACK, .skip_op = "draw"),
        hs_control(.path = path, .knobs = HS_KNOBS({.name = "rate", .value = rate})),
    };
    assert_ok(poisoned_open(p, false, hooks, 4), &p->s->err);
    assert_ok(poisoned_run(p, "train", 4), &p->s->err);
    test_write_file(path, "set rate=8\n", 11);
    assert_int_equal(chmod(path, 0600), 0);
    test_env_advance(&p->s->t, 2);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_true(*rate == 8);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_int_equal(hs_session_global_step(p->s->session, NULL), 3);
    for (int64_t step = 3; step < 9; step++) {
        assert_ok(poisoned_run(p, "train", 1), &p->s->err);
        close_to(*rate, hs_schedule_value(&fall, step));
    }
    stage_close(p->s);
}

static void a_rollback_undoes_a_change_of_a_value(void **state)
{
    poisoned *p = *state;
    double rate = 0;
    hs_graph_value(p->graph, "scheduled", HS_DOUBLE, HS_SCALAR, &rate);
    fall.value = "scheduled";
    a_rollback_undoes_a_change(p, &rate);
    fall.value = "rate";
}

static void a_rollback_undoes_a_change_of_a_variable(void **state)
{
    poisoned *p = *state;
    double rate = 0;
    hs_graph_variable(p->graph, "scheduled", HS_DOUBLE, HS_SCALAR, &rate);
    fall.value = "scheduled";
    a_rollback_undoes_a_change(p, &rate);
    fall.value = "rate";
}

/* A step adds the batch's number times the learning rate. */
static void a_rollback_of_the_guard_shrinks_the_scheduled_rate(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2; /* once from the first state, and once from a checkpoint */
    p->bad[1] = 7;
    hs_hook hooks[] = {
        hs_schedule(.value = "rate", .from = 1, .points = HS_SCHEDULE_POINTS({4, 8})),
        poisoned_saver(p, .every_n_steps = 3),
        hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_ROLLBACK, .skip_op = "draw",
                        .learning_rate = "rate", .learning_rate_factor = 0.5),
    };
    assert_ok(poisoned_open(p, false, hooks, 3), &p->s->err);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_true(p->rate == 0.5f);
    assert_ok(poisoned_run(p, "train", 4), &p->s->err);
    assert_true(p->rate == 0.25f);
    assert_ok(poisoned_run(p, "train", 3), &p->s->err);
    assert_true(p->rate == 2);
    stage_close(p->s);
}

static void numbers_that_cannot_be_set_are_refused(void **state)
{
    own *o = *state;
    static float three[3];
    static int64_t whole;
    hs_error err;
    hs_graph_value(o->graph, "three", HS_FLOAT, HS_SHAPE(3), three);
    hs_graph_variable(o->graph, "whole", HS_INT64, HS_SCALAR, &whole);
    const struct {
        const char *name;
        hs_code code;
        const char *message;
    } cases[] = {
        {"nothing", HS_NOT_FOUND, "'nothing'"},
        {"three", HS_INVALID_ARGUMENT, "'three' is not a scalar of type float or double"},
        {"whole", HS_INVALID_ARGUMENT, "'whole' is not a scalar of type float or double"},
        {"same", HS_INVALID_ARGUMENT, "'same' is not a value in host memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_session *session =
            hs_session_open(hs_graph_backend(o->graph),
                            HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hs_schedule(.value = cases[i].name, .from = 1))), &err);
        assert_null(session);
        assert_says(&err, cases[i].code, cases[i].message);
    }
}

static void a_backend_without_values_has_only_variables(void **state)
{
    stage *s = *state;
    double number = 1;
    const hs_tensor rate = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number);
    hs_script_constant(s->script, "rate", &rate);
    stage_refuses(s, hs_schedule(.value = "rate", .from = 1), HS_UNIMPLEMENTED, "cannot set 'rate'; it is not a variable");
}

/* State and memory. */

static void a_damaged_state_is_refused(void **state)
{
    own *o = *state;
    double number = 0, saved[2] = {0.5, 1};
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &number);
    hs_hook hook = hs_hook_hold(hs_schedule_hook(&fall));
    own_open_hook(o, hook);
    for (size_t bytes = 0; bytes <= sizeof saved; bytes++) {
        hs_state_reader in = {.at = (const unsigned char *)saved, .left = bytes};
        assert_int_equal(hook.ops->load_state(hook.self, &in, &o->err), bytes < sizeof saved ? HS_DATA_LOSS : HS_OK);
    }
    const double wrong[][2] = {{NAN, 1}, {0, 1}, {INFINITY, 1}, {1, INFINITY}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hs_state_reader in = {.at = (const unsigned char *)wrong[i], .left = sizeof wrong[i]};
        assert_fails(hook.ops->load_state(hook.self, &in, &o->err), HS_DATA_LOSS, &o->err, "'rate'");
    }
    own_close(o);
    hs_hook_free(hook);
}

static void begin_reports_exhausted_memory(void **state)
{
    stage *s = *state;
    for (size_t k = 1; k <= 3; k++) {
        test_env poor;
        test_env_init(&poor);
        poor.fail_alloc_at = k;
        const hs_env *memory = hs__set_hook_memory(&poor.env);
        hs_hook hook = hs_schedule(.value = "rate", .from = 1, .points = HS_SCHEDULE_POINTS({3, 2}));
        hs__set_hook_memory(memory);
        stage_refuses(s, hook, HS_RESOURCE_EXHAUSTED, "hook 'schedule', begin");
        assert_int_equal(poor.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_shape_has_its_values),
        cmocka_unit_test(the_schedules_of_llm_c),
        cmocka_unit_test(the_schedules_of_torch),
        with_stage(invalid_options_are_refused),
        own_test(a_value_is_set_before_each_step),
        own_test(a_number_on_a_device_is_set),
        own_test(a_change_of_a_value_continues_in_proportion),
        own_test(a_change_of_a_variable_continues_in_proportion),
        own_test(a_change_that_no_step_has_seen_is_saved),
        own_test(a_restore_without_the_hooks_state_changes_no_factor),
        own_test(a_held_schedule_starts_again_in_each_session),
        own_test(a_change_from_or_to_0_is_overwritten),
        own_test(control_changes_a_scheduled_number),
        own_test(a_killed_process_continues_with_the_same_value),
        own_test(a_killed_process_continues_with_the_same_variable),
        own_test(the_number_is_logged_and_charted),
        with_poisoned(a_rollback_undoes_a_change_of_a_value),
        with_poisoned(a_rollback_undoes_a_change_of_a_variable),
        with_poisoned(a_rollback_of_the_guard_shrinks_the_scheduled_rate),
        own_test(numbers_that_cannot_be_set_are_refused),
        with_stage(a_backend_without_values_has_only_variables),
        own_test(a_damaged_state_is_refused),
        with_stage(begin_reports_exhausted_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
