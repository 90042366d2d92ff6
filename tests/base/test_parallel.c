/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a job in several threads. */
#include "base/parallel.h"
#include "support/test.h"

#include <stdatomic.h>

enum { PARTS = 1000 };

typedef struct {
    atomic_int done[PARTS];
    size_t fails_at; /* from this part on */
    bool wordless;
} parts;

static hs_code do_part(void *user, size_t worker, size_t part, hs_error *err)
{
    parts *p = user;
    if (worker >= HS__MOST_WORKERS)
        return hs_error_set(err, HS_INTERNAL, "worker %zu", worker);
    atomic_fetch_add(&p->done[part], 1);
    if (part < p->fails_at)
        return HS_OK;
    return p->wordless ? HS_ABORTED : hs_error_set(err, HS_DATA_LOSS, "part %zu", part);
}

static void each_part_is_called_once(void **state)
{
    (void)state;
    hs_error err;
    for (size_t workers = 1; workers <= HS__MOST_WORKERS; workers++)
        for (size_t n = 0; n <= PARTS; n += PARTS / 4) {
            static parts p;
            memset(&p, 0, sizeof p);
            p.fails_at = PARTS;
            assert_ok(hs__in_parallel(workers, n, do_part, &p, &err), &err);
            for (size_t i = 0; i < PARTS; i++)
                assert_int_equal(atomic_load(&p.done[i]), i < n);
        }
}

/* Parts start in order, so that the first failing part is always called. */
static void the_error_is_that_of_the_first_failed_part(void **state)
{
    (void)state;
    for (size_t workers = 1; workers <= HS__MOST_WORKERS; workers++) {
        static parts p;
        hs_error err;
        memset(&p, 0, sizeof p);
        p.fails_at = 300;
        assert_fails(hs__in_parallel(workers, PARTS, do_part, &p, &err), HS_DATA_LOSS, &err, "part 300");
        int after = 0;
        for (size_t i = 300 + HS__MOST_WORKERS; i < PARTS; i++)
            after += atomic_load(&p.done[i]);
        assert_int_equal(after, 0);
    }
}

static void a_part_that_fails_without_a_message_fails(void **state)
{
    (void)state;
    static parts p;
    hs_error err = {0};
    p.wordless = true;
    assert_fails(hs__in_parallel(2, PARTS, do_part, &p, &err), HS_ABORTED, &err, "");
    assert_true(*err.message);
    assert_int_equal(hs__in_parallel(2, PARTS, do_part, &p, NULL), HS_ABORTED);
}

static void small_jobs_get_few_workers(void **state)
{
    (void)state;
    assert_int_equal(hs__workers_for(100, 1000), 1);
    assert_int_equal(hs__workers_for(0, UINT64_MAX), 1);
    assert_int_equal(hs__workers_for(1, UINT64_MAX), 1);
    assert_in_range(hs__workers_for(100, UINT64_MAX), 1, HS__MOST_WORKERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_called_once),
        cmocka_unit_test(the_error_is_that_of_the_first_failed_part),
        cmocka_unit_test(a_part_that_fails_without_a_message_fails),
        cmocka_unit_test(small_jobs_get_few_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
