/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/queued.h"

#include <sched.h>

static void enter(counter *c)
{
    if (atomic_exchange(&c->inside, true))
        atomic_store(&c->met, true);
}

hs_code counter_produce(void *self, hs_op *op, hs_error *err)
{
    counter *c = self;
    enter(c);
    hs_code code = HS_OK;
    atomic_fetch_add(&c->n, 1);
    if (c->fails_at && c->at + 1 == c->fails_at)
        code = hs_error_set(err, HS_ABORTED, "no luck");
    else if (c->at >= c->last)
        code = hs_error_set(err, HS_OUT_OF_RANGE, "no more numbers");
    else
        *(int64_t *)hs_op_output(op, 0)->data = ++c->at;
    atomic_store(&c->inside, false);
    return code;
}

hs_code counter_save(void *self, hs_state_writer *out, hs_error *err)
{
    counter *c = self;
    enter(c);
    hs_code code = hs_state_writer_write(out, &c->at, sizeof c->at, err);
    atomic_store(&c->inside, false);
    return code;
}

hs_code counter_load(void *self, hs_state_reader *in, hs_error *err)
{
    counter *c = self;
    enter(c);
    hs_code code = hs_state_reader_read(in, &c->at, sizeof c->at, err);
    atomic_store(&c->inside, false);
    return code;
}

hs_code gate_produce(void *self, hs_op *op, hs_error *err)
{
    gate *g = self;
    atomic_store(&g->entered, true);
    while (!atomic_load(&g->may_leave))
        sched_yield();
    return counter_produce(&g->c, op, err);
}

void gate_await(gate *g)
{
    while (!atomic_load(&g->entered))
        sched_yield();
}

int queued_setup(void **state)
{
    if (bare_setup(state))
        return -1;
    bare *b = *state;
    hs_graph_free(b->graph);
    b->graph = hs_graph_new(NULL);
    return b->graph ? 0 : -1;
}

void queued_add(bare *b, counter *c, int64_t capacity)
{
    hs_graph_queue(b->graph, .name = "q", .capacity = capacity, .components = QUEUED_NUMBER, .produce = counter_produce,
                   .user = c, .threads = HS_NEVER);
}

void queued_add_position(bare *b, counter *c, int64_t capacity)
{
    hs_state_provider position =
        HS_INIT(hs_state_provider, .name = "reader", .save = counter_save, .load = counter_load, .self = c);
    hs_graph_queue(b->graph, .name = "q", .capacity = capacity, .components = QUEUED_NUMBER, .produce = counter_produce,
                   .user = c, .threads = HS_NEVER, .position = &position);
}

static hs_code run(const hs_backend_ops *ops, void *session, const hs_node *node, hs_tensor *value, hs_error *err)
{
    hs_tensor ignored;
    hs_backend_call call = {.size = sizeof call, .fetches = node, .n_fetches = 1, .values = value ? value : &ignored};
    return ops->run(session, &call, err);
}

hs_code queued_run(bare *b, void *session, const char *name, hs_tensor *value, hs_error *err)
{
    hs_node node;
    hs_code code = b->ops->find(b->graph, name, &node, err);
    return code ? code : run(b->ops, session, &node, value, err);
}

void queued_enqueue(bare *b, int times)
{
    for (int i = 0; i < times; i++)
        assert_ok(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), &b->err);
}

void queued_close(bare *b)
{
    assert_ok(bare_run(b, HS_NAMES("q/close"), NULL, NULL), &b->err);
}

int64_t queued_dequeue(bare *b)
{
    assert_ok(bare_run(b, HS_NAMES("q/dequeue"), NULL, NULL), &b->err);
    return *(int64_t *)b->values[0].data;
}

int64_t queued_size(bare *b)
{
    return (int64_t)bare_number(b, "q/size");
}

hs_code queued_failing_dequeue(bare *b)
{
    hs_code code = bare_run(b, HS_NAMES("q/dequeue"), NULL, NULL);
    assert_int_not_equal(code, HS_OK);
    return code;
}

void *queued_fork(bare *b)
{
    void *fork = NULL;
    assert_ok(b->ops->fork(b->session, &fork, &b->err), &b->err);
    return fork;
}

static void *fill(void *user)
{
    filler *f = user;
    while (!run(f->ops, f->fork, &f->enqueue, NULL, &f->err))
        ;
    run(f->ops, f->fork, &f->close, NULL, NULL);
    f->ops->close(f->fork, NULL);
    return NULL;
}

void filler_start(filler *f, bare *b)
{
    *f = (filler){.ops = b->ops, .fork = queued_fork(b)};
    assert_ok(b->ops->find(b->graph, "q/enqueue", &f->enqueue, &b->err), &b->err);
    assert_ok(b->ops->find(b->graph, "q/close", &f->close, &b->err), &b->err);
    assert_int_equal(pthread_create(&f->thread, NULL, fill, f), 0);
}

hs_code filler_join(filler *f)
{
    pthread_join(f->thread, NULL);
    return f->err.code;
}
