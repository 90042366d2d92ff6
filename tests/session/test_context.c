/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a hook: the context of a run, and the raw session. */
#include "session/probe.h"

#include "session/session.h"

#include <hooksess/event_reader.h>

static hs_code keep_context(probe *p, const probe_call *call)
{
    if (call->point == PROBE_BEFORE)
        p->user = call->run;
    if (call->point == PROBE_AFTER)
        assert_ptr_equal(p->user, call->run);
    return HS_OK;
}

static void ms_120s_one_context_for_all_of_a_run(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = keep_context);
    play_probe(p, b, .act = keep_context);
    play_open_probes(p, 2);
    play_train(p);
    assert_ptr_equal(p->a.user, p->b.user);
    assert_non_null(p->a.user);
}

static hs_code look_at_the_args(probe *p, const probe_call *call)
{
    if (!call->run)
        return HS_OK;
    const hs_run_args *args = hs_run_context_original_args(call->run);
    if (call->point == PROBE_BOUNDARY) {
        assert_true(!args->names && !args->fetches && !args->feeds);
        return HS_OK;
    }
    assert_string_equal(args->names[0], "b");
    assert_null(args->names[1]);
    assert_string_equal(args->feeds[0].name, "b");
    assert_null(args->feeds[1].name); /* not the feed of hook a */
    assert_ptr_equal(hs_run_context_session(call->run), p->raw);
    return HS_OK;
}

static void ms_120s_the_original_args_are_the_callers_alone(void **state)
{
    play *p = *state;
    const double one = 1;
    hs_run_args mine = HS_INIT(hs_run_args, .names = HS_NAMES("five"), .feeds = (hs_feed[]){play_feed("a", &one), {NULL}});
    play_probe(p, a, .wants = &mine, .act = look_at_the_args);
    play_probe(p, b, .act = look_at_the_args);
    play_open_probes(p, 2);
    assert_ok(play_run(p, HS_NAMES("b"), (hs_feed[]){play_feed("b", &one), {NULL}}), &p->err);
    assert_int_equal(p->b.calls[PROBE_AFTER], 1);
}

/* Each listing is a separate hook, even if the object is the same. */
static const hs_run_args five_then_ten[] = {HS_INIT(hs_run_args, .names = HS_NAMES("five")),
                                            HS_INIT(hs_run_args, .names = HS_NAMES("ten"))};

static hs_code alternate(probe *p, const probe_call *call)
{
    if (call->point == PROBE_CREATE || call->point == PROBE_BEFORE)
        p->wants = &five_then_ten[p->calls[PROBE_BEFORE] % 2];
    if (call->point == PROBE_AFTER)
        assert_true(p->number == (p->calls[PROBE_AFTER] % 2 ? 5 : 10));
    return HS_OK;
}

static void ms_123s_each_listing_of_a_hook_sees_its_own_request(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = alternate);
    hs_hook hook = play_watch(p, &p->a);
    play_open(p, (hs_hook[]){hook, hook}, 2);
    play_calls(p);
    for (int i = 0; i < 2; i++) {
        play_train(p);
        assert_string_equal(hs_script_last_run(p->script), "fetch train five ten; feed");
        assert_string_equal(play_calls(p), "a.before a.before run a.after a.after");
    }
}

/* The step. */

static int step_reads;

static hs_code read_step(void *session, int64_t *step, hs_error *err)
{
    step_reads++;
    return hs_script_backend(NULL).ops->global_step(session, step, err);
}

static hs_code ask_for_the_step(probe *p, const probe_call *call)
{
    if (!call->run)
        return HS_OK;
    hs_error_set(call->err, HS_INTERNAL, "of old");
    int64_t step = hs_run_context_global_step(call->run, call->err);
    assert_true(test_is_clear(call->err));
    if (call->point == PROBE_BEFORE)
        assert_int_equal(step, p->calls[PROBE_BEFORE] - 1);
    if (call->point == PROBE_AFTER)
        assert_int_equal(step, p->calls[PROBE_AFTER]);
    if (call->point == PROBE_BEFORE)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void the_step_is_read_once_before_and_once_after(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.global_step = read_step;
    p->backend.ops = &p->spied;
    play_probe(p, a, .act = ask_for_the_step);
    play_probe(p, b, .act = ask_for_the_step);
    play_open_probes(p, 2);
    for (int i = 0; i < 3; i++) {
        step_reads = 0;
        assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
        assert_int_equal(step_reads, 2);
    }
}

/* Trains once more in a raw run, after the step was read. */
static hs_code train_once_more(probe *p, const probe_call *call)
{
    const hs_run_args train = HS_INIT(hs_run_args, .names = HS_NAMES("train"));
    int64_t *seen = p->user;
    if (call->point != PROBE_AFTER)
        return HS_OK;
    int64_t before = hs_run_context_global_step(call->run, call->err);
    assert_ok(hs_raw_session_run(p->raw, &train, NULL, call->err), call->err);
    *seen = hs_run_context_global_step(call->run, call->err);
    assert_int_equal(*seen, before + 1);
    hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static hs_code note_the_step(probe *p, const probe_call *call)
{
    int64_t *seen = p->user;
    if (call->run && call->point != PROBE_BEFORE)
        seen[call->point] = hs_run_context_global_step(call->run, call->err);
    return HS_OK;
}

/* All hooks see the step in the boundary, whether they are listed before or after the hook that made the run. */
static void a_raw_run_that_advances_the_step_is_seen_by_all(void **state)
{
    play *p = *state;
    int64_t a[PROBE_POINTS] = {0}, b = 0, c[PROBE_POINTS] = {0};
    play_probe(p, a, .act = note_the_step, .user = a);
    play_probe(p, b, .act = train_once_more, .user = &b);
    play_probe(p, c, .act = note_the_step, .user = c);
    play_open_probes(p, 3);
    for (int run = 1; run <= 2; run++) {
        assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
        assert_int_equal(a[PROBE_AFTER], 2 * run - 1); /* not made yet */
        assert_int_equal(b, 2 * run);
        assert_int_equal(c[PROBE_AFTER], 2 * run);
        assert_int_equal(a[PROBE_BOUNDARY], 2 * run);
        assert_int_equal(c[PROBE_BOUNDARY], 2 * run);
    }
}

static void the_step_is_read_only_on_request(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.global_step = read_step;
    p->backend.ops = &p->spied;
    play_open_probes(p, 2);
    step_reads = 0;
    assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
    assert_int_equal(step_reads, 0);
}

static hs_code expect_no_step(probe *p, const probe_call *call)
{
    const char *why = p->user;
    if (call->run) {
        assert_int_equal(hs_run_context_global_step(call->run, call->err), -1);
        assert_says(call->err, HS_FAILED_PRECONDITION, why);
    }
    return HS_OK;
}

static void a_graph_without_a_step_is_an_error(void **state)
{
    play *p = *state;
    hs_graph *graph = hs_graph_new(&p->t.env);
    p->backend = hs_graph_backend(graph);
    play_probe(p, a, .act = expect_no_step, .user = "no global step");
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(hs_session_run_args(p->session, NULL, NULL, &p->err), &p->err);
    assert_int_equal(hs_session_global_step(p->session, &p->err), -1);
    assert_says(&p->err, HS_FAILED_PRECONDITION, "no global step");
    assert_int_equal(play_close(p)->step, -1);
    hs_graph_free(graph);
}

static void a_negative_step_is_a_failure(void **state)
{
    play *p = *state;
    int64_t step = -5;
    hs_graph *graph = hs_graph_new(&p->t.env);
    hs_graph_global_step(graph, NULL, &step);
    p->backend = hs_graph_backend(graph);
    play_probe(p, a, .act = expect_no_step, .user = "the global step is -5");
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(hs_session_run_args(p->session, NULL, NULL, &p->err), &p->err);
    assert_int_equal(hs_raw_session_global_step(hs_session_raw(p->session), &p->err), -1);
    assert_says(&p->err, HS_FAILED_PRECONDITION, "the global step is -5");
    play_close(p);
    hs_graph_free(graph);
}

/* The time. */

/* The times that a hook saw, and the script whose clock its work moves. */
typedef struct {
    hs_script *script;
    int64_t times[PROBE_POINTS];
} timed;

static hs_code ask_for_the_time(probe *p, const probe_call *call)
{
    timed *seen = p->user;
    if (!call->run)
        return HS_OK;
    seen->times[call->point] = hs_run_context_now(call->run);
    hs_script_advance(seen->script, 1);
    hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void the_time_is_read_once_before_and_once_after(void **state)
{
    play *p = *state;
    timed a = {.script = p->script}, b = {.script = p->script};
    play_probe(p, a, .act = ask_for_the_time, .user = &a);
    play_probe(p, b, .act = ask_for_the_time, .user = &b);
    play_open_probes(p, 2);
    int64_t start = hs_env_monotonic_ns(hs_script_env(p->script));
    play_train(p);
    assert_memory_equal(a.times, b.times, sizeof a.times);
    assert_int_equal(a.times[PROBE_BEFORE], start);
    assert_int_equal(a.times[PROBE_AFTER], start + 2000000000);
    assert_int_equal(a.times[PROBE_BOUNDARY], a.times[PROBE_AFTER]);
    p->a.act = p->b.act = NULL;
}

static hs_code compare_the_times(probe *p, const probe_call *call)
{
    if (call->point != PROBE_AFTER)
        return HS_OK;
    int64_t began = hs_env_monotonic_ns(NULL), coarse = hs__run_context_coarse_now(call->run);
    int64_t now = hs_run_context_now(call->run);
    assert_true(coarse <= now && coarse > began - 1000000000);
    assert_int_equal(hs__run_context_coarse_now(call->run), now); /* the same as the exact time read before */
    ++*(int *)p->user;
    return HS_OK;
}

static void the_coarse_time_is_of_the_same_clock(void **state)
{
    play *p = *state;
    int compared = 0;
    hs_graph *graph = hs_graph_new(&p->t.env);
    p->backend = hs_graph_backend(graph);
    play_probe(p, a, .act = compare_the_times, .user = &compared);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(hs_session_run_args(p->session, NULL, NULL, &p->err), &p->err);
    assert_int_equal(compared, 1);
    play_close(p);
    hs_graph_free(graph);
}

static hs_code not_in_the_run(probe *p, const probe_call *call)
{
    (void)p;
    if (call->run && call->point != PROBE_BOUNDARY)
        assert_int_equal(hs_run_context_boundary(call->run), 0);
    return HS_OK;
}

static hs_code note_boundary(probe *p, const probe_call *call)
{
    if (call->point == PROBE_BOUNDARY) {
        *(int *)p->user = *(int *)p->user * 10 + (int)hs_run_context_boundary(call->run);
        assert_int_equal(hs_run_context_kind(call->run), HS_RUN_TRAIN);
        hs_run_context_request_boundary(call->run); /* without effect */
    }
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    return not_in_the_run(p, call);
}

static void a_boundary_says_which_it_is(void **state)
{
    play *p = *state;
    int seen = 0;
    play_probe(p, a, .act = note_boundary, .user = &seen);
    play_open_probes(p, 1);
    play_train(p);
    play_close(p);
    assert_int_equal(seen, 123); /* HS_BOUNDARY_CREATED, _RUN, _END */
}

/* Kinds of run. */

static hs_code ask_for_a_boundary(probe *p, const probe_call *call)
{
    if (call->point == PROBE_BEFORE) {
        hs_run_context_request_boundary(call->run);
        p->user = (void *)(intptr_t)hs_run_context_kind(call->run);
    }
    return HS_OK;
}

static const char *calls_of_kind(play *p, int64_t kind)
{
    play_calls(p);
    assert_ok(play_args(p, HS_RUN_ARGS(.kind = kind)), &p->err);
    return play_calls(p);
}

static void hooks_are_called_for_their_kinds_of_run(void **state)
{
    play *p = *state;
    play_probe(p, b, .act = ask_for_a_boundary);
    hs_hook train = play_watch(p, &p->a), all = play_watch(p, &p->b), eval = play_watch(p, &p->c);
    all.flags = HS_HOOK_TRAIN | HS_HOOK_EVAL | HS_HOOK_AUX;
    eval.flags = HS_HOOK_EVAL;
    play_open(p, (hs_hook[]){train, all, eval}, 3);
    assert_string_equal(calls_of_kind(p, HS_RUN_TRAIN), "a.before b.before run a.after b.after a.boundary b.boundary");
    assert_string_equal(calls_of_kind(p, HS_RUN_EVAL), "b.before c.before run b.after c.after b.boundary c.boundary");
    assert_true(p->b.user == (void *)(intptr_t)HS_RUN_EVAL);
    assert_string_equal(calls_of_kind(p, HS_RUN_AUX), "b.before run b.after b.boundary");
}

/* The boundaries of opening and closing, and all callbacks outside of runs, are called for hooks of all kinds. */
static void hooks_of_all_kinds_are_opened_and_closed(void **state)
{
    play *p = *state;
    hs_hook eval = play_watch(p, &p->a);
    eval.flags = HS_HOOK_EVAL;
    play_open(p, &eval, 1);
    play_train(p);
    play_close(p);
    assert_string_equal(play_calls(p), "a.begin a.create a.boundary run a.end a.boundary a.close");
}

/* The raw session. */

static void the_raw_session_records_the_saved_step(void **state)
{
    play *p = *state;
    play_open_probes(p, 1);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_null(hs_raw_session_restored_from(raw));
    assert_ptr_equal(hs_raw_session_backend(raw).self, p->script);
    hs_raw_session_record_save(raw, 12);
    assert_int_equal(play_close(p)->last_saved_step, 12);
}

/* Values of the caller's raw run are valid until its next raw run. */
static void the_caller_may_make_raw_runs(void **state)
{
    play *p = *state;
    const hs_run_values *values;
    play_open(p, NULL, 0);
    hs_raw_session *raw = hs_session_raw(p->session);
    for (int i = 0; i < 4; i++) {
        hs_run_args args = HS_INIT(hs_run_args, .names = i % 2 ? HS_NAMES("five", "ten") : HS_NAMES("ten"));
        assert_ok(hs_raw_session_run(raw, &args, &values, &p->err), &p->err);
        assert_int_equal(hs_run_values_count(values), i % 2 ? 2 : 1);
        assert_true(hs_run_values_number_at(values, "ten") == 10);
    }
    assert_ok(hs_raw_session_run(raw, NULL, NULL, &p->err), &p->err);
    assert_fails(hs_raw_session_run(raw, &(hs_run_args){.kind = 1}, NULL, &p->err), HS_INVALID_ARGUMENT, &p->err,
                 "HS_INIT(hs_run_args");
}

/* Event files. */

static hs_code write_an_event(probe *p, const probe_call *call)
{
    static hs_summary_writer *writer;
    const char *directory = p->user;
    if (call->point == PROBE_CREATE)
        assert_ok(hs_raw_session_summary_writer(call->raw, directory, &writer, call->err), call->err);
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    if (call->point == PROBE_AFTER)
        assert_ok(hs_summary_writer_scalar(writer, "my_tag", 1, 1, call->err), call->err);
    if (call->point != PROBE_BOUNDARY || hs_run_context_boundary(call->run) != HS_BOUNDARY_RUN)
        return HS_OK;
    size_t bytes = 0;
    char *file = test_read_file(hs_summary_writer_path(writer), &bytes);
    bool found = false;
    for (size_t i = 0; i + 6 <= bytes; i++)
        found |= memcmp(file + i, "my_tag", 6) == 0;
    free(file);
    assert_true(found);
    return HS_OK;
}

static void event_files_are_flushed_before_a_boundary(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    play_probe(p, a, .act = write_an_event, .user = directory);
    play_open_probes(p, 1);
    play_train(p);
    assert_int_equal(p->a.calls[PROBE_BOUNDARY], 2);
    play_close(p);
    test_remove_directory(directory);
}

/* The disk is full when the session ends. */
static void a_failing_event_file_is_counted_and_does_not_fail_the_session(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    hs_summary_writer *writer;
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_ok(hs_raw_session_summary_writer(raw, directory, &writer, &p->err), &p->err);
    assert_ok(hs_summary_writer_scalar(writer, "tag", 1, 1, &p->err), &p->err);
    p->t.fail_file_at = p->t.file_calls + 1;
    p->t.fail_file_on = true;
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_int_equal(p->outcome.failing_hooks, 1);
    assert_true(p->outcome.failures > 0);
    assert_int_equal(p->a.calls[PROBE_CLOSE], 1);
    test_remove_directory(directory);
}

static hs_code request_a_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_AFTER)
        hs_run_context_request_boundary(call->run);
    return HS_OK;
}

static void the_error_of_an_event_file_is_reported_at_the_boundary(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    hs_summary_writer *writer;
    hs_hook_failure failure = {0};
    play_probe(p, a, .act = request_a_boundary);
    play_open_probes(p, 1);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_ok(hs_raw_session_summary_writer(raw, directory, &writer, &p->err), &p->err);
    assert_ok(hs_summary_writer_scalar(writer, "tag", 1, 1, &p->err), &p->err);
    p->t.fail_file_at = p->t.file_calls + 1;
    play_train(p);
    assert_true(hs_raw_session_failure(raw, 0, &failure));
    assert_string_equal(failure.hook, "summary writer");
    assert_int_equal(failure.failures, 1);
    assert_ok(hs_raw_session_flush_writer(raw, writer, true, &p->err), &p->err); /* it is retried and succeeds */
    assert_false(hs_summary_writer_status(writer).failing);
    assert_fails(hs_raw_session_flush_writer(raw, NULL, true, &p->err), HS_INVALID_ARGUMENT, &p->err, "writer is NULL");
    assert_fails(hs_raw_session_flush_writer(NULL, writer, true, &p->err), HS_INVALID_ARGUMENT, &p->err, "session is NULL");
    assert_int_equal(play_close(p)->failures, 1);
    test_remove_directory(directory);
}

static void a_failing_writer_of_the_program_fails_the_session(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &p->t.env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *writer = hs_summary_writer_open(directory, &options, &p->err);
    play_probe(p, a, .stops_at = 1);
    play_open_probes(p, 1);
    play_train(p);
    assert_ok(hs_raw_session_event_writer(hs_session_raw(p->session), NULL, writer, &writer, &p->err), &p->err);
    assert_ok(hs_summary_writer_scalar(writer, "tag", 1, 1, &p->err), &p->err);
    p->t.fail_file_at = p->t.file_calls + 1;
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_int_equal(p->err.code, HS_RESOURCE_EXHAUSTED);
    hs_summary_writer_close(writer, NULL);
    test_remove_directory(directory);
}

static void a_directory_has_one_writer_for_all(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    hs_summary_writer *one, *other, *own = hs_summary_writer_open(directory, NULL, &p->err);
    play_open(p, NULL, 0);
    hs_raw_session *raw = hs_session_raw(p->session);
    assert_ok(hs_raw_session_event_writer(raw, NULL, own, &own, &p->err), &p->err);
    assert_ok(hs_raw_session_summary_writer(raw, directory, &one, &p->err), &p->err);
    assert_ok(hs_raw_session_summary_writer(raw, test_path(directory, ""), &other, &p->err), &p->err);
    assert_ptr_equal(one, other);
    assert_int_equal(hs_raw_session_summary_writer(raw, "", &other, &p->err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_raw_session_summary_writer(raw, NULL, &other, &p->err), HS_INVALID_ARGUMENT);
    play_close(p);
    assert_ok(hs_summary_writer_close(own, &p->err), &p->err); /* the program closes its own writer */
    assert_int_equal(test_count_files(directory, "tfevents"), 2);
    test_remove_directory(directory);
}

/* Counts the START records in the event files of a directory. */
static int starts_in(const char *directory)
{
    const hs_event *event;
    int n = 0;
    hs_event_reader *reader = hs_event_reader_open(directory, NULL, NULL);
    while (hs_event_reader_next(reader, &event, NULL) == HS_OK)
        n += event->kind == HS_EVENT_SESSION_LOG && event->status == HS_SESSION_LOG_START;
    hs_event_reader_close(reader);
    return n;
}

static void a_hooks_events_begin_with_the_start_of_the_session(void **state)
{
    play *p = *state;
    char *directory = test_make_directory(), *own_directory = test_make_directory();
    hs_summary_writer *writer, *own = hs_summary_writer_open(own_directory, NULL, &p->err);
    play_open(p, NULL, 0);
    hs_raw_session *raw = hs_session_raw(p->session);
    for (int hook = 0; hook < 2; hook++) {
        assert_ok(hs_raw_session_event_writer(raw, directory, NULL, &writer, &p->err), &p->err);
        assert_ok(hs_summary_writer_scalar(writer, "tag", 1, 1, &p->err), &p->err);
        assert_ok(hs_raw_session_event_writer(raw, directory, own, &writer, &p->err), &p->err);
        assert_ptr_equal(writer, own);
    }
    play_close(p);
    assert_ok(hs_summary_writer_close(own, &p->err), &p->err);
    assert_int_equal(test_count_files(directory, "tfevents"), 1);
    assert_int_equal(starts_in(directory), 1);
    assert_int_equal(starts_in(own_directory), 1);
    test_remove_directory(directory);
    test_remove_directory(own_directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(a_hooks_events_begin_with_the_start_of_the_session),
        play_test(ms_120s_one_context_for_all_of_a_run),
        play_test(ms_120s_the_original_args_are_the_callers_alone),
        play_test(ms_123s_each_listing_of_a_hook_sees_its_own_request),
        play_test(the_step_is_read_once_before_and_once_after),
        play_test(a_raw_run_that_advances_the_step_is_seen_by_all),
        play_test(the_step_is_read_only_on_request),
        play_test(a_graph_without_a_step_is_an_error),
        play_test(a_negative_step_is_a_failure),
        play_test(the_time_is_read_once_before_and_once_after),
        play_test(the_coarse_time_is_of_the_same_clock),
        play_test(a_boundary_says_which_it_is),
        play_test(hooks_are_called_for_their_kinds_of_run),
        play_test(hooks_of_all_kinds_are_opened_and_closed),
        play_test(the_raw_session_records_the_saved_step),
        play_test(the_caller_may_make_raw_runs),
        play_test(event_files_are_flushed_before_a_boundary),
        play_test(a_failing_event_file_is_counted_and_does_not_fail_the_session),
        play_test(the_error_of_an_event_file_is_reported_at_the_boundary),
        play_test(a_failing_writer_of_the_program_fails_the_session),
        play_test(a_directory_has_one_writer_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
