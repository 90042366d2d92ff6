/* SPDX-License-Identifier: Apache-2.0 */
#include "session/lost.h"

static hs_code inc(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static hs_code fail_sometimes(void *self, hs_op *op, hs_error *err)
{
    lost *l = self;
    (void)op;
    return l->fails_left-- > 0 ? hs_error_set(err, l->fails_with, "no luck") : HS_OK;
}

static hs_code same(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return hs_op_set_output(op, 0, hs_op_input(op, 0), err);
}

int lost_setup(void **state)
{
    lost *l = calloc(1, sizeof *l);
    if (!l)
        return -1;
    test_env_init(&l->t);
    l->graph = hs_graph_new(&l->t.env);
    l->calls = hs_script_new(NULL);
    hs_graph_global_step(l->graph, NULL, NULL);
    hs_graph_op(l->graph, .name = "inc", .run = inc, .advances_step = true);
    hs_graph_op(l->graph, .name = "fail", .run = fail_sometimes, .user = l);
    hs_graph_placeholder(l->graph, "in", HS_DOUBLE, HS_ANY_SHAPE);
    hs_graph_op(l->graph, .name = "same", .run = same, .inputs = HS_NAMES("in"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_ANY_SHAPE}));
    lost_probe(l, a, .code = 0);
    lost_probe(l, b, .code = 0);
    l->recovery = (hs_recovery)HS_INIT(hs_recovery);
    *state = l;
    return hs_graph_error(l->graph, NULL);
}

int lost_teardown(void **state)
{
    lost *l = *state;
    if (l->session)
        hs_session_close(l->session, NULL);
    hs_graph_free(l->graph);
    hs_script_free(l->calls);
    if (l->directory)
        test_remove_directory(l->directory);
    size_t live = l->t.live;
    free(l);
    return live ? -1 : 0;
}

/* The object whose backend is in use. */
static lost *spying;

static hs_code open_counted(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    spying->opens++;
    spying->hides_step = false;
    return hs_graph_backend(spying->graph).ops->open(self, target, config, session, err);
}

static hs_code step_counted(void *session, int64_t *step, hs_error *err)
{
    return spying->hides_step ? hs_error_set(err, HS_UNAVAILABLE, "no answer")
                              : hs_graph_backend(spying->graph).ops->global_step(session, step, err);
}

hs_backend lost_backend(lost *l)
{
    hs_backend backend = hs_graph_backend(l->graph);
    l->spied_ops = *backend.ops;
    l->spied_ops.open = open_counted;
    l->spied_ops.global_step = step_counted;
    spying = l;
    return (hs_backend){&l->spied_ops, backend.self};
}

hs_session *lost_try_open(lost *l, const hs_session_options *given, const hs_hook *more, size_t n)
{
    hs_hook hooks[8] = {hs_script_watch(l->calls, "a", probe_hook(&l->a)),
                        hs_script_watch(l->calls, "b", probe_hook(&l->b))};
    for (size_t i = 0; i < n; i++)
        hooks[2 + i] = more[i];
    hs_session_options options = given ? *given : (hs_session_options)HS_INIT(hs_session_options);
    options.hooks = hooks;
    options.recovery = &l->recovery;
    return l->session = hs_session_open(lost_backend(l), &options, &l->err);
}

void lost_open(lost *l, const hs_session_options *options)
{
    if (!lost_try_open(l, options, NULL, 0))
        fail_msg("opening: %s: %s", hs_code_name(l->err.code), l->err.message);
}

void lost_open_saving(lost *l)
{
    if (!l->directory)
        l->directory = test_make_directory();
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = l->directory);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1);
    if (!lost_try_open(l, &options, &saver, 1))
        fail_msg("opening: %s: %s", hs_code_name(l->err.code), l->err.message);
}

hs_code lost_run(lost *l, const char *name)
{
    return hs_session_run(l->session, name, &l->err);
}

hs_code lost_fail(lost *l, hs_code code)
{
    l->fails_left = 1;
    l->fails_with = code;
    return lost_run(l, "fail");
}

void lost_recover(lost *l)
{
    assert_ok(lost_fail(l, HS_ABORTED), &l->err);
}

int64_t lost_inc(lost *l)
{
    assert_ok(lost_run(l, "inc"), &l->err);
    return hs_session_global_step(l->session, NULL);
}

static double value_of(lost *l, const hs_run_args *args)
{
    const hs_run_values *values;
    assert_ok(hs_session_run_args(l->session, args, &values, &l->err), &l->err);
    return hs_run_values_number(values, 0);
}

int64_t lost_step(lost *l)
{
    return (int64_t)value_of(l, HS_RUN_ARGS(.names = HS_NAMES("global_step")));
}

double lost_same(lost *l, double number)
{
    hs_tensor in = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number);
    return value_of(l, HS_RUN_ARGS(.names = HS_NAMES("same"), .feeds = HS_FEEDS({"in", in})));
}

const hs_outcome *lost_close(lost *l)
{
    l->outcome = hs_session_close(l->session, &l->err);
    l->session = NULL;
    return &l->outcome;
}

typedef struct {
    hs_coordinator *to;
    hs_error error;
} report;

static void *report_error(void *given)
{
    report *r = given;
    hs_coordinator_request_stop(r->to, &r->error);
    return NULL;
}

void lost_report(lost *l, hs_code code)
{
    pthread_t thread;
    report r = {l->a.coordinator, {.code = code, .message = "a thread's"}};
    assert_int_equal(pthread_create(&thread, NULL, report_error, &r), 0);
    pthread_join(thread, NULL);
}
