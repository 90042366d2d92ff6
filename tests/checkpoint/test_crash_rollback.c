/* SPDX-License-Identifier: Apache-2.0 */
/* Power cuts while a branch is abandoned: an old checkpoint was restored, and training saves again from there. */
#include "checkpoint/machine.h"

static const int before[] = {1, 2, 3, 4, 0};
enum { FIRST = 1 }; /* the content of the first */

static void save_history(machine *c)
{
    machine_init(c, "abandoning a branch");
    c->keep = 5;
    machine_save_all(c, before);
    machine_end(c);
}

/* A new process restores 1 and saves 2 again. */
static hs_code go_back(machine *c)
{
    machine_start(c);
    c->quiet = false;
    hs_code code = hs_saver_restore(c->saver, model_raw(&c->m), "/run/model.ckpt-1", NULL, &c->err);
    return code ? code : machine_save_as(c, 2);
}

static void check_whole(machine *c, const char *prefix)
{
    char files[64];
    snprintf(files, sizeof files, "%s.", strrchr(prefix, '/'));
    if (hs_saver_restore(c->saver, model_raw(&c->m), prefix, NULL, &c->err) ||
        disk_count_files(&c->disk, "/run", files) != 3)
        machine_fail(c, "an abandoned checkpoint is incomplete");
}

/* Each index has its data, except that of a checkpoint whose renames are incomplete. */
static void check_indexes(const machine *c)
{
    for (size_t i = 0; i < c->disk.cached.n; i++) {
        char name[DISK_PATH];
        strcpy(name, strrchr(c->disk.cached.items[i].path, '/'));
        char *ending = strstr(name, ".index");
        if (!ending || ending[6] || strstr(name, ".abandoned"))
            continue;
        strcpy(ending, ".data-0");
        if (!disk_count_files(&c->disk, "/run", name))
            machine_fail(c, "an index has no data");
    }
}

/* A restart finds the latest checkpoint of the abandoned branch, the new checkpoint, or the restored checkpoint. Later
 * saves do not change the abandoned checkpoints. */
static void check_histories(machine *c, int64_t end)
{
    check_indexes(c);
    machine_start(c);
    c->quiet = false;
    c->sure = 0;
    machine_restore(c);
    int64_t content = c->at ? c->saves[c->at - 1].content : 0;
    if (content != FIRST && content != end && content != end + 1)
        machine_fail(c, "another one is found");
    machine_end(c);
    assert_ok(go_back(c), &c->err);
    check_whole(c, "/run/model.ckpt-3.abandoned");
    check_whole(c, "/run/model.ckpt-4.abandoned");
}

/* Cuts it at each change. */
static void cut_going_back(const machine *start)
{
    machine left, c;
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        machine_copy(&left, start);
        left.story_at[0] = at;
        left.disk.cut_at = left.disk.changes + at;
        go_back(&left);
        cut = left.disk.off;
        left.disk.off = true;
        machine_end(&left);
        for (size_t n = 0; n <= MACHINE_LOSSES; n++) {
            machine_copy(&c, &left);
            if (n < MACHINE_LOSSES)
                machine_lose_power(&c, machine_loss(n + at * MACHINE_LOSSES));
            else
                machine_lose_process(&c);
            check_histories(&c, start->contents);
            machine_free(&c);
        }
        machine_free(&left);
    }
}

static void a_power_cut_while_a_history_is_left(void **state)
{
    (void)state;
    machine c;
    save_history(&c);
    cut_going_back(&c);
    machine_free(&c);
}

/* Checkpoints that were abandoned before have the same names. */
static void a_power_cut_while_another_history_is_left(void **state)
{
    (void)state;
    machine c;
    save_history(&c);
    assert_ok(go_back(&c), &c.err);
    for (int name = 3; name <= 4; name++)
        assert_ok(machine_save_as(&c, name), &c.err);
    machine_end(&c);
    cut_going_back(&c);
    machine_free(&c);
}

static void a_failure_while_a_history_is_left(void **state)
{
    (void)state;
    machine start, c;
    save_history(&start);
    bool failed = true;
    for (size_t at = 1; failed; at++) {
        machine_copy(&c, &start);
        c.story_at[0] = at;
        c.disk.fail_at = c.disk.calls + at;
        hs_code code = go_back(&c);
        failed = c.disk.failed;
        c.disk.fail_at = 0;
        if (code && machine_save_as(&c, 2))
            machine_fail(&c, "it fails for no reason any more");
        for (int name = 3; name <= 4; name++)
            if (machine_save_as(&c, name))
                machine_fail(&c, "it fails for no reason any more");
        machine_end(&c);
        machine_start(&c);
        machine_resume(&c);
        check_whole(&c, "/run/model.ckpt-3.abandoned");
        check_whole(&c, "/run/model.ckpt-4.abandoned");
        machine_free(&c);
    }
    machine_free(&start);
}

/* Starts without restoring in a directory with checkpoints, and saves a step that was saved and deleted before. */
static void start_again(machine *c)
{
    machine_start(c);
    machine_save_as(c, 1);
}

/* Holding the directory again does not delete the restored checkpoint. */
static void check_it_stays(machine *c)
{
    machine_start(c);
    c->quiet = false;
    machine_restore(c);
    int64_t content = c->m.step;
    if (hs_saver_hold(c->saver, NULL, "/run/model.ckpt", &c->err))
        machine_fail(c, "it cannot be held");
    machine_end(c);
    machine_start(c);
    if (!machine_restore(c) || content != c->m.step)
        machine_fail(c, "the restored checkpoint was deleted");
    machine_end(c);
}

static void a_power_cut_while_starting_again(void **state)
{
    (void)state;
    static const int some[] = {1, 2, 3, 0};
    machine start, left, c;
    machine_init(&start, "starting again");
    machine_save_all(&start, some);
    machine_end(&start);
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        machine_copy(&left, &start);
        left.story_at[0] = at;
        left.disk.cut_at = left.disk.changes + at;
        start_again(&left);
        cut = left.disk.off;
        left.disk.off = true;
        machine_end(&left);
        for (size_t n = 0; n < MACHINE_LOSSES; n++) {
            machine_copy(&c, &left);
            machine_lose_power(&c, machine_loss(n + at * MACHINE_LOSSES));
            check_it_stays(&c);
            machine_free(&c);
        }
        machine_free(&left);
    }
    machine_free(&start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_while_a_history_is_left),
        cmocka_unit_test(a_power_cut_while_another_history_is_left),
        cmocka_unit_test(a_power_cut_while_starting_again),
        cmocka_unit_test(a_failure_while_a_history_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
