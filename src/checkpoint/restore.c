/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring one checkpoint: all of it is verified before any of it is copied. */
#include "checkpoint/restore.h"

#include "base/parallel.h"
#include "checkpoint/background.h"
#include "checkpoint/save_list.h"
#include "checkpoint/stored_states.h"
#include "checkpoint/unclaimed_states.h"

#include <stdio.h>
#include <string.h>

/* Assigns tensors of an archive to variables. All values are read and verified before any is copied, so that a failure
 * leaves the model unchanged. A small model's values are kept in memory between the two. A large model would need twice its
 * memory: its values are only verified, and then read and verified again, directly into the variables if the backend lends
 * their memory. */

typedef struct {
    size_t index; /* of the variable in the backend */
    hs_variable variable;
    size_t tensor; /* index in the archive */
    bool is_slice; /* the variable is only this box of the tensor: */
    hs__box box;
    size_t bytes;
    size_t offset; /* of its value in plan->data */
    void *memory;  /* the variable's own memory; NULL: the value is copied into the variable */
} hs__planned;

typedef struct hs__plan {
    const hs_env *env;
    hs__planned *items;
    size_t n, capacity;
    size_t *unallocated; /* indexes in the backend of variables that had no memory when they were saved */
    size_t n_unallocated, unallocated_capacity;
    bool *used;           /* by index in the archive: a variable of the model has this name */
    uint64_t bytes;       /* of all values; UINT64_MAX: more than can be counted */
    uint64_t state_bytes; /* of the checkpoint's states, for the progress */
    unsigned char *data;  /* the values; NULL: they are read twice */
    unsigned char *copy;  /* one value, if they are read twice */
    size_t copy_bytes;
    hs__read_progress progress;
} hs__plan;

void hs__report_restore(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail)
{
    if (options->report)
        options->report(options->user, event, name, detail);
}

/* Making. */

/* An error message that collects all mismatched variables. */
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
    snprintf(text, size, "is %.32s %s in the checkpoint, but %s %s in the model", stored->dtype_name,
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

/* *found is true if the variable, called `name` in the checkpoint, had no memory when it was saved. */
static hs_code find_unallocated(const hs__plan *plan, const source *from, const hs__planned *item, const char *name,
                                bool *found, hs_error *err)
{
    *found = false;
    if (item->tensor != HS__NONE || !(item->variable.flags & HS_VARIABLE_MOVES))
        return HS_OK;
    char *key = hs__unallocated_key(plan->env, name);
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

/* Finds a tensor for each selected variable. INVALID_ARGUMENT or NOT_FOUND lists all variables that the archive does not
 * have, or has with another type or shape, unless the options allow that. Call plan_free in any case. */
static hs_code plan_make(hs__plan *plan, const hs_env *env, const hs__selection *selection, const hs_raw_session *session,
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

/* Sets states->unused to the names of the first tensors that no variable of the program uses, and the number of others. The
 * variables may be those of another saver. Also completes plan->used. */
static hs_code find_unused(hs__plan *plan, hs__stored_states *states, const hs_raw_session *session,
                           const hs__archive *archive, hs_error *err)
{
    enum { NAMED = 5 };
    hs_variable variable;
    hs__buffer names;
    size_t tensor, n = 0;
    hs__buffer_init(&names, &session->env);
    for (size_t i = 0; hs__session_variable(session, i, &variable); i++)
        if ((tensor = hs__archive_find(archive, variable.name)) != HS__NONE)
            plan->used[tensor] = true;
    for (size_t i = 0; i < archive->n; i++) {
        const char *name = hs__archive_tensor(archive, i).name;
        if (!plan->used[i] && !hs__is_state_key(name) && strcmp(name, "_CHECKPOINTABLE_OBJECT_GRAPH") != 0 && n++ < NAMED)
            hs__buffer_text(&names, "%s'%s'", n == 1 ? "" : ", ", name);
    }
    if (n > NAMED)
        hs__buffer_text(&names, " and %zu more", n - NAMED);
    hs_code code = hs__buffer_check(&names, "a list of tensors", err);
    states->unused = code ? NULL : (char *)names.data;
    if (code)
        hs__buffer_free(&names);
    return code;
}

/* Reading the values from the archive. */

/* The values of larger models are not kept in memory. */
#define KEPT_BYTES ((uint64_t)64 << 20)

/* Checks that the file has the bytes before memory is allocated for them. */
static hs_code place(hs__plan *plan, const hs__archive *archive, hs__planned *item, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    item->bytes = hs__archive_tensor(archive, item->tensor).bytes;
    hs_code code = item->is_slice ? hs__archive_locate_part(archive, item->tensor, &item->box, &item->bytes, err)
                                  : hs__archive_locate(archive, item->tensor, err);
    if (code)
        return code;
    item->offset = (size_t)plan->bytes;
    uint64_t room = ((uint64_t)item->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    plan->bytes = room < UINT64_MAX - plan->bytes ? plan->bytes + room : UINT64_MAX;
    return HS_OK;
}

typedef struct {
    hs__plan *plan;
    const hs__archive *archive;
    hs__archive_fork forks[HS__MOST_WORKERS];
    hs_code (*do_item)(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err);
} reading;

static hs_code do_one(void *user, size_t worker, size_t part, hs_error *err)
{
    reading *r = user;
    const hs__archive *archive = worker ? &r->forks[worker].archive : r->archive;
    return r->do_item(archive, r->plan, &r->plan->items[part], err);
}

static bool needs_one_thread(const reading *r)
{
    bool one = !r->archive->ops->forks;
    for (size_t i = 0; !one && i < r->plan->n; i++)
        one = r->plan->items[i].is_slice || hs__archive_tensor(r->archive, r->plan->items[i].tensor).in_slices;
    return one;
}

static hs_code do_all(reading *r, hs_error *err)
{
    size_t workers = needs_one_thread(r) ? 1 : hs__workers_for(r->plan->n, r->plan->bytes);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_begin(r->archive, &r->forks[i]);
    hs_code code = hs__in_parallel(workers, r->plan->n, do_one, r, err);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_end(&r->forks[i]);
    return code;
}

static hs_code read_value(const hs__archive *archive, const hs__planned *item, void *to, hs_error *err)
{
    return item->is_slice ? hs__archive_read_part(archive, item->tensor, &item->box, to, err)
                          : hs__archive_read(archive, item->tensor, to, err);
}

static hs_code read_item(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err)
{
    return read_value(archive, item, plan->data + item->offset, err);
}

static hs_code verify_item(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err)
{
    bool done = false; /* an earlier slice of the tensor was verified */
    for (const hs__planned *before = plan->items; item->is_slice && before < item; before++)
        done |= before->tensor == item->tensor;
    return done ? HS_OK : hs__archive_verify(archive, item->tensor, err);
}

/* Reads and verifies all values. Changes nothing. */
static hs_code plan_read(hs__plan *plan, const hs__archive *archive, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n; i++)
        code = place(plan, archive, &plan->items[i], err);
    if (code)
        return code;
    double reads = (double)plan->bytes * (plan->bytes <= KEPT_BYTES ? 1 : 2) +
                   (double)plan->state_bytes * (plan->state_bytes <= HS__STATES_IN_MEMORY ? 1 : 2);
    hs__read_progress_begin(&plan->progress, plan->env, archive->path, plan->bytes + plan->state_bytes, reads);
    hs__archive_watch(archive, &plan->progress);
    reading r = {.plan = plan, .archive = archive, .do_item = verify_item};
    if (plan->bytes <= KEPT_BYTES) {
        r.do_item = read_item;
        plan->data = hs__realloc(plan->env, NULL, (size_t)plan->bytes, 1);
        if (!plan->data)
            return hs__no_memory(err, (size_t)plan->bytes, "the values of a checkpoint");
    }
    return do_all(&r, err);
}

/* Writing them to the variables. */

static hs_code set_variable(const hs_raw_session *session, const hs__planned *item, const void *data, hs_error *err)
{
    hs_tensor value = hs_tensor_of(item->variable.dtype, item->variable.shape, data);
    return hs__session_write(session, item->index, item->variable.name, &value, err);
}

static hs_code set_from_memory(const hs__plan *plan, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n; i++)
        code = set_variable(session, &plan->items[i], plan->data + plan->items[i].offset, err);
    return code;
}

static hs_code fill_item(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err)
{
    (void)plan;
    return item->memory ? read_value(archive, item, item->memory, err) : HS_OK;
}

/* Copies the values that were not read into the variable's memory. Calls the backend for all variables. */
static hs_code set_rest(const hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n; i++) {
        const hs__planned *item = &plan->items[i];
        if (item->memory || !(code = read_value(archive, item, plan->copy, err)))
            code = set_variable(session, item, item->memory ? item->memory : plan->copy, err);
    }
    return code;
}

/* Looks up the variables' memory, and allocates what writing needs. Changes nothing. */
static hs_code plan_prepare(hs__plan *plan, const hs_raw_session *session, hs_error *err)
{
    size_t largest = 0;
    for (size_t i = 0; i < plan->n; i++) {
        hs__planned *item = &plan->items[i];
        if (plan->data && !(item->variable.flags & HS_VARIABLE_MOVES))
            continue;
        hs_code code = hs__session_lend(session, item->index, &item->variable, item->bytes, &item->memory, err);
        if (code)
            return code;
        if (!plan->data && !item->memory && item->bytes > largest)
            largest = item->bytes;
    }
    if (largest <= plan->copy_bytes)
        return HS_OK;
    hs__free(plan->env, plan->copy);
    plan->copy = hs__realloc(plan->env, NULL, largest, 1);
    plan->copy_bytes = plan->copy ? largest : 0;
    return plan->copy ? HS_OK : hs__no_memory(err, largest, "a value of a checkpoint");
}

static hs_code reread(hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err)
{
    reading r = {.plan = plan, .archive = archive, .do_item = fill_item};
    hs_code code = do_all(&r, err);
    return code ? code : set_rest(plan, archive, session, err);
}

static hs_code set_unallocated(const hs__plan *plan, const hs_raw_session *session, hs_error *err)
{
    const hs_tensor none = {.data = NULL};
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n_unallocated; i++)
        code = hs__session_write(session, plan->unallocated[i], "the variable", &none, err);
    return code;
}

/* Sets the variables. Looks up their memory again, because states that were loaded since may have moved it. */
static hs_code plan_write(hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err)
{
    hs_code code = plan_prepare(plan, session, err); /* again: loading states may have moved the memory */
    if (!code)
        code = plan->data ? set_from_memory(plan, session, err) : reread(plan, archive, session, err);
    if (!code)
        code = set_unallocated(plan, session, err);
    if (code)
        hs_error_prefix(err, HS__PARTLY_RESTORED);
    return code;
}

static void plan_free(hs__plan *plan)
{
    hs__free(plan->env, plan->items);
    hs__free(plan->env, plan->unallocated);
    hs__free(plan->env, plan->used);
    hs__free(plan->env, plan->data);
    hs__free(plan->env, plan->copy);
}

typedef struct {
    const hs__selection *selection;
    hs_raw_session *session;
    const hs__archive *archive;
    hs__bundle_reader *bundle; /* the archive, if it is a checkpoint; NULL: states are not restored */
    const hs_saver *program;   /* not NULL: its restore_variables restores the variables */
    const hs_restore_options *options;
    hs__plan plan;
    hs__stored_states states;
} restoring;

static void free_restoring(restoring *r)
{
    hs__states_free(&r->states, &r->session->env);
    plan_free(&r->plan);
}

/* Only the function of the program knows which variables it restores, so a variable that the checkpoint does not have is
 * allowed. The plan then only tells which tensors of the checkpoint the program uses. */
static hs_code make_plan(restoring *r, hs_error *err)
{
    hs_restore_options options = *r->options;
    options.allow_missing |= r->program != NULL;
    hs_code code = plan_make(&r->plan, r->plan.env, r->selection, r->session, r->archive, &options, err);
    if (r->program)
        r->plan.n = 0;
    return code;
}

/* Verifies all tensors but those that cannot be verified, whose type or rank this library does not know. */
static hs_code verify_all(const hs__archive *archive, hs_error *err)
{
    for (size_t i = 0; i < archive->n; i++) {
        hs_error cause = {0};
        hs_code code = hs__archive_verify(archive, i, &cause);
        if (code && (code != HS_UNIMPLEMENTED || cause.os_error))
            return hs__error_copy(err, &cause);
    }
    return HS_OK;
}

static hs_code read_values(restoring *r, hs_error *err)
{
    return r->program ? verify_all(r->archive, err) : plan_read(&r->plan, r->archive, err);
}

static hs_code write_values(restoring *r, hs_error *err)
{
    const hs_saver *saver = r->program;
    hs_code code = saver ? saver->restore_variables(saver->user, r->session, r->archive->path, err) : HS_OK;
    if (!code)
        return plan_write(&r->plan, r->archive, r->session, err);
    hs__normalize_error(code, "restore_variables", err);
    hs_error_prefix(err, HS__PARTLY_RESTORED);
    return code;
}

/* After a failure the model is partly restored: hooks do not save it. */
static hs_code change_model(restoring *r, hs_error *err)
{
    hs_error error = {0};
    hs_code code = r->bundle ? hs__states_load(&r->states, r->bundle, r->session, &error) : HS_OK;
    if (!code) {
        hs__raw_session_moved(r->session);
        code = write_values(r, &error);
    }
    if (code)
        hs_raw_session_refuse_saves(r->session, &error);
    return code ? hs__error_copy(err, &error) : HS_OK;
}

/* *in_files: the stage that failed reads the files, and does not depend on the model. */
static hs_code restore_from(restoring *r, bool *in_files, hs_error *err)
{
    *in_files = false;
    hs_code code = make_plan(r, err);
    if (code)
        return code;
    *in_files = true;
    if ((r->bundle && (code = hs__states_locate(r->session, r->bundle, &r->plan.state_bytes, err))) ||
        (code = read_values(r, err)) || (r->bundle && (code = hs__states_read(&r->states, r->session, r->bundle, err))))
        return code;
    *in_files = false;
    r->states.any_identity = r->options->any_identity;
    if ((r->bundle && (code = hs__states_check(&r->states, r->session, err))) ||
        (code = find_unused(&r->plan, &r->states, r->session, r->archive, err)) ||
        (code = plan_prepare(&r->plan, r->session, err)))
        return code;
    return change_model(r, err);
}

hs_code hs__restore_variables(const hs__selection *selection, hs_raw_session *session, const hs__archive *archive,
                              const hs_restore_options *options, hs_error *err)
{
    bool in_files;
    restoring r = {
        .selection = selection, .session = session, .archive = archive, .options = options, .plan = {.env = &session->env}};
    hs_code code = restore_from(&r, &in_files, err);
    if (!code && r.states.unused)
        hs_log(&session->env, HS_LOG_INFO, "'%s' has tensors that no variable of the program uses (%s)", archive->path,
               r.states.unused);
    free_restoring(&r);
    return code;
}

/* The facts that saver and session record about a restore. Allocated before the first change, so that recording cannot
 * fail. */
typedef struct {
    hs__saver_directory *directory;
    char *last_path, *restored_from;
} restore_record;

static hs_code prepare_record(restore_record *record, hs_saver *saver, const hs_raw_session *session, const char *prefix,
                              hs_error *err)
{
    if (!(record->directory = hs__saver_use_directory(saver, prefix, err)))
        return HS_RESOURCE_EXHAUSTED;
    record->last_path = hs__strdup(&saver->env, prefix);
    record->restored_from = hs__strdup(&session->env, prefix);
    return record->last_path && record->restored_from ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

static void record_restore(restore_record *record, const hs_saver *saver, hs_raw_session *session)
{
    hs__saver_directory *directory = record->directory;
    char *before = directory->last_path;
    directory->last_path = record->last_path;
    record->last_path = before;
    directory->last_bytes = hs__expected_bytes(&saver->selection, session);
    record->restored_from = hs__raw_session_restored(session, record->restored_from, hs__step_in(directory->last_path));
}

/* A misspelled name must not be ignored. */
hs_code hs__restore_check(const hs_restore_options *options, const hs_raw_session *session, hs_error *err)
{
    for (size_t i = 0; options->skip && options->skip[i]; i++)
        if (!hs__has_variable(session, options->skip[i]))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_restore_options.skip lists '%s', which is not a variable",
                                options->skip[i]);
    for (size_t i = 0; options->names && options->names[i].variable; i++)
        if (!options->names[i].name || !hs__has_variable(session, options->names[i].variable))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_restore_options.names lists '%s', which %s",
                                options->names[i].variable, options->names[i].name ? "is not a variable" : "has no name");
    return HS_OK;
}

static bool restores_by_program(const hs_saver *saver, const hs_restore_options *options)
{
    bool all = !options->names && !options->skip && !options->allow_missing && !options->reshape;
    return saver->restore_variables && all;
}

static hs_code restore_bundle(hs_saver *saver, hs_raw_session *session, const char *prefix,
                              const hs_restore_options *options, bool *in_files, hs_error *err)
{
    hs__bundle_reader reader;
    restore_record record = {NULL, NULL, NULL};
    *in_files = false;
    hs__background_wait(saver);
    hs_code code;
    if ((code = hs__selection_check(&saver->selection, session, err)) || (code = hs__restore_check(options, session, err)))
        return code;
    *in_files = true;
    if ((code = hs__bundle_reader_open(&reader, &saver->env, prefix, err)))
        return code;
    hs__archive archive = hs__bundle_archive(&reader);
    restoring r = {.selection = &saver->selection,
                   .session = session,
                   .archive = &archive,
                   .bundle = &reader,
                   .program = restores_by_program(saver, options) ? saver : NULL,
                   .options = options,
                   .plan = {.env = &saver->env}};
    if (!(code = prepare_record(&record, saver, session, prefix, err)) && !(code = restore_from(&r, in_files, err))) {
        hs__stash_unclaimed(&r.states, session);
        record_restore(&record, saver, session);
    }
    hs__free(&saver->env, record.last_path);
    hs__free(&session->env, record.restored_from);
    free_restoring(&r);
    hs__bundle_reader_close(&reader);
    return code;
}

hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    bool *damaged, hs_error *err)
{
    bool in_files;
    hs_error cause = {0};
    hs_code code = restore_bundle(saver, session, prefix, options, &in_files, &cause);
    *damaged = code && in_files && hs__is_damage(&cause);
    if (*damaged)
        hs__report_restore(options, HS_RESTORE_EVENT_REJECTED, prefix, cause.message);
    hs__error_copy(err, code ? &cause : NULL);
    return code;
}

hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *given,
                         hs_error *err)
{
    hs_restore_options options = HS_INIT(hs_restore_options);
    hs_error_clear(err);
    if (!saver || !session || !session->handle || !prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_restore: %s",
                            !saver                ? "saver is NULL"
                            : !prefix || !*prefix ? "prefix is missing"
                                                  : "session is NULL");
    bool damaged;
    hs_code code = HS_OK;
    if (given)
        code = hs__copy_restore_options(&options, &saver->env, given, err);
    return code ? code : hs__restore(saver, session, prefix, &options, &damaged, err);
}
