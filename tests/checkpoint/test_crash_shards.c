/* SPDX-License-Identifier: Apache-2.0 */
/* Power cuts and killed processes with several data files per checkpoint, whose number changes. */
#include "checkpoint/machine.h"

static const int names[] = {1, 2, 2, 3, 0};

static const machine_kind two = {.shards = 2}, changing = {.shards = 3, .changing = true};

static void cut_anywhere(machine_kind kind)
{
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at += HOOKSESS_TEST_SHARE) {
        cut = machine_cut_saving(&left, names, at, kind);
        machine_recover_from_each_loss(&left, 1);
        machine_free(&left);
    }
}

static void cut_again(machine_kind kind, bool dies)
{
    enum { STRIDE = 3 * HOOKSESS_TEST_SHARE };
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at += STRIDE) {
        cut = machine_cut_saving(&left, names, at, kind);
        if (dies)
            machine_lose_process(&left);
        else
            machine_lose_power(&left, machine_loss(7 * at));
        machine_cut_resuming(&left, at);
        machine_free(&left);
    }
}

static void a_power_cut_at_any_instant(void **state)
{
    (void)state;
    cut_anywhere(two);
}

static void a_power_cut_where_their_number_changes(void **state)
{
    (void)state;
    cut_anywhere(changing);
}

static void a_power_cut_while_going_on_after_another(void **state)
{
    (void)state;
    cut_again(changing, false);
}

static void a_power_cut_while_going_on_after_a_death(void **state)
{
    (void)state;
    cut_again(two, true);
}

static void failures_in_sequence(void **state)
{
    (void)state;
    machine_survive(two, 200);
    machine_survive(changing, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_at_any_instant),
        cmocka_unit_test(a_power_cut_where_their_number_changes),
        cmocka_unit_test(a_power_cut_while_going_on_after_another),
        cmocka_unit_test(a_power_cut_while_going_on_after_a_death),
        cmocka_unit_test(failures_in_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
