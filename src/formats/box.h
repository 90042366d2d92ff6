/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BOX_H
#define HS_FORMATS_BOX_H

#include <hooksess/tensor.h>

/* Rectangular parts of tensors. */

/* Where a part begins along each dimension, and how long it is there; -1: up to the end. */
typedef struct hs__box {
    int32_t rank;
    int64_t starts[HS_MAX_RANK], lengths[HS_MAX_RANK];
} hs__box;

/* All of a tensor. */
hs__box hs__box_of(const hs_shape *shape);
/* The same box without a length of -1; false if it does not lie in the shape. */
bool hs__box_in(const hs__box *box, const hs_shape *shape, hs__box *out);
/* Its lengths; likewise without a length of -1. */
hs_shape hs__box_shape(const hs__box *box);
bool hs__box_meets(const hs__box *box, const hs__box *other);
/* By rank, then start and length of each dimension in turn: the order of keys in an index. */
int hs__box_order(const hs__box *box, const hs__box *other);
/* Writes "[0:2,4:8]", begin and end along each dimension. Returns `text`, always ended. */
const char *hs__box_text(const hs__box *box, char *text, size_t bytes);
#define HS__BOX_TEXT_SIZE (4 + 42 * HS_MAX_RANK)

/* What two boxes of one tensor have in common, as runs of bytes that lie together in either, if both are in row-major
 * order. The runs come in the order of `from`. */
typedef struct hs__runs {
    size_t left;     /* so many runs are still to come, this one with them */
    size_t run;      /* bytes of each */
    size_t from, to; /* where this one begins */
    int32_t outer;   /* so many dimensions are gone through one by one */
    int64_t index[HS_MAX_RANK], counts[HS_MAX_RANK];
    size_t from_step[HS_MAX_RANK], to_step[HS_MAX_RANK];
} hs__runs;

/* `element` is the bytes of one. All bytes of either box can be counted. */
hs__runs hs__runs_begin(const hs__box *from, const hs__box *to, size_t element);
void hs__runs_next(hs__runs *runs);
/* How far into `from` the last run reaches. */
size_t hs__runs_end(const hs__runs *runs);
/* Copies what the bytes [at, at + n) of `from`, which lie in `piece`, have of the runs, and goes on to the first run that
 * is not done. */
void hs__runs_copy(hs__runs *runs, const char *piece, size_t at, size_t n, char *to);

#endif
