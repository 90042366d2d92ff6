/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include "mlp.h"
#include "optimizer.h"

/* The command line. */

enum { MAX_HIDDEN = MAX_LAYERS - 1, NOT_GIVEN = -1, OPTIONS_OK = -1 };

enum mode { MODE_TRAIN, MODE_EVALUATE, MODE_PREDICT, MODE_TRAIN_AND_EVALUATE };

struct options {
    char **argv; /* of main */
    enum mode mode;
    const char *images; /* numbers of test images to predict: "0,5,17" */
    double throttle_secs, timeout_secs;
    const char *data, *model_dir, *losses; /* losses NULL: do not write them */
    const char *metrics;                   /* NULL: in model_dir */
    int hidden[MAX_HIDDEN], n_hidden;
    const struct optimizer_kind *optimizer;
    double learning_rate;
    bool fresh, progress, rollback, replicas;
    int64_t batch_size, seed, threads, keep;
    int64_t save_steps, log_steps, metrics_steps, summary_steps, eval_steps, histogram_steps; /* 0: never */
    double save_secs, stop_after_secs; /* stop_after_secs 0: not given */
    int64_t epochs, max_steps;         /* 0: not given */
    int64_t epoch_steps;               /* set by options_fit, as last_step */
    int64_t last_step[2];              /* the step at which the training stops, and -1: a list for the schedules of hooks */
};

/* Returns OPTIONS_OK, or the exit code of main: after --help, or after an invalid option, which it reports on stderr. The
 * strings point into `argv`. */
int options_parse(struct options *options, int argc, char **argv);

/* Sets the options that depend on the number of training images (steps, default intervals), or on whether stderr is a
 * terminal (progress). */
void options_fit(struct options *options, size_t n_images, bool terminal);

#endif
