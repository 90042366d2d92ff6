/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_RUN_FILES_H
#define TOOL_RUN_FILES_H

#include "base/json_reader.h"

/* Files that a run writes to its directory: status.json, outcome.json (hooks/run_status.h), and a lock (checkpoint.h). */

/* A file, which has one JSON object. */
typedef struct run_file {
    char *text;
    hs__json_value object; /* no value: the file does not exist, or is damaged */
} run_file;

/* Reads a file of the directory. If it is damaged, *damaged is set to true, and an error is printed. */
run_file read_run_file(const char *directory, const char *name, bool *damaged);
void free_run_file(run_file *file);

/* Returns the integer member `name` of an object, or `otherwise` if it does not exist. */
int64_t whole_member(hs__json_value object, const char *name, int64_t otherwise);
/* Prints the text member `name` of an object, or `otherwise` if it does not exist. */
void put_text_member(hs__json_value object, const char *name, const char *otherwise);
/* Reads the member "time" of an object, in nanoseconds since 1970. False: missing or invalid. */
bool time_member(hs__json_value object, int64_t *ns);

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

/* The process that wrote status.json: whether it ran on this host, and if so, whether it is alive. */
bool is_on_this_host(hs__json_value status);
bool is_alive(hs__json_value status);

#endif
