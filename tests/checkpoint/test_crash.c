/* SPDX-License-Identifier: Apache-2.0 */
/* The power goes, or the process dies, at every instant of saving, and at every instant of going on afterwards. */
#include "checkpoint/machine.h"

/* A first one, a second one, another one over it, and a third one, for which the first one goes. */
static const int names[] = {1, 2, 2, 3, 0};

/* Far fewer instants would mean that not much was tried. */
enum { LEAST_INSTANTS = 80 };

static void recover_from_each_loss(const machine *left)
{
    enum { SEEDS = 3 };
    machine c;
    for (size_t n = 0; n <= SEEDS * MACHINE_LOSSES; n++) {
        machine_copy(&c, left);
        if (n)
            machine_lose_power(&c, machine_loss(n));
        else
            machine_lose_process(&c);
        machine_recover(&c);
        machine_free(&c);
    }
}

static void a_power_cut_at_any_instant(void **state)
{
    (void)state;
    machine left;
    size_t at = 1;
    for (bool cut = true; cut; at++) {
        cut = machine_cut_saving(&left, names, at, true);
        recover_from_each_loss(&left);
        machine_free(&left);
    }
    assert_true(at > LEAST_INSTANTS);
}

/* Each time with another loss. */
static void cut_going_on_everywhere(const machine *left, size_t loss)
{
    machine c;
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        machine_copy(&c, left);
        c.story_at[1] = at;
        c.disk.cut_at = c.disk.changes + at;
        machine_start(&c);
        machine_go_on(&c);
        cut = c.disk.off;
        machine_lose_power(&c, machine_loss(loss + at));
        machine_recover(&c);
        machine_free(&c);
    }
}

static void a_power_cut_while_going_on_after_another(void **state)
{
    (void)state;
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        cut = machine_cut_saving(&left, names, at, false);
        machine_lose_power(&left, machine_loss(7 * at));
        cut_going_on_everywhere(&left, at);
        machine_free(&left);
    }
}

/* The process dies first, with what it had not synced still to be seen: what goes on from it must not rely on it. */
static void a_power_cut_while_going_on_after_a_death(void **state)
{
    (void)state;
    machine left;
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        cut = machine_cut_saving(&left, names, at, false);
        machine_lose_process(&left);
        cut_going_on_everywhere(&left, 11 * at);
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
    for (size_t at = 1; cut; at++) {
        cut = machine_cut_saving(&left, first_and_second, at, false);
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

/* A long life of mishaps, one after the other. */

static size_t below(uint64_t *random, size_t n)
{
    return (size_t)(disk_random(random) % n);
}

/* What is long past is not found any more. */
static void forget_the_past(machine *c)
{
    enum { REMEMBERED = 8 };
    if (c->begun <= REMEMBERED)
        return;
    size_t gone = c->begun - REMEMBERED;
    memmove(c->saves, c->saves + gone, REMEMBERED * sizeof *c->saves);
    c->begun -= gone;
    c->at -= gone;
    c->sure -= c->sure < gone ? c->sure : gone;
}

/* A process that goes on, over the same step at times, until something happens to it. */
static void live_on(machine *c, uint64_t *random)
{
    enum { INSTANTS = 120, CALLS = 200, SAVES = 4 };
    machine_start(c);
    if (below(random, 4))
        c->disk.cut_at = c->disk.changes + 1 + below(random, INSTANTS);
    if (below(random, 3) == 0) {
        c->disk.fail_at = c->disk.calls + 1 + below(random, CALLS);
        c->disk.fail_until = c->disk.fail_at + below(random, 5);
        c->disk.fail_late = below(random, 2);
    }
    if (!machine_restore(c))
        return;
    forget_the_past(c);
    for (size_t i = 0; i < SAVES && !c->disk.off; i++) {
        int64_t name = c->begun ? c->saves[c->begun - 1].name + (int64_t)below(random, 3) : 1;
        machine_save_as(c, name);
    }
}

static void one_mishap_after_another(void **state)
{
    (void)state;
    enum { LIVES = 1500 };
    machine c;
    uint64_t random = 1;
    machine_init(&c, "life");
    c.quiet = false;
    for (size_t life = 1; life <= LIVES; life++) {
        c.story_at[0] = life;
        live_on(&c, &random);
        if (below(&random, 4) == 0)
            machine_lose_process(&c);
        else
            machine_lose_power(&c, machine_loss(below(&random, 1000 * MACHINE_LOSSES)));
    }
    assert_true(c.contents > LIVES);
    machine_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_at_any_instant),
        cmocka_unit_test(a_power_cut_where_names_have_no_steps),
        cmocka_unit_test(a_power_cut_while_going_on_after_another),
        cmocka_unit_test(a_power_cut_while_going_on_after_a_death),
        cmocka_unit_test(one_mishap_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
