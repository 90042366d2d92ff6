/* SPDX-License-Identifier: Apache-2.0 */
/* Copies in memory: what a checkpoint would hold, without one. */
#include "checkpoint/snapshot.h"
#include "checkpoint/stored_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs_state_copy {
    hs_env env; /* the session's, which the copy may outlive */
    hs__image image;
    bool whole;   /* else it was lost to a later one that failed */
    int64_t step; /* -1: there was none */
};

/* Copying. */

/* What says which variables are saved, and what they are called: all, and as they are. */
static hs_saver plain_saver(const hs_env *env)
{
    return (hs_saver){.env = *env};
}

static hs_state_copy *new_copy(const hs_env *env, hs_error *err)
{
    hs_state_copy *copy = hs__alloc(env, 1, sizeof *copy);
    if (!copy) {
        hs__no_memory(err, sizeof *copy, "a copy of the state");
        return NULL;
    }
    copy->env = *env;
    int result = hs__image_init(&copy->image, &copy->env);
    if (!result)
        return copy;
    hs__free(env, copy);
    hs_error_set_errno(err, result, "cannot create a copy of the state");
    return NULL;
}

static hs_code take(hs_state_copy *copy, hs_raw_session *session, hs_error *err)
{
    hs_saver all = plain_saver(&session->env);
    copy->whole = false;
    hs_code code = hs__image_take(&copy->image, &all, session, &(hs__image_options){.meta = false}, err);
    if (code)
        return code;
    hs_error error;
    copy->step = hs_raw_session_global_step(session, &error);
    copy->whole = !error.code || error.code == HS_FAILED_PRECONDITION; /* there is none */
    return copy->whole ? HS_OK : hs__error_copy(err, &error);
}

hs_code hs_raw_session_copy_state(hs_raw_session *session, hs_state_copy **copy, hs_error *err)
{
    hs_error_clear(err);
    if (!session || !session->handle || !copy)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_copy_state: %s",
                            copy ? "session is NULL" : "copy is NULL");
    hs_state_copy *taken = *copy ? *copy : new_copy(&session->env, err);
    if (!taken)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = take(taken, session, err);
    if (!code) {
        hs_error_clear(err);
        *copy = taken;
    } else if (!*copy) {
        hs_state_copy_free(taken);
    }
    return code;
}

int64_t hs_state_copy_step(const hs_state_copy *copy)
{
    return copy && copy->whole ? copy->step : -1;
}

void hs_state_copy_free(hs_state_copy *copy)
{
    if (!copy)
        return;
    hs_env env = copy->env;
    hs__image_free(&copy->image);
    hs__free(&env, copy);
}

/* Restoring: all of it is compared with the session, and all memory is there, before any of it is set. */

typedef struct {
    const hs_env *env;
    const char *source;            /* the copy, in messages */
    hs__saved *variables, *states; /* of the copy, whose the values are */
    size_t n_variables, n_states;  /* variables are in the order of their names */
    size_t variables_capacity, states_capacity;
    const hs__saved **of; /* what each variable of the backend gets, by index; NULL: nothing */
    size_t n_of, of_capacity;
    hs__stored_states stored;
} restoring;

static hs_code list_variable(void *user, const hs__saved *saved, hs_error *err)
{
    restoring *r = user;
    hs_code code =
        hs__reserve(r->env, &r->variables, &r->variables_capacity, r->n_variables + 1, sizeof *r->variables, err);
    if (!code)
        r->variables[r->n_variables++] = *saved;
    return code;
}

static hs_code list_state(void *user, const hs__saved *saved, hs_error *err)
{
    restoring *r = user;
    hs_code code = hs__reserve(r->env, &r->states, &r->states_capacity, r->n_states + 1, sizeof *r->states, err);
    if (!code)
        r->states[r->n_states++] = *saved;
    return code;
}

static int by_name(const void *name, const void *saved)
{
    return strcmp(name, ((const hs__saved *)saved)->name);
}

static size_t find_state(const restoring *r, const char *key)
{
    for (size_t i = 0; i < r->n_states; i++)
        if (strcmp(r->states[i].name, key) == 0)
            return i;
    return HS__NONE;
}

/* Had the variable no memory when the copy was made? */
static hs_code find_without(const restoring *r, const hs_raw_session *session, size_t index, const hs_variable *variable,
                            bool *found, hs_error *err)
{
    *found = hs__session_is_late(session, index); /* it may have been added after that */
    if (*found)
        return HS_OK;
    if (!(variable->flags & HS_VARIABLE_MOVES))
        return HS_OK;
    char *key = hs__variable_key(r->env, variable->name, HS__VARIABLE_NULL);
    if (!key)
        return hs__no_memory(err, strlen(variable->name), "a name");
    *found = find_state(r, key) != HS__NONE;
    hs__free(r->env, key);
    return HS_OK;
}

static hs_code match(const restoring *r, const hs_raw_session *session, size_t index, const hs_variable *variable,
                     const hs__saved **out, hs_error *err)
{
    static const hs__saved without_memory = {.name = "a variable without memory"};
    const hs__saved *saved =
        r->n_variables ? bsearch(variable->name, r->variables, r->n_variables, sizeof *saved, by_name) : NULL;
    hs_shape shape = saved ? hs_tensor_shape(&saved->value) : HS_SCALAR;
    bool without = false;
    hs_code code = saved ? HS_OK : find_without(r, session, index, variable, &without, err);
    if (without)
        *out = &without_memory;
    if (code || without)
        return code;
    if (!saved)
        return hs_error_set(err, HS_NOT_FOUND, "%s has no variable '%s'; restore it into the graph that it was copied from",
                            r->source, variable->name);
    if (saved->value.dtype != variable->dtype || !hs_shape_equal(&shape, &variable->shape))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s has another type or shape of variable '%s'; restore it into the graph that it was copied "
                            "from",
                            r->source, variable->name);
    *out = saved;
    return HS_OK;
}

static hs_code match_variables(restoring *r, const hs_raw_session *session, hs_error *err)
{
    hs_saver all = plain_saver(r->env);
    hs_code code = HS_OK;
    bool done = false;
    void *lent;
    while (!code && !done) {
        hs_variable variable;
        bool saved = hs__saver_variable(&all, session, r->n_of, &variable, &done);
        if (done || (code = hs__reserve(r->env, &r->of, &r->of_capacity, r->n_of + 1, sizeof *r->of, err)))
            break;
        r->of[r->n_of] = NULL;
        if (saved && !(code = match(r, session, r->n_of, &variable, &r->of[r->n_of], err)) && r->of[r->n_of]->value.data &&
            variable.flags & HS_VARIABLE_MOVES)
            code = hs__session_lend(session, r->n_of, &variable, r->of[r->n_of]->value.bytes, &lent, err);
        r->n_of++;
    }
    return code;
}

/* Pieces of state. Behind each come its version and its identity, where it has them. */

static bool is_attribute(const char *name, const char *key, const char *which)
{
    size_t length = strlen(key);
    return strncmp(name, key, length) == 0 && strcmp(name + length, which) == 0;
}

/* What a provider loads now is lent by the copy; what may wait for one is copied. */
static hs_code set_data(hs__stored_state *state, const hs_env *env, const hs_tensor *value, bool lent, hs_error *err)
{
    state->bytes = value->bytes;
    state->is_lent = lent;
    if (!hs__is_state_key(state->key)) {
        state->dtype = value->dtype;
        state->shape = hs_tensor_shape(value);
    }
    if (lent)
        state->data = value->data;
    else if (!(state->data = hs__alloc(env, value->bytes, 1)))
        return hs__no_memory(err, value->bytes, state->key);
    else if (value->bytes)
        memcpy(state->data, value->data, value->bytes);
    return HS_OK;
}

static hs_code copy_attributes(hs__stored_state *state, const restoring *r, size_t at, hs_error *err)
{
    for (size_t i = at; i < r->n_states && i < at + 2; i++) {
        const hs__saved *saved = &r->states[i];
        if (is_attribute(saved->name, state->key, HS__STATE_VERSION)) {
            memcpy(&state->version, saved->value.data, sizeof state->version);
        } else if (is_attribute(saved->name, state->key, HS__STATE_IDENTITY)) {
            const hs_string *text = saved->value.data;
            if (!(state->identity = hs__strndup(r->env, text->data, text->bytes)))
                return hs__no_memory(err, text->bytes, state->key);
        }
    }
    return HS_OK;
}

static hs_code add_stored(restoring *r, const char *key, hs__stored_state **out, hs_error *err)
{
    hs__stored_states *stored = &r->stored;
    hs_code code = hs__reserve(r->env, &stored->items, &stored->capacity, stored->n + 1, sizeof *stored->items, err);
    if (code)
        return code;
    hs__stored_state *state = &stored->items[stored->n++];
    *state = (hs__stored_state){.key = hs__strdup(r->env, key)};
    *out = state;
    return state->key ? HS_OK : hs__no_memory(err, strlen(key), "a name");
}

/* Adds the piece of that key; `at` is where the copy has it, HS__NONE: nowhere. */
static hs_code store(restoring *r, const char *key, size_t at, bool lent, hs_error *err)
{
    hs__stored_state *state;
    hs_code code = add_stored(r, key, &state, err);
    if (code || at == HS__NONE)
        return code;
    code = set_data(state, r->env, &r->states[at].value, lent, err);
    return code ? code : copy_attributes(state, r, at + 1, err);
}

static bool has_provider(const hs_raw_session *session, const char *key)
{
    for (size_t i = 0; i < session->n_states; i++)
        if (strcmp(session->states[i].key, key) == 0)
            return true;
    return false;
}

/* Variables that were added late when the copy was made, and are not now. */
static hs_code store_late(restoring *r, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < r->n_variables; i++) {
        hs__stored_state *state;
        const hs__saved *saved = &r->variables[i];
        if (!hs__has_variable(session, saved->name) && !(code = add_stored(r, saved->name, &state, err)))
            code = set_data(state, r->env, &saved->value, false, err);
    }
    return code;
}

/* As hs__states_read: those of the session's providers, then those that nobody takes. */
static hs_code store_states(restoring *r, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    if (!(r->stored.path = hs__strdup(r->env, r->source)))
        return hs__no_memory(err, strlen(r->source), "a name");
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = store(r, session->states[i].key, find_state(r, session->states[i].key), true, err);
    for (size_t i = 0; !code && i < r->n_states; i++)
        if (!strchr(r->states[i].name, ':') && !has_provider(session, r->states[i].name) &&
            !hs__has_variable(session, r->states[i].name))
            code = store(r, r->states[i].name, i, false, err);
    return code ? code : store_late(r, session, err);
}

static hs_code prepare(restoring *r, const hs_state_copy *copy, const hs_raw_session *session, hs_error *err)
{
    hs_code code;
    if ((code = hs__image_each_variable(&copy->image, list_variable, r, err)) ||
        (code = hs__image_each_state(&copy->image, list_state, r, err)) || (code = match_variables(r, session, err)) ||
        (code = store_states(r, session, err)))
        return code;
    return hs__states_check(&r->stored, session, err);
}

static hs_code write_variables(const restoring *r, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < r->n_of; i++) {
        if (!r->of[i])
            continue;
        code = hs__session_write(session, i, r->of[i]->name, &r->of[i]->value, err);
        if (code)
            hs_error_prefix(err, "cannot set variable '%s' from %s", r->of[i]->name, r->source);
    }
    return code;
}

static hs_code restore(restoring *r, const hs_state_copy *copy, hs_raw_session *session, hs_error *err)
{
    hs_code code = prepare(r, copy, session, err);
    if (code)
        return code;
    hs__raw_session_moved(session);
    if ((code = hs__states_load(&r->stored, NULL, session, err)) || (code = write_variables(r, session, err)))
        return code;
    hs__states_leave(&r->stored, session);
    hs__raw_session_rolled_back(session, copy->step);
    return HS_OK;
}

static void free_restoring(restoring *r)
{
    hs__states_free(&r->stored, r->env);
    hs__free(r->env, r->variables);
    hs__free(r->env, r->states);
    hs__free(r->env, r->of);
}

hs_code hs_raw_session_restore_copy(hs_raw_session *session, const hs_state_copy *copy, hs_error *err)
{
    char source[64];
    hs_error_clear(err);
    if (!session || !session->handle || !copy)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_restore_copy: %s is NULL", copy ? "session" : "copy");
    if (!copy->whole)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the copy of the state is lost: a later copy reused its memory and failed");
    if (session->loading_states)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot restore a copy while a state is being loaded");
    snprintf(source, sizeof source, "the copy of step %lld", (long long)copy->step);
    restoring r = {.env = &session->env, .source = source};
    hs_code code = restore(&r, copy, session, err);
    free_restoring(&r);
    if (!code)
        hs_error_clear(err);
    return code;
}
