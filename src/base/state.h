/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_STATE_H
#define HS_BASE_STATE_H

#include <hooksess/state.h>

#include "base/buffer.h"

/* Prefix of the names of states in a checkpoint. No variable's name may begin with it. */
#define HS__STATE_PREFIX    "hooksess/"
#define HS__HOOK_PREFIX     HS__STATE_PREFIX "hook/"
#define HS__SCHEDULE_PREFIX HS__STATE_PREFIX "schedule/"

/* Writes the next bytes. */
typedef hs_code (*hs__put_fn)(void *user, const void *data, size_t bytes, hs_error *err);

struct hs_state_writer {
    hs__put_fn put;
    void *user;
    hs_error error; /* of the first failed write */
};

/* A writer that appends to a buffer. */
hs_state_writer hs__state_writer_to(hs__buffer *buffer);

struct hs_state_reader {
    const unsigned char *at; /* the remaining bytes, unless `next` reads them */
    size_t left;             /* how many bytes remain */
    int64_t version;
    hs_code (*next)(void *user, void *to, size_t bytes, hs_error *err); /* NULL: the bytes are in memory */
    void *user;
    hs_error error; /* of the first failed call of `next` */
};

/* Suffixes of the entries that describe a state. No name of a state contains ':'. */
#define HS__STATE_VERSION  ":version"
#define HS__STATE_IDENTITY ":identity"

/* Validates and copies a state provider. An empty identity becomes NULL. `what` ("state", "hook") is for messages.
 * INVALID_ARGUMENT: invalid name, missing function, negative version, or an identity that is not one line of text. */
hs_code hs__state_provider_copy(hs_state_provider *to, const hs_state_provider *from, const char *what, hs_error *err);
/* True if the text has no control characters. */
bool hs__is_line(const char *text, size_t bytes);

#endif
