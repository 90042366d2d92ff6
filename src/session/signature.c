/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what the ranks of a group train: their hooks, saved variables and options must be the same. */
#include "session/session.h"

#include "base/buffer.h"

#include <hooksess/version.h>

#include <stdio.h>
#include <string.h>

static void write_hook(const hs__hook_cold *hook, hs__buffer *text)
{
    const hs__hook_schedule *when = &hook->when;
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
    hs__buffer_text(text, "initial_values %d\n", (int)agreement->options.initial_values);
    hs__buffer_text(text, "checkpoint_dir '%s'\n", creation->checkpoint_dir ? creation->checkpoint_dir : "");
    hs__buffer_text(text, "checkpoint_prefix '%s'\n", creation->checkpoint_prefix ? creation->checkpoint_prefix : "");
    hs__buffer_text(text, "restore %d\n", (int)creation->restore);
    hs__buffer_text(text, "recovery.max_attempts %lld\n", (long long)session->recovery.options.max_attempts);
    for (size_t i = 0; i < session->n_hooks; i++)
        if (session->cold[i].number_on_ranks)
            write_hook(&session->cold[i], text);
    for (size_t i = 0; hs__session_variable(&session->raw, i, &variable); i++)
        if (!(variable.flags & HS_VARIABLE_LOCAL))
            hs__buffer_text(text, "variable '%s', %s %s\n", variable.name, hs_dtype_name(variable.dtype),
                            hs_shape_text(&variable.shape, shape, sizeof shape));
}

hs_code hs__compare_ranks(struct hs_session *session, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, &session->env);
    write_signature(session, &text);
    hs_code code = hs__buffer_check(&text, "the comparison of the ranks", err);
    if (!code)
        code = hs__ranks_compare(session->raw.ranks, HS__TOPIC_COMPARE, (hs_bytes){text.data, text.size}, err);
    hs__buffer_free(&text);
    return hs__agree_on_part(session, 0, code, err);
}
