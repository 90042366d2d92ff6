/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* posix_openpt, pipe2 */
#include "hooks/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A terminal or a pipe: text written to `to` is read from `from`. */
typedef struct {
    int from, to;
    char text[1 << 14];
} output;

static output open_terminal(unsigned short columns)
{
    output o = {.from = posix_openpt(O_RDWR | O_NOCTTY)};
    struct winsize size = {.ws_row = 25, .ws_col = columns};
    assert_true(o.from >= 0 && grantpt(o.from) == 0 && unlockpt(o.from) == 0);
    o.to = open(ptsname(o.from), O_RDWR | O_NOCTTY);
    assert_true(o.to >= 0);
    assert_int_equal(ioctl(o.to, TIOCSWINSZ, &size), 0);
    return o;
}

static void resize(const output *o, unsigned short columns)
{
    struct winsize size = {.ws_row = 25, .ws_col = columns};
    assert_int_equal(ioctl(o->to, TIOCSWINSZ, &size), 0);
}

static output open_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    return (output){.from = ends[0], .to = ends[1]};
}

/* Returns the text that was written since the last call. Writes a mark after it, and waits for the mark. */
static const char *written(output *o)
{
    size_t used = 0;
    assert_int_equal(write(o->to, "#", 1), 1);
    do {
        struct pollfd ready = {.fd = o->from, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 10000), 1);
        ssize_t n = read(o->from, o->text + used, sizeof o->text - 1 - used);
        assert_true(n > 0);
        used += (size_t)n;
    } while (o->text[used - 1] != '#');
    o->text[used - 1] = '\0';
    return o->text;
}

static void close_output(const output *o)
{
    close(o->from);
    close(o->to);
}

/* A hook that advances the clock by `secs` in each run. */
typedef struct {
    stage *s;
    double secs;
} pace;

static hs_code take_time(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const pace *p = self;
    (void)run, (void)values, (void)err;
    test_env_advance(&p->s->t, p->secs);
    return HS_OK;
}

static const hs_hook_ops pace_ops = HS_INIT(hs_hook_ops, .name = "pace", .after_run = take_time);

static void open_paced(stage *s, pace *p, hs_hook hook)
{
    hs_hook hooks[] = {{.ops = &pace_ops, .self = p}, hook};
    p->s = s;
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
}

static void make_constant(stage *s, const char *name)
{
    static const double value = 0.25;
    hs_tensor tensor = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &value);
    assert_ok(hs_script_constant(s->script, name, &tensor), &s->err);
}

/* On a terminal. */

static void a_terminal_has_one_line_that_is_rewritten(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1};
    make_constant(s, "loss");
    open_paced(s, &p, hs_progress(.descriptor = o.to, .last_step = 100, .tensors = HS_NAMES("loss")));
    stage_run(s, "train", 2, 0);
    assert_string_equal(written(&o), "\rstep 1/100 1.0% [>              ], 1 steps/s, 1:39 left, loss = 0.25"
                                     "\rstep 2/100 2.0% [>              ], 1 steps/s, 1:38 left, loss = 0.25");
    stage_close(s);
    assert_string_equal(written(&o), "\rstep 2/100 2.0% [>              ], 1 steps/s, took 0:02             \r\n");
    close_output(&o);
}

static void the_bar_is_as_long_as_the_terminal_lets_it_be(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1};
    open_paced(s, &p, hs_progress(.descriptor = o.to, .last_step = 4));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 1/4 25.0% [=======>                      ], 1 steps/s, 0:03 left");
    resize(&o, 67);
    stage_run(s, "train", 1, 0);
    assert_contains(written(&o), "\rstep 2/4 50.0% [=======>       ], 1 steps/s, 0:02 left");
    resize(&o, 59);
    stage_run(s, "train", 1, 0);
    assert_contains(written(&o), "\rstep 3/4 75.0% [===========>   ], 1 steps/s, 0:01 left");
    resize(&o, 50);
    stage_run(s, "train", 1, 0);
    assert_contains(written(&o), "\rstep 4/4 100.0% [===============], 1 steps/s");
    stage_close(s);
    assert_contains(written(&o), "\rstep 4/4 100.0%, 1 steps/s, took 0:04");
    close_output(&o);
}

static void the_bar_is_shortened_and_never_lengthened(void **state)
{
    stage *s = *state;
    output o = open_terminal(72);
    pace p = {.secs = 1};
    open_paced(s, &p, hs_progress(.descriptor = o.to, .last_step = 1000));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o),
                        "\rstep 1/1000 0.1% [>              ], 1 steps/s, 16:39 left"); /* 28 columns are left */
    stage_run(s, "train", 99, 0);
    assert_contains(written(&o), "\rstep 100/1000 10.0% [=>             ], 1 steps/s, 15:00 left");
    p.secs = 1e6;
    stage_run(s, "train", 1, 0); /* a long line */
    assert_contains(written(&o), "\rstep 101/1000 10.1%, 1e-06 steps/s, 10405d ");
    p.secs = 1;
    stage_run(s, "train", 150, 0);
    assert_lacks(written(&o), "[");
    stage_run(s, "train", 100, 0);
    assert_lacks(written(&o), "[");
    resize(&o, 100);
    stage_run(s, "train", 1, 0);
    assert_contains(written(&o), "\rstep 352/1000 35.2% [==========>                   ], ");
    stage_close(s);
    close_output(&o);
}

static void other_lines_pass_above_it(void **state)
{
    stage *s = *state;
    output o = open_terminal(50); /* without a bar */
    pace p = {.secs = 1};
    hs_hook hook = hs_hook_hold(hs_progress(.descriptor = o.to, .last_step = 100));
    open_paced(s, &p, hook);
    hs_progress_print(hook, "before");
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "before\r\n\rstep 1/100 1.0%, 1 steps/s, 1:39 left");
    hs_progress_print(hook, "step 1: saved");
    assert_string_equal(written(&o), "\r                                       \rstep 1: saved\r\n"
                                     "\rstep 1/100 1.0%, 1 steps/s, 1:39 left");
    stage_close(s);
    written(&o);
    hs_progress_print(hook, "after");
    assert_string_equal(written(&o), "after\r\n");
    hs_hook_free(hook);
    hs_progress_print((hs_hook){.ops = NULL}, "nothing");
    close_output(&o);
}

static void elsewhere_they_are_just_printed(void **state)
{
    stage *s = *state;
    output o = open_pipe();
    hs_hook hook = hs_hook_hold(hs_progress(.descriptor = o.to, .every_n_steps = 1));
    stage_open(s, hook);
    stage_run(s, "train", 1, 0);
    written(&o);
    hs_progress_print(hook, "step 1: saved");
    assert_string_equal(written(&o), "step 1: saved\n");
    stage_close(s);
    hs_hook_free(hook);
    close_output(&o);
}

static void it_is_cut_to_the_terminals_width(void **state)
{
    stage *s = *state;
    output o = open_terminal(10);
    pace p = {.secs = 1};
    open_paced(s, &p, hs_progress(.descriptor = o.to));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 1, 1");
    resize(&o, 13);
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 2, 1 st");
    resize(&o, 8);
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 3,");
    stage_close(s);
    close_output(&o);
}

static void characters_are_cut_as_a_whole(void **state)
{
    static const char name[] = "\xc3\xa4\xc3\xb6\xc3\xbc";
    stage *s = *state;
    output o = open_terminal(22);
    pace p = {.secs = 1};
    make_constant(s, name);
    open_paced(s, &p, hs_progress(.descriptor = o.to, .tensors = HS_NAMES(name)));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 1, 1 steps/s, \xc3\xa4\xc3\xb6");
    resize(&o, 23);
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 2, 1 steps/s, \xc3\xa4\xc3\xb6\xc3\xbc");
    stage_close(s);
    close_output(&o);
}

static void control_characters_are_not_for_the_terminal(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 0};
    make_constant(s, "a\x1b[2J\n");
    open_paced(s, &p, hs_progress(.descriptor = o.to, .tensors = HS_NAMES("a\x1b[2J\n")));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 1, a?[2J? = 0.25");
    stage_close(s);
    close_output(&o);
}

static void it_is_rewritten_five_times_a_second_at_most(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 0.01};
    open_paced(s, &p, hs_progress(.descriptor = o.to));
    stage_run(s, "train", 200, 0);
    assert_int_equal(count_of(written(&o), "\r"), 10);
    stage_close(s);
    close_output(&o);
}

static void tensors_are_fetched_only_when_they_are_shown(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 0.15};
    make_constant(s, "loss");
    open_paced(s, &p, hs_progress(.descriptor = o.to, .tensors = HS_NAMES("loss")));
    stage_run(s, "train", 1, 0);
    assert_contains(hs_script_last_run(s->script), "loss");
    stage_run(s, "train", 1, 0);
    assert_lacks(hs_script_last_run(s->script), "loss");
    stage_close(s);
    close_output(&o);
}

static void a_session_that_fails_ends_the_line(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1};
    open_paced(s, &p, hs_progress(.descriptor = o.to));
    stage_run(s, "train", 1, 0);
    assert_ok(hs_script_fail_at(s->script, 2, HS_INTERNAL, "it broke"), &s->err);
    assert_int_equal(stage_run_once(s, "train"), HS_INTERNAL);
    hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_string_equal(written(&o), "\rstep 1, 1 steps/s\r\n");
    close_output(&o);
}

static void the_line_can_be_cleared(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1};
    hs_hook hook = hs_progress(.descriptor = o.to);
    open_paced(s, &p, hook);
    hs_progress_clear(hook);
    stage_run(s, "train", 1, 0);
    hs_progress_clear(hook);
    hs_progress_clear(hook);
    assert_string_equal(written(&o), "\rstep 1, 1 steps/s\r                   \r");
    stage_close(s);
    close_output(&o);
}

static void *clear_often(void *hook)
{
    for (int i = 0; i < 500; i++)
        hs_progress_clear(*(hs_hook *)hook);
    return NULL;
}

static void any_thread_may_clear_it(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1};
    pthread_t thread;
    hs_hook hook = hs_progress(.descriptor = o.to);
    open_paced(s, &p, hook);
    assert_int_equal(pthread_create(&thread, NULL, clear_often, &hook), 0);
    stage_run(s, "train", 100, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    stage_close(s);
    assert_contains(written(&o), "\rstep 100, 1 steps/s");
    close_output(&o);
}

/* The steps before a resume do not count for the rate. */
static void after_a_resume_the_rate_is_that_of_this_run(void **state)
{
    stage *s = *state;
    output o = open_terminal(120);
    pace p = {.secs = 2};
    hs_script_set_step(s->script, 1000000);
    open_paced(s, &p, hs_progress(.descriptor = o.to, .last_step = 1000101));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o),
                        "\rstep 1000001/1000101 100.0% [=============================>], 0.5 steps/s, 3:20 left");
    stage_close(s);
    close_output(&o);
}

static void the_time_left_is_that_at_this_rate(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1};
    make_constant(s, "loss");
    hs_script_set_step(s->script, 1120);
    hs_script_steps_per_run(s->script, 80);
    open_paced(s, &p, hs_progress(.descriptor = o.to, .last_step = 10000, .tensors = HS_NAMES("loss")));
    stage_run(s, "train", 1, 0);
    assert_contains(written(&o), "step 1200/10000 12.0% [=>             ], 80 steps/s, 1:50 left, loss = 0.25");
    stage_close(s);
    close_output(&o);
}

static void the_rate_has_four_digits(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 1 / 333.21};
    open_paced(s, &p, hs_progress(.descriptor = o.to));
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "\rstep 1, 333.2 steps/s");
    stage_close(s);
    close_output(&o);
}

static void a_new_pace_is_seen_soon(void **state)
{
    stage *s = *state;
    output o = open_terminal(80);
    pace p = {.secs = 0.01};
    open_paced(s, &p, hs_progress(.descriptor = o.to));
    stage_run(s, "train", 6000, 0); /* a minute */
    p.secs = 1;
    stage_run(s, "train", 300, 0);
    written(&o);
    stage_run(s, "train", 1, 0);
    assert_contains(written(&o), "1.07 steps/s");
    stage_close(s);
    close_output(&o);
}

/* Not on a terminal. */

static void a_pipe_has_lines_every_ten_seconds(void **state)
{
    stage *s = *state;
    output o = open_pipe();
    pace p = {.secs = 4};
    open_paced(s, &p, hs_progress(.descriptor = o.to, .last_step = 8));
    stage_run(s, "train", 4, 0);
    stage_close(s);
    assert_string_equal(written(&o), "step 1/8 12.5%, 0.25 steps/s, 0:28 left\n"
                                     "step 4/8 50.0%, 0.25 steps/s, 0:16 left\n"
                                     "step 4/8 50.0%, 0.25 steps/s, took 0:16\n");
    close_output(&o);
}

static void or_every_n_steps(void **state)
{
    stage *s = *state;
    output o = open_pipe();
    pace p = {.secs = 0};
    open_paced(s, &p, hs_progress(.descriptor = o.to, .every_n_steps = 3));
    stage_run(s, "train", 8, 0);
    assert_string_equal(written(&o), "step 1\nstep 4\nstep 7\n");
    stage_close(s);
    close_output(&o);
}

static void or_as_a_trigger_says(void **state)
{
    stage *s = *state;
    output o = open_pipe();
    pace p = {.secs = 0};
    open_paced(s, &p,
               hs_progress(.descriptor = o.to,
                           .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(6, 3), .on_request = true)));
    stage_run(s, "train", 8, 0);
    assert_string_equal(written(&o), "step 3\nstep 4\nstep 6\nstep 8\n");
    hs_session_request_save(s->session);
    stage_run(s, "train", 5, 0);
    assert_string_equal(written(&o), "step 9\nstep 12\n");
    hs_script_set_step(s->script, 4); /* a decrease of the step is not a request */
    stage_run(s, "train", 3, 0);
    assert_string_equal(written(&o), "step 6\n");
    stage_close(s);
    close_output(&o);
}

/* Writes that fail. */

static void a_pipe_without_a_reader_is_not_written_again(void **state)
{
    stage *s = *state;
    output o = open_pipe();
    pace p = {.secs = 0};
    sigset_t waiting;
    close(o.from);
    make_constant(s, "loss");
    open_paced(s, &p, hs_progress(.descriptor = o.to, .every_n_steps = 1, .tensors = HS_NAMES("loss")));
    stage_run(s, "train", 2, 0); /* SIGPIPE would end the process */
    assert_int_equal(sigpending(&waiting), 0);
    assert_int_equal(sigismember(&waiting, SIGPIPE), 0);
    assert_lacks(hs_script_last_run(s->script), "loss");
    stage_close(s);
    close(o.to);
}

static void a_pipe_that_is_full_is_tried_again(void **state)
{
    static char filler[4096];
    stage *s = *state;
    output o = open_pipe();
    pace p = {.secs = 0};
    assert_int_equal(fcntl(o.to, F_SETFL, O_NONBLOCK), 0);
    while (write(o.to, filler, sizeof filler) > 0)
        ;
    open_paced(s, &p, hs_progress(.descriptor = o.to, .every_n_steps = 1));
    stage_run(s, "train", 1, 0);
    assert_int_equal(fcntl(o.from, F_SETFL, O_NONBLOCK), 0);
    while (read(o.from, filler, sizeof filler) > 0)
        ;
    stage_run(s, "train", 1, 0);
    assert_string_equal(written(&o), "step 2\n");
    stage_close(s);
    close_output(&o);
}

static void a_closed_descriptor_fails_nothing(void **state)
{
    stage *s = *state;
    output o = open_pipe();
    pace p = {.secs = 0};
    close_output(&o);
    open_paced(s, &p, hs_progress(.descriptor = o.to, .every_n_steps = 1));
    stage_run(s, "train", 3, 0);
    stage_close(s);
}

/* Making one. */

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_progress(.every_n_steps = 1, .every_n_secs = 1), HS_INVALID_ARGUMENT,
                  "each of every_n_secs and every_n_steps");
    stage_refuses(s, hs_progress(.last_step = -5), HS_INVALID_ARGUMENT, "last_step is -5");
    stage_refuses(s, hs_progress(.descriptor = -1), HS_INVALID_ARGUMENT, "descriptor is -1");
    stage_refuses(s, hs_progress(.tensors = HS_NAMES("nothing")), HS_NOT_FOUND, "nothing");
}

static hs_code show_twice(test_env *t, void *user)
{
    hs_error err = {0};
    const output *o = user;
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_hook hook = hs_progress(.descriptor = o->to, .every_n_steps = 1, .tensors = HS_NAMES("global_step"));
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    for (int i = 0; i < 2 && session && !err.code; i++)
        hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    output o = {.from = -1, .to = open("/dev/null", O_WRONLY)};
    test_each_allocation(show_twice, &o);
    close(o.to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_terminal_has_one_line_that_is_rewritten),
        with_stage(the_bar_is_as_long_as_the_terminal_lets_it_be),
        with_stage(the_bar_is_shortened_and_never_lengthened),
        with_stage(other_lines_pass_above_it),
        with_stage(elsewhere_they_are_just_printed),
        with_stage(it_is_cut_to_the_terminals_width),
        with_stage(characters_are_cut_as_a_whole),
        with_stage(control_characters_are_not_for_the_terminal),
        with_stage(it_is_rewritten_five_times_a_second_at_most),
        with_stage(tensors_are_fetched_only_when_they_are_shown),
        with_stage(a_session_that_fails_ends_the_line),
        with_stage(the_line_can_be_cleared),
        with_stage(any_thread_may_clear_it),
        with_stage(after_a_resume_the_rate_is_that_of_this_run),
        with_stage(the_time_left_is_that_at_this_rate),
        with_stage(the_rate_has_four_digits),
        with_stage(a_new_pace_is_seen_soon),
        with_stage(a_pipe_has_lines_every_ten_seconds),
        with_stage(or_every_n_steps),
        with_stage(or_as_a_trigger_says),
        with_stage(a_pipe_without_a_reader_is_not_written_again),
        with_stage(a_pipe_that_is_full_is_tried_again),
        with_stage(a_closed_descriptor_fails_nothing),
        with_stage(invalid_options_are_refused),
        with_stage(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
