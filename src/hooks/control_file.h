/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_CONTROL_FILE_H
#define HS_HOOKS_CONTROL_FILE_H

#include <hooksess/env.h>

/* Reads orders, line by line, from a file or a FIFO that the program's user may create at any time. Refuses files that
 * other users could have written. Never blocks. Problems are logged, not returned. */

enum { HS__CONTROL_LINE = 1000 };

typedef struct hs__control_file {
    char *path, *tmp;  /* a file is renamed to `tmp` before it is read. Borrowed */
    const hs_env *env; /* for the log */
    void (*line)(void *user, const char *text);
    void *user;
    int fifo; /* -1: not open */
    char text[HS__CONTROL_LINE + 1];
    size_t bytes;              /* of an incomplete line in `text` */
    bool too_long;             /* the rest of this line is skipped */
    uint64_t refusals;         /* lines refused in this poll */
    bool has_refused;          /* refused_state is set */
    uint64_t refused_state[4]; /* identifies the last refused file, which is logged once */
} hs__control_file;

/* Reads the available lines, and calls `line` with each complete line, without the newline. */
void hs__control_file_poll(hs__control_file *file);
/* Closes the FIFO and forgets the last refusal. */
void hs__control_file_reset(hs__control_file *file);
/* Logs that the order `text` is ignored. Bytes that are not printable are escaped, and long text is cut. After 20 refusals
 * in one poll, the rest is only counted. */
void hs__control_log_refusal(hs__control_file *file, const char *text, size_t bytes, const char *why);

#endif
