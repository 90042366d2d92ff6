/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in hooks that write files and log lines, listed on all ranks of a group. */
#include "replicas/hooked.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

enum { SEEDS = 4 };

static bool every_rank;

/* The number of event files in a directory. */
static int count_files(const hooked *h, const char *name, const char *part)
{
    DIR *directory = opendir(hooked_path(h, name));
    int n = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        n += strstr(entry->d_name, part) != NULL;
    if (directory)
        closedir(directory);
    return n;
}

static char *read_file(const hooked *h, const char *name)
{
    size_t bytes;
    return test_read_file(hooked_path(h, name), &bytes);
}

static void add_metrics_file(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    hooks[0] = hs_metrics_file(.path = hooked_path(rank->of, "rows.csv"), .tensors = HS_NAMES("loss"), .every_n_steps = 1,
                               .no_wall_time = true, .every_rank = every_rank);
}

static void check_rows(const hooked *h, const char *name, int32_t rank, int64_t steps)
{
    char line[64];
    char *rows = read_file(h, name);
    assert_int_equal(hooked_count(rows, "\n"), steps + 1);
    for (int64_t step = 1; step <= steps; step++) {
        snprintf(line, sizeof line, "\n%lld,%d", (long long)step, (int)(100 * rank) + (step == 1));
        assert_contains(rows, line);
    }
    free(rows);
}

static void rank_0_writes_the_metrics_file(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_metrics_file;
    every_rank = false;
    for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
        test_empty_directory(h->directory);
        assert_int_equal(hooked_run(h)->reason, HS_REASON_STOPPED);
        check_rows(h, "rows.csv", 0, h->steps);
        assert_false(hooked_exists(h, "rows.csv.rank-00001"));
    }
}

/* Also if another number of ranks has saved the checkpoint: the files have each row once. */
static void each_rank_writes_a_metrics_file(void **state)
{
    static const int32_t counts[] = {4, 4, 2};
    hooked *h = *state;
    h->add_hooks = add_metrics_file;
    every_rank = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        h->rank_count = counts[i];
        h->steps = 6 * (int64_t)(i + 1);
        assert_int_equal(hooked_run(h)->step, h->steps);
        check_rows(h, "rows.csv", 0, h->steps);
        check_rows(h, "rows.csv.rank-00001", 1, h->steps);
        check_rows(h, "rows.csv.rank-00003", 3, h->steps < 12 ? h->steps : 12);
        assert_false(hooked_exists(h, "rows.csv.rank-00000"));
    }
}

static void add_event_writers(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    char path[3][512];
    static const char *const names[] = {"scalars", "counter", "traces"};
    (void)chief;
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s", hooked_path(rank->of, names[i]));
    hooks[0] =
        hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .summary_dir = path[0], .every_rank = every_rank);
    hooks[1] = hs_step_counter(.every_n_steps = 2, .summary_dir = path[1]);
    hooks[2] = hs_profiler(.every_n_steps = 4, .trace_dir = path[2], .every_rank = every_rank);
    hooks[3] = hs_run_status(.status_dir = rank->of->directory);
}

/* `there`: the hooks with every_rank have written. The step counter writes on rank 0 only. */
static void check_events(hooked *h, const char *ending, bool there)
{
    static const char *const names[] = {"scalars", "counter", "traces"};
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", names[i], ending);
        assert_int_equal(count_files(h, name, "tfevents"), there && !(*ending && i == 1));
        if (i == 2)
            assert_int_equal(count_files(h, name, "timeline") > 0, there);
    }
}

static void rank_0_writes_events_traces_and_the_status(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_event_writers;
    for (int all = 0; all < 2; all++)
        for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
            every_rank = all;
            test_empty_directory(h->directory);
            hooked_run(h);
            check_events(h, "", true);
            check_events(h, ".rank-00001", all);
            check_events(h, ".rank-00003", all);
            assert_true(hooked_exists(h, "outcome.json"));
            for (int32_t i = 1; i < h->rank_count; i++)
                assert_lacks(h->ranks[i].log, "cannot write");
        }
}

static void add_session_scalars(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)rank, (void)chief;
    hooks[0] = hs_scalars(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .every_rank = true);
}

static void the_directory_of_the_session_gets_the_rank_as_well(void **state)
{
    hooked *h = *state;
    char other[600];
    h->add_hooks = add_session_scalars;
    hooked_run(h);
    assert_int_equal(count_files(h, "", "tfevents"), 1);
    snprintf(other, sizeof other, "%s.rank-00002", h->directory);
    DIR *directory = opendir(other);
    assert_non_null(directory);
    closedir(directory);
    for (int i = 1; i < h->rank_count; i++) {
        snprintf(other, sizeof other, "%s.rank-%05d", h->directory, i);
        test_remove_directory(strdup(other));
    }
}

static void add_logs(hooked_rank *rank, hs_hook *hooks, hs_hook *chief)
{
    (void)chief;
    hooks[0] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 2, .every_rank = every_rank);
    hooks[1] = hs_progress(.every_n_steps = 2, .descriptor = open(hooked_path(rank->of, "progress"),
                                                                  O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
}

static void rank_0_logs_tensors_and_shows_progress(void **state)
{
    hooked *h = *state;
    h->add_hooks = add_logs;
    for (int all = 0; all < 2; all++)
        for (h->seed = 1; h->seed <= SEEDS; h->seed++) {
            every_rank = all;
            test_empty_directory(h->directory);
            hooked_run(h);
            char *progress = read_file(h, "progress");
            assert_int_equal(hooked_count(progress, "\n"), h->steps / 2 + 1);
            free(progress);
            assert_int_equal(hooked_count(h->ranks[0].log, ": loss = "), h->steps / 2);
            assert_contains(h->ranks[0].log, "step 1: loss = 1\n");
            for (int32_t i = 1; i < h->rank_count; i++)
                assert_int_equal(hooked_count(h->ranks[i].log, ": loss = "), all ? h->steps / 2 : 0);
            if (all)
                assert_contains(h->ranks[2].log, "step 3, rank 2: loss = 200.333333");
        }
}

#define ranked(test) cmocka_unit_test_setup_teardown(test, hooked_setup, hooked_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ranked(rank_0_writes_the_metrics_file),
        ranked(each_rank_writes_a_metrics_file),
        ranked(rank_0_writes_events_traces_and_the_status),
        ranked(the_directory_of_the_session_gets_the_rank_as_well),
        ranked(rank_0_logs_tensors_and_shows_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
