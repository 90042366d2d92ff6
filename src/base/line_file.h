/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_LINE_FILE_H
#define HS_BASE_LINE_FILE_H

#include "base/buffer.h"
#include "base/files.h"

/* A file to which lines are appended, and which a resumed training cuts back to an earlier end. It contains whole lines
 * only: the next open, append or sync repairs what a crash or a failed write has left.
 *
 * The owner saves `bytes` in the checkpoint after a sync. When it opens the file again, it decides for each line whether
 * the line stays. */
typedef struct hs__line_file {
    const hs_env *env;
    const char *path;
    const char *head;   /* the first line with its newline, or "" */
    uint64_t bytes;     /* of whole lines */
    hs__file file;      /* closed after a failed write */
    hs__buffer pending; /* a line that is not written, or only in part */
    bool sync_failed;   /* the system may have discarded unwritten data, and later syncs do not report that */
} hs__line_file;

/* Decides about the line that begins at `offset`, which has `bytes` bytes and then a newline. If *stays is false, this line
 * and all that follow are removed. An error refuses the file. */
typedef hs_code hs__line_stays(void *user, uint64_t offset, const char *line, size_t bytes, bool *stays, hs_error *err);

/* Opens the file, or opens it again. Makes a missing file and its directory. Replaces a link by a copy. */
hs_code hs__line_file_open(hs__line_file *file, hs__line_stays *stays, void *user, hs_error *err);
/* Renames a file that has more than the head to PATH.1, or the next free number. Call it before hs__line_file_open. */
hs_code hs__line_file_rename_old(const hs__line_file *file, hs_error *err);
/* Appends a line, which ends with a newline. If that fails, the next append or sync first writes the rest of it. */
hs_code hs__line_file_append(hs__line_file *file, const void *line, size_t bytes, hs_error *err);
/* Returns when all lines are on disk. */
hs_code hs__line_file_sync(hs__line_file *file, hs_error *err);
void hs__line_file_close(hs__line_file *file);

#endif
