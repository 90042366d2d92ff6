/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>

static hs_summary *summary;
static hs_error err;

static int setup(void **state)
{
    (void)state;
    summary = hs_summary_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
    hs_summary_free(summary);
    return 0;
}

static hs_code start_with(const hs_hparam *hparams)
{
    return hs_hparams_start(summary, HS_HPARAMS_START_OPTIONS(.hparams = hparams), &err);
}

static void invalid_values_are_refused(void **state)
{
    (void)state;
    const struct {
        hs_hparam hparam;
        const char *says;
    } wrong[] = {
        {{.type = HS_HPARAM_BOOL}, "name"},
        {{.name = "", .type = HS_HPARAM_BOOL}, "name"},
        {{.name = "x", .type = (hs_hparam_type)4}, "type 4"},
        {{.name = "x", .type = HS_HPARAM_NUMBER, .number = (double)NAN}, "nan"},
        {{.name = "x", .type = HS_HPARAM_STRING}, "NULL"},
        {{.name = "x", .type = HS_HPARAM_STRING, .string = "\xff"}, "UTF-8"},
        {{.name = "\xff", .type = HS_HPARAM_BOOL}, "UTF-8"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(start_with(HS_HPARAMS(wrong[i].hparam)), HS_INVALID_ARGUMENT, &err, wrong[i].says);
}

static void a_name_that_is_given_twice_is_refused(void **state)
{
    (void)state;
    assert_fails(start_with(HS_HPARAMS(HS_HPARAM("x", BOOL, .flag = true), HS_HPARAM("x", NUMBER, .number = 1))),
                 HS_INVALID_ARGUMENT, &err, "twice");
}

static void invalid_descriptions_are_refused(void **state)
{
    (void)state;
    const hs_hparam_info wrong[] = {
        {.name = "", .display_name = "x"},
        {.name = "x", .type = (hs_hparam_type)9},
        {.name = "x", .min = 2, .max = 1},
        {.name = "x", .max = (double)INFINITY},
        {.name = "x", .min = -(double)INFINITY},
        {.name = "x", .type = HS_HPARAM_STRING, .values = HS_HPARAMS(HS_HPARAM("", NUMBER, .number = 1))},
        {.name = "x", .values = HS_HPARAMS(HS_HPARAM("", NUMBER, .number = (double)NAN))},
        {.name = "\xff"},
        {.name = "x", .display_name = "\xff"},
        {.name = "x", .description = "\xff"},
    };
    const char *says[] = {"name",
                          "type 9",
                          "min must not be above max",
                          "min must not be above max",
                          "min must not be above max",
                          "another type",
                          "nan",
                          "hs_hparams_config_options.hparams is not UTF-8",
                          "hs_hparam_info.display_name is not UTF-8",
                          "hs_hparam_info.description is not UTF-8"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const hs_hparams_config_options options = HS_INIT(hs_hparams_config_options, .hparams = HS_HPARAM_INFOS(wrong[i]));
        assert_fails(hs_hparams_config(summary, &options, &err), HS_INVALID_ARGUMENT, &err, says[i]);
    }
}

static void invalid_metrics_are_refused(void **state)
{
    (void)state;
    const hs_hparams_metric wrong[] = {
        {.tag = "", .group = "x"},     {.tag = "x", .dataset = (hs_hparams_dataset)7}, {.tag = "\xff"},
        {.tag = "x", .group = "\xff"}, {.tag = "x", .display_name = "\xff"},           {.tag = "x", .description = "\xff"},
    };
    const char *says[] = {"name",
                          "data set 7",
                          "hs_hparams_config_options.metrics is not UTF-8",
                          "hs_hparams_metric.group is not UTF-8",
                          "hs_hparams_metric.display_name is not UTF-8",
                          "hs_hparams_metric.description is not UTF-8"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const hs_hparams_config_options options =
            HS_INIT(hs_hparams_config_options, .metrics = HS_HPARAMS_METRICS(wrong[i]));
        assert_fails(hs_hparams_config(summary, &options, &err), HS_INVALID_ARGUMENT, &err, says[i]);
    }
}

static void other_invalid_options_are_refused(void **state)
{
    (void)state;
    const struct {
        hs_hparams_config_options options;
        const char *says;
    } configs[] = {
        {HS_INIT(hs_hparams_config_options, .created_secs = -1), "hs_hparams_config_options.created_secs is -1"},
    };
    const struct {
        hs_hparams_start_options options;
        const char *says;
    } starts[] = {
        {HS_INIT(hs_hparams_start_options, .group_name = "\xff"), "hs_hparams_start_options.group_name is not UTF-8"},
        {HS_INIT(hs_hparams_start_options, .start_secs = -1), "hs_hparams_start_options.start_secs is -1"},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        assert_fails(hs_hparams_config(summary, &configs[i].options, &err), HS_INVALID_ARGUMENT, &err, configs[i].says);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        assert_fails(hs_hparams_start(summary, &starts[i].options, &err), HS_INVALID_ARGUMENT, &err, starts[i].says);
}

static void invalid_arguments_are_refused(void **state)
{
    (void)state;
    assert_fails(hs_hparams_config(summary, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_hparams_start(summary, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_hparams_end(NULL, HS_HPARAMS_SUCCESS, 0, &err), HS_RESOURCE_EXHAUSTED, &err, "NULL");
    assert_fails(hs_hparams_end(summary, (hs_hparams_status)4, 0, &err), HS_INVALID_ARGUMENT, &err, "status 4");
    assert_fails(hs_hparams_end(summary, HS_HPARAMS_SUCCESS, (double)NAN, &err), HS_INVALID_ARGUMENT, &err,
                 "must be finite");
}

/* The clock's time in seconds is at the end of the data, after the number of its field. */
static void the_time_comes_from_the_clock(void **state)
{
    (void)state;
    static test_env t;
    test_env_init(&t);
    test_env_advance(&t, 12);
    hs_summary *timed = hs_summary_new(&t.env);
    assert_ok(hs_hparams_end(timed, HS_HPARAMS_FAILURE, 0, &err), &err);
    double wanted = (double)hs_env_realtime_ns(&t.env) / 1e9, secs;
    hs_string bytes = hs_summary_serialized(timed);
    memcpy(&secs, bytes.data + bytes.bytes - sizeof secs, sizeof secs);
    assert_true(secs == wanted);
    hs_summary_free(timed);
}

/* A map of google.protobuf.Struct: an entry has the name (1) and the value (2); a value has a number (2), string (3) or
 * bool (4). */
static void values_have_their_names(void **state)
{
    (void)state;
    static const char wanted[] = "\x0a\x0e\x0a\x01r\x12\x09\x11\0\0\0\0\0\0\xe0\x3f" /* 0.5 */
                                 "\x0a\x09\x0a\x01o\x12\x04\x1a\x02md"
                                 "\x0a\x07\x0a\x01"
                                 "f\x12\x02\x20\x01";
    const hs_hparam values[] = {HS_HPARAM("r", NUMBER, .number = 0.5),
                                HS_HPARAM("o", STRING, .string = "md"),
                                HS_HPARAM("f", BOOL, .flag = true),
                                {.type = HS_HPARAM_UNSET}};
    hs_summary *started = hs_summary_new(NULL);
    const hs_hparams_start_options options = HS_INIT(hs_hparams_start_options, .hparams = values);
    assert_ok(hs_hparams_start(started, &options, &err), &err);
    hs_string bytes = hs_summary_serialized(started);
    const size_t time_bytes = 1 + sizeof(double); /* at the end */
    assert_memory_equal(bytes.data + bytes.bytes - time_bytes - (sizeof wanted - 1), wanted, sizeof wanted - 1);
    hs_summary_free(started);
}

static hs_code fill(test_env *t, void *user)
{
    (void)user;
    const hs_hparam values[] = {HS_HPARAM("optimizer", STRING, .string = "adam"),
                                HS_HPARAM("rate", NUMBER, .number = 0.1),
                                {.type = HS_HPARAM_UNSET}};
    const hs_hparam_info infos[] = {{.name = "optimizer", .values = values}, {.name = "rate", .max = 1}, {.name = NULL}};
    hs_summary *s = hs_summary_new(&t->env);
    if (!s)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs_hparams_config(s, HS_HPARAMS_CONFIG_OPTIONS(.hparams = infos), NULL);
    if (!code)
        code = hs_hparams_start(s, HS_HPARAMS_START_OPTIONS(.hparams = values), NULL);
    if (!code)
        code = hs_hparams_end(s, HS_HPARAMS_SUCCESS, 0, NULL);
    hs_summary_free(s);
    return code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(fill, NULL);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(invalid_values_are_refused),
        TEST(a_name_that_is_given_twice_is_refused),
        TEST(invalid_descriptions_are_refused),
        TEST(invalid_metrics_are_refused),
        TEST(other_invalid_options_are_refused),
        TEST(invalid_arguments_are_refused),
        TEST(the_time_comes_from_the_clock),
        TEST(values_have_their_names),
        TEST(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
