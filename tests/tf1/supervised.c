/* SPDX-License-Identifier: Apache-2.0 */
#include "tf1/supervised.h"

#include <sched.h>

static int64_t system_now(void *user)
{
    (void)user;
    return hs_env_monotonic_ns(NULL);
}

int supervised_setup(void **state)
{
    supervised *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    f->t.env.clock.monotonic_ns = system_now;
    f->directory = test_make_directory();
    f->graph = hs_graph_new(&f->t.env);
    f->summary = hs_summary_new(&f->t.env);
    assert_non_null(f->graph);
    assert_non_null(f->summary);
    *state = f;
    return 0;
}

int supervised_teardown(void **state)
{
    supervised *f = *state;
    if (f->session)
        hs_supervisor_leave(f->sv, f->session, HS_OK, NULL, NULL);
    hs_supervisor_free(f->sv);
    hs_graph_free(f->graph);
    hs_summary_free(f->summary);
    test_remove_directory(f->directory);
    size_t left = test_env_live(&f->t);
    free(f);
    assert_int_equal(left, 0);
    return 0;
}

void supervise(supervised *f, hs_supervisor_options options)
{
    hs_supervisor_free(f->sv);
    f->sv = hs_supervisor_new(hs_graph_backend(f->graph), &options, &f->err);
    if (!f->sv)
        fail_msg("%s", f->err.message);
}

void refuses(supervised *f, hs_supervisor_options options, const char *message)
{
    assert_null(hs_supervisor_new(hs_graph_backend(f->graph), &options, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, message);
}

void await_stop(supervised *f)
{
    hs_coordinator_wait_for_stop(hs_supervisor_coordinator(f->sv), HS_NEVER);
}

void close_session(supervised *f)
{
    assert_ok(hs_session_close(f->session, &f->err).error.code, &f->err);
    f->session = NULL;
}

void prepare(supervised *f, const hs_supervisor_session_options *options)
{
    f->session = hs_supervisor_prepare_or_wait_for_session(f->sv, options, &f->err);
    if (!f->session)
        fail_msg("%s", f->err.message);
}

void finish(supervised *f)
{
    assert_ok(hs_supervisor_stop(f->sv, NULL, &f->err), &f->err);
    close_session(f);
}

hs_code leave(supervised *f, hs_code code)
{
    if (code)
        hs_error_set(&f->err, code, "mine");
    code = hs_supervisor_leave(f->sv, f->session, code, NULL, &f->err);
    f->session = NULL;
    return code;
}

double number(supervised *f, const char *name)
{
    const hs_run_values *values;
    hs_supervisor_lock(f->sv);
    assert_ok(hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES(name)), &values, &f->err), &f->err);
    double value = hs_run_values_number(values, 0);
    hs_supervisor_unlock(f->sv);
    return value;
}

hs_code run_op(supervised *f, const char *name)
{
    return hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES(name)), NULL, &f->err);
}

void add_v(supervised *f, uint64_t flags)
{
    static const float first[3] = {1, 2, 3};
    hs_graph_add_variable(
        f->graph, HS_VARIABLE_DEF(.name = "v", .dtype = HS_FLOAT, .shape = HS_SHAPE(3), .initial = first, .flags = flags));
}

bool v_is_123(supervised *f)
{
    const hs_run_values *values;
    const float wanted[3] = {1, 2, 3};
    hs_supervisor_lock(f->sv);
    assert_ok(hs_supervisor_run(f->sv, f->session, HS_RUN_ARGS(.names = HS_NAMES("v")), &values, &f->err), &f->err);
    bool is = memcmp(hs_run_values_tensor(values, 0)->data, wanted, sizeof wanted) == 0;
    hs_supervisor_unlock(f->sv);
    return is;
}

void add_step(supervised *f, int64_t first)
{
    static int64_t value;
    value = first;
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "global_step", .dtype = HS_INT64, .initial = &value));
    hs_graph_op(f->graph, .name = "train", .advances_step = true);
}

hs_string three(supervised *f)
{
    hs_error err; /* a service may compute it */
    hs_summary_clear(f->summary);
    for (int i = 1; i <= 3; i++)
        assert_ok(hs_summary_scalar(f->summary, i == 1 ? "c1" : i == 2 ? "c2" : "c3", i, &err), &err);
    return hs_summary_serialized(f->summary);
}

void await_file(const supervised *f, const char *part)
{
    while (!test_count_files(f->directory, part))
        sched_yield();
}
