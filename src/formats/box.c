/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes, and the runs of bytes that two boxes of one tensor have in common. */
#include "formats/box.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

hs__box hs__box_of(const hs_shape *shape)
{
    hs__box box = {.rank = shape->rank};
    memcpy(box.lengths, shape->dims, sizeof box.lengths);
    return box;
}

bool hs__box_in(const hs__box *box, const hs_shape *shape, hs__box *out)
{
    *out = *box;
    if (box->rank != shape->rank)
        return false;
    for (int32_t i = 0; i < box->rank; i++) {
        int64_t start = box->starts[i], length = box->lengths[i];
        if (start < 0 || start > shape->dims[i] || length < -1 || length > shape->dims[i] - start)
            return false;
        if (length == -1)
            out->lengths[i] = shape->dims[i] - start;
    }
    return true;
}

hs_shape hs__box_shape(const hs__box *box)
{
    return hs_shape_of(box->rank, box->lengths);
}

bool hs__box_meets(const hs__box *box, const hs__box *other)
{
    for (int32_t i = 0; i < box->rank; i++)
        if (!box->lengths[i] || !other->lengths[i] || box->starts[i] >= other->starts[i] + other->lengths[i] ||
            other->starts[i] >= box->starts[i] + box->lengths[i])
            return false;
    return true;
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int hs__box_order(const hs__box *box, const hs__box *other)
{
    int found = order(box->rank, other->rank);
    for (int32_t i = 0; !found && i < box->rank; i++)
        if (!(found = order(box->starts[i], other->starts[i])))
            found = order(box->lengths[i], other->lengths[i]);
    return found;
}

const char *hs__box_text(const hs__box *box, char *text, size_t bytes)
{
    snprintf(text, bytes, "[");
    for (int32_t i = 0; i < box->rank; i++) {
        int64_t start = box->starts[i], length = box->lengths[i];
        hs__append(text, bytes, i ? ",%lld:" : "%lld:", (long long)start);
        if (length >= 0) /* unsigned: numbers of a file may overflow */
            hs__append(text, bytes, "%llu", (unsigned long long)start + (uint64_t)length);
    }
    hs__append(text, bytes, "]");
    return text;
}

/* Runs. */

/* From the last dimension to the first: as long as the intersection covers both boxes in all later dimensions, it is
 * contiguous. */
hs__runs hs__runs_begin(const hs__box *from, const hs__box *to, size_t element)
{
    hs__runs runs = {.remaining = 1, .run = element};
    size_t from_step = element, to_step = element;
    bool together = true;
    for (int32_t i = from->rank; i-- > 0;) {
        int64_t from_end = from->starts[i] + from->lengths[i], to_end = to->starts[i] + to->lengths[i];
        int64_t start = from->starts[i] > to->starts[i] ? from->starts[i] : to->starts[i];
        int64_t length = (from_end < to_end ? from_end : to_end) - start;
        if (length <= 0)
            return (hs__runs){.remaining = 0};
        runs.from += (size_t)(start - from->starts[i]) * from_step;
        runs.to += (size_t)(start - to->starts[i]) * to_step;
        if (together) {
            runs.run *= (size_t)length;
            together = length == from->lengths[i] && length == to->lengths[i];
            runs.outer = i;
        } else {
            runs.remaining *= (size_t)length;
            runs.counts[i] = length;
            runs.from_step[i] = from_step;
            runs.to_step[i] = to_step;
        }
        from_step *= (size_t)from->lengths[i];
        to_step *= (size_t)to->lengths[i];
    }
    return runs;
}

void hs__runs_next(hs__runs *runs)
{
    runs->remaining--;
    for (int32_t i = runs->outer; i-- > 0;) {
        runs->from += runs->from_step[i];
        runs->to += runs->to_step[i];
        if (++runs->index[i] < runs->counts[i])
            return;
        runs->index[i] = 0;
        runs->from -= runs->from_step[i] * (size_t)runs->counts[i];
        runs->to -= runs->to_step[i] * (size_t)runs->counts[i];
    }
}

size_t hs__runs_end(const hs__runs *runs)
{
    size_t end = runs->from + runs->run;
    for (int32_t i = 0; i < runs->outer; i++)
        end += runs->from_step[i] * (size_t)(runs->counts[i] - 1 - runs->index[i]);
    return end;
}

void hs__runs_copy(hs__runs *runs, const char *piece, size_t at, size_t n, char *to)
{
    size_t end = at + n;
    while (runs->remaining && runs->from < end) {
        size_t begins = runs->from > at ? runs->from : at, run_end = runs->from + runs->run;
        size_t ends = run_end < end ? run_end : end;
        memcpy(to + runs->to + (begins - runs->from), piece + (begins - at), ends - begins);
        if (run_end > end)
            return; /* the next piece has the rest of the run */
        hs__runs_next(runs);
    }
}
