/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that notes, after each step, what all there is looks like. */
#include "drivers/resume.h"

#include <hooksess/tf1/scaffold.h>

#include "base/crc32c.h"
#include "checkpoint/source.h"
#include "session/session.h"

#include <string.h>

/* Lines. */

typedef struct {
    hs__buffer *to;
    int64_t step;
    const char *kind;
} lines;

static uint32_t checksum(const hs_tensor *value)
{
    if (value->dtype != HS_STRING)
        return hs__crc32c(0, value->data, value->bytes);
    const hs_string *strings = value->data;
    uint32_t crc = 0;
    for (size_t i = 0; i < value->bytes / sizeof *strings; i++) {
        crc = hs__crc32c(crc, &strings[i].bytes, sizeof strings[i].bytes);
        crc = hs__crc32c(crc, strings[i].data, strings[i].bytes);
    }
    return crc;
}

static hs_code add_checked(const lines *l, const char *name, const hs_tensor *value, uint32_t crc, hs_error *err)
{
    char shape[HS_SHAPE_TEXT_SIZE];
    hs_shape of = hs_tensor_shape(value);
    hs__buffer_text(l->to, "%lld %s %08lx:%zu %s %s ", (long long)l->step, l->kind, (unsigned long)crc, value->bytes,
                    hs_dtype_name(value->dtype), hs_shape_text(&of, shape, sizeof shape));
    for (; *name; name++)
        hs__buffer_append(l->to, (unsigned char)*name < ' ' ? "?" : name, 1);
    hs__buffer_append(l->to, "\n", 1);
    return hs__buffer_check(l->to, "the record of a step", err);
}

static hs_code add_line(const lines *l, const char *name, const hs_tensor *value, hs_error *err)
{
    return add_checked(l, name, value, checksum(value), err);
}

/* State that comes piece by piece. */
typedef struct {
    uint32_t crc;
    size_t bytes;
} piecewise;

static hs_code check_piece(void *user, const void *data, size_t bytes, hs_error *err)
{
    piecewise *p = user;
    (void)err;
    p->crc = hs__crc32c(p->crc, data, bytes);
    p->bytes += bytes;
    return HS_OK;
}

static hs_code add_produced(const lines *to, const hs__saved *saved, hs_error *err)
{
    piecewise pieces = {0, 0};
    hs_code code = saved->produce(saved->source, check_piece, &pieces, err);
    if (code)
        return code;
    hs_shape shape = {.rank = 1, .dims = {(int64_t)pieces.bytes}};
    const hs_tensor value = hs_tensor_of(HS_UINT8, shape, NULL);
    return add_checked(to, saved->name, &value, pieces.crc, err);
}

static hs_code add_saved(void *user, const hs__saved *saved, hs_error *err)
{
    const lines *to = user;
    char text[HS__BOX_TEXT_SIZE];
    if (saved->produce)
        return add_produced(to, saved, err);
    if (!saved->slice)
        return add_line(user, saved->name, &saved->value, err);
    hs_shape shape = hs_tensor_shape(&saved->value);
    hs__box box = hs__box_of(&shape);
    memcpy(box.starts, saved->slice->starts, sizeof box.starts);
    char *name = hs__format(to->to->env, "%s %s", saved->name, hs__box_text(&box, text, sizeof text));
    hs_code code = name ? add_line(user, name, &saved->value, err) : hs__no_memory(err, strlen(saved->name), "a name");
    hs__free(to->to->env, name);
    return code;
}

/* The hook. */

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    hs__recorder *r = self;
    hs_code code = HS_OK;
    r->begun = true;
    for (size_t i = 0; !code && r->fetches && r->fetches[i]; i++)
        code = hs_backend_check_tensor(backend, r->fetches[i], err);
    return code;
}

static hs_saver *saver_of(const hs_raw_session *session)
{
    return hs_scaffold_saver(session->owner->scaffold);
}

/* One that saves as the session's does, and leaves the session's alone. */
static hs_code make_saver(hs__recorder *r, const hs_raw_session *session, hs_error *err)
{
    const hs_saver *like = saver_of(session);
    hs_saver_options options =
        HS_INIT(hs_saver_options, .env = r->env, .variables = like->variables, .names = like->names,
                .nonfinite = like->nonfinite, .graph_saves = like->graph.saves, .graph_restores = like->graph.restores);
    hs__buffer def;
    hs_error error = {0};
    hs__buffer_init(&def, r->env);
    if (like->graph.def)
        hs__graph_saver_pack(&like->graph, like->graph.def, &def);
    options.saver_def = (hs_bytes){def.data, def.size};
    if (!hs__buffer_check(&def, "a SaverDef", &error) && !r->saver)
        r->saver = hs_saver_new(&options, &error);
    hs__buffer_free(&def);
    return hs__error_copy(err, &error);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    hs__recorder *r = self;
    const hs__resume_order *order = r->order;
    (void)coordinator;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    if (order->trial != HS__TRIAL_WHOLE)
        return step == order->middle || r->last >= 0
                   ? HS_OK
                   : hs_error_set(err, HS_FAILED_PRECONDITION,
                                  "the run begins at step %lld, and not at %lld, of which it was left a checkpoint; give "
                                  "its session the trial's directory (hs_resume_trial.checkpoint_dir)",
                                  (long long)step, (long long)order->middle);
    if (step >= order->middle && r->last < 0)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the run begins at step %lld, not before %lld, which is to be resumed from", (long long)step,
                            (long long)order->middle);
    return make_saver(r, session, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    hs__recorder *r = self;
    (void)run, (void)err;
    if (r->fetches)
        *args = &r->wants;
    return HS_OK;
}

/* Values of a run are noted at once: they are not kept until the boundary. */
static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    hs__recorder *r = self;
    lines fetched = {.to = &r->fetched, .kind = "fetch", .step = hs_run_context_global_step(run, err)};
    hs_code code = err->code;
    hs__buffer_clear(&r->fetched);
    for (size_t i = 0; !code && i < hs_run_values_count(values); i++) {
        hs_tensor host;
        const hs_tensor *value = hs_run_values_tensor(values, i);
        if (!(code = hs_tensor_host(value, &r->copy, &host, err)))
            code = add_line(&fetched, r->fetches[i], &host, err);
    }
    hs_run_context_request_boundary(run);
    return code;
}

static hs_code record(hs__recorder *r, const hs_raw_session *session, int64_t step, hs_error *err)
{
    lines states = {&r->line, step, "state"}, variables = {&r->line, step, "variable"};
    hs__buffer_clear(&r->line);
    hs_code code = hs__each_state(saver_of(session), session, add_saved, &states, err);
    if (code || (code = hs__each_variable(saver_of(session), session, add_saved, &variables, err)))
        return code;
    hs__buffer_append(&r->line, r->fetched.data, r->fetched.size);
    if ((code = hs__buffer_check(&r->line, "the record of a step", err)) ||
        (code = hs__file_write(&r->file, r->line.data, r->line.size, err)))
        return code;
    r->last = step;
    return HS_OK;
}

/* The second checkpoint is of no use at the last step. */
static bool is_middle(const hs__recorder *r, int64_t step)
{
    const hs__resume_order *order = r->order;
    return order->trial == HS__TRIAL_WHOLE && step >= order->middle && r->n_left < HS__MIDDLES &&
           (!r->n_left || step < order->last_step);
}

static hs_code leave(hs__recorder *r, hs_raw_session *session, int64_t step, hs_error *err)
{
    hs_code code =
        hs_saver_save(r->saver, session, r->models_to_leave[r->n_left], step, HS_SAVE_OPTIONS(.no_meta_graph = true), err);
    if (!code)
        r->middles[r->n_left++] = step;
    return code;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    hs__recorder *r = self;
    hs_raw_session *session = hs_run_context_session(run);
    if (hs_run_context_boundary(run) != HS_BOUNDARY_RUN)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0 || step <= r->last) /* a run that makes no step */
        return err->code;
    hs_code code = record(r, session, step, err);
    if (!code && is_middle(r, step))
        code = leave(r, session, step, err);
    if (step >= r->order->last_step)
        hs_run_context_request_stop(run);
    return code;
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    hs__recorder *r = self;
    if (outcome->reason == HS_REASON_FAILED && !r->failure.code)
        r->failure = outcome->error;
}

hs_hook hs__recorder_hook(hs__recorder *recorder)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "verify_resume", .begin = begin, .after_create_session = after_create_session,
                .before_run = before_run, .after_run = after_run, .boundary = boundary, .close = close_hook);
    return hs_hook_hold((hs_hook){.ops = &ops, .self = recorder});
}

hs_code hs__recorder_open(hs__recorder *recorder, const hs_env *env, const hs__resume_order *order,
                          const char *const *fetches, const char *record_path, const char *const *models_to_leave,
                          hs_error *err)
{
    *recorder = (hs__recorder){.env = env,
                               .order = order,
                               .fetches = fetches,
                               .wants = HS_INIT(hs_run_args, .names = fetches),
                               .models_to_leave = models_to_leave,
                               .copy = {.env = env},
                               .last = -1,
                               .middles = {-1, -1}};
    hs__buffer_init(&recorder->fetched, env);
    hs__buffer_init(&recorder->line, env);
    return hs__file_open(&recorder->file, env, record_path, HS_OPEN_NEW, err);
}

hs_code hs__recorder_close(hs__recorder *recorder, hs_error *err)
{
    hs_saver_free(recorder->saver);
    hs_host_copy_free(&recorder->copy);
    hs__buffer_free(&recorder->fetched);
    hs__buffer_free(&recorder->line);
    return hs__file_close(&recorder->file, err);
}
