/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_INDEX_H
#define HS_FORMATS_BUNDLE_INDEX_H

#include "formats/bundle.h"

#include "bundle.pb-c.h"

#include "base/proto.h"

/* Reading the index of a bundle. */

/* Visits the entries of an index file in order, first the header. Fails if this version cannot read the header. */
typedef struct hs__index_visitor {
    void *user;
    const char *path; /* of the index, for messages */
    hs_code (*header)(void *user, const Hs__Pb__BundleHeaderProto *header, hs_error *err);
    hs_code (*entry)(void *user, hs_bytes key, hs_bytes value, hs_error *err);
} hs__index_visitor;
hs_code hs__bundle_visit_index(const hs_env *env, const hs__index_visitor *visitor, hs_error *err);
/* Parses the entry under a key. The caller frees it with protobuf_c_message_free_unpacked. */
hs_code hs__bundle_unpack_entry(const hs_env *env, const char *path, hs_bytes key, hs_bytes value,
                                Hs__Pb__BundleEntryProto **entry, hs_error *err);
/* DATA_LOSS if the entry's shard, offset or size is out of range. */
hs_code hs__bundle_check_place(const Hs__Pb__BundleEntryProto *entry, const char *path, const char *name, int32_t shards,
                               hs_error *err);
/* Reads the index into `reader`, which hs__bundle_reader_init has initialized. */
hs_code hs__bundle_read_index(hs__bundle_reader *reader, hs_error *err);

#endif
