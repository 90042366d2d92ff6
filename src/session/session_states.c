/* SPDX-License-Identifier: Apache-2.0 */
/* State in checkpoints beyond the graph's variables: of the backend, of hooks, and state that is added to an open session.
 */
#include "session/session.h"

#include "checkpoint/unclaimed_states.h"

#include <string.h>

static hs_code add_slot(hs_raw_session *raw, char *key, const hs_state_provider *provider, hs_error *err)
{
    hs__state_slot slot;
    hs_code code = hs__state_slot_init(&slot, raw, key, provider, err);
    if (code)
        return code;
    if ((code = hs__raw_session_reserve_slot(raw, slot.key, err)))
        hs__state_slot_free(&slot, &raw->env);
    else
        hs__raw_session_add_slot(raw, &slot);
    return code;
}

static char *state_key(const hs_raw_session *raw, const char *name)
{
    return hs__format(&raw->env, HS__STATE_PREFIX "state/%s", name);
}

/* The key of a hook's state: NAME, and for further hooks of this name NAME#2, NAME#3. */
static char *hook_key(const hs_env *env, const char *prefix, const hs__hook_cold *hook)
{
    return hook->number > 1 ? hs__format(env, "%s%s#%zu", prefix, hook->ops.name, hook->number)
                            : hs__format(env, "%s%s", prefix, hook->ops.name);
}

hs_code hs__hook_state(hs_state_provider *to, const hs__hook *hook, const char *identity, hs_error *err)
{
    const hs_hook_ops *ops = &hook->cold->ops;
    const hs_state_provider given =
        HS_INIT(hs_state_provider, .name = ops->name, .save = ops->save_state, .load = ops->load_state, .self = hook->self,
                .version = ops->state_version, .identity = identity, .bytes = ops->state_bytes,
                .scope = hook->cold->per_rank ? HS_STATE_PER_RANK : HS_STATE_SHARED);
    return hs__state_provider_copy(to, &given, "hook", err);
}

/* The state of hooks. If that of a best-effort hook cannot be saved or loaded, the checkpoint is saved or restored without
 * it. Empty state of such a hook is not loaded, and a disabled hook is not called: it may not have begun. */

static hs_code save_hook(void *self, hs_state_writer *out, hs_error *err)
{
    hs__hook *hook = self;
    struct hs_session *session = hook->cold->session;
    const hs__hook *caller = session->callee; /* such as the saver */
    const bool best_effort = hook->cold->best_effort;
    hs_error error = {0};
    hs__buffer buffer; /* so that a state that fails is not saved in part */
    hs__buffer_init(&buffer, &session->env);
    hs_state_writer writer = hs__state_writer_to(&buffer);
    session->callee = hook;
    hs_code code = hs__is_disabled(hook)
                       ? HS_OK
                       : hook->cold->ops.save_state(hook->self, best_effort ? &writer : out, best_effort ? &error : err);
    session->callee = caller;
    if (!best_effort)
        return code;
    if (!code)
        code = hs__error_copy(&error, &writer.error);
    hs_code written = code ? HS_OK : hs_state_writer_write(out, buffer.data, buffer.size, err);
    hs__buffer_free(&buffer);
    if (!code)
        return written;
    hs__clear(err);
    return hs__hook_failed(session, hook, "save_state", code, &error);
}

static hs_code load_hook(void *self, hs_state_reader *in, hs_error *err)
{
    hs__hook *hook = self;
    struct hs_session *session = hook->cold->session;
    const hs__hook *caller = session->callee;
    const bool best_effort = hook->cold->best_effort;
    const bool skips = best_effort && (!hs_state_reader_remaining(in) || hs__is_disabled(hook));
    hs_error error = {0};
    session->callee = hook;
    hs_code code = skips ? HS_OK : hook->cold->ops.load_state(hook->self, in, best_effort ? &error : err);
    session->callee = caller;
    if (!best_effort)
        return code;
    in->left = 0;
    hs_error_clear(&in->error);
    hs__clear(err);
    return code ? hs__hook_failed(session, hook, "load_state", code, &error) : HS_OK;
}

static hs_code reshard_hook(void *self, hs_state_reader *const *saved, int32_t n_saved, int32_t rank, int32_t rank_count,
                            hs_error *err)
{
    (void)rank_count;
    return load_hook(self, saved[rank % n_saved], err);
}

static hs_code add_hook_state(struct hs_session *session, hs__hook *hook, hs_error *err)
{
    const char *identity = hook->cold->ops.state_identity ? hook->cold->ops.state_identity(hook->self) : NULL;
    hs_state_provider provider;
    hs_code code = hs__hook_state(&provider, hook, identity, err);
    provider.save = save_hook;
    provider.load = load_hook;
    provider.reshard = hook->cold->any_rank_count ? reshard_hook : NULL;
    provider.self = hook;
    if (code || (code = add_slot(&session->raw, hook_key(&session->env, HS__HOOK_PREFIX, hook->cold), &provider, err)))
        return code;
    hs__state_slot *slot = &session->raw.states[session->raw.n_states - 1];
    slot->varies = hook->cold->state_varies;
    if (hook->cold->number == 1)
        return HS_OK;
    char *old_key = hs__format(&session->env, HS__HOOK_PREFIX "%s_%zu", hook->cold->ops.name, hook->cold->number - 1);
    return hs__state_slot_set_old_key(slot, &session->raw, old_key, err);
}

static hs_code add_position(struct hs_session *session, hs__hook *hook, hs_error *err)
{
    const hs_state_provider given = HS_INIT(hs_state_provider, .name = hook->cold->ops.name, .save = hs__schedule_save,
                                            .load = hs__schedule_load, .self = hook);
    hs_state_provider provider;
    if (!hook->cold->when.is_saved)
        return HS_OK;
    hs_code code = hs__state_provider_copy(&provider, &given, "schedule of hook", err);
    if (code || (code = add_slot(&session->raw, hook_key(&session->env, HS__SCHEDULE_PREFIX, hook->cold), &provider, err)))
        return code;
    /* in a group, a stop on one rank skips the later hooks there: that of rank 0 counts */
    session->raw.states[session->raw.n_states - 1].varies =
        hook->cold->best_effort || hook->cold->state_varies || hs__is_in_group(session);
    return HS_OK;
}

hs_code hs__add_session_states(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    const hs_state_provider *given;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && raw->ops.state && (given = raw->ops.state(raw->backend.self, i)); i++) {
        hs_state_provider provider;
        if (!(code = hs__state_provider_copy(&provider, given, "state", err)))
            code = add_slot(raw, state_key(raw, provider.name), &provider, err);
    }
    for (size_t i = 0; !code && i < session->n_hooks; i++)
        if (session->hooks[i].cold->ops.save_state)
            code = add_hook_state(session, &session->hooks[i], err);
    for (size_t i = 0; !code && i < session->n_hooks; i++)
        code = add_position(session, &session->hooks[i], err);
    return code;
}

void hs__report_lost_states(struct hs_session *session)
{
    for (size_t i = 0; i < session->n_hooks; i++)
        if (!session->hooks[i].cold->ops.save_state)
            hs__drop_unclaimed(&session->raw, session->hooks[i].cold->ops.name);
    hs__report_unclaimed(&session->raw);
}

hs_code hs_raw_session_add_state(hs_raw_session *raw, const hs_state_provider *given, hs_error *err)
{
    hs_state_provider provider;
    hs__state_slot slot;
    hs__clear(err);
    if (!raw || !raw->handle)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "hs_raw_session_add_state: session is NULL or closed");
    hs_code code = hs__state_provider_copy(&provider, given, "state", err);
    if (code)
        return code;
    if (raw->loading_states)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot add state '%s' while another state is being loaded",
                            provider.name);
    if ((code = hs__state_slot_init(&slot, raw, state_key(raw, provider.name), &provider, err)))
        return code;
    /* the key is reserved first: after the provider has loaded its state, nothing may fail */
    if ((code = hs__raw_session_reserve_slot(raw, slot.key, err)) || (code = hs__claim_state(raw, &slot, err))) {
        hs__state_slot_free(&slot, &raw->env);
        return code;
    }
    hs__raw_session_add_slot(raw, &slot);
    hs__clear(err);
    return HS_OK;
}
