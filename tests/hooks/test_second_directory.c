/* SPDX-License-Identifier: Apache-2.0 */
/* A session that saves in two directories, each with its own saver. It returns to a checkpoint of the first one. Then the
 * later checkpoints of the second one are of an abandoned branch, too. */
#include "hooks/poisoned.h"

/* Steps 10, 20, ... are saved in "first", and steps 4, 8, ... in "second". */
typedef struct {
    poisoned *p;
    char first[512], second[512];
    hs_saver *savers[2]; /* keep all */
    int64_t lost_at;     /* the session is lost at this step, once */
} directories;

static hs_code lose(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    directories *d = self;
    (void)values;
    if (hs_run_context_global_step(run, err) != d->lost_at)
        return HS_OK;
    d->lost_at = 0;
    return hs_error_set(err, HS_ABORTED, "lost");
}

static void open_two(directories *d, poisoned *p)
{
    static const hs_hook_ops losing = HS_INIT(hs_hook_ops, .name = "loser", .after_run = lose);
    const hs_recovery recovery = HS_INIT(hs_recovery);
    d->p = p;
    snprintf(d->first, sizeof d->first, "%s/first", p->s->directory);
    snprintf(d->second, sizeof d->second, "%s/second", p->s->directory);
    for (int i = 0; i < 2; i++)
        d->savers[i] = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->s->t.env, .max_to_keep = HS_NEVER), &p->s->err);
    hs_hook hooks[] = {
        hs_checkpoint_saver(.checkpoint_dir = d->first, .when = HS_EVERY_STEPS(10), .saver = d->savers[0]),
        hs_checkpoint_saver(.checkpoint_dir = d->second, .when = HS_EVERY_STEPS(4), .saver = d->savers[1]),
        hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_ROLLBACK, .skip_op = "draw",
                        .saver = d->savers[0]),
        {.ops = &losing, .self = d},
    };
    p->s->session = hs_session_open(
        hs_graph_backend(p->graph),
        HS_SESSION_OPTIONS(.checkpoint_dir = d->first, .recovery = &recovery, .hooks = test_hooks(hooks, 4)), &p->s->err);
    assert_ok(p->s->err.code, &p->s->err);
}

/* In one of the two, in addition to the hook's saves. */
static void save(directories *d, int in, int64_t step)
{
    stage *s = d->p->s;
    const char *prefix = test_path(in ? d->second : d->first, "model.ckpt");
    assert_ok(hs_saver_save(d->savers[in], hs_session_raw(s->session), prefix, step, NULL, &s->err), &s->err);
    if (in == 0) /* a rollback returns there */
        hs_raw_session_record_save(hs_session_raw(s->session), step);
}

static void is_at(const directories *d, int64_t step, double weight)
{
    assert_int_equal(hs_session_global_step(d->p->s->session, NULL), step);
    assert_true((double)d->p->weight == weight);
}

/* Ends the session without a further save. A restart from the second directory must get this step. */
static void restart_gets(directories *d, int64_t step, double weight)
{
    poisoned *p = d->p;
    hs_session_fail(p->s->session, test_error(HS_INTERNAL, "as if killed"));
    hs_session_close(p->s->session, NULL);
    for (int i = 0; i < 2; i++)
        hs_saver_free(d->savers[i]);
    p->weight = 0;
    p->s->session =
        hs_session_open(hs_graph_backend(p->graph), HS_SESSION_OPTIONS(.checkpoint_dir = d->second), &p->s->err);
    assert_ok(p->s->err.code, &p->s->err);
    is_at(d, step, weight);
    stage_close(p->s);
}

static double sum(int from, int to)
{
    double sum = 0;
    for (int i = from; i <= to; i++)
        sum += i;
    return sum;
}

static void after_a_rollback_a_restart_from_the_second_directory_gets_the_new_branch(void **state)
{
    poisoned *p = *state;
    directories d = {.p = p};
    p->bad[0] = 19;
    open_two(&d, p);
    assert_ok(poisoned_run(p, "train", 19), &p->s->err);
    is_at(&d, 10, sum(1, 10));
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(&d, 12, sum(1, 10) + 20 + 21);
    restart_gets(&d, 12, sum(1, 10) + 20 + 21);
}

/* The second directory has not saved between them. Its step 11 is of the branch that the first one has left. */
static void the_earliest_of_two_rollbacks_counts(void **state)
{
    poisoned *p = *state;
    directories d = {.p = p};
    p->bad[0] = 13;
    p->bad[1] = 15;
    open_two(&d, p);
    assert_ok(poisoned_run(p, "train", 11), &p->s->err);
    save(&d, 1, 11);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(&d, 10, sum(1, 10));
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    save(&d, 0, 11);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    is_at(&d, 11, sum(1, 10) + 14);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    assert_false(test_exists(d.second, "model.ckpt-11.index"));
    restart_gets(&d, 12, sum(1, 10) + 14 + 16);
}

static void after_a_recovery_a_restart_from_the_second_directory_gets_the_new_branch(void **state)
{
    poisoned *p = *state;
    directories d = {.p = p};
    open_two(&d, p);
    d.lost_at = 19;
    assert_ok(poisoned_run(p, "train", 11), &p->s->err);
    save(&d, 1, 11);
    assert_ok(poisoned_run(p, "train", 7), &p->s->err);
    p->rate = 2;                                        /* the checkpoint has 1 */
    assert_ok(poisoned_run(p, "train", 1), &p->s->err); /* is repeated after the recovery, as step 11 */
    is_at(&d, 11, sum(1, 11));
    p->rate = 3;
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    is_at(&d, 12, sum(1, 11) + 3 * 12);
    assert_false(test_exists(d.second, "model.ckpt-11.index"));
    restart_gets(&d, 12, sum(1, 11) + 3 * 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_poisoned(after_a_rollback_a_restart_from_the_second_directory_gets_the_new_branch),
        with_poisoned(the_earliest_of_two_rollbacks_counts),
        with_poisoned(after_a_recovery_a_restart_from_the_second_directory_gets_the_new_branch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
