/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/coordinated.h"

int coordinated_setup(void **state)
{
    *state = hs_coordinator_new(NULL, NULL);
    return *state ? 0 : -1;
}

int coordinated_teardown(void **state)
{
    hs_coordinator_free(*state);
    return 0;
}

hs_code stop_with(hs_coordinator *coordinator, hs_code code, const char *message)
{
    hs_error why;
    hs_error_set(&why, code, "%s", message);
    return hs_coordinator_request_stop(coordinator, &why);
}

hs_code join(hs_coordinator *coordinator, hs_error *err)
{
    return hs_coordinator_join(coordinator, NULL, err);
}

hs_coordinator *make_clean(const hs_code *codes)
{
    hs_coordinator_options options = HS_INIT(hs_coordinator_options, .clean_stop_codes = codes);
    hs_coordinator *made = hs_coordinator_new(&options, NULL);
    assert_non_null(made);
    return made;
}

hs_code wait_then_stop(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)err;
    event_wait(user, 1);
    hs_coordinator_request_stop(coordinator, NULL);
    return HS_OK;
}

hs_code wait_for_event(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator, (void)err;
    event_wait(user, 1);
    return HS_OK;
}

hs_code fail_with(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator;
    *err = *(hs_error *)user;
    return err->code;
}
