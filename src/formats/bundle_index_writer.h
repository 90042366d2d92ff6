/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_INDEX_WRITER_H
#define HS_FORMATS_BUNDLE_INDEX_WRITER_H

#include "base/buffer.h"
#include "formats/bundle.h"

/* Appends the index of what was added to the writer, whose entries are then in order. */
hs_code hs__bundle_build_index(hs__bundle_writer *writer, hs__buffer *index, hs_error *err);

#endif
