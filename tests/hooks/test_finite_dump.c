/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/poisoned.h"

#include <errno.h>
#include <math.h>

#define GUARD(...)                                                                                                         \
    hs_finite_guard(.gradients = HS_NAMES("gradient"), .parameters = HS_NAMES("weight"), .policy = HS_GUARD_ROLLBACK,      \
                    .max_rollbacks = 9, .dump_dir = __VA_ARGS__)

/* Reads a tensor of a dump through a checkpoint reader. */
static void read_back(const poisoned *p, const char *file, const char *name, void *data, size_t bytes)
{
    hs_error err;
    char from[1024], to[1024];
    snprintf(from, sizeof from, "%s", test_path(p->s->directory, file));
    snprintf(to, sizeof to, "%s", test_path(p->s->directory, "read_back"));
    assert_ok(hs_checkpoint_convert(NULL, from, to, NULL, &err), &err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, to, &err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_read(reader, name, data, bytes, &err), &err);
    hs_checkpoint_close(reader);
}

static void open_and_trip(poisoned *p, hs_hook guard, int times)
{
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", times), &p->s->err);
}

static bool is_dumped(const poisoned *p, const char *name)
{
    char file[128], variables[128];
    snprintf(file, sizeof file, "finite_guard-%s.safetensors", name);
    snprintf(variables, sizeof variables, "finite_guard-%s.variables.safetensors", name);
    bool dumped = test_exists(p->s->directory, file);
    assert_true(dumped == test_exists(p->s->directory, variables)); /* both exist, or neither */
    return dumped;
}

static void a_dump_has_the_fetched_tensors_and_the_variables(void **state)
{
    poisoned *p = *state;
    float gradient[6], weight;
    int64_t label, step;
    p->bad[0] = 3;
    open_and_trip(p, GUARD(p->s->directory, .skip_op = "draw", .dump_also = HS_NAMES("label")), 3);
    stage_close(p->s);
    read_back(p, "finite_guard-3.safetensors", "gradients/gradient", gradient, sizeof gradient);
    read_back(p, "finite_guard-3.safetensors", "parameters/weight", &weight, sizeof weight);
    read_back(p, "finite_guard-3.safetensors", "dump_also/label", &label, sizeof label);
    assert_true(gradient[0] == 3);
    assert_true(isnan(gradient[5]) != 0);
    assert_true(weight == 1 + 2 + 3);
    assert_int_equal(label, 3);
    read_back(p, "finite_guard-3.variables.safetensors", "global_step", &step, sizeof step);
    read_back(p, "finite_guard-3.variables.safetensors", "weight", &weight, sizeof weight);
    assert_int_equal(step, 3);
    assert_true(weight == 1 + 2 + 3);
}

static void the_metadata_say_what_happened(void **state)
{
    poisoned *p = *state;
    size_t bytes;
    p->bad[0] = 3;
    open_and_trip(p, GUARD(p->s->directory, .skip_op = "draw"), 3);
    stage_close(p->s);
    char *text = test_read_file(test_path(p->s->directory, "finite_guard-3.safetensors"), &bytes);
    assert_contains(text + 8, "\"step\":\"3\"");
    assert_contains(text + 8, "gradient 'gradient', float [2,3], is not finite: first at [1,2]");
    free(text);
}

/* Also files of an earlier process are kept. */
static void no_dump_replaces_another(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    open_and_trip(p, GUARD(p->s->directory), 4);
    stage_close(p->s);
    assert_true(is_dumped(p, "2") && is_dumped(p, "2.1") && !is_dumped(p, "2.2"));
    p->position = 0;
    open_and_trip(p, GUARD(p->s->directory), 2);
    stage_close(p->s);
    assert_true(is_dumped(p, "2.2") && !is_dumped(p, "2.3"));
}

static void a_session_makes_at_most_3_dumps(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 1;
    p->all_bad = true;
    open_and_trip(p, GUARD(p->s->directory, .skip_op = "draw"), 5);
    stage_close(p->s);
    assert_int_equal(test_count_files(p->s->directory, "finite_guard-"), 2 * 3);
}

static void failing_to_dump_is_a_warning(void **state)
{
    poisoned *p = *state;
    char nowhere[1024];
    p->bad[0] = 2;
    snprintf(nowhere, sizeof nowhere, "%s", test_path(p->s->directory, "no/such/directory"));
    open_and_trip(p, GUARD(nowhere, .skip_op = "draw"), 2);
    stage_close(p->s);
    assert_contains(p->s->t.log, "WARNING: step 2: cannot dump the watched tensors: ");
    assert_contains(p->s->t.log, "rolled back to step 0");
}

/* Not that a file of that name exists. */
static void the_warning_has_the_reason(void **state)
{
    poisoned *p = *state;
    char inside_file[1024];
    p->bad[0] = 2;
    test_write_file(test_path(p->s->directory, "file"), "x", 1);
    snprintf(inside_file, sizeof inside_file, "%s", test_path(p->s->directory, "file/dumps"));
    open_and_trip(p, GUARD(inside_file, .skip_op = "draw"), 2);
    stage_close(p->s);
    assert_contains(p->s->t.log, "WARNING: step 2: cannot dump the watched tensors: cannot save '");
    assert_contains(p->s->t.log, "Not a directory");
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(host, device, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    (void)user, (void)device, (void)host, (void)bytes;
    return hs_error_set(err, HS_INTERNAL, "the device is read-only");
}

static void memory_of_a_device_is_dumped(void **state)
{
    poisoned *p = *state;
    stage *s = p->s;
    const float device[2] = {7, INFINITY};
    float host[2];
    hs_memory memory = HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host);
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), device);
    loss.memory = &memory;
    hs_script_constant(s->script, "loss", &loss);
    stage_open(s, hs_finite_guard(.inputs = HS_NAMES("loss:0"), .dump_dir = s->directory));
    assert_int_equal(stage_run_once(s, "train"), HS_FAILED_PRECONDITION);
    read_back(p, "finite_guard-1.safetensors", "inputs/loss:0", host, sizeof host);
    assert_memory_equal(host, device, sizeof host);
}

typedef struct {
    const char *directory;
} place;

static hs_code dump_a_step(test_env *t, void *user)
{
    const place *where = user;
    poisoned p = {.bad = {1}};
    hs_error err = {0};
    test_tolerate(t, "step 1: cannot dump the watched tensors: ");
    poisoned_build(&p, &t->env);
    hs_hook hook =
        hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_STOP, .dump_dir = where->directory);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_graph_backend(p.graph), &options, &err);
    if (session)
        hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_graph_free(p.graph);
    return err.code == HS_FAILED_PRECONDITION && strstr(err.message, "no memory") ? HS_RESOURCE_EXHAUSTED : err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    char *directory = test_make_directory();
    test_each_allocation(dump_a_step, &(place){directory});
    test_remove_directory(directory);
}

static void each_file_call(void **state)
{
    (void)state;
    char *directory = test_make_directory();
    test_each_file_call(dump_a_step, NULL, ENOSPC, false, &(place){directory});
    test_remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_poisoned(a_dump_has_the_fetched_tensors_and_the_variables),
        with_poisoned(the_metadata_say_what_happened),
        with_poisoned(no_dump_replaces_another),
        with_poisoned(a_session_makes_at_most_3_dumps),
        with_poisoned(failing_to_dump_is_a_warning),
        with_poisoned(the_warning_has_the_reason),
        with_poisoned(memory_of_a_device_is_dumped),
        cmocka_unit_test(each_allocation),
        cmocka_unit_test(each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
