/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_REFUSED_H
#define HS_TESTS_BACKENDS_REFUSED_H

#include "support/test.h"

/* Asserts that the call, whose last argument is `err`, fails with this code: with an error that gets a message, and with
 * NULL. */
#define assert_refused(expected, call)                                                                                     \
    do {                                                                                                                   \
        hs_error error_ = {0}, *err = &error_;                                                                             \
        assert_fails(call, expected, err, "");                                                                             \
        assert_true(error_.message[0]);                                                                                    \
        err = NULL;                                                                                                        \
        assert_int_equal(call, expected);                                                                                  \
    } while (0)

#endif
