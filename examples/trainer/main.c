/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a multilayer perceptron on Fashion-MNIST under a hooksess session. trainer --help lists what it takes.
 *
 *   main.c       the session that trains: what is saved and when, how it ends
 *   run.c        what it works with: which hooks, what TensorBoard is shown
 *   modes.c      the other modes: evaluating, predicting, training and evaluating at once
 *   graph.c      the model as hooksess sees it: variables, state, ops
 *   trainer.c    what is trained, and how good it is
 *   tester.c     a model that is only read: its own graph, to evaluate or predict with
 *   idx.c, input.c, rng.c     the data, and their order
 *   mlp.c, optimizer.c        the mathematics
 *   replicas.c   several processes over MPI (--replicas)
 *   report.c, note.c          what TensorBoard shows beside curves: mistakes; hyperparameters and the command line
 *   picture.c, text.c         what reports and notes are drawn and put together with
 *   losses.c, log.c           a hook of the trainer's own, and the log beside a progress line
 *   options.c, fresh.c        the command line, and --fresh */
#include "modes.h"
#include "run.h"

#include <stdio.h>

/* OpenBLAS's own; NULL with any other CBLAS, which then decides for itself. */
extern void openblas_set_num_threads(int n) __attribute__((weak));

static hs_session *open_session(struct run *run, hs_error *err)
{
    const struct options *options = &run->options;
    hs_hook hooks[MOST_HOOKS];
    run_hooks(run, hooks);
    hs_training_options session =
        HS_INIT(hs_training_options, .hooks = hooks, .scaffold = run->scaffold, .checkpoint_dir = options->model_dir,
                .save_checkpoint_steps = options->save_secs > 0 ? 0 : or_never(options->save_steps),
                .save_checkpoint_secs = options->save_secs > 0 ? options->save_secs : 0,
                .save_summaries_steps = or_never(options->summary_steps), .signals = true,
                .group = replicas_group(&run->trainer.replicas));
    return hs_training_session_open(hs_graph_backend(run->graph), &session, err);
}

/* A run of the session without its hooks: it makes no step. */
static double measure(hs_session *session)
{
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("test_accuracy"));
    const hs_run_values *values;
    hs_error err = {0};
    if (hs_raw_session_run(hs_session_raw(session), &args, &values, &err) == HS_OK)
        return hs_run_values_number(values, 0);
    hs_session_fail(session, &err);
    return 0;
}

/* All of it, to the end. In a group, each process. */
static hs_outcome train(struct run *run, double *accuracy, hs_error *err)
{
    hs_session *session = NULL;
    if (run_prepare(run, err) == HS_OK)
        session = open_session(run, err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train", err) != HS_OK)
            break;
    *accuracy = err->code == HS_OK || err->code == HS_STOP ? measure(session) : 0;
    hs_outcome outcome = hs_session_close(session, err);
    if (outcome.reason == HS_REASON_FAILED)
        fprintf(stderr, "trainer: %s\n", outcome.error.message);
    run_free(run);
    return outcome;
}

static int report(const struct replicas *replicas, const hs_outcome *outcome, double accuracy)
{
    int status = replicas_end(replicas, outcome);
    if (replicas->rank == 0 && outcome->reason != HS_REASON_FAILED)
        printf("test accuracy %.4f at step %lld\n", accuracy, (long long)outcome->step);
    return fflush(stdout) == 0 || status ? status : 1;
}

int main(int argc, char **argv)
{
    struct run run = {.saver = NULL};
    hs_error err = {0};
    double accuracy;
    int status = options_parse(&run.options, argc, argv);
    if (status != GO_ON)
        return status;
    if (openblas_set_num_threads)
        openblas_set_num_threads((int)run.options.threads);
    if (run.options.mode != MODE_TRAIN)
        return run_mode(&run);
    if (run.options.replicas && replicas_start(&run.trainer.replicas, &err) != HS_OK) {
        fprintf(stderr, "trainer: %s\n", err.message);
        return 1;
    }
    hs_outcome outcome = train(&run, &accuracy, &err);
    return report(&run.trainer.replicas, &outcome, accuracy);
}
