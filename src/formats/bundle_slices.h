/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_SLICES_H
#define HS_FORMATS_BUNDLE_SLICES_H

#include "formats/bundle.h"

/* Tensors that are stored in slices, as TensorFlow's partitioned variables are: checks that the slices make up the tensor.
 * An index is in the order of its keys: the slices of a tensor come one after the other, in the order of their boxes, and
 * all slices come before the first tensor's name. */

/* The slices of a tensor in the index. NULL: no slices. */
hs__bundle_slice *hs__bundle_slices_of(const hs__bundle_reader *reader, const hs__bundle_entry *entry, size_t *n);
/* The one of these slices that has the box. NULL: not found. */
hs__bundle_slice *hs__bundle_find_slice(hs__bundle_slice *slices, size_t n, const hs__box *box);
/* Sets and returns DATA_LOSS: "slice BOX of 'TENSOR' WHAT". */
hs_code hs__bundle_slice_damage(const hs__bundle_reader *reader, const hs__bundle_slice *slice, const char *what,
                                hs_error *err);

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
