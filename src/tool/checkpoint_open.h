/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_CHECKPOINT_OPEN_H
#define TOOL_CHECKPOINT_OPEN_H

#include <hooksess/checkpoint.h>

/* The system's own, but that what the library logs goes through say(). */
const hs_env *tool_env(void);

bool is_directory(const char *path);

/* The prefix of the checkpoint that an operand means: itself, without ".index", or the newest of a directory. To be freed
 * with hs_env_free. NULL: there is none, as was said. */
char *find_checkpoint(const char *operand);

/* That, opened. NULL: it could not be, as was said. */
typedef struct checkpoint {
    char *prefix;
    hs_checkpoint_reader *reader;
} checkpoint;
bool open_checkpoint(checkpoint *opened, const char *operand);
void close_checkpoint(checkpoint *opened);

/* The bytes that a tensor takes in the file. */
uint64_t stored_bytes(const hs_tensor *info);

/* Reads a tensor into memory of its own, which `tensor`, its description, then has for its data; to be freed with free.
 * Says what is wrong. */
bool read_tensor(checkpoint *from, const char *name, hs_tensor *tensor);

#endif
