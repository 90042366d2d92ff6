/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKSESS_H
#define HOOKSESS_HOOKSESS_H

/* Includes the library, except the headers listed at the end.
 *
 * Tier 1: the names that a training program needs. docs/guide/your-loop.md has a program.
 *
 * The graph: what a step computes, and what checkpoints hold
 *   hs_graph_new                creates an empty graph                                            graph.h
 *   hs_graph_variable           adds memory of the program to checkpoints                         graph.h
 *   hs_graph_variable_at        the same for memory that moves                                    graph.h
 *   hs_graph_bytes              adds plain bytes, such as a generator's state                     graph.h
 *   hs_graph_state              adds other state, by two functions                                graph.h
 *   hs_graph_value              lets hooks read memory, such as a loss; not saved                 graph.h
 *   hs_graph_global_step        keeps the global step in the program's memory                     graph.h
 *   hs_graph_op                 makes a function of the program an op                             graph.h
 *   hs_op_fn                    its type                                                          graph.h
 *   hs_graph_backend            returns the backend, for a session                                graph.h
 *   hs_graph_free               frees the graph, after its sessions                               graph.h
 *   HS_FLOAT                    an element type; others are next to it                            tensor.h
 *   HS_SHAPE                    a shape: HS_SHAPE(128, 784)                                       tensor.h
 *   HS_SCALAR                   the shape of a number                                             tensor.h
 *   HS_NAMES                    names: HS_NAMES("loss", "accuracy")                               init.h
 *
 * The training session
 *   HS_TRAINING_OPTIONS         its options                                                       training_session.h
 *   hs_training_session_open    restores, and adds the usual hooks                                training_session.h
 *   hs_session_should_stop      true if the loop must end                                         session.h
 *   hs_session_run              runs an op, with all hooks                                        session.h
 *   hs_session_run_args         runs with fetches and feeds, and returns values                   session.h
 *   HS_RUN_ARGS                 the fetches and feeds of a run                                    run.h
 *   hs_run_values_number        returns a fetched value as a number                               run.h
 *   hs_session_global_step      returns the global step                                           session.h
 *   hs_session_request_save     saves after this step                                             session.h
 *   hs_session_request_stop     ends the loop: the training is done; exit code 0                  session.h
 *   hs_session_interrupt        the same, to be continued; exit code 75                           session.h
 *   hs_session_fail             reports an error of the program                                   session.h
 *   hs_session_close            saves, closes, returns the outcome                                session.h
 *
 * A loop whose steps the program computes without ops
 *   hs_step_begin               begins a step; false: the loop must end                           session.h
 *   hs_step_end                 ends it: advances the global step, calls the hooks                session.h
 *   hs_session_wants            true if a hook reads a value in this step                         session.h
 *
 * The outcome
 *   hs_outcome                  how the session ended: reason, step, error                        outcome.h
 *   hs_outcome_exit_code        returns the exit code for main                                    outcome.h
 *   hs_error                    what failed: a code and a message                                 status.h
 *
 * Hooks
 *   HS_HOOKS                    a list of hooks                                                   hook.h
 *   hs_stop_at_step             ends the training at a step                                       hooks/stop_at_step.h
 *   hs_nan_tensor               fails or stops on NaN and infinities                              hooks/nan_tensor.h
 *   hs_logging_tensor           logs tensors                                                      hooks/logging_tensor.h
 *   hs_scalars                  charts numbers                                                    hooks/scalars.h
 *   hs_schedule                 sets the learning rate by step                                    hooks/schedule.h
 *   hs_checkpoint_saver         saves with more options                                           hooks/checkpoint_saver.h
 *   HS_TRIGGER                  a schedule: steps, seconds, on request                            trigger.h
 *   hs_hook_ops                 a hook's callbacks                                                hook.h
 *   hs_hook                     the callbacks with their state                                    hook.h
 *   HS_INIT                     initializes callbacks and options                                 init.h
 *   hs_run_context_global_step  returns the global step, in a hook                                hook.h
 *   hs_run_context_request_stop ends the training after this run, in a hook                       hook.h
 *
 * Tier 2: everything else, by header. */

#include <hooksess/backend.h>                  /* writing a backend */
#include <hooksess/checkpoint.h>               /* saving and reading checkpoints */
#include <hooksess/checkpoint_manager.h>       /* checkpoints without hooks */
#include <hooksess/coordinator.h>              /* threads that stop together */
#include <hooksess/env.h>                      /* memory, clocks, log and files */
#include <hooksess/estimator.h>                /* training and evaluating with one model function */
#include <hooksess/evaluation_loop.h>          /* evaluating checkpoints that another process saves */
#include <hooksess/event_reader.h>             /* reading event files */
#include <hooksess/graph.h>                    /* functions as ops, memory as variables */
#include <hooksess/graph_summary.h>            /* ops that make summaries */
#include <hooksess/group.h>                    /* writing an engine of a group of processes */
#include <hooksess/group_tcp.h>                /* a group of processes over TCP */
#include <hooksess/hook.h>                     /* writing a hook */
#include <hooksess/hooks/checkpoint_saver.h>   /* saves checkpoints */
#include <hooksess/hooks/control.h>            /* takes orders from a file */
#include <hooksess/hooks/early_stopping.h>     /* stops when a metric no longer improves */
#include <hooksess/hooks/evaluation.h>         /* evaluates during training */
#include <hooksess/hooks/feed_fn.h>            /* feeds each run by a function */
#include <hooksess/hooks/final_ops.h>          /* runs ops at the end */
#include <hooksess/hooks/finite_guard.h>       /* finds NaN and spikes; skips the update or rolls back */
#include <hooksess/hooks/global_step_waiter.h> /* waits for a global step */
#include <hooksess/hooks/logging_tensor.h>     /* logs tensors */
#include <hooksess/hooks/metrics_file.h>       /* writes CSV or JSON lines */
#include <hooksess/hooks/moving_average.h>     /* averages variables */
#include <hooksess/hooks/nan_tensor.h>         /* fails or stops on NaN and infinities */
#include <hooksess/hooks/profiler.h>           /* traces runs for Chrome and TensorBoard */
#include <hooksess/hooks/progress.h>           /* shows progress on a terminal */
#include <hooksess/hooks/replica_check.h>      /* finds variables that differ between ranks */
#include <hooksess/hooks/run_status.h>         /* writes status.json and outcome.json */
#include <hooksess/hooks/scalars.h>            /* charts numbers in TensorBoard, or in a sink */
#include <hooksess/hooks/schedule.h>           /* sets the learning rate by step */
#include <hooksess/hooks/step_counter.h>       /* measures steps per second */
#include <hooksess/hooks/stop_after.h>         /* stops before a deadline */
#include <hooksess/hooks/stop_at_step.h>       /* stops at a step */
#include <hooksess/hooks/summary_saver.h>      /* writes the values of summary ops */
#include <hooksess/hooks/watchdog.h>           /* reports a session that hangs */
#include <hooksess/hparams.h>                  /* hyperparameters for TensorBoard */
#include <hooksess/init.h>                     /* macros that initialize structs and lists */
#include <hooksess/outcome.h>                  /* how a session ended */
#include <hooksess/queue_runner.h>             /* threads that fill the queues of a backend */
#include <hooksess/raw_session.h>              /* what a session does for hooks */
#include <hooksess/records.h>                  /* reading and writing TFRecord files */
#include <hooksess/replicas.h>                 /* sample order and random numbers of ranks */
#include <hooksess/run.h>                      /* fetches, feeds and values of a run */
#include <hooksess/safetensors.h>              /* reading and writing safetensors files */
#include <hooksess/scalar_sink.h>              /* writing a sink for numbers */
#include <hooksess/scaffold.h>                 /* how a session initializes variables */
#include <hooksess/session.h>                  /* sessions with chosen hooks; recovery */
#include <hooksess/state.h>                    /* state in addition to variables */
#include <hooksess/status.h>                   /* codes and errors */
#include <hooksess/summary.h>                  /* writing event files */
#include <hooksess/summary_values.h>           /* images, histograms, text */
#include <hooksess/tensor.h>                   /* types, shapes and views of memory */
#include <hooksess/training_session.h>         /* a session with the usual hooks */
#include <hooksess/trigger.h>                  /* schedules of hooks */
#include <hooksess/version.h>                  /* the version of the headers */

/* Not included:
 *   hooksess.hpp                 C++17
 *   torch.hpp                    tensors, modules and optimizers of LibTorch, C++17
 *   ggml.h                       tensors of ggml
 *   cuda.h                       variables in the memory of a CUDA device; a separate library
 *   mpi.h                        a group of processes over MPI; a separate library
 *   simulation.h                 a simulated group of processes; testing.h includes it
 *   testing.h                    tests of hooks; a separate library
 *   dlpack.h                     tensors to and from DLPack
 *   tensorflow.h                 TensorFlow's graphs as a backend; a separate library
 *   tensorflow_server.h          servers of a TensorFlow cluster
 *   tf1/queue_runners.h          TensorFlow 1's queue runners; a separate library
 *   tf1/session_manager.h        sessions without hooks
 *   tf1/supervisor.h             TensorFlow 1's Supervisor
 *   tf1/timer.h                  TensorFlow 1's SecondOrStepTimer */

/* Words of all headers. docs/guide/concepts.md has a glossary, docs/conventions.md the rules.
 *
 *   Borrowed       the library keeps the pointer: the memory must stay as long as the object. "Copied": it need not
 *   env            environment: memory, clocks, log, files (env.h). NULL: the system's. Copied
 *   Frozen         the fields of this struct never change (init.h)
 *   global step    the number of completed training steps. Checkpoints save it
 *   prefix         the path of a checkpoint's files without their endings: "run/model.ckpt-1000"
 *   raw run        a run that calls no hooks (hs_raw_session_run)
 *   TensorFlow: X  the counterpart in TensorFlow 1. You need not know it */

#endif
