/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what the ranks of a group train: their hooks, saved variables and options must be the same. */
#include "session/session.h"

#include "base/buffer.h"
#include "base/c_locale.h"

#include <hooksess/version.h>

#include <stdio.h>
#include <string.h>

/* Writes each line of `lines` as a line that begins with the prefix. */
static void write_lines(const char *prefix, const char *lines, hs__buffer *text)
{
    while (lines && *lines) {
        const size_t length = strcspn(lines, "\n");
        hs__buffer_text(text, "%s%.*s\n", prefix, (int)length, lines);
        lines += length + (lines[length] != '\0');
    }
}

/* `self`: of the hook. */
static void write_hook(const hs__hook_cold *hook, void *self, hs__buffer *text)
{
    const hs__hook_schedule *when = &hook->when;
    char prefix[128];
    hs__buffer_text(text, "hook '%s'%s%s", hook->ops.name, hook->best_effort ? ", best effort" : "",
                    hook->per_rank ? ", state of each rank" : "");
    if (hook->wanted_kinds != HS_HOOK_TRAIN)
        hs__buffer_text(text, ", kinds %u", (unsigned)hook->wanted_kinds);
    if (when->every_n_steps)
        hs__buffer_text(text, ", every %lld %s", (long long)when->every_n_steps, when->counts_runs ? "runs" : "steps");
    if (when->every_ns)
        hs__buffer_text(text, ", every %.15g s", (double)when->every_ns / 1e9);
    hs__buffer_text(text, "%s%s%s", when->first ? ", first" : "", when->last ? ", last" : "",
                    when->on_request ? ", on request" : "");
    for (size_t i = 0; i < when->n_steps; i++)
        hs__buffer_text(text, ", %lld", (long long)when->steps[i]);
    hs__buffer_text(text, "\n");
    hs__snprintf(prefix, sizeof prefix, "hook '%s', ", hook->ops.name);
    write_lines(prefix, hook->ops.rank_identity ? hook->ops.rank_identity(self) : NULL, text);
}

/* Without snapshot_limit, as ranks may have different memory. */
static void write_recovery(const hs_recovery *options, hs__buffer *text)
{
    hs__buffer_text(text, "recovery.max_attempts %lld\n", (long long)options->max_attempts);
    hs__buffer_text(text, "recovery.backoff_secs %.17g\n", options->backoff_secs);
    hs__buffer_text(text, "recovery.return_aborted %d\n", (int)options->return_aborted);
}

static void write_restore(const hs_restore_options *options, hs__buffer *text)
{
    hs__buffer_text(text, "restore_options.allow_missing %d\n", (int)options->allow_missing);
    hs__buffer_text(text, "restore_options.reshape %d\n", (int)options->reshape);
    hs__buffer_text(text, "restore_options.any_identity %d\n", (int)options->any_identity);
    hs__buffer_text(text, "restore_options.skip");
    for (const char *const *name = options->skip; name && *name; name++)
        hs__buffer_text(text, " '%s'", *name);
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
    hs__buffer_text(text, "step_secs %.15g\n", agreement->options.step_secs);
    hs__buffer_text(text, "end_of_input %d\n", (int)agreement->options.end_of_input);
    hs__buffer_text(text, "initial_values %d\n", (int)agreement->options.initial_values);
    hs__buffer_text(text, "checkpoint_dir '%s'\n", creation->checkpoint_dir ? creation->checkpoint_dir : "");
    hs__buffer_text(text, "checkpoint_prefix '%s'\n", creation->checkpoint_prefix ? creation->checkpoint_prefix : "");
    hs__buffer_text(text, "restore %d\n", (int)creation->restore);
    write_recovery(&session->recovery.options, text);
    write_restore(&creation->restore_options, text);
    write_lines("identity ", agreement->options.identity, text);
    for (size_t i = 0; i < session->n_hooks; i++)
        if (session->cold[i].number_on_ranks)
            write_hook(&session->cold[i], session->hooks[i].self, text);
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
