/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_LAYOUT_H
#define HS_FORMATS_BUNDLE_LAYOUT_H

#include "formats/bundle.h"

/* Where in a tensor its slices lie. */

typedef struct hs__placed {
    hs__bundle_entry *entry; /* the reader's */
    hs__box box;             /* its lengths are those of the entry's shape */
    int64_t key;             /* for sorting */
} hs__placed;

typedef struct hs__layout {
    hs__placed *items; /* in no particular order */
    size_t n;
} hs__layout;

/* DATA_LOSS, naming tensor and slices, unless they have each element of the tensor once. After a failure there is nothing
 * to free. */
hs_code hs__bundle_lay_out(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__layout *layout,
                           hs_error *err);
void hs__layout_free(const hs_env *env, hs__layout *layout);

#endif
