/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_STATE_H
#define HS_BASE_STATE_H

#include <hooksess/state.h>

#include "base/buffer.h"

/* What stands before the names of state in a checkpoint. No variable may be called so. */
#define HS__STATE_PREFIX "hooksess/"

struct hs_state_writer {
    hs__buffer buffer;
};

struct hs_state_reader {
    const unsigned char *at;
    size_t left;
    int64_t version;
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
