/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring one archive: a checkpoint, a safetensors file or a snapshot. hs__restore opens a checkpoint and records the
 * restore. restore_stages calls the stages in their order: match all variables and states with tensors, read and verify
 * all of them, and only then write. A failure before the writing leaves the model unchanged.
 *
 * A small model's values are kept in memory between reading and writing. A large model would need twice its memory: its
 * values are only verified, and then read and verified again, directly into the variables if the backend lends their
 * memory. Those of a snapshot are written straight from it. */
#include "checkpoint/restore.h"

#include "base/parallel.h"
#include "checkpoint/background.h"
#include "checkpoint/save_list.h"
#include "checkpoint/stored_states.h"
#include "checkpoint/unclaimed_states.h"

#include <stdio.h>
#include <string.h>

/* A variable and its tensor. */
typedef struct {
    size_t index; /* of the variable in the backend */
    hs_variable variable;
    size_t tensor; /* index in the archive */
    bool is_slice; /* the variable is only this box of the tensor: */
    hs__box box;
    size_t bytes;
    size_t offset;     /* of its value in restoring.data */
    const void *value; /* in restoring.data or in the archive; NULL: it is read when it is written */
    void *memory;      /* the variable's own memory; NULL: the value is copied into the variable */
} matched;

typedef struct {
    const hs_env *env;
    const hs__selection *selection;
    hs_raw_session *session;
    const hs__archive *archive;
    const hs_saver *program; /* not NULL: its restore_variables restores the variables */
    const hs_restore_options *options;

    matched *items;
    size_t n, capacity;
    size_t *unallocated; /* indexes in the backend of variables that had no memory when they were saved */
    size_t n_unallocated, unallocated_capacity;
    bool *used;          /* by index in the archive: a variable of the model has this name */
    uint64_t bytes;      /* of all values that are read; UINT64_MAX: more than can be counted */
    unsigned char *data; /* the values; NULL: they are read twice, or in the archive's memory */
    unsigned char *copy; /* one value, if they are read twice */
    size_t copy_bytes;
    hs__read_progress progress;
    hs__stored_states states;
    bool in_files; /* the stage that failed reads the files, and does not depend on the model */
} restoring;

/* Options. */

hs_code hs__copy_restore_options(hs_restore_options *to, const hs_env *env, const hs_restore_options *given, hs_error *err)
{
    hs_code code = HS_STRUCT_TAKE(hs_restore_options, reserved, to, given, err);
    return code || !to->names ? code : hs__check_named_once(env, to->names, "hs_restore_options.names lists variable", err);
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

void hs__report_restore(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail)
{
    if (options->report)
        options->report(options->user, event, name, detail);
}

static bool is_skipped(const hs_restore_options *options, const char *variable)
{
    for (size_t i = 0; options->skip && options->skip[i]; i++)
        if (strcmp(options->skip[i], variable) == 0)
            return true;
    return false;
}

/* The name that hs_restore_options.names gives the variable, or NULL. */
static const char *renamed(const hs_restore_options *options, const char *variable)
{
    for (size_t i = 0; options->names && options->names[i].variable; i++)
        if (strcmp(options->names[i].variable, variable) == 0)
            return options->names[i].name;
    return NULL;
}

/* Matching. */

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

/* Finds the variable's tensor, and returns its name. *wanted has the type and shape that it must have. A slice comes from
 * the partitioned tensor, or from a tensor with the name of the slice, as formats without slices have it. */
static const char *find_tensor(const restoring *r, matched *item, hs_variable *wanted)
{
    hs_variable_slice slice;
    const char *own = hs__selection_name(r->selection, item->variable.name);
    const char *name = renamed(r->options, item->variable.name);
    *wanted = item->variable;
    if (!hs__selection_slice(r->selection, r->session, item->index, item->variable.name, &slice)) {
        name = name ? name : own;
        item->tensor = hs__archive_find(r->archive, name);
        return name;
    }
    name = name ? name : slice.name;
    item->tensor = hs__archive_find(r->archive, name);
    if (item->tensor == HS__NONE && (item->tensor = hs__archive_find(r->archive, own)) != HS__NONE)
        return own;
    item->is_slice = true;
    item->box = hs__box_of(&item->variable.shape);
    memcpy(item->box.starts, slice.starts, sizeof item->box.starts);
    wanted->shape = slice.shape;
    return name;
}

/* *found is true if the variable, called `name` in the checkpoint, had no memory when it was saved. */
static hs_code find_unallocated(const restoring *r, const matched *item, const char *name, bool *found, hs_error *err)
{
    *found = false;
    if (item->tensor != HS__NONE || !(item->variable.flags & HS_VARIABLE_MOVES))
        return HS_OK;
    char *key = hs__unallocated_key(r->env, name);
    if (!key)
        return hs__no_memory(err, strlen(name), "a name");
    *found = hs__archive_find(r->archive, key) != HS__NONE;
    hs__free(r->env, key);
    return HS_OK;
}

static bool fits(const hs_variable *variable, const hs__stored *stored, bool reshape)
{
    return stored->dtype == (int32_t)variable->dtype &&
           (hs_shape_equal(&stored->shape, &variable->shape) ||
            (reshape && hs_shape_elements(&stored->shape) == hs_shape_elements(&variable->shape)));
}

static void add_different(misfits *all, const char *name, const hs_variable *variable, const hs__stored *stored,
                          const hs_restore_options *options)
{
    char text[2 * HS_SHAPE_TEXT_SIZE + 128], wanted[HS_SHAPE_TEXT_SIZE], found[HS_SHAPE_TEXT_SIZE];
    snprintf(text, sizeof text, "is %.32s %s in the checkpoint, but %s %s in the model", stored->dtype_name,
             hs_shape_text(&stored->shape, found, sizeof found), hs_dtype_name(variable->dtype),
             hs_shape_text(&variable->shape, wanted, sizeof wanted));
    hs__report_restore(options, HS_RESTORE_EVENT_MISMATCHED, name, text);
    separate(all);
    all->different++;
    hs__buffer_text(&all->text, "'%s' %s", name, text);
}

static hs_code match_variable(restoring *r, matched *item, misfits *wrong, hs_error *err)
{
    const hs_restore_options *options = r->options;
    hs_variable wanted;
    const char *name = find_tensor(r, item, &wanted);
    if (is_skipped(options, item->variable.name)) {
        hs__report_restore(options, HS_RESTORE_EVENT_SKIPPED, item->variable.name, "");
        return HS_OK;
    }
    if (item->is_slice && wrong->reported && strcmp(wrong->reported, name) == 0)
        return HS_OK;

    bool unallocated;
    hs_code code = find_unallocated(r, item, name, &unallocated, err);
    if (!code && unallocated)
        code = hs__reserve(r->env, &r->unallocated, &r->unallocated_capacity, r->n_unallocated + 1, sizeof *r->unallocated,
                           err);
    if (code)
        return code;
    if (unallocated) {
        r->unallocated[r->n_unallocated++] = item->index;
        hs__report_restore(options, HS_RESTORE_EVENT_WITHOUT_MEMORY, item->variable.name, "");
        return HS_OK;
    }

    if (item->tensor == HS__NONE) {
        wrong->reported = item->is_slice ? name : NULL;
        hs__report_restore(options, HS_RESTORE_EVENT_MISSING, name, "");
        if (options->allow_missing || r->program)
            return HS_OK;
        separate(wrong);
        wrong->missing++;
        hs__buffer_text(&wrong->text, "'%s' is missing", name);
        return HS_OK;
    }
    hs__stored stored = hs__archive_tensor(r->archive, item->tensor);
    if (!fits(&wanted, &stored, options->reshape && !item->is_slice)) {
        r->used[item->tensor] = true;
        wrong->reported = item->is_slice ? name : NULL;
        add_different(wrong, name, &wanted, &stored, options);
        return HS_OK;
    }

    if ((code = hs__reserve(r->env, &r->items, &r->capacity, r->n + 1, sizeof *r->items, err)))
        return code;
    r->items[r->n++] = *item;
    r->used[item->tensor] = true;
    hs__report_restore(options, HS_RESTORE_EVENT_RESTORED, item->variable.name, name);
    return HS_OK;
}

/* Tensors of the archive without a variable. One of them may be a missing variable under a former name. */
static void add_extra(const restoring *r, misfits *all)
{
    for (size_t i = 0; i < r->archive->n; i++) {
        const char *name = hs__archive_name(r->archive, i);
        if (r->used[i] || hs__is_state_key(name))
            continue;
        hs__report_restore(r->options, HS_RESTORE_EVENT_EXTRA, name, "");
        if (all->missing + all->different == 0)
            continue; /* alone they are no error */
        separate(all);
        all->extra++;
        hs__buffer_text(&all->text, "'%s' is not in the model", name);
    }
}

static hs_code refuse_misfits(const restoring *r, const misfits *all, hs_error *err)
{
    hs_code code = all->different ? HS_INVALID_ARGUMENT : HS_NOT_FOUND;
    const char *text = (const char *)all->text.data;
    if (strlen(r->archive->path) + all->text.size > HS_MESSAGE_SIZE / 2) {
        hs_log(r->env, HS_LOG_ERROR, "checkpoint '%s' does not fit the model: %s", r->archive->path, text);
        text = "see the log";
    }
    return hs_error_set(
        err, code,
        "checkpoint '%s' does not fit the model, which is unchanged (%zu missing, %zu different): %s; restore %s",
        r->archive->path, all->missing, all->different, text,
        r->archive->ops->in_memory ? "it into the graph that it was copied from"
                                   : "into the model that was saved, set hs_restore_options.names or allow_missing, or "
                                     "train in another directory");
}

/* Finds a tensor for each selected variable. INVALID_ARGUMENT or NOT_FOUND lists all variables that the archive does not
 * have, or has with another type or shape, unless the options allow that. Only the function of the program knows which
 * variables it restores. Then a variable that the checkpoint does not have is allowed, and no variable is matched: this
 * only finds out which tensors of the checkpoint the program uses. */
static hs_code match_variables(restoring *r, hs_error *err)
{
    misfits wrong = {0};
    hs__buffer_init(&wrong.text, r->env);
    r->used = hs__alloc(r->env, r->archive->n, sizeof *r->used);
    hs_code code = r->used ? HS_OK : hs__no_memory(err, r->archive->n, "a list of tensors");
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        matched item = {.index = i};
        if (hs__selection_variable(r->selection, r->session, i, &item.variable, &done))
            code = match_variable(r, &item, &wrong, err);
    }
    if (!code)
        add_extra(r, &wrong);
    if (!code && !(code = hs__buffer_check(&wrong.text, "a message", err)) && wrong.missing + wrong.different)
        code = refuse_misfits(r, &wrong, err);
    hs__buffer_free(&wrong.text);
    if (r->program)
        r->n = 0;
    return code;
}

/* Sets states.unused to the names of the first tensors that no variable of the program uses, and the number of others. The
 * variables may be those of another saver. Also completes r->used. */
static hs_code find_unused(restoring *r, hs_error *err)
{
    enum { NAMED = 5 };
    hs_variable variable;
    hs__buffer names;
    size_t tensor, n = 0;
    hs__buffer_init(&names, &r->session->env);
    for (size_t i = 0; hs__session_variable(r->session, i, &variable); i++)
        if ((tensor = hs__archive_find(r->archive, variable.name)) != HS__NONE)
            r->used[tensor] = true;
    for (size_t i = 0; i < r->archive->n; i++) {
        const char *name = hs__archive_name(r->archive, i);
        if (!r->used[i] && !hs__is_state_key(name) && strcmp(name, "_CHECKPOINTABLE_OBJECT_GRAPH") != 0 && n++ < NAMED)
            hs__buffer_text(&names, "%s'%s'", n == 1 ? "" : ", ", name);
    }
    if (n > NAMED)
        hs__buffer_text(&names, " and %zu more", n - NAMED);
    hs_code code = hs__buffer_check(&names, "a list of tensors", err);
    r->states.unused = code ? NULL : (char *)names.data;
    if (code)
        hs__buffer_free(&names);
    return code;
}

/* Reading the values from the archive, by several threads. */

/* The values of larger models are not kept in memory. */
#define KEPT_BYTES ((uint64_t)64 << 20)

/* `archive`: that of the thread. */
typedef hs_code (*do_item_fn)(const restoring *r, const hs__archive *archive, const matched *item, hs_error *err);

typedef struct {
    const restoring *r;
    hs__archive_fork forks[HS__MOST_WORKERS];
    do_item_fn do_item;
} reading;

/* hs__do_part */
static hs_code do_part(void *user, size_t worker, size_t part, hs_error *err)
{
    reading *all = user;
    const hs__archive *archive = worker ? &all->forks[worker].archive : all->r->archive;
    return all->do_item(all->r, archive, &all->r->items[part], err);
}

static hs_code for_each_value(const restoring *r, do_item_fn do_item, hs_error *err)
{
    reading all = {.r = r, .do_item = do_item};
    bool one_thread = !r->archive->ops->forks;
    for (size_t i = 0; !one_thread && i < r->n; i++)
        one_thread = r->items[i].is_slice || hs__archive_tensor(r->archive, r->items[i].tensor).in_slices;
    size_t workers = one_thread ? 1 : hs__workers_for(r->n, r->bytes);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_begin(r->archive, &all.forks[i]);
    hs_code code = hs__in_parallel(workers, r->n, do_part, &all, err);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_end(&all.forks[i]);
    return code;
}

static const hs__box *box_of(const matched *item)
{
    return item->is_slice ? &item->box : NULL;
}

static hs_code read_to_data(const restoring *r, const hs__archive *archive, const matched *item, hs_error *err)
{
    return hs__archive_read(archive, item->tensor, box_of(item), r->data + item->offset, err);
}

static hs_code read_to_memory(const restoring *r, const hs__archive *archive, const matched *item, hs_error *err)
{
    (void)r;
    return item->memory ? hs__archive_read(archive, item->tensor, box_of(item), item->memory, err) : HS_OK;
}

static hs_code verify(const restoring *r, const hs__archive *archive, const matched *item, hs_error *err)
{
    bool done = false; /* an earlier slice of the tensor was verified */
    for (const matched *before = r->items; item->is_slice && before < item; before++)
        done |= before->tensor == item->tensor;
    return done ? HS_OK : hs__archive_verify(archive, item->tensor, err);
}

/* Reads and verifies all values, and keeps them unless they are large. Changes nothing. */
static hs_code read_variables(restoring *r, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    /* checks that the file has the bytes before memory is allocated for them */
    for (size_t i = 0; i < r->n; i++) {
        matched *item = &r->items[i];
        item->value = hs__archive_tensor(r->archive, item->tensor).data;
        hs_code code = hs__archive_locate(r->archive, item->tensor, box_of(item), &item->bytes, err);
        if (code)
            return code;
        item->offset = (size_t)r->bytes;
        uint64_t room = ((uint64_t)item->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        r->bytes = room < UINT64_MAX - r->bytes ? r->bytes + room : UINT64_MAX;
    }
    if (r->archive->ops->in_memory)
        return HS_OK;

    const bool keep = r->bytes <= KEPT_BYTES;
    const uint64_t state_bytes = r->states.bytes;
    double reads = (double)r->bytes * (keep ? 1 : 2) + (double)state_bytes * (state_bytes <= HS__STATES_IN_MEMORY ? 1 : 2);
    hs__read_progress_begin(&r->progress, r->env, r->archive->path, r->bytes + state_bytes, reads);
    if (!keep)
        return for_each_value(r, verify, err);
    if (!(r->data = hs__realloc(r->env, NULL, (size_t)r->bytes, 1)))
        return hs__no_memory(err, (size_t)r->bytes, "the values of a checkpoint");
    for (size_t i = 0; i < r->n; i++)
        r->items[i].value = r->data + r->items[i].offset;
    return for_each_value(r, read_to_data, err);
}

/* Changing the session. */

/* Looks up the variables' memory, and allocates what writing needs. Changes nothing. */
static hs_code prepare_memory(restoring *r, hs_error *err)
{
    size_t largest = 0;
    for (size_t i = 0; i < r->n; i++) {
        matched *item = &r->items[i];
        if (item->value && !(item->variable.flags & HS_VARIABLE_MOVES))
            continue;
        hs_code code = hs__session_lend(r->session, item->index, &item->variable, item->bytes, &item->memory, err);
        if (code)
            return code;
        if (!item->value && !item->memory && item->bytes > largest)
            largest = item->bytes;
    }
    if (largest <= r->copy_bytes)
        return HS_OK;
    hs__free(r->env, r->copy);
    r->copy = hs__realloc(r->env, NULL, largest, 1);
    r->copy_bytes = r->copy ? largest : 0;
    return r->copy ? HS_OK : hs__no_memory(err, largest, "a value of a checkpoint");
}

/* Sets the variables. Values that are not in memory are read into the variables' own memory, by several threads, or one
 * after the other into a copy. The backend is called for all variables. */
static hs_code write_variables(restoring *r, hs_error *err)
{
    hs_code code = prepare_memory(r, err); /* again: loading states may have moved the memory */
    if (!code && !r->data && !r->archive->ops->in_memory)
        code = for_each_value(r, read_to_memory, err);
    for (size_t i = 0; !code && i < r->n; i++) {
        const matched *item = &r->items[i];
        const void *value = item->value ? item->value : item->memory ? item->memory : r->copy;
        if (value == r->copy && (code = hs__archive_read(r->archive, item->tensor, box_of(item), r->copy, err)))
            break;
        hs_tensor tensor = hs_tensor_of(item->variable.dtype, item->variable.shape, value);
        code = hs__session_write(r->session, item->index, item->variable.name, &tensor, err);
    }
    const hs_tensor none = {.data = NULL};
    for (size_t i = 0; !code && i < r->n_unallocated; i++)
        code = hs__session_write(r->session, r->unallocated[i], "the variable", &none, err);
    return code;
}

/* Changes states and variables. After a failure the model may be partly restored: hooks do not save it. */
static hs_code change_model(restoring *r, hs_error *err)
{
    hs_error error = {0};
    hs_code code = HS_OK;
    bool variables_changed = r->program != NULL;
    if (r->program) {
        code = r->program->restore_variables(r->program->user, r->session, r->archive->path, &error);
        code = hs__normalize_error(code, "restore_variables", &error);
        if (code == HS_INVALID_ARGUMENT)
            return hs__error_copy(err, &error); /* it has changed nothing */
    }
    if (!code)
        code = hs__states_load(&r->states, r->archive, r->session, &error);
    hs__raw_session_moved(r->session);
    if (!code) {
        variables_changed = true;
        code = write_variables(r, &error);
    }
    if (code && variables_changed)
        hs_error_prefix(&error, HS__PARTLY_RESTORED);
    if (code)
        hs_raw_session_refuse_saves(r->session, &error);
    return code ? hs__error_copy(err, &error) : HS_OK;
}

static hs_code restore_stages(restoring *r, hs_error *err)
{
    hs_raw_session *session = r->session;
    const hs__archive *archive = r->archive;
    hs_code code;

    /* Match. */
    if ((code = match_variables(r, err)))
        return code;
    r->in_files = true;
    if ((code = hs__states_find(&r->states, session, archive, err)))
        return code;

    /* Read and verify. */
    if ((code = r->program ? hs__archive_verify_all(archive, err) : read_variables(r, err)) ||
        (code = hs__states_read(&r->states, session, archive, err)))
        return code;
    r->in_files = false;

    /* Check the rest, and allocate what the writing needs. */
    r->states.any_identity = r->options->any_identity;
    if ((code = hs__states_check(&r->states, session, err)) || (code = find_unused(r, err)) ||
        (code = prepare_memory(r, err)))
        return code;

    /* Write. */
    if (!(code = change_model(r, err)) && archive->ops->has_states)
        hs__stash_unclaimed(&r->states, session);
    return code;
}

static void free_restoring(restoring *r)
{
    hs__states_free(&r->states, &r->session->env);
    hs__free(r->env, r->items);
    hs__free(r->env, r->unallocated);
    hs__free(r->env, r->used);
    hs__free(r->env, r->data);
    hs__free(r->env, r->copy);
}

/* What is restored. */

hs_code hs__restore_archive(const hs__selection *selection, hs_raw_session *session, const hs__archive *archive,
                            const hs_restore_options *options, hs_error *err)
{
    restoring r = {
        .env = &session->env, .selection = selection, .session = session, .archive = archive, .options = options};
    hs_code code = restore_stages(&r, err);
    if (!code && r.states.unused)
        hs_log(&session->env, HS_LOG_INFO, "'%s' has tensors that no variable of the program uses (%s)", archive->path,
               r.states.unused);
    free_restoring(&r);
    return code;
}

/* Opens the checkpoint, restores it, and records that in the saver and the session. */
static hs_code restore_checkpoint(restoring *r, hs_saver *saver, const char *prefix, hs_error *err)
{
    hs_raw_session *session = r->session;
    hs__bundle_reader reader;
    hs_code code;
    if ((code = hs__selection_check(r->selection, session, err)) || (code = hs__restore_check(r->options, session, err)))
        return code;
    r->in_files = true;
    if ((code = hs__bundle_reader_open(&reader, &saver->env, prefix, err)))
        return code;
    r->in_files = false;
    reader.progress = &r->progress;
    hs__archive archive = hs__bundle_archive(&reader);
    r->archive = &archive;

    /* What saver and session record is allocated before the first change, so that recording cannot fail. */
    hs__saver_directory *directory = hs__saver_use_directory(saver, prefix, err);
    char *last_path = hs__strdup(&saver->env, prefix), *restored_from = hs__strdup(&session->env, prefix);
    if (!directory)
        code = HS_RESOURCE_EXHAUSTED;
    else if (!last_path || !restored_from)
        code = hs__no_memory(err, strlen(prefix), "a path");
    else
        code = restore_stages(r, err);
    if (!code) {
        char *before = directory->last_path;
        directory->last_path = last_path;
        last_path = before;
        directory->last_bytes = hs__expected_bytes(&saver->selection, session);
        restored_from = hs__raw_session_restored(session, restored_from, hs__step_in(prefix));
    }
    hs__free(&saver->env, last_path);
    hs__free(&session->env, restored_from);
    hs__bundle_reader_close(&reader);
    return code;
}

hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    bool *damaged, hs_error *err)
{
    const bool all = !options->names && !options->skip && !options->allow_missing && !options->reshape;
    restoring r = {.env = &saver->env,
                   .selection = &saver->selection,
                   .session = session,
                   .program = all && saver->restore_variables ? saver : NULL,
                   .options = options};
    hs_error cause = {0};
    hs__background_wait(saver);
    hs_code code = restore_checkpoint(&r, saver, prefix, &cause);
    free_restoring(&r);
    *damaged = code && r.in_files && hs__is_damage(&cause);
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
