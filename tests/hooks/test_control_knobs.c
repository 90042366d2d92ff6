/* SPDX-License-Identifier: Apache-2.0 */
/* The knobs of the control hook. */
#define _POSIX_C_SOURCE 200809L /* chmod */
#include "checkpoint/model.h"
#include "hooks/stage.h"
#include "summary/events.h"

#include "base/state.h"

#include <sys/stat.h>

/* A program with a knob of each kind, and a model to train. */
typedef struct {
    stage *s;
    model m;
    double lr;
    int64_t batch;
    bool augment;
    double callback; /* the last value of a knob without a variable */
    int calls;
} program;

static hs_code set_callback(void *user, hs_knob_value value, hs_error *err)
{
    program *p = user;
    p->calls++;
    if (value.number > 100)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "there is no room for %g", value.number);
    p->callback = value.number;
    return HS_OK;
}

static hs_hook make_hook(program *p, size_t n, const char *summary_dir)
{
    hs_knob knobs[] = {
        {.name = "lr", .value = &p->lr, .max = 10},
        {.name = "callback", .set = set_callback, .user = p},
        {.name = "batch", .kind = HS_KNOB_INTEGER, .value = &p->batch, .min = 1, .max = 1e6},
        {.name = "augment", .kind = HS_KNOB_BOOL, .value = &p->augment},
        {.name = NULL},
    };
    knobs[n].name = NULL;
    return hs_control(.path = test_path(p->s->directory, "control"), .knobs = knobs, .summary_dir = summary_dir);
}

static hs_code try_begin(program *p, stage *s, size_t n_knobs, const char *summary_dir)
{
    *p = (program){.s = s, .lr = 0.5, .batch = 32};
    model_set(&p->m, 0);
    model_build(&p->m, &s->t.env);
    hs_hook hooks[] = {make_hook(p, n_knobs, summary_dir),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1),
                       {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory);
    p->m.session = hs_session_open(hs_graph_backend(p->m.graph), &options, &p->m.err);
    return p->m.session ? HS_OK : p->m.err.code;
}

/* Starts the program with its first `n` knobs. */
static void begin(program *p, stage *s, size_t n_knobs)
{
    assert_ok(try_begin(p, s, n_knobs, NULL), &p->m.err);
}

static void order(program *p, const char *text)
{
    const char *path = test_path(p->s->directory, "control");
    test_write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
    test_env_advance(&p->s->t, 1);
    assert_ok(model_train(&p->m, 1), &p->m.err);
}

static void finish(program *p)
{
    p->s->outcome = model_close(&p->m);
    assert_ok(p->s->outcome.error.code, &p->s->outcome.error);
}

static void each_kind_is_set(void **state)
{
    program p;
    begin(&p, *state, 4);
    order(&p, "set lr=2\nset batch=64\nset augment=true\nset callback=7\n");
    assert_true(p.lr == 2);
    assert_int_equal(p.batch, 64);
    assert_true(p.augment);
    assert_true(p.callback == 7);
    assert_contains(p.s->t.log, "'augment' set from false to true");
    assert_contains(p.s->t.log, "'callback' set from unknown to 7");
    order(&p, "set augment=0\nset batch=1e2\n");
    assert_false(p.augment);
    assert_int_equal(p.batch, 100);
    finish(&p);
}

static hs_code note_value(void *user, hs_knob_value value, hs_error *err)
{
    (void)err;
    *(hs_knob_value *)user = value;
    return HS_OK;
}

static void a_function_gets_a_value_of_the_knobs_kind(void **state)
{
    stage *s = *state;
    hs_knob_value integer = {.integer = 7}, truth = {.truth = false};
    const hs_knob knobs[] = {
        {.name = "integer", .kind = HS_KNOB_INTEGER, .set = note_value, .user = &integer, .max = 9e15},
        {.name = "truth", .kind = HS_KNOB_BOOL, .set = note_value, .user = &truth},
        {0},
    };
    const char *path = test_path(s->directory, "control");
    const char text[] = "set integer=9007199254740001\nset integer=9.1e15\nset truth=true\n";
    stage_open(s, hs_control(.path = path, .knobs = knobs));
    test_write_file(path, text, sizeof text - 1);
    assert_int_equal(chmod(path, 0600), 0);
    stage_run(s, "train", 3, 1);
    assert_int_equal(integer.integer, 7); /* both values are beyond the limit, so the function is not called */
    assert_true(truth.truth);
    test_write_file(path, "set integer=8999999999999999\n", 29);
    assert_int_equal(chmod(path, 0600), 0);
    stage_run(s, "train", 3, 1);
    assert_int_equal(integer.integer, 8999999999999999);
}

static void values_of_another_kind_are_refused(void **state)
{
    program p;
    begin(&p, *state, 4);
    order(&p, "set batch=1.5\nset batch=true\nset augment=2\nset batch=0\nset callback=1e300000\n");
    assert_int_equal(p.batch, 32);
    assert_false(p.augment);
    assert_int_equal(p.calls, 0);
    assert_int_equal(count_of(p.s->t.log, "ignored: "), 5);
    finish(&p);
}

static void a_function_may_refuse(void **state)
{
    program p;
    begin(&p, *state, 4);
    order(&p, "set callback=7\nset callback=101\n");
    assert_true(p.callback == 7);
    assert_contains(p.s->t.log, "'set callback=101' ignored: there is no room for 101");
    finish(&p);
}

static void changes_are_in_the_event_file(void **state)
{
    stage *s = *state;
    program p;
    assert_ok(try_begin(&p, s, 4, s->directory), &p.m.err);
    order(&p, "save\n");
    order(&p, "set lr=2\n");
    finish(&p);
    assert_contains(events_text(s->directory), "control/lr=2@2");
}

/* Resuming. */

static void a_resumed_run_has_the_knobs_that_were_set(void **state)
{
    program p;
    begin(&p, *state, 4);
    order(&p, "set lr=2\nset batch=64\nset callback=7\n");
    finish(&p);
    begin(&p, *state, 4);
    assert_true(p.lr == 2);
    assert_int_equal(p.batch, 64);
    assert_true(p.callback == 7);
    assert_contains(p.s->t.log, "INFO: control: 'lr' set from 0.5 to 2, as in the checkpoint");
    finish(&p);
    begin(&p, *state, 4); /* the previous run set nothing */
    assert_true(p.lr == 2);
    finish(&p);
}

/* The checkpoint of the last order's step is resumed, with the value that the next step had. */
static void it_replays_the_same_values(void **state)
{
    program p;
    begin(&p, *state, 1);
    for (int i = 1; i <= 4; i++) {
        char text[32];
        snprintf(text, sizeof text, "set lr=%d\n", i);
        order(&p, text);
    }
    hs_session_fail(p.m.session, test_error(HS_ABORTED, "killed"));
    model_close(&p.m);
    begin(&p, *state, 1);
    assert_true(p.lr == (double)p.m.step);
    finish(&p);
}

/* For example, the program was started with another value. */
static void knobs_that_were_not_set_keep_the_programs_values(void **state)
{
    program p;
    begin(&p, *state, 4);
    order(&p, "set lr=2\n");
    p.batch = 128;
    finish(&p);
    begin(&p, *state, 4);
    assert_int_equal(p.batch, 32);
    finish(&p);
}

static void a_saved_knob_that_no_longer_exists_is_skipped(void **state)
{
    program p;
    begin(&p, *state, 4);
    order(&p, "set lr=2\nset batch=64\n");
    finish(&p);
    begin(&p, *state, 1);
    assert_true(p.lr == 2);
    assert_contains(p.s->t.log, "the checkpoint has batch=64, which is not a knob of this program; ignored");
    finish(&p);
}

static void a_saved_value_that_no_longer_fits_is_skipped(void **state)
{
    stage *s = *state;
    program p;
    begin(&p, s, 4);
    order(&p, "set lr=2\n");
    finish(&p);
    double lr = 0.5;
    const hs_knob narrow = {.name = "lr", .value = &lr, .max = 1};
    hs_hook hook = hs_control(.path = "none", .knobs = HS_KNOBS(narrow));
    model_build(&p.m, &s->t.env);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .checkpoint_dir = s->directory);
    assert_non_null(p.m.session = hs_session_open(hs_graph_backend(p.m.graph), &options, &p.m.err));
    model_close(&p.m);
    assert_true(lr == 0.5);
    assert_contains(s->t.log, "WARNING: control: 'lr' not changed (still 0.5): the checkpoint's value 2 is refused: ");
}

static void a_rollback_resets_knobs_that_were_set_since(void **state)
{
    program p;
    hs_state_copy *copy = NULL;
    begin(&p, *state, 4);
    order(&p, "set batch=64\n");
    assert_ok(hs_raw_session_copy_state(model_raw(&p.m), &copy, &p.m.err), &p.m.err);
    order(&p, "set lr=2\nset batch=128\n");
    assert_ok(hs_raw_session_restore_copy(model_raw(&p.m), copy, &p.m.err), &p.m.err);
    hs_state_copy_free(copy);
    assert_true(p.lr == 0.5);
    assert_int_equal(p.batch, 64);
    assert_contains(p.s->t.log, "WARNING: control: 'lr' reset from 2 to 0.5");
    order(&p, "set lr=3\n");
    assert_true(p.lr == 3);
    finish(&p);
}

/* Failing. */

static void assert_damaged(stage *s, const void *state, size_t bytes)
{
    program p = {.s = s, .lr = 0.5};
    hs_state_reader in = {.at = state, .left = bytes};
    hs_hook hook = make_hook(&p, 4, NULL);
    hs_code code = hook.ops->load_state(hook.self, &in, &s->err);
    hs_hook_free(hook);
    assert_int_equal(code, HS_DATA_LOSS);
    assert_true(p.lr == 0.5);
}

static void a_damaged_state_is_refused(void **state)
{
    struct {
        uint64_t n, length;
        char text[16];
    } damaged[] = {{.n = 1, .length = 2, .text = "lr"},        /* without a value */
                   {.n = 1, .length = 1000, .text = "lr"},     /* a name that is too long */
                   {.n = 1, .length = 0},                      /* no name */
                   {.n = 1, .length = 8, .text = "l\0rrrrrr"}, /* not a name */
                   {.n = UINT64_MAX, .length = 2, .text = "zz"}};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_damaged(*state, &damaged[i], i == 0 ? 18 : sizeof damaged[i]);
    assert_damaged(*state, damaged, 4);
    assert_damaged(*state, damaged, 0);
}

static hs_code each_scenario(test_env *t, void *user)
{
    program p;
    stage *s = user;
    hs_error err = {0};
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    p = (program){.s = s, .lr = 0.5};
    const hs_knob knob = {.name = "lr", .value = &p.lr};
    const char *path = test_path(s->directory, "control");
    hs_hook hook = hs_control(.path = path, .knobs = HS_KNOBS(knob), .summary_dir = s->directory);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    test_write_file(path, "set lr=2\nstop\n", 14);
    chmod(path, 0600);
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    if (session && !hs_session_run(session, "train", &err))
        assert_true(p.lr == 2);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    test_each_allocation(each_scenario, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(each_kind_is_set),
        with_stage(a_function_gets_a_value_of_the_knobs_kind),
        with_stage(values_of_another_kind_are_refused),
        with_stage(a_function_may_refuse),
        with_stage(changes_are_in_the_event_file),
        with_stage(a_resumed_run_has_the_knobs_that_were_set),
        with_stage(it_replays_the_same_values),
        with_stage(knobs_that_were_not_set_keep_the_programs_values),
        with_stage(a_saved_knob_that_no_longer_exists_is_skipped),
        with_stage(a_saved_value_that_no_longer_fits_is_skipped),
        with_stage(a_rollback_resets_knobs_that_were_set_since),
        with_stage(a_damaged_state_is_refused),
        with_stage(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
