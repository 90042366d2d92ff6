/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weights.h"

const char *weights_file(const fixture *f)
{
    return test_path(f->directory, "m.safetensors");
}

hs_code save_weights_with(fixture *f, const hs_safetensors_options *options)
{
    return hs_safetensors_save(model_raw(&f->m), weights_file(f), options, &f->err);
}

void save_weights(fixture *f, int64_t step)
{
    model_set(&f->m, step);
    assert_ok(save_weights_with(f, NULL), &f->err);
}

hs_code load_weights(fixture *f, const hs_restore_options *options)
{
    model_set(&f->m, 9);
    return hs_safetensors_load(model_raw(&f->m), weights_file(f), options, &f->err);
}

bool has_tensor(fixture *f, const char *name)
{
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, weights_file(f), &f->err);
    assert_non_null(reader);
    bool found = hs_checkpoint_find(reader, name, NULL, NULL) == HS_OK;
    hs_checkpoint_close(reader);
    return found;
}

hs_session *open_single(fixture *f, hs_graph **graph, const hs_variable_def *def)
{
    *graph = hs_graph_new(&f->t.env);
    hs_graph_add_variable(*graph, def);
    hs_session *session = hs_session_open(hs_graph_backend(*graph), NULL, &f->err);
    if (!session)
        fail_msg("%s", f->err.message);
    return session;
}
