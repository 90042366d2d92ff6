/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a multilayer perceptron on Fashion-MNIST under a hooksess session. `trainer --help` lists the options.
 *
 *   main.c                     opens the session, trains, prints the accuracy
 *   run.c                      the hooks of the session
 *   modes.c                    the other modes: evaluate, predict, train-and-evaluate
 *   graph.c                    the graph: variables, input queue, ops, summaries
 *   trainer.c                  loads the data, makes one step, measures the test accuracy
 *   tester.c                   a second model with its own graph, for evaluation and prediction
 *   idx.c, input.c, rng.c      reads the data set; shuffles it and cuts it into batches
 *   mlp.c, optimizer.c         the mathematics
 *   replicas.c                 several processes (--replicas)
 *   report.c, run_info.c       TensorBoard: confusion matrix and misclassified images; hyperparameters and command line
 *   picture.c, text.c          draws pictures and formats text for these two
 *   losses.c, log.c            a hook that writes each loss to a file; log lines that do not disturb the progress line
 *   options.c, fresh.c         the command line; --fresh */
#include "modes.h"
#include "run.h"

#include <stdio.h>

/* A function of OpenBLAS. NULL with another CBLAS, which then chooses its number of threads. */
extern void openblas_set_num_threads(int n) __attribute__((weak));

/* Returns the accuracy on the test images. Runs without hooks, so that no hook acts; the step does not advance. */
static double test_accuracy(hs_session *session)
{
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("test_accuracy"));
    const hs_run_values *values;
    hs_error err = {0};
    if (hs_raw_session_run(hs_session_raw(session), &args, &values, &err) == HS_OK)
        return hs_run_values_number(values, 0);
    hs_session_fail(session, &err);
    return 0;
}

static hs_outcome train(struct run *run, double *accuracy, hs_error *err)
{
    const struct options *options = &run->options;
    hs_session *session = NULL;
    if (run_prepare(run, err) == HS_OK) {
        hs_hook hooks[MAX_HOOKS];
        run_hooks(run, hooks);
        hs_training_options training = HS_INIT(
            hs_training_options, .hooks = hooks, .scaffold = run->scaffold, .checkpoint_dir = options->model_dir,
            .save_checkpoint_steps = options->save_secs > 0 ? 0 : or_never(options->save_steps),
            .save_checkpoint_secs = options->save_secs > 0 ? options->save_secs : 0, .save_summaries_steps = HS_NEVER,
            .no_initial_checkpoint = true, .signals = true, .group = run->trainer.replicas.group);
        session = hs_training_session_open(hs_graph_backend(run->graph), &training, err);
    }
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train", err) != HS_OK)
            break;
    *accuracy = err->code == HS_OK || err->code == HS_STOP ? test_accuracy(session) : 0;
    hs_outcome outcome = hs_session_close(session, err);
    if (outcome.reason == HS_REASON_FAILED) {
        run_explain(options, run->graph, &outcome.error);
        fprintf(stderr, "trainer: %s\n", outcome.error.message);
    }
    run_free(run);
    return outcome;
}

int main(int argc, char **argv)
{
    struct run run = {.saver = NULL};
    hs_error err = {0};
    double accuracy;
    int status = options_parse(&run.options, argc, argv);
    if (status != OPTIONS_OK)
        return status;
    if (openblas_set_num_threads)
        openblas_set_num_threads((int)run.options.threads);
    if (run.options.mode != MODE_TRAIN)
        return run_mode(&run);
    if (run.options.replicas && replicas_start(&run.trainer.replicas, run.options.model_dir, &err) != HS_OK) {
        const hs_outcome failed = hs_outcome_from_error(&err);
        fprintf(stderr, "trainer: %s\n", err.message);
        return hs_outcome_exit_code(&failed);
    }
    hs_outcome outcome = train(&run, &accuracy, &err);
    status = replicas_end(&run.trainer.replicas, &outcome);
    if (run.trainer.replicas.rank == 0 && outcome.reason != HS_REASON_FAILED)
        printf("test accuracy %.4f at step %lld\n", accuracy, (long long)outcome.step);
    return fflush(stdout) == 0 || status ? status : 1;
}
