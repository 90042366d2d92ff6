/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TF1_QUEUE_RUNNERS_H
#define HOOKSESS_TF1_QUEUE_RUNNERS_H

#include <hooksess/queue_runner.h>

/* Starts the queue runners of a graph, for sessions that do not, such as those of a session manager. Link with
 * libhooksess_tf1.
 *
 * Threads: the session's thread only. */

HS_BEGIN_DECLS

/* Creates the threads of all runners in the collection HS_QUEUE_RUNNERS and, with `start`, starts them after all were
 * created. Parameters as in hs_queue_runner_create_threads(). If the collection is empty, the log gets a warning.
 *
 * On failure no thread of these runners remains, the list gets no handles, and the coordinator stops with the error.
 * TensorFlow: start_queue_runners. */
HS_API hs_code hs_queue_runners_start(hs_raw_session *session, hs_coordinator *coordinator, bool start, hs_threads *threads,
                                      hs_error *err);

HS_END_DECLS

#endif
