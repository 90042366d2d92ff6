/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an index calls hs__bundle_add_slice for each slice, then hs__bundle_list_slices for each tensor. Only when a
 * tensor is read does hs__bundle_lay_out check that its slices cover it. */
#include "formats/bundle_slices.h"

#include "formats/bundle_data.h"
#include "formats/slice_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adding slices from the index. */

static hs_code add_slice(hs__bundle_reader *reader, const char *name, hs__bundle_slice slice, hs_error *err)
{
    size_t n = reader->n_slices;
    hs_code code = hs__reserve(reader->env, &reader->slices, &reader->slices_capacity, n + 1, sizeof slice, err);
    if (code)
        return code;
    if (n && strcmp(reader->slices[n - 1].entry.name, name) == 0) {
        if (hs__box_order(&reader->slices[n - 1].box, &slice.box) >= 0)
            return HS_OK; /* out of order: it counts as missing */
        slice.entry.name = reader->slices[n - 1].entry.name;
    } else if ((code = hs__map_add(&reader->sliced, name, n, &slice.entry.name, err))) {
        return code;
    }
    reader->slices[reader->n_slices++] = slice;
    return HS_OK;
}

hs_code hs__bundle_add_slice(hs__bundle_reader *reader, hs_bytes key, const hs__bundle_entry *entry, hs_error *err)
{
    char *name;
    bool no_memory;
    hs__bundle_slice slice = {.entry = *entry};
    if (!hs__slice_key_get(reader->env, key, &name, &slice.box, &no_memory))
        return no_memory ? hs__no_memory(err, key.size, "a name") : HS_OK;
    const hs__bundle_entry *of = hs__bundle_find(reader, name);
    hs_code code = of && of->slices ? add_slice(reader, name, slice, err) : HS_OK;
    hs__free(reader->env, name);
    return code;
}

/* The slices of a tensor in the index. NULL: no slices. */
static hs__bundle_slice *slices_of(const hs__bundle_reader *reader, const char *name, size_t *n)
{
    size_t first = hs__map_find(&reader->sliced, name), end = first;
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

static hs__bundle_slice *find_slice(hs__bundle_slice *slices, size_t n, const hs__box *box)
{
    return n ? bsearch(box, slices, n, sizeof *slices, by_box) : NULL;
}

/* The box of a listed slice. Rank -1: not supported, and matches no slice. */
static hs__box listed_box(const Hs__Pb__TensorSliceProto *proto)
{
    hs__box box = {.rank = proto->n_extent <= HS_MAX_RANK ? (int32_t)proto->n_extent : -1};
    for (int32_t i = 0; i < box.rank; i++) {
        const Hs__Pb__TensorSliceProto__Extent *extent = proto->extent[i];
        bool has_length = extent->has_length_case == HS__PB__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_LENGTH;
        box.starts[i] = extent->start;
        box.lengths[i] = has_length ? extent->length : -1;
    }
    return box;
}

hs_code hs__bundle_list_slices(hs__bundle_reader *reader, hs__bundle_entry *entry, const Hs__Pb__BundleEntryProto *proto,
                               hs_error *err)
{
    size_t n;
    hs__bundle_slice *slices = slices_of(reader, entry->name, &n);
    entry->bytes = entry->dtype == HS_STRING ? 0 : hs_tensor_of((hs_dtype)entry->dtype, entry->shape, NULL).bytes;
    for (size_t i = 0; i < proto->n_slices && !entry->lost; i++) {
        hs__box box = listed_box(proto->slices[i]);
        hs__bundle_slice *slice = find_slice(slices, n, &box);
        if (slice && !slice->listed) {
            slice->listed = true;
            continue;
        }
        hs_code code = hs__reserve(reader->env, &reader->lost, &reader->lost_capacity, reader->n_lost + 1, sizeof box, err);
        if (code)
            return code;
        reader->lost[reader->n_lost++] = box;
        entry->lost = reader->n_lost;
    }
    return HS_OK;
}

/* Checking that slices make up their tensor. */

static hs_code damaged(const hs__bundle_reader *reader, const hs__bundle_slice *slice, const char *what, hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE];
    return hs_error_set(err, HS_DATA_LOSS, "%s: slice %s of '%s' %s", reader->prefix,
                        hs__box_text(&slice->box, text, sizeof text), slice->entry.name, what);
}

static hs_code check_lists(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    char text[HS__BOX_TEXT_SIZE];
    size_t n;
    hs__bundle_slice *slices = slices_of(reader, entry->name, &n);
    if (entry->lost) {
        const hs__box *lost = &reader->lost[entry->lost - 1];
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %zu slices, but should have %zu: %s is %s", reader->prefix,
                            entry->name, n, entry->slices, hs__box_text(lost, text, sizeof text),
                            find_slice(slices, n, lost) ? "listed twice" : "missing");
    }
    for (size_t i = 0; i < n; i++)
        if (!slices[i].listed)
            return damaged(reader, &slices[i], "is not in the tensor's list of slices", err);
    return HS_OK;
}

static const char *key_text(hs_bytes key, char *text, size_t room)
{
    const unsigned char *at = key.data;
    size_t used = 0;
    for (size_t i = 0; i < key.size && used + 5 < room; i++)
        used += (size_t)snprintf(text + used, room - used, at[i] >= ' ' && at[i] < 127 ? "%c" : "\\x%02x", at[i]);
    text[used] = '\0';
    return text;
}

static const char *why_ignored(const hs__bundle_reader *reader, const char *name)
{
    const hs__bundle_entry *entry = hs__bundle_find(reader, name);
    if (!entry)
        return "belongs to a tensor that does not exist";
    return entry->slices ? "cannot be read, or is not in order" : "belongs to a tensor that is not stored in slices";
}

hs_code hs__bundle_check_slice(const hs__bundle_reader *reader, hs_bytes key, size_t *next, hs_error *err)
{
    char *name, text[200];
    bool no_memory;
    hs__bundle_slice found = {.listed = false};
    const hs__bundle_slice *kept = *next < reader->n_slices ? &reader->slices[*next] : NULL;
    if (!hs__slice_key_get(reader->env, key, &name, &found.box, &no_memory))
        return no_memory ? hs__no_memory(err, key.size, "a name")
                         : hs_error_set(err, HS_DATA_LOSS, "%s: the key '%s' is neither a tensor nor a slice",
                                        reader->prefix, key_text(key, text, sizeof text));
    hs_code code = HS_OK;
    found.entry.name = name;
    if (!kept || strcmp(kept->entry.name, name) != 0 || hs__box_order(&kept->box, &found.box) != 0)
        code = damaged(reader, &found, why_ignored(reader, name), err);
    else if (!kept->listed)
        code = damaged(reader, kept, "is not in the tensor's list of slices", err);
    ++*next;
    hs__free(reader->env, name);
    return code;
}

static hs_code place(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_slice *slice,
                     hs__placed *placed, hs_error *err)
{
    *placed = (hs__placed){.entry = &slice->entry};
    hs_shape found = slice->entry.shape;
    if (!hs__box_in(&slice->box, &entry->shape, &placed->box))
        return damaged(reader, slice, "lies outside the tensor", err);
    hs_shape needed = hs__box_shape(&placed->box);
    if (slice->entry.slices)
        return damaged(reader, slice, "is itself stored in slices", err);
    if (slice->entry.dtype != entry->dtype)
        return damaged(reader, slice, "has a different dtype", err);
    if (!hs_shape_equal(&found, &needed))
        return damaged(reader, slice, "has a different shape", err);
    if (slice->entry.shard < 0 || slice->entry.shard >= reader->shards)
        return damaged(reader, slice, "is in a data file that does not exist", err);
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
    return hs__hash_words(key, (const uint64_t[]){round, (uint64_t)axis, (uint64_t)index}, 3) % PRIME;
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
    hs__bundle_slice *slices = slices_of(reader, entry->name, &n);
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
