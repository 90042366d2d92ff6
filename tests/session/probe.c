/* SPDX-License-Identifier: Apache-2.0 */
#include "session/probe.h"

/* The hook. */

static hs_code called(probe *p, const probe_call *call)
{
    hs_code code =
        ++p->calls[call->point] == p->fails_at && call->point == p->fails_in ? (p->code ? p->code : HS_INTERNAL) : HS_OK;
    if (code && p->message)
        hs_error_set(call->err, code, "%s", p->message);
    if (!code && p->act)
        code = p->act(p, call);
    return code;
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    return called(self, &(probe_call){.point = PROBE_BEGIN, .backend = backend, .err = err});
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    probe *p = self;
    p->raw = session;
    p->coordinator = coordinator;
    return called(p, &(probe_call){.point = PROBE_CREATE, .raw = session, .coordinator = coordinator, .err = err});
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    probe *p = self;
    assert_null(*args);
    *args = p->wants;
    return called(p, &(probe_call){.point = PROBE_BEFORE, .run = run, .err = err});
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    probe *p = self;
    p->number = hs_run_values_number(values, 0);
    if (p->calls[PROBE_AFTER] + 1 == p->stops_at)
        hs_run_context_request_stop(run);
    return called(p, &(probe_call){.point = PROBE_AFTER, .run = run, .values = values, .err = err});
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    return called(self, &(probe_call){.point = PROBE_BOUNDARY, .run = run, .err = err});
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    return called(self, &(probe_call){.point = PROBE_END, .raw = session, .err = err});
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    probe *p = self;
    p->outcome = *outcome;
    called(p, &(probe_call){.point = PROBE_CLOSE});
}

static void destroy(void *self)
{
    ((probe *)self)->destroyed++;
}

hs_hook probe_hook(probe *p)
{
    p->ops =
        (hs_hook_ops)HS_INIT(hs_hook_ops, .name = p->name, .begin = begin, .after_create_session = after_create_session,
                             .before_run = before_run, .after_run = after_run, .boundary = boundary, .end = end,
                             .close = close_hook, .destroy = destroy);
    return (hs_hook){.ops = &p->ops, .self = p};
}

/* The play. */

static const double five = 5, ten = 10;

int play_setup(void **state)
{
    play *p = calloc(1, sizeof *p);
    if (!p)
        return -1;
    test_env_init(&p->t);
    memset(&p->t.env.clock, 0, sizeof p->t.env.clock);
    p->script = hs_script_new(&p->t.env);
    hs_tensor constant = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &five);
    hs_script_constant(p->script, "five", &constant);
    constant = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &ten);
    hs_script_constant(p->script, "ten", &constant);
    for (const char *const *name = HS_NAMES("a", "b", "c"); *name; name++)
        hs_script_placeholder(p->script, *name);
    p->backend = hs_script_backend(p->script);
    p->a.name = "a";
    p->b.name = "b";
    p->c.name = "c";
    *state = p;
    return 0;
}

int play_teardown(void **state)
{
    play *p = *state;
    if (p->session)
        hs_session_close(p->session, NULL);
    hs_script_free(p->script);
    size_t live = p->t.live;
    free(p);
    return live ? -1 : 0;
}

static const hs_backend_ops *played(void)
{
    return hs_script_backend(NULL).ops;
}

static hs_code spy_finalize(void *self, bool finalized, hs_error *err)
{
    hs_script_note(self, finalized ? "finalize" : "unfinalize");
    return played()->finalize(self, finalized, err);
}

static hs_code spy_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    hs_script_note(self, "open");
    return played()->open(self, target, config, session, err);
}

static hs_code spy_close(void *session, hs_error *err)
{
    hs_script_note(session, "shut");
    return played()->close(session, err);
}

void play_spy(play *p)
{
    p->spied = *played();
    p->spied.finalize = spy_finalize;
    p->spied.open = spy_open;
    p->spied.close = spy_close;
    p->backend.ops = &p->spied;
}

hs_session *play_try_open(play *p, const hs_hook *hooks, size_t n)
{
    hs_session_options options = HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n));
    p->session = hs_session_open(p->backend, &options, &p->err);
    return p->session;
}

void play_open(play *p, const hs_hook *hooks, size_t n)
{
    if (!play_try_open(p, hooks, n))
        fail_msg("opening: %s: %s", hs_code_name(p->err.code), p->err.message);
}

void play_open_probes(play *p, size_t n)
{
    hs_hook hooks[] = {play_watch(p, &p->a), n > 1 ? play_watch(p, &p->b) : (hs_hook){0},
                       n > 2 ? play_watch(p, &p->c) : (hs_hook){0}};
    play_open(p, hooks, n);
}

hs_code play_args(play *p, const hs_run_args *args)
{
    return hs_session_run_args(p->session, args, &p->values, &p->err);
}

hs_code play_run(play *p, const char *const *names, const hs_feed *feeds)
{
    return play_args(p, HS_RUN_ARGS(.names = names, .feeds = feeds));
}

double play_number(play *p, const char *name)
{
    assert_ok(play_run(p, HS_NAMES(name), NULL), &p->err);
    return hs_run_values_number(p->values, 0);
}

int64_t play_train(play *p)
{
    assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
    return hs_session_global_step(p->session, NULL);
}

const hs_outcome *play_close(play *p)
{
    p->outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    return &p->outcome;
}

const char *play_calls(play *p)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", hs_script_calls(p->script));
    hs_script_clear_calls(p->script);
    return text;
}

hs_hook play_watch(play *p, probe *hook)
{
    return hs_script_watch(p->script, hook->name, probe_hook(hook));
}

hs_feed play_feed(const char *name, const double *value)
{
    return (hs_feed){name, hs_tensor_of(HS_DOUBLE, HS_SCALAR, value)};
}
