/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_MODES_H
#define TRAINER_MODES_H

#include "run.h"

/* --mode evaluate, predict and train-and-evaluate. Returns the exit code of main. */
int run_mode(struct run *run);

#endif
