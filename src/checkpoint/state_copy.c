/* SPDX-License-Identifier: Apache-2.0 */
/* hs_state_copy: a snapshot of variables and states, and restoring it. Restoring first compares the whole copy with the
 * session and allocates all memory, then changes the session. */
#include "checkpoint/save_list.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/unclaimed_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs_state_copy {
    hs_env env; /* a copy of the session's, because the state copy may outlive the session */
    hs__snapshot snapshot;
    bool whole;   /* false: a later copy reused its memory and failed */
    int64_t step; /* -1: no global step */
};

/* Copying. */

static const hs__selection ALL_VARIABLES = {.names = NULL};

static hs_state_copy *new_copy(const hs_env *env, hs_error *err)
{
    hs_state_copy *copy = hs__alloc(env, 1, sizeof *copy);
    if (!copy) {
        hs__no_memory(err, sizeof *copy, "a copy of the state");
        return NULL;
    }
    copy->env = *env;
    int result = hs__snapshot_init(&copy->snapshot, &copy->env);
    if (!result)
        return copy;
    hs__free(env, copy);
    hs_error_set_errno(err, result, "cannot create a copy of the state");
    return NULL;
}

static hs_code fill(hs_state_copy *copy, hs_raw_session *session, hs_error *err)
{
    hs__save_list list;
    copy->whole = false;
    hs_code code = hs__save_list_make(&list, &session->env, &ALL_VARIABLES, session, err);
    if (!code)
        code = hs__snapshot_take(&copy->snapshot, &list, &(hs__snapshot_options){.overlap = false}, err);
    hs__save_list_free(&list);
    if (code)
        return code;
    hs_error error;
    copy->step = hs_raw_session_global_step(session, &error);
    copy->whole = !error.code || error.code == HS_FAILED_PRECONDITION; /* no global step */
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
    hs_code code = fill(taken, session, err);
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
    hs__snapshot_free(&copy->snapshot);
    hs__free(&env, copy);
}

/* Restoring. */

typedef struct {
    const hs_env *env;
    const char *source;          /* name of the copy in messages */
    hs__save_item *variables;    /* of the snapshot, which owns their values; in the order of their names */
    const hs__save_item *states; /* behind them */
    size_t n_variables, n_states;
    const hs__save_item **value_of; /* by index in the backend; NULL: the variable is not restored */
    size_t n_values, values_capacity;
    hs__stored_states stored;
} restoring;

static int by_name(const void *name, const void *item)
{
    return strcmp(name, ((const hs__save_item *)item)->name);
}

static size_t find_state(const restoring *r, const char *key)
{
    for (size_t i = 0; i < r->n_states; i++)
        if (strcmp(r->states[i].name, key) == 0)
            return i;
    return HS__NONE;
}

/* *found is true if the variable had no memory when the copy was made. */
static hs_code find_unallocated(const restoring *r, const hs_variable *variable, bool *found, hs_error *err)
{
    *found = false;
    if (!(variable->flags & HS_VARIABLE_MOVES))
        return HS_OK;
    char *key = hs__unallocated_key(r->env, variable->name);
    if (!key)
        return hs__no_memory(err, strlen(variable->name), "a name");
    *found = find_state(r, key) != HS__NONE;
    hs__free(r->env, key);
    return HS_OK;
}

static hs_code match(const restoring *r, const hs_variable *variable, const hs__save_item **out, hs_error *err)
{
    static const hs__save_item unallocated = {.name = "a variable without memory"};
    const hs__save_item *saved =
        r->n_variables ? bsearch(variable->name, r->variables, r->n_variables, sizeof *saved, by_name) : NULL;
    hs_shape shape = saved ? hs_tensor_shape(&saved->value) : HS_SCALAR;
    bool is_unallocated = false;
    hs_code code = saved ? HS_OK : find_unallocated(r, variable, &is_unallocated, err);
    if (is_unallocated)
        *out = &unallocated;
    if (code || is_unallocated)
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
    hs_code code = HS_OK;
    bool done = false;
    void *memory;
    while (!code && !done) {
        hs_variable variable;
        bool selected = hs__selection_variable(&ALL_VARIABLES, session, r->n_values, &variable, &done);
        if (done ||
            (code = hs__reserve(r->env, &r->value_of, &r->values_capacity, r->n_values + 1, sizeof *r->value_of, err)))
            break;
        r->value_of[r->n_values] = NULL;
        if (selected && !(code = match(r, &variable, &r->value_of[r->n_values], err)) &&
            r->value_of[r->n_values]->value.data && variable.flags & HS_VARIABLE_MOVES)
            code = hs__session_lend(session, r->n_values, &variable, r->value_of[r->n_values]->value.bytes, &memory, err);
        r->n_values++;
    }
    return code;
}

/* States. Each is followed by its version and its identity, if it has them. */

static bool is_attribute(const char *name, const char *key, const char *which)
{
    size_t length = strlen(key);
    return strncmp(name, key, length) == 0 && strcmp(name + length, which) == 0;
}

static hs_code copy_attributes(hs__stored_state *state, const restoring *r, size_t at, hs_error *err)
{
    for (size_t i = at; i < r->n_states && i < at + 2; i++) {
        const hs__save_item *item = &r->states[i];
        if (is_attribute(item->name, state->key, HS__STATE_VERSION)) {
            memcpy(&state->version, item->value.data, sizeof state->version);
        } else if (is_attribute(item->name, state->key, HS__STATE_IDENTITY)) {
            const hs_string *text = item->value.data;
            if (!(state->identity = hs__strndup(r->env, text->data, text->bytes)))
                return hs__no_memory(err, text->bytes, state->key);
        }
    }
    return HS_OK;
}

/* Adds the state of that key; `at` is its place among the states of the copy, or HS__NONE. A state that is loaded now is
 * borrowed from the snapshot. An unclaimed one outlives it, and is copied. */
static hs_code store(restoring *r, const char *key, size_t at, bool borrowed, hs_error *err)
{
    hs__stored_states *stored = &r->stored;
    hs_code code = hs__reserve(r->env, &stored->items, &stored->capacity, stored->n + 1, sizeof *stored->items, err);
    if (code)
        return code;
    hs__stored_state *state = &stored->items[stored->n++];
    *state = (hs__stored_state){.key = hs__strdup(r->env, key)};
    if (!state->key)
        return hs__no_memory(err, strlen(key), "a name");
    if (at == HS__NONE)
        return HS_OK;
    const hs_tensor *value = &r->states[at].value;
    state->bytes = value->bytes;
    state->is_borrowed = borrowed;
    if (borrowed)
        state->data = value->data;
    else if (!(state->data = hs__alloc(r->env, value->bytes, 1)))
        return hs__no_memory(err, value->bytes, key);
    else if (value->bytes)
        memcpy(state->data, value->data, value->bytes);
    return copy_attributes(state, r, at + 1, err);
}

static bool has_provider(const hs_raw_session *session, const char *key)
{
    for (size_t i = 0; i < session->n_states; i++)
        if (strcmp(session->states[i].key, key) == 0)
            return true;
    return false;
}

/* As hs__states_read: one item for each provider of the session, then the unclaimed ones. */
static hs_code store_states(restoring *r, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    if (!(r->stored.path = hs__strdup(r->env, r->source)))
        return hs__no_memory(err, strlen(r->source), "a name");
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = store(r, session->states[i].key, find_state(r, session->states[i].key), true, err);
    for (size_t i = 0; !code && i < r->n_states; i++)
        if (!strchr(r->states[i].name, ':') && !has_provider(session, r->states[i].name))
            code = store(r, r->states[i].name, i, false, err);
    return code;
}

static hs_code prepare(restoring *r, const hs__snapshot *snapshot, const hs_raw_session *session, hs_error *err)
{
    hs_code code;
    if (!(r->variables = hs__alloc(r->env, snapshot->n, sizeof *r->variables)))
        return hs__no_memory(err, snapshot->n * sizeof *r->variables, "the values of a copy");
    for (size_t i = 0; i < snapshot->n; i++)
        r->variables[i] = hs__snapshot_item(snapshot, i);
    r->n_variables = snapshot->n_variables;
    r->states = r->variables + r->n_variables;
    r->n_states = snapshot->n - snapshot->n_variables;
    if ((code = match_variables(r, session, err)) || (code = store_states(r, session, err)))
        return code;
    return hs__states_check(&r->stored, session, err);
}

static hs_code write_variables(const restoring *r, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < r->n_values; i++) {
        if (!r->value_of[i])
            continue;
        code = hs__session_write(session, i, r->value_of[i]->name, &r->value_of[i]->value, err);
        if (code)
            hs_error_prefix(err, "cannot set variable '%s' from %s", r->value_of[i]->name, r->source);
    }
    return code;
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
    hs_code code = prepare(&r, &copy->snapshot, session, err);
    if (!code) {
        hs__raw_session_moved(session);
        if (!(code = hs__states_load(&r.stored, NULL, session, err)))
            code = write_variables(&r, session, err);
    }
    if (!code) {
        hs__stash_unclaimed(&r.stored, session);
        hs__raw_session_rolled_back(session, copy->step);
        hs_error_clear(err);
    }
    hs__states_free(&r.stored, r.env);
    hs__free(r.env, r.variables);
    hs__free(r.env, r.value_of);
    return code;
}
