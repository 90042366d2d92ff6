/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the slices of a tensor. Only when a tensor is read does hs__bundle_lay_out check that its slices cover it. */
#include "formats/bundle_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hs__bundle_slice *hs__bundle_slices_of(const hs__bundle_reader *reader, const hs__bundle_entry *entry, size_t *n)
{
    size_t first = hs__map_find(&reader->sliced, entry->name), end = first;
    *n = 0;
    if (first == HS__NONE)
        return NULL;
    while (end < reader->n_slices && reader->slices[end].entry.name == reader->slices[first].entry.name)
        end++;
    *n = end - first;
    return &reader->slices[first];
}

static int by_box(const void *box, const void *slice)
{
    return hs__box_order(box, &((const hs__bundle_slice *)slice)->box);
}

hs__bundle_slice *hs__bundle_find_slice(hs__bundle_slice *slices, size_t n, const hs__box *box)
{
    return n ? bsearch(box, slices, n, sizeof *slices, by_box) : NULL;
}

/* Checking that slices make up their tensor. */

hs_code hs__bundle_slice_damage(const hs__bundle_reader *reader, const hs__bundle_slice *slice, const char *what,
                                hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE];
    return hs_error_set(err, HS_DATA_LOSS, "%s: slice %s of '%s' %s", reader->prefix,
                        hs__box_text(&slice->box, text, sizeof text), slice->entry.name, what);
}

static hs_code check_lists(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE];
    size_t n;
    hs__bundle_slice *slices = hs__bundle_slices_of(reader, entry, &n);
    if (entry->lost) {
        const hs__box *lost = &reader->lost[entry->lost - 1];
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %zu slices, but should have %zu: %s is %s", reader->prefix,
                            entry->name, n, entry->slices, hs__box_text(lost, text, sizeof text),
                            hs__bundle_find_slice(slices, n, lost) ? "listed twice" : "missing");
    }
    for (size_t i = 0; i < n; i++)
        if (!slices[i].listed)
            return hs__bundle_slice_damage(reader, &slices[i], "is not in the tensor's list of slices", err);
    return HS_OK;
}

static hs_code place(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_slice *slice,
                     hs__placed *placed, hs_error *err)
{
    *placed = (hs__placed){.entry = &slice->entry};
    hs_shape found = slice->entry.shape;
    if (!hs__box_in(&slice->box, &entry->shape, &placed->box))
        return hs__bundle_slice_damage(reader, slice, "lies outside the tensor", err);
    hs_shape needed = hs__box_shape(&placed->box);
    if (slice->entry.slices)
        return hs__bundle_slice_damage(reader, slice, "is itself stored in slices", err);
    if (slice->entry.dtype != entry->dtype)
        return hs__bundle_slice_damage(reader, slice, "has a different dtype", err);
    if (!hs_shape_equal(&found, &needed))
        return hs__bundle_slice_damage(reader, slice, "has a different shape", err);
    if (slice->entry.shard < 0 || slice->entry.shard >= reader->shards)
        return hs__bundle_slice_damage(reader, slice, "is in a data file that does not exist", err);
    return HS_OK;
}

static int by_start(const void *a, const void *b)
{
    int64_t first = ((const hs__placed *)a)->box.starts[0], second = ((const hs__placed *)b)->box.starts[0];
    return (first > second) - (first < second);
}

/* Reports overlapping or missing slices. Names two slices that overlap, unless the search takes too long. */
static hs_code report_coverage(const hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs__layout *layout,
                               hs_error *err)
{
    enum { MOST_PAIRS = 1 << 20 };
    uint64_t wanted = (uint64_t)hs_shape_elements(&entry->shape), found = 0, pairs = 0;
    hs__placed *items = layout->items;
    qsort(items, layout->n, sizeof *items, by_start);
    for (size_t i = 0; i < layout->n; i++) {
        hs_shape shape = hs__box_shape(&items[i].box);
        found += (uint64_t)hs_shape_elements(&shape);
        int64_t end = items[i].box.starts[0] + items[i].box.lengths[0];
        for (size_t k = i + 1; k < layout->n && items[k].box.starts[0] < end && pairs < MOST_PAIRS; k++, pairs++) {
            char first[HS__BOX_TEXT_SIZE], second[HS__BOX_TEXT_SIZE];
            if (hs__box_meets(&items[i].box, &items[k].box))
                return hs_error_set(err, HS_DATA_LOSS, "%s: slices %s and %s of '%s' overlap", reader->prefix,
                                    hs__box_text(&items[i].box, first, sizeof first),
                                    hs__box_text(&items[k].box, second, sizeof second), items[i].entry->name);
        }
    }
    if (found >= wanted)
        return hs_error_set(err, HS_DATA_LOSS, "%s: slices of '%s' overlap", reader->prefix, entry->name);
    return hs_error_set(err, HS_DATA_LOSS, "%s: %llu of the %llu elements of '%s' are not in any slice", reader->prefix,
                        (unsigned long long)(wanted - found), (unsigned long long)wanted, entry->name);
}

/* Comparing all pairs of slices takes quadratic time. Instead, each index of each dimension gets a random weight. The
 * weight of an element is the product of the weights of its indices, the weight of a box is the sum of the weights of its
 * elements. All weights are modulo PRIME. */
static const uint64_t PRIME = 4294967291u;

/* The sum of the weights of all indices below `index`. */
static uint64_t sum_before(const uint64_t key[2], uint64_t round, int32_t axis, int64_t index)
{
    const uint64_t words[] = {round, (uint64_t)axis, (uint64_t)index};
    return hs__hash_keyed(key, (const char *)words, sizeof words) % PRIME;
}

static uint64_t weight_of(const uint64_t key[2], uint64_t round, const hs__box *box)
{
    uint64_t weight = 1;
    for (int32_t i = 0; i < box->rank; i++) {
        uint64_t from = sum_before(key, round, i, box->starts[i]),
                 to = sum_before(key, round, i, box->starts[i] + box->lengths[i]);
        weight = weight * ((to + PRIME - from) % PRIME) % PRIME;
    }
    return weight;
}

/* If the slices have each element exactly once, their weights add up to the tensor's. Otherwise they do so in one round
 * with a probability of at most HS_MAX_RANK / PRIME. A file cannot raise it, as the key is random. */
static hs_code check_once(const hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs__layout *layout,
                          hs_error *err)
{
    hs__box whole = hs__box_of(&entry->shape);
    const uint64_t *key = reader->sliced.key;
    for (uint64_t round = 0; round < 2; round++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < layout->n; i++)
            sum += weight_of(key, round, &layout->items[i].box);
        if (sum % PRIME != weight_of(key, round, &whole))
            return report_coverage(reader, entry, layout, err);
    }
    return HS_OK;
}

hs_code hs__bundle_lay_out(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__layout *layout, hs_error *err)
{
    hs_code code = HS_OK;
    if (reader->placed_of == entry) {
        *layout = (hs__layout){reader->placed, reader->n_placed};
        return HS_OK;
    }
    if ((code = hs__bundle_check_shape(reader, entry, err)) || (code = check_lists(reader, entry, err)))
        return code;
    size_t n;
    hs__bundle_slice *slices = hs__bundle_slices_of(reader, entry, &n);
    *layout = (hs__layout){.n = n, .items = hs__alloc(reader->env, n, sizeof *layout->items)};
    if (!layout->items)
        return hs__no_memory(err, n * sizeof *layout->items, "the slices of a tensor");
    for (size_t i = 0; i < n && !code; i++)
        code = place(reader, entry, &slices[i], &layout->items[i], err);
    if (!code)
        code = check_once(reader, entry, layout, err);
    if (code) {
        hs__free(reader->env, layout->items);
        return code;
    }
    hs__free(reader->env, reader->placed);
    reader->placed = layout->items;
    reader->n_placed = n;
    reader->placed_of = entry;
    return HS_OK;
}
