/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_CHECKPOINT_OPEN_H
#define TOOL_CHECKPOINT_OPEN_H

#include <hooksess/checkpoint.h>

/* The default environment with a logger that prints warnings with say(). */
const hs_env *tool_env(void);

bool is_directory(const char *path);
/* The same, but prints that it is missing or no directory. */
bool check_directory(const char *path);
bool ends_in(const char *name, const char *ending);

/* The checkpoint that an operand names: a prefix, also one with ".index", a safetensors file, or the newest of a directory.
 * The caller frees it with hs_env_free. NULL: not found, or out of memory; the error is printed. */
char *find_checkpoint(const char *operand);

typedef struct checkpoint {
    char *prefix;
    hs_checkpoint_reader *reader;
} checkpoint;
/* Opens the checkpoint that an operand names. False: failed; the error is printed. */
bool open_checkpoint(checkpoint *opened, const char *operand);
void close_checkpoint(checkpoint *opened);

/* True if the name is that of a state of a hook or of the program (state.h), and not of a variable. */
bool is_state(const char *name);

/* The size of a tensor in the file. */
uint64_t stored_bytes(const hs_tensor *info);

/* Reads a tensor into new memory, and sets tensor->data to it. The caller frees it with free. False: failed; the error is
 * printed. */
bool read_tensor(checkpoint *from, const char *name, hs_tensor *tensor);

#endif
