/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a trial: what is written into it, and how two are compared. */
#include "base/file_spy.h"
#include "checkpoint/cell.h"

#include "drivers/resume.h"

#include <errno.h>

/* Recording: a trial in this process. */

typedef struct {
    fixture *f;
    const char *const *fetches;
    hs__resume_order order;
    hs__recorder recorder;
    float device[2], x[2];
    hs_memory memory;
    hs_string text;
} trial;

static hs_code from_device(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(host, device, bytes);
    return HS_OK;
}

static hs_code nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static hs_code make_text(void *self, hs_op *op, hs_error *err)
{
    trial *t = self;
    t->text = (hs_string){"abc", 3};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &t->text);
    return hs_op_set_output(op, 0, &value, err);
}

static void build(trial *t, model *m, const hs_env *env, cell *c)
{
    hs_state_provider provider = cell_of(c, "loader", 2, "digits");
    model_build(m, env);
    hs_graph_add_state(m->graph, &provider);
    hs_graph_variable(m->graph, "x/0", HS_FLOAT, HS_SHAPE(1), t->x);
    hs_graph_variable(m->graph, "x/1", HS_FLOAT, HS_SHAPE(1), t->x + 1);
    t->memory = (hs_memory)HS_INIT(hs_memory, .device_type = 2, .to_host = from_device, .from_host = from_device);
    hs_graph_add_op(m->graph,
                    HS_OP_DEF(.name = "far", .run = nothing,
                              .outputs = HS_OUTPUTS(
                                  {.dtype = HS_FLOAT, .shape = HS_SHAPE(2), .data = t->device, .memory = &t->memory})));
    hs_graph_op(m->graph, .name = "text", .run = make_text, .user = t, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    hs_graph_op(m->graph, .name = "look");
}

/* The variables "x/0" and "x/1" are the halves of "x". */
static bool slice_of_x(void *graph, size_t index, hs_variable_slice *out)
{
    hs_variable part;
    if (!hs_backend_variable(hs_graph_backend(graph), index, &part) || strncmp(part.name, "x/", 2) != 0)
        return false;
    *out = (hs_variable_slice){.name = "x", .shape = HS_SHAPE(2), .starts = {part.name[2] - '0'}};
    return true;
}

/* Trains to step 3, with other runs between the steps. */
static hs_code record(const hs_env *env, trial *t)
{
    model m = {.step = 0};
    cell c = {.value = 5};
    hs_error err = {0}, late = {0};
    const fixture *f = t->f;
    t->order = (hs__resume_order){.directory = f->directory, .middle = 2, .last_step = 3};
    const char *const left[] = {test_path(f->directory, "left"), test_path(f->directory, "next")};
    remove(test_path(f->directory, "a.record"));
    hs_code code =
        hs__recorder_open(&t->recorder, env, &t->order, t->fetches, test_path(f->directory, "a.record"), left, &err);
    if (!code) {
        build(t, &m, env, &c);
        hs_hook hook = hs__recorder_hook(&t->recorder);
        hs_backend backend = hs_graph_backend(m.graph);
        hs_backend_ops ops = *backend.ops;
        ops.variable_slice = slice_of_x;
        m.session = hs_session_open((hs_backend){&ops, backend.self}, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
        while (!hs_session_should_stop(m.session) && !hs_session_run(m.session, "train", &err)) {
            c.value++;
            if (!hs_session_should_stop(m.session) && hs_session_run(m.session, "look", &err))
                break;
        }
        hs_session_close(m.session, &err);
        hs_graph_free(m.graph);
        code = err.code;
    }
    hs_code closed = hs__recorder_close(&t->recorder, &late);
    return code ? code : closed;
}

static char *contents(const fixture *f)
{
    static char text[4096];
    char *read = test_read_file(test_path(f->directory, "a.record"), NULL);
    snprintf(text, sizeof text, "%s", read);
    free(read);
    return text;
}

static void a_line_for_each_thing_of_each_step(void **state)
{
    fixture *f = *state;
    trial t = {.f = f, .fetches = HS_NAMES("far", "text")};
    static const char *const lines[] = {"state ",    ":8 uint8 [8] hooksess/state/loader\n",
                                        "state ",    ":8 int64 [] hooksess/state/loader:version\n",
                                        "state ",    ":16 string [] hooksess/state/loader:identity\n",
                                        "variable ", ":16 double [2] bias\n",
                                        "variable ", ":8 int64 [] global_step\n",
                                        "variable ", ":24 float [2,3] weights\n",
                                        "variable ", ":4 float [1] x [0:1]\n",
                                        "variable ", ":4 float [1] x [1:2]\n",
                                        "fetch ",    ":8 float [2] far\n",
                                        "fetch ",    ":16 string [] text\n"};
    assert_ok(record(&f->t.env, &t), &f->err);
    const char *at = contents(f);
    for (int step = 1; step <= 3; step++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i += 2) {
            char start[32];
            int length = snprintf(start, sizeof start, "%d %s", step, lines[i]);
            assert_memory_equal(at, start, (size_t)length);
            assert_memory_equal(at + length + 8, lines[i + 1], strlen(lines[i + 1]));
            at += (size_t)length + 8 + strlen(lines[i + 1]);
        }
    assert_string_equal(at, ""); /* runs that make no step leave nothing */
}

static void the_checkpoint_in_the_middle_is_of_its_step(void **state)
{
    fixture *f = *state;
    trial t = {.f = f};
    assert_ok(record(&f->t.env, &t), &f->err);
    assert_int_equal(t.recorder.n_left, 1); /* step 3 is the last */
    assert_int_equal(t.recorder.middles[0], 2);
    assert_int_equal(t.recorder.middles[1], -1);
    char *latest = hs_checkpoint_latest(NULL, f->directory, NULL, &f->err);
    assert_string_equal(latest, test_path(f->directory, "left-2"));
    hs_env_free(NULL, latest);
}

/* Two processes with one order: the second must not write into what the first has. */
static void a_record_is_never_another_processs(void **state)
{
    fixture *f = *state;
    hs__recorder recorder;
    hs__resume_order order = {.directory = f->directory, .middle = 2, .last_step = 3};
    const char *path = test_path(f->directory, "a.record");
    test_write_file(path, "first", 5);
    assert_int_equal(hs__recorder_open(&recorder, &f->t.env, &order, NULL, path, NULL, &f->err), HS_ALREADY_EXISTS);
    hs__recorder_close(&recorder, NULL);
    assert_string_equal(contents(f), "first");
}

static hs_code record_with(test_env *env, void *user)
{
    trial *t = user;
    test_tolerate(env, "' is not deleted: no memory for a path"); /* old data */
    test_tolerate(env, "; a power failure may lose '");           /* the directory was not made here */
    test_tolerate_harmless(env);                                  /* looking for leftovers */
    test_empty_directory(t->f->directory);
    return record(&env->env, t);
}

static void each_allocation_of_a_record(void **state)
{
    trial t = {.f = *state, .fetches = HS_NAMES("far", "text")};
    test_each_allocation(record_with, &t);
}

static void each_file_call_of_a_record(void **state)
{
    trial t = {.f = *state, .fetches = HS_NAMES("far")};
    test_each_file_call(record_with, NULL, EIO, false, &t);
}

/* Comparing. */

static hs_resume_report report;

static hs_code compare_in(fixture *f, const hs_env *env, const char *whole, const char *resumed, const char *const *ignore)
{
    test_write_file(test_path(f->directory, "a.record"), whole, strlen(whole));
    test_write_file(test_path(f->directory, "b.record"), resumed, strlen(resumed));
    report = (hs_resume_report)HS_INIT(hs_resume_report, .middle = 2, .step = -1);
    return hs__resume_compare(env, test_path(f->directory, "a.record"), test_path(f->directory, "b.record"), ignore,
                              &report, &f->err);
}

static hs_code compare(fixture *f, const char *whole, const char *resumed)
{
    return compare_in(f, &f->t.env, whole, resumed, NULL);
}

static void only_steps_after_the_middle_count(void **state)
{
    fixture *f = *state;
    assert_ok(compare(f, "1 variable a:4 float [] x\n2 variable b:4 float [] x\n3 variable c:4 float [] x\n",
                      "2 variable not:4 float [] x\n3 variable c:4 float [] x\n"),
              &f->err);
    assert_int_equal(report.compared, 1);
}

static void steps_may_be_more_than_one_apart(void **state)
{
    fixture *f = *state;
    const char *text = "4 variable a:4 float [] x\n8 variable b:4 float [] x\n";
    assert_ok(compare(f, text, text), &f->err);
    assert_int_equal(report.compared, 2);
}

static void the_first_of_each_kind_in_the_first_step_is_named(void **state)
{
    fixture *f = *state;
    const char *a = "3 state 1:1 uint8 [1] s\n3 variable 1:1 int8 [] x\n"
                    "4 state 1:1 uint8 [1] s\n4 state 1:1 uint8 [1] t\n4 state 1:1 uint8 [1] u\n4 variable 1:1 int8 [] x\n"
                    "4 variable 1:1 int8 [] y z\n4 fetch 1:1 int8 [] x\n";
    const char *b = "3 state 1:1 uint8 [1] s\n3 variable 1:1 int8 [] x\n"
                    "4 state 1:1 uint8 [1] s\n4 state 2:1 uint8 [1] t\n4 state 2:1 uint8 [1] u\n4 variable 1:1 int8 [] x\n"
                    "4 variable 2:1 int8 [] y z\n4 fetch 1:1 int8 [] x\n";
    assert_fails(compare(f, a, b), HS_DATA_LOSS, &f->err,
                 "step 4 differs in the state 't', the variable 'y z' (in 3 things in all)");
    assert_int_equal(report.compared, 1);
    assert_int_equal(report.step, 4);
    assert_int_equal(report.different, 3);
    assert_string_equal(report.state, "t");
    assert_string_equal(report.variable, "y z");
    assert_string_equal(report.fetch, "");
}

static void what_only_one_of_them_has_differs(void **state)
{
    fixture *f = *state;
    const char *one = "3 variable 1:1 int8 [] x\n", *two = "3 state 1:1 uint8 [1] s\n3 variable 1:1 int8 [] x\n";
    assert_fails(compare(f, one, two), HS_DATA_LOSS, &f->err, "step 3 differs in the state 's' (in 1 things");
    assert_fails(compare(f, two, one), HS_DATA_LOSS, &f->err, "step 3 differs in the state 's' (in 1 things");
}

static void another_type_or_shape_differs(void **state)
{
    fixture *f = *state;
    assert_fails(compare(f, "3 variable 0:4 float [1] x\n", "3 variable 0:4 int32 [1] x\n"), HS_DATA_LOSS, &f->err, "'x'");
    assert_fails(compare(f, "3 variable 0:4 float [1] x\n", "3 variable 0:4 float [] x\n"), HS_DATA_LOSS, &f->err, "'x'");
}

static void the_order_within_a_step_does_not_matter(void **state)
{
    fixture *f = *state;
    assert_ok(compare(f, "3 variable 1:1 int8 [] x\n3 variable 2:1 int8 [] y\n",
                      "3 variable 2:1 int8 [] y\n3 variable 1:1 int8 [] x\n"),
              &f->err);
}

static void a_step_that_only_one_of_them_has(void **state)
{
    fixture *f = *state;
    const char *one = "3 variable 1:1 int8 [] x\n", *two = "3 variable 1:1 int8 [] x\n4 variable 1:1 int8 [] x\n";
    assert_fails(compare(f, one, two), HS_DATA_LOSS, &f->err, "only the run that was resumed makes step 4");
    assert_int_equal(report.step, 4);
    assert_fails(compare(f, two, one), HS_DATA_LOSS, &f->err, "only the run that went through makes step 4");
    assert_int_equal(report.different, 0);
}

static void what_is_ignored_may_differ_or_be_missing(void **state)
{
    fixture *f = *state;
    const char *a = "3 state 1:1 uint8 [1] clock\n3 variable 1:1 int8 [] x\n", *b = "3 variable 1:1 int8 [] x\n";
    assert_ok(compare_in(f, &f->t.env, a, b, HS_NAMES("clock")), &f->err);
    assert_fails(compare_in(f, &f->t.env, b, b, HS_NAMES("x")), HS_FAILED_PRECONDITION, &f->err, "nothing to compare");
}

static void a_very_long_name_is_cut_in_the_report(void **state)
{
    fixture *f = *state;
    char name[600], a[700], b[700];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(a, sizeof a, "3 variable 1:1 int8 [] %s\n", name);
    snprintf(b, sizeof b, "3 variable 2:1 int8 [] %s\n", name);
    assert_fails(compare(f, a, b), HS_DATA_LOSS, &f->err, "differs in the variable 'nnn");
    assert_int_equal(strlen(report.variable), sizeof report.variable - 1);
}

static void what_is_no_record(void **state)
{
    static const char *const wrong[] = {
        "x\n", "3\n", "3 variable\n", "3 variable 1:1 int8 []\n", "3 variable 1:1 int8 [] \n", "x variable 1:1 int8 [] x\n",
        "\n"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(compare(f, wrong[i], ""), HS_DATA_LOSS, &f->err, "is no line of a record");
    assert_fails(compare(f, "3 variable 1:1 int8 [] x", ""), HS_DATA_LOSS, &f->err, "the last line is cut");
    assert_fails(compare(f, "", ""), HS_FAILED_PRECONDITION, &f->err, "nothing to compare after step 2");
}

/* A record of megabytes, of steps that are none longer than a few lines. */
static hs_code compare_long(fixture *f, int64_t steps)
{
    char *text = malloc((size_t)steps * 64 + 1), *at = text;
    for (int64_t step = 1; step <= steps; step++)
        at += sprintf(at, "%lld state 1:1 uint8 [1] s\n%lld variable 1:1 int8 [] x\n", (long long)step, (long long)step);
    hs_code code = compare(f, text, text);
    free(text);
    return code;
}

static void the_memory_of_a_comparison_is_that_of_a_step(void **state)
{
    fixture *f = *state;
    assert_ok(compare_long(f, 5000), &f->err);
    assert_int_equal(report.compared, 4998);
    size_t before = f->t.allocations;
    assert_ok(compare_long(f, 5000), &f->err);
    size_t few = f->t.allocations - before;
    assert_ok(compare_long(f, 50000), &f->err);
    assert_int_equal(report.compared, 49998);
    assert_int_equal(f->t.allocations - before, 2 * few); /* nothing has grown */
}

static hs_code compare_with(test_env *t, void *user)
{
    const char *text = "3 variable 1:1 int8 [] x\n3 variable 2:1 int8 [] y\n";
    return compare_in(user, &t->env, text, text, NULL);
}

static void each_allocation_of_a_comparison(void **state)
{
    test_each_allocation(compare_with, *state);
}

static void a_record_that_cannot_be_read_is_named(void **state)
{
    static const char *const calls[] = {"stat", "open", "read"}, *const records[] = {"a.record", "b.record"};
    const char *text = "3 variable 1:1 int8 [] x\n";
    fixture *f = *state;
    for (size_t i = 0; i < 6; i++) {
        file_spy spy;
        file_spy_init(&spy, &f->t.env);
        spy.what = calls[i % 3];
        spy.where = records[i / 3];
        spy.fail_at = 1;
        assert_fails(compare_in(f, &spy.env, text, text, NULL), HS_UNKNOWN, &f->err, records[i / 3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_line_for_each_thing_of_each_step),
        with_fixture(the_checkpoint_in_the_middle_is_of_its_step),
        with_fixture(a_record_is_never_another_processs),
        with_fixture(each_allocation_of_a_record),
        with_fixture(each_file_call_of_a_record),
        with_fixture(only_steps_after_the_middle_count),
        with_fixture(steps_may_be_more_than_one_apart),
        with_fixture(the_first_of_each_kind_in_the_first_step_is_named),
        with_fixture(what_only_one_of_them_has_differs),
        with_fixture(another_type_or_shape_differs),
        with_fixture(the_order_within_a_step_does_not_matter),
        with_fixture(a_step_that_only_one_of_them_has),
        with_fixture(what_is_ignored_may_differ_or_be_missing),
        with_fixture(a_very_long_name_is_cut_in_the_report),
        with_fixture(what_is_no_record),
        with_fixture(the_memory_of_a_comparison_is_that_of_a_step),
        with_fixture(each_allocation_of_a_comparison),
        with_fixture(a_record_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
