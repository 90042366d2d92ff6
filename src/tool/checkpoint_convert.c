/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint convert`. */
#include "checkpoint_open.h"
#include "command.h"
#include "json_output.h"
#include "output.h"

#include <hooksess/safetensors.h>

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

int checkpoint_convert(const struct call *call)
{
    const char *from = call->operands[0], *to = call->operands[1];
    hs_error err = {0};
    char *prefix = NULL;
    if (!is_valid_output(to))
        return TROUBLE;
    if (!ends_in(from, ".safetensors") && !(prefix = find_checkpoint(from)))
        return TROUBLE;
    hs_code code = hs_checkpoint_convert(tool_env(), prefix ? prefix : from, to, &err);
    if (code)
        say("%s", err.message);
    if (!code && call->given[OPTION_JSON]) {
        hs__json_writer out = js_begin(0);
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "from", prefix ? prefix : from);
        hs__json_put_text(&out, "to", to);
        hs__json_close(&out, '}');
        js_end();
    }
    hs_env_free(tool_env(), prefix);
    return code ? TROUBLE : FINE;
}
