/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BOX_H
#define HS_FORMATS_BOX_H

#include <hooksess/tensor.h>

/* Rectangular parts of tensors. */

/* Start and length of a part along each dimension. A length of -1: up to the end. */
typedef struct hs__box {
    int32_t rank;
    int64_t starts[HS_MAX_RANK], lengths[HS_MAX_RANK];
} hs__box;

/* The box of a whole tensor. */
hs__box hs__box_of(const hs_shape *shape);
/* Replaces lengths of -1. False if the box is not within the shape. */
bool hs__box_in(const hs__box *box, const hs_shape *shape, hs__box *out);
/* The lengths of a box without lengths of -1. */
hs_shape hs__box_shape(const hs__box *box);
/* True if two boxes without lengths of -1 overlap. */
bool hs__box_meets(const hs__box *box, const hs__box *other);
/* Compares by rank, then by start and length of each dimension in turn: the order of keys in an index. */
int hs__box_order(const hs__box *box, const hs__box *other);
/* Writes "[0:2,4:8]", start and end along each dimension. Returns `text`, which is always terminated. */
const char *hs__box_text(const hs__box *box, char *text, size_t bytes);
#define HS__BOX_TEXT_SIZE (4 + 42 * HS_MAX_RANK)

/* The intersection of two boxes of one tensor, as runs of bytes that are contiguous in both. Both boxes are in row-major
 * order. The runs come in the order of `from`. */
typedef struct hs__runs {
    size_t remaining; /* runs, including this one */
    size_t run;       /* bytes of each run */
    size_t from, to;  /* where this run begins in the two boxes */
    int32_t outer;    /* number of leading dimensions with one run per index */
    int64_t index[HS_MAX_RANK], counts[HS_MAX_RANK];
    size_t from_step[HS_MAX_RANK], to_step[HS_MAX_RANK];
} hs__runs;

/* `element` is the size of an element. The size of neither box overflows. */
hs__runs hs__runs_begin(const hs__box *from, const hs__box *to, size_t element);
void hs__runs_next(hs__runs *runs);
/* End of the last run in `from`. */
size_t hs__runs_end(const hs__runs *runs);
/* `piece` holds bytes [at, at + n) of `from`. Copies the runs in it to `to`, and moves to the first run that is not
 * complete. */
void hs__runs_copy(hs__runs *runs, const char *piece, size_t at, size_t n, char *to);

#endif
