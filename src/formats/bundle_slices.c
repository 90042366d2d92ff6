/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that TensorFlow wrote in slices (its partitioned variables). They are verified, and not read.
 *
 * The key of a slice begins with a zero byte, so that it is no name; then comes the tensor's name, in which a zero byte is
 * written 00 ff and an ff as ff 00, ended by 00 01; then where the slice lies, which verifying does not need. Keys are in
 * order, so that the slices of a tensor come one after the other. */
#include "formats/bundle.h"

#include <string.h>

/* The name in a slice's key, to be freed; NULL without memory. *is_name is false where the key has none. */
static char *name_of(const hs_env *env, hs_bytes key, bool *is_name)
{
    const unsigned char *at = key.data, *end = at + key.size;
    char *name = hs__alloc(env, key.size + 1, 1);
    size_t n = 0;
    *is_name = false;
    for (at++; name && end - at >= 2; at++) {
        if (at[0] == 0 && at[1] == 1) {
            *is_name = n > 0;
            break;
        }
        if (at[0] == 0 || (at[0] == 0xff && at[1] != 0))
            break; /* a zero byte is in no name that we read */
        name[n++] = (char)at[0];
        at += at[0] == 0xff;
    }
    if (name)
        name[n] = '\0';
    return name;
}

static hs_code add_slice(hs__bundle_reader *reader, const char *name, hs__bundle_entry slice, hs_error *err)
{
    size_t n = reader->n_slices;
    hs_code code = hs__reserve(reader->env, &reader->slices, &reader->slices_capacity, n + 1, sizeof slice, err);
    if (code)
        return code;
    if (n && strcmp(reader->slices[n - 1].name, name) == 0)
        slice.name = reader->slices[n - 1].name;
    else if (hs__map_find(&reader->sliced, name) != HS__NONE)
        return HS_OK; /* out of its place: it counts as missing */
    else if ((code = hs__map_add(&reader->sliced, name, n, &slice.name, err)))
        return code;
    reader->slices[reader->n_slices++] = slice;
    return HS_OK;
}

hs_code hs__bundle_add_slice(hs__bundle_reader *reader, hs_bytes key, const hs__bundle_entry *slice, hs_error *err)
{
    bool is_name;
    char *name = name_of(reader->env, key, &is_name);
    if (!name)
        return hs__no_memory(err, key.size, "a name");
    hs_code code = is_name ? add_slice(reader, name, *slice, err) : HS_OK;
    hs__free(reader->env, name);
    return code;
}

hs_code hs__bundle_verify_slices(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    size_t first = hs__map_find(&reader->sliced, entry->name), i = first;
    hs_code code = HS_OK;
    for (; first != HS__NONE && !code && i < reader->n_slices && reader->slices[i].name == reader->slices[first].name; i++)
        code = hs__bundle_verify(reader, &reader->slices[i], err);
    if (!code && i - first != entry->slices)
        code = hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %zu of its %zu slices", reader->prefix, entry->name, i - first,
                            entry->slices);
    return code;
}
