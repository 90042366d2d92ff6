/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_QUEUE_RUNNERS_H
#define HOOKSESS_TF1_QUEUE_RUNNERS_H

#include <hooksess/queue_runner.h>

HS_BEGIN_DECLS

/* Creates the threads of all runners in the collection HS_QUEUE_RUNNERS (hs_queue_runner_create_threads), and adds them to
 * *threads. If the collection is empty, logs a warning. None are added if the session has started its runners itself.
 * On failure, no thread is added; with a coordinator, threads that run already are stopped. TensorFlow:
 * start_queue_runners.
 *
 * Threads: the session's. */
HS_API hs_code hs_queue_runners_start(hs_raw_session *session, hs_coordinator *coordinator, bool start, hs_threads *threads,
                                      hs_error *err);

HS_END_DECLS

#endif
