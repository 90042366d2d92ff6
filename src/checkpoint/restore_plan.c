/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/restore_plan.h"

#include "checkpoint/save_item.h"

#include <stdio.h>
#include <string.h>

void hs__report_restore(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail)
{
    if (options->report)
        options->report(options->user, event, name, detail);
}

/* All variables that do not fit, in one message. */
typedef struct {
    hs__buffer text;
    size_t missing, different, extra;
    const char *reported; /* tensor of the last slice that does not fit; its other slices are not reported again */
} misfits;

static void separate(misfits *all)
{
    if (all->missing + all->different + all->extra)
        hs__buffer_text(&all->text, "; ");
}

static void describe(char *text, size_t size, const hs_variable *variable, const hs__stored *stored)
{
    char wanted[HS_SHAPE_TEXT_SIZE], found[HS_SHAPE_TEXT_SIZE];
    snprintf(text, size, "is %s %s in the checkpoint, but %s %s in the model", hs_dtype_name((hs_dtype)stored->dtype),
             hs_shape_text(&stored->shape, found, sizeof found), hs_dtype_name(variable->dtype),
             hs_shape_text(&variable->shape, wanted, sizeof wanted));
}

static void add_missing(misfits *all, const char *name, const hs_restore_options *options)
{
    hs__report_restore(options, HS_RESTORE_EVENT_MISSING, name, "");
    if (options->allow_missing)
        return;
    separate(all);
    all->missing++;
    hs__buffer_text(&all->text, "'%s' is missing", name);
}

static void add_different(misfits *all, const char *name, const hs_variable *variable, const hs__stored *stored,
                          const hs_restore_options *options)
{
    char text[2 * HS_SHAPE_TEXT_SIZE + 128];
    describe(text, sizeof text, variable, stored);
    hs__report_restore(options, HS_RESTORE_EVENT_MISMATCHED, name, text);
    separate(all);
    all->different++;
    hs__buffer_text(&all->text, "'%s' %s", name, text);
}

static bool fits(const hs_variable *variable, const hs__stored *stored, bool reshape)
{
    return stored->dtype == (int32_t)variable->dtype &&
           (hs_shape_equal(&stored->shape, &variable->shape) ||
            (reshape && hs_shape_elements(&stored->shape) == hs_shape_elements(&variable->shape)));
}

static hs_code add_planned(hs__plan *plan, const hs__planned *item, hs_error *err)
{
    hs_code code = hs__reserve(plan->env, &plan->items, &plan->capacity, plan->n + 1, sizeof *plan->items, err);
    if (code)
        return code;
    plan->items[plan->n++] = *item;
    plan->used[item->tensor] = true;
    return HS_OK;
}

/* Tensors of the archive without a variable. One of them may be a missing variable under a former name. */
static void add_extra(misfits *all, const hs__plan *plan, const hs__archive *archive, const hs_restore_options *options)
{
    for (size_t i = 0; i < archive->n; i++) {
        hs__stored stored = hs__archive_tensor(archive, i);
        if (plan->used[i] || strncmp(stored.name, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0)
            continue;
        hs__report_restore(options, HS_RESTORE_EVENT_EXTRA, stored.name, "");
        if (all->missing + all->different == 0)
            continue; /* alone they are no error */
        separate(all);
        all->extra++;
        hs__buffer_text(&all->text, "'%s' is not in the model", stored.name);
    }
}

static hs_code refuse_misfits(const hs__plan *plan, const hs__archive *archive, const misfits *all, hs_error *err)
{
    hs_code code = all->different ? HS_INVALID_ARGUMENT : HS_NOT_FOUND;
    const char *text = (const char *)all->text.data;
    if (strlen(archive->path) + all->text.size > HS_MESSAGE_SIZE / 2) {
        hs_log(plan->env, HS_LOG_ERROR, "checkpoint '%s' does not fit the model: %s", archive->path, text);
        text = "see the log";
    }
    return hs_error_set(
        err, code,
        "checkpoint '%s' does not fit the model, which is unchanged (%zu missing, %zu different): %s; restore into the "
        "model that was saved, set hs_restore_options.names or allow_missing, or train in another directory",
        archive->path, all->missing, all->different, text);
}

static bool is_skipped(const hs_restore_options *options, const char *variable)
{
    for (size_t i = 0; options->skip && options->skip[i]; i++)
        if (strcmp(options->skip[i], variable) == 0)
            return true;
    return false;
}

typedef struct {
    const hs__selection *selection;
    const hs_raw_session *session;
    const hs__archive *archive;
    const hs_restore_options *options;
} source;

/* The name that hs_restore_options.names gives the variable, or NULL. */
static const char *renamed(const hs_restore_options *options, const char *variable)
{
    for (size_t i = 0; options->names && options->names[i].variable; i++)
        if (strcmp(options->names[i].variable, variable) == 0)
            return options->names[i].name;
    return NULL;
}

/* Finds the variable's tensor, and returns its name. *wanted has the type and shape that it must have. A slice comes from
 * the partitioned tensor, or from a tensor with the name of the slice, as formats without slices have it. */
static const char *find_tensor(const source *from, hs__planned *item, hs_variable *wanted)
{
    hs_variable_slice slice;
    const char *own = hs__selection_name(from->selection, item->variable.name);
    const char *name = renamed(from->options, item->variable.name);
    *wanted = item->variable;
    if (!hs__selection_slice(from->selection, from->session, item->index, item->variable.name, &slice)) {
        name = name ? name : own;
        item->tensor = hs__archive_find(from->archive, name);
        return name;
    }
    name = name ? name : slice.name;
    item->tensor = hs__archive_find(from->archive, name);
    if (item->tensor == HS__NONE && (item->tensor = hs__archive_find(from->archive, own)) != HS__NONE)
        return own;
    item->is_slice = true;
    item->box = hs__box_of(&item->variable.shape);
    memcpy(item->box.starts, slice.starts, sizeof item->box.starts);
    wanted->shape = slice.shape;
    return name;
}

/* *found is true if the variable, called `name` in the checkpoint, had no memory when it was saved. A late variable that
 * the checkpoint does not have may have been added after the save. */
static hs_code find_unallocated(const hs__plan *plan, const source *from, const hs__planned *item, const char *name,
                                bool *found, hs_error *err)
{
    *found = false;
    if (item->tensor != HS__NONE || !(item->variable.flags & HS_VARIABLE_MOVES))
        return HS_OK;
    if (hs__session_is_late(from->session, item->index) && from->archive->is_checkpoint && !from->options->allow_missing) {
        *found = true;
        return HS_OK;
    }
    char *key = hs__variable_key(plan->env, name, HS__VARIABLE_NULL);
    if (!key)
        return hs__no_memory(err, strlen(name), "a name");
    *found = hs__archive_find(from->archive, key) != HS__NONE;
    hs__free(plan->env, key);
    return HS_OK;
}

static hs_code add_unallocated(hs__plan *plan, const hs__planned *item, hs_error *err)
{
    hs_code code = hs__reserve(plan->env, &plan->unallocated, &plan->unallocated_capacity, plan->n_unallocated + 1,
                               sizeof *plan->unallocated, err);
    if (!code)
        plan->unallocated[plan->n_unallocated++] = item->index;
    return code;
}

static hs_code plan_variable(hs__plan *plan, const source *from, hs__planned *item, misfits *wrong, hs_error *err)
{
    const hs_restore_options *options = from->options;
    hs_variable wanted;
    const char *name = find_tensor(from, item, &wanted);
    if (is_skipped(options, item->variable.name)) {
        hs__report_restore(options, HS_RESTORE_EVENT_SKIPPED, item->variable.name, "");
        return HS_OK;
    }
    if (item->is_slice && wrong->reported && strcmp(wrong->reported, name) == 0)
        return HS_OK;
    bool unallocated;
    hs_code code = find_unallocated(plan, from, item, name, &unallocated, err);
    if (!code && unallocated && !(code = add_unallocated(plan, item, err)))
        hs__report_restore(options, HS_RESTORE_EVENT_WITHOUT_MEMORY, item->variable.name, "");
    if (code || unallocated)
        return code;
    if (item->tensor == HS__NONE) {
        wrong->reported = item->is_slice ? name : NULL;
        add_missing(wrong, name, options);
        return HS_OK;
    }
    hs__stored stored = hs__archive_tensor(from->archive, item->tensor);
    if (!fits(&wanted, &stored, options->reshape && !item->is_slice)) {
        plan->used[item->tensor] = true;
        wrong->reported = item->is_slice ? name : NULL;
        add_different(wrong, name, &wanted, &stored, options);
        return HS_OK;
    }
    code = add_planned(plan, item, err);
    if (!code)
        hs__report_restore(options, HS_RESTORE_EVENT_RESTORED, item->variable.name, name);
    return code;
}

hs_code hs__copy_restore_options(hs_restore_options *to, const hs_env *env, const hs_restore_options *given, hs_error *err)
{
    hs_code code = HS_STRUCT_TAKE(hs_restore_options, reserved, to, given, err);
    return code || !to->names ? code : hs__check_named_once(env, to->names, "hs_restore_options.names lists variable", err);
}

hs_code hs__plan_make(hs__plan *plan, const hs_env *env, const hs__selection *selection, const hs_raw_session *session,
                      const hs__archive *archive, const hs_restore_options *options, hs_error *err)
{
    misfits wrong = {0};
    *plan = (hs__plan){.env = env};
    hs__buffer_init(&wrong.text, plan->env);
    plan->used = hs__alloc(plan->env, archive->n, sizeof *plan->used);
    hs_code code = plan->used ? HS_OK : hs__no_memory(err, archive->n, "a list of tensors");
    source from = {selection, session, archive, options};
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs__planned item = {.index = i};
        if (hs__selection_variable(selection, session, i, &item.variable, &done))
            code = plan_variable(plan, &from, &item, &wrong, err);
    }
    if (!code)
        add_extra(&wrong, plan, archive, options);
    if (!code && !(code = hs__buffer_check(&wrong.text, "a message", err)) && wrong.missing + wrong.different)
        code = refuse_misfits(plan, archive, &wrong, err);
    hs__buffer_free(&wrong.text);
    return code;
}

void hs__plan_free(hs__plan *plan)
{
    hs__free(plan->env, plan->items);
    hs__free(plan->env, plan->unallocated);
    hs__free(plan->env, plan->used);
    hs__free(plan->env, plan->data);
    hs__free(plan->env, plan->copy);
}
