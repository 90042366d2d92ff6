/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a checkpoint that has a state of every built-in hook that saves one.
 *
 *   cc write.c -o write $(pkg-config --cflags --libs hooksess hooksess_testing) -lm && ./write DIRECTORY
 *
 * Commit d10ea769 wrote the files in this folder in this way, in which hooks still counted their own steps and saved
 * their own positions. Do not write them again: they stand for the checkpoints of that time. */
#include "every_hook.h"

#include <hooksess/testing.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { LAST = 6 };

static void check(bool fine, const hs_error *err)
{
    if (fine)
        return;
    fprintf(stderr, "%s: %s\n", hs_code_name(err->code), err->message);
    exit(1);
}

/* Lets the thread of the hook watchdog look. */
static void wait_for_watchdog(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

/* The watchdog learns how long the first run takes. */
static void advance(void *user, double secs)
{
    static bool waited;
    for (int i = 0; i < 10; i++) {
        hs_test_system_advance(user, secs / 10);
        if (!waited)
            wait_for_watchdog();
    }
    waited = true;
}

/* The hook control sets the knob after the first run. */
static void give_order(const char *directory)
{
    char path[512];
    umask(022);
    mkdir(directory, 0755);
    FILE *file = fopen(in(directory, "control", path), "w");
    fputs("set knob=0.25\n", file);
    fclose(file);
}

int main(int argc, char **argv)
{
    static trained t;
    hs_error err = {0};
    hs_hook hooks[MOST_HOOKS];
    char path[512];
    if (argc != 2)
        return 2;
    hs_test_system *system = hs_test_system_new();
    t = (trained){
        .nan_wild_in = 4, .floor_secs = 1, .descriptor = open("/dev/null", O_WRONLY), .advance = advance, .user = system};
    give_order(argv[1]);
    build(&t, hs_test_system_env(system));
    make_hooks(&t, argv[1], hooks);
    hs_session *session = hs_session_open(hs_graph_backend(t.graph), HS_SESSION_OPTIONS(.hooks = hooks), &err);
    check(session, &err);
    while (t.step < LAST) {
        check(!hs_session_run(session, "train", &err), &err);
        if (t.runs == 1)
            t.rate /= 2; /* the hook schedule keeps the factor */
    }
    check(!hs_raw_session_set_metric(hs_session_raw(session), "accuracy", 0.75, t.step, &err), &err);
    t.nan_gradient_in = t.runs + 1;
    check(!hs_session_run(session, "train", &err), &err); /* finite_guard skips the update */
    wait_for_watchdog();
    hs_saver *saver = hs_saver_new(NULL, &err);
    check(!hs_saver_save(saver, hs_session_raw(session), in(argv[1], "old.ckpt", path), t.step, NULL, &err), &err);
    printf("%s\nrows %lld, runs %lld\n", hs_test_system_log(system), (long long)t.rows, (long long)t.runs);
    hs_saver_free(saver);
    hs_session_close(session, NULL);
    hs_graph_free(t.graph);
    hs_test_system_free(system);
    return 0;
}
