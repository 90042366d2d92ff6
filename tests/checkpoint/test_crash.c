/* SPDX-License-Identifier: Apache-2.0 */
/* The power goes, or the process dies, at every instant of saving, and at every instant of going on afterwards. */
#include "checkpoint/machine.h"

/* A first one, a second one, another one over it, and a third one, for which the first one goes. */
static const int names[] = {1, 2, 2, 3, 0};

/* Far fewer instants would mean that not much was tried. */
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
        machine_cut_going_on(&left, at);
        machine_free(&left);
    }
}

/* The process dies first, with what it had not synced still to be seen: what goes on from it must not rely on it. */
static void a_power_cut_while_going_on_after_a_death(void **state)
{
    (void)state;
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at += HOOKSESS_TEST_SHARE) {
        cut = machine_cut_saving(&left, names, at, (machine_kind){.shards = 1});
        machine_lose_process(&left);
        machine_cut_going_on(&left, 11 * at);
        machine_free(&left);
    }
}

/* Without steps it is only the state file that tells which is the newest. */
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
    machine_live((machine_kind){.shards = 1}, 1500);
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
