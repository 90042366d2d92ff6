/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "model.h"

#include <stdbool.h>

/* The command line. */
struct options {
    const char *text, *model_dir, *losses, *generate; /* text, losses, generate: NULL if not given */
    int64_t sizes[N_SIZES];                           /* 0: not given */
    int64_t max_steps, batch_size, accumulate, seed, threads, save_steps, log_steps, eval_steps;
    double dropout, learning_rate;
    bool replicas;
};

extern const char *const size_names[N_SIZES];

enum { OPTIONS_OK = -1 };
/* Returns OPTIONS_OK, or the exit code of the program: after --help, and after a report of an invalid option. */
int options_parse(struct options *options, int argc, char **argv);

#endif
