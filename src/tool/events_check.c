/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "output.h"

static void print_damage(void *user, const hs_event_damage *damage)
{
    (void)user;
    fputs(damage->is_truncated ? "truncated: " : "damaged: ", stdout);
    put_name(damage->message);
    printf(", %llu bytes\n", (unsigned long long)damage->bytes);
}

static void list_damage(void *user, const hs_event_damage *damage)
{
    (void)user;
    json_t *object = json_object();
    js_set(object, "file", js_text(damage->path));
    js_set(object, "offset", js_number((long double)damage->offset, true));
    js_set(object, "bytes", js_number((long double)damage->bytes, true));
    js_set(object, "truncated", json_boolean(damage->is_truncated));
    js_set(object, "what", js_text(damage->message));
    js_list_add(object);
}

int events_check(const struct call *call)
{
    bool as_json = call->given[OPTION_JSON];
    events of = {.damaged = as_json ? list_damage : print_damage};
    const hs_event *event;
    uint64_t n = 0;
    if (!open_events(&of, call->operands[0]))
        return TROUBLE;
    if (as_json)
        js_list_begin();
    while (next_event(&of, &event))
        n++;
    if (as_json) {
        js_list_end();
        puts("");
    } else {
        put_name(call->operands[0]);
        printf(": %llu events", (unsigned long long)n);
        if (of.damages)
            printf(", %llu damaged places\n", (unsigned long long)of.damages);
        else
            puts(of.failed ? "" : ", no damage");
    }
    close_events(&of);
    return js_works() ? events_status(&of) : TROUBLE;
}
