/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_LAYOUT_H
#define HS_FORMATS_BUNDLE_LAYOUT_H

#include "formats/bundle.h"

/* Where in a tensor its slices lie. */

typedef struct hs__placed {
    hs__bundle_entry *entry; /* the reader's */
    hs__box box;             /* its lengths are those of the entry's shape */
} hs__placed;

typedef struct hs__layout {
    hs__placed *items; /* in no particular order */
    size_t n;
} hs__layout;

/* DATA_LOSS, naming tensor and slices, unless they have each element of the tensor once. The items are the reader's, good
 * until another tensor is laid out; may be sorted. */
hs_code hs__bundle_lay_out(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__layout *layout, hs_error *err);

#endif
