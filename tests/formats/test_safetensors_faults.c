/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation, also Jansson's, and each call of the file system fails in turn. */
#include "formats/safetensors_files.h"

#include <errno.h>
#include <jansson.h>

static const double numbers[3] = {1, 2, 3};

static hs_code writing(test_env *failing, void *user)
{
    (void)user;
    const named_tensor tensors[] = {{"x", hs_tensor_of(HS_DOUBLE, HS_SHAPE(3), numbers)},
                                    {"y", hs_tensor_of(HS_INT32, HS_SCALAR, numbers)}};
    return try_write_file(&failing->env, tensors, 2, HS_SAFETENSORS_METADATA({"format", "pt"}));
}

static hs_code reading(test_env *failing, void *user)
{
    (void)user;
    return outcome_of_file(&failing->env);
}

static void each_allocation_of_writing(void **state)
{
    (void)state;
    test_each_allocation(writing, NULL);
}

static void each_file_call_of_writing(void **state)
{
    (void)state;
    test_each_file_call(writing, NULL, ENOSPC, false, NULL);
    test_each_file_call(writing, NULL, EIO, true, NULL);
}

static void each_allocation_of_reading(void **state)
{
    (void)state;
    assert_ok(writing(&t, NULL), &err);
    test_each_allocation(reading, NULL);
}

static void each_file_call_of_reading(void **state)
{
    (void)state;
    assert_ok(writing(&t, NULL), &err);
    test_each_file_call(reading, NULL, EIO, false, NULL);
}

/* Jansson's memory. */

static size_t json_allocations, json_fail_at, json_live;
static bool json_fail_on; /* all later allocations fail, too */

static void *json_alloc(size_t bytes)
{
    json_allocations++;
    if (json_allocations == json_fail_at || (json_fail_on && json_allocations > json_fail_at))
        return NULL;
    json_live++;
    return malloc(bytes);
}

static void json_free(void *block)
{
    json_live -= block != NULL;
    free(block);
}

/* If an allocation fails inside a string, Jansson reports an error in the text. `repeats`: the text is then parsed again,
 * which succeeds if memory is available again. */
static void fail_each_of_jansson(test_scenario scenario, bool repeats)
{
    json_set_alloc_funcs(json_alloc, json_free);
    for (json_fail_at = 1;; json_fail_at++) {
        json_allocations = 0;
        hs_code code = scenario(&t, NULL);
        assert_int_equal(json_live, 0);
        if (json_allocations < json_fail_at) {
            assert_int_equal(code, HS_OK);
            break;
        }
        if (code != HS_RESOURCE_EXHAUSTED && !(repeats && !json_fail_on && code == HS_OK))
            fail_msg("with allocation %zu of Jansson's failing: %s", json_fail_at, hs_code_name(code));
    }
    assert_true(json_fail_at > 5);
    json_set_alloc_funcs(malloc, free);
}

static void each_allocation_of_janssons_in_writing(void **state)
{
    (void)state;
    fail_each_of_jansson(writing, false);
}

static void each_allocation_of_janssons_in_reading(void **state)
{
    (void)state;
    assert_ok(writing(&t, NULL), &err);
    json_fail_on = false;
    fail_each_of_jansson(reading, true);
    json_fail_on = true;
    fail_each_of_jansson(reading, true);
    json_fail_on = false;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_allocation_of_writing),
        TEST(each_file_call_of_writing),
        TEST(each_allocation_of_reading),
        TEST(each_file_call_of_reading),
        TEST(each_allocation_of_janssons_in_writing),
        TEST(each_allocation_of_janssons_in_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
