/* SPDX-License-Identifier: Apache-2.0 */
#include "session/own.h"

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static hs_code same(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return hs_op_set_output(op, 0, hs_op_input(op, 0), err);
}

int own_setup(void **state)
{
    own *o = calloc(1, sizeof *o);
    if (!o)
        return -1;
    test_env_init(&o->t);
    o->directory = test_make_directory();
    o->calls = hs_script_new(NULL);
    o->graph = hs_graph_new(&o->t.env);
    hs_graph_variable(o->graph, "weight", HS_DOUBLE, HS_SCALAR, &o->weight);
    hs_graph_value(o->graph, "loss", HS_DOUBLE, HS_SCALAR, &o->loss);
    hs_graph_state(o->graph, "data", save_position, load_position, &o->position);
    hs_graph_global_step(o->graph, NULL, NULL);
    hs_graph_placeholder(o->graph, "in", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(o->graph, .name = "same", .run = same, .inputs = HS_NAMES("in"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_ANY_SHAPE}));
    own_probe(o, a, .code = 0);
    own_probe(o, b, .code = 0);
    o->recovery = *HS_RECOVERY(.max_attempts = HS_NEVER);
    *state = o;
    return hs_graph_error(o->graph, NULL);
}

int own_teardown(void **state)
{
    own *o = *state;
    if (o->session)
        hs_session_close(o->session, NULL);
    hs_graph_free(o->graph);
    hs_script_free(o->calls);
    test_remove_directory(o->directory);
    size_t live = o->t.live;
    free(o);
    return live ? -1 : 0;
}

void own_open(own *o, const hs_session_options *given, const hs_hook *hooks, size_t n)
{
    hs_session_options options = given ? *given : (hs_session_options)HS_INIT(hs_session_options);
    options.hooks = test_hooks(hooks, n);
    options.recovery = &o->recovery;
    o->session = hs_session_open(hs_graph_backend(o->graph), &options, &o->err);
    if (!o->session)
        fail_msg("opening: %s: %s", hs_code_name(o->err.code), o->err.message);
}

void own_open_probes(own *o, const hs_session_options *options)
{
    const hs_hook hooks[] = {hs_script_watch(o->calls, "a", probe_hook(&o->a)),
                             hs_script_watch(o->calls, "b", probe_hook(&o->b))};
    own_open(o, options, hooks, 2);
}

void own_open_hook(own *o, hs_hook hook)
{
    own_open(o, NULL, &hook, 1);
}

void own_compute(own *o)
{
    o->weight += (double)++o->position;
    o->loss = -o->weight;
}

hs_code own_step(own *o)
{
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    return hs_step_end(o->session);
}

int own_loop(own *o, int most)
{
    int n = 0;
    while (n < most && hs_step_begin(o->session)) {
        own_compute(o);
        n++;
        hs_step_end(o->session);
    }
    return n;
}

const hs_outcome *own_close(own *o)
{
    o->outcome = hs_session_close(o->session, &o->err);
    o->session = NULL;
    return &o->outcome;
}

void own_forget(own *o)
{
    o->weight = o->loss = 0;
    o->position = 0;
}

const char *own_calls(own *o)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", hs_script_calls(o->calls));
    hs_script_clear_calls(o->calls);
    return text;
}

double own_saved(own *o, const char *name)
{
    char *path = hs_checkpoint_latest(NULL, o->directory, NULL, &o->err);
    if (!path)
        return -1;
    double number;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, &o->err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_read(reader, name, &number, sizeof number, &o->err), &o->err);
    hs_checkpoint_close(reader);
    hs_env_free(NULL, path);
    return number;
}
