/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation and each call of the file system fails in turn. */
#include "formats/safetensors_files.h"

#include <errno.h>

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

/* A name that is long, and has escapes: when memory is short, it is not cut and loses no character. */
static void each_allocation_of_a_long_name(void **state)
{
    (void)state;
    enum { LENGTH = 300000 };
    static char name[LENGTH + 1], header[3 * LENGTH];
    size_t n = (size_t)sprintf(header, "{\"");
    for (size_t i = 0; i < LENGTH; i++) {
        name[i] = i % 7 ? (char)('a' + i % 26) : '/';
        n += (size_t)sprintf(header + n, i % 7 ? "%c" : "\\%c", name[i]);
    }
    sprintf(header + n, "\":{\"dtype\":\"LONG_%s\",\"shape\":[3],\"data_offsets\":[0,3]}}", name);
    write_by_hand(header, 3);
    test_each_allocation(reading, NULL);
    hs__safetensors_reader reader = open_file();
    assert_int_equal(hs__safetensors_find(&reader, name), 0);
    assert_string_equal(reader.header.entries[0].dtype_name + strlen("LONG_"), name);
    hs__safetensors_reader_close(&reader);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_allocation_of_writing), TEST(each_file_call_of_writing),      TEST(each_allocation_of_reading),
        TEST(each_file_call_of_reading),  TEST(each_allocation_of_a_long_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
