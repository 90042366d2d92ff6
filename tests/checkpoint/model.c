/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/model.h"

#include "checkpoint/restore.h"

#include <unistd.h>

/* The model. */

void model_set(model *m, int64_t step)
{
    for (int i = 0; i < 6; i++)
        m->weights[i] = (float)step + (float)i / 8;
    for (int i = 0; i < 2; i++)
        m->bias[i] = -(double)step - i;
    m->step = step;
}

bool model_is(const model *m, int64_t step)
{
    model wanted;
    model_set(&wanted, step);
    return m->step == step && memcmp(m->weights, wanted.weights, sizeof wanted.weights) == 0 &&
           memcmp(m->bias, wanted.bias, sizeof wanted.bias) == 0;
}

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    model *m = self;
    model_set(m, hs_op_global_step(op, NULL) + 1);
    m->step = hs_op_global_step(op, NULL); /* the graph advances it */
    return HS_OK;
}

void model_build(model *m, const hs_env *env)
{
    m->graph = hs_graph_new(env);
    hs_graph_variable(m->graph, "weights", HS_FLOAT, HS_SHAPE(2, 3), m->weights);
    hs_graph_variable(m->graph, "bias", HS_DOUBLE, HS_SHAPE(2), m->bias);
    hs_graph_global_step(m->graph, NULL, &m->step);
    hs_graph_op(m->graph, .name = "train", .run = train, .user = m, .writes = HS_NAMES("weights", "bias"),
                .advances_step = true);
}

hs_code model_open(model *m, const hs_env *env, const char *directory)
{
    model_build(m, env);
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = directory);
    m->session = hs_session_open(hs_graph_backend(m->graph), &options, &m->err);
    return m->err.code;
}

hs_raw_session *model_raw(const model *m)
{
    return hs_session_raw(m->session);
}

hs_code model_train(model *m, int steps)
{
    hs_code code = HS_OK;
    for (int i = 0; i < steps && !code; i++)
        code = hs_session_run(m->session, "train", &m->err);
    return code;
}

hs_outcome model_close(model *m)
{
    hs_outcome outcome = hs_session_close(m->session, &m->err);
    hs_graph_free(m->graph);
    m->session = NULL;
    m->graph = NULL;
    return outcome;
}

/* The fixture. */

int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    f->directory = test_make_directory();
    assert_ok(model_open(&f->m, &f->t.env, NULL), &f->m.err);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture *f = *state;
    model_close(&f->m);
    hs_saver_free(f->saver);
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    free(f);
    assert_int_equal(left, 0);
    return 0;
}

void assert_came(const fixture *f, bool weights, bool bias, bool step)
{
    model three = {.step = 0}, nine = {.step = 0};
    model_set(&three, 3);
    model_set(&nine, 9);
    assert_memory_equal(f->m.weights, weights ? three.weights : nine.weights, sizeof three.weights);
    assert_memory_equal(f->m.bias, bias ? three.bias : nine.bias, sizeof three.bias);
    assert_int_equal(f->m.step, step ? 3 : 9);
}

void use_saver(fixture *f, hs_saver_options options)
{
    hs_saver_free(f->saver);
    if (!options.env)
        options.env = &f->t.env;
    f->saver = hs_saver_new(&options, &f->err);
    assert_non_null(f->saver);
}

void save_at(fixture *f, int64_t step)
{
    model_set(&f->m, step);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, NULL, &f->err),
              &f->err);
}

hs_code restore_newest(fixture *f)
{
    char *path = NULL;
    model_set(&f->m, -7);
    hs_code code = hs__restore_newest(f->saver, model_raw(&f->m), f->directory, HS_RESTORE_OPTIONS(), &path, &f->err);
    snprintf(f->restored, sizeof f->restored, "%s", path ? path : "");
    hs_env_free(&f->t.env, path);
    return code;
}

hs_code restart(fixture *f)
{
    model_close(&f->m);
    assert_ok(model_open(&f->m, &f->t.env, NULL), &f->m.err);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    return restore_newest(f);
}

const char *file_of(const fixture *f, int64_t step, const char *ending)
{
    char name[128];
    snprintf(name, sizeof name, "model.ckpt-%lld%s%s", (long long)step, ending ? "." : "", ending ? ending : "");
    return test_path(f->directory, name);
}

bool has_file(const fixture *f, int64_t step, const char *ending)
{
    return access(file_of(f, step, ending), F_OK) == 0;
}

/* Damage. */

void flip_bit(const char *path, size_t bit)
{
    size_t bytes;
    char *data = test_read_file(path, &bytes);
    assert_non_null(data);
    assert_true(bit / 8 < bytes);
    data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    test_write_file(path, data, bytes);
    free(data);
}

void truncate_to(const char *path, size_t bytes)
{
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

void write_state(const fixture *f, const char *text)
{
    test_write_file(test_path(f->directory, "checkpoint"), text, strlen(text));
}
