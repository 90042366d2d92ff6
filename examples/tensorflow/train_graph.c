/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a graph that TensorFlow has exported, with a hooksess session. train_graph --help lists the options.
 *
 *   train_graph.c   the session: its backend, its hooks, its outcome
 *   cluster.c       starts the server of this process, and determines its role in the cluster
 *   feeder.c        a hook that feeds batches of pictures to placeholders
 *   options.c       the command line
 * From examples/trainer: idx.c, input.c, rng.c (the data and its order), losses.c (the file of losses). */
#include "cluster.h"
#include "losses.h"

#include <hooksess/hooksess.h>
#include <hooksess/tensorflow.h>

#include <stdio.h>

enum { MAX_HOOKS = 8 };

struct run {
    struct options options;
    struct feeder feeder;
    struct losses losses;
    struct role role;
    unsigned char config[4];
};

/* "Never" is 0 on the command line, and HS_NEVER in the library. */
static int64_t or_never(int64_t n)
{
    return n > 0 ? n : HS_NEVER;
}

static void make_hooks(struct run *run, hs_hook *hooks)
{
    const struct options *options = &run->options;
    size_t n = 0;
    if (options->max_steps)
        hooks[n++] = hs_stop_at_step(.last_step = options->max_steps);
    if (options->n_feeds)
        hooks[n++] = feeder_hook(&run->feeder);
    if (options->loss)
        hooks[n++] = hs_nan_tensor(.tensor = options->loss);
    if (options->loss && options->log_steps)
        hooks[n++] = hs_logging_tensor(.tensors = HS_NAMES(options->loss), .every_n_steps = options->log_steps);
    if (options->losses && !run->role.is_worker)
        hooks[n++] = losses_hook(&run->losses);
    hooks[n].ops = NULL; /* end of the list */
}

/* A serialized ConfigProto: intra_op_parallelism_threads and inter_op_parallelism_threads, fields 2 and 5. */
static hs_bytes threads_config(struct run *run)
{
    const unsigned char threads = (unsigned char)run->options.threads;
    run->config[0] = 2 << 3;
    run->config[2] = 5 << 3;
    run->config[1] = run->config[3] = threads;
    return (hs_bytes){threads ? run->config : NULL, threads ? sizeof run->config : 0};
}

/* Reads the data before the session opens, so that missing data is reported before any file is written. */
static hs_code prepare(struct run *run, hs_error *err)
{
    const struct options *options = &run->options;
    run->losses.path = options->losses;
    run->losses.tensor = options->loss;
    if (!options->n_feeds)
        return HS_OK;
    const uint64_t own = run->role.is_worker ? 1 + (uint64_t)options->task : 0; /* each worker has a different order */
    const struct feeder_options feeder = {
        .data = options->data,
        .batch_size = (size_t)options->batch_size,
        .seed = (uint64_t)options->seed + own,
        .specs = options->feeds,
        .n_specs = options->n_feeds,
    };
    return feeder_init(&run->feeder, &feeder, err);
}

static hs_outcome train(struct run *run, hs_error *err)
{
    const struct options *options = &run->options;
    if (prepare(run, err) != HS_OK)
        return hs_outcome_from_error(err);
    const hs_tensorflow_options target =
        HS_INIT(hs_tensorflow_options, .target = options->target, .server = run->role.server);
    hs_backend tf = hs_tensorflow_open(options->meta_graph, &target, err);
    hs_hook hooks[MAX_HOOKS + 1];
    make_hooks(run, hooks);
    hs_training_options training = HS_INIT(
        hs_training_options, .hooks = hooks, .checkpoint_dir = options->model_dir,
        .save_checkpoint_steps = or_never(options->save_steps), .save_summaries_steps = or_never(options->summary_steps),
        .log_step_count_steps = or_never(options->log_steps), .config = threads_config(run),
        .is_worker = run->role.is_worker, .worker_index = run->role.is_worker ? options->task : 0, .recovery_wait_secs = 1,
        .signals = true);
    hs_session *session = hs_training_session_open(tf, &training, err); /* if tf is NULL, err keeps the reason */
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, options->train_op, err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, err);
    hs_tensorflow_free(tf);
    return outcome;
}

static int report(const hs_outcome *outcome)
{
    int status = hs_outcome_exit_code(outcome);
    if (outcome->reason == HS_REASON_FAILED)
        fprintf(stderr, "train_graph: %s\n", outcome->error.message);
    else
        printf("%s at step %lld\n", hs_reason_name(outcome->reason), (long long)outcome->step);
    return fflush(stdout) == 0 || status ? status : 1;
}

int main(int argc, char **argv)
{
    struct run run = {.options = {.meta_graph = NULL}};
    hs_error err = {0};
    int status = options_parse(&run.options, argc, argv);
    if (status != OPTIONS_OK)
        return status;
    if (role_start(&run.role, &run.options, &err) != HS_OK) {
        fprintf(stderr, "train_graph: %s\n", err.message);
        status = 1;
    } else if (run.role.only_serves) {
        status = 0;
    } else {
        hs_outcome outcome = train(&run, &err);
        status = report(&outcome);
    }
    role_end(&run.role);
    feeder_free(&run.feeder);
    return status;
}
