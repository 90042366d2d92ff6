/* SPDX-License-Identifier: Apache-2.0 */
/* `events cat`: prints the selected events, one line per value. print_* writes text, list_* JSON. */
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"
#include "times.h"

#include "base/text.h"

#include <stdlib.h>

/* The selected events. */
typedef struct {
    wanted_tag tag;
    int64_t from, to;
    bool exists, any;    /* there is an event with the tag; and one at the steps */
    int64_t first, last; /* the steps of the events with the tag */
} filter;

static bool selects(filter *wanted, const hs_event *event, hs_string tag)
{
    if (!is_wanted_tag(&wanted->tag, tag))
        return false;
    const bool in_range = event->step >= wanted->from && event->step <= wanted->to;
    wanted->first = !wanted->exists || event->step < wanted->first ? event->step : wanted->first;
    wanted->last = !wanted->exists || event->step > wanted->last ? event->step : wanted->last;
    wanted->any = wanted->any || in_range;
    wanted->exists = true;
    return in_range;
}

/* Text output. */

static void put_string(const char *before, hs_string string)
{
    char *text = text_of(string);
    fputs(before, stdout);
    put_name(text);
    free(text);
}

static void put_head(const hs_event *event)
{
    char time[TIME_TEXT];
    const bool is_time = event->wall_time >= 0 && event->wall_time < 9e9; /* a file may have any number */
    printf("%lld  ", (long long)event->step);
    if (is_time)
        fputs(time_text(time, (int64_t)(event->wall_time * 1e9)), stdout);
    else
        printf("%g", event->wall_time);
    printf("  %s", hs_event_kind_name(event->kind));
}

static const char *status_name(hs_session_log_status status)
{
    static const char *const names[] = {"unspecified", "start", "stop", "checkpoint"};
    return names[status];
}

static void print_value(const hs_event *event, const hs_event_value *value)
{
    char shape[HS_SHAPE_TEXT_SIZE], size[HS__NUMBER_TEXT];
    put_head(event);
    put_string("  ", value->tag);
    printf("  %s", hs_event_value_kind_name(value->kind));
    if (value->plugin.bytes)
        put_string("/", value->plugin);
    if (value->has_scalar)
        printf("  %.9g\n", value->scalar);
    else if (value->kind == HS_EVENT_VALUE_TENSOR)
        printf("  %s%s\n", hs_dtype_name(value->dtype), hs_shape_text(&value->shape, shape, sizeof shape));
    else
        printf("  %s\n", hs__bytes_text(size, value->bytes.size));
}

static void print_event(const hs_event *event)
{
    char size[HS__NUMBER_TEXT];
    put_head(event);
    if (event->kind == HS_EVENT_SESSION_LOG)
        printf("  %s", status_name(event->status));
    const hs_string strings[] = {event->text, event->checkpoint_path, event->message};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        if (strings[i].bytes)
            put_string("  ", strings[i]);
    if (event->bytes.size)
        printf("  %s", hs__bytes_text(size, event->bytes.size));
    puts("");
}

/* JSON output. */

static void js_string(hs__json_writer *out, const char *name, hs_string string)
{
    char *text = text_of(string);
    hs__json_put_text(out, name, text);
    free(text);
}

static hs__json_writer begin_event(const hs_event *event)
{
    hs__json_writer out = js_begin(0);
    hs__json_open(&out, NULL, '{');
    hs__json_put_text(&out, "file", event->path);
    hs__json_put_number(&out, "wall_time", event->wall_time);
    hs__json_put_int(&out, "step", event->step);
    hs__json_put_text(&out, "event", hs_event_kind_name(event->kind));
    return out;
}

static void end_event(hs__json_writer *out)
{
    hs__json_close(out, '}');
    js_end();
}

static void list_value(const hs_event *event, const hs_event_value *value)
{
    hs__json_writer out = begin_event(event);
    js_string(&out, "tag", value->tag);
    hs__json_put_text(&out, "kind", hs_event_value_kind_name(value->kind));
    if (value->plugin.bytes)
        js_string(&out, "plugin", value->plugin);
    if (value->kind == HS_EVENT_VALUE_TENSOR) {
        hs__json_put_text(&out, "dtype", hs_dtype_name(value->dtype));
        js_dims(&out, "shape", &value->shape);
    }
    if (value->has_scalar)
        hs__json_put_number(&out, "value", value->scalar);
    else
        js_count(&out, "bytes", value->bytes.size);
    end_event(&out);
}

static void list_event(const hs_event *event)
{
    hs__json_writer out = begin_event(event);
    if (event->kind == HS_EVENT_SESSION_LOG)
        hs__json_put_text(&out, "status", status_name(event->status));
    if (event->checkpoint_path.bytes)
        js_string(&out, "checkpoint_path", event->checkpoint_path);
    if (event->message.bytes)
        js_string(&out, "message", event->message);
    if (event->text.bytes)
        js_string(&out, event->kind == HS_EVENT_RUN_METADATA ? "tag" : "version", event->text);
    if (event->bytes.size)
        js_count(&out, "bytes", event->bytes.size);
    end_event(&out);
}

static void show(const hs_event *event, filter *wanted, bool as_json)
{
    if (event->kind != HS_EVENT_SUMMARY) {
        const hs_string tag = event->kind == HS_EVENT_RUN_METADATA ? event->text : (hs_string){"", 0};
        if (selects(wanted, event, tag))
            (as_json ? list_event : print_event)(event);
        return;
    }
    for (size_t i = 0; i < event->n_values && output_works(); i++)
        if (selects(wanted, event, event->values[i].tag))
            (as_json ? list_value : print_value)(event, &event->values[i]);
}

int events_cat(const struct call *call)
{
    filter wanted = {.tag.pattern = call->given[OPTION_TAG],
                     .from = step_of_option(call, OPTION_FROM, INT64_MIN),
                     .to = step_of_option(call, OPTION_TO, INT64_MAX)};
    events of = {.damaged = NULL};
    const hs_event *event;
    if (!open_events(&of, call->operands[0]))
        return TROUBLE;
    while (next_event(&of, &event))
        show(event, &wanted, call->given[OPTION_JSON]);
    close_events(&of);
    int status = events_status(&of);
    if (has_no_event(&of)) {
        status = TROUBLE;
    } else if (wanted.tag.pattern && !wanted.tag.found && status != TROUBLE) {
        say_not_found(&wanted.tag, call->operands[0], "tag");
        status = TROUBLE;
    } else if (wanted.exists && !wanted.any && status == FINE && !call->given[OPTION_JSON]) {
        say(wanted.first == wanted.last ? "%s: contains no event at these steps, but at step %lld"
                                        : "%s: contains no event at these steps, but at steps %lld to %lld",
            of.path, (long long)wanted.first, (long long)wanted.last);
    }
    free(wanted.tag.nearest);
    return status;
}
