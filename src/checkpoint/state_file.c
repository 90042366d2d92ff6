/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: a CheckpointState in protobuf's text format, and comments with what that has no fields for. Reading
 * parses both, and writing replaces the file. */
#include "checkpoint/state_file.h"

#include "checkpoint_state.pb-c.h"

#include "base/files.h"
#include "checkpoint/checkpoint_files.h"
#include "formats/proto_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 };

/* The beginnings of the comments that this library reads. */
#define LAST_SAVED "# last saved: "
#define EXPIRED    "# to be deleted: "
#define PINNED     "# pinned: "
#define METRIC     "# metric: "

/* Sets *path to that of a checkpoint that the file names. If a directory with absolute paths in its file was moved or
 * copied, the checkpoint next to the file is meant. */
static hs_code resolve(const hs_env *env, const char *directory, const char *name, char **path, hs_error *err)
{
    const bool absolute = *name == '/';
    hs_file_stat found;
    hs_error cause = {0};
    *path = hs__path_join(env, directory, absolute ? hs__path_base(name) : name);
    hs_code code = *path && absolute ? hs__checkpoint_stat(env, *path, &found, &cause) : HS_OK;
    if (code == HS_NOT_FOUND) {
        hs__free(env, *path);
        *path = hs__strdup(env, name);
        code = HS_OK;
    }
    return code ? hs__error_copy(err, &cause) : *path ? HS_OK : hs__no_memory(err, strlen(name), "a path");
}

hs_code hs__kept_names(hs__map *names, const hs__kept_checkpoint *kept, size_t n, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < n; i++)
        code = hs__map_add(names, hs__path_base(kept[i].path), i, NULL, err);
    return code;
}

static void read_pin(hs__checkpoint_state *state, const hs__map *names, const char *name, const char *line_end)
{
    size_t at = hs__map_find_bytes(names, name, (size_t)(line_end - name));
    if (at != HS__NONE)
        state->kept[at].pinned = true;
}

/* "BITS NAME": the bits of the metric in hexadecimal, which no locale changes. */
static void read_metric(hs__checkpoint_state *state, const hs__map *names, const char *text, const char *line_end)
{
    char *end;
    uint64_t bits = strtoull(text, &end, 16);
    bool has_name = end > text && end < line_end && *end == ' ';
    size_t at = has_name ? hs__map_find_bytes(names, end + 1, (size_t)(line_end - end - 1)) : HS__NONE;
    if (at != HS__NONE)
        memcpy(&state->kept[at].metric, &bits, sizeof bits);
}

static hs_code add_expired(hs__checkpoint_state *state, const char *name, size_t length, const char *directory,
                           hs_error *err)
{
    if (length == 0 || memchr(name, '/', length))
        return HS_OK; /* files of other directories are never deleted */
    hs_code code = hs__reserve(state->env, &state->expired, &state->expired_capacity, state->n_expired + 1,
                               sizeof *state->expired, err);
    if (code)
        return code;
    char *copy = hs__strndup(state->env, name, length);
    char *path = copy ? hs__path_join(state->env, directory, copy) : NULL;
    hs__free(state->env, copy);
    if (!path)
        return hs__no_memory(err, length, "a path");
    state->expired[state->n_expired++] = path;
    return HS_OK;
}

static bool begins(const char **line, const char *with)
{
    size_t length = strlen(with);
    bool so = strncmp(*line, with, length) == 0;
    *line += so ? length : 0;
    return so;
}

static hs_code read_comments(hs__checkpoint_state *state, const char *text, const char *directory, hs_error *err)
{
    const char *newest = hs__path_base(state->newest);
    hs__map names;
    hs__map_init(&names, state->env);
    hs_code code = hs__kept_names(&names, state->kept, state->n, err);
    for (const char *line = text, *next; !code && *line; line = next) {
        size_t length = strcspn(line, "\n");
        const char *rest = line, *end = line + length;
        next = *end ? end + 1 : end;
        if (begins(&rest, EXPIRED))
            code = add_expired(state, rest, (size_t)(end - rest), directory, err);
        else if (begins(&rest, PINNED))
            read_pin(state, &names, rest, end);
        else if (begins(&rest, METRIC))
            read_metric(state, &names, rest, end);
        else if (begins(&rest, LAST_SAVED))
            state->unedited = (size_t)(end - rest) == strlen(newest) && memcmp(rest, newest, strlen(newest)) == 0;
    }
    for (size_t i = 0; !code && i < state->n; i++) { /* a name may be listed several times */
        const hs__kept_checkpoint *first = &state->kept[hs__map_find(&names, hs__path_base(state->kept[i].path))];
        state->kept[i].pinned = first->pinned;
        state->kept[i].metric = first->metric;
    }
    hs__map_free(&names);
    return code;
}

static hs_code parse(hs__checkpoint_state *state, const char *path, const char *text, size_t bytes, const char *directory,
                     hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(state->env);
    ProtobufCMessage *message;
    hs_code code = hs__proto_parse_text(&hs__pb__checkpoint_state__descriptor, text, bytes, &allocator, &message, err);
    if (code) {
        hs_error_prefix(err, "%s", path);
        if (code == HS_INVALID_ARGUMENT && err)
            err->code = HS_DATA_LOSS;
        return code == HS_INVALID_ARGUMENT ? HS_DATA_LOSS : code;
    }
    const Hs__Pb__CheckpointState *from = (const Hs__Pb__CheckpointState *)message;
    const size_t n = from->n_all_model_checkpoint_paths;
    state->last_preserved = from->last_preserved_timestamp;
    if (!*from->model_checkpoint_path)
        code =
            hs_error_set(err, HS_INVALID_ARGUMENT, "%s: does not name the newest checkpoint (model_checkpoint_path)", path);
    else if (!(state->kept = hs__alloc(state->env, n, sizeof *state->kept)))
        code = hs__no_memory(err, n, "the list of checkpoints");
    else
        code = resolve(state->env, directory, from->model_checkpoint_path, &state->newest, err);
    for (; !code && state->n < n; state->n++) {
        hs__kept_checkpoint *kept = &state->kept[state->n];
        *kept = (hs__kept_checkpoint){.metric = (double)NAN};
        if (state->n < from->n_all_model_checkpoint_timestamps)
            kept->timestamp = from->all_model_checkpoint_timestamps[state->n];
        code = resolve(state->env, directory, from->all_model_checkpoint_paths[state->n], &kept->path, err);
    }
    protobuf_c_message_free_unpacked(message, &allocator);
    return code;
}

hs_code hs__checkpoint_state_read(hs__checkpoint_state *state, const hs_env *env, const char *directory, const char *name,
                                  hs_error *err)
{
    *state = (hs__checkpoint_state){.env = env};
    char *text = NULL, *path = hs__path_join(env, directory, name ? name : "checkpoint");
    size_t bytes = 0;
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    hs_code code = hs__file_contents(env, path, MAX_BYTES, &text, &bytes, err);
    if (!code)
        code = parse(state, path, text, bytes, directory, err);
    if (!code)
        code = read_comments(state, text, directory, err);
    if (code)
        hs__checkpoint_state_free(state);
    hs__free(env, text);
    hs__free(env, path);
    return code;
}

void hs__checkpoint_state_free(hs__checkpoint_state *state)
{
    for (size_t i = 0; i < state->n; i++)
        hs__free(state->env, state->kept[i].path);
    for (size_t i = 0; i < state->n_expired; i++)
        hs__free(state->env, state->expired[i]);
    hs__free(state->env, state->expired);
    hs__free(state->env, state->newest);
    hs__free(state->env, state->kept);
    *state = (hs__checkpoint_state){.env = state->env};
}

/* The path for the file. */
static const char *relative(const char *directory, const char *path)
{
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    const char *rest = path + length;
    if (strncmp(path, directory, length) != 0 || (*rest != '/' && !(length == 1 && *directory == '/')))
        rest = path;
    else
        while (*rest == '/')
            rest++;
    if (strcmp(directory, ".") == 0 && path[0] != '/') /* "./model" becomes "model" */
        for (rest = path; rest[0] == '.' && rest[1] == '/'; rest++)
            for (rest++; rest[1] == '/'; rest++)
                ;
    return rest;
}

/* A comment with the name of a checkpoint of the directory. */
static void write_comment(hs__buffer *text, const char *begin, const char *name)
{
    if (strpbrk(name, "/\n"))
        return;
    hs__buffer_text(text, "%s", begin);
    hs__buffer_text(text, "%s\n", name);
}

/* The fields of a CheckpointState, and the comments. */
static void write_list(const char *directory, const hs__checkpoint_list *list, hs__buffer *text)
{
    hs__proto_text_string("model_checkpoint_path", relative(directory, list->newest), text);
    for (size_t i = list->n_expired; i < list->n; i++)
        hs__proto_text_string("all_model_checkpoint_paths", relative(directory, list->kept[i].path), text);
    for (size_t i = list->n_expired; i < list->n; i++)
        hs__proto_text_real("all_model_checkpoint_timestamps", list->kept[i].timestamp, text);
    if (list->last_preserved != 0)
        hs__proto_text_real("last_preserved_timestamp", list->last_preserved, text);

    write_comment(text, LAST_SAVED, relative(directory, list->newest));
    for (size_t i = 0; i < list->n; i++) {
        const hs__kept_checkpoint *kept = &list->kept[i];
        const char *name = relative(directory, kept->path);
        char metric[64];
        uint64_t bits;
        memcpy(&bits, &kept->metric, sizeof bits);
        snprintf(metric, sizeof metric, METRIC "%016llx ", (unsigned long long)bits);
        if (i < list->n_expired)
            write_comment(text, EXPIRED, name);
        else if (!isnan(kept->metric))
            write_comment(text, metric, name);
        if (i >= list->n_expired && kept->pinned)
            write_comment(text, PINNED, name);
    }
}

hs_code hs__checkpoint_state_write(const hs_env *env, const char *directory, const char *name,
                                   const hs__checkpoint_list *list, hs_error *err)
{
    char *path = hs__path_join(env, directory, name ? name : "checkpoint");
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs_code code = HS_OK;
    if (!path) {
        code = hs__no_memory(err, strlen(directory), "a path");
    } else if (strcmp(path, list->newest) == 0) {
        code = hs_error_set(err, HS_FAILED_PRECONDITION,
                            "%s: a checkpoint and the state file, which names the newest checkpoint, have the same name",
                            path);
    } else {
        write_list(directory, list, &text);
        if (!(code = hs__buffer_check(&text, "the list of checkpoints", err)))
            code = hs__file_replace(env, path, text.data, text.size, true, err);
    }
    hs__buffer_free(&text);
    hs__free(env, path);
    return code;
}
