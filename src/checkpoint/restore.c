/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring one archive: a checkpoint, a safetensors file or a snapshot. hs__restore opens a checkpoint and records the
 * restore. restore calls the stages in their order: match all variables with tensors, read and verify all variables and
 * states, and only then write. A failure before the writing leaves the model unchanged.
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
    size_t offset;           /* of its value in restoring.data */
    const void *value;       /* in restoring.data or in the archive; NULL: it is read when it is written */
    const hs_memory *device; /* of a value in the archive. NULL: it is in host memory */
    hs_tensor memory;        /* the variable's own; without data: the value is copied into the variable */
} matched;

typedef struct {
    const hs_env *env;
    const hs__selection *selection;
    hs_raw_session *session;
    hs__archive *archive;
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
    bool writes; /* values are read to be written */
    hs__read_progress progress;
    hs__stored_states states;
    bool in_files; /* the stage that failed reads the files, and does not depend on the model */
} restoring;

/* Options. */

hs_code hs__copy_restore_options(hs_restore_options *to, const hs_env *env, const hs_restore_options *given, hs_error *err)
{
    hs_code code = HS_STRUCT_TAKE(hs_restore_options, reserved, to, given, err);
    return code ? code : hs__check_once(env, to->names, sizeof *to->names, "hs_restore_options.names lists variable", err);
}

/* A misspelled name must not be ignored. */
hs_code hs__restore_check(const hs_restore_options *options, const hs_raw_session *session, hs_error *err)
{
    for (size_t i = 0; options->names && options->names[i].variable; i++)
        if (!options->names[i].name)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_restore_options.names lists '%s', which has no name",
                                options->names[i].variable);
    hs_code code = hs__check_variables(session, options->skip, sizeof *options->skip, "hs_restore_options.skip lists", err);
    return code ? code
                : hs__check_variables(session, options->names, sizeof *options->names, "hs_restore_options.names lists",
                                      err);
}

void hs__report_restore(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail)
{
    if (options->report)
        options->report(options->user, event, name, detail);
}

/* Matching. */

/* An error message that collects all mismatched variables. */
typedef struct {
    hs__buffer text; /* each begins with "; " */
    size_t missing, different;
    const char *reported; /* tensor of the last slice that does not fit; its other slices are not reported again */
} misfits;

/* Finds the variable's tensor, and returns its name. *wanted has the type and shape that it must have. A slice comes from
 * the partitioned tensor, or from a tensor with the name of the slice, as formats without slices have it. */
static const char *find_tensor(const restoring *r, matched *item, hs_variable *wanted)
{
    hs_variable_slice slice;
    const char *own = hs__selection_name(r->selection, item->variable.name);
    const char *name = hs__name_in(r->options->names, item->variable.name);
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

static hs_code match_variable(restoring *r, matched item, misfits *wrong, hs_error *err)
{
    const hs_restore_options *options = r->options;
    hs_variable wanted;
    hs_code code;
    const char *variable = item.variable.name, *name = find_tensor(r, &item, &wanted);
    if (options->skip && hs__is_listed(options->skip, variable)) {
        hs__report_restore(options, HS_RESTORE_EVENT_SKIPPED, variable, "");
        return HS_OK;
    }
    if (item.is_slice && wrong->reported && strcmp(wrong->reported, name) == 0)
        return HS_OK;

    if (item.tensor == HS__NONE && item.variable.flags & HS_VARIABLE_MOVES) {
        char *key = hs__unallocated_key(r->env, name);
        if (!key)
            return hs__no_memory(err, strlen(name), "a name");
        const bool was_unallocated = hs__archive_find(r->archive, key) != HS__NONE;
        hs__free(r->env, key);
        if (was_unallocated) {
            code = hs__reserve(r->env, &r->unallocated, &r->unallocated_capacity, r->n_unallocated + 1,
                               sizeof *r->unallocated, err);
            if (code)
                return code;
            r->unallocated[r->n_unallocated++] = item.index;
            hs__report_restore(options, HS_RESTORE_EVENT_WITHOUT_MEMORY, variable, "");
            return HS_OK;
        }
    }
    if (item.tensor == HS__NONE) {
        wrong->reported = item.is_slice ? name : NULL;
        hs__report_restore(options, HS_RESTORE_EVENT_MISSING, name, "");
        if (!options->allow_missing && !r->program) {
            wrong->missing++;
            hs__buffer_text(&wrong->text, "; '%s' is missing", name);
        }
        return HS_OK;
    }

    r->used[item.tensor] = true;
    const hs__stored stored = hs__archive_tensor(r->archive, item.tensor);
    const bool reshapes =
        options->reshape && !item.is_slice && hs_shape_elements(&stored.shape) == hs_shape_elements(&wanted.shape);
    if (stored.dtype != (int32_t)wanted.dtype || !(hs_shape_equal(&stored.shape, &wanted.shape) || reshapes)) {
        char text[2 * HS_SHAPE_TEXT_SIZE + 128], shape[HS_SHAPE_TEXT_SIZE], found[HS_SHAPE_TEXT_SIZE];
        snprintf(text, sizeof text, "is %.32s %s in the checkpoint, but %s %s in the model", stored.dtype_name,
                 hs_shape_text(&stored.shape, found, sizeof found), hs_dtype_name(wanted.dtype),
                 hs_shape_text(&wanted.shape, shape, sizeof shape));
        wrong->reported = item.is_slice ? name : NULL;
        wrong->different++;
        hs__report_restore(options, HS_RESTORE_EVENT_MISMATCHED, name, text);
        hs__buffer_text(&wrong->text, "; '%s' %s", name, text);
        return HS_OK;
    }
    if ((code = hs__reserve(r->env, &r->items, &r->capacity, r->n + 1, sizeof *r->items, err)))
        return code;
    r->items[r->n++] = item;
    hs__report_restore(options, HS_RESTORE_EVENT_RESTORED, variable, name);
    return HS_OK;
}

/* Tensors of the archive that no selected variable uses. One of them may be a missing variable under a former name.
 * states.unused names those that no variable of the program uses: others may be of another saver. */
static hs_code find_unused(restoring *r, misfits *wrong, hs_error *err)
{
    enum { NAMED = 5 };
    hs_variable variable;
    hs__buffer names;
    size_t n = 0;
    bool *of_program = hs__alloc(r->env, r->archive->n, sizeof *of_program);
    if (!of_program)
        return hs__no_memory(err, r->archive->n, "a list of tensors");
    hs__buffer_init(&names, &r->session->env);
    for (size_t i = 0, tensor; hs__session_variable(r->session, i, &variable); i++)
        if ((tensor = hs__archive_find(r->archive, variable.name)) != HS__NONE)
            of_program[tensor] = true;
    for (size_t i = 0; i < r->archive->n; i++) {
        const char *name = hs__archive_name(r->archive, i);
        if (r->used[i] || hs__is_state_key(name))
            continue;
        hs__report_restore(r->options, HS_RESTORE_EVENT_EXTRA, name, "");
        if (wrong->missing + wrong->different) /* alone they are no error */
            hs__buffer_text(&wrong->text, "; '%s' is not in the model", name);
        if (!of_program[i] && strcmp(name, "_CHECKPOINTABLE_OBJECT_GRAPH") != 0 && n++ < NAMED)
            hs__buffer_text(&names, "%s'%s'", n == 1 ? "" : ", ", name);
    }
    if (n > NAMED)
        hs__buffer_text(&names, " and %zu more", n - NAMED);
    hs__free(r->env, of_program);
    hs_code code = hs__buffer_check(&names, "a list of tensors", err);
    if (code)
        hs__buffer_free(&names);
    else
        r->states.unused = (char *)names.data;
    return code;
}

static hs_code refuse_misfits(const restoring *r, const misfits *all, hs_error *err)
{
    hs_code code = all->different ? HS_INVALID_ARGUMENT : HS_NOT_FOUND;
    const char *text = (const char *)all->text.data + strlen("; ");
    if (strlen(r->archive->path) + all->text.size > HS_MESSAGE_SIZE / 2) {
        hs_log(r->env, HS_LOG_ERROR, "checkpoint '%s' does not fit the model: %s", r->archive->path, text);
        text = "see the log";
    }
    return hs_error_set(
        err, code,
        "checkpoint '%s' does not fit the model, and was not restored (%zu missing, %zu different): %s; restore %s",
        r->archive->path, all->missing, all->different, text,
        r->archive->kind == HS__SNAPSHOT ? "it into the graph that it was copied from"
                                         : "into the model that was saved, set hs_restore_options.names or allow_missing, "
                                           "or train in another directory");
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
    matched item = {.index = 0};
    for (; !code && hs__selection_next(r->selection, r->session, &item.index, &item.variable); item.index++)
        code = match_variable(r, item, &wrong, err);
    if (!code)
        code = find_unused(r, &wrong, err);
    if (!code && !(code = hs__buffer_check(&wrong.text, "a message", err)) && wrong.missing + wrong.different)
        code = refuse_misfits(r, &wrong, err);
    hs__buffer_free(&wrong.text);
    if (r->program)
        r->n = 0;
    return code;
}

/* Reading the values from the archive, by several threads. */

/* The values of larger models are not kept in memory. */
#define KEPT_BYTES ((uint64_t)64 << 20)

static const hs__box *box_of(const matched *item)
{
    return item->is_slice ? &item->box : NULL;
}

typedef struct {
    const restoring *r;
    hs__archive forks[HS__MOST_WORKERS]; /* of the threads but the caller's */
    hs__staging stagings[HS__MOST_WORKERS];
} reading;

/* True if the value can be read in pieces, as memory on a device needs. */
static bool has_pieces(const hs__archive *archive, const matched *item)
{
    return archive->kind == HS__BUNDLE && !item->is_slice && item->variable.dtype != HS_STRING;
}

/* hs__do_part. Reads a value to memory; without memory for it, verifies it, or leaves it to write_variables. */
static hs_code read_value(void *user, size_t worker, size_t part, hs_error *err)
{
    reading *all = user;
    const restoring *r = all->r;
    const matched *item = &r->items[part];
    hs__archive *archive = worker ? &all->forks[worker] : r->archive;
    const hs_memory *device = r->writes ? item->memory.memory : NULL;
    void *to = r->writes ? item->memory.data : r->data ? r->data + item->offset : NULL;
    if (device && to) {
        hs__staging *staging = &all->stagings[worker];
        hs__staging_begin(staging, device, to);
        hs_code code = hs__archive_stream(archive, item->tensor, hs__staging_put, staging, err);
        return hs__staging_end(staging, code, err);
    }
    if (to)
        return hs__archive_read(archive, item->tensor, box_of(item), to, err);
    bool done = r->writes; /* or an earlier slice of the tensor was verified */
    for (const matched *before = r->items; item->is_slice && before < item; before++)
        done |= before->tensor == item->tensor;
    return done ? HS_OK : hs__archive_verify(archive, item->tensor, err);
}

static hs_code read_values(const restoring *r, hs_error *err)
{
    reading all = {.r = r};
    bool one_thread = r->archive->kind != HS__BUNDLE;
    for (size_t i = 0; !one_thread && i < r->n; i++)
        one_thread = r->items[i].is_slice || hs__archive_tensor(r->archive, r->items[i].tensor).in_slices;
    size_t workers = one_thread ? 1 : hs__workers_for(r->n, r->bytes);
    for (size_t i = 0; i < workers; i++)
        all.stagings[i] = (hs__staging){.env = r->env, .piece = HS__STAGING_PIECE};
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork(r->archive, &all.forks[i]);
    hs_code code = hs__in_parallel(workers, r->n, read_value, &all, err);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_close(&all.forks[i]);
    for (size_t i = 0; i < workers; i++)
        hs__staging_free(&all.stagings[i]);
    return code;
}

/* Checks that the file has the bytes of the values before memory is allocated for them, and sums them up, for the log of
 * the progress, too. */
static hs_code locate_variables(restoring *r, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    uint64_t states = 0;
    for (size_t i = 0; i < r->n; i++) {
        matched *item = &r->items[i];
        const hs__stored stored = hs__archive_tensor(r->archive, item->tensor);
        item->value = stored.data;
        item->device = stored.memory;
        hs_code code = hs__archive_locate(r->archive, item->tensor, box_of(item), &item->bytes, err);
        if (code)
            return code;
        item->offset = (size_t)r->bytes;
        uint64_t room = ((uint64_t)item->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        r->bytes = room < UINT64_MAX - r->bytes ? r->bytes + room : UINT64_MAX;
    }
    if (r->program) /* reads the variables itself */
        return HS_OK;
    for (size_t i = 0; i < r->archive->n; i++)
        if (hs__is_state_key(hs__archive_name(r->archive, i)))
            states += hs__archive_tensor(r->archive, i).bytes;
    hs__read_progress_begin(&r->progress, r->env, r->archive->path, r->bytes + states,
                            (double)r->bytes * (r->bytes <= KEPT_BYTES ? 1 : 2) +
                                (double)states * (states <= HS__STATES_IN_MEMORY ? 1 : 2));
    return HS_OK;
}

/* Reads and verifies all values, and keeps them unless they are large. Changes nothing. */
static hs_code read_variables(restoring *r, hs_error *err)
{
    const bool keep = r->bytes <= KEPT_BYTES;
    if (r->archive->kind == HS__SNAPSHOT)
        return HS_OK;
    if (keep && !(r->data = hs__realloc(r->env, NULL, (size_t)r->bytes, 1)))
        return hs__no_memory(err, (size_t)r->bytes, "the values of a checkpoint");
    for (size_t i = 0; keep && i < r->n; i++)
        r->items[i].value = r->data + r->items[i].offset;
    return read_values(r, err);
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
        if (item->memory.memory && !has_pieces(r->archive, item))
            item->memory.data = NULL;
        if (!item->value && !item->memory.data && item->bytes > largest)
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
    r->writes = true;
    const hs_memory *marked = NULL;
    for (size_t i = 0; !code && i < r->n; i++) {
        const hs_memory *device = r->items[i].memory.memory;
        code = device != marked ? hs__device_mark(device, err) : HS_OK;
        marked = device;
    }
    if (!code && !r->data && r->archive->kind != HS__SNAPSHOT)
        code = read_values(r, err);
    for (size_t i = 0; !code && i < r->n; i++) {
        const matched *item = &r->items[i];
        const bool is_lent = !item->value && item->memory.data;
        const void *value = item->value ? item->value : is_lent ? item->memory.data : r->copy;
        if (value == r->copy && (code = hs__archive_read(r->archive, item->tensor, box_of(item), r->copy, err)))
            break;
        hs_tensor tensor = hs_tensor_of(item->variable.dtype, item->variable.shape, value);
        tensor.memory = is_lent ? item->memory.memory : item->device;
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

/* The stages. */
static hs_code restore(restoring *r, hs_error *err)
{
    hs_code code;
    r->states.any_identity = r->options->any_identity;

    /* Match. */
    if ((code = match_variables(r, err)))
        return code;

    /* Read and verify. */
    r->in_files = true;
    if ((code = locate_variables(r, err)) || (code = hs__states_read(&r->states, r->session, r->archive, err)) ||
        (code = r->program ? hs__archive_verify_all(r->archive, err) : read_variables(r, err)))
        return code;
    r->in_files = false;

    /* Allocate what the writing needs, and write. */
    if ((code = prepare_memory(r, err)) || (code = change_model(r, err)))
        return code;
    if (r->states.path)
        hs__stash_unclaimed(&r->states, r->session);
    return HS_OK;
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

hs_code hs__restore_archive(const hs__selection *selection, hs_raw_session *session, hs__archive *archive,
                            const hs_restore_options *options, hs_error *err)
{
    restoring r = {
        .env = &session->env, .selection = selection, .session = session, .archive = archive, .options = options};
    hs_code code = restore(&r, err);
    if (!code && r.states.unused)
        hs_log(&session->env, HS_LOG_INFO, "'%s' has tensors that no variable of the program uses (%s)", archive->path,
               r.states.unused);
    free_restoring(&r);
    return code;
}

hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    bool *damaged, hs_error *err)
{
    const bool all = !options->names && !options->skip && !options->allow_missing && !options->reshape;
    hs__archive archive;
    restoring r = {.env = &saver->env,
                   .selection = &saver->selection,
                   .session = session,
                   .archive = &archive,
                   .program = all && saver->restore_variables ? saver : NULL,
                   .options = options};
    hs_error cause = {0};
    hs_code code;
    *damaged = false;
    hs__background_wait(saver);
    if ((code = hs__selection_check(r.selection, session, err)) || (code = hs__restore_check(options, session, err)))
        return code;
    if ((code = hs__archive_open(&archive, HS__BUNDLE, &saver->env, prefix, &cause))) {
        r.in_files = true;
    } else {
        archive.bundle.progress = &r.progress;
        /* What saver and session record is allocated before the first change, so that recording cannot fail. */
        hs__saver_directory *directory = hs__saver_use_directory(saver, prefix, &cause);
        char *last_path = hs__strdup(&saver->env, prefix), *restored_from = hs__strdup(&session->env, prefix);
        if (!directory || !last_path || !restored_from)
            code = hs__no_memory(&cause, strlen(prefix), "a path");
        else if (!(code = hs__raw_session_reserve_return(session, &cause)))
            code = restore(&r, &cause);
        if (!code) {
            char *before = directory->last_path;
            directory->last_path = last_path;
            last_path = before;
            directory->last_bytes = hs__expected_bytes(&saver->selection, session);
            restored_from = hs__raw_session_restored(session, restored_from, hs__step_in(prefix),
                                                     hs__saver_restores(directory, session));
        }
        hs__free(&saver->env, last_path);
        hs__free(&session->env, restored_from);
        hs__archive_close(&archive);
    }
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
