/* SPDX-License-Identifier: Apache-2.0 */
/* Going on after a damaged record: by its length where that can be trusted, else by searching for the next intact one. */
#include "formats/records.h"

/* How many bytes are read for the sake of what looks like a record. A file that is made to look full of them must not take
 * for ever. */
static const uint64_t MOST_CHECKED = (uint64_t)1 << 30;

/* Is this no more than that there are no such records? */
static bool is_none(hs_code code)
{
    return code == HS_DATA_LOSS || code == HS_OUT_OF_RANGE;
}

/* Can the length at this place be trusted: by its own checksum, or by that of the data which it delimits? */
static hs_code trusts_length(hs__record_reader *reader, hs__record_header *header, hs_error *err)
{
    hs_code code = hs__record_read_header(reader, reader->offset, header, err);
    if (code)
        return code;
    if (header->is_sound)
        return hs__record_check_length(reader, reader->offset, header->bytes, err);
    return header->bytes > reader->limit ? HS_DATA_LOSS : hs__record_read_data(reader, reader->offset, header->bytes, err);
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
    uint64_t checked = 0, cut = UINT64_MAX; /* what looks like a record, but for its end, which may come */
    hs_code code;
    for (;; ++*at) {
        hs__record_header header;
        if ((code = hs__record_read_header(reader, *at, &header, err)))
            break;
        if (!header.is_sound || header.bytes > reader->limit)
            continue;
        code = hs__record_check_length(reader, *at, header.bytes, err);
        if (code == HS_DATA_LOSS && cut == UINT64_MAX)
            cut = *at;
        if (!code) {
            code = hs__record_read_data(reader, *at, header.bytes, err);
            checked += header.bytes;
        }
        if (!is_none(code) || (checked += HS__SOURCE_WINDOW) > MOST_CHECKED)
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

hs_code hs__record_reader_recover(hs__record_reader *reader, uint64_t *lost, hs_error *err)
{
    hs__record_header header;
    uint64_t at = reader->offset;
    hs__source_forget(&reader->source);
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
        return hs_error_set(err, HS_OUT_OF_RANGE, "%s: no intact record follows the one at byte %llu", reader->source.path,
                            (unsigned long long)reader->offset);
    if (code)
        return code;
    *lost = at - reader->offset;
    reader->offset = at;
    hs__clear(err);
    return HS_OK;
}
