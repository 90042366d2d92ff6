/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_ARCHIVE_H
#define HS_CHECKPOINT_ARCHIVE_H

#include "formats/bundle.h"
#include "formats/safetensors.h"

/* Where a restore takes its tensors from, by their numbers: a bundle or a safetensors file that is open. */

typedef struct hs__stored {
    const char *name;
    int32_t dtype; /* as the file says, maybe none of ours */
    hs_shape shape;
    size_t bytes;   /* in memory */
    bool in_slices; /* it is read by one thread */
} hs__stored;

typedef struct hs__archive_ops {
    hs__stored (*tensor)(const void *reader, size_t index);
    size_t (*find)(const void *reader, const char *name);
    hs_code (*locate)(void *reader, size_t index, hs_error *err);
    hs_code (*read)(void *reader, size_t index, void *to, hs_error *err);
    hs_code (*locate_part)(void *reader, size_t index, const hs__box *box, size_t *bytes, hs_error *err);
    hs_code (*read_part)(void *reader, size_t index, const hs__box *box, void *to, hs_error *err);
    hs_code (*verify)(void *reader, size_t index, hs_error *err);
    bool forks; /* several threads can read it at once */
} hs__archive_ops;

typedef struct hs__archive {
    const hs__archive_ops *ops;
    void *reader;
    const char *path; /* what it is called in messages */
    size_t n;
    bool is_checkpoint; /* what is saved here, and not a file of weights from elsewhere */
} hs__archive;

/* The archive borrows the reader. */
hs__archive hs__bundle_archive(hs__bundle_reader *reader);
hs__archive hs__safetensors_archive(hs__safetensors_reader *reader);

hs__stored hs__archive_tensor(const hs__archive *archive, size_t index);
/* HS__NONE: there is no tensor of that name. */
size_t hs__archive_find(const hs__archive *archive, const char *name);
/* Can it be read, and are its bytes there? To be asked before memory for them is. */
hs_code hs__archive_locate(const hs__archive *archive, size_t index, hs_error *err);
/* Reads it, and verifies it if there is something to verify it by. */
hs_code hs__archive_read(const hs__archive *archive, size_t index, void *to, hs_error *err);
/* The same of a part of it, which lies in it: one thread at a time. Strings come only in the slices that they were saved
 * in: else it is UNIMPLEMENTED. `bytes` is what hs__archive_read_part writes. */
hs_code hs__archive_locate_part(const hs__archive *archive, size_t index, const hs__box *box, size_t *bytes, hs_error *err);
hs_code hs__archive_read_part(const hs__archive *archive, size_t index, const hs__box *box, void *to, hs_error *err);
/* Reads it only to verify it, if there is something to verify it by. */
hs_code hs__archive_verify(const hs__archive *archive, size_t index, hs_error *err);

/* Counts what is read of a bundle from now on; those of safetensors files are not counted. Borrowed. */
void hs__archive_watch(const hs__archive *archive, hs__read_progress *progress);

/* The same archive for another thread, if it forks. To be ended before the archive is closed. */
typedef struct hs__archive_fork {
    hs__archive archive;
    hs__bundle_reader reader;
} hs__archive_fork;
void hs__archive_fork_begin(const hs__archive *archive, hs__archive_fork *fork);
void hs__archive_fork_end(hs__archive_fork *fork);

#endif
