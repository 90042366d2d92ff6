/* SPDX-License-Identifier: Apache-2.0 */
/* Power cuts and killed processes before each change of a save, and before each change of the restart after it. */
#include "checkpoint/machine.h"

/* Saves 1, 2, 2 again and 3, which deletes 1. */
static const int names[] = {1, 2, 2, 3, 0};

/* Fewer changes would mean that the test covers less than it should. */
enum { LEAST_INSTANTS = 80 };

static void a_power_cut_at_any_instant(void **state)
{
    (void)state;
    machine left;
    size_t at = 1;
    for (bool cut = true; cut; at += HOOKSESS_TEST_SHARE) {
        cut = machine_cut_saving(&left, names, at, (machine_kind){.large = true});
        machine_recover_from_each_loss(&left, 3);
        machine_free(&left);
    }
    assert_true(at > LEAST_INSTANTS);
}

static void a_power_cut_while_going_on_after_another(void **state)
{
    (void)state;
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at += HOOKSESS_TEST_SHARE) {
        cut = machine_cut_saving(&left, names, at, (machine_kind){.shards = 1});
        machine_lose_power(&left, machine_loss(7 * at));
        machine_cut_resuming(&left, at);
        machine_free(&left);
    }
}

/* The process is killed, and its unsynced names stay visible. A new process must not rely on them when the power is cut. */
static void a_power_cut_while_going_on_after_a_death(void **state)
{
    (void)state;
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at += HOOKSESS_TEST_SHARE) {
        cut = machine_cut_saving(&left, names, at, (machine_kind){.shards = 1});
        machine_lose_process(&left);
        machine_cut_resuming(&left, 11 * at);
        machine_free(&left);
    }
}

/* Without steps only the state file names the newest checkpoint. */
static void a_power_cut_where_names_have_no_steps(void **state)
{
    (void)state;
    static const int first_and_second[] = {-1, -2, -1, -2, 0};
    machine left, c;
    bool cut = true;
    for (size_t at = 1; cut; at += HOOKSESS_TEST_SHARE) {
        cut = machine_cut_saving(&left, first_and_second, at, (machine_kind){.shards = 1});
        for (size_t n = 0; n < MACHINE_LOSSES; n++) {
            machine_copy(&c, &left);
            machine_lose_power(&c, machine_loss(n));
            machine_start(&c);
            machine_restore(&c);
            machine_free(&c);
        }
        machine_free(&left);
    }
}

static void failures_in_sequence(void **state)
{
    (void)state;
    machine_survive((machine_kind){.shards = 1}, 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_at_any_instant),
        cmocka_unit_test(a_power_cut_where_names_have_no_steps),
        cmocka_unit_test(a_power_cut_while_going_on_after_another),
        cmocka_unit_test(a_power_cut_while_going_on_after_a_death),
        cmocka_unit_test(failures_in_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
