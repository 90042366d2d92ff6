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
};

#endif
