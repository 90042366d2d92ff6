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

/* The checkpoints of a directory. */

static void list_rows(const checkpoint_list *list)
{
    int width = 0, digits = 1, step_digits = 1;
    for (size_t i = 0; i < list->n; i++) {
        int of_name = name_width(list->rows[i].path);
        int of_bytes = snprintf(NULL, 0, "%llu", (unsigned long long)list->rows[i].bytes);
        int of_step = snprintf(NULL, 0, "%lld", (long long)list->rows[i].step);
        width = of_name > width ? of_name : width;
        digits = of_bytes > digits ? of_bytes : digits;
        step_digits = list->rows[i].step >= 0 && of_step > step_digits ? of_step : step_digits;
    }
    for (size_t i = 0; i < list->n && output_works(); i++) {
        const listed *row = &list->rows[i];
        char time[TIME_TEXT], step[32] = "-";
        if (row->step >= 0)
            snprintf(step, sizeof step, "%lld", (long long)row->step);
        if (row->is_newest)
            put_style(STYLE_GOOD);
        put_padded(row->path, width);
        printf("  %*s  %*llu  %s", step_digits, step, digits, (unsigned long long)row->bytes,
               time_text(time, row->time_ns));
        if (row->is_newest)
            fputs("  newest", stdout);
        else if (strcmp(row->kind, "checkpoint") != 0)
            printf("  %s", row->kind);
        put_style(STYLE_NONE);
        puts("");
    }
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
