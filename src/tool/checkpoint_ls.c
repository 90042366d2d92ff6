/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint ls`: lists the tensors of a checkpoint, or the checkpoints of a directory. */
#include "checkpoint_list.h"
#include "checkpoint_open.h"
#include "columns.h"
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "times.h"

#include <string.h>

/* The tensors of a checkpoint. */

static void list_text(const hs_checkpoint_reader *reader)
{
    static const char *const header[] = {"tensor", "dtype", "shape", ">size", NULL};
    columns table = {.header = header};
    const char *name;
    hs_tensor info;
    for (size_t i = 0; hs_checkpoint_tensor(reader, i, &name, &info); i++) {
        const hs_shape shape = hs_tensor_shape(&info);
        columns_row(&table, STYLE_NONE);
        columns_put(&table, "%s", name);
        columns_put(&table, "%s", hs_checkpoint_dtype_name(reader, name));
        columns_put_shape(&table, &shape);
        columns_put_bytes(&table, stored_bytes(&info));
    }
    columns_print(&table);
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
        js_count(&out, "bytes", stored_bytes(&info));
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    js_end();
}

/* The checkpoints of a directory. */

static void list_rows(const checkpoint_list *list)
{
    static const char *const header[] = {"checkpoint", ">step", ">size", "time", "", NULL};
    columns table = {.header = header};
    char time[TIME_TEXT];
    for (size_t i = 0; i < list->n; i++) {
        const listed *row = &list->rows[i];
        columns_row(&table, row->is_newest ? STYLE_GOOD : STYLE_NONE);
        columns_put(&table, "%s", row->path);
        columns_put(&table, row->step < 0 ? "-" : "%lld", (long long)row->step);
        columns_put_bytes(&table, row->bytes);
        columns_put(&table, "%s", time_text(time, row->time_ns));
        columns_put(&table, "%s", row->is_newest ? "newest" : strcmp(row->kind, "checkpoint") != 0 ? row->kind : "");
    }
    columns_print(&table);
}

static void list_rows_json(const checkpoint_list *list)
{
    char time[TIME_TEXT];
    hs__json_writer out = js_begin(1);
    hs__json_open(&out, NULL, '[');
    for (size_t i = 0; i < list->n && output_works(); i++) {
        const listed *row = &list->rows[i];
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "path", row->path);
        hs__json_put_text(&out, "kind", row->kind);
        if (row->step >= 0)
            hs__json_put_int(&out, "step", row->step);
        else
            hs__json_put_null(&out, "step");
        js_count(&out, "bytes", row->bytes);
        hs__json_put_text(&out, "time", time_text(time, row->time_ns));
        hs__json_put_bool(&out, "newest", row->is_newest);
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    js_end();
}

static int list_directory(const char *directory, bool as_json)
{
    checkpoint_list list;
    bool complete = list_checkpoints(&list, directory);
    if (complete && !list.n)
        say("%s: contains no checkpoint", directory);
    else if (list.n)
        (as_json ? list_rows_json : list_rows)(&list);
    int status = complete && list.n ? FINE : TROUBLE;
    free_checkpoints(&list);
    return status;
}

int checkpoint_ls(const struct call *call)
{
    checkpoint of;
    const char *operand = call->operands[0];
    if (is_directory(operand) && !hs_checkpoint_exists(tool_env(), operand))
        return list_directory(operand, call->given[OPTION_JSON]);
    if (!open_checkpoint(&of, operand))
        return TROUBLE;
    if (call->given[OPTION_JSON])
        list_json(of.reader);
    else
        list_text(of.reader);
    close_checkpoint(&of);
    return FINE;
}
