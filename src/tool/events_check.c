/* SPDX-License-Identifier: Apache-2.0 */
/* `events check`: reads all events, and prints each damaged place when it is found. */
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "output.h"

static void print_damage(void *user, const hs_event_damage *damage)
{
    (void)user;
    fputs(damage->is_truncated ? "truncated: " : "damaged: ", stdout);
    put_name(damage->message);
    printf(", %llu byte%s\n", (unsigned long long)damage->bytes, plural(damage->bytes));
}

static void list_damage(void *user, const hs_event_damage *damage)
{
    hs__json_writer *out = user;
    hs__json_open(out, NULL, '{');
    hs__json_put_text(out, "file", damage->path);
    js_count(out, "offset", damage->offset);
    js_count(out, "bytes", damage->bytes);
    hs__json_put_bool(out, "truncated", damage->is_truncated);
    hs__json_put_text(out, "what", damage->message);
    hs__json_close(out, '}');
}

int events_check(const struct call *call)
{
    bool as_json = call->given[OPTION_JSON];
    hs__json_writer out = js_begin(1);
    events of = {.damaged = as_json ? list_damage : print_damage, .user = &out};
    const hs_event *event;
    if (!open_events(&of, call->operands[0]))
        return TROUBLE;
    if (as_json)
        hs__json_open(&out, NULL, '[');
    while (next_event(&of, &event))
        continue;
    const bool is_empty = has_no_event(&of);
    if (as_json) {
        hs__json_close(&out, ']');
        js_end();
    } else if (of.n || of.damages) {
        put_name(call->operands[0]);
        printf(": %llu event%s", (unsigned long long)of.n, plural(of.n));
        if (of.damages)
            printf(", %llu damaged place%s\n", (unsigned long long)of.damages, plural(of.damages));
        else
            puts(of.failed ? "" : ", no damage");
    }
    close_events(&of);
    return is_empty ? TROUBLE : events_status(&of);
}
