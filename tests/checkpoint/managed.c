/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/managed.h"

hs_code begin_at_step_2(void *user, hs_raw_session *session, hs_error *err)
{
    beginning *b = user;
    b->calls++;
    assert_ptr_equal(session, model_raw(b->m));
    model_set(b->m, 2);
    return b->fail ? hs_error_set(err, b->fail, "no pretrained model") : HS_OK;
}

hs_checkpoint_manager *new_manager(fixture *f, hs_checkpoint_manager_options options)
{
    hs_saver_options saver = HS_INIT(hs_saver_options, .env = &f->t.env);
    if (!options.checkpoint_dir)
        options.checkpoint_dir = f->directory;
    if (!options.saver)
        options.saver = &saver;
    hs_checkpoint_manager *manager = hs_checkpoint_manager_new(&options, &f->err);
    if (!manager)
        fail_msg("%s", f->err.message);
    return manager;
}

const char *save_as(fixture *f, hs_checkpoint_manager *manager, int64_t step, int64_t number, bool now)
{
    const char *path;
    model_set(&f->m, step);
    hs_code code = now ? hs_checkpoint_manager_save_now(manager, model_raw(&f->m), number, NULL, &path, &f->err)
                       : hs_checkpoint_manager_save(manager, model_raw(&f->m), number, NULL, &path, &f->err);
    assert_ok(code, &f->err);
    assert_int_equal(f->err.code, HS_OK);
    if (!path)
        return NULL;
    assert_true(hs_checkpoint_exists(&f->t.env, path));
    assert_int_equal(strncmp(path, f->directory, strlen(f->directory)), 0);
    return path + strlen(f->directory) + 1;
}

const char *save_at_step(fixture *f, hs_checkpoint_manager *manager, int64_t step)
{
    return save_as(f, manager, step, step, false);
}

const char *save_next(fixture *f, hs_checkpoint_manager *manager)
{
    return save_as(f, manager, f->m.step, -1, false);
}

const char *restore_managed(fixture *f, hs_checkpoint_manager *manager)
{
    const char *path;
    hs_raw_session *session = model_raw(&f->m);
    assert_ok(hs_checkpoint_manager_restore_or_initialize(manager, session, NULL, &path, &f->err), &f->err);
    return path ? path + strlen(f->directory) + 1 : NULL;
}

const char *kept_by(const hs_checkpoint_manager *manager)
{
    static char text[256];
    const char *path;
    text[0] = '\0';
    for (size_t i = 0; (path = hs_saver_checkpoint(hs_checkpoint_manager_saver(manager), i)); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", strrchr(path, '/') + 1);
    return text;
}
