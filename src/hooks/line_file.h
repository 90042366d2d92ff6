/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_LINE_FILE_H
#define HS_HOOKS_LINE_FILE_H

#include <hooksess/env.h>

/* A file of lines to which lines are appended. It never contains a part of a line, except after a crash or a failed write;
 * the next open, append or sync repairs that. */

typedef struct hs__line_file hs__line_file;

/* Parser for the lines of an existing file. */
typedef struct hs__line_reader {
    /* True if this can be the first line of such a file. */
    bool (*fits)(const void *user, const char *line, size_t bytes);
    /* Reads the step from a line, or from the first bytes of it. False: the line has no step. */
    bool (*step)(const void *user, const char *line, size_t bytes, int64_t *step);
    const void *user;
    const char *columns; /* for a message: whose columns the file should have */
} hs__line_reader;

/* The part of an existing file to keep.
 *
 *   HS__KEEP_NONE    nothing; the file is renamed
 *   HS__KEEP_BYTES   the lines in the first `bytes` bytes
 *   HS__KEEP_STEPS   the lines up to `step` */
typedef struct hs__line_keep {
    enum { HS__KEEP_NONE, HS__KEEP_BYTES, HS__KEEP_STEPS } kind;
    uint64_t bytes;
    int64_t step; /* with HS__KEEP_BYTES: the step of the last line, for messages */
} hs__line_keep;

/* Allocates the object; opens nothing. NULL with an error.
 *
 * memory   allocates. Borrowed
 * path     copied
 * head     the first line with its newline, or "". Borrowed
 * reader   borrowed
 * longest  the most bytes of a line with its newline */
hs__line_file *hs__line_file_new(const hs_env *memory, const char *path, const char *head, const hs__line_reader *reader,
                                 size_t longest, hs_error *err);
/* Changes the path, which the next open uses. Copied. */
hs_code hs__line_file_set_path(hs__line_file *file, const char *path, hs_error *err);
/* Closes and frees it. NULL is allowed. */
void hs__line_file_free(hs__line_file *file);

/* Opens the file, or opens it again. After a failure it is closed, and can be opened again. */
hs_code hs__line_file_open(hs__line_file *file, const hs_env *env, const hs__line_keep *keep, hs_error *err);
/* Appends a line. A line whose write failed is completed by the next append or sync. */
hs_code hs__line_file_append(hs__line_file *file, const char *line, size_t bytes, hs_error *err);
/* Returns when all lines and the file's name are on disk. */
hs_code hs__line_file_sync(hs__line_file *file, hs_error *err);
/* Returns the number of bytes of complete lines. */
uint64_t hs__line_file_bytes(const hs__line_file *file);
void hs__line_file_close(hs__line_file *file);

#endif
