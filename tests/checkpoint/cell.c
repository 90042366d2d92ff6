/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/cell.h"

#include "formats/bundle.h"

static hs_code save_cell(void *self, hs_state_writer *out, hs_error *err)
{
    const cell *c = self;
    char *padding = calloc(1, c->padding + 1);
    hs_code code = hs_state_writer_write(out, padding, c->padding, err);
    free(padding);
    return code ? code : hs_state_writer_write(out, &c->value, sizeof c->value, err);
}

static hs_code load_cell(void *self, hs_state_reader *in, hs_error *err)
{
    cell *c = self;
    c->loads++;
    c->version = hs_state_reader_version(in);
    if (c->fails)
        return hs_error_set(err, c->fails, "the disk of the data is gone");
    char byte;
    hs_code code = HS_OK;
    while (!code && hs_state_reader_remaining(in) > sizeof c->value)
        code = hs_state_reader_read(in, &byte, 1, err);
    return code ? code : hs_state_reader_read(in, &c->value, sizeof c->value, err);
}

hs_state_provider cell_provider(cell *c, const char *name)
{
    return cell_of(c, name, 0, NULL);
}

hs_state_provider cell_of(cell *c, const char *name, int64_t version, const char *identity)
{
    return (hs_state_provider)HS_INIT(hs_state_provider, .name = name, .save = save_cell, .load = load_cell,
                                      .version = version, .self = c, .identity = identity);
}

hs_code reopen(fixture *f, const hs_state_provider *provider, const hs_session_options *options)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    if (provider)
        hs_graph_add_state(f->m.graph, provider);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), options, &f->err);
    return f->err.code;
}

hs_code open_with_state(fixture *f, const hs_state_provider *provider)
{
    return reopen(f, provider, HS_SESSION_OPTIONS(.checkpoint_dir = f->directory));
}

void save_loader(fixture *f, int64_t version, const char *identity)
{
    cell c = {.value = 5};
    hs_state_provider provider = cell_of(&c, "loader", version, identity);
    assert_ok(open_with_state(f, &provider), &f->err);
    save_at(f, 1);
}

hs_code load_loader(fixture *f, cell *c, int64_t version, const char *identity)
{
    hs_state_provider provider = cell_of(c, "loader", version, identity);
    model_set(&f->m, 9);
    return open_with_state(f, &provider);
}

void write_checkpoint_with(const fixture *f, int64_t step, const hs_feed *others)
{
    hs__bundle_writer writer;
    int64_t five = 5;
    const hs_feed tensors[] = {
        {"weights", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), f->m.weights)},
        {"bias", hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), f->m.bias)},
        {"global_step", hs_tensor_of(HS_INT64, HS_SCALAR, &f->m.step)},
        {"hooksess/state/loader", hs_tensor_of(HS_UINT8, HS_SHAPE(sizeof five), &five)},
        {.name = NULL},
    };
    const hs_feed *const lists[] = {tensors, others};
    assert_int_equal(hs__bundle_writer_open(&writer, hs_env_default(), file_of(f, step, DATA), 0, 1, NULL), HS_OK);
    for (size_t i = 0; i < 2; i++)
        for (const hs_feed *tensor = lists[i]; tensor->name; tensor++)
            assert_int_equal(hs__bundle_writer_add(&writer, tensor->name, &tensor->value, NULL), HS_OK);
    assert_int_equal(hs__bundle_writer_finish(&writer, file_of(f, step, "index"), NULL), HS_OK);
    hs__bundle_writer_close(&writer);
}

bool has_tensor(fixture *f, int64_t step, const char *name)
{
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, step, NULL), &f->err);
    assert_non_null(reader);
    bool has = hs_checkpoint_find(reader, name, NULL, NULL) == HS_OK;
    hs_checkpoint_close(reader);
    return has;
}

size_t times_logged(const fixture *f, const char *text)
{
    size_t n = 0;
    for (const char *at = f->t.log; (at = strstr(at, text)); at++)
        n++;
    return n;
}
