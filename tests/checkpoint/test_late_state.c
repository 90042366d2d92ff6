/* SPDX-License-Identifier: Apache-2.0 */
/* Providers that are added while the session is open, and the unclaimed states that they load. */
#include "checkpoint/cell.h"

#include "checkpoint/stored_states.h"

#include <unistd.h>

static hs_code add(fixture *f, const hs_state_provider *provider)
{
    return hs_raw_session_add_state(model_raw(&f->m), provider, &f->err);
}

/* A session without providers, restored from a checkpoint of step 1 with the state of a loader. */
static void begin(fixture *f, int64_t version, const char *identity)
{
    save_loader(f, version, identity);
    assert_ok(open_with_state(f, NULL), &f->err);
    test_env_clear_log(&f->t);
}

static void train(fixture *f)
{
    assert_ok(model_train(&f->m, 1), &f->m.err);
}

/* Coming late. */

static void a_late_provider_is_loaded_immediately(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    begin(f, 3, "digits");
    hs_state_provider provider = cell_of(&c, "loader", 4, "digits");
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.value, 5);
    assert_int_equal(c.version, 3);
    train(f);
    assert_string_equal(f->t.log, ""); /* no unclaimed state */
}

static void a_late_provider_is_saved_afterwards(void **state)
{
    fixture *f = *state;
    cell c = {.value = 7}, loaded = {.value = 0};
    char name[] = "loader", identity[] = "digits";
    hs_state_provider provider = cell_of(&c, name, 1, identity);
    assert_ok(add(f, &provider), &f->err);
    memset(name, 'x', 3); /* they are copied */
    memset(identity, 'x', 3);
    save_at(f, 1);
    assert_ok(load_loader(f, &loaded, 1, "digits"), &f->err);
    assert_int_equal(loaded.value, 7);
    assert_lacks(f->t.log, "WARNING");
}

static void without_a_restore_it_is_only_added(void **state)
{
    fixture *f = *state;
    cell c = {.value = 7};
    hs_state_provider provider = cell_provider(&c, "loader");
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.loads, 0);
    assert_string_equal(f->t.log, "");
}

static void without_state_in_the_checkpoint_a_late_provider_keeps_its_initial_value(void **state)
{
    fixture *f = *state;
    cell c = {.value = 7};
    begin(f, 0, NULL);
    hs_state_provider provider = cell_provider(&c, "generator");
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.value, 7);
    assert_contains(f->t.log, "model.ckpt-1' has no state 'hooksess/state/generator'; it keeps its initial value");
}

/* A later restore loads it like other providers. */
static void a_later_restore_loads_a_late_provider(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    begin(f, 0, NULL);
    hs_state_provider provider = cell_provider(&c, "loader");
    assert_ok(add(f, &provider), &f->err);
    c.value = 8;
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
    assert_int_equal(c.value, 5);
    assert_int_equal(c.loads, 2);
    train(f);
    assert_lacks(f->t.log, "no provider loads");
}

static void a_restore_replaces_the_unclaimed_states(void **state)
{
    fixture *f = *state;
    cell c = {.value = 7}, other = {.value = 6};
    hs_state_provider provider = cell_provider(&other, "generator");
    assert_ok(reopen(f, &provider, NULL), &f->err);
    save_at(f, 2);
    begin(f, 0, NULL);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 2, NULL), NULL, &f->err), &f->err);
    provider = cell_provider(&c, "loader");
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.loads, 0);
    train(f);
    assert_contains(f->t.log, "model.ckpt-2' has the state 'hooksess/state/generator', but no provider loads it");
    assert_int_equal(times_logged(f, "no provider loads"), 1);
}

/* The warning. */

static void the_warning_comes_once_after_the_first_training_run(void **state)
{
    fixture *f = *state;
    begin(f, 0, NULL);
    assert_ok(hs_session_run_args(f->m.session, HS_RUN_ARGS(.kind = HS_RUN_EVAL), NULL, &f->err), &f->err);
    assert_lacks(f->t.log, "no provider loads");
    train(f);
    assert_contains(f->t.log, "WARNING: checkpoint '");
    assert_contains(f->t.log, "has the state 'hooksess/state/loader', but no provider loads it; later checkpoints omit it");
    train(f);
    assert_int_equal(times_logged(f, "no provider loads"), 1);
}

static void after_the_warning_the_state_can_be_claimed(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    begin(f, 0, NULL);
    train(f);
    hs_state_provider provider = cell_provider(&c, "loader");
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.value, 5);
}

/* Adds a state in one of its callbacks. */
typedef struct {
    cell cell;
    bool when_created;
    hs_code code;
} latecomer;

static hs_code come(latecomer *l, hs_raw_session *session, hs_error *err)
{
    hs_state_provider provider = cell_provider(&l->cell, "loader");
    return l->cell.loads ? HS_OK : hs_raw_session_add_state(session, &provider, err);
}

static hs_code come_when_created(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    latecomer *l = self;
    (void)coordinator;
    return l->when_created ? come(l, session, err) : HS_OK;
}

static hs_code come_before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    latecomer *l = self;
    (void)args;
    return l->when_created ? HS_OK : come(l, hs_run_context_session(run), err);
}

static const hs_hook_ops latecomer_ops =
    HS_INIT(hs_hook_ops, .name = "latecomer", .after_create_session = come_when_created, .before_run = come_before_run);

static void hooks_may_add_state_in_their_callbacks(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        latecomer l = {.when_created = i};
        hs_hook hook = {.ops = &latecomer_ops, .self = &l};
        begin(f, 0, NULL);
        assert_ok(reopen(f, NULL, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook), .checkpoint_dir = f->directory)), &f->err);
        assert_int_equal(l.cell.loads, i);
        train(f);
        assert_int_equal(l.cell.value, 5);
        assert_lacks(f->t.log, "no provider loads");
    }
}

/* As for memory that is allocated in the first step. */
typedef struct {
    fixture *f;
    cell *cell;
} first_step;

static hs_code add_in_op(void *self, hs_op *op, hs_error *err)
{
    first_step *first = self;
    hs_state_provider provider = cell_provider(first->cell, "loader");
    (void)op;
    return hs_raw_session_add_state(model_raw(&first->f->m), &provider, err);
}

static void an_op_may_add_state_in_the_first_run(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    first_step first = {f, &c};
    begin(f, 0, NULL);
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_op(f->m.graph, .name = "allocate", .run = add_in_op, .user = &first);
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = f->directory);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), &options, &f->err);
    assert_ok(hs_session_run(f->m.session, "allocate", &f->err), &f->err);
    assert_int_equal(c.value, 5);
    assert_lacks(f->t.log, "no provider loads");
}

/* Refusals: the provider is not added, and the state stays unclaimed. */

static void assert_still_waits(fixture *f)
{
    cell c = {.value = 0};
    hs_state_provider provider = cell_of(&c, "loader", 3, "digits");
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.value, 5);
}

static void a_name_that_is_there(void **state)
{
    fixture *f = *state;
    cell c = {.value = 7}, other = {.value = 8};
    hs_state_provider provider = cell_provider(&c, "loader");
    assert_ok(reopen(f, &provider, NULL), &f->err);
    provider = cell_provider(&other, "loader");
    assert_fails(add(f, &provider), HS_ALREADY_EXISTS, &f->err, "'hooksess/state/loader'");
    provider = cell_provider(&other, "generator");
    assert_ok(add(f, &provider), &f->err);
    assert_fails(add(f, &provider), HS_ALREADY_EXISTS, &f->err, "'hooksess/state/generator'");
    save_at(f, 1);
    c.value = other.value = 0;
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
    assert_int_equal(c.value, 7);
    assert_int_equal(other.value, 8);
    assert_int_equal(other.loads, 1);
}

static void invalid_providers_are_refused(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    hs_state_provider provider = cell_provider(&c, "a:b");
    assert_fails(add(f, &provider), HS_INVALID_ARGUMENT, &f->err, "state 'a:b'");
    provider.name = NULL;
    assert_fails(add(f, &provider), HS_INVALID_ARGUMENT, &f->err, "no name");
    provider = cell_provider(&c, "loader");
    provider.load = NULL;
    assert_fails(add(f, &provider), HS_INVALID_ARGUMENT, &f->err, "state 'loader': save or load is NULL");
    assert_fails(add(f, NULL), HS_INVALID_ARGUMENT, &f->err, "hs_state_provider");
    provider = cell_provider(&c, "loader");
    assert_fails(hs_raw_session_add_state(NULL, &provider, &f->err), HS_FAILED_PRECONDITION, &f->err, "session is NULL");
}

static void another_identity_or_an_earlier_version_is_refused(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    begin(f, 3, "digits");
    hs_state_provider provider = cell_of(&c, "loader", 3, "fashion");
    assert_fails(
        add(f, &provider), HS_FAILED_PRECONDITION, &f->err,
        "model.ckpt-1': state 'hooksess/state/loader' belongs to 'digits', but its provider has identity 'fashion'");
    provider = cell_of(&c, "loader", 2, "digits");
    assert_fails(add(f, &provider), HS_FAILED_PRECONDITION, &f->err,
                 "has version 3, but its provider supports versions up to");
    assert_int_equal(c.loads, 0);
    assert_still_waits(f);
}

static void any_identity_applies_to_late_providers(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    hs_restore_options restore = HS_INIT(hs_restore_options, .any_identity = true);
    hs_state_provider provider = cell_of(&c, "loader", 3, "fashion");
    begin(f, 3, "digits");
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), &restore, &f->err), &f->err);
    assert_ok(add(f, &provider), &f->err);
    assert_int_equal(c.value, 5);
}

static void a_late_provider_whose_load_fails(void **state)
{
    fixture *f = *state;
    cell c = {.fails = HS_UNAVAILABLE};
    begin(f, 3, "digits");
    hs_state_provider provider = cell_of(&c, "loader", 3, "digits");
    assert_fails(add(f, &provider), HS_UNAVAILABLE, &f->err,
                 "model.ckpt-1': cannot load state 'hooksess/state/loader': the disk of the data is gone");
    assert_still_waits(f);
}

/* A provider's own functions. */

static fixture *nested;
static cell nested_cell;

static hs_code add_in_load(void *self, hs_state_reader *in, hs_error *err)
{
    hs_state_provider inner = cell_provider(&nested_cell, "inner"), mine = cell_provider(self, "");
    hs_code code = hs_raw_session_add_state(model_raw(&nested->m), &inner, err);
    return code ? code : mine.load(self, in, err);
}

static hs_code add_in_save(void *self, hs_state_writer *out, hs_error *err)
{
    hs_state_provider mine = cell_provider(self, "");
    char name[32];
    hs_code code = HS_OK;
    for (int i = 0; !code && i < 20; i++) { /* enough that the list is reallocated */
        snprintf(name, sizeof name, "inner%d", i);
        hs_state_provider inner = cell_provider(&nested_cell, name);
        code = hs_raw_session_add_state(model_raw(&nested->m), &inner, err);
    }
    return code ? code : mine.save(self, out, err);
}

static void none_can_be_added_by_anothers_load(void **state)
{
    fixture *f = nested = *state;
    cell c = {.value = 0};
    begin(f, 0, NULL);
    hs_state_provider provider = cell_provider(&c, "loader");
    provider.load = add_in_load;
    assert_fails(add(f, &provider), HS_FAILED_PRECONDITION, &f->err,
                 "cannot add state 'inner' while another state is being loaded");
}

static void some_may_be_added_by_anothers_save(void **state)
{
    fixture *f = nested = *state;
    cell c = {.value = 7};
    nested_cell.value = 3;
    hs_state_provider provider = cell_provider(&c, "outer");
    provider.save = add_in_save;
    assert_ok(add(f, &provider), &f->err);
    save_at(f, 1);
    assert_true(has_tensor(f, 1, "hooksess/state/outer"));
    assert_true(has_tensor(f, 1, "hooksess/state/inner19"));
}

/* Much of it. */

static const size_t much = HS__STATES_IN_MEMORY + 1;

/* A session as of begin(), with two large unclaimed states and a small one. */
static void begin_with_much(fixture *f)
{
    cell first = {.value = 4, .padding = much}, second = {.value = 5}, third = {.value = 6, .padding = much};
    hs_state_provider providers[] = {cell_of(&first, "first", 1, "large"), cell_provider(&second, "second"),
                                     cell_provider(&third, "third")};
    for (int i = 0; i < 3; i++)
        assert_ok(add(f, &providers[i]), &f->err);
    save_at(f, 1);
    assert_ok(open_with_state(f, NULL), &f->err);
}

static void a_large_unclaimed_state_is_read_again(void **state)
{
    fixture *f = *state;
    cell first = {.padding = much}, second = {.value = 0}, third = {.padding = much};
    hs_state_provider providers[] = {cell_of(&first, "first", 1, "large"), cell_provider(&second, "second"),
                                     cell_provider(&third, "third")};
    begin_with_much(f);
    for (int i = 0; i < 3; i++)
        assert_ok(add(f, &providers[i]), &f->err);
    assert_int_equal(first.value, 4);
    assert_int_equal(first.version, 1);
    assert_int_equal(second.value, 5);
    assert_int_equal(third.value, 6);
}

static void a_large_unclaimed_state_that_cannot_be_read_is_an_error(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    hs_state_provider first = cell_of(&c, "first", 1, "large"), second = cell_provider(&c, "second");
    begin_with_much(f);
    unlink(file_of(f, 1, "index"));
    assert_fails(add(f, &first), HS_NOT_FOUND, &f->err,
                 "cannot read the state 'hooksess/state/first', which was too large to keep in memory");
    assert_int_equal(c.loads, 0);
    assert_ok(add(f, &second), &f->err);
    assert_int_equal(c.value, 5);
}

static void a_checkpoint_that_changed_since_is_refused(void **state)
{
    fixture *f = *state;
    cell c = {.value = 9, .padding = much};
    hs_state_provider first = cell_of(&c, "first", 1, "large");
    begin_with_much(f);
    model other = {.step = 0};
    assert_ok(model_open(&other, &f->t.env, NULL), &other.err);
    assert_ok(hs_raw_session_add_state(model_raw(&other), &first, &f->err), &f->err);
    assert_ok(hs_saver_save(f->saver, model_raw(&other), file_of(f, 1, NULL), -1, NULL, &f->err), &f->err);
    model_close(&other);
    assert_fails(add(f, &first), HS_DATA_LOSS, &f->err, "model.ckpt-1' has changed since it was restored");
    assert_int_equal(c.loads, 0);
}

static void a_damaged_unclaimed_state_is_an_error(void **state)
{
    fixture *f = *state;
    size_t bytes;
    save_loader(f, 0, NULL);
    free(test_read_file(file_of(f, 1, DATA), &bytes));
    flip_bit(file_of(f, 1, DATA), 8 * (bytes - 1));
    assert_fails(open_with_state(f, NULL), HS_DATA_LOSS, &f->err, "'hooksess/state/loader'");
}

static void a_tensor_that_is_not_a_state_is_ignored(void **state)
{
    fixture *f = *state;
    float number = 1;
    model_set(&f->m, 1);
    write_checkpoint_with(f, 1,
                          (hs_feed[]){{"hooksess/foreign", hs_tensor_of(HS_FLOAT, HS_SCALAR, &number)}, {.name = NULL}});
    assert_ok(open_with_state(f, NULL), &f->err);
    train(f);
    assert_int_equal(times_logged(f, "no provider loads"), 1);
    assert_contains(f->t.log, "'hooksess/state/loader', but no provider loads it");
}

/* Before unclaimed states are reported, they are saved: they belong to this step. */

static void unclaimed_states_are_saved_before_the_first_run(void **state)
{
    fixture *f = *state;
    cell c = {.value = 0};
    begin(f, 3, "digits");
    save_at(f, 2);
    c.loads = 0;
    assert_ok(load_loader(f, &c, 3, "digits"), &f->err);
    assert_true(model_is(&f->m, 2));
    assert_int_equal(c.value, 5);
    assert_int_equal(c.version, 3);
}

static void after_it_later_checkpoints_lack_it(void **state)
{
    fixture *f = *state;
    begin(f, 3, "digits");
    train(f);
    save_at(f, 2);
    assert_false(has_tensor(f, 2, "hooksess/state/loader"));
    assert_false(has_tensor(f, 2, "hooksess/state/loader:identity"));
}

static void large_unclaimed_states_are_saved_before_the_first_run(void **state)
{
    fixture *f = *state;
    begin_with_much(f);
    save_at(f, 2);
    assert_true(has_tensor(f, 2, "hooksess/state/first:identity"));
    unlink(file_of(f, 1, "index"));
    save_at(f, 3); /* no save fails for it */
    assert_false(has_tensor(f, 3, "hooksess/state/first"));
    assert_true(has_tensor(f, 3, "hooksess/state/second"));
    assert_contains(f->t.log, "which was too large to keep in memory: ");
    assert_contains(f->t.log, "; this checkpoint omits it");
}

/* Memory. */

static hs_code restore_and_add(test_env *t, void *user)
{
    fixture *f = user;
    model m = {.step = 0};
    cell c = {.value = 0};
    hs_error err = {0};
    hs_state_provider provider = cell_of(&c, "loader", 3, "digits"), another = cell_of(&c, "another", 3, "digits");
    test_tolerate_harmless(t); /* it is looked for elsewhere */
    hs_code code = model_open(&m, &t->env, f->directory);
    if (!code && (code = hs_raw_session_add_state(model_raw(&m), &provider, &err)))
        assert_int_equal(c.loads, 0); /* nothing is done by halves */
    if (!code)
        assert_int_equal(c.value, 5);
    if (!code && (code = hs_raw_session_add_state(model_raw(&m), &another, &err)))
        assert_int_equal(c.loads, 1);
    model_close(&m);
    return code;
}

static void each_allocation(void **state)
{
    fixture *f = *state;
    save_loader(f, 3, "digits");
    test_each_allocation(restore_and_add, f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_late_provider_is_loaded_immediately),
        with_fixture(a_late_provider_is_saved_afterwards),
        with_fixture(without_a_restore_it_is_only_added),
        with_fixture(without_state_in_the_checkpoint_a_late_provider_keeps_its_initial_value),
        with_fixture(a_later_restore_loads_a_late_provider),
        with_fixture(a_restore_replaces_the_unclaimed_states),
        with_fixture(the_warning_comes_once_after_the_first_training_run),
        with_fixture(after_the_warning_the_state_can_be_claimed),
        with_fixture(hooks_may_add_state_in_their_callbacks),
        with_fixture(an_op_may_add_state_in_the_first_run),
        with_fixture(a_name_that_is_there),
        with_fixture(invalid_providers_are_refused),
        with_fixture(another_identity_or_an_earlier_version_is_refused),
        with_fixture(any_identity_applies_to_late_providers),
        with_fixture(a_late_provider_whose_load_fails),
        with_fixture(none_can_be_added_by_anothers_load),
        with_fixture(some_may_be_added_by_anothers_save),
        with_fixture(a_large_unclaimed_state_is_read_again),
        with_fixture(a_large_unclaimed_state_that_cannot_be_read_is_an_error),
        with_fixture(a_checkpoint_that_changed_since_is_refused),
        with_fixture(a_damaged_unclaimed_state_is_an_error),
        with_fixture(a_tensor_that_is_not_a_state_is_ignored),
        with_fixture(unclaimed_states_are_saved_before_the_first_run),
        with_fixture(after_it_later_checkpoints_lack_it),
        with_fixture(large_unclaimed_states_are_saved_before_the_first_run),
        with_fixture(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
