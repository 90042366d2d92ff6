/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what the ranks of a group train: their hooks, saved variables and options must be the same. */
#include "session/session.h"

#include "base/buffer.h"

#include <hooksess/version.h>

#include <stdio.h>
#include <string.h>

static void write_hook(const hs__hook_cold *hook, const hs__hook_schedule *when, hs__buffer *text)
{
    hs__buffer_text(text, "hook '%s'%s%s", hook->ops.name, hook->best_effort ? ", best effort" : "",
                    hook->per_rank ? ", state of each rank" : "");
    if (hook->wanted_kinds != HS_HOOK_TRAIN)
        hs__buffer_text(text, ", kinds %u", (unsigned)hook->wanted_kinds);
    if (when->is_set)
        hs__buffer_text(text, ", every %lld %s, %lld ns%s%s%s", (long long)when->every_n_steps,
                        when->counts_runs ? "runs" : "steps", (long long)when->every_ns, when->first ? ", first" : "",
                        when->last ? ", last" : "", when->on_request ? ", on request" : "");
    for (size_t i = 0; i < when->n_steps; i++)
        hs__buffer_text(text, ", %lld", (long long)when->steps[i]);
    hs__buffer_text(text, "\n");
}

/* Writes one line for each thing that must be the same. */
static void write_signature(const struct hs_session *session, hs__buffer *text)
{
    const hs__agreement *agreement = &session->agreement;
    const hs__creation *creation = &session->creation;
    hs_variable variable;
    char shape[HS_SHAPE_TEXT_SIZE];
    hs__buffer_text(text, "library version %s\n", hs_version());
    hs__buffer_text(text, "agree_every_n_steps %lld\n", (long long)agreement->options.agree_every_n_steps);
    hs__buffer_text(text, "end_of_input %d\n", (int)agreement->options.end_of_input);
    hs__buffer_text(text, "no_broadcast_initial %d\n", (int)agreement->options.no_broadcast_initial);
    hs__buffer_text(text, "checkpoint_dir '%s'\n", creation->checkpoint_dir ? creation->checkpoint_dir : "");
    hs__buffer_text(text, "checkpoint_prefix '%s'\n", creation->checkpoint_prefix ? creation->checkpoint_prefix : "");
    hs__buffer_text(text, "restore %d\n", (int)creation->restore);
    hs__buffer_text(text, "recovery.max_attempts %lld\n", (long long)session->recovery.options.max_attempts);
    for (size_t i = 0; i < session->n_hooks; i++)
        if (session->cold[i].trigger != HS__NO_TRIGGER)
            write_hook(&session->cold[i], &session->schedule.hooks[i], text);
    for (size_t i = 0; hs__session_variable(&session->raw, i, &variable); i++)
        if (!(variable.flags & HS_VARIABLE_LOCAL))
            hs__buffer_text(text, "variable '%s', %s %s\n", variable.name, hs_dtype_name(variable.dtype),
                            hs_shape_text(&variable.shape, shape, sizeof shape));
}

/* The comparison, at the chief. */
typedef struct {
    const hs__buffer *mine;
    int32_t rank; /* the first rank that differs; -1: none */
    char mine_line[256], other_line[256];
} comparison;

static void copy_line(char *to, size_t size, hs_bytes text, size_t at)
{
    if (at >= text.size) {
        snprintf(to, size, "nothing");
        return;
    }
    const char *line = (const char *)text.data + at, *end = memchr(line, '\n', text.size - at);
    snprintf(to, size, "%.*s", (int)(end ? (size_t)(end - line) : text.size - at), line);
}

static void compare(void *user, int32_t rank, hs_bytes other)
{
    comparison *found = user;
    const hs_bytes mine = {found->mine->data, found->mine->size};
    if (found->rank >= 0 || (other.size == mine.size && (!mine.size || memcmp(other.data, mine.data, mine.size) == 0)))
        return;
    size_t at = 0, line = 0;
    const char *a = mine.data, *b = other.data;
    for (; at < mine.size && at < other.size && a[at] == b[at]; at++)
        if (a[at] == '\n')
            line = at + 1;
    found->rank = rank;
    copy_line(found->mine_line, sizeof found->mine_line, mine, line);
    copy_line(found->other_line, sizeof found->other_line, other, line);
}

hs_code hs__compare_ranks(struct hs_session *session, hs_error *err)
{
    const hs_group *group = &session->agreement.group;
    hs__buffer text;
    comparison found = {.mine = &text, .rank = -1};
    hs__buffer_init(&text, &session->env);
    write_signature(session, &text);
    hs_code code = hs__agree_on_part(session, 0, hs__buffer_check(&text, "the comparison of the ranks", err), err);
    if (!code)
        code = hs__group_gather(group, (hs_bytes){text.data, text.size}, 0, compare, &found, err);
    hs__buffer_free(&text);
    if (found.rank >= 0)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "rank %d differs from rank 0: it has %s, and rank 0 has %s",
                            (int)found.rank, found.other_line, found.mine_line);
    return hs__agree_on_part(session, 0, code, err);
}
