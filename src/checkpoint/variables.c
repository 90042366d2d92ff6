/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/variables.h"

char *hs__variable_key(const hs_env *env, const char *name, const char *which)
{
    return hs__format(env, HS__STATE_PREFIX "variable/%s%s", name, which);
}

bool hs__session_variable(const hs_raw_session *session, size_t index, hs_variable *out)
{
    return session->ops.variable && session->ops.variable(session->backend.self, index, out);
}

hs_code hs__session_read(const hs_raw_session *session, size_t index, const char *name, hs_tensor *value, hs_error *err)
{
    return hs__settle(session->ops.read_variable(session->handle, index, value, err), name, err);
}

hs_code hs__session_write(const hs_raw_session *session, size_t index, const char *name, const hs_tensor *value,
                          hs_error *err)
{
    return hs__settle(session->ops.write_variable(session->handle, index, value, err), name, err);
}

hs_code hs__session_lend(const hs_raw_session *session, size_t index, const hs_variable *variable, size_t bytes,
                         void **lent, hs_error *err)
{
    hs_tensor memory;
    hs_error cause = {0};
    *lent = NULL;
    if (!session->ops.lend_variable)
        return HS_OK;
    hs_code code = hs__settle(session->ops.lend_variable(session->handle, index, &memory, &cause), variable->name, &cause);
    if (code)
        return variable->flags & HS_VARIABLE_MOVES && code != HS_UNIMPLEMENTED ? hs__error_copy(err, &cause) : HS_OK;
    if (!memory.memory && memory.bytes == bytes)
        *lent = memory.data;
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
