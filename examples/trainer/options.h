/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_OPTIONS_H
#define TRAINER_OPTIONS_H

#include "mlp.h"
#include "optimizer.h"

/* The command line. */

enum { MOST_HIDDEN = MOST_LAYERS - 1, NOT_GIVEN = -1, GO_ON = -1 };

enum mode { MODE_TRAIN, MODE_EVALUATE, MODE_PREDICT, MODE_TRAIN_AND_EVALUATE };

struct options {
    char **argv; /* main's */
    enum mode mode;
    const char *images; /* of the test set, to predict: "0,5,17" */
    double throttle_secs, timeout_secs;
    const char *data, *model_dir, *losses; /* losses NULL: none */
    const char *metrics;                   /* NULL: in model_dir */
    int hidden[MOST_HIDDEN], n_hidden;
    const struct optimizer_kind *optimizer;
    double learning_rate;
    bool fresh, progress, rollback, replicas;
    int64_t batch_size, seed, threads, keep;
    int64_t save_steps, log_steps, summary_steps, eval_steps, histogram_steps; /* 0: never */
    double save_secs, stop_after_secs;                                         /* stop_after_secs 0: not given */
    int64_t epochs, max_steps;                                                 /* 0: not given */
    int64_t last_step; /* which ends the training; known after options_fit */
};

/* Returns GO_ON, or what main is to return: after --help, or a mistake, which it explains on stderr. Strings are argv's. */
int options_parse(struct options *options, int argc, char **argv);

/* Settles what depends on the number of training images, and on whether there is a terminal to draw on. */
void options_fit(struct options *options, size_t n_images, bool terminal);

#endif
