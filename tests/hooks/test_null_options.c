/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that are made from NULL options. */
#include "hooks/stage.h"

#define HOOKS 16

static hs_hook of_null(size_t which)
{
    switch (which) {
    case 0:
        return hs_checkpoint_saver_hook(NULL);
    case 1:
        return hs_logging_tensor_hook(NULL);
    case 2:
        return hs_nan_tensor_hook(NULL);
    case 3:
        return hs_stop_at_step_hook(NULL);
    case 4:
        return hs_summary_saver_hook(NULL);
    case 5:
        return hs_evaluation_hook(NULL);
    case 6:
        return hs_progress_hook(NULL);
    case 7:
        return hs_metrics_file_hook(NULL);
    case 8:
        return hs_early_stopping_hook(NULL);
    case 9:
        return hs_stop_after_hook(NULL);
    case 10:
        return hs_run_status_hook(NULL);
    case 11:
        return hs_finite_guard_hook(NULL);
    case 12:
        return hs_watchdog_hook(NULL);
    case 13:
        return hs_scalars_hook(NULL);
    case 14:
        return hs_replica_check_hook(NULL);
    default:
        return hs_control_hook(NULL);
    }
}

static void begin_reports_it(void **state)
{
    static const char *const says[HOOKS] = {
        "hook 'checkpoint_saver', begin: hs_checkpoint_saver_options is NULL",
        "hook 'logging_tensor', begin: hs_logging_tensor_options is NULL",
        "hook 'nan_tensor', begin: hs_nan_tensor_options is NULL",
        "hook 'stop_at_step', begin: hs_stop_at_step_options is NULL",
        "hook 'summary_saver', begin: hs_summary_saver_options is NULL",
        "hook 'evaluation', begin: hs_evaluation_options is NULL",
        "hook 'progress', begin: hs_progress_options is NULL",
        "hook 'metrics_file', begin: hs_metrics_file_options is NULL",
        "hook 'early_stopping', begin: hs_early_stopping_options is NULL",
        "hook 'stop_after', begin: hs_stop_after_options is NULL",
        "hook 'run_status', begin: hs_run_status_options is NULL",
        "hook 'finite_guard', begin: hs_finite_guard_options is NULL",
        "hook 'watchdog', begin: hs_watchdog_options is NULL",
        "hook 'scalars', begin: hs_scalars_options is NULL",
        "hook 'replica_check', begin: hs_replica_check_options is NULL",
        "hook 'control', begin: hs_control_options is NULL",
    };
    for (size_t i = 0; i < HOOKS; i++)
        stage_refuses(*state, of_null(i), HS_INVALID_ARGUMENT, says[i]);
}

/* The sanitizer reports leaks. */
static void it_is_destroyed_as_any_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < HOOKS; i++) {
        hs_hook hook = of_null(i);
        assert_non_null(hook.ops->destroy);
        hs_hook_free(hook);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_stage(begin_reports_it), cmocka_unit_test(it_is_destroyed_as_any_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
