/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

#include "hooks/make.h"

/* The stage. */

int stage_setup(void **state)
{
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_env_init(&s->t);
    hs__set_hook_memory(&s->t.env);
    s->directory = test_make_directory();
    s->script = hs_script_new(&s->t.env);
    assert_non_null(s->script);
    *state = s;
    return 0;
}

int stage_teardown(void **state)
{
    stage *s = *state;
    if (s->session)
        hs_session_close(s->session, NULL);
    hs_script_free(s->script);
    test_remove_directory(s->directory);
    size_t left = s->t.live;
    hs__set_hook_memory(NULL);
    free(s);
    assert_int_equal(left, 0);
    return 0;
}

hs_code stage_try(stage *s, hs_backend backend, const hs_hook *hooks, size_t n)
{
    hs_session_options options = HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n));
    s->session = hs_session_open(backend, &options, &s->err);
    return s->session ? HS_OK : s->err.code;
}

void stage_open(stage *s, hs_hook hook)
{
    assert_ok(stage_try(s, hs_script_backend(s->script), &hook, 1), &s->err);
}

hs_code stage_run_once(stage *s, const char *op)
{
    return hs_session_run(s->session, op, &s->err);
}

void stage_run(stage *s, const char *op, int times, double secs)
{
    for (int i = 0; i < times; i++) {
        if (i)
            test_env_advance(&s->t, secs);
        assert_ok(stage_run_once(s, op), &s->err);
    }
}

void stage_close(stage *s)
{
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_ok(s->outcome.error.code, &s->err);
}

void stage_refuses(stage *s, hs_hook hook, hs_code expected, const char *message)
{
    assert_fails(stage_try(s, hs_script_backend(s->script), &hook, 1), expected, &s->err, message);
}

/* A hook around a hook. */

typedef struct {
    hs_hook hook;
    hs_hook_ops ops;
} wrapper;

static hs_code w_begin(void *self, hs_backend backend, hs_error *err)
{
    const wrapper *w = self;
    return w->hook.ops->begin ? w->hook.ops->begin(w->hook.self, backend, err) : HS_OK;
}

static hs_code w_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    const wrapper *w = self;
    return w->hook.ops->before_run ? w->hook.ops->before_run(w->hook.self, run, args, err) : HS_OK;
}

static hs_code w_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const wrapper *w = self;
    return w->hook.ops->after_run ? w->hook.ops->after_run(w->hook.self, run, values, err) : HS_OK;
}

static hs_code w_boundary(void *self, hs_run_context *run, hs_error *err)
{
    const wrapper *w = self;
    bool created = hs_run_context_boundary(run) == HS_BOUNDARY_CREATED;
    return w->hook.ops->boundary && !created ? w->hook.ops->boundary(w->hook.self, run, err) : HS_OK;
}

static hs_code w_end(void *self, hs_raw_session *session, hs_error *err)
{
    const wrapper *w = self;
    return w->hook.ops->end ? w->hook.ops->end(w->hook.self, session, err) : HS_OK;
}

static void w_close(void *self, const hs_outcome *outcome)
{
    const wrapper *w = self;
    if (w->hook.ops->close)
        w->hook.ops->close(w->hook.self, outcome);
}

static void w_destroy(void *self)
{
    wrapper *w = self;
    hs_hooks_free(HS_HOOKS(w->hook));
    free(w);
}

hs_hook without_creation(hs_hook hook)
{
    wrapper *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->hook = hook;
    w->ops = (hs_hook_ops)HS_INIT(hs_hook_ops, .name = hook.ops->name, .begin = w_begin,
                                  .before_run = hook.ops->before_run ? w_before : NULL, .after_run = w_after,
                                  .boundary = w_boundary, .end = w_end, .close = w_close, .destroy = w_destroy);
    return (hs_hook){.ops = &w->ops, .self = w, .when = hook.when};
}

/* A backend around a backend. */

static counted *counting;

static hs_code c_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    counting->opens++;
    return counting->inner.ops->open(self, target, config, session, err);
}

static hs_code c_step(void *session, int64_t *step, hs_error *err)
{
    counting->step_reads++;
    return counting->inner.ops->global_step(session, step, err);
}

hs_backend count_calls(counted *c, hs_backend inner)
{
    *c = (counted){.inner = inner, .ops = *inner.ops};
    c->ops.open = c_open;
    c->ops.global_step = c_step;
    counting = c;
    return (hs_backend){&c->ops, inner.self};
}

/* Slow saves. */

static hs_code pass_time(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    stage *s = self;
    (void)session, (void)step, (void)err;
    test_env_advance(&s->t, s->save_secs);
    return HS_OK;
}

hs_hook stage_slow_saver(stage *s, double secs)
{
    static const hs_saver_listener_ops slow = HS_INIT(hs_saver_listener_ops, .before_save = pass_time);
    s->save_secs = secs;
    return hs_checkpoint_saver(.checkpoint_dir = test_path(s->directory, "saves"), .every_n_secs = 1e6,
                               .listeners = HS_LISTENERS({.ops = &slow, .self = s}));
}

/* Reading results. */

int64_t latest_step(const char *directory)
{
    int64_t step = -1;
    hs_error err;
    char *path = hs_checkpoint_latest(NULL, directory, NULL, &err);
    if (!path)
        return -1;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, &err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_read(reader, "global_step", &step, sizeof step, &err), &err);
    hs_checkpoint_close(reader);
    hs_env_free(NULL, path);
    return step;
}

size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}
