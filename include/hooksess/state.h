/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_STATE_H
#define HOOKSESS_STATE_H

#include <hooksess/status.h>

/* State that checkpoints save in addition to variables: a position in the data, a random number generator, the memory of a
 * hook. A restore reads it back before the first step.
 *
 *     static int64_t position;
 *
 *     static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
 *     {
 *         return hs_state_writer_write(out, self, sizeof position, err);
 *     }
 *
 *     static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
 *     {
 *         return hs_state_reader_read(in, self, sizeof position, err);
 *     }
 *     ...
 *     hs_graph_state(g, "position", save_position, load_position, &position);
 *
 * Plain bytes as here need only hs_graph_bytes(). Hooks have save_state and load_state (hs_hook_ops). Numbers keep the byte
 * order of the machine that saved them. docs/file-formats.md has the names of states in checkpoints.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_state_writer hs_state_writer;
typedef struct hs_state_reader hs_state_reader;

/* Appends bytes. HS_RESOURCE_EXHAUSTED: out of memory or disk. Or the code of the failing file operation. After a failure,
 * all further writes fail. */
HS_API hs_code hs_state_writer_write(hs_state_writer *out, const void *data, size_t bytes, hs_error *err);

/* Reads the next bytes. HS_DATA_LOSS: fewer remain; `data` is unchanged. Or the code of the failing file operation: then
 * `data` may have changed, and all further reads and the restore fail. */
HS_API hs_code hs_state_reader_read(hs_state_reader *in, void *data, size_t bytes, hs_error *err);

/* Returns the number of bytes that remain. */
HS_API size_t hs_state_reader_remaining(const hs_state_reader *in);

/* Returns the version that was saved: at most the provider's own. */
HS_API int64_t hs_state_reader_version(const hs_state_reader *in);

/* Write a state to a checkpoint, and read it back: all bytes. If one fails, the save or the restore fails. */
typedef hs_code (*hs_save_state_fn)(void *self, hs_state_writer *out, hs_error *err);
typedef hs_code (*hs_load_state_fn)(void *self, hs_state_reader *in, hs_error *err);

/* Whose state it is, in a group (group.h). */
typedef enum hs_state_scope {
    HS_STATE_SHARED = 0,  /* the same on all ranks. Rank 0 saves it, and all ranks load it */
    HS_STATE_PER_RANK = 1 /* each rank saves and loads its own, such as its position in the data */
} hs_state_scope;

/* One piece of state. If a checkpoint does not have it, `load` is not called, and the log says so.
 *
 * A restore checks versions and identities first. If one does not match, it changes nothing, tries no older checkpoint, and
 * fails with HS_FAILED_PRECONDITION. */
typedef struct hs_state_provider {
    size_t size;
    const char *name;      /* (required) without ':'; unique in its backend and session */
    hs_save_state_fn save; /* (required) */
    hs_load_state_fn load; /* (required) */
    void *self;
    /* Version of the format, 0 or more. Increase it when the format changes: `load` gets this and all older versions
     * (hs_state_reader_version). A newer one does not match */
    int64_t version;
    /* One line of text that names the owner of the state, such as name and checksum of a data set. Another identity does
     * not match, unless hs_restore_options.any_identity is set. If only one side has one, the log gets a warning. NULL, "":
     * none */
    const char *identity;
    size_t bytes;         /* expected size, to check disk space and reserve memory. Not a limit. 0: not known */
    hs_state_scope scope; /* 0: HS_STATE_SHARED. A save of a group fails if shared state differs */
    int32_t reserved;
    /* With HS_STATE_PER_RANK: builds the state of this rank from that of another number of ranks. saved[i] reads the state
     * of rank i of `n_saved`. NULL: such a restore fails with HS_FAILED_PRECONDITION */
    hs_code (*reshard)(void *self, hs_state_reader *const *saved, int32_t n_saved, int32_t rank, int32_t rank_count,
                       hs_error *err);
} hs_state_provider;

#define HS_STATE_PROVIDER(...) HS_OPTIONS(hs_state_provider, __VA_ARGS__)

HS_END_DECLS

#endif
