/* SPDX-License-Identifier: Apache-2.0 */
#include "tf1/served.h"

#include <math.h>

static served *in_use;

static hs_code init(void *self, hs_op *op, hs_error *err)
{
    served *s = self;
    (void)err;
    s->v = hs_op_input(op, 0) ? hs_tensor_number(hs_op_input(op, 0), 0) : s->first;
    return HS_OK;
}

static hs_code local_init(void *self, hs_op *op, hs_error *err)
{
    served *s = self;
    (void)op, (void)err;
    s->local_inits++;
    s->w = s->v;
    return HS_OK;
}

static hs_code local_init_fed(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    ((served *)self)->w = hs_tensor_number(hs_op_input(op, 0), 0);
    return HS_OK;
}

static hs_code init_x(void *self, hs_op *op, hs_error *err)
{
    served *s = self;
    (void)op, (void)err;
    s->x = 3 * s->v;
    return HS_OK;
}

static hs_code list_names(served *s, hs_op *op, bool with_w, hs_error *err)
{
    int64_t n = 0;
    if (isnan(s->v))
        s->names[n++] = (hs_string){"v", 1};
    if (with_w && isnan(s->w))
        s->names[n++] = (hs_string){"w", 1};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(n), s->names);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code ready(void *self, hs_op *op, hs_error *err)
{
    served *s = self;
    s->checks++;
    return list_names(s, op, s->check_w, err);
}

static hs_code ready_for_local(void *self, hs_op *op, hs_error *err)
{
    return list_names(self, op, false, err);
}

/* A ready_op that fails instead of returning names. */
static hs_code assert_ready(void *self, hs_op *op, hs_error *err)
{
    (void)op;
    return isnan(((served *)self)->v) ? hs_error_set(err, HS_FAILED_PRECONDITION, "v is uninitialized") : HS_OK;
}

static const int32_t three_numbers[3] = {1, 2, 3};

static hs_code numbers(void *self, hs_op *op, hs_error *err)
{
    hs_tensor value = hs_tensor_of(HS_INT32, HS_SHAPE(3), three_numbers);
    (void)self;
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code count_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    served *s = in_use;
    s->opened++;
    hs_code code = hs_graph_backend(s->b->graph).ops->open(self, target, config, session, err);
    if (!code && s->on_open)
        s->on_open(s);
    return code;
}

static hs_code count_close(void *session, hs_error *err)
{
    in_use->closed++;
    return hs_graph_backend(in_use->b->graph).ops->close(session, err);
}

static void add_ops(served *s)
{
    hs_graph *g = s->b->graph;
    hs_graph_value(g, "v_now", HS_DOUBLE, HS_SCALAR, &s->v);
    hs_graph_value(g, "w_now", HS_DOUBLE, HS_SCALAR, &s->w);
    hs_graph_placeholder(g, "seed", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(g, .name = "init", .run = init, .user = s);
    hs_graph_op(g, .name = "init_fed", .run = init, .user = s, .inputs = HS_NAMES("seed"));
    hs_graph_op(g, .name = "local_init", .run = local_init, .user = s);
    hs_graph_op(g, .name = "local_init_fed", .run = local_init_fed, .user = s, .inputs = HS_NAMES("seed"));
    hs_graph_op(g, .name = "init_x", .run = init_x, .user = s);
    hs_graph_op(g, .name = "local_init_all", .control_inputs = HS_NAMES("local_init", "init_x"));
    hs_graph_op(g, .name = "ready", .run = ready, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_op(g, .name = "ready_for_local", .run = ready_for_local, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_op(g, .name = "assert_ready", .run = assert_ready, .user = s);
    hs_graph_op(g, .name = "numbers", .run = numbers, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_INT32, .shape = HS_SHAPE(-1)}));
}

int served_setup(void **state)
{
    void *b;
    served *s = calloc(1, sizeof *s);
    if (!s || bare_setup(&b))
        return -1;
    *s = (served){.b = b, .v = NAN, .w = NAN, .x = NAN, .first = 1};
    s->options = *HS_SESSION_MANAGER_OPTIONS(.ready_op = "ready");
    s->options.env = &s->b->t.env;
    add_ops(s);
    s->spied = *hs_graph_backend(s->b->graph).ops;
    s->spied.open = count_open;
    s->spied.close = count_close;
    in_use = s;
    *state = s;
    return 0;
}

int served_teardown(void **state)
{
    served *s = *state;
    void *b = s->b;
    if (s->session)
        hs_session_close(s->session, NULL);
    hs_session_manager_free(s->manager);
    hs_saver_free(s->saver);
    if (s->directory)
        test_remove_directory(s->directory);
    int left = s->opened != s->closed;
    free(s);
    return bare_teardown(&b) || left ? -1 : 0;
}

hs_session_manager *served_manager(served *s)
{
    hs_session_manager_free(s->manager);
    s->manager = hs_session_manager_new(&s->options, &s->b->err);
    if (!s->manager)
        fail_msg("%s", s->b->err.message);
    return s->manager;
}

hs_backend served_backend(served *s)
{
    return (hs_backend){&s->spied, hs_graph_backend(s->b->graph).self};
}

bool served_prepare(served *s, const hs_session_manager_prepare_options *options)
{
    return (s->session = hs_session_manager_prepare(served_manager(s), served_backend(s), options, &s->b->err)) != NULL;
}

bool served_wait(served *s, double secs)
{
    const hs_session_manager_prepare_options options = HS_INIT(hs_session_manager_prepare_options, .max_wait_secs = secs);
    s->options.recovery_wait_secs = 1;
    return (s->session = hs_session_manager_wait(served_manager(s), served_backend(s), &options, &s->b->err)) != NULL;
}

double served_number(served *s, const char *name)
{
    const hs_run_values *values;
    assert_ok(hs_raw_session_run(hs_session_raw(s->session), HS_RUN_ARGS(.names = HS_NAMES(name)), &values, &s->b->err),
              &s->b->err);
    return hs_run_values_number(values, 0);
}

void served_close(served *s)
{
    assert_ok(hs_session_close(s->session, &s->b->err).error.code, &s->b->err);
    s->session = NULL;
}
