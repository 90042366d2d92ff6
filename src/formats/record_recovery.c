/* SPDX-License-Identifier: Apache-2.0 */
/* Going on after a damaged record: by its length where that can be trusted, else by searching for the next intact one. */
#include "formats/records.h"

/* A file can be made to look full of records. At most MOST_WASTED bytes are read that only look like records. After that,
 * only records of up to SMALL bytes are tried. */
static const uint64_t MOST_WASTED = (uint64_t)1 << 30;
enum { SMALL = 4096 };

/* Is this no more than that there are no such records? */
static bool is_none(hs_code code)
{
    return code == HS_DATA_LOSS || code == HS_OUT_OF_RANGE;
}

/* Reads what may be a record. *is_cut: all of it that the file has is as it should be. */
static hs_code try_record(hs__record_reader *reader, uint64_t at, const hs__record_header *header, bool *is_cut,
                          hs_error *err)
{
    bool is_small = header->bytes <= SMALL;
    *is_cut = false;
    if (header->bytes > reader->limit || (!is_small && reader->wasted > MOST_WASTED))
        return HS_DATA_LOSS;
    hs_code code = HS_OK;
    if (!reader->source.inflater) /* of which the end lies beyond what is to be read */
        code = hs__record_check_length(reader, at, header->bytes, err);
    *is_cut = code == HS_DATA_LOSS;
    uint64_t cost = HS__SOURCE_WINDOW + (code ? 0 : header->bytes);
    if (!code)
        code = hs__record_read_data(reader, at, header->bytes, err);
    if (is_none(code) && !is_small && at >= reader->tried) { /* of a file that grows, one place is tried many times */
        reader->wasted += cost;
        reader->tried = at + 1;
    }
    return code;
}

/* Can the length at this place be trusted: by its own checksum, or by that of the data which it delimits? */
static hs_code trusts_length(hs__record_reader *reader, hs__record_header *header, hs_error *err)
{
    bool is_cut;
    hs_code code = hs__record_read_header(reader, reader->offset, header, err);
    if (code)
        return code;
    if (header->is_sound)
        return hs__record_check_length(reader, reader->offset, header->bytes, err);
    return try_record(reader, reader->offset, header, &is_cut, err);
}

/* Is the record at this place intact after all? Whoever found it torn may have looked while it was written. */
static hs_code check_data(hs__record_reader *reader, const hs__record_header *header, hs_error *err)
{
    if (!header->is_sound || header->bytes > reader->limit)
        return HS_DATA_LOSS;
    return hs__record_read_data(reader, reader->offset, header->bytes, err);
}

/* The first intact record from *at on. If there is none, *at is where to search when the file has grown. */
static hs_code search(hs__record_reader *reader, uint64_t *at, hs_error *err)
{
    uint64_t cut = UINT64_MAX; /* the first that may be whole when the file has grown */
    hs_code code;
    for (;; ++*at) {
        hs__record_header header;
        bool is_cut;
        if ((code = hs__record_read_header(reader, *at, &header, err)))
            break;
        if (!header.is_sound)
            continue;
        code = try_record(reader, *at, &header, &is_cut, err);
        if (is_cut && cut == UINT64_MAX)
            cut = *at;
        if (!is_none(code))
            break;
    }
    if (is_none(code) && cut < *at)
        *at = cut;
    return code;
}

/* Searches after the record at the reader's offset, and goes on where it did so before. */
static hs_code search_on(hs__record_reader *reader, uint64_t *at, hs_error *err)
{
    *at = reader->offset + 1;
    if (reader->lost_at == reader->offset && reader->searched > *at)
        *at = reader->searched;
    hs_code code = search(reader, at, err);
    reader->lost_at = reader->offset;
    reader->searched = *at;
    return code;
}

static hs_code go_on(hs__record_reader *reader, uint64_t at, uint64_t *lost)
{
    *lost = at - reader->offset;
    reader->offset = at;
    return HS_OK;
}

hs_code hs__record_reader_recover(hs__record_reader *reader, uint64_t *lost, hs_error *err)
{
    hs__record_header header;
    uint64_t at = reader->offset;
    hs__source_forget(&reader->source);
    if (reader->source.inflater && reader->wrong_at == at) /* going back would decompress all that came before */
        return go_on(reader, at + HS__RECORD_HEADER + reader->wrong_bytes + HS__RECORD_FOOTER, lost);
    hs_code code = trusts_length(reader, &header, err);
    if (!code) {
        code = check_data(reader, &header, err);
        if (code == HS_DATA_LOSS) {
            at += HS__RECORD_HEADER + header.bytes + HS__RECORD_FOOTER;
            code = HS_OK;
        }
    } else if (is_none(code) && !reader->source.inflater) {
        code = search_on(reader, &at, err);
    }
    if (is_none(code))
        return hs_error_set(err, HS_OUT_OF_RANGE, "%s: no intact record follows the record at byte %llu",
                            reader->source.path, (unsigned long long)reader->offset);
    if (code)
        return code;
    hs__clear(err);
    return go_on(reader, at, lost);
}
