/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a trial of a resume. */
#include "checkpoint/cell.h"

#include "drivers/resume_trial.h"

#include <errno.h>

typedef struct {
    fixture *f;
    const char *const *fetches;
    hs__recorder recorder;
    hs_error end; /* as reported by the recorder */
    size_t ends;
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

static void note_end(void *user, const hs_error *error)
{
    trial *t = user;
    if (!t->ends++)
        t->end = *error;
}

/* Trains to step 3, with other runs between the steps. */
static hs_code record(const hs_env *env, trial *t)
{
    model m = {.step = 0};
    cell c = {.value = 5};
    hs_error err = {0}, late = {0};
    const fixture *f = t->f;
    t->ends = 0;
    t->recorder = (hs__recorder){.env = env,
                                 .last = 3,
                                 .fetches = t->fetches,
                                 .prefix = test_path(f->directory, "last"),
                                 .end = note_end,
                                 .user = t};
    remove(test_path(f->directory, "a.record"));
    hs_code code = hs__recorder_open(&t->recorder, test_path(f->directory, "a.record"), &err);
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

/* Replaces "xHEXADECIMAL" by "xN" in place, with the number of bytes. */
static void shorten_bytes(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        const size_t digits = at[0] == 'x' && at > text && at[-1] == ' ' ? strspn(at + 1, "0123456789abcdef") : 0;
        if (digits)
            to += sprintf(to, "x%zu", digits / 2);
        else
            *to++ = *at;
        at += digits ? digits + 1 : 1;
    }
    *to = '\0';
}

static void each_step_has_a_line_for_each_item(void **state)
{
    fixture *f = *state;
    trial t = {.f = f, .fetches = HS_NAMES("far", "text")};
    static const char *const lines[] = {"state ",    ":8 uint8 [8] x8 hooksess/state/loader\n",
                                        "state ",    ":8 int64 [] 2 hooksess/state/loader:version\n",
                                        "state ",    ":16 string [] - hooksess/state/loader:identity\n",
                                        "variable ", ":16 double [2] x16 bias\n",
                                        "variable ", NULL,
                                        "variable ", ":24 float [2,3] x24 weights\n",
                                        "variable ", ":4 float [1] 0 x [0:1]\n",
                                        "variable ", ":4 float [1] 0 x [1:2]\n",
                                        "value ",    ":8 float [2] x8 far\n",
                                        "value ",    ":16 string [] - text\n"};
    assert_ok(record(&f->t.env, &t), &f->err);
    char *text = contents(f);
    shorten_bytes(text);
    const char *at = text;
    for (int step = 1; step <= 3; step++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i += 2) {
            char start[32], global_step[64];
            int length = snprintf(start, sizeof start, "%d %s", step, lines[i]);
            snprintf(global_step, sizeof global_step, ":8 int64 [] %d global_step\n", step);
            const char *rest = lines[i + 1] ? lines[i + 1] : global_step;
            assert_memory_equal(at, start, (size_t)length);
            assert_memory_equal(at + length + 8, rest, strlen(rest));
            at += (size_t)length + 8 + strlen(rest);
        }
    assert_string_equal(at, ""); /* runs that do not advance the step are not recorded */
    assert_int_equal(t.ends, 2); /* after the last step, and when the session was closed */
    assert_int_equal(t.end.code, HS_OK);
}

static void the_bytes_of_small_tensors_are_recorded(void **state)
{
    fixture *f = *state;
    trial t = {.f = f, .fetches = HS_NAMES("far"), .device = {1, -2}};
    unsigned char bytes[sizeof t.device];
    char line[64] = ":8 float [2] x";
    memcpy(bytes, t.device, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(line + strlen(line), "%02x", bytes[i]);
    assert_ok(record(&f->t.env, &t), &f->err);
    assert_contains(contents(f), strcat(line, " far\n"));
}

static void the_last_step_is_saved(void **state)
{
    fixture *f = *state;
    trial t = {.f = f};
    assert_ok(record(&f->t.env, &t), &f->err);
    assert_int_equal(t.recorder.recorded, 3);
    char *latest = hs_checkpoint_latest(NULL, f->directory, NULL, &f->err);
    assert_string_equal(latest, test_path(f->directory, "last-3"));
    hs_env_free(NULL, latest);
}

/* Two processes with one request: the second must not write to the record of the first. */
static void a_record_is_never_another_processs(void **state)
{
    fixture *f = *state;
    hs__recorder recorder = {.env = &f->t.env, .last = 3};
    const char *path = test_path(f->directory, "a.record");
    test_write_file(path, "first", 5);
    assert_int_equal(hs__recorder_open(&recorder, path, &f->err), HS_ALREADY_EXISTS);
    hs__recorder_close(&recorder, NULL);
    assert_string_equal(contents(f), "first");
}

static hs_code record_with(test_env *env, void *user)
{
    trial *t = user;
    test_tolerate(env, "': no memory for its path");    /* old data */
    test_tolerate(env, "; a power failure may lose '"); /* the directory was not made here */
    test_tolerate_harmless(env);                        /* looking for leftovers */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(each_step_has_a_line_for_each_item),
        with_fixture(the_bytes_of_small_tensors_are_recorded),
        with_fixture(the_last_step_is_saved),
        with_fixture(a_record_is_never_another_processs),
        with_fixture(each_allocation_of_a_record),
        with_fixture(each_file_call_of_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
