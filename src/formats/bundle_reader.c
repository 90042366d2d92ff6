/* SPDX-License-Identifier: Apache-2.0 */
/* Locating, verifying, reading and streaming a tensor of a bundle. Each function handles a tensor that is stored as a whole
 * (bundle_data.c) and one that is stored in slices (bundle_slices.c). A block is the part of a data file that belongs to
 * one entry: a whole tensor or a stored slice. */
#include "formats/bundle.h"

#include "base/crc32c.h"
#include "formats/bundle_data.h"
#include "formats/byte_order.h"

#include <stdlib.h>
#include <string.h>

/* Locating and verifying. */

/* Locates or verifies each block of a tensor, in the order of the file. */
static hs_code each_block(hs__bundle_reader *reader, const hs__bundle_entry *entry, bool verify, hs_error *err)
{
    hs__layout slices = {.n = 1};
    hs_code code = entry->slices ? hs__bundle_lay_out(reader, entry, &slices, err) : HS_OK;
    if (!code && entry->slices)
        qsort(slices.items, slices.n, sizeof *slices.items, hs__bundle_by_place);
    for (size_t i = 0; i < slices.n && !code; i++) {
        const hs__bundle_entry *block = entry->slices ? slices.items[i].entry : entry;
        code =
            verify ? hs__bundle_verify_whole(reader, block, NULL, NULL, err) : hs__bundle_locate_whole(reader, block, err);
    }
    return code;
}

hs_code hs__bundle_locate(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_check(reader, entry, err);
    return code ? code : each_block(reader, entry, false, err);
}

hs_code hs__bundle_verify(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    return each_block(reader, entry, true, err);
}

size_t hs__bundle_read_bytes(const hs__bundle_entry *entry)
{
    if (entry->dtype != HS_STRING)
        return (size_t)entry->bytes;
    int64_t n = hs_shape_elements(&entry->shape);
    return n < 0 ? 0 : (size_t)n * sizeof(hs_string) + (size_t)entry->bytes;
}

/* Reading a slice of any tensor, and a tensor that is stored in slices. */

typedef struct {
    hs__runs runs; /* what remains to be copied of the intersection of block and part */
    char *to;
} copying;

static hs_code copy_piece(void *user, char *piece, size_t at, size_t n, hs_error *err)
{
    copying *c = user;
    (void)err;
    hs__runs_copy(&c->runs, piece, at, n, c->to);
    return HS_OK;
}

/* Reads the runs only. Runs that are close together are read in one piece, long or distant runs one by one. */
static hs_code read_runs(hs__bundle_reader *reader, const hs__bundle_entry *block, copying *c, char *scratch, hs_error *err)
{
    hs__runs *runs = &c->runs;
    bool apart = runs->run >= HS__BUNDLE_PIECE || !runs->outer || runs->from_step[runs->outer - 1] >= HS__BUNDLE_PIECE;
    hs_code code = HS_OK;
    while (!code && runs->remaining) {
        size_t at = runs->from, n = hs__runs_end(runs) - at;
        if (apart) {
            code = hs__file_read(&reader->file, block->offset + at, c->to + runs->to, runs->run, reader->file_path, err);
            hs__runs_next(runs);
        } else {
            n = n < HS__BUNDLE_PIECE ? n : HS__BUNDLE_PIECE;
            if (!(code = hs__file_read(&reader->file, block->offset + at, scratch, n, reader->file_path, err)))
                hs__runs_copy(runs, scratch, at, n, c->to);
        }
    }
    return code;
}

/* Reads the intersection of a block and the part `box` of its tensor to `to`, which is the part. `verify`: also verifies a
 * block that is verified already. */
static hs_code read_block(hs__bundle_reader *reader, const hs__placed *block, const hs__box *box, void *to, bool verify,
                          hs_error *err)
{
    hs__bundle_entry *entry = block->entry;
    copying c = {hs__runs_begin(&block->box, box, hs_dtype_size((hs_dtype)entry->dtype)), to};
    if (!c.runs.remaining)
        return HS_OK;
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    char *scratch = hs__realloc(reader->env, NULL, HS__BUNDLE_PIECE, 1);
    if (!scratch)
        return hs__no_memory(err, HS__BUNDLE_PIECE, "reading a part of a tensor");
    if (entry->verified && !verify)
        code = read_runs(reader, entry, &c, scratch, err);
    else if (c.runs.run == entry->bytes)
        code = hs__bundle_read_pieces(reader, entry, c.to + c.runs.to, true, NULL, NULL, err);
    else /* reads all of the block, to verify its checksum */
        code = hs__bundle_read_pieces(reader, entry, scratch, false, copy_piece, &c, err);
    entry->verified |= !code;
    hs__free(reader->env, scratch);
    return code;
}

static hs_code read_part(hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs__box *box, void *to,
                         bool verify, hs_error *err)
{
    hs_code code = hs__bundle_check(reader, entry, err);
    if (code)
        return code;
    if (entry->dtype == HS_STRING)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has strings, so it can only be read as a whole",
                            reader->prefix, entry->name);
    hs__placed whole = {&reader->entries[hs__map_find(&reader->names, entry->name)], hs__box_of(&entry->shape)};
    hs__layout blocks = {&whole, 1};
    if (entry->slices && (code = hs__bundle_lay_out(reader, entry, &blocks, err)))
        return code;
    for (size_t i = 0; !code && i < blocks.n; i++) {
        char text[HS__BOX_TEXT_SIZE];
        code = read_block(reader, &blocks.items[i], box, to, verify, err);
        if (code && entry->slices)
            hs_error_prefix(err, "slice %s", hs__box_text(&blocks.items[i].box, text, sizeof text));
    }
    hs_tensor read = hs_tensor_of((hs_dtype)entry->dtype, hs__box_shape(box), to);
    if (!code && reader->big_endian != hs__big_endian())
        hs__swap_bytes(read.dtype, read.data, read.bytes);
    return code;
}

hs_code hs__bundle_read_slice(hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs__box *box, void *to,
                              hs_error *err)
{
    return read_part(reader, entry, box, to, false, err);
}

/* Reading a tensor. */

hs_code hs__bundle_read_next(hs__bundle_cursor *cursor, void *to, size_t bytes, hs_error *err)
{
    hs__bundle_reader *reader = cursor->reader;
    const hs__bundle_entry *entry = cursor->entry;
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    char *at = to;
    for (size_t done = 0, n; !code && done < bytes; done += n) {
        n = bytes - done < HS__BUNDLE_PIECE ? bytes - done : HS__BUNDLE_PIECE;
        if ((code = hs__file_read(&reader->file, entry->offset + cursor->done, at + done, n, reader->file_path, err)))
            break;
        hs__read_progress_add(reader->progress, n);
        cursor->crc = hs__crc32c(cursor->crc, at + done, n);
        cursor->done += n;
    }
    return !code && cursor->done == entry->bytes ? hs__bundle_check_crc(reader, entry, cursor->crc, err) : code;
}

hs_code hs__bundle_read(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err)
{
    const hs__box whole = hs__box_of(&entry->shape);
    if (entry->slices)
        return read_part(reader, entry, &whole, to, true, err);
    hs_code code = hs__bundle_read_whole(reader, entry, to, err);
    if (!code && reader->big_endian != hs__big_endian())
        hs__swap_bytes((hs_dtype)entry->dtype, to, (size_t)entry->bytes);
    return code;
}

/* Streaming. */

/* Streams a tensor in slices. A part has at most `most` indices of the dimension `axis`, one index of each dimension before
 * it, and all of each dimension after it. */
static hs_code stream_slices(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, size_t room,
                             hs__bundle_write_fn on_piece, void *user, hs_error *err)
{
    const hs_shape *shape = &entry->shape;
    size_t element = hs_dtype_size((hs_dtype)entry->dtype), inner = element; /* bytes of one index of `axis` */
    hs__box box = hs__box_of(shape);
    hs__layout layout;
    hs_code code = hs__bundle_lay_out(reader, entry, &layout, err);
    if (code || !entry->bytes)
        return code;
    if (shape->rank == 0) {
        code = read_part(reader, entry, &box, piece, true, err);
        return code ? code : on_piece(user, piece, room, err);
    }
    for (size_t i = 0; i < layout.n; i++)
        layout.items[i].entry->verified = false; /* verified again with the first part that needs it */

    int32_t axis = shape->rank - 1;
    while (axis > 0 && (size_t)shape->dims[axis] <= room / inner)
        inner *= (size_t)shape->dims[axis--];
    int64_t most = (int64_t)(room / inner);
    for (int32_t i = 0; i < axis; i++)
        box.lengths[i] = 1;
    while (!code && box.starts[0] < shape->dims[0]) {
        int64_t remaining = shape->dims[axis] - box.starts[axis];
        box.lengths[axis] = remaining < most ? remaining : most;
        hs_shape of_box = hs__box_shape(&box);
        if (!(code = hs__bundle_read_slice(reader, entry, &box, piece, err)))
            code = on_piece(user, piece, (size_t)hs_shape_elements(&of_box) * element, err);
        box.starts[axis] += box.lengths[axis];
        for (int32_t i = axis; i > 0 && box.starts[i] == shape->dims[i]; i--) {
            box.starts[i] = 0;
            box.starts[i - 1]++;
        }
    }
    return code;
}

typedef struct {
    const hs__bundle_entry *entry;
    bool swapped;
    hs__bundle_write_fn on_piece;
    void *user;
} streaming;

static hs_code swap_piece(void *user, char *piece, size_t at, size_t n, hs_error *err)
{
    const streaming *s = user;
    (void)at;
    if (s->swapped)
        hs__swap_bytes((hs_dtype)s->entry->dtype, piece, n);
    return s->on_piece(s->user, piece, n, err);
}

hs_code hs__bundle_stream(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_write_fn on_piece,
                          void *user, hs_error *err)
{
    enum { PIECE_OF_SLICES = 1 << 20, PER_SLICE = 64 };
    streaming s = {entry, reader->big_endian != hs__big_endian(), on_piece, user};
    hs_code code = hs__bundle_locate(reader, entry, err);
    if (code)
        return code;
    uint64_t most = HS__BUNDLE_PIECE;
    if (entry->slices) /* all slices are searched for each piece, so pieces grow with the number of slices */
        most = entry->slices < PIECE_OF_SLICES / PER_SLICE ? PIECE_OF_SLICES : (uint64_t)entry->slices * PER_SLICE;
    size_t room = (size_t)(entry->bytes < most ? entry->bytes : most);
    void *scratch = hs__realloc(reader->env, NULL, room, 1);
    if (!scratch)
        return hs__no_memory(err, room, "reading a checkpoint");
    code = entry->slices ? stream_slices(reader, entry, scratch, room, on_piece, user, err)
                         : hs__bundle_read_pieces(reader, entry, scratch, false, swap_piece, &s, err);
    hs__free(reader->env, scratch);
    return code;
}
