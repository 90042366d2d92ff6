/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include "idx.h"
#include "picture.h"
#include "text.h"

#include <hooksess/graph.h>
#include <hooksess/summary.h>

/* What a model does with the test images, and how TensorBoard shows it. */

enum { MOST_MISTAKES = 40 };

struct mistake {
    size_t image;
    int said;
};

struct tested {
    int64_t counts[CLASSES][CLASSES]; /* [label][what the model says] */
    size_t n_mistakes;                /* that are kept: the first ones */
    struct mistake mistakes[MOST_MISTAKES];
};

void tested_clear(struct tested *tested);
void tested_add(struct tested *tested, size_t image, int label, int said);
/* The share of images whose class the model says right. */
double tested_accuracy(const struct tested *tested);

/* A Summary of it: the confusion matrix as an image and as a table, misclassified images and a table of these. */
struct report {
    const struct dataset *set;
    const struct tested *tested;
    struct picture matrix, grid;
    struct text text;
    hs_summary *summary;
    hs_string serialized;
};

/* Takes all memory for the pictures. Both pointers are kept. report_free is to be called also when it fails. */
hs_code report_init(struct report *report, const struct dataset *set, const struct tested *tested, hs_error *err);
void report_free(struct report *report);
/* The function of an op that has its Summary as output 0 (self is a struct report). */
hs_code report_run(void *self, hs_op *op, hs_error *err);

#endif
