/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a raw session: the backend's, and the variables added while the session was open. */
#include "backends/raw_variables.h"

#include "backends/variable.h"

#include <string.h>

bool hs__session_is_late(const hs_raw_session *session, size_t index)
{
    return session->n_late && index >= session->late_from;
}

static const hs_variable_def *late_at(const hs_raw_session *session, size_t index)
{
    return &session->late[index - session->late_from].def;
}

bool hs__session_variable(const hs_raw_session *session, size_t index, hs_variable *out)
{
    if (!hs__session_is_late(session, index))
        return session->ops.variable && session->ops.variable(session->backend.self, index, out);
    if (index - session->late_from >= session->n_late)
        return false;
    const hs_variable_def *def = late_at(session, index);
    *out = (hs_variable){
        .name = def->name, .dtype = def->dtype, .shape = def->shape, .flags = hs__variable_flags(def) | HS_VARIABLE_MOVES};
    return true;
}

hs_code hs__session_read(const hs_raw_session *session, size_t index, const char *name, hs_tensor *value, hs_error *err)
{
    if (hs__session_is_late(session, index))
        return hs__variable_place(late_at(session, index), false, value, err);
    return hs__normalize_error(session->ops.read_variable(session->handle, index, value, err), name, err);
}

static hs_code write_late(const hs_variable_def *def, const hs_tensor *value, hs_error *err)
{
    hs_tensor to;
    hs_code code = hs__variable_place(def, false, &to, err);
    return code ? code : hs__variable_write(def, &to, value, err);
}

hs_code hs__session_write(const hs_raw_session *session, size_t index, const char *name, const hs_tensor *value,
                          hs_error *err)
{
    if (hs__session_is_late(session, index))
        return write_late(late_at(session, index), value, err);
    return hs__normalize_error(session->ops.write_variable(session->handle, index, value, err), name, err);
}

static hs_code lend_late(const hs_variable_def *def, void **host, hs_error *err)
{
    hs_tensor memory;
    hs_code code = hs__variable_place(def, true, &memory, err);
    *host = code || memory.memory ? NULL : memory.data;
    return code;
}

hs_code hs__session_lend(const hs_raw_session *session, size_t index, const hs_variable *variable, size_t bytes,
                         void **host, hs_error *err)
{
    hs_tensor memory;
    hs_error cause = {0};
    *host = NULL;
    if (hs__session_is_late(session, index))
        return lend_late(late_at(session, index), host, err);
    if (!session->ops.lend_variable)
        return HS_OK;
    hs_code code =
        hs__normalize_error(session->ops.lend_variable(session->handle, index, &memory, &cause), variable->name, &cause);
    if (code)
        return variable->flags & HS_VARIABLE_MOVES && code != HS_UNIMPLEMENTED ? hs__error_copy(err, &cause) : HS_OK;
    if (!memory.memory && memory.bytes == bytes)
        *host = memory.data;
    return HS_OK;
}

hs_code hs__session_has_memory(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                               hs_error *err)
{
    hs_tensor value;
    *has = true;
    if (!(variable->flags & HS_VARIABLE_MOVES))
        return HS_OK;
    hs_code code = hs__session_read(session, index, variable->name, &value, err);
    if (!code)
        *has = value.data || !value.bytes;
    return code;
}

/* `late` has n_late variables of the session, then n_lost variables that a recovery has not brought back yet. */

static size_t find_late(const hs_raw_session *raw, const char *name)
{
    size_t i = 0;
    while (i < raw->n_late + raw->n_lost && strcmp(raw->late[i].name, name) != 0)
        i++;
    return i;
}

bool hs__raw_session_is_recovered(const hs_raw_session *raw, const char *name)
{
    size_t at = find_late(raw, name);
    return at < raw->n_late && raw->late[at].recovered;
}

hs_code hs__raw_session_reserve_late(hs_raw_session *raw, hs_error *err)
{
    size_t n = raw->n_late + raw->n_lost + 1;
    return hs__reserve(&raw->env, &raw->late, &raw->late_capacity, n, sizeof *raw->late, err);
}

void hs__raw_session_add_late(hs_raw_session *raw, const hs__late_variable *late)
{
    hs_variable variable;
    size_t at = find_late(raw, late->name), end = raw->n_late + raw->n_lost;
    if (!raw->n_late) /* the graph is finalized: the number of its variables is final */
        for (raw->late_from = 0; hs__session_variable(raw, raw->late_from, &variable);)
            raw->late_from++;
    if (at < end)
        hs__free(&raw->env, raw->late[at].name);
    else
        raw->n_lost++;
    if (at >= raw->n_late) { /* swap with the first lost one */
        raw->late[at] = raw->late[raw->n_late];
        at = raw->n_late++;
        raw->n_lost--;
    }
    raw->late[at] = *late;
}

void hs__raw_session_lose_late(hs_raw_session *raw)
{
    raw->n_lost += raw->n_late;
    raw->n_late = 0;
}

const hs_variable_def *hs__raw_session_recover_late(hs_raw_session *raw)
{
    if (!raw->n_lost)
        return NULL;
    hs__late_variable *late = &raw->late[raw->n_late++];
    raw->n_lost--;
    late->recovered = true;
    return &late->def;
}

void hs__raw_session_free_late(hs_raw_session *raw)
{
    for (size_t i = 0; i < raw->n_late + raw->n_lost; i++)
        hs__free(&raw->env, raw->late[i].name);
    hs__free(&raw->env, raw->late);
    raw->late = NULL;
    raw->n_late = raw->n_lost = raw->late_capacity = 0;
}
