/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_STATE_H
#define HOOKSESS_STATE_H

#include <hooksess/status.h>

/* State that rides in the checkpoint beside the variables: a position in the data, a random number generator, what a hook
 * remembers. It is written with every checkpoint and read back when one is restored, before the first step.
 *
 * A state may be as large as a model. A save in the foreground passes what `save` writes to the file. A restore keeps up to
 * 64 MiB of all states in memory; what is more is verified first, and then read from the file as `load` asks for it.
 *
 * In the file it is a vector of uint8 under the reserved prefix "hooksess/", so that TensorFlow can list it: the graph's
 * and the session's as "hooksess/state/NAME", a hook's as "hooksess/hook/NAME". Beside it are the scalars KEY:version, an
 * int64, unless it is 0, and KEY:identity, a string, where there is one. What is written is what is read: bytes, in the
 * order in which they were written, on a machine of the same byte order.
 *
 * Threads: one at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_state_writer hs_state_writer;
typedef struct hs_state_reader hs_state_reader;

/* Appends bytes (copied, or written to the file). HS_RESOURCE_EXHAUSTED, or the code of the failing file operation. After a
 * failure further writes fail too. */
HS_API hs_code hs_state_writer_write(hs_state_writer *out, const void *data, size_t bytes, hs_error *err);

/* The next bytes. HS_DATA_LOSS if fewer are left; then nothing is copied. Or the code of the failing file operation. */
HS_API hs_code hs_state_reader_read(hs_state_reader *in, void *data, size_t bytes, hs_error *err);

/* How many bytes are left. */
HS_API size_t hs_state_reader_remaining(const hs_state_reader *in);

/* The version of what is read: that of the provider that wrote it. Never later than the reading provider's own. */
HS_API int64_t hs_state_reader_version(const hs_state_reader *in);

/* A save that fails makes the checkpoint fail. A load that fails, or leaves bytes unread, makes the restore fail. */
typedef hs_code (*hs_save_state_fn)(void *self, hs_state_writer *out, hs_error *err);
typedef hs_code (*hs_load_state_fn)(void *self, hs_state_reader *in, hs_error *err);

/* One piece of state. A checkpoint that has none of this name is restored without it, with a line in the log.
 *
 * Versions and identities are compared before anything is changed, and where they do not fit the restore fails with
 * HS_FAILED_PRECONDITION, naming the state and both; no older checkpoint is tried, as it is not the files' fault. */
typedef struct hs_state_provider {
    size_t size;
    const char *name;      /* (required) without ':', unique among the providers of its backend and session */
    hs_save_state_fn save; /* (required) */
    hs_load_state_fn load; /* (required) */
    void *self;
    /* Of the form of the bytes, 0 or more: make it one more when that changes. load gets what any version up to this one
     * has written (hs_state_reader_version); a later one is refused. */
    int64_t version;
    /* What the state belongs to, in a line of text: the name, length and checksum of the data set that it is a position in,
     * say. The state of another is refused, unless hs_restore_options.any_identity is set; where the checkpoint or the
     * provider has none, the log has a warning. NULL and "": nothing in particular. */
    const char *identity;
    /* About how many bytes `save` writes, for memory and the look at the disk before a save. Not a limit. 0: not known */
    size_t bytes;
} hs_state_provider;

#define HS_STATE_PROVIDER(...) HS_OPTIONS(hs_state_provider, __VA_ARGS__)

HS_END_DECLS

#endif
