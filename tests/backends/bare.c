/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/bare.h"

#include <math.h>

int bare_setup(void **state)
{
    bare *b = calloc(1, sizeof *b);
    if (!b)
        return -1;
    test_env_init(&b->t);
    b->graph = hs_graph_new(&b->t.env);
    b->ops = hs_graph_backend(b->graph).ops;
    *state = b;
    return b->graph ? 0 : -1;
}

int bare_teardown(void **state)
{
    bare *b = *state;
    bare_close(b);
    hs_graph_free(b->graph);
    size_t live = b->t.live;
    free(b);
    return live ? -1 : 0;
}

hs_code bare_try_open(bare *b)
{
    hs_code code = b->ops->finalize(b->graph, true, &b->err);
    return code ? code : b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &b->session, &b->err);
}

void bare_open(bare *b)
{
    assert_ok(bare_try_open(b), &b->err);
}

void bare_close(bare *b)
{
    if (b->session)
        b->ops->close(b->session, NULL);
    b->session = NULL;
    b->ops->finalize(b->graph, false, NULL);
}

hs_code bare_run(bare *b, const char *const *names, const hs_feed *feeds, const hs_run_options *options)
{
    hs_backend_feed found[BARE_MAX];
    size_t n = 0, n_feeds = 0;
    for (; names && names[n]; n++)
        assert_ok(b->ops->find(b->graph, names[n], &b->fetches[n], &b->err), &b->err);
    for (; feeds && feeds[n_feeds].name; n_feeds++) {
        found[n_feeds].value = &feeds[n_feeds].value;
        assert_ok(b->ops->find(b->graph, feeds[n_feeds].name, &found[n_feeds].node, &b->err), &b->err);
    }
    hs_backend_call call = {
        .size = sizeof call,
        .fetches = b->fetches,
        .n_fetches = n,
        .feeds = found,
        .n_feeds = n_feeds,
        .options = options,
        .values = b->values,
    };
    hs_error_clear(&b->err);
    memset(b->values, 0x5a, sizeof b->values); /* the run must set all fetched values */
    hs_code code = b->ops->run(b->session, &call, &b->err);
    b->metadata = call.metadata;
    return code;
}

double bare_number(bare *b, const char *name)
{
    assert_ok(bare_run(b, HS_NAMES(name), NULL, NULL), &b->err);
    return b->values[0].data ? hs_tensor_number(&b->values[0], 0) : (double)NAN;
}

hs_code bare_traced(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    bare *b = self;
    if (b->trace[0])
        strcat(b->trace, " ");
    strcat(b->trace, hs_op_name(op));
    return HS_OK;
}

hs_code bare_add_one(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(double *)hs_op_output(op, 0)->data = hs_tensor_number(hs_op_input(op, 0), 0) + 1;
    return HS_OK;
}

hs_code bare_sum(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    double sum = 0;
    for (size_t i = 0; hs_op_input(op, i); i++)
        sum += hs_tensor_number(hs_op_input(op, i), 0);
    *(double *)hs_op_output(op, 0)->data = sum;
    return HS_OK;
}

hs_code bare_bump(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    ++*(double *)hs_op_written(op, 0)->data;
    return HS_OK;
}

hs_code bare_fail(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op;
    return hs_error_set(err, HS_ABORTED, "no luck");
}
