/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are added while the session is open. */
#include "checkpoint/cell.h"

#include <math.h>
#include <unistd.h>

enum { N = 4 };

static hs_code add_as(fixture *f, const char *name, hs_dtype dtype, hs_shape shape, void *data)
{
    return hs_raw_session_add_variable(
        model_raw(&f->m), HS_VARIABLE_DEF(.name = name, .dtype = dtype, .shape = shape, .data = data), &f->err);
}

static hs_code add(fixture *f, float *moments)
{
    return add_as(f, "moments", HS_FLOAT, HS_SHAPE(N), moments);
}

static void set(float *moments, float value)
{
    for (int i = 0; i < N; i++)
        moments[i] = value + (float)i;
}

static bool is(const float *moments, float value)
{
    bool same = true;
    for (int i = 0; i < N; i++)
        same &= moments[i] == value + (float)i;
    return same;
}

/* A checkpoint of step 1 with moments of 5, and a session that was restored from it. */
static void begin(fixture *f)
{
    float moments[N];
    set(moments, 5);
    assert_ok(add(f, moments), &f->err);
    save_at(f, 1);
    assert_ok(open_with_state(f, NULL), &f->err);
    test_env_clear_log(&f->t);
}

static void train(fixture *f)
{
    assert_ok(model_train(&f->m, 1), &f->m.err);
}

static hs_code restore(fixture *f, int64_t step)
{
    return hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, step, NULL), NULL, &f->err);
}

static void a_late_variable_is_restored_immediately(void **state)
{
    fixture *f = *state;
    float moments[N] = {0};
    begin(f);
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 5));
    train(f);
    assert_string_equal(f->t.log, "");
}

static void a_late_variable_is_saved_with_its_type_and_shape(void **state)
{
    fixture *f = *state;
    char name[] = "moments";
    float moments[N];
    set(moments, 7);
    assert_ok(add_as(f, name, HS_FLOAT, HS_SHAPE(2, 2), moments), &f->err);
    memset(name, 'x', 3); /* it is copied */
    save_at(f, 1);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, file_of(f, 1, NULL), &f->err);
    hs_tensor info;
    assert_ok(hs_checkpoint_find(reader, "moments", &info, &f->err), &f->err);
    assert_int_equal(info.dtype, HS_FLOAT);
    assert_int_equal(info.rank, 2);
    hs_checkpoint_close(reader);
}

static void a_later_restore_finds_it_among_the_others(void **state)
{
    fixture *f = *state;
    float moments[N];
    begin(f);
    assert_ok(add(f, moments), &f->err);
    set(moments, 8);
    assert_ok(restore(f, 1), &f->err);
    assert_true(is(moments, 5));
    train(f);
    assert_lacks(f->t.log, "no provider loads");
}

static void without_a_restore_it_is_only_added(void **state)
{
    fixture *f = *state;
    float moments[N];
    set(moments, 7);
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 7));
    assert_string_equal(f->t.log, "");
}

static void a_checkpoint_that_lacks_it_leaves_its_value(void **state)
{
    fixture *f = *state;
    float moments[N];
    set(moments, 7);
    save_at(f, 1);
    assert_ok(open_with_state(f, NULL), &f->err);
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 7));
    assert_contains(f->t.log, "WARNING: checkpoint '");
    assert_contains(f->t.log, "model.ckpt-1' has no variable 'moments'; it keeps its initial value");
}

/* A rollback to before it was added. */
static void a_checkpoint_of_before_sets_its_first_value(void **state)
{
    fixture *f = *state;
    float moments[N];
    save_at(f, 1);
    set(moments, 7);
    assert_ok(add(f, moments), &f->err);
    save_at(f, 2);
    assert_ok(restore(f, 1), &f->err);
    for (int i = 0; i < N; i++)
        assert_true(moments[i] == 0);
    assert_true(model_is(&f->m, 1));
    assert_ok(restore(f, 2), &f->err);
    assert_true(is(moments, 7));
}

static void a_copy_in_memory_has_it(void **state)
{
    fixture *f = *state;
    hs_state_copy *before = NULL, *after = NULL;
    float moments[N];
    set(moments, 7);
    assert_ok(hs_raw_session_copy_state(model_raw(&f->m), &before, &f->err), &f->err);
    assert_ok(add(f, moments), &f->err);
    assert_ok(hs_raw_session_copy_state(model_raw(&f->m), &after, &f->err), &f->err);
    set(moments, 9);
    assert_ok(hs_raw_session_restore_copy(model_raw(&f->m), after, &f->err), &f->err);
    assert_true(is(moments, 7));
    assert_ok(hs_raw_session_restore_copy(model_raw(&f->m), before, &f->err), &f->err);
    assert_true(moments[0] == 0 && moments[N - 1] == 0);
    hs_state_copy_free(before);
    hs_state_copy_free(after);
}

/* Into a session without the variable. */
static void the_value_in_a_copy_stays_unclaimed(void **state)
{
    fixture *f = *state;
    hs_state_copy *copy = NULL;
    float moments[N];
    set(moments, 7);
    assert_ok(add(f, moments), &f->err);
    assert_ok(hs_raw_session_copy_state(model_raw(&f->m), &copy, &f->err), &f->err);
    assert_ok(reopen(f, NULL, NULL), &f->err);
    assert_ok(hs_raw_session_restore_copy(model_raw(&f->m), copy, &f->err), &f->err);
    set(moments, 9);
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 7));
    hs_state_copy_free(copy);
}

/* Waiting. */

static void checkpoints_carry_it_until_the_first_training_run(void **state)
{
    fixture *f = *state;
    float moments[N] = {0};
    begin(f);
    save_at(f, 1);
    save_at(f, 2);
    assert_true(has_tensor(f, 2, "hooksess/variable/moments:late"));
    assert_ok(open_with_state(f, NULL), &f->err);
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 5));
}

static void then_the_log_warns_once(void **state)
{
    fixture *f = *state;
    begin(f);
    train(f);
    train(f);
    assert_contains(f->t.log,
                    "model.ckpt-1' has the variable 'moments', but no provider loads it; later checkpoints omit it");
    assert_int_equal(times_logged(f, "no provider loads"), 1);
    assert_lacks(f->t.log, "no variable of the program uses");
    save_at(f, 2);
    assert_false(has_tensor(f, 2, "moments"));
    float moments[N] = {0};
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 5));
}

/* Too large to be kept in memory: it is read directly into the program's memory. */
static void a_large_one_is_read_again(void **state)
{
    fixture *f = *state;
    enum { LARGE = (72 << 20) / sizeof(float) };
    float *large = malloc(LARGE * sizeof *large);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (float)(i % 1000);
    assert_ok(add_as(f, "large", HS_FLOAT, HS_SHAPE(LARGE), large), &f->err);
    save_at(f, 1);
    assert_ok(open_with_state(f, NULL), &f->err);
    memset(large, 0, LARGE * sizeof *large);
    assert_ok(add_as(f, "large", HS_FLOAT, HS_SHAPE(LARGE), large), &f->err);
    for (size_t i = 0; i < LARGE; i++)
        if (large[i] != (float)(i % 1000))
            fail_msg("element %zu is %g", i, (double)large[i]);
    assert_ok(open_with_state(f, NULL), &f->err);
    unlink(file_of(f, 1, "index"));
    assert_fails(add_as(f, "large", HS_FLOAT, HS_SHAPE(LARGE), large), HS_NOT_FOUND, &f->err,
                 "cannot read the variable 'large', which was too large to keep in memory");
    free(large);
}

/* Memory. */

static void its_pointer_may_be_null(void **state)
{
    fixture *f = *state;
    float *moments = NULL;
    begin(f);
    assert_ok(hs_raw_session_add_variable(
                  model_raw(&f->m),
                  HS_VARIABLE_DEF(.name = "moments", .dtype = HS_FLOAT, .shape = HS_SHAPE(N), HS_DATA_AT(&moments)),
                  &f->err),
              &f->err);
    assert_true(is(moments, 5));
    free(moments);
    moments = NULL;
    save_at(f, 2);
    assert_true(has_tensor(f, 2, "hooksess/variable/moments:null"));
    assert_false(has_tensor(f, 2, "hooksess/variable/moments:late"));
    assert_ok(restore(f, 2), &f->err);
    assert_null(moments);
}

typedef struct {
    hs_memory memory;
    int to_device, to_host;
} card;

static hs_code to_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)err;
    ((card *)user)->to_host++;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)err;
    ((card *)user)->to_device++;
    memcpy(to, from, bytes);
    return HS_OK;
}

static void a_late_variable_may_be_on_a_device(void **state)
{
    fixture *f = *state;
    float moments[N] = {0};
    card c = {.memory = HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host)};
    c.memory.user = &c;
    begin(f);
    const hs_variable_def def = HS_INIT(hs_variable_def, .name = "moments", .dtype = HS_FLOAT, .shape = HS_SHAPE(N),
                                        .data = moments, .memory = &c.memory);
    assert_ok(hs_raw_session_add_variable(model_raw(&f->m), &def, &f->err), &f->err);
    assert_int_equal(c.to_device, 1);
    assert_true(is(moments, 5));
    save_at(f, 2);
    assert_int_equal(c.to_host, 1);
    assert_ok(restore(f, 2), &f->err);
    assert_int_equal(c.to_device, 2);
}

static void a_save_that_overlaps_copies_it_when_it_is_asked_for(void **state)
{
    fixture *f = *state;
    enum { LARGE = 100000 };
    float *large = calloc(LARGE, sizeof *large);
    assert_ok(add_as(f, "large", HS_FLOAT, HS_SHAPE(LARGE), large), &f->err);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1,
                            HS_SAVE_OPTIONS(.background = true, .overlap = true), &f->err),
              &f->err);
    memset(large, 1, LARGE * sizeof *large);
    hs_saver_wait(f->saver);
    assert_ok(restore(f, 1), &f->err);
    assert_true(large[0] == 0 && large[LARGE - 1] == 0);
    free(large);
}

static void a_late_variable_may_be_infinite(void **state)
{
    fixture *f = *state;
    double best = HUGE_VAL;
    assert_ok(hs_raw_session_add_variable(
                  model_raw(&f->m), HS_VARIABLE_DEF(.name = "best", .dtype = HS_DOUBLE, .data = &best, .nonfinite = true),
                  &f->err),
              &f->err);
    save_at(f, 1);
    best = 0;
    assert_ok(restore(f, 1), &f->err);
    assert_true(best == HUGE_VAL);
}

/* Refusals. */

static void invalid_additions_are_refused(void **state)
{
    fixture *f = *state;
    float moments[N] = {0};
    assert_fails(add_as(f, NULL, HS_FLOAT, HS_SHAPE(N), moments), HS_INVALID_ARGUMENT, &f->err, "has no name");
    assert_fails(add_as(f, "hooksess/x", HS_FLOAT, HS_SHAPE(N), moments), HS_INVALID_ARGUMENT, &f->err, "reserved");
    assert_fails(add_as(f, "m", HS_STRING, HS_SHAPE(N), moments), HS_INVALID_ARGUMENT, &f->err, "is of type string");
    assert_fails(add_as(f, "m", HS_FLOAT, HS_SHAPE(N), NULL), HS_INVALID_ARGUMENT, &f->err, "variable 'm': data is NULL");
    assert_fails(add_as(f, "weights", HS_FLOAT, HS_SHAPE(N), moments), HS_ALREADY_EXISTS, &f->err, "'weights'");
    assert_fails(hs_raw_session_add_variable(
                     model_raw(&f->m),
                     HS_VARIABLE_DEF(.name = "m", .dtype = HS_FLOAT, .data = moments, .flags = HS_VARIABLE_LOCAL), &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "'m': flags");
    assert_ok(add(f, moments), &f->err);
    assert_fails(add(f, moments), HS_ALREADY_EXISTS, &f->err, "'moments'");
    assert_fails(hs_raw_session_add_variable(NULL, HS_VARIABLE_DEF(.name = "m"), &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "session is NULL");
    assert_fails(hs_raw_session_add_variable(model_raw(&f->m), NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "def is NULL");
}

static void another_type_or_shape_is_refused(void **state)
{
    fixture *f = *state;
    float moments[2 * N] = {0};
    begin(f);
    assert_fails(add_as(f, "moments", HS_FLOAT, HS_SHAPE(2 * N), moments), HS_INVALID_ARGUMENT, &f->err,
                 "variable 'moments' is float [4] in the checkpoint, but float [8] in the program");
    assert_fails(add_as(f, "moments", HS_INT32, HS_SHAPE(N), moments), HS_INVALID_ARGUMENT, &f->err,
                 "int32 [4] in the program");
    assert_true(moments[0] == 0);
    assert_ok(add(f, moments), &f->err);
    assert_true(is(moments, 5));
}

/* Recovery. */

typedef struct {
    float moments[N];
    int created, losses, adds; /* adds: how often the variable is added by the hook */
} owner;

static hs_code add_again(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    owner *o = self;
    (void)coordinator;
    if (o->created++ >= o->adds)
        return HS_OK;
    return hs_raw_session_add_variable(
        session, HS_VARIABLE_DEF(.name = "moments", .dtype = HS_FLOAT, .shape = HS_SHAPE(N), .data = o->moments), err);
}

static const hs_hook_ops owner_ops = HS_INIT(hs_hook_ops, .name = "owner", .after_create_session = add_again);

static hs_code lose_once(void *user, hs_op *op, hs_error *err)
{
    owner *o = user;
    (void)op;
    set(o->moments, 9);
    return o->losses-- ? hs_error_set(err, HS_ABORTED, "lost") : HS_OK;
}

/* Opens a session whose op "lose" overwrites the owner's moments and loses the session. */
static void open_owned(fixture *f, owner *o)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_op(f->m.graph, .name = "lose", .run = lose_once, .user = o);
    const hs_hook hook = HS_HOOK(.ops = &owner_ops, .self = o);
    f->m.session =
        hs_session_open(hs_graph_backend(f->m.graph),
                        HS_SESSION_OPTIONS(.checkpoint_dir = f->directory, .recovery = HS_RECOVERY(.return_aborted = true),
                                           .hooks = HS_HOOKS(hook)),
                        &f->err);
    assert_non_null(f->m.session);
    o->losses = 1;
}

static void lose(fixture *f, owner *o)
{
    int before = o->created;
    assert_int_equal(hs_session_run(f->m.session, "lose", &f->err), HS_ABORTED);
    assert_int_equal(o->created, before + 1);
    o->losses = 1;
}

static void a_recovery_restores_a_late_variable(void **state)
{
    fixture *f = *state;
    owner o = {.adds = 2};
    set(o.moments, 5);
    open_owned(f, &o);
    save_at(f, 1);
    lose(f, &o);
    assert_true(is(o.moments, 5));
}

static void a_recovery_does_not_forget_it(void **state)
{
    fixture *f = *state;
    owner o = {.adds = 1};
    set(o.moments, 5);
    open_owned(f, &o);
    save_at(f, 1);
    for (int i = 0; i < 2; i++) {
        lose(f, &o);
        assert_true(is(o.moments, 5));
        train(f);
    }
    set(o.moments, 7);
    save_at(f, 2);
    set(o.moments, 9);
    assert_ok(restore(f, 2), &f->err);
    assert_true(is(o.moments, 7));
    assert_lacks(f->t.log, "no provider loads");
    assert_lacks(f->t.log, "keeps its initial value");
}

static void a_recovery_to_before_it_was_added_sets_its_first_value(void **state)
{
    fixture *f = *state;
    owner o = {.adds = 0};
    open_owned(f, &o);
    assert_ok(add(f, o.moments), &f->err);
    lose(f, &o); /* to the opening */
    assert_true(o.moments[0] == 0 && o.moments[N - 1] == 0);
    save_at(f, 1);
    assert_true(has_tensor(f, 1, "moments"));
}

/* For example with other memory. An earlier save has the value. */
static void after_a_recovery_it_may_be_added_once_more(void **state)
{
    fixture *f = *state;
    owner o = {.adds = 1};
    float other[N] = {0};
    set(o.moments, 5);
    open_owned(f, &o);
    save_at(f, 1);
    lose(f, &o);
    save_at(f, 2);
    assert_true(has_tensor(f, 2, "moments"));
    assert_fails(add_as(f, "moments", HS_FLOAT, HS_SHAPE(N + 1), other), HS_INVALID_ARGUMENT, &f->err,
                 "[5] in the program");
    assert_ok(add(f, other), &f->err);
    assert_true(is(other, 5));
    assert_fails(add(f, other), HS_ALREADY_EXISTS, &f->err, "'moments'");
    set(other, 6);
    save_at(f, 3);
    set(other, 0);
    assert_ok(restore(f, 3), &f->err);
    assert_true(is(other, 6));
    lose(f, &o);
    train(f);
    set(other, 8);
    assert_ok(add(f, other), &f->err); /* too late for the checkpoint's */
    assert_true(is(other, 8));
    assert_lacks(f->t.log, "keeps its initial value");
}

static void a_recovered_late_variable_may_be_added_again(void **state)
{
    fixture *f = *state;
    float first[N], last[N];
    owner o = {.adds = 2};
    set(o.moments, 5);
    set(first, 1);
    set(last, 2);
    open_owned(f, &o);
    assert_ok(add_as(f, "first", HS_FLOAT, HS_SHAPE(N), first), &f->err);
    assert_ok(add_as(f, "last", HS_FLOAT, HS_SHAPE(N), last), &f->err);
    save_at(f, 1);
    for (o.adds = 1; o.adds < 4; o.adds++) {
        set(first, 9);
        set(last, 9);
        lose(f, &o);
        assert_true(is(o.moments, 5) && is(first, 1) && is(last, 2));
    }
    assert_ok(add_as(f, "last", HS_FLOAT, HS_SHAPE(N), first), &f->err);
    assert_ok(add_as(f, "new", HS_FLOAT, HS_SHAPE(N), last), &f->err);
    assert_true(is(first, 2));
}

/* An unclaimed variable was allowed to be infinite when it was saved, and still is. */
static void an_unclaimed_variable_may_be_infinite(void **state)
{
    fixture *f = *state;
    double best = HUGE_VAL;
    const hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "best", .dtype = HS_DOUBLE, .data = &best, .nonfinite = true);
    assert_ok(hs_raw_session_add_variable(model_raw(&f->m), &def, &f->err), &f->err);
    save_at(f, 1);
    for (int64_t step = 2; step < 4; step++) {
        assert_ok(open_with_state(f, NULL), &f->err);
        save_at(f, step);
    }
    best = 0;
    assert_ok(hs_raw_session_add_variable(model_raw(&f->m), &def, &f->err), &f->err);
    assert_true(best == HUGE_VAL);
}

/* Whichever allocation fails, the variable stays unclaimed. */
static void each_allocation_of_adding_it(void **state)
{
    fixture *f = *state;
    float moments[N] = {0};
    begin(f);
    for (size_t k = 1;; k++) {
        f->t.fail_alloc_at = f->t.allocations + k;
        hs_code code = add(f, moments);
        bool failed = f->t.allocations >= f->t.fail_alloc_at;
        f->t.fail_alloc_at = 0;
        if (!failed) {
            assert_ok(code, &f->err);
            break;
        }
        assert_int_equal(code, HS_RESOURCE_EXHAUSTED);
        assert_true(moments[0] == 0);
    }
    assert_true(is(moments, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_late_variable_is_restored_immediately),
        with_fixture(a_late_variable_is_saved_with_its_type_and_shape),
        with_fixture(a_later_restore_finds_it_among_the_others),
        with_fixture(without_a_restore_it_is_only_added),
        with_fixture(a_checkpoint_that_lacks_it_leaves_its_value),
        with_fixture(a_checkpoint_of_before_sets_its_first_value),
        with_fixture(a_copy_in_memory_has_it),
        with_fixture(the_value_in_a_copy_stays_unclaimed),
        with_fixture(checkpoints_carry_it_until_the_first_training_run),
        with_fixture(then_the_log_warns_once),
        with_fixture(a_large_one_is_read_again),
        with_fixture(its_pointer_may_be_null),
        with_fixture(a_late_variable_may_be_on_a_device),
        with_fixture(a_save_that_overlaps_copies_it_when_it_is_asked_for),
        with_fixture(a_late_variable_may_be_infinite),
        with_fixture(invalid_additions_are_refused),
        with_fixture(another_type_or_shape_is_refused),
        with_fixture(a_recovery_restores_a_late_variable),
        with_fixture(a_recovery_does_not_forget_it),
        with_fixture(a_recovery_to_before_it_was_added_sets_its_first_value),
        with_fixture(after_a_recovery_it_may_be_added_once_more),
        with_fixture(a_recovered_late_variable_may_be_added_again),
        with_fixture(an_unclaimed_variable_may_be_infinite),
        with_fixture(each_allocation_of_adding_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
