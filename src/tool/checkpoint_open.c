/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, opens and reads checkpoints for the commands. */
#include "checkpoint_open.h"
#include "memory.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

static void log_line(void *user, hs_log_level level, const char *text)
{
    (void)user;
    if (level >= HS_LOG_WARNING)
        say("%s", text);
}

const hs_env *tool_env(void)
{
    static const hs_env env = HS_INIT(hs_env, .logger = {log_line, NULL});
    return &env;
}

static char *copy(const char *text, size_t length)
{
    char *copied = hs_env_alloc(tool_env(), length + 1);
    if (copied)
        memcpy(copied, text, length);
    else
        say("out of memory");
    return copied;
}

bool is_directory(const char *path)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found;
    return files->ops->stat(files->user, path, &found, NULL) == HS_OK && found.is_directory;
}

bool ends_in(const char *name, const char *ending)
{
    size_t length = strlen(name), n = strlen(ending);
    return length >= n && strcmp(name + length - n, ending) == 0;
}

bool check_directory(const char *path)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found = {.is_directory = false};
    hs_error err = {0};
    if (files->ops->stat(files->user, path, &found, &err) != HS_OK)
        say("%s", err.message);
    else if (!found.is_directory)
        say("%s: is not a directory", path);
    return found.is_directory;
}

/* The newest checkpoint of a directory. */
static char *find_newest(const char *directory)
{
    hs_error err = {0};
    char *newest = hs_checkpoint_latest(tool_env(), directory, NULL, &err);
    if (!newest && err.code)
        say("%s", err.message);
    else if (!newest)
        say("%s: contains no file 'checkpoint' that names an existing checkpoint; name a checkpoint by its prefix",
            directory);
    return newest;
}

static hs_code stat_file(const char *path, hs_error *err)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found;
    return files->ops->stat(files->user, path, &found, err);
}

/* False, and prints why, if `operand` is certainly not the prefix of a checkpoint. */
static bool may_be_prefix(const char *operand)
{
    char *index = must_format("%s.index", operand);
    const bool may_be = stat_file(index, NULL) != HS_NOT_FOUND;
    hs_error err = {0};
    free(index);
    if (may_be)
        return true;
    if (stat_file(operand, &err) == HS_NOT_FOUND)
        say("%s, and no checkpoint (%s.index does not exist)", err.message, operand);
    else if (err.code)
        say("%s", err.message);
    else if (strstr(operand, "tfevents"))
        say("%s: is not a checkpoint, but an event file; try 'hooksess events ls'", operand);
    else
        say("%s: is not a checkpoint: name a prefix, an index file, a safetensors file or a directory", operand);
    return false;
}

char *find_checkpoint(const char *operand)
{
    static const char ending[] = ".index";
    const size_t length = strlen(operand);
    if (hs_checkpoint_exists(tool_env(), operand))
        return copy(operand, length);
    if (is_directory(operand))
        return find_newest(operand);
    if (ends_in(operand, ending)) {
        char *prefix = copy(operand, length - (sizeof ending - 1));
        if (!prefix || hs_checkpoint_exists(tool_env(), prefix))
            return prefix;
        hs_env_free(tool_env(), prefix);
    } else if (*operand && !ends_in(operand, ".safetensors") && !strstr(operand, ".data-") && !may_be_prefix(operand)) {
        return NULL;
    }
    return copy(operand, length); /* opening it prints what is wrong */
}

bool open_checkpoint(checkpoint *opened, const char *operand)
{
    hs_error err = {0};
    *opened = (checkpoint){.prefix = find_checkpoint(operand)};
    if (!opened->prefix)
        return false;
    opened->reader = hs_checkpoint_open(tool_env(), opened->prefix, &err);
    if (!opened->reader) {
        say("%s", err.message);
        close_checkpoint(opened);
        return false;
    }
    return true;
}

void close_checkpoint(checkpoint *opened)
{
    hs_checkpoint_close(opened->reader);
    hs_env_free(tool_env(), opened->prefix);
    *opened = (checkpoint){NULL, NULL};
}

bool is_state(const char *name)
{
    static const char prefix[] = "hooksess/";
    return strncmp(name, prefix, sizeof prefix - 1) == 0;
}

uint64_t stored_bytes(const hs_tensor *info)
{
    hs_tensor whole = hs_tensor_of(info->dtype, hs_tensor_shape(info), NULL);
    if (info->dtype == HS_STRING)
        return info->bytes - whole.bytes; /* the hs_string elements are only in memory */
    return whole.bytes ? whole.bytes : info->bytes;
}

bool read_tensor(checkpoint *from, const char *name, hs_tensor *tensor)
{
    hs_error err = {0};
    /* Checks that the tensor exists before memory for it is allocated. INVALID_ARGUMENT is about the size 0. */
    hs_code code = hs_checkpoint_read(from->reader, name, NULL, 0, &err);
    if (code && code != HS_INVALID_ARGUMENT) {
        say("%s", err.message);
        return false;
    }
    tensor->data = malloc(tensor->bytes ? tensor->bytes : 1);
    if (!tensor->data) {
        say("%s: out of memory for '%s', %zu bytes", from->prefix, name, tensor->bytes);
        return false;
    }
    if (hs_checkpoint_read(from->reader, name, tensor->data, tensor->bytes, &err) == HS_OK)
        return true;
    say("%s", err.message);
    free(tensor->data);
    tensor->data = NULL;
    return false;
}
