/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_list.h"
#include "checkpoint_open.h"
#include "columns.h"
#include "command.h"
#include "json_output.h"
#include "output.h"

static void list_text(const hs_checkpoint_reader *reader)
{
    columns c = {0, 0, 0, 0};
    const char *name;
    hs_tensor info;
    for (size_t i = 0; hs_checkpoint_tensor(reader, i, &name, &info); i++) {
        columns_fit(&c, name, hs_checkpoint_dtype_name(reader, name), &info);
        columns_fit_number(&c, stored_bytes(&info));
    }
    for (size_t i = 0; output_works() && hs_checkpoint_tensor(reader, i, &name, &info); i++) {
        columns_put(&c, name, hs_checkpoint_dtype_name(reader, name), &info);
        printf("  %*llu\n", c.number, (unsigned long long)stored_bytes(&info));
    }
}

static void list_json(const hs_checkpoint_reader *reader)
{
    const char *name;
    hs_tensor info;
    hs__json_writer out = js_begin(1);
    hs__json_open(&out, NULL, '[');
    for (size_t i = 0; output_works() && hs_checkpoint_tensor(reader, i, &name, &info); i++) {
        hs__json_open(&out, NULL, '{');
        js_tensor(&out, name, hs_checkpoint_dtype_name(reader, name), &info);
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    js_end();
}

int checkpoint_ls(const struct call *call)
{
    checkpoint of;
    const char *operand = call->operands[0];
    if (is_directory(operand) && !hs_checkpoint_exists(tool_env(), operand))
        return checkpoint_ls_directory(operand, call->given[OPTION_JSON]);
    if (!open_checkpoint(&of, operand))
        return TROUBLE;
    if (call->given[OPTION_JSON])
        list_json(of.reader);
    else
        list_text(of.reader);
    close_checkpoint(&of);
    return FINE;
}
