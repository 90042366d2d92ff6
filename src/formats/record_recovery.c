/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the next record after a damaged one: by the length of the damaged record if that can be trusted, otherwise by
 * searching for the next intact record. */
#include "formats/records.h"

/* A file may look full of records. At most MOST_WASTED bytes are read for records that turn out to be damaged. After that,
 * only records of up to SMALL bytes are tried. */
static const uint64_t MOST_WASTED = (uint64_t)1 << 30;
enum { SMALL = 4096 };

/* True if the code means that no record is at the offset. */
static bool is_not_found(hs_code code)
{
    return code == HS_DATA_LOSS || code == HS_OUT_OF_RANGE;
}

/* Reads what may be a record. *is_truncated: the file ends inside it. */
static hs_code try_record(hs_record_reader *reader, uint64_t at, const hs__record_header *header, bool *is_truncated,
                          hs_error *err)
{
    bool is_small = header->bytes <= SMALL;
    *is_truncated = false;
    if (header->bytes > reader->limit || (!is_small && reader->wasted > MOST_WASTED))
        return HS_DATA_LOSS;
    hs_code code = HS_OK;
    if (!reader->source.inflater) /* checking the end of a record would decompress all of it */
        code = hs__record_check_length(reader, at, header->bytes, err);
    *is_truncated = code == HS_DATA_LOSS;
    uint64_t cost = HS__SOURCE_WINDOW + (code ? 0 : header->bytes);
    if (!code)
        code = hs__record_read_data(reader, at, header->bytes, err);
    if (is_not_found(code) && !is_small && at >= reader->tried) { /* in a growing file, an offset is tried many times */
        reader->wasted += cost;
        reader->tried = at + 1;
    }
    return code;
}

/* HS_OK if the length of the record can be trusted: its own checksum is right, or the checksum of the data is. */
static hs_code check_length(hs_record_reader *reader, hs__record_header *header, hs_error *err)
{
    bool is_truncated;
    hs_code code = hs__record_read_header(reader, reader->offset, header, err);
    if (code)
        return code;
    if (header->is_sound)
        return hs__record_check_length(reader, reader->offset, header->bytes, err);
    return try_record(reader, reader->offset, header, &is_truncated, err);
}

/* Searches for the first intact record after the one at the reader's offset, and continues an earlier search. If no record
 * is found, a search after the file has grown starts at *at. */
static hs_code search(hs_record_reader *reader, uint64_t *at, hs_error *err)
{
    uint64_t truncated = UINT64_MAX; /* the first that may become whole when the file grows */
    hs_code code;
    *at = reader->offset + 1;
    if (reader->lost_at == reader->offset && reader->searched > *at)
        *at = reader->searched;
    for (;; ++*at) {
        hs__record_header header;
        bool is_truncated;
        if ((code = hs__record_read_header(reader, *at, &header, err)))
            break;
        if (!header.is_sound)
            continue;
        code = try_record(reader, *at, &header, &is_truncated, err);
        if (is_truncated && truncated == UINT64_MAX)
            truncated = *at;
        if (!is_not_found(code))
            break;
    }
    if (is_not_found(code) && truncated < *at)
        *at = truncated;
    reader->lost_at = reader->offset;
    reader->searched = *at;
    return code;
}

static hs_code resume_at(hs_record_reader *reader, uint64_t at, uint64_t *lost)
{
    *lost = at - reader->offset;
    reader->offset = at;
    return HS_OK;
}

hs_code hs__record_recover(hs_record_reader *reader, uint64_t *lost, hs_error *err)
{
    hs__record_header header;
    uint64_t at = reader->offset;
    hs__source_forget(&reader->source);
    /* The length of the record is known. Reading it again would decompress the file from its start. */
    if (reader->source.inflater && reader->wrong_at == at)
        return resume_at(reader, at + HS__RECORD_HEADER + reader->wrong_bytes + HS__RECORD_FOOTER, lost);
    hs_code code = check_length(reader, &header, err);
    if (!code) {
        /* read the record again: it may have been read while it was written, and be intact now */
        bool is_readable = header.is_sound && header.bytes <= reader->limit;
        code = is_readable ? hs__record_read_data(reader, at, header.bytes, err) : HS_DATA_LOSS;
        if (code == HS_DATA_LOSS) {
            at += HS__RECORD_HEADER + header.bytes + HS__RECORD_FOOTER;
            code = HS_OK;
        }
    } else if (is_not_found(code) && !reader->source.inflater) {
        code = search(reader, &at, err);
    }
    if (is_not_found(code))
        return hs_error_set(err, HS_OUT_OF_RANGE, "%s: no intact record follows the record at byte %llu",
                            reader->source.path, (unsigned long long)reader->offset);
    if (code)
        return code;
    hs__clear(err);
    return resume_at(reader, at, lost);
}
