/* SPDX-License-Identifier: Apache-2.0 */
/* I/O errors at each call of saving and resuming, once or repeatedly, and a full disk at each byte. */
#include "checkpoint/machine.h"

static const int names[] = {1, 2, 2, 3, 4, 0};

/* Kinds of disk failures. */
typedef struct {
    hs_code code;
    size_t calls; /* that fail one after another */
    bool late;    /* renames that happen, and return an error */
} failure;

static const machine_kind one_file = {.shards = 1}, shards = {.shards = 3, .changing = true};
static const failure once = {.code = HS_UNKNOWN, .calls = 1};

/* The nth call from now on fails. */
static void let_fail(machine *c, failure how, size_t at)
{
    c->disk.fail_at = c->disk.calls + at;
    c->disk.fail_until = c->disk.fail_at + how.calls - 1;
    c->disk.fail_code = how.code;
    c->disk.fail_late = how.late;
    c->quiet = false;
}

/* Saves while the disk fails once. Only saves during the failure may fail. `stop`: nothing is saved after a failed save.
 * Returns false if the disk did not fail. */
static bool save_on_failing(machine *c, machine_kind kind, failure how, size_t at, bool stop)
{
    bool stopped = false;
    machine_init(c, "saving on a failing disk");
    c->kind = kind;
    machine_start(c);
    let_fail(c, how, at);
    c->story_at[0] = at;
    for (size_t i = 0; names[i] && !stopped; i++) {
        size_t failed = c->disk.failed;
        hs_code code = machine_save_as(c, names[i]);
        if (code && c->disk.failed == failed)
            machine_fail(c, "it fails for no reason any more");
        if (code && code != how.code)
            machine_fail(c, "another error than the disk's");
        stopped = code && stop;
    }
    c->disk.fail_at = c->disk.fail_until = 0;
    machine_end(c);
    return c->disk.failed;
}

/* Then the process ends, or the power is cut. */
static void fail_while_saving(machine_kind kind, failure how, bool stop)
{
    enum { ENDS = 5 };
    machine c, left;
    bool failed = true;
    for (size_t at = 1; failed; at += HOOKSESS_TEST_SHARE) {
        failed = save_on_failing(&left, kind, how, at, stop);
        for (size_t n = 0; n < ENDS; n++) {
            machine_copy(&c, &left);
            if (n == 0)
                machine_lose_process(&c);
            else
                machine_lose_power(&c, machine_loss(n == 1 ? 0 : n * at));
            machine_recover(&c);
            machine_free(&c);
        }
        machine_free(&left);
    }
}

static void a_failure_while_saving(void **state)
{
    (void)state;
    fail_while_saving(one_file, once, false);
    fail_while_saving(one_file, once, true);
}

static void a_failure_while_saving_shards(void **state)
{
    (void)state;
    fail_while_saving(shards, once, false);
    fail_while_saving(shards, once, true);
    fail_while_saving(shards, (failure){.code = HS_UNKNOWN, .calls = 1, .late = true}, false);
}

static void failures_one_after_another_while_saving(void **state)
{
    (void)state;
    fail_while_saving(one_file, (failure){.code = HS_RESOURCE_EXHAUSTED, .calls = 6}, false);
    fail_while_saving(one_file, (failure){.code = HS_RESOURCE_EXHAUSTED, .calls = 6}, true);
}

static void renames_that_are_done_and_said_to_have_failed(void **state)
{
    (void)state;
    fail_while_saving(one_file, (failure){.code = HS_UNKNOWN, .calls = 1, .late = true}, false);
    fail_while_saving(one_file, (failure){.code = HS_UNKNOWN, .calls = 1, .late = true}, true);
}

/* Data that could not be synced may be lost after the next saves have started. */

static bool fail_then_cut(machine_kind kind, size_t at, size_t later, disk_loss loss)
{
    static const int over_and_over[] = {1, 2, 2, 2, 3, 0};
    machine c;
    machine_init(&c, "a sync that failed, then a cut");
    c.kind = kind;
    machine_start(&c);
    c.disk.fail_what = "sync_directory";
    c.disk.calls = 0;
    let_fail(&c, once, at);
    c.story_at[0] = at;
    c.story_at[1] = later;
    for (size_t i = 0; over_and_over[i] && !c.disk.off; i++) {
        machine_save_as(&c, over_and_over[i]);
        if (c.disk.failed && !c.disk.cut_at)
            c.disk.cut_at = c.disk.changes + later;
    }
    bool cut = c.disk.off;
    machine_lose_power(&c, loss);
    machine_recover(&c);
    machine_free(&c);
    return cut;
}

static void cut_after_each_sync(machine_kind kind, uint64_t seeds)
{
    enum { SYNCS = 20, CHANGES = 24 };
    for (size_t at = 1; at <= SYNCS; at += HOOKSESS_TEST_SHARE)
        for (size_t later = 1; later <= CHANGES; later++)
            for (uint64_t seed = 0; seed < seeds; seed++)
                if (!fail_then_cut(
                        kind, at, later,
                        (disk_loss){DISK_LOSES_CONTENTS, seed % 2 ? DISK_LOSES_ONE_NAME : DISK_KEEPS_SOME_NAMES, seed}))
                    break;
}

static void a_power_cut_after_a_sync_of_names_that_failed(void **state)
{
    (void)state;
    cut_after_each_sync(one_file, 10);
}

static void a_power_cut_after_a_sync_of_the_names_of_shards_that_failed(void **state)
{
    (void)state;
    cut_after_each_sync(shards, 2);
    cut_after_each_sync((machine_kind){.shards = 2}, 2);
}

/* Resuming after a power cut, with each call failing. */

/* Checkpoints that the previous process was about to delete are deleted once per lock. If that fails, all or some of their
 * files stay. */
static void note_put_off(machine *c)
{
    static const char words[] = "to be deleted";
    const disk_file *state_file = disk_find(&c->disk, "/run/checkpoint");
    for (size_t i = 0; state_file && i + sizeof words <= state_file->cached.size; i++)
        c->put_off |= memcmp(state_file->cached.data + i, words, sizeof words - 1) == 0;
}

/* Tries again until it succeeds. Returns false if nothing failed. */
static bool go_on_on_failing(machine *c, size_t at)
{
    size_t before = c->disk.failed;
    note_put_off(c);
    machine_start(c);
    let_fail(c, once, at);
    c->story_at[1] = at;
    while (!machine_resume(c))
        if (c->disk.failed - before > once.calls)
            machine_fail(c, "it fails for no reason any more");
    c->disk.fail_at = c->disk.fail_until = 0;
    return c->disk.failed > before;
}

static void fail_going_on_everywhere(const machine *left)
{
    machine c;
    bool failed = true;
    for (size_t at = 1; failed; at++) {
        machine_copy(&c, left);
        failed = go_on_on_failing(&c, at);
        machine_lose_power(&c, machine_loss(0));
        machine_recover(&c);
        machine_free(&c);
    }
}

/* The restore returns an error, or restores the same checkpoint as without the failure. */
static void a_failure_while_going_on(void **state)
{
    (void)state;
    enum { STRIDE = 3 * HOOKSESS_TEST_SHARE };
    machine left;
    bool cut = true;
    for (size_t at = 2; cut; at += STRIDE) {
        cut = machine_cut_saving(&left, names, at, (machine_kind){.shards = 1});
        machine_lose_power(&left, machine_loss(7 * at));
        machine_start(&left);
        machine_restore(&left); /* the expected checkpoint */
        machine_end(&left);
        fail_going_on_everywhere(&left);
        machine_free(&left);
    }
}

/* Files that cannot be examined are not removed. */
static void where_nothing_can_be_looked_at_nothing_is_removed(void **state)
{
    (void)state;
    machine c;
    machine_init(&c, "looking at nothing");
    machine_save_all(&c, names);
    machine_end(&c);
    size_t files = disk_count_files(&c.disk, "/run", "");
    machine_start(&c);
    c.disk.fail_what = "stat";
    let_fail(&c, (failure){.code = HS_UNKNOWN, .calls = 1000}, 3); /* of the directory, once for each of the two */
    assert_ok(hs_saver_hold(c.saver, NULL, "/run/model.ckpt", &c.err), &c.err);
    assert_true(c.disk.failed > 2);
    assert_int_equal(disk_count_files(&c.disk, "/run", ""), files);
    machine_free(&c);
}

/* A disk that is full at every byte of a save. */

static void check_the_first_is_there(const machine *full)
{
    machine c;
    if (disk_count_files(&full->disk, "/run", "") != 2 + 3)
        machine_fail(full, "a save that failed left something");
    machine_copy(&c, full);
    machine_lose_power(&c, machine_loss(0));
    machine_recover(&c);
    machine_free(&c);
}

static void a_disk_that_is_full_at_any_byte(void **state)
{
    (void)state;
    machine c;
    machine_init(&c, "on a full disk");
    machine_start(&c);
    assert_ok(machine_save_as(&c, 1), &c.err);
    uint64_t room = disk_used(&c.disk);
    hs_code code = HS_RESOURCE_EXHAUSTED;
    for (size_t left = 0; code; left++) {
        c.story_at[0] = left;
        c.disk.room = room + left;
        if ((code = machine_save_as(&c, 2)) && code != HS_RESOURCE_EXHAUSTED)
            machine_fail(&c, "another error than that of the disk");
        if (code)
            c.begun--;
        if (code && !disk_exists(&c.disk, "/run/model.ckpt-2.index"))
            check_the_first_is_there(&c);
    }
    assert_true(c.story_at[0] > 500);
    machine_end(&c);
    machine_lose_process(&c);
    machine_recover(&c);
    machine_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_while_saving),
        cmocka_unit_test(a_failure_while_saving_shards),
        cmocka_unit_test(failures_one_after_another_while_saving),
        cmocka_unit_test(renames_that_are_done_and_said_to_have_failed),
        cmocka_unit_test(a_power_cut_after_a_sync_of_names_that_failed),
        cmocka_unit_test(a_power_cut_after_a_sync_of_the_names_of_shards_that_failed),
        cmocka_unit_test(a_failure_while_going_on),
        cmocka_unit_test(where_nothing_can_be_looked_at_nothing_is_removed),
        cmocka_unit_test(a_disk_that_is_full_at_any_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
