/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_STATE_H
#define HS_BASE_STATE_H

#include <hooksess/state.h>

#include "base/buffer.h"

/* What stands before the names of state in a checkpoint. No variable may be called so. */
#define HS__STATE_PREFIX "hooksess/"

/* Passes on the next bytes, of a file, say. */
typedef hs_code (*hs__put_fn)(void *user, const void *data, size_t bytes, hs_error *err);

struct hs_state_writer {
    hs__put_fn put; /* what becomes of what is written */
    void *user;
    hs_error error; /* of the first write that failed */
};

/* A writer that appends to a buffer. */
hs_state_writer hs__state_writer_to(hs__buffer *buffer);

struct hs_state_reader {
    const unsigned char *at; /* the bytes that are left, in memory; */
    size_t left;
    int64_t version;
    hs_code (*next)(void *user, void *to, size_t bytes, hs_error *err); /* or what reads them, if this is not NULL */
    void *user;
    hs_error error; /* of the first call of `next` that failed */
};

/* What stands between the key of a piece of state and what is known of it: in no key, therefore. */
#define HS__STATE_VERSION  ":version"
#define HS__STATE_IDENTITY ":identity"

/* A complete copy; an empty identity becomes NULL. `what` it is a state of ("state", "hook"), for the message.
 * INVALID_ARGUMENT: a name that may not be, a missing function, a negative version, an identity that is no line of text. */
hs_code hs__state_provider_take(hs_state_provider *to, const hs_state_provider *from, const char *what, hs_error *err);
/* Is it a line of text: without control characters? */
bool hs__is_line(const char *text, size_t bytes);

#endif
