/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/poisoned.h"

#include <math.h>

static bool is_bad(const poisoned *p, int64_t batch)
{
    if (p->all_bad)
        return batch >= p->bad[0];
    for (size_t i = 0; i < sizeof p->bad / sizeof *p->bad; i++)
        if (p->bad[i] == batch)
            return true;
    return false;
}

static hs_code draw(void *self, hs_op *op, hs_error *err)
{
    poisoned *p = self;
    (void)op;
    if (p->length && p->position >= p->length)
        return hs_error_set(err, HS_OUT_OF_RANGE, "the data end");
    p->label = ++p->position;
    return HS_OK;
}

static hs_code compute(void *self, hs_op *op, hs_error *err)
{
    poisoned *p = self;
    (void)op, (void)err;
    for (size_t i = 0; i < 6; i++)
        p->gradient[i] = (float)p->label;
    if (is_bad(p, p->label))
        p->gradient[5] = NAN;
    return HS_OK;
}

static hs_code update(void *self, hs_op *op, hs_error *err)
{
    poisoned *p = self;
    (void)op, (void)err;
    p->weight += p->rate * p->gradient[0];
    return HS_OK;
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((poisoned *)self)->position, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((poisoned *)self)->position, sizeof(int64_t), err);
}

void poisoned_build(poisoned *p, const hs_env *env)
{
    hs_graph *g = p->graph = hs_graph_new(env);
    hs_graph_variable(g, "weight", HS_FLOAT, HS_SCALAR, &p->weight);
    hs_graph_variable(g, "rate", HS_FLOAT, HS_SCALAR, &p->rate);
    hs_graph_global_step(g, NULL, NULL);
    hs_graph_value(g, "gradient", HS_FLOAT, HS_SHAPE(2, 3), p->gradient);
    hs_graph_value(g, "label", HS_INT64, HS_SCALAR, &p->label);
    hs_graph_state(g, "position", save_position, load_position, p);
    hs_graph_op(g, .name = "draw", .run = draw, .user = p);
    hs_graph_op(g, .name = "compute", .run = compute, .user = p, .control_inputs = HS_NAMES("draw"));
    hs_graph_op(g, .name = "update", .run = update, .user = p, .advances_step = true);
    hs_graph_op(g, .name = "train", .run = update, .user = p, .control_inputs = HS_NAMES("compute"), .advances_step = true);
    p->weight = 0;
    p->rate = 1;
    p->position = 0;
}

int poisoned_setup(void **state)
{
    poisoned *p = calloc(1, sizeof *p);
    assert_non_null(p);
    void *made;
    stage_setup(&made);
    p->s = made;
    poisoned_build(p, &p->s->t.env);
    *state = p;
    return 0;
}

int poisoned_teardown(void **state)
{
    poisoned *p = *state;
    void *made = p->s;
    if (p->s->session)
        hs_session_close(p->s->session, NULL);
    p->s->session = NULL;
    hs_graph_free(p->graph);
    int failed = stage_teardown(&made);
    free(p);
    return failed;
}

hs_code poisoned_open(poisoned *p, bool resumes, const hs_hook *hooks, size_t n)
{
    hs_session_options options =
        HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n), .checkpoint_dir = resumes ? p->s->directory : NULL);
    p->s->session = hs_session_open(hs_graph_backend(p->graph), &options, &p->s->err);
    return p->s->session ? HS_OK : p->s->err.code;
}

hs_code poisoned_run(poisoned *p, const char *op, int times)
{
    hs_code code = HS_OK;
    for (int i = 0; !code && i < times && !hs_session_should_stop(p->s->session); i++)
        code = stage_run_once(p->s, op);
    return code;
}
