/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_REFUSED_H
#define HS_TESTS_BACKENDS_REFUSED_H

#include "support/test.h"

/* The call, which has `err` as its last argument, fails with this code: with a message for who asks, and without a crash
 * for who does not. */
#define assert_refused(expected, call)                                                                                     \
    do {                                                                                                                   \
        hs_error asked_ = {0}, *err = &asked_;                                                                             \
        assert_fails(call, expected, err, "");                                                                             \
        assert_true(asked_.message[0]);                                                                                    \
        err = NULL;                                                                                                        \
        assert_int_equal(call, expected);                                                                                  \
    } while (0)

#endif
