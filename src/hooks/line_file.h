/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_LINE_FILE_H
#define HS_HOOKS_LINE_FILE_H

#include <hooksess/env.h>

/* A file of lines that grows, for hooks, which know no other floor: whole lines only, whatever happens. */

typedef struct hs__line_file hs__line_file;

/* How its lines are read. */
typedef struct hs__line_reader {
    bool (*fits)(const void *user, const char *line, size_t bytes); /* is this the first line of such a file? */
    /* The step in a line, of which these are the first bytes; false: none. */
    bool (*step)(const void *user, const char *line, size_t bytes, int64_t *step);
    const void *user;
    const char *columns; /* for a message: what it should have been */
} hs__line_reader;

/* What of a file that is there stays. */
typedef struct hs__line_keep {
    enum { HS__KEEP_ASIDE, HS__KEEP_BYTES, HS__KEEP_STEPS } kind; /* nothing, it is renamed; so many bytes; up to a step */
    uint64_t bytes;
    int64_t step; /* of KEEP_BYTES: the last row's, for messages */
} hs__line_keep;

/* The path is copied, `head` (the first line with its end, or "") is borrowed, and so is `reader`. A line, with its end,
 * has at most `longest` bytes. The memory is `memory`'s, which is borrowed. NULL with an error. Nothing is opened yet. */
hs__line_file *hs__line_file_new(const hs_env *memory, const char *path, const char *head, const hs__line_reader *reader,
                                 size_t longest, hs_error *err);
/* Closes it. NULL is allowed. */
void hs__line_file_free(hs__line_file *file);

/* Opens it anew, with what is to be kept. Failing, it is closed, and opening it can be tried again. */
hs_code hs__line_file_open(hs__line_file *file, const hs_env *env, const hs__line_keep *keep, hs_error *err);
/* One that failed is completed before the next, or the next sync. */
hs_code hs__line_file_append(hs__line_file *file, const char *line, size_t bytes, hs_error *err);
/* All lines are on the disk, and so is the name. */
hs_code hs__line_file_sync(hs__line_file *file, hs_error *err);
/* How many bytes of lines there are. */
uint64_t hs__line_file_bytes(const hs__line_file *file);
void hs__line_file_close(hs__line_file *file);

#endif
