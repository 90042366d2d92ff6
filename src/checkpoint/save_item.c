/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/save_item.h"

#include <string.h>

hs_code hs__save_item_write(const hs__save_item *item, hs__bundle_writer *writer, hs_error *err)
{
    writer->ignores_nonfinite = item->nonfinite;
    if (item->copied_from)
        return hs__bundle_writer_add_copy(writer, item->copied_from, hs__bundle_find(item->copied_from, item->name), err);
    if (item->produce)
        return hs__bundle_writer_add_bytes(writer, item->name, item->produce, item->source, err);
    return item->slice ? hs__bundle_writer_add_slice(writer, item->name, &item->slice->shape, item->slice->starts,
                                                     &item->value, err)
                       : hs__bundle_writer_add(writer, item->name, &item->value, err);
}

hs_code hs__read_variable(const hs_raw_session *session, size_t index, const char *name, hs_host_copy *copy,
                          hs_tensor *host, hs_error *err)
{
    hs_tensor value;
    hs_code code = hs__session_read(session, index, name, &value, err);
    if (code)
        return code;
    code = hs__normalize_error(hs_tensor_host(&value, copy, host, err), "hs_memory.to_host", err);
    if (code)
        hs_error_prefix(err, "cannot read variable '%s'", name);
    return code;
}

hs_code hs__produce_state(const hs__state_slot *slot, hs_state_writer *writer, hs_error *err)
{
    hs__clear(err); /* an error that the previous provider ignored */
    hs_code code = hs__normalize_error(slot->save(slot->self, writer, err), "it", err);
    if (writer->error.code)
        code = hs__error_copy(err, &writer->error);
    if (code)
        hs_error_prefix(err, "cannot save state '%s'", slot->key);
    return code;
}

static hs_code visit_attribute(const hs_env *env, const char *key, const char *which, const hs_tensor *value,
                               hs__visit_item_fn visit, void *user, hs_error *err)
{
    char *name = hs__format(env, "%s%s", key, which);
    hs_code code = name ? visit(user, &(hs__save_item){.name = name, .value = *value, .variable = HS__NONE}, err)
                        : hs__no_memory(err, strlen(key), "a name");
    hs__free(env, name);
    return code;
}

hs_code hs__visit_state(const hs_env *env, const hs__stored_state *state, const hs__save_item *bytes,
                        hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs_string identity = {state->identity, state->identity ? strlen(state->identity) : 0};
    hs_tensor version = hs_tensor_of(HS_INT64, HS_SCALAR, &state->version);
    hs_tensor text = hs_tensor_of(HS_STRING, HS_SCALAR, &identity);
    hs_code code = visit(user, bytes, err);
    if (!code && state->version)
        code = visit_attribute(env, state->key, HS__STATE_VERSION, &version, visit, user, err);
    if (!code && state->identity)
        code = visit_attribute(env, state->key, HS__STATE_IDENTITY, &text, visit, user, err);
    return code;
}

char *hs__unallocated_key(const hs_env *env, const char *name)
{
    return hs__format(env, HS__STATE_PREFIX "variable/%s:null", name);
}

hs_code hs__visit_unallocated(const hs_env *env, const char *name, hs__visit_item_fn visit, void *user, hs_error *err)
{
    static const bool yes = true;
    char *key = hs__unallocated_key(env, name);
    const hs__save_item record = {.name = key, .value = hs_tensor_of(HS_BOOL, HS_SCALAR, &yes), .variable = HS__NONE};
    hs_code code = key ? visit(user, &record, err) : hs__no_memory(err, strlen(name), "a name");
    hs__free(env, key);
    return code;
}
