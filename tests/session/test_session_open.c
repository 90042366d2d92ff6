/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: its order, refused options, and ownership after failures. */
#include "session/probe.h"

static hs_code note_init(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)scaffold, (void)session, (void)err;
    hs_script_note(user, "init_fn");
    return HS_OK;
}

static void ms_095s_the_order_of_opening(void **state)
{
    play *p = *state;
    hs_script_op(p->script, "init");
    play_spy(p);
    hs_scaffold_options made = HS_INIT(hs_scaffold_options, .init_op = "init", .init_fn = note_init, .user = p->script);
    hs_hook hooks[] = {play_watch(p, &p->a), play_watch(p, &p->b), {.ops = NULL}};
    hs_session_options options =
        HS_INIT(hs_session_options, .hooks = hooks, .scaffold = hs_scaffold_new(&made, NULL), .take_scaffold = true);
    p->session = hs_session_open(p->backend, &options, &p->err);
    assert_string_equal(play_calls(p), "a.begin b.begin finalize open run init_fn a.create b.create a.boundary b.boundary");
    assert_ptr_equal(p->a.raw, hs_session_raw(p->session));
    assert_ptr_equal(p->a.coordinator, hs_session_coordinator(p->session));
}

static hs_code graph_is_open(probe *p, const probe_call *call)
{
    bool *finalized = p->user;
    if (call->point == PROBE_BEGIN)
        assert_false(hs_backend_finalized(call->backend));
    if (call->point == PROBE_CREATE)
        *finalized = hs_backend_finalized(hs_raw_session_backend(call->raw));
    return HS_OK;
}

static void ms_070_ms_095s_a_graph_is_finalized_while_its_session_is_open(void **state)
{
    play *p = *state;
    bool finalized = false;
    play_probe(p, a, .act = graph_is_open, .user = &finalized);
    play_open_probes(p, 1);
    assert_true(finalized);
    play_close(p);
    assert_false(hs_backend_finalized(p->backend));
}

static void ms_071_a_graph_that_was_finalized_stays_so(void **state)
{
    play *p = *state;
    p->backend.ops->finalize(p->backend.self, true, NULL);
    play_open_probes(p, 1);
    play_close(p);
    assert_true(hs_backend_finalized(p->backend));
}

static void a_failed_opening_leaves_the_graph_as_it_was(void **state)
{
    play *p = *state;
    play_spy(p);
    play_probe(p, a, .fails_in = PROBE_CREATE, .fails_at = 1);
    assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a)}, 1));
    assert_string_equal(play_calls(p), "finalize open shut unfinalize");
    assert_false(hs_backend_finalized(p->backend));
}

static void ms_069_ms_092_a_session_knows_its_backend(void **state)
{
    play *p = *state;
    play_open(p, NULL, 0);
    assert_ptr_equal(hs_raw_session_backend(hs_session_raw(p->session)).self, p->script);
    assert_ptr_equal(hs_raw_session_backend(hs_session_raw(p->session)).ops, p->backend.ops);
}

static void ms_093_the_raw_session_is_the_backends(void **state)
{
    play *p = *state;
    const hs_run_values *values;
    play_open_probes(p, 1);
    play_calls(p);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_ptr_equal(hs_raw_session_handle(raw), p->script);
    assert_ok(hs_raw_session_run(raw, HS_RUN_ARGS(.names = HS_NAMES("five")), &values, &p->err), &p->err);
    assert_true(hs_run_values_number(values, 0) == 5);
    assert_string_equal(play_calls(p), "run"); /* and no hook */
}

/* Each failure of the opening, and how far it got. Hooks are destroyed once in any case. */
static void hooks_are_destroyed_once_wherever_opening_fails(void **state)
{
    play *p = *state;
    for (probe_point point = PROBE_BEGIN; point <= PROBE_BOUNDARY; point++) {
        if (point == PROBE_BEFORE || point == PROBE_AFTER)
            continue;
        play_probe(p, a, .destroyed = 0);
        play_probe(p, b, .fails_in = point, .fails_at = 1);
        hs_hook a = probe_hook(&p->a), b = probe_hook(&p->b);
        assert_null(play_try_open(p, (hs_hook[]){a, b, a, b}, 4)); /* listed twice, too */
        assert_int_equal(p->a.destroyed, 1);
        assert_int_equal(p->b.destroyed, 1);
    }
}

static void hooks_are_destroyed_when_the_options_are_refused(void **state)
{
    play *p = *state;
    hs_scaffold_options lost = HS_INIT(hs_scaffold_options, .init_op = "lost");
    const hs_session_options refused[] = {
        HS_INIT(hs_session_options, .signal_grace_secs = -2),
        HS_INIT(hs_session_options, .checkpoint_dir = "x", .checkpoint_prefix = "y"),
        HS_INIT(hs_session_options, .config = {NULL, 3}),
        HS_INIT(hs_session_options, .scaffold = hs_scaffold_new(&lost, NULL), .take_scaffold = true),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        play_probe(p, a, .destroyed = 0);
        hs_session_options options = refused[i];
        hs_hook hook = probe_hook(&p->a);
        options.hooks = HS_HOOKS(hook);
        assert_null(hs_session_open(p->backend, &options, &p->err));
        assert_int_not_equal(p->err.code, HS_OK);
        assert_int_equal(p->a.destroyed, 1);
        assert_int_equal(p->a.calls[PROBE_CLOSE], p->a.calls[PROBE_BEGIN]);
    }
}

static void hooks_are_destroyed_without_a_backend(void **state)
{
    play *p = *state;
    p->backend = (hs_backend){NULL, NULL};
    assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a)}, 1));
    assert_int_equal(p->a.destroyed, 1);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 0);
}

static void a_hook_listed_twice_is_destroyed_once_when_closed(void **state)
{
    play *p = *state;
    hs_hook a = probe_hook(&p->a);
    play_open(p, (hs_hook[]){a, probe_hook(&p->b), a}, 3);
    assert_int_equal(p->a.calls[PROBE_BEGIN], 2);
    play_close(p);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 2); /* one for each begin */
    assert_int_equal(p->a.destroyed, 1);
    assert_int_equal(p->b.destroyed, 1);
}

static void a_held_hook_is_not_destroyed(void **state)
{
    play *p = *state;
    hs_hook a = probe_hook(&p->a), held = hs_hook_hold(a);
    play_open(p, (hs_hook[]){a, held}, 2); /* one held listing is enough */
    play_close(p);
    assert_int_equal(p->a.destroyed, 0);
    play_open(p, &held, 1); /* so it can be used again */
    play_close(p);
    p->a.fails_in = PROBE_BEGIN;
    p->a.fails_at = p->a.calls[PROBE_BEGIN] + 1;
    assert_null(play_try_open(p, &held, 1));
    assert_int_equal(p->a.destroyed, 0);
    hs_hook_free(held);
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

static void invalid_hooks_are_refused(void **state)
{
    play *p = *state;
    static const hs_hook_ops no_name = HS_INIT(hs_hook_ops), empty_name = HS_INIT(hs_hook_ops, .name = ""),
                             no_size = {.name = "x"};
    hs_hook_ops half = HS_INIT(hs_hook_ops, .name = "half", .save_state = save_nothing);
    hs_hook_ops colon = HS_INIT(hs_hook_ops, .name = "a:b", .save_state = save_nothing, .load_state = load_nothing);
    hs_hook_ops negative =
        HS_INIT(hs_hook_ops, .name = "old", .save_state = save_nothing, .load_state = load_nothing, .state_version = -1);
    const struct {
        const hs_hook_ops *ops;
        const char *says;
    } cases[] = {
        {&no_name, "hook 1, after 'a': it has no name"},
        {&empty_name, "hook 1, after 'a': it has no name"},
        {&no_size, "hook 1, after 'a': hs_hook_ops.size is 0, but must be at least"},
        {&half, "hook 'half' has only one of save_state and load_state"},
        {&colon, "hook 'a:b': the name contains ':', which is reserved for NAME:version and NAME:identity"},
        {&negative, "hook 'old': version is -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        play_probe(p, a, .destroyed = 0);
        assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a), {.ops = cases[i].ops}}, 2));
        assert_says(&p->err, HS_INVALID_ARGUMENT, cases[i].says);
        assert_int_equal(p->a.destroyed, 1);
        assert_int_equal(p->a.calls[PROBE_BEGIN], 0);
    }
}

static void a_stop_in_begin_is_explained(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BEGIN, .fails_at = 1, .code = HS_STOP);
    assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a)}, 1));
    assert_says(&p->err, HS_STOP,
                "hook 'a', begin: it returned HS_STOP; to make no step, return it from after_create_session");
}

static hs_state_provider backends_state;

static const hs_state_provider *one_state(void *self, size_t index)
{
    (void)self;
    return index ? NULL : &backends_state;
}

static void an_invalid_state_of_a_backend_is_refused(void **state)
{
    play *p = *state;
    static hs_backend_ops ops; /* as long as the session */
    ops = *p->backend.ops;
    ops.state = one_state;
    p->backend.ops = &ops;
    backends_state = (hs_state_provider){.name = "loader", .save = save_nothing, .load = load_nothing};
    assert_null(play_try_open(p, NULL, 0));
    assert_says(&p->err, HS_INVALID_ARGUMENT, "HS_INIT(hs_state_provider");
    backends_state.size = sizeof backends_state;
    backends_state.name = "";
    assert_null(play_try_open(p, NULL, 0));
    assert_says(&p->err, HS_INVALID_ARGUMENT, "the state to save has no name");
    backends_state.name = "loader";
    assert_non_null(play_try_open(p, NULL, 0));
}

static void an_adopted_scaffold_is_always_freed(void **state)
{
    play *p = *state;
    for (int i = 0; i < 2; i++) {
        hs_session_options options =
            HS_INIT(hs_session_options, .scaffold = hs_scaffold_new(NULL, NULL), .take_scaffold = true);
        options.config.size = i == 0; /* no data */
        p->session = hs_session_open(p->backend, &options, &p->err);
        assert_true((i == 1) == (p->session != NULL));
    } /* the sanitizer looks for leaks */
}

static void options_without_their_size_are_refused(void **state)
{
    play *p = *state;
    assert_null(hs_session_open(p->backend, &(hs_session_options){.target = "x"}, &p->err));
    assert_says(&p->err, HS_INVALID_ARGUMENT, "HS_INIT(hs_session_options");
    assert_null(hs_session_open(p->backend, &(hs_session_options){.target = "x"}, NULL));
}

static void options_may_be_left_out(void **state)
{
    play *p = *state;
    hs_error_set(&p->err, HS_INTERNAL, "of old");
    p->session = hs_session_open(p->backend, NULL, &p->err);
    assert_int_equal(p->err.code, HS_OK);
    assert_int_equal(play_train(p), 1);
}

static int opened;

static hs_code check_target(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)err;
    assert_string_equal(target, "grpc://x:1");
    assert_int_equal(config.size, 3);
    assert_memory_equal(config.data, "a\0b", 3);
    *session = self;
    opened++;
    return HS_OK;
}

static void target_and_config_are_passed_through(void **state)
{
    play *p = *state;
    char target[] = "grpc://x:1", config[] = "a\0b";
    p->spied = *p->backend.ops;
    p->spied.open = check_target;
    p->backend.ops = &p->spied;
    hs_session_options options =
        HS_INIT(hs_session_options, .target = target, .config = {config, 3}, .recovery = HS_RECOVERY(.max_attempts = 1));
    opened = 0;
    p->session = hs_session_open(p->backend, &options, &p->err);
    target[0] = config[0] = '?'; /* a recovery uses the copies */
    hs_script_fail_at(p->script, 1, HS_ABORTED, "lost");
    play_train(p);
    assert_int_equal(opened, 2);
}

static hs_code no_session(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)self, (void)target, (void)config, (void)session;
    return hs_error_set(err, HS_UNAVAILABLE, "no server");
}

static void a_backend_that_does_not_open_is_reported(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.open = no_session;
    p->backend.ops = &p->spied;
    assert_null(play_try_open(p, (hs_hook[]){play_watch(p, &p->a)}, 1));
    assert_says(&p->err, HS_UNAVAILABLE, "no server");
    assert_string_equal(play_calls(p), "a.begin a.close");
    assert_int_equal(p->a.outcome.step, -1);
}

/* hs_session_close(NULL, err) then returns this error, as in the shortest program. */
static void closing_null_returns_the_error_of_the_opening(void **state)
{
    play *p = *state;
    play_probe(p, a, .fails_in = PROBE_BEGIN, .fails_at = 1, .code = HS_NOT_FOUND, .message = "no data");
    assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a)}, 1));
    assert_string_equal(p->err.message, "hook 'a', begin: no data");
    play_close(p);
    assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(hs_outcome_exit_code(&p->outcome), 1);
    assert_string_equal(p->outcome.error.message, "hook 'a', begin: no data");
    assert_int_equal(p->err.code, HS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_095s_the_order_of_opening),
        play_test(ms_070_ms_095s_a_graph_is_finalized_while_its_session_is_open),
        play_test(ms_071_a_graph_that_was_finalized_stays_so),
        play_test(a_failed_opening_leaves_the_graph_as_it_was),
        play_test(ms_069_ms_092_a_session_knows_its_backend),
        play_test(ms_093_the_raw_session_is_the_backends),
        play_test(hooks_are_destroyed_once_wherever_opening_fails),
        play_test(hooks_are_destroyed_when_the_options_are_refused),
        play_test(hooks_are_destroyed_without_a_backend),
        play_test(a_hook_listed_twice_is_destroyed_once_when_closed),
        play_test(a_held_hook_is_not_destroyed),
        play_test(invalid_hooks_are_refused),
        play_test(a_stop_in_begin_is_explained),
        play_test(an_invalid_state_of_a_backend_is_refused),
        play_test(an_adopted_scaffold_is_always_freed),
        play_test(options_without_their_size_are_refused),
        play_test(options_may_be_left_out),
        play_test(target_and_config_are_passed_through),
        play_test(a_backend_that_does_not_open_is_reported),
        play_test(closing_null_returns_the_error_of_the_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
