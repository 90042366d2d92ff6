/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_COORDINATOR_H
#define HOOKSESS_COORDINATOR_H

#include <hooksess/status.h>

/* How the threads of one training run agree to stop. TensorFlow: Coordinator. Hooks get the session's in
 * after_create_session. All functions: any thread. */

HS_BEGIN_DECLS

typedef struct hs_coordinator hs_coordinator;

/* Asks every thread to stop. `why` NULL or of code HS_OK, HS_OUT_OF_RANGE or HS_STOP: because the work is done; else
 * because of that error, which the session then reports when it is closed. The first error is kept. */
HS_API void hs_coordinator_request_stop(hs_coordinator *coordinator, const hs_error *why);
HS_API bool hs_coordinator_should_stop(const hs_coordinator *coordinator);
/* The error that was reported, copied to `err`; its code. HS_OK: none. */
HS_API hs_code hs_coordinator_error(const hs_coordinator *coordinator, hs_error *err);

HS_END_DECLS

#endif
