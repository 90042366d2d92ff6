/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_INDEX_WRITER_H
#define HS_FORMATS_BUNDLE_INDEX_WRITER_H

#include "base/buffer.h"
#include "formats/bundle.h"

/* Appends the index of the writer's entries to `index`. Sorts the entries. */
hs_code hs__bundle_build_index(hs__bundle_writer *writer, hs__buffer *index, hs_error *err);

#endif
