/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's losses: values that are far above their predecessors. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/state.h"
#include "hooks/finite_spike.h"
#include "hooks/make.h"
#include "hooks/poisoned.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The values alone. */

enum { WINDOW = 16, VALUES = 3000 };

static double noise(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (double)(*random >> 11) / 9007199254740992.0;
}

static void make_spikes(hs__spikes *spikes, int64_t window, double zscore)
{
    hs_error err;
    *spikes = (hs__spikes){0};
    assert_ok(hs__spikes_init(spikes, 1, window, zscore, hs_env_default(), &err), &err);
}

/* Computes mean and deviation of the last accepted values. `accepted` has all of them. */
static double reference_zscore(const double *accepted, size_t n, double value)
{
    long double sum = 0, squares = 0;
    if (n < WINDOW)
        return 0;
    for (size_t i = n - WINDOW; i < n; i++) {
        sum += accepted[i];
        squares += (long double)accepted[i] * accepted[i];
    }
    long double mean = sum / WINDOW, variance = squares / WINDOW - mean * mean;
    return (double)((value - mean) / sqrtl(variance));
}

static void spikes_are_those_of_the_formula(void **state)
{
    static double accepted[VALUES];
    size_t n = 0, found = 0;
    int in_a_row = 0;
    uint64_t random = 1;
    hs__spikes spikes;
    (void)state;
    make_spikes(&spikes, WINDOW, 3);
    for (int i = 0; i < VALUES; i++) {
        double mean, zscore = 0, level = i < VALUES / 2 ? 4 : 9;
        double value = level + noise(&random) + (noise(&random) < 0.05 ? 6 : 0),
               wanted = reference_zscore(accepted, n, value);
        bool is_spike = hs__spikes_check(&spikes, 0, value, &mean, &zscore);
        assert_true(fabs(zscore - wanted) <= 1e-9 * (1 + fabs(wanted)));
        in_a_row = wanted > 3 ? in_a_row + 1 : 0;
        assert_int_equal(is_spike, in_a_row > 0 && in_a_row <= 2);
        found += is_spike;
        if (!is_spike)
            accepted[n++] = value;
    }
    assert_in_range(found, 20, VALUES / 10);
    hs__spikes_free(&spikes, hs_env_default());
}

static void look(hs__spikes *spikes, double value, bool is_spike)
{
    double mean, zscore;
    if (hs__spikes_check(spikes, 0, value, &mean, &zscore) != is_spike)
        fail_msg("%g is %s spike", value, is_spike ? "no" : "a");
}

static void nothing_is_a_spike_before_the_window_is_full(void **state)
{
    hs__spikes spikes;
    (void)state;
    make_spikes(&spikes, 3, 2);
    look(&spikes, 1, false);
    look(&spikes, 100, false);
    look(&spikes, -100, false);
    look(&spikes, 1000, true);
    hs__spikes_reset(&spikes);
    look(&spikes, 1000, false);
    hs__spikes_free(&spikes, hs_env_default());
}

static void values_that_are_equal_have_no_spikes(void **state)
{
    hs__spikes spikes;
    (void)state;
    make_spikes(&spikes, 3, 2);
    for (int i = 0; i < 3; i++)
        look(&spikes, 1, false);
    look(&spikes, 1000, false);
    hs__spikes_free(&spikes, hs_env_default());
}

static void a_level_that_stays_is_accepted(void **state)
{
    hs__spikes spikes;
    (void)state;
    make_spikes(&spikes, 4, 1.9);
    for (int i = 0; i < 8; i++)
        look(&spikes, i % 2, false);
    look(&spikes, 10, true);
    look(&spikes, 0.5, false); /* the spikes in a row end */
    look(&spikes, 10, true);
    look(&spikes, 10, true);
    look(&spikes, 10, false);
    look(&spikes, 10, false);
    hs__spikes_free(&spikes, hs_env_default());
}

/* In a large window, a few values hardly change the mean. */
static void a_level_that_stays_is_accepted_by_a_large_window(void **state)
{
    hs__spikes spikes;
    (void)state;
    make_spikes(&spikes, 128, 3);
    for (int i = 0; i < 128; i++)
        look(&spikes, i % 2 ? 0.99 : 1.01, false);
    look(&spikes, 10, true);
    look(&spikes, 10, true);
    for (int i = 0; i < 200; i++)
        look(&spikes, i % 2 ? 9.99 : 10.01, false);
    hs__spikes_free(&spikes, hs_env_default());
}

static void falls_and_values_that_are_not_finite_are_no_spikes(void **state)
{
    hs__spikes spikes;
    (void)state;
    make_spikes(&spikes, 4, 2);
    for (int i = 0; i < 4; i++)
        look(&spikes, i % 2, false);
    look(&spikes, (double)INFINITY, false);
    look(&spikes, (double)NAN, false);
    look(&spikes, 10, true); /* none of them was accepted */
    look(&spikes, -10, false);
    hs__spikes_free(&spikes, hs_env_default());
    make_spikes(&spikes, 4, HS_NEVER);
    for (int i = 0; i < 4; i++)
        look(&spikes, i % 2, false);
    look(&spikes, 10, false);
    hs__spikes_free(&spikes, hs_env_default());
}

/* A training: batch n has the gradient n, and the loss that `losses` gives it. */

enum { STEPS = 30, MOST = 64 };

typedef struct {
    poisoned *p;
    double values[MOST], norm;
} training;

static training of_this_test;

static hs_code measure(void *self, hs_op *op, hs_error *err)
{
    const training *t = self;
    (void)err;
    *(double *)hs_op_output(op, 0)->data = t->values[t->p->label];
    *(double *)hs_op_output(op, 1)->data = t->norm;
    return HS_OK;
}

static training *prepare(void **state)
{
    training *t = &of_this_test;
    uint64_t random = 7;
    *t = (training){.p = *state, .norm = 1};
    for (int i = 0; i < MOST; i++)
        t->values[i] = 3 + noise(&random);
    hs_graph_op(t->p->graph, .name = "measure", .run = measure, .user = t, .control_inputs = HS_NAMES("draw"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_DOUBLE, .shape = HS_SHAPE(1)}));
    return t;
}

#define GUARD(...) hs_finite_guard(.losses = HS_NAMES("measure:0"), .spike_zscore = 5, .spike_window = 8, __VA_ARGS__)

static void open_with(training *t, hs_hook guard)
{
    hs_hook hooks[] = {guard, poisoned_saver(t->p, .every_n_steps = 1)};
    assert_ok(poisoned_open(t->p, true, hooks, 2), &t->p->s->err);
}

static void a_warning_changes_nothing(void **state)
{
    training *t = prepare(state);
    t->values[12] = 40;
    open_with(t, GUARD(.policy = HS_GUARD_WARN));
    assert_ok(poisoned_run(t->p, "train", 11), &t->p->s->err);
    assert_lacks(t->p->s->t.log, "WARNING");
    assert_ok(poisoned_run(t->p, "train", 4), &t->p->s->err);
    assert_int_equal(count_of(t->p->s->t.log, "WARNING"), 1);
    assert_contains(t->p->s->t.log, "WARNING: step 12: loss 'measure:0' is 40, which is ");
    assert_contains(t->p->s->t.log, ", the mean of the last 8 values\n");
    stage_close(t->p->s);
    assert_true(t->p->weight == 15 * 16 / 2);
    assert_int_equal(latest_step(t->p->s->directory), 15);
}

static void the_update_of_a_spike_is_skipped(void **state)
{
    training *t = prepare(state);
    t->values[12] = t->values[13] = 40;
    open_with(t, GUARD(.policy = HS_GUARD_SKIP_STEP, .update_op = "update"));
    assert_ok(poisoned_run(t->p, "compute", 15), &t->p->s->err);
    assert_contains(t->p->s->t.log, ", the mean of the last 8 values; update skipped, 2 in a row");
    stage_close(t->p->s);
    assert_true(t->p->weight == 15 * 16 / 2 - 12 - 13);
    assert_int_equal(t->p->s->outcome.step, 13);
}

/* With the defaults: 128 values, 7 standard deviations. The runs of the script are those of "train" and "update". */
static void the_line_describes_the_spike(void **state)
{
    stage *s = ((poisoned *)*state)->s;
    double losses[2 * 129];
    for (int i = 0; i < 2 * 129; i++)
        losses[i] = i < 2 * 128 ? 1 + i / 2 % 2 : 9.1;
    hs_script_series(s->script, "loss", losses, 2 * 129);
    hs_script_op(s->script, "update");
    hs_script_set_step(s->script, 683);
    stage_open(s, hs_finite_guard(.losses = HS_NAMES("loss"), .policy = HS_GUARD_SKIP_STEP, .update_op = "update"));
    stage_run(s, "train", 129, 0);
    assert_contains(s->t.log, "WARNING: step 812: loss 'loss' is 9.1, which is 15.2 standard deviations above 1.5, the "
                              "mean of the last 128 values; update skipped, 1 in a row\n");
    stage_close(s);
}

static void a_spike_fails_and_stops(void **state)
{
    training *t = prepare(state);
    t->values[12] = t->values[23] = 40;
    open_with(t, GUARD(.policy = HS_GUARD_STOP));
    assert_ok(poisoned_run(t->p, "train", 20), &t->p->s->err);
    stage_close(t->p->s);
    assert_int_equal(t->p->s->outcome.step, 12);
    assert_int_equal(latest_step(t->p->s->directory), 11);
    t->p->position = 12;
    open_with(t, GUARD());
    t->p->position = 12; /* after the bad batch */
    assert_fails(poisoned_run(t->p, "train", 20), HS_FAILED_PRECONDITION, &t->p->s->err,
                 "at step 22: loss 'measure:0' is 40, which is ");
}

/* Batch 8 is a spike compared with the four values of the checkpoint, but not compared with the values accepted after
 * it. */
static void a_rollback_restores_the_values(void **state)
{
    static const double values[] = {0, 1, 2, 1, 2, 2.9, 2.9, 50, 3.5, 1.5, 1.5, 1.5};
    training *t = prepare(state);
    memcpy(t->values, values, sizeof values);
    hs_hook hooks[] = {hs_finite_guard(.losses = HS_NAMES("measure:0"), .spike_zscore = 3, .spike_window = 4,
                                       .policy = HS_GUARD_ROLLBACK, .skip_op = "draw"),
                       poisoned_saver(t->p, .every_n_steps = 4)};
    assert_ok(poisoned_open(t->p, false, hooks, 2), &t->p->s->err);
    assert_ok(poisoned_run(t->p, "train", 7), &t->p->s->err);
    assert_int_equal(hs_session_global_step(t->p->s->session, NULL), 4);
    assert_ok(poisoned_run(t->p, "train", 1), &t->p->s->err);
    assert_contains(t->p->s->t.log, "step 5: loss 'measure:0' is 3.5, which is 4 standard deviations above 1.5, the mean "
                                    "of the last 4 values; rolled back to step 4");
    assert_ok(poisoned_run(t->p, "train", 3), &t->p->s->err);
    stage_close(t->p->s);
    assert_true(t->p->weight == 1 + 2 + 3 + 4 + 9 + 10 + 11);
}

/* The checkpoint was saved without the guard. The values of the undone steps do not count. */
static void a_rollback_to_a_state_without_values_forgets_them(void **state)
{
    static const double values[] = {0, 1, 2, 1, 2, 1, 2, 1, 2, 50, 30, 30};
    training *t = prepare(state);
    memcpy(t->values, values, sizeof values);
    hs_hook saver = poisoned_saver(t->p, .every_n_steps = 4);
    assert_ok(poisoned_open(t->p, false, &saver, 1), &t->p->s->err);
    assert_ok(poisoned_run(t->p, "train", 4), &t->p->s->err);
    stage_close(t->p->s);
    hs_hook hooks[] = {
        hs_finite_guard(.losses = HS_NAMES("measure:0"), .spike_window = 4, .policy = HS_GUARD_ROLLBACK, .skip_op = "draw"),
        poisoned_saver(t->p, .every_n_steps = 1000)};
    assert_ok(poisoned_open(t->p, true, hooks, 2), &t->p->s->err);
    assert_ok(poisoned_run(t->p, "train", 5), &t->p->s->err);
    assert_int_equal(hs_session_global_step(t->p->s->session, NULL), 4);
    assert_ok(poisoned_run(t->p, "train", 2), &t->p->s->err);
    assert_int_equal(hs_session_global_step(t->p->s->session, NULL), 6);
    stage_close(t->p->s);
    assert_true(t->p->weight == 1 + 2 + 3 + 4 + 10 + 11);
}

/* The weight after each step, which shows the updates that were made. */
static void train_some(training *t, int from, int until, float *weights)
{
    open_with(t, GUARD(.policy = HS_GUARD_SKIP_STEP, .update_op = "update"));
    for (int step = from; step < until; step++) {
        while (hs_session_global_step(t->p->s->session, NULL) == step)
            assert_ok(poisoned_run(t->p, "compute", 1), &t->p->s->err);
        weights[step] = t->p->weight;
    }
}

static void train_whole(training *t, float *weights)
{
    uint64_t random = 99;
    for (int i = 0; i < MOST; i++)
        t->values[i] = (i < 20 ? 3 : 9) + noise(&random);
    t->values[12] = t->values[15] = 8;
    train_some(t, 0, STEPS, weights);
    stage_close(t->p->s);
    assert_true(count_of(t->p->s->t.log, "update skipped") >= 4);
    assert_true(t->p->label < STEPS + 10); /* the new level is accepted */
    test_empty_directory(t->p->s->directory);
    t->p->weight = 0;
    t->p->position = 0;
}

/* Sets the memory to that of a new process. */
static void forget(training *t)
{
    t->p->weight = -1;
    t->p->position = -1;
}

static void a_training_that_is_stopped_makes_the_same_decisions(void **state)
{
    training *t = prepare(state);
    float whole[STEPS], stopped[STEPS];
    train_whole(t, whole);
    for (int i = 0; i < STEPS; i++) {
        train_some(t, i, i + 1, stopped);
        stage_close(t->p->s);
        forget(t);
    }
    assert_memory_equal(stopped, whole, sizeof whole);
}

static void a_training_that_is_killed_makes_the_same_decisions(void **state)
{
    training *t = prepare(state);
    float whole[STEPS], *killed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(killed != MAP_FAILED);
    train_whole(t, whole);
    for (int i = 0; i < STEPS; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            train_some(t, i, i + 1, killed);
            kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        forget(t);
    }
    assert_memory_equal(killed, whole, sizeof whole);
    munmap(killed, 4096);
}

static void each_loss_has_its_own_values(void **state)
{
    training *t = prepare(state);
    for (int i = 0; i < MOST; i++)
        t->values[i] = i % 2;
    open_with(t, hs_finite_guard(.losses = HS_NAMES("measure:0", "measure:1"), .gradients = HS_NAMES("gradient"),
                                 .spike_window = 8, .policy = HS_GUARD_WARN));
    for (int i = 0; i < 8; i++) {
        t->norm = 100 + i % 2;
        assert_ok(poisoned_run(t->p, "train", 1), &t->p->s->err);
    }
    t->norm = 103;
    assert_ok(poisoned_run(t->p, "train", 1), &t->p->s->err);
    assert_lacks(t->p->s->t.log, "WARNING");
    t->norm = 120;
    assert_ok(poisoned_run(t->p, "train", 1), &t->p->s->err);
    assert_contains(t->p->s->t.log, "WARNING: step 10: loss 'measure:1' is 120, which is ");
    t->values[11] = 9;
    t->norm = (double)NAN;
    assert_ok(poisoned_run(t->p, "train", 1), &t->p->s->err);
    assert_contains(t->p->s->t.log, "WARNING: step 11: 1 more of the 3 watched tensors are bad: losses/measure:1\n");
    t->norm = 100;
    t->values[12] = (double)INFINITY;
    assert_ok(poisoned_run(t->p, "train", 1), &t->p->s->err);
    assert_contains(t->p->s->t.log, "WARNING: step 12: loss 'measure:0' is +infinity");
    stage_close(t->p->s);
}

static void a_loss_is_one_number(void **state)
{
    poisoned *p = *state;
    hs_hook guard = hs_finite_guard(.losses = HS_NAMES("gradient"));
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_fails(poisoned_run(p, "train", 1), HS_INVALID_ARGUMENT, &p->s->err,
                 "loss 'gradient' has shape [2,3]; it must have one element");
}

/* State, options and memory. */

static void fill_state(training *t, hs_hook guard, hs__buffer *saved)
{
    hs_hook held = hs_hook_hold(guard);
    hs__buffer_init(saved, &t->p->s->t.env);
    hs_state_writer out = hs__state_writer_to(saved);
    assert_ok(poisoned_open(t->p, false, &held, 1), &t->p->s->err);
    assert_ok(poisoned_run(t->p, "train", 11), &t->p->s->err);
    assert_ok(guard.ops->save_state(guard.self, &out, &t->p->s->err), &t->p->s->err);
    stage_close(t->p->s);
    hs_hook_free(guard);
}

static void a_state_is_loaded_as_a_whole(void **state)
{
    training *t = prepare(state);
    hs__buffer saved;
    hs_error *err = &t->p->s->err;
    fill_state(t, GUARD(.policy = HS_GUARD_WARN), &saved);
    const hs_hook others[] = {GUARD(), hs_finite_guard(.losses = HS_NAMES("measure:0"), .spike_window = 3),
                              hs_finite_guard(.losses = HS_NAMES("measure:0", "measure:1"), .spike_window = 9),
                              hs_finite_guard(.gradients = HS_NAMES("gradient"))};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        for (size_t bytes = 0; bytes <= saved.size; bytes++) {
            hs_state_reader in = {.at = (const unsigned char *)saved.data, .left = bytes, .version = 1};
            assert_int_equal(others[i].ops->load_state(others[i].self, &in, err),
                             bytes < saved.size ? HS_DATA_LOSS : HS_OK);
            assert_int_equal(hs_state_reader_remaining(&in) > 0 && bytes == saved.size, 0);
        }
        hs_hook_free(others[i]);
    }
    const int64_t wrong[][3] = {{1, -1, 0}, {1, 0, -1}, {1, 0, INT64_MAX}, {1, INT64_MAX, 0}};
    hs_hook guard = GUARD();
    size_t head = saved.size - 8 * sizeof(double) - 3 * sizeof(int64_t);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy((char *)saved.data + head, wrong[i], sizeof wrong[i]);
        hs_state_reader in = {.at = (const unsigned char *)saved.data, .left = saved.size, .version = 1};
        assert_int_equal(guard.ops->load_state(guard.self, &in, err), HS_DATA_LOSS);
    }
    hs_hook_free(guard);
    hs__buffer_free(&saved);
}

/* In version 0, three numbers of the schedule follow the three counts: the runs, the last one that was checked, and the
 * next one that is listed; -1: none. */
static void a_state_of_version_0_is_read_without_its_schedule(void **state)
{
    stage *s = ((poisoned *)*state)->s;
    enum { COUNTS = 3, SCHEDULE = 3, MOST_NUMBERS = 12 };
    const double values[] = {0.25, 0.75, 1.25};
    int64_t bits[3];
    memcpy(bits, values, sizeof bits);
    const struct {
        hs_hook guard;
        size_t n;
        int64_t numbers[MOST_NUMBERS];
    } cases[] = {
        {hs_finite_guard(.losses = HS_NAMES("loss"), .every_n_steps = 2),
         12,
         {1, 2, 3, 6, 5, -1, 1, 3, 0, bits[0], bits[1], bits[2]}},
        {hs_finite_guard(.losses = HS_NAMES("loss"), .when = HS_AT_STEPS(2, 9)), 10, {1, 2, 3, 6, 2, 9, 1, 1, 0, bits[0]}},
        {hs_finite_guard(.losses = HS_NAMES("loss")), 10, {1, 2, 3, 6, -1, -1, 1, 1, 0, bits[0]}},
        {hs_finite_guard(.gradients = HS_NAMES("loss"), .policy = HS_GUARD_SKIP_STEP, .update_op = "update"),
         7,
         {0, 0, 3, 6, -1, -1, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hs_hook guard = cases[i].guard;
        int64_t kept[MOST_NUMBERS];
        size_t n = cases[i].n;
        memcpy(kept, cases[i].numbers, COUNTS * sizeof *kept);
        memcpy(kept + COUNTS, cases[i].numbers + COUNTS + SCHEDULE, (n - COUNTS - SCHEDULE) * sizeof *kept);
        hs_state_reader in = {.at = (const unsigned char *)cases[i].numbers, .left = n * sizeof *kept};
        assert_ok(guard.ops->load_state(guard.self, &in, &s->err), &s->err);
        assert_int_equal(hs_state_reader_remaining(&in), 0);
        hs__buffer saved;
        hs__buffer_init(&saved, &s->t.env);
        hs_state_writer out = hs__state_writer_to(&saved);
        assert_ok(guard.ops->save_state(guard.self, &out, &s->err), &s->err);
        assert_int_equal(saved.size, (n - SCHEDULE) * sizeof *kept);
        assert_memory_equal(saved.data, kept, saved.size);
        hs__buffer_free(&saved);
        hs_hook_free(guard);
    }
}

static void invalid_options_are_refused(void **state)
{
    poisoned *p = *state;
    const struct {
        const char *message;
        hs_hook hook;
    } cases[] = {
        {"spike_zscore has no effect without losses",
         hs_finite_guard(.gradients = HS_NAMES("gradient"), .spike_zscore = 3)},
        {"spike_window has no effect", hs_finite_guard(.gradients = HS_NAMES("gradient"), .spike_window = 3)},
        {"spike_zscore is -3", hs_finite_guard(.losses = HS_NAMES("rate"), .spike_zscore = -3)},
        {"spike_zscore is nan", hs_finite_guard(.losses = HS_NAMES("rate"), .spike_zscore = (double)NAN)},
        {"spike_window is 1;", hs_finite_guard(.losses = HS_NAMES("rate"), .spike_window = 1)},
        {"spike_window is -1;", hs_finite_guard(.losses = HS_NAMES("rate"), .spike_window = HS_NEVER)},
        {"spike_window is 1048577;", hs_finite_guard(.losses = HS_NAMES("rate"), .spike_window = (1 << 20) + 1)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(poisoned_open(p, false, &cases[i].hook, 1), HS_INVALID_ARGUMENT, &p->s->err, cases[i].message);
}

static void begin_reports_exhausted_memory(void **state)
{
    poisoned *p = *state;
    for (size_t k = 1; k <= 6; k++) {
        test_env poor;
        test_env_init(&poor);
        poor.fail_alloc_at = k;
        const hs_env *memory = hs__set_hook_memory(&poor.env);
        hs_hook hook = hs_finite_guard(.losses = HS_NAMES("rate", "weight"));
        hs__set_hook_memory(memory);
        assert_fails(poisoned_open(p, false, &hook, 1), HS_RESOURCE_EXHAUSTED, &p->s->err, "hook 'finite_guard', begin");
        assert_int_equal(poor.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spikes_are_those_of_the_formula),
        cmocka_unit_test(nothing_is_a_spike_before_the_window_is_full),
        cmocka_unit_test(values_that_are_equal_have_no_spikes),
        cmocka_unit_test(a_level_that_stays_is_accepted),
        cmocka_unit_test(a_level_that_stays_is_accepted_by_a_large_window),
        cmocka_unit_test(falls_and_values_that_are_not_finite_are_no_spikes),
        with_poisoned(a_warning_changes_nothing),
        with_poisoned(the_update_of_a_spike_is_skipped),
        with_poisoned(the_line_describes_the_spike),
        with_poisoned(a_spike_fails_and_stops),
        with_poisoned(a_rollback_restores_the_values),
        with_poisoned(a_rollback_to_a_state_without_values_forgets_them),
        with_poisoned(a_training_that_is_stopped_makes_the_same_decisions),
        with_poisoned(a_training_that_is_killed_makes_the_same_decisions),
        with_poisoned(each_loss_has_its_own_values),
        with_poisoned(a_loss_is_one_number),
        with_poisoned(a_state_is_loaded_as_a_whole),
        with_poisoned(a_state_of_version_0_is_read_without_its_schedule),
        with_poisoned(invalid_options_are_refused),
        with_poisoned(begin_reports_exhausted_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
