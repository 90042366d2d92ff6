/* SPDX-License-Identifier: Apache-2.0 */
/* Training sessions: options, hooks, and resuming. */
#include "drivers/trained.h"

#include "hooks/make.h"
#include "summary/events.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static void ms_010_saved_at_the_end_and_restored(void **state)
{
    stage *s = *state;
    training t;
    begin_training(&t, s, SAVING());
    for (int64_t step = 0; step < 2; step++) {
        assert_int_equal(fetch_step(s), step);
        stage_run(s, "train", 1, 0);
    }
    assert_int_equal(fetch_step(s), 2);
    end_training(&t);
    assert_int_equal(step_of_second_session(s), 2);
}

/* Options. */

static void ms_127s_both_secs_and_steps(void **state)
{
    stage *s = *state;
    refuses(s, SAVING(.save_checkpoint_secs = 10, .save_checkpoint_steps = 10),
            "each of save_checkpoint_secs and save_checkpoint_steps is given");
    refuses(s, SAVING(.save_summaries_secs = 10, .save_summaries_steps = 10),
            "each of save_summaries_secs and save_summaries_steps is given");
}

static void a_pair_and_a_trigger(void **state)
{
    stage *s = *state;
    hs_trigger when = HS_EVERY_STEPS(5);
    refuses(s, SAVING(.save_checkpoint_secs = 10, .save_checkpoint_when = when),
            "each of save_checkpoint_secs and save_checkpoint_when");
    refuses(s, SAVING(.save_summaries_steps = 1, .save_summaries_when = when),
            "each of save_summaries_steps and save_summaries_when");
}

/* With a when, HS_NEVER changes nothing. */
static void triggers_instead_of_the_pairs(void **state)
{
    for (int never = 0; never < 2; never++) {
        stage *s = *state;
        training t;
        const hs_training_options options =
            HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .restore = HS_RESTORE_NEVER,
                    .save_checkpoint_steps = never ? HS_NEVER : 0, .save_checkpoint_when = HS_AT_STEPS(2),
                    .save_summaries_secs = never ? HS_NEVER : 0, .save_summaries_when = HS_EVERY_STEPS(1));
        begin_training(&t, s, options);
        stage_run(s, "train", 3, 0);
        end_training(&t);
        assert_true(test_exists(s->directory, "model.ckpt-2.index") && test_exists(s->directory, "model.ckpt-3.index"));
        assert_false(test_exists(s->directory, "model.ckpt-0.index") || test_exists(s->directory, "model.ckpt-1.index"));
    }
}

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    refuses(s, (hs_training_options){.checkpoint_dir = s->directory}, "HS_INIT(hs_training_options");
    refuses(s, SAVING(.save_summaries_secs = -2), "HS_NEVER for never");
    refuses(s, SAVING(.save_checkpoint_steps = -5), "save_checkpoint_steps is -5");
}

/* In `err` or in the log, whether the driver or the session refuses the options. */
static void a_failed_opening_is_reported_once(void **state)
{
    stage *s = *state;
    const hs_training_options refused[] = {
        {.checkpoint_dir = "without a size"},
        HS_INIT(hs_training_options, .save_summaries_secs = -2),
        HS_INIT(hs_training_options, .stop_grace_secs = -2),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char line[HS_MESSAGE_SIZE + 64];
        test_env_clear_log(&s->t);
        assert_null(hs_training_session_open(hs_script_backend(s->script), &refused[i], &s->err));
        hs_session_close(NULL, &s->err);
        assert_string_equal(s->t.log, "");
        snprintf(line, sizeof line, "ERROR: session not opened: %s\n", s->err.message);
        assert_null(hs_training_session_open(hs_script_backend(s->script), &refused[i], NULL));
        assert_string_equal(s->t.log, line);
    }
}

static hs_code fail_without_message(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)self, (void)target, (void)config, (void)session, (void)err;
    return HS_UNAVAILABLE;
}

static void a_training_session_needs_a_backend(void **state)
{
    stage *s = *state;
    hs_backend_ops ops = *hs_script_backend(s->script).ops;
    assert_null(hs_training_session_open((hs_backend){NULL, NULL}, NULL, NULL));
    assert_null(hs_training_session_open((hs_backend){NULL, NULL}, NULL, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, "hs_backend.ops is NULL");
    ops.open = fail_without_message;
    assert_null(hs_training_session_open((hs_backend){&ops, s->script}, NULL, &s->err));
    assert_says(&s->err, HS_UNAVAILABLE, "failed with UNAVAILABLE");
}

/* The program did not pass the empty list. */
static void an_empty_list_of_hooks_logs_no_warning(void **state)
{
    stage *s = *state;
    const hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory,
                                                .save_checkpoint_secs = HS_NEVER, .save_summaries_steps = HS_NEVER);
    s->session = hs_training_session_open(hs_script_backend(s->script), NULL, &s->err);
    stage_close(s);
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    stage_close(s);
    assert_string_equal(s->t.log, "");
}

static void without_options_it_is_a_plain_session(void **state)
{
    stage *s = *state;
    s->session = hs_training_session_open(hs_script_backend(s->script), NULL, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_int_equal(s->outcome.step, 2);
    assert_int_equal(s->outcome.last_saved_step, -1);
}

static void the_target_is_passed_on(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_training_options options = HS_INIT(hs_training_options, .target = "grpc://elsewhere:2222");
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_INVALID_ARGUMENT, "grpc://elsewhere:2222");
    hs_graph_free(graph);
}

static void the_scaffold_is_the_callers(void **state)
{
    stage *s = *state;
    training t;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1), NULL);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
    begin_training(&t, s, SAVING(.save_checkpoint_steps = 1, .scaffold = scaffold));
    stage_run(s, "train", 3, 0);
    end_training(&t);
    assert_int_equal(test_count_files(s->directory, ".index"), 1);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

/* The session restores with the scaffold's saver. The hook's own saver finds the existing checkpoints. */
static void a_hooks_own_saver_still_deletes_old_checkpoints(void **state)
{
    stage *s = *state;
    for (int i = 0; i < 2; i++) {
        training t;
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 2), NULL);
        hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .saver = saver, .every_n_steps = 1);
        begin_training(&t, s, SAVING(.hooks = HS_HOOKS(hook), .save_checkpoint_secs = HS_NEVER));
        stage_run(s, "train", 3, 0);
        end_training(&t);
        hs_saver_free(saver);
        assert_int_equal(test_count_files(s->directory, ".index"), 2);
    }
    assert_int_equal(latest_step(s->directory), 6);
}

static void take_over_needs_an_existing_checkpoint(void **state)
{
    stage *s = *state;
    hs_saver *saver = hs_saver_new(NULL, NULL);
    assert_fails(hs_saver_take_over(NULL, "x", &s->err), HS_INVALID_ARGUMENT, &s->err, "saver is NULL");
    assert_fails(hs_saver_take_over(saver, "", &s->err), HS_INVALID_ARGUMENT, &s->err, "is missing");
    assert_fails(hs_saver_take_over(saver, test_path(s->directory, "nothing-1"), &s->err), HS_NOT_FOUND, &s->err,
                 "nothing-1'");
    assert_null(hs_saver_checkpoint(saver, 0));
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1));
    stage_close(s);
    assert_ok(hs_saver_take_over(saver, test_path(s->directory, "model.ckpt-0"), &s->err), &s->err);
    assert_non_null(hs_saver_checkpoint(saver, 0));
    hs_saver_free(saver);
}

/* The hooks' order. */

static void the_programs_hooks_come_first_the_chiefs_before_the_others(void **state)
{
    stage *s = *state;
    hs_hook chief = hs_script_watch(s->script, "chief", hs_final_ops(.names = NULL));
    hs_hook other = hs_script_watch(s->script, "other", hs_final_ops(.names = NULL));
    hs_training_options options = HS_INIT(hs_training_options, .hooks = HS_HOOKS(other),
                                          .chief_only_hooks = HS_HOOKS(chief), .checkpoint_dir = s->directory);
    s->session = hs_training_session_open(hs_script_backend(s->script), &options, &s->err);
    assert_non_null(s->session);
    assert_contains(hs_script_calls(s->script), "chief.begin other.begin chief.create other.create");
    stage_run(s, "train", 1, 0);
    assert_contains(hs_script_calls(s->script), "chief.before other.before run chief.after other.after");
}

/* All three hooks need a global step. The first one in the list reports the error. */
static void the_step_counter_comes_first_and_the_checkpoint_saver_last(void **state)
{
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_op(graph, .name = "train"); /* no op advances the step */
    hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory);
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "hook 'step_counter', begin");
    options.log_step_count_steps = HS_NEVER;
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "hook 'summary_saver', begin");
    options.save_summaries_steps = HS_NEVER;
    assert_null(hs_training_session_open(hs_graph_backend(graph), &options, &s->err));
    assert_says(&s->err, HS_FAILED_PRECONDITION, "hook 'checkpoint_saver', begin");
    hs_graph_free(graph);
}

static void count_destroy(void *self)
{
    ++*(int *)self;
}

static void hooks_are_destroyed_once_also_when_opening_fails(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "counted", .destroy = count_destroy);
    stage *s = *state;
    int destroyed[3] = {0};
    hs_hook hooks[] = {{.ops = &ops, .self = &destroyed[0]}, {.ops = &ops, .self = &destroyed[1]}, {.ops = NULL}};
    hs_hook chief[] = {{.ops = &ops, .self = &destroyed[1]}, {.ops = &ops, .self = &destroyed[2]}, {.ops = NULL}};
    hs_training_options options = HS_INIT(hs_training_options, .hooks = hooks, .chief_only_hooks = chief);
    hs_session_close(hs_training_session_open(hs_script_backend(s->script), &options, NULL), NULL);
    assert_true(destroyed[0] == 1 && destroyed[1] == 1 && destroyed[2] == 1);
    options.stop_grace_secs = -2; /* refused by the session */
    assert_null(hs_training_session_open(hs_script_backend(s->script), &options, NULL));
    assert_true(destroyed[0] == 2 && destroyed[1] == 2 && destroyed[2] == 2);
    options.hooks = NULL; /* refused before a session is opened: destroys the hooks of the other list */
    assert_null(hs_training_session_open(hs_script_backend(s->script), &options, NULL));
    assert_true(destroyed[0] == 2 && destroyed[1] == 3 && destroyed[2] == 3);
}

/* From run to run. */

static void a_crashed_run_resumes_from_its_last_checkpoint(void **state)
{
    stage *s = *state;
    training t;
    hs_training_options options = HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = 5);
    begin_training(&t, s, options);
    stage_run(s, "train", 7, 0);
    hs_session_fail(s->session, test_error(HS_ABORTED, "as if killed"));
    s->session = NULL;
    model_close(&t.m);
    begin_training(&t, s, options);
    assert_true(model_is(&t.m, 5));
    stage_run(s, "train", 2, 0);
    assert_true(model_is(&t.m, 7));
    end_training(&t);
    assert_contains(events_text(s->directory), " start@6 "); /* TensorBoard drops steps 6 and 7 */
}

/* The second process restores nothing into its model. */
static void a_second_process_is_refused_before_it_restores(void **state)
{
    stage *s = *state;
    training t;
    int status;
    const hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = s->directory, .save_checkpoint_steps = 1);
    begin_training(&t, s, options);
    stage_run(s, "train", 4, 0);
    pid_t child = fork();
    if (!child) {
        static model second;
        hs_error err = {0};
        model_set(&second, 9);
        model_build(&second, hs_env_default());
        hs_session *session = hs_training_session_open(hs_graph_backend(second.graph), &options, &err);
        bool refused = !session && strstr(err.message, "another process saves there");
        _exit(refused && model_is(&second, 9) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end_training(&t);
    assert_int_equal(step_of_second_session(s), 4);
}

static void a_directory_may_end_with_slashes(void **state)
{
    stage *s = *state;
    char slashes[1024];
    snprintf(slashes, sizeof slashes, "%s//", s->directory);
    for (int i = 0; i < 2; i++) {
        training t;
        begin_training(&t, s, *HS_TRAINING_OPTIONS(.checkpoint_dir = i ? slashes : s->directory));
        if (i == 0)
            stage_run(s, "train", 2, 0);
        end_training(&t);
    }
    assert_int_equal(s->outcome.last_saved_step, 2);
    assert_int_equal(count_of(events_text(s->directory), "checkpoint@2"), 1);
}

static void a_completed_training_makes_no_further_step(void **state)
{
    stage *s = *state;
    training t;
    for (int i = 0; i < 2; i++) {
        hs_hook hook = hs_stop_at_step(.last_step = 3);
        begin_training(&t, s, SAVING(.hooks = HS_HOOKS(hook)));
        while (!hs_session_should_stop(s->session))
            stage_run(s, "train", 1, 0);
        end_training(&t);
        assert_int_equal(s->outcome.reason, i ? HS_REASON_ALREADY_DONE : HS_REASON_STOPPED);
        assert_int_equal(s->outcome.step, 3);
        assert_int_equal(s->outcome.last_saved_step, 3);
    }
    assert_int_equal(count_of(events_text(s->directory), "checkpoint@3"), 1);
    assert_int_equal(count_of(events_text(s->directory), "start@"), 1);
}

/* Failures. */

static hs_code train_three_steps(test_env *t, void *user)
{
    model m = {.step = 0};
    hs_error err = {0};
    test_tolerate(t, ": not saved: ");
    test_tolerate(t, "cannot write status.json: ");
    test_tolerate(t, "cannot write outcome.json: ");
    test_tolerate(t, "event file in "); /* it is retried */
    test_tolerate(t, "'summary writer' failed ");
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_tolerate(t, "; a power failure may lose '");
    test_tolerate_harmless(t); /* searching for leftovers, and for a checkpoint to recover from */
    test_remove_directory(strdup(user));
    model_set(&m, 0);
    model_build(&m, &t->env);
    hs_hook hook = hs_stop_at_step(.last_step = 3);
    hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = user, .save_checkpoint_steps = 2, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_training_session_open(hs_graph_backend(m.graph), &options, &err);
    while (!hs_session_should_stop(session) && !hs_session_run(session, "train", &err))
        continue;
    hs_session_close(session, &err);
    hs_graph_free(m.graph);
    return err.code;
}

/* A new training without failures reaches the last step. */
static void it_can_be_finished(void *user)
{
    static test_env t; /* takes the log */
    model m = {.step = 0};
    test_env_init(&t);
    model_set(&m, 0);
    assert_ok(model_open(&m, &t.env, user), &m.err);
    assert_true(model_is(&m, m.step));
    assert_ok(model_train(&m, 3 - (int)m.step), &m.err);
    assert_true(model_is(&m, 3));
    model_close(&m);
}

/* Returns how often a training allocates memory of its backend. */
static size_t count_allocations(const stage *s, const hs_env *hook_memory)
{
    static test_env t; /* takes the log */
    model m = {.step = 0};
    hs_error err;
    test_env_init(&t);
    test_empty_directory(s->directory);
    model_set(&m, 0);
    model_build(&m, &t.env);
    const hs_env *earlier = hs__set_hook_memory(hook_memory ? hook_memory : &t.env);
    hs_session *session =
        hs_training_session_open(hs_graph_backend(m.graph),
                                 HS_TRAINING_OPTIONS(.checkpoint_dir = s->directory, .scalars = HS_NAMES("weights")), &err);
    hs__set_hook_memory(earlier);
    if (!session)
        fail_msg("%s", err.message);
    hs_session_close(session, &err);
    hs_graph_free(m.graph);
    return t.allocations;
}

static void the_standard_hooks_have_the_memory_of_the_backend(void **state)
{
    assert_int_equal(count_allocations(*state, hs_env_default()), count_allocations(*state, NULL));
}

static void each_allocation_and_each_file_call(void **state)
{
    const stage *s = *state;
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/run", s->directory);
    test_each_allocation(train_three_steps, directory);
    test_each_file_call(train_three_steps, it_can_be_finished, ENOSPC, false, directory);
    test_each_file_call(train_three_steps, it_can_be_finished, EIO, true, directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(ms_010_saved_at_the_end_and_restored),
        with_stage(ms_127s_both_secs_and_steps),
        with_stage(a_pair_and_a_trigger),
        with_stage(triggers_instead_of_the_pairs),
        with_stage(invalid_options_are_refused),
        with_stage(a_failed_opening_is_reported_once),
        with_stage(a_training_session_needs_a_backend),
        with_stage(an_empty_list_of_hooks_logs_no_warning),
        with_stage(without_options_it_is_a_plain_session),
        with_stage(the_target_is_passed_on),
        with_stage(the_scaffold_is_the_callers),
        with_stage(a_hooks_own_saver_still_deletes_old_checkpoints),
        with_stage(take_over_needs_an_existing_checkpoint),
        with_stage(the_programs_hooks_come_first_the_chiefs_before_the_others),
        with_stage(the_step_counter_comes_first_and_the_checkpoint_saver_last),
        with_stage(hooks_are_destroyed_once_also_when_opening_fails),
        with_stage(a_crashed_run_resumes_from_its_last_checkpoint),
        with_stage(a_second_process_is_refused_before_it_restores),
        with_stage(a_directory_may_end_with_slashes),
        with_stage(a_completed_training_makes_no_further_step),
        with_stage(the_standard_hooks_have_the_memory_of_the_backend),
        with_stage(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
