/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint convert`. */
#include "checkpoint_open.h"
#include "command.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"

#include <hooksess/safetensors.h>

#include <stdlib.h>
#include <string.h>

/* Other commands accept an index file or a directory as the name of a checkpoint. A new checkpoint must be named by its
 * prefix, because "x.index" or "dir" as a prefix would create files with unexpected names. */
static bool is_valid_output(const char *to)
{
    if (ends_in(to, ".index"))
        say("'%s': name the checkpoint by its prefix, without .index", to);
    else if (is_directory(to))
        say("'%s' is a directory; name a checkpoint or a .safetensors file in it", to);
    else
        return true;
    return false;
}

/* The names to leave out. */
typedef struct {
    const char **names; /* ended by NULL */
    size_t n;
    char *listed; /* the text of --skip, with zeros in place of commas */
} names;

static void add_name(names *skip, const char *name)
{
    skip->names = must_grow(skip->names, skip->n, sizeof *skip->names);
    skip->names[skip->n++] = name;
}

static bool has_name(const names *skip, const char *name)
{
    for (size_t i = 0; i < skip->n; i++)
        if (strcmp(skip->names[i], name) == 0)
            return true;
    return false;
}

/* Adds the names of --skip. */
static void add_listed(names *skip, const char *list)
{
    skip->listed = must_format("%s", list ? list : "");
    for (char *name = strtok(skip->listed, ","); name; name = strtok(NULL, ","))
        add_name(skip, name);
}

/* Adds the tensors that a safetensors file cannot hold, and prints a line for each. */
static void add_strings(names *skip, const hs_checkpoint_reader *reader)
{
    const char *name;
    hs_tensor info;
    for (size_t i = 0; hs_checkpoint_tensor(reader, i, &name, &info); i++)
        if (info.dtype == HS_STRING && !is_state(name) && !has_name(skip, name)) {
            say("'%s' skipped: it has strings, which a safetensors file cannot hold", name);
            add_name(skip, name);
        }
}

static void write_json(const char *from, const char *to, const names *skip)
{
    hs__json_writer out = js_begin(0);
    hs__json_open(&out, NULL, '{');
    hs__json_put_text(&out, "from", from);
    hs__json_put_text(&out, "to", to);
    hs__json_open(&out, "skipped", '[');
    for (size_t i = 0; skip->names[i]; i++)
        hs__json_put_text(&out, NULL, skip->names[i]);
    hs__json_close(&out, ']');
    hs__json_close(&out, '}');
    js_end();
}

/* `from` is a prefix, or a safetensors file. `reader` reads the prefix, or is NULL. */
static int convert(const char *from, const hs_checkpoint_reader *reader, const struct call *call)
{
    const char *to = call->operands[1];
    hs_error err = {0};
    names skip = {NULL, 0, NULL};
    add_listed(&skip, call->given[OPTION_SKIP]);
    if (reader && ends_in(to, ".safetensors"))
        add_strings(&skip, reader);
    add_name(&skip, NULL);
    const hs_code code = hs_checkpoint_convert(tool_env(), from, to, skip.names, &err);
    if (code)
        say("%s", err.message);
    if (code == HS_UNIMPLEMENTED || (code == HS_INVALID_ARGUMENT && reader && ends_in(to, ".safetensors")))
        say("to leave tensors out, use --skip NAMES");
    if (!code && call->given[OPTION_JSON])
        write_json(from, to, &skip);
    free(skip.names);
    free(skip.listed);
    return code ? TROUBLE : FINE;
}

int checkpoint_convert(const struct call *call)
{
    checkpoint opened;
    const char *from = call->operands[0];
    if (!is_valid_output(call->operands[1]))
        return TROUBLE;
    if (ends_in(from, ".safetensors"))
        return convert(from, NULL, call);
    if (!open_checkpoint(&opened, from))
        return TROUBLE;
    const int status = convert(opened.prefix, opened.reader, call);
    close_checkpoint(&opened);
    return status;
}
