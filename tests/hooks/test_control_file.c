/* SPDX-License-Identifier: Apache-2.0 */
/* The control file: its kind, its mode and its lines. */
#define _XOPEN_SOURCE 700 /* mkfifo, mknod */
#include "hooks/stage.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path_of(const stage *s)
{
    return test_path(s->directory, "control");
}

/* A session whose hook polls after every run. */
static void open_control(stage *s, double *knob)
{
    hs_knob knobs[] = {{.name = "lr", .value = knob, .min = 0, .max = 1}, {.name = NULL}};
    stage_open(s, hs_control(.path = path_of(s), .knobs = knobs));
}

static void look(stage *s)
{
    test_env_advance(&s->t, 1);
    assert_ok(stage_run_once(s, "train"), &s->err);
}

static void put_bytes(const stage *s, const void *bytes, size_t n)
{
    test_write_file(path_of(s), bytes, n);
    assert_int_equal(chmod(path_of(s), 0600), 0);
}

static void put(const stage *s, const char *text)
{
    put_bytes(s, text, strlen(text));
}

/* Returns the knob after the lines were read from the file. */
static double after(stage *s, const char *text)
{
    double lr = 0.5;
    open_control(s, &lr);
    put(s, text);
    look(s);
    stage_close(s);
    return lr;
}

static bool stops(stage *s)
{
    return hs_session_should_stop(s->session);
}

static int refusals(const stage *s)
{
    return (int)count_of(s->t.log, "WARNING: ");
}

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    double d = 0;
    const hs_knob bad = {.name = "a b", .value = &d}, good = {.name = "a", .value = &d};
    stage_refuses(s, hs_control(.path = NULL), HS_INVALID_ARGUMENT, "path is missing");
    stage_refuses(s, hs_control(.path = "x", .knobs = HS_KNOBS(bad)), HS_INVALID_ARGUMENT, "'a b' is not a knob's name");
    stage_refuses(s, hs_control(.path = "x", .knobs = HS_KNOBS(good, good)), HS_INVALID_ARGUMENT,
                  "two knobs are named 'a'");
    stage_refuses(s, hs_control(.path = "x", .knobs = HS_KNOBS({.name = "a"})), HS_INVALID_ARGUMENT,
                  "has neither value nor set");
    stage_refuses(s, hs_control(.path = "x", .knobs = HS_KNOBS({.name = "b", .value = &d, .min = 2, .max = 1})),
                  HS_INVALID_ARGUMENT, "min is 2 and max is 1");
    stage_refuses(s, hs_control(.path = "x", .knobs = HS_KNOBS({.name = "c", .value = &d, .kind = 9})), HS_INVALID_ARGUMENT,
                  "kind is 9, not an hs_knob_kind");
    stage_refuses(s, hs_control_hook(&(hs_control_options){.path = "x"}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_control_options");
}

/* Orders. */

static void it_stops(void **state)
{
    stage *s = *state;
    double lr = 0;
    open_control(s, &lr);
    look(s);
    assert_false(stops(s));
    put(s, "stop\n");
    look(s);
    assert_true(stops(s));
    stage_close(s);
    assert_true(s->outcome.interrupted);
    assert_string_equal(s->outcome.hook, "control");
    assert_int_equal(test_count_files(s->directory, "control"), 0);
}

static void it_requests_a_save(void **state)
{
    stage *s = *state;
    hs_hook hooks[] = {hs_control(.path = path_of(s)),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_secs = 1000)};
    put(s, " save \r\n\n");
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    assert_int_equal(count_of(s->t.log, ": saved "), 1); /* when the session was created */
    look(s);
    assert_int_equal(count_of(s->t.log, "step 1: saved "), 1);
    look(s);
    assert_int_equal(count_of(s->t.log, ": saved "), 2);
    assert_int_equal(refusals(s), 0);
}

static void it_sets_a_knob(void **state)
{
    stage *s = *state;
    assert_true(after(s, "set lr=0.25\n") == 0.25);
    assert_contains(s->t.log, "INFO: step 1: 'lr' set from 0.5 to 0.25 by ");
    assert_true(after(s, "set  lr = 1e-3 \n") == 1e-3);
    assert_true(after(s, "set lr=0.125\nset lr=0.75\n") == 0.75);
    assert_int_equal(refusals(s), 0);
}

static void it_polls_once_a_second(void **state)
{
    stage *s = *state;
    stage_open(s, hs_control(.path = path_of(s)));
    stage_run(s, "train", 1, 0);
    put(s, "stop\n");
    stage_run(s, "train", 5, 0.2);
    assert_false(stops(s));
    test_env_advance(&s->t, 0.2);
    stage_run(s, "train", 1, 0);
    assert_true(stops(s));
}

/* Lines. */

static void lines_that_are_not_orders_are_refused(void **state)
{
    static const char *const lines[] = {
        "halt",          "SAVE",           "save now",     "stopx",          "set",           "set lr",      "set lr 0.25",
        "set l r=0.25",  "set =0.25",      "set other=1",  "set lr=",        "set lr=nan",    "set lr=inf",  "set lr=-inf",
        "set lr=1e999",  "set lr=0x1",     "set lr=0.25x", "set lr=0,25",    "set lr=1.0001", "set lr=-0.1", "set lr=true",
        "set lr=[0.25]", "set lr=0.1 0.2", "setlr=0.25",   "set lr=\"0.25\""};
    stage *s = *state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s\n", lines[i]);
        test_env_clear_log(&s->t);
        assert_true(after(s, text) == 0.5);
        assert_contains(s->t.log, lines[i]);
        assert_int_equal(refusals(s), 1);
        assert_false(s->outcome.interrupted);
    }
}

static void the_other_lines_are_executed(void **state)
{
    stage *s = *state;
    assert_true(after(s, "nonsense\nset lr=7\n\nset lr=0.25\nset x=1\n") == 0.25);
    assert_int_equal(refusals(s), 3);
}

/* "set lr=0.0" may be the beginning of "set lr=0.001". */
static void a_line_without_a_newline_is_refused(void **state)
{
    stage *s = *state;
    assert_true(after(s, "set lr=0.25\nset lr=0.0") == 0.25);
    assert_contains(s->t.log, "'set lr=0.0' ignored: the line does not end");
}

static void a_zero_byte_is_refused(void **state)
{
    stage *s = *state;
    double lr = 0.5;
    open_control(s, &lr);
    put_bytes(s, "stop\0\nset lr=0.25\0x\nset lr=0.75\n", 32);
    look(s);
    assert_false(stops(s));
    assert_true(lr == 0.75);
    assert_contains(s->t.log, "'stop' ignored: the line contains a zero byte");
    assert_int_equal(refusals(s), 2);
}

static void unprintable_bytes_are_escaped_in_the_log(void **state)
{
    stage *s = *state;
    after(s, "\x1b[2J\xff'\\%s%n\a\n");
    assert_contains(s->t.log, "control: '\\x1b[2J\\xff'\\%s%n\\x07' ignored");
}

static void a_long_line_is_skipped(void **state)
{
    stage *s = *state;
    char text[3000];
    memset(text, 's', sizeof text);
    memcpy(text + sizeof text - 13, "\nset lr=0.25\n", 14 - 1);
    double lr = 0.5;
    open_control(s, &lr);
    put_bytes(s, text, sizeof text);
    look(s);
    assert_true(lr == 0.25);
    assert_contains(s->t.log, "sss...' ignored: the line is too long");
    assert_int_equal(refusals(s), 1);
}

static void an_endless_line_is_refused(void **state)
{
    stage *s = *state;
    double lr = 0.5;
    char *text = malloc(65536);
    assert_non_null(text);
    memset(text, 'x', 65536);
    open_control(s, &lr);
    put_bytes(s, text, 65536);
    free(text);
    look(s);
    assert_int_equal(refusals(s), 1);
    assert_int_equal(test_count_files(s->directory, "control"), 0);
}

/* Files that must not be read. */

/* The file is refused with one log line for many polls, is not removed, and has no effect. */
static void is_refused(stage *s, const char *why)
{
    struct stat found;
    double lr = 0.5;
    open_control(s, &lr);
    for (int i = 0; i < 3; i++)
        look(s);
    assert_false(stops(s));
    assert_int_equal(refusals(s), 1);
    assert_contains(s->t.log, "control is not read: ");
    assert_contains(s->t.log, why);
    assert_int_equal(lstat(path_of(s), &found), 0);
}

static void a_symbolic_link_is_refused(void **state)
{
    stage *s = *state;
    test_write_file(test_path(s->directory, "other"), "stop\n", 5);
    chmod(test_path(s->directory, "other"), 0600);
    assert_int_equal(symlink("other", path_of(s)), 0);
    is_refused(s, "symbolic link");
    assert_true(test_exists(s->directory, "other"));
}

static void a_dangling_link_is_refused(void **state)
{
    stage *s = *state;
    assert_int_equal(symlink("nowhere", path_of(s)), 0);
    is_refused(s, "symbolic link");
}

static void a_directory(void **state)
{
    assert_int_equal(mkdir(path_of(*state), 0700), 0);
    is_refused(*state, "it is not a regular file");
}

/* Opening it would block until a process writes to it. */
static void a_fifo_is_refused(void **state)
{
    assert_int_equal(mkfifo(path_of(*state), 0600), 0);
    is_refused(*state, "it is not a regular file");
}

static void a_device_is_refused(void **state)
{
    if (mknod(path_of(*state), S_IFCHR | 0600, (dev_t)(1 << 8 | 5)) != 0) /* endless zeros */
        test_skip("mknod is not allowed here");
    is_refused(*state, "it is not a regular file");
}

static void a_file_of_another_user_is_refused(void **state)
{
    put(*state, "stop\n");
    if (chown(path_of(*state), 12345, (gid_t)-1) != 0)
        test_skip("chown is not allowed here");
    is_refused(*state, "belongs to another user");
}

static void a_file_that_others_may_write_is_refused(void **state)
{
    put(*state, "stop\n");
    chmod(path_of(*state), 0602);
    is_refused(*state, "other users may write to it (run chmod go-w)");
}

static void a_file_that_the_group_may_write_is_refused(void **state)
{
    put(*state, "stop\n");
    chmod(path_of(*state), 0660);
    is_refused(*state, "other users may write to it (run chmod go-w)");
}

static void a_huge_file_is_refused(void **state)
{
    put(*state, "stop\n");
    assert_int_equal(truncate(path_of(*state), (off_t)1 << 40), 0);
    is_refused(*state, "it is larger than 64 KiB");
}

static void a_file_that_cannot_be_renamed_is_refused(void **state)
{
    stage *s = *state;
    mkdir(test_path(s->directory, "control.taken"), 0700);
    put(s, "stop\n");
    is_refused(s, "it cannot be renamed");
}

static void a_file_is_read_after_a_change_of_its_mode(void **state)
{
    stage *s = *state;
    put(s, "stop\n");
    chmod(path_of(s), 0666);
    is_refused(s, "other users may write to it (run chmod go-w)");
    chmod(path_of(s), 0644);
    look(s);
    assert_true(stops(s));
}

static void another_file_is_refused_again(void **state)
{
    stage *s = *state;
    is_refused((symlink("nowhere", path_of(s)), s), "symbolic link");
    unlink(path_of(s));
    mkdir(path_of(s), 0700);
    look(s);
    look(s);
    assert_int_equal(refusals(s), 2);
}

static void an_empty_file_is_not_read_yet(void **state)
{
    stage *s = *state;
    double lr = 0.5;
    open_control(s, &lr);
    put(s, "");
    look(s);
    assert_true(test_exists(s->directory, "control"));
    put(s, "set lr=0.25\n");
    look(s);
    assert_true(lr == 0.25);
}

/* Creates one order file after the other, each as soon as the previous one was read. */
static void give_orders(const stage *s, int n)
{
    for (int i = 1; i <= n; i++) {
        char text[32];
        int length = snprintf(text, sizeof text, "set lr=%d\n", i);
        test_write_file(test_path(s->directory, "order"), text, (size_t)length);
        chmod(test_path(s->directory, "order"), 0600);
        while (access(path_of(s), F_OK) == 0)
            sched_yield();
        if (rename(test_path(s->directory, "order"), path_of(s)) != 0)
            _exit(1);
    }
    _exit(0);
}

static hs_code count_up(void *user, hs_knob_value value, hs_error *err)
{
    int *last = user;
    if (value.number != *last + 1)
        return hs_error_set(err, HS_INTERNAL, "%g follows %d", value.number, *last);
    (*last)++;
    return HS_OK;
}

static void orders_of_another_process_are_each_read_once(void **state)
{
    enum { ORDERS = 200 };
    stage *s = *state;
    int last = 0, status = 0;
    bool ended = false;
    const hs_knob knob = {.name = "lr", .set = count_up, .user = &last};
    stage_open(s, hs_control(.path = path_of(s), .knobs = HS_KNOBS(knob)));
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        give_orders(s, ORDERS);
    while (!ended || test_exists(s->directory, "control")) {
        look(s);
        ended = ended || waitpid(child, &status, WNOHANG) == child;
    }
    assert_int_equal(status, 0);
    assert_int_equal(last, ORDERS);
    assert_int_equal(refusals(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(invalid_options_are_refused),
        with_stage(it_stops),
        with_stage(it_requests_a_save),
        with_stage(it_sets_a_knob),
        with_stage(it_polls_once_a_second),
        with_stage(lines_that_are_not_orders_are_refused),
        with_stage(the_other_lines_are_executed),
        with_stage(a_line_without_a_newline_is_refused),
        with_stage(a_zero_byte_is_refused),
        with_stage(unprintable_bytes_are_escaped_in_the_log),
        with_stage(a_long_line_is_skipped),
        with_stage(an_endless_line_is_refused),
        with_stage(a_symbolic_link_is_refused),
        with_stage(a_dangling_link_is_refused),
        with_stage(a_directory),
        with_stage(a_fifo_is_refused),
        with_stage(a_device_is_refused),
        with_stage(a_file_of_another_user_is_refused),
        with_stage(a_file_that_others_may_write_is_refused),
        with_stage(a_file_that_the_group_may_write_is_refused),
        with_stage(a_huge_file_is_refused),
        with_stage(a_file_that_cannot_be_renamed_is_refused),
        with_stage(a_file_is_read_after_a_change_of_its_mode),
        with_stage(another_file_is_refused_again),
        with_stage(an_empty_file_is_not_read_yet),
        with_stage(orders_of_another_process_are_each_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
