/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKSESS_H
#define HOOKSESS_HOOKSESS_H

/* All that a training program needs. Apart from it: tf1/ for TensorFlow 1's object model, testing.h for tests of hooks,
 * dlpack.h, and tensorflow.h, which is of a library of its own. */

#include <hooksess/backend.h>
#include <hooksess/checkpoint.h>
#include <hooksess/checkpoint_manager.h>
#include <hooksess/coordinator.h>
#include <hooksess/env.h>
#include <hooksess/estimator.h>
#include <hooksess/evaluation_loop.h>
#include <hooksess/event_reader.h>
#include <hooksess/graph.h>
#include <hooksess/graph_summary.h>
#include <hooksess/hook.h>
#include <hooksess/hooks/checkpoint_saver.h>
#include <hooksess/hooks/control.h>
#include <hooksess/hooks/early_stopping.h>
#include <hooksess/hooks/evaluation.h>
#include <hooksess/hooks/feed_fn.h>
#include <hooksess/hooks/final_ops.h>
#include <hooksess/hooks/finite_guard.h>
#include <hooksess/hooks/global_step_waiter.h>
#include <hooksess/hooks/logging_tensor.h>
#include <hooksess/hooks/metrics_file.h>
#include <hooksess/hooks/nan_tensor.h>
#include <hooksess/hooks/profiler.h>
#include <hooksess/hooks/progress.h>
#include <hooksess/hooks/run_status.h>
#include <hooksess/hooks/step_counter.h>
#include <hooksess/hooks/stop_after.h>
#include <hooksess/hooks/stop_at_step.h>
#include <hooksess/hooks/summary_saver.h>
#include <hooksess/hooks/watchdog.h>
#include <hooksess/hparams.h>
#include <hooksess/outcome.h>
#include <hooksess/queue.h>
#include <hooksess/records.h>
#include <hooksess/run.h>
#include <hooksess/safetensors.h>
#include <hooksess/scaffold.h>
#include <hooksess/session.h>
#include <hooksess/state.h>
#include <hooksess/status.h>
#include <hooksess/summary.h>
#include <hooksess/summary_values.h>
#include <hooksess/tensor.h>
#include <hooksess/training_session.h>
#include <hooksess/trigger.h>
#include <hooksess/verify_resume.h>
#include <hooksess/version.h>

#endif
