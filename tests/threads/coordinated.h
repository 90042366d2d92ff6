/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_THREADS_COORDINATED_H
#define HS_TESTS_THREADS_COORDINATED_H

#include "threads/event.h"

static const double LONG = 100; /* longer than any test takes */

/* cmocka's setup and teardown: *state is a coordinator. */
int coordinated_setup(void **state);
int coordinated_teardown(void **state);
#define coordinated_test(name) cmocka_unit_test_setup_teardown(name, coordinated_setup, coordinated_teardown)

/* Requests a stop with this error. */
hs_code stop_with(hs_coordinator *coordinator, hs_code code, const char *message);
/* hs_coordinator_join with default options. */
hs_code join(hs_coordinator *coordinator, hs_error *err);
/* Creates a coordinator with these clean codes. */
hs_coordinator *make_clean(const hs_code *codes);

/* Bodies of threads. `user` is an event that they wait for; for fail_with, the error that it returns. */
hs_code wait_then_stop(void *user, hs_coordinator *coordinator, hs_error *err);
hs_code wait_for_event(void *user, hs_coordinator *coordinator, hs_error *err);
hs_code fail_with(void *user, hs_coordinator *coordinator, hs_error *err);

#endif
