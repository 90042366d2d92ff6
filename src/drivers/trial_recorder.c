/* SPDX-License-Identifier: Apache-2.0 */
/* The hook of a trial. after_run records the values of a step, and the boundary adds its state and variables (record), each
 * as a checksum, and ends the trial after the last step. */
#include "drivers/resume_trial.h"

#include "backends/graph/graph.h"
#include "base/c_locale.h"
#include "base/crc32c.h"
#include "checkpoint/save_list.h"
#include "checkpoint/saver.h"
#include "session/session.h"

#include <string.h>

/* Lines. */

typedef struct {
    hs__recorder *recorder;
    hs__buffer *to;
    int64_t step;
    const char *kind;
} lines;

static void add_bytes(const lines *l, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    l->recorder->bytes_written += n;
    hs__buffer_append(l->to, "x", 1);
    for (size_t i = 0; i < n; i++) {
        const char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        hs__buffer_append(l->to, pair, sizeof pair);
    }
}

/* `bytes` are those of the value, or NULL if they are not in one piece. */
static hs_code add_checked(const lines *l, const char *name, const hs_tensor *value, uint32_t crc, const void *bytes,
                           hs_error *err)
{
    char shape[HS_SHAPE_TEXT_SIZE];
    hs_shape of = hs_tensor_shape(value);
    hs__buffer_text(l->to, "%lld %s %08lx:%zu %s %s ", (long long)l->step, l->kind, (unsigned long)crc, value->bytes,
                    hs_dtype_name(value->dtype), hs_shape_text(&of, shape, sizeof shape));
    if (value->data && value->dtype != HS_STRING && hs_shape_elements(&of) == 1)
        hs__buffer_text(l->to, "%.9g", hs_tensor_number(value, 0));
    else if (bytes && value->bytes && value->dtype != HS_STRING && value->bytes <= HS__TRIAL_BYTES &&
             l->recorder->bytes_written <= HS__TRIAL_ALL_BYTES)
        add_bytes(l, bytes, value->bytes);
    else
        hs__buffer_text(l->to, "-");
    hs__buffer_append(l->to, " ", 1);
    for (; *name; name++)
        hs__buffer_append(l->to, (unsigned char)*name < ' ' ? "?" : name, 1);
    hs__buffer_append(l->to, "\n", 1);
    return hs__buffer_check(l->to, "the record of a step", err);
}

static hs_code add_line(const lines *l, const char *name, const hs_tensor *value, hs_error *err)
{
    return add_checked(l, name, value, hs__crc32c_of_tensor(value), value->data, err);
}

/* State that is produced in pieces. */
typedef struct {
    uint32_t crc;
    size_t bytes;
    hs__buffer first; /* the first HS__TRIAL_BYTES */
} piecewise;

static hs_code check_piece(void *user, const void *data, size_t bytes, hs_error *err)
{
    piecewise *p = user;
    (void)err;
    p->crc = hs__crc32c(p->crc, data, bytes);
    p->bytes += bytes;
    if (p->bytes <= HS__TRIAL_BYTES)
        hs__buffer_append(&p->first, data, bytes);
    return HS_OK;
}

static hs_code add_produced(const lines *to, const hs__save_item *item, hs_error *err)
{
    piecewise pieces = {.crc = 0};
    hs__buffer_init(&pieces.first, to->to->env);
    hs_code code = item->produce(item->source, check_piece, &pieces, err);
    if (!code)
        code = hs__buffer_check(&pieces.first, "the record of a state", err);
    if (!code) {
        hs_shape bytes = {.rank = 1, .dims = {(int64_t)pieces.bytes}};
        const hs_tensor value = hs_tensor_of(HS_UINT8, bytes, NULL);
        code = add_checked(to, item->name, &value, pieces.crc, pieces.first.data, err);
    }
    hs__buffer_free(&pieces.first);
    return code;
}

static hs_code add_item(void *user, const hs__save_item *item, hs_error *err)
{
    const lines *to = user;
    char text[HS__BOX_TEXT_SIZE];
    if (item->varies)
        return HS_OK;
    if (item->produce)
        return add_produced(to, item, err);
    if (!item->slice)
        return add_line(to, item->name, &item->value, err);
    hs_shape shape = hs_tensor_shape(&item->value);
    hs__box box = hs__box_of(&shape);
    memcpy(box.starts, item->slice->starts, sizeof box.starts);
    char *name = hs__format(to->to->env, "%s %s", item->name, hs__box_text(&box, text, sizeof text));
    hs_code code = name ? add_line(to, name, &item->value, err) : hs__no_memory(err, strlen(item->name), "a name");
    hs__free(to->to->env, name);
    return code;
}

/* The hook. */

static bool is_listed(const char *name, const char *const *names)
{
    for (size_t i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Selects the fetches of each run: the requested names, and the values that the graph has for hooks. */
static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    hs__recorder *r = self;
    const hs_graph *graph = hs_graph_of(backend);
    size_t most = hs__names_count(r->fetches) + (graph ? graph->n_nodes : 0) + 1, n = 0;
    r->names = hs__alloc(r->env, most, sizeof *r->names);
    if (!r->names)
        return hs__no_memory(err, most * sizeof *r->names, "names");
    for (size_t i = 0; r->fetches && r->fetches[i]; i++)
        r->names[n++] = r->fetches[i];
    for (size_t i = 0; graph && i < graph->n_nodes; i++)
        if (graph->nodes[i]->kind == HS__VALUE && !is_listed(graph->nodes[i]->name, r->fetches))
            r->names[n++] = graph->nodes[i]->name;
    r->wants = (hs_run_args)HS_INIT(hs_run_args, .names = r->names);
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < n; i++)
        code = hs_backend_check_tensor(backend, r->names[i], err);
    return code;
}

static hs_saver *saver_of(const hs_raw_session *session)
{
    return hs_scaffold_fields(session->owner->scaffold)->saver;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    hs__recorder *r = self;
    (void)coordinator;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    if (r->recorded >= 0) /* a recovery */
        return HS_OK;
    if (r->first && step != r->first)
        return hs_error_set(
            err, HS_FAILED_PRECONDITION,
            "the program starts at step %lld, although its checkpoint_dir has a checkpoint of step %lld; let it resume "
            "(hs_training_options.restore)",
            (long long)step, (long long)r->first);
    if (step >= r->last)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the program starts at step %lld, although its checkpoint_dir is empty; choose later steps "
                            "(--steps, --middle)",
                            (long long)step);
    return HS_OK;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    hs__recorder *r = self;
    (void)run, (void)err;
    if (r->names[0])
        *args = &r->wants;
    return HS_OK;
}

/* Records the fetched values now, because at the boundary they are no longer valid. */
static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    hs__recorder *r = self;
    lines fetched = {.recorder = r, .to = &r->fetched, .kind = "value", .step = hs_run_context_global_step(run, err)};
    hs_code code = err->code;
    hs__buffer_clear(&r->fetched);
    for (size_t i = 0; !code && i < hs_run_values_count(values); i++) {
        hs_tensor host;
        const hs_tensor *value = hs_run_values_tensor(values, i);
        if (!(code = hs_tensor_host(value, &r->copy, &host, err)))
            code = add_line(&fetched, r->names[i], &host, err);
    }
    hs_run_context_request_boundary(run);
    return code;
}

/* Writes the lines of a step: its state, its variables, and the values that after_run has recorded. */
static hs_code record(hs__recorder *r, hs_raw_session *session, int64_t step, hs_error *err)
{
    lines states = {r, &r->line, step, "state"}, variables = {r, &r->line, step, "variable"};
    hs__save_list list;
    const hs_saver *saver = saver_of(session);
    hs__buffer_clear(&r->line);
    hs_code code = hs__save_list_make(&list, &saver->env, &saver->selection, session, err);
    const hs__item_source from = hs__save_list_source(&list);
    if (!code)
        code = from.visit_states(from.self, add_item, &states, err);
    for (size_t i = 0; !code && i < from.n; i++) {
        hs__save_item item;
        if (!(code = from.variable(from.self, i, &item, err)) &&
            !(code = hs_tensor_host(&item.value, &r->copy, &item.value, err)))
            code = add_item(&variables, &item, err);
    }
    hs__save_list_free(&list);
    if (code)
        return code;
    hs__buffer_append(&r->line, r->fetched.data, r->fetched.size);
    if ((code = hs__buffer_check(&r->line, "the record of a step", err)) ||
        (code = hs__file_write(&r->file, r->line.data, r->line.size, err)))
        return code;
    r->recorded = step;
    return HS_OK;
}

/* At this point all hooks have seen the step, and the saver is the session's, so the program could have saved the same
 * checkpoint. */
static hs_code save(const hs__recorder *r, hs_raw_session *session, int64_t step, hs_error *err)
{
    return r->prefix
               ? hs_saver_save(saver_of(session), session, r->prefix, step, HS_SAVE_OPTIONS(.no_meta_graph = true), err)
               : HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    hs__recorder *r = self;
    hs_raw_session *session = hs_run_context_session(run);
    const hs_error none = {0};
    hs_boundary which = hs_run_context_boundary(run);
    if (which != HS_BOUNDARY_RUN && which != HS_BOUNDARY_STOP)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    if (which == HS_BOUNDARY_STOP)
        return save(r, session, step, err);
    if (step <= r->recorded) /* the run has not advanced the step */
        return HS_OK;
    hs_code code = record(r, session, step, err);
    if (code || step < r->last)
        return code;
    if (r->stops) { /* the boundary of the stop saves */
        hs_run_context_interrupt(run);
        return HS_OK;
    }
    if ((code = save(r, session, step, err)))
        return code;
    r->end(r->user, &none);
    hs_run_context_request_stop(run);
    return HS_OK;
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    hs__recorder *r = self;
    hs_error why = {0};
    if (outcome->reason == HS_REASON_FAILED)
        why = outcome->error;
    else if (r->recorded < r->last)
        hs_error_set(&why, HS_FAILED_PRECONDITION,
                     "the training session ended at step %lld, before step %lld; try fewer steps (--steps)",
                     (long long)outcome->step, (long long)r->last);
    r->end(r->user, &why);
}

hs_hook hs__recorder_hook(hs__recorder *recorder)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "resume_trial", .begin = begin, .after_create_session = after_create_session,
                .before_run = before_run, .after_run = after_run, .boundary = boundary, .close = close_hook);
    return hs_hook_hold((hs_hook){.ops = &ops, .self = recorder});
}

hs_code hs__recorder_open(hs__recorder *recorder, const char *path, hs_error *err)
{
    recorder->copy = (hs_host_copy){.env = recorder->env};
    recorder->recorded = -1;
    hs__buffer_init(&recorder->fetched, recorder->env);
    hs__buffer_init(&recorder->line, recorder->env);
    return hs__file_open(&recorder->file, recorder->env, path, HS_OPEN_NEW, err);
}

hs_code hs__recorder_close(hs__recorder *recorder, hs_error *err)
{
    hs_host_copy_free(&recorder->copy);
    hs__buffer_free(&recorder->fetched);
    hs__buffer_free(&recorder->line);
    hs__free(recorder->env, recorder->names);
    return hs__file_close(&recorder->file, err);
}
