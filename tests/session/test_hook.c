/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks without runs: hold, destroy, state keys, broken hooks. */
#include "session/probe.h"

static int destroyed_without_self;

static void count_without_self(void *self)
{
    assert_null(self);
    destroyed_without_self++;
}

static const hs_hook_ops stateless = HS_INIT(hs_hook_ops, .name = "stateless", .destroy = count_without_self);

static void holding_changes_the_copy_only(void **state)
{
    (void)state;
    probe a = {.name = "a"};
    hs_hook hook = probe_hook(&a);
    hook.flags = HS_HOOK_EVAL;
    hs_hook held = hs_hook_hold(hook);
    assert_int_equal(hook.flags, HS_HOOK_EVAL);
    assert_int_equal(held.flags, HS_HOOK_EVAL | HS_HOOK_HELD);
    assert_ptr_equal(held.self, hook.self);
    assert_ptr_equal(held.ops, hook.ops);
}

static void each_self_is_destroyed_once(void **state)
{
    (void)state;
    probe a = {.name = "a"}, b = {.name = "b"};
    hs_hooks_free(HS_HOOKS(probe_hook(&a), probe_hook(&b), probe_hook(&a), probe_hook(&a)));
    assert_int_equal(a.destroyed, 1);
    assert_int_equal(b.destroyed, 1);
}

static void held_anywhere_in_the_list_is_held(void **state)
{
    (void)state;
    probe a = {.name = "a"}, b = {.name = "b"};
    hs_hook list[] = {
        probe_hook(&a), hs_hook_hold(probe_hook(&b)), hs_hook_hold(probe_hook(&a)), probe_hook(&b), {.ops = NULL}};
    hs_hooks_free(list);
    assert_int_equal(a.destroyed, 0);
    assert_int_equal(b.destroyed, 0);
    hs_hook_free(list[2]); /* its holder destroys it */
    assert_int_equal(a.destroyed, 1);
}

static void hooks_without_a_self_are_not_one(void **state)
{
    (void)state;
    destroyed_without_self = 0;
    hs_hooks_free(HS_HOOKS({.ops = &stateless}, {.ops = &stateless}));
    assert_int_equal(destroyed_without_self, 2);
}

static void there_may_be_nothing_to_destroy(void **state)
{
    (void)state;
    static const hs_hook_ops nothing = HS_INIT(hs_hook_ops, .name = "nothing");
    hs_hooks_free(NULL);
    hs_hook_free((hs_hook){0});
    hs_hook_free((hs_hook){.ops = &nothing});
}

/* No session accepts ops of such a size, and hs_hook_free does not read beyond it. */
static void destroy_is_looked_for_where_the_hook_has_it(void **state)
{
    (void)state;
    probe a = {.name = "a"};
    hs_hook hook = probe_hook(&a);
    a.ops.size = offsetof(hs_hook_ops, destroy);
    hs_hook_free(hook);
    assert_int_equal(a.destroyed, 0);
    a.ops.size = offsetof(hs_hook_ops, destroy) + sizeof a.ops.destroy;
    hs_hook_free(hook);
    assert_int_equal(a.destroyed, 1);
}

static void a_later_hook_is_opened_and_run(void **state)
{
    play *p = *state;
    hs_hook hook = probe_hook(&p->a);
    struct {
        hs_hook_ops known;
        void (*unknown)(void *self);
    } later = {.known = p->a.ops};
    later.known.size = sizeof later;
    hook.ops = &later.known;
    play_open(p, &hook, 1);
    play_train(p);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    assert_int_equal(p->a.calls[PROBE_AFTER], 1);
}

/* The session copies the list of hooks, but not their ops. */
static void the_list_of_hooks_is_copied(void **state)
{
    play *p = *state;
    hs_hook list[] = {probe_hook(&p->a)};
    play_open(p, list, 1);
    list[0] = (hs_hook){0};
    play_train(p);
    play_close(p);
    assert_int_equal(p->a.calls[PROBE_AFTER], 1);
    assert_int_equal(p->a.destroyed, 1);
}

static hs_code save_nothing(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self, (void)out, (void)err;
    return HS_OK;
}

static hs_code load_nothing(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

/* Opens a session with three probes of these names, with state. */
static hs_session *open_with_states(play *p, const char *const names[3])
{
    probe *probes[] = {&p->a, &p->b, &p->c};
    hs_hook hooks[3];
    for (int i = 0; i < 3; i++) {
        *probes[i] = (probe){.name = names[i]};
        hooks[i] = probe_hook(probes[i]);
        probes[i]->ops.save_state = save_nothing;
        probes[i]->ops.load_state = load_nothing;
    }
    return play_try_open(p, hooks, 3);
}

/* The second "a" is saved as "a#2". A hook named "a#2" would overwrite it or load its bytes. */
static void two_pieces_of_state_with_one_key_are_refused(void **state)
{
    play *p = *state;
    const char *const names[][3] = {{"a", "a", "a#2"}, {"a#2", "a", "a"}, {"a", "a#2", "a"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_null(open_with_states(p, names[i]));
        assert_says(&p->err, HS_ALREADY_EXISTS, "two states have the key 'hooksess/hook/a#2'");
        assert_int_equal(p->a.calls[PROBE_CLOSE] + p->b.calls[PROBE_CLOSE] + p->c.calls[PROBE_CLOSE], 3);
        assert_int_equal(p->a.destroyed + p->b.destroyed + p->c.destroyed, 3);
    }
}

static void hooks_of_one_name_keep_a_state_each(void **state)
{
    play *p = *state;
    assert_non_null(open_with_states(p, (const char *const[]){"a", "a", "a#3"}));
    play_close(p);
    assert_non_null(open_with_states(p, (const char *const[]){"a", "a", "a"}));
}

/* Only hooks with state use a key. */
static void a_hook_without_state_takes_no_key(void **state)
{
    play *p = *state;
    hs_hook hooks[] = {probe_hook(&p->a), probe_hook(&p->b), probe_hook(&p->c)};
    for (int i = 0; i < 3; i++) {
        probe *hook = hooks[i].self;
        hook->ops.name = i < 2 ? "a" : "a#2";
        hook->ops.save_state = i == 1 ? NULL : save_nothing;
        hook->ops.load_state = i == 1 ? NULL : load_nothing;
    }
    play_open(p, hooks, 3);
}

static void a_broken_hook_reports_its_error_in_begin(void **state)
{
    (void)state;
    hs_error error, err;
    hs_error_set(&error, HS_OUT_OF_RANGE, "patience is -1");
    hs_hook hook = hs_hook_broken("early_stop", &error);
    hs_error_clear(&error);
    hs_script *script = hs_script_new(NULL);
    assert_null(hs_session_open(hs_script_backend(script), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err));
    assert_says(&err, HS_OUT_OF_RANGE, "early_stop");
    assert_says(&err, HS_OUT_OF_RANGE, "patience is -1");
    hs_script_free(script);
}

static void a_hook_is_broken_without_an_error_too(void **state)
{
    (void)state;
    hs_error err, none = {0};
    const hs_error *const errors[] = {NULL, &none};
    for (size_t i = 0; i < 2; i++) {
        hs_hook hook = hs_hook_broken("early_stop", errors[i]);
        assert_fails(hook.ops->begin(hook.self, (hs_backend){NULL, NULL}, &err), HS_INVALID_ARGUMENT, &err, "the hook");
        hs_hook_free(hook);
    }
}

static void a_broken_hook_without_a_name_keeps_its_error(void **state)
{
    (void)state;
    hs_error error, err;
    hs_error_set(&error, HS_OUT_OF_RANGE, "patience is -1");
    hs_hook hook = hs_hook_broken(NULL, &error);
    assert_non_null(hook.ops->name);
    assert_fails(hook.ops->begin(hook.self, (hs_backend){NULL, NULL}, &err), HS_OUT_OF_RANGE, &err, "patience is -1");
    hs_hook_free(hook);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holding_changes_the_copy_only),
        cmocka_unit_test(each_self_is_destroyed_once),
        cmocka_unit_test(held_anywhere_in_the_list_is_held),
        cmocka_unit_test(hooks_without_a_self_are_not_one),
        cmocka_unit_test(there_may_be_nothing_to_destroy),
        cmocka_unit_test(a_broken_hook_reports_its_error_in_begin),
        cmocka_unit_test(a_hook_is_broken_without_an_error_too),
        cmocka_unit_test(a_broken_hook_without_a_name_keeps_its_error),
        cmocka_unit_test(destroy_is_looked_for_where_the_hook_has_it),
        play_test(a_later_hook_is_opened_and_run),
        play_test(the_list_of_hooks_is_copied),
        play_test(two_pieces_of_state_with_one_key_are_refused),
        play_test(hooks_of_one_name_keep_a_state_each),
        play_test(a_hook_without_state_takes_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
