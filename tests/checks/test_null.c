/* SPDX-License-Identifier: Apache-2.0 */
/* Every function whose name ends in _free or _close accepts NULL, or a struct of zeros if it takes a struct by value.
 * tests/checks/api.py compares the list with the headers. */
#include "support/test.h"

#include <hooksess/testing.h>
#include <hooksess/tf1/session_manager.h>
#include <hooksess/tf1/supervisor.h>
#include <hooksess/tf1/timer.h>

static void every_free_accepts_null(void **state)
{
    (void)state;
    hs_checkpoint_manager_free(NULL);
    hs_coordinator_free(NULL);
    hs_env_free(NULL, NULL);
    hs_estimator_free(NULL);
    hs_evaluation_result_free(NULL);
    hs_hooks_free(NULL);
    hs_graph_free(NULL);
    hs_group_tcp_free(NULL);
    hs_hook_free((hs_hook){0});
    hs_host_copy_free(NULL);
    hs_queue_runner_free(NULL);
    hs_record_reader_free(NULL);
    hs_record_writer_free(NULL);
    hs_saver_free(NULL);
    hs_scaffold_free(NULL);
    hs_script_free(NULL);
    hs_session_manager_free(NULL);
    hs_simulation_free(NULL);
    hs_state_copy_free(NULL);
    hs_summary_free(NULL);
    hs_supervisor_free(NULL);
    hs_test_system_free(NULL);
    hs_thread_free(NULL);
    hs_threads_free(NULL);
    hs_timer_free(NULL);
}

static void every_close_accepts_null(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_checkpoint_close(NULL);
    hs_event_reader_close(NULL);
    hs_record_reader_close(NULL);
    assert_ok(hs_record_writer_close(NULL, &err), &err);
    assert_ok(hs_summary_writer_close(NULL, &err), &err);
    assert_int_equal(hs_session_close(NULL, &err).error.code, HS_FAILED_PRECONDITION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_free_accepts_null),
        cmocka_unit_test(every_close_accepts_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
