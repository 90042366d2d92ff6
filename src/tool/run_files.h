/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_RUN_FILES_H
#define TOOL_RUN_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Files that a run writes to its directory: status.json, outcome.json (hooks/run_status.h), and a lock (checkpoint.h). */

/* Reads a file of the directory. Returns an object, which the caller frees with json_decref. NULL: the file does not exist,
 * or *damaged is set to true, and an error is printed. */
json_t *read_run_file(const char *directory, const char *name, bool *damaged);

/* The members of an object. NULL, or `otherwise`: no member has that name and type. */
const char *text_member(const json_t *object, const char *name);
int64_t whole_member(const json_t *object, const char *name, int64_t otherwise);

/* The lock of the directory. The query neither creates nor locks the file. */
typedef enum lock_state {
    LOCK_MISSING, /* no process has ever saved to the directory */
    LOCK_FREE,
    LOCK_HELD,
    LOCK_UNKNOWN /* the file system has no locks, or the file cannot be opened */
} lock_state;
enum { HOLDER_TEXT = 192 };
/* Sets `holder` to "process N on HOST", or to "another process". */
lock_state query_lock(const char *directory, char holder[HOLDER_TEXT]);

#endif
