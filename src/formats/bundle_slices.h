/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_SLICES_H
#define HS_FORMATS_BUNDLE_SLICES_H

#include "formats/bundle.h"

#include "bundle.pb-c.h"

/* Tensors that are stored in slices, as TensorFlow's partitioned variables are: reads the slices from the index, and checks
 * that they make up the tensor. An index is in the order of its keys: the slices of a tensor come one after the other, in
 * the order of their boxes, and all slices come before the first tensor's name. */

/* Adds the slice that the index has under `key`. Ignores a key that is not a slice's, and a slice of a tensor that is not
 * stored in slices. */
hs_code hs__bundle_add_slice(hs__bundle_reader *reader, hs_bytes key, const hs__bundle_entry *slice, hs_error *err);
/* Finds the slices that a tensor's entry lists. */
hs_code hs__bundle_list_slices(hs__bundle_reader *reader, hs__bundle_entry *entry, const Hs__Pb__BundleEntryProto *proto,
                               hs_error *err);
/* Call for each slice key of the index, in order. `*next`, 0 at first, counts the keys. DATA_LOSS if hs__bundle_add_slice
 * ignored this key, or its tensor does not list the slice. */
hs_code hs__bundle_check_slice(const hs__bundle_reader *reader, hs_bytes key, size_t *next, hs_error *err);

/* Position of a slice in its tensor. */
typedef struct hs__placed {
    hs__bundle_entry *entry; /* the reader's */
    hs__box box;             /* its lengths are those of the entry's shape */
} hs__placed;

typedef struct hs__layout {
    hs__placed *items; /* in no particular order */
    size_t n;
} hs__layout;

/* Positions of the slices in a tensor. DATA_LOSS, with the names of tensor and slices, unless they hold each element of the
 * tensor exactly once. The items belong to the reader and are valid until the layout of another tensor. The caller may
 * sort them. */
hs_code hs__bundle_lay_out(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__layout *layout, hs_error *err);

#endif
