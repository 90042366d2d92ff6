/* SPDX-License-Identifier: Apache-2.0 */
/* Saving the variables of a session to a safetensors file, and restoring them from one, by the functions of restore.c. A
 * file is written under a temporary name, and replaces the old one when it is complete (hs__safetensors_make). */
#include "checkpoint/session_safetensors.h"

#include "base/error.h"
#include "base/files.h"
#include "checkpoint/commit.h"
#include "checkpoint/restore.h"
#include "checkpoint/save_list.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENDING ".safetensors"

/* Creates an empty temporary file, PATH.PID-NUMBER.tmp. A path without the ending .safetensors gets it, as the ending
 * identifies the file (hs__is_safetensors_tmp). Each writer of `path` has its own file, so that none renames another's
 * incomplete file. */
static hs_code create_tmp(const hs_env *env, const char *path, char **tmp, hs_error *err)
{
    enum { MOST_TRIES = 1000 };
    hs_code code = HS_ALREADY_EXISTS;
    hs_error cause = {0};
    for (int i = 0; i < MOST_TRIES && code == HS_ALREADY_EXISTS; i++) {
        *tmp = hs__format(env, "%s%s.%ld-%d.tmp", path, hs__is_safetensors(path) ? "" : ENDING, (long)getpid(), i);
        if (!*tmp)
            return hs__no_memory(err, strlen(path), "a path");
        hs__file file;
        code = hs__file_open(&file, env, *tmp, HS_OPEN_NEW, &cause);
        if (!code && (code = hs__file_close(&file, &cause)))
            hs__file_remove(env, *tmp);
        if (code) { /* ALREADY_EXISTS: there is a file or a link of that name */
            hs__free(env, *tmp);
            *tmp = NULL;
        }
    }
    return code ? hs__error_copy(err, &cause) : HS_OK;
}

bool hs__is_safetensors_tmp(const char *name)
{
    int end = 0;
    for (const char *at = name; !end && (at = strstr(at, ENDING)); at++) {
        sscanf(at, ENDING ".%*[0-9]-%*[0-9].tmp%n", &end);
        end = end && !at[end];
    }
    return end;
}

hs_code hs__safetensors_make(hs__safetensors_writer *writer, const char *path, const hs_safetensors_pair *metadata,
                             hs__safetensors_put put, void *user, hs_error *err)
{
    enum { MOST_TRIES = 3 };
    const hs_env *env = writer->env;
    bool again = true;
    hs_code code = hs__make_directory_for(env, path, err);
    if (code)
        return code;
    for (int i = 0; i < MOST_TRIES && again; i++) {
        char *tmp = NULL;
        again = false;
        hs_error_clear(err);
        if ((code = create_tmp(env, path, &tmp, err)))
            return code;
        code = hs__safetensors_writer_begin(writer, tmp, metadata, err);
        for (size_t at = 0; !code && at < writer->header.n; at++)
            code = put(user, writer, at, err);
        if (!code)
            code = hs__safetensors_writer_finish(writer, err);
        if (!code) {
            code = hs__file_place(env, tmp, path, err);
            /* A training that starts in the directory cannot tell the file of a killed process from that of a running one.
             * It removes both. */
            again = code == HS_NOT_FOUND;
        }
        if (code)
            hs__file_remove(env, tmp);
        hs__free(env, tmp);
    }
    return code;
}

/* Saving. */

typedef struct {
    const hs__selection *selection;
    const hs_raw_session *session;
    hs__staging staging;
} export;

static hs_code declare_variables(const export *e, hs__safetensors_writer *writer, hs_error *err)
{
    hs_code code = HS_OK;
    hs_variable variable;
    for (size_t i = 0; !code && hs__selection_next(e->selection, e->session, &i, &variable); i++) {
        bool has_memory;
        if ((code = hs__session_has_memory(e->session, i, &variable, &has_memory, err)) || !has_memory)
            continue;
        const char *name = hs__selection_name(e->selection, variable.name);
        if (!(code = hs__check_saved_name(name, err)))
            code = hs__safetensors_writer_declare(writer, name, variable.dtype, &variable.shape, i, err);
    }
    return code;
}

/* hs__put_fn */
static hs_code write_piece(void *writer, const void *data, size_t bytes, hs_error *err)
{
    return hs__safetensors_writer_write(writer, data, bytes, err);
}

/* The header is already written: a shape that differs from it would corrupt the file. */
static hs_code put_variable(void *user, hs__safetensors_writer *writer, size_t index, hs_error *err)
{
    export *e = user;
    const hs__safetensors_entry *entry = &writer->header.entries[index];
    hs_tensor value;
    hs_code code = hs__session_read(e->session, entry->tag, entry->name, &value, err);
    if (code)
        return code;
    hs_shape shape = hs_tensor_shape(&value);
    if (value.dtype != entry->dtype || !hs_shape_equal(&shape, &entry->shape) || value.bytes != entry->bytes)
        return hs_error_set(err, HS_INTERNAL, "variable '%s' does not have the dtype and shape that the backend declared",
                            entry->name);
    code = hs__device_mark(value.memory, err);
    return code ? code : hs__tensor_put(entry->name, &value, &e->staging, write_piece, writer, err);
}

static hs_code check_options(const hs_safetensors_options *options, hs_error *err)
{
    for (size_t i = 0; options->names && options->names[i].variable; i++)
        if (!options->names[i].name)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_safetensors_options.names lists '%s' without a name",
                                options->names[i].variable);
    return HS_OK;
}

static hs_code check_call(const char *function, const hs_raw_session *session, const char *path, hs_error *err)
{
    hs_error_clear(err); /* a backend may fail without a message */
    if (session && session->handle && path && *hs__path_base(path))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: %s", function,
                        !path || !*hs__path_base(path) ? "path is missing" : "session is NULL");
}

hs_code hs_safetensors_save(hs_raw_session *session, const char *path, const hs_safetensors_options *given, hs_error *err)
{
    hs_safetensors_options options = HS_INIT(hs_safetensors_options);
    hs_code code;
    if ((code = check_call("hs_safetensors_save", session, path, err)) ||
        (given && (code = HS_STRUCT_TAKE(hs_safetensors_options, metadata, &options, given, err))) ||
        (code = check_options(&options, err)))
        return code;
    const hs__selection selection = {.variables = options.variables, .names = options.names};
    export e = {.selection = &selection, .session = session, .staging = {.env = &session->env, .piece = HS__STAGING_PIECE}};
    hs__safetensors_writer writer;
    hs__safetensors_writer_init(&writer, &session->env);
    if (!(code = hs__selection_check(&selection, session, err)) && !(code = declare_variables(&e, &writer, err)))
        code = hs__safetensors_make(&writer, path, options.metadata, put_variable, &e, err);
    hs__safetensors_writer_close(&writer);
    hs__staging_free(&e.staging);
    if (code)
        hs_error_prefix(err, "cannot save '%s'", path);
    else
        hs_error_clear(err);
    return code;
}

/* Loading. */

hs_code hs_safetensors_load(hs_raw_session *session, const char *path, const hs_restore_options *given, hs_error *err)
{
    hs_restore_options options = HS_INIT(hs_restore_options);
    hs_code code;
    if ((code = check_call("hs_safetensors_load", session, path, err)) ||
        (given && (code = hs__copy_restore_options(&options, &session->env, given, err))) ||
        (code = hs__restore_check(&options, session, err)))
        return code;
    const hs__selection all = {.names = NULL};
    hs__archive archive;
    if ((code = hs__archive_open(&archive, HS__SAFETENSORS, &session->env, path, err)))
        return code;
    code = hs__restore_archive(&all, session, &archive, &options, err);
    hs__archive_close(&archive);
    if (!code)
        hs_error_clear(err);
    return code;
}
