/* SPDX-License-Identifier: Apache-2.0 */
/* The streams with which a state provider saves and loads, and the check of a provider. */
#include "base/state.h"

#include <string.h>

hs_code hs_state_writer_write(hs_state_writer *out, const void *data, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (!out->error.code && !out->put(out->user, data, bytes, &out->error))
        return HS_OK;
    return hs__error_copy(err, &out->error);
}

static hs_code append(void *buffer, const void *data, size_t bytes, hs_error *err)
{
    hs__buffer_append(buffer, data, bytes);
    return hs__buffer_check(buffer, "state", err);
}

hs_state_writer hs__state_writer_to(hs__buffer *buffer)
{
    return (hs_state_writer){.put = append, .user = buffer};
}

hs_code hs_state_reader_read(hs_state_reader *in, void *data, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (bytes > in->left)
        return hs_error_set(err, HS_DATA_LOSS, "the state has only %zu more bytes; %zu were to be read", in->left, bytes);
    if (in->error.code || (bytes && in->next && in->next(in->user, data, bytes, &in->error)))
        return hs__error_copy(err, &in->error);
    if (bytes && !in->next) { /* without any, in->at may be NULL */
        memcpy(data, in->at, bytes);
        in->at += bytes;
    }
    in->left -= bytes;
    return HS_OK;
}

size_t hs_state_reader_remaining(const hs_state_reader *in)
{
    return in->left;
}

int64_t hs_state_reader_version(const hs_state_reader *in)
{
    return in->version;
}

bool hs__is_line(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return true;
}

hs_code hs__state_provider_copy(hs_state_provider *to, const hs_state_provider *from, const char *what, hs_error *err)
{
    hs_code code = HS_STRUCT_TAKE(hs_state_provider, reshard, to, from, err);
    if (code)
        return code;
    if (!to->name || !*to->name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the %s to save has no name", what);
    if (strchr(to->name, ':'))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s '%s': the name contains ':', which is reserved for NAME:version and NAME:identity; rename "
                            "it",
                            what, to->name);
    if (!to->save || !to->load)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': save or load is NULL", what, to->name);
    if (to->version < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': version is %lld; it must be at least 0", what, to->name,
                            (long long)to->version);
    if (to->scope < HS_STATE_SHARED || to->scope > HS_STATE_PER_RANK)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': scope is %d, not an hs_state_scope", what, to->name,
                            (int)to->scope);
    if (to->reshard && to->scope != HS_STATE_PER_RANK)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': reshard needs the scope HS_STATE_PER_RANK", what, to->name);
    if (to->identity && !*to->identity)
        to->identity = NULL;
    if (to->identity && !hs__is_line(to->identity, strlen(to->identity)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': identity must be one line of text", what, to->name);
    return HS_OK;
}
