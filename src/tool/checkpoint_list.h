/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_CHECKPOINT_LIST_H
#define TOOL_CHECKPOINT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A checkpoint or a safetensors file in a directory. */
typedef struct listed {
    char *path;       /* its prefix, or the file */
    int64_t step;     /* from its name. -1: unknown */
    int64_t time_ns;  /* since 1970 */
    uint64_t bytes;   /* of all its files */
    const char *kind; /* "checkpoint", "abandoned" or "safetensors" */
    bool is_newest;
} listed;

typedef struct checkpoint_list {
    listed *rows; /* in the order of their steps */
    size_t n;
} checkpoint_list;

/* Lists the checkpoints of a directory. False: something could not be read, and is missing in the list; the error is
 * printed. Free the list also after a failure. */
bool list_checkpoints(checkpoint_list *list, const char *directory);
void free_checkpoints(checkpoint_list *list);

/* The row of the newest checkpoint. NULL: not found. */
const listed *newest_checkpoint(const checkpoint_list *list);

#endif
