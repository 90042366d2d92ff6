/* SPDX-License-Identifier: Apache-2.0 */
/* A TF_Status as an hs_error: the same code, and the message on one line. */
#include "support/test.h"

#include "tensorflow/tf_api.h"

static hs_code check(TF_Code code, const char *message, hs_error *err)
{
    const hs__tf_api api = {.GetCode = TF_GetCode, .Message = TF_Message};
    TF_Status *status = TF_NewStatus();
    TF_SetStatus(status, code, message);
    hs_code checked = hs__tf_check_status(&api, status, err);
    TF_DeleteStatus(status);
    return checked;
}

static void each_code_is_the_one_of_the_same_name(void **state)
{
    (void)state;
    static const struct {
        TF_Code theirs;
        hs_code ours;
    } codes[] = {
        {TF_CANCELLED, HS_CANCELLED},
        {TF_UNKNOWN, HS_UNKNOWN},
        {TF_INVALID_ARGUMENT, HS_INVALID_ARGUMENT},
        {TF_DEADLINE_EXCEEDED, HS_DEADLINE_EXCEEDED},
        {TF_NOT_FOUND, HS_NOT_FOUND},
        {TF_ALREADY_EXISTS, HS_ALREADY_EXISTS},
        {TF_PERMISSION_DENIED, HS_PERMISSION_DENIED},
        {TF_RESOURCE_EXHAUSTED, HS_RESOURCE_EXHAUSTED},
        {TF_FAILED_PRECONDITION, HS_FAILED_PRECONDITION},
        {TF_ABORTED, HS_ABORTED},
        {TF_OUT_OF_RANGE, HS_OUT_OF_RANGE},
        {TF_UNIMPLEMENTED, HS_UNIMPLEMENTED},
        {TF_INTERNAL, HS_INTERNAL},
        {TF_UNAVAILABLE, HS_UNAVAILABLE},
        {TF_DATA_LOSS, HS_DATA_LOSS},
        {TF_UNAUTHENTICATED, HS_UNAUTHENTICATED},
        {(TF_Code)99, HS_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        hs_error err = {0};
        assert_int_equal(check(codes[i].theirs, "why", &err), codes[i].ours);
        assert_int_equal(err.code, codes[i].ours);
        assert_string_equal(err.message, "why");
        assert_int_equal(check(codes[i].theirs, "why", NULL), codes[i].ours);
    }
}

static void ok_changes_nothing(void **state)
{
    (void)state;
    hs_error err = {.code = HS_INTERNAL, .message = "before"};
    assert_int_equal(check(TF_OK, "", &err), HS_OK);
    assert_int_equal(err.code, HS_INTERNAL);
    assert_string_equal(err.message, "before");
}

static void messages_are_one_line(void **state)
{
    (void)state;
    hs_error err = {0};
    check(TF_INTERNAL, "\n2 errors:\n\t  (0) one\n\t  (1) two\n\n", &err);
    assert_string_equal(err.message, "2 errors: (0) one (1) two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_code_is_the_one_of_the_same_name),
        cmocka_unit_test(ok_changes_nothing),
        cmocka_unit_test(messages_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
