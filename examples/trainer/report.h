/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include "idx.h"
#include "picture.h"
#include "text.h"

#include <hooksess/graph.h>
#include <hooksess/summary.h>

/* The result of a test on all test images, and how TensorBoard shows it. */

enum { MAX_MISTAKES = 40 };

struct mistake {
    size_t image;
    int predicted;
};

struct test_result {
    int64_t counts[CLASSES][CLASSES]; /* [label][predicted class] */
    size_t n_mistakes;                /* in `mistakes`, which has only the first ones */
    struct mistake mistakes[MAX_MISTAKES];
};

void test_result_clear(struct test_result *result);
void test_result_add(struct test_result *result, size_t image, int label, int predicted);
/* Returns the fraction of images with the right class. */
double test_result_accuracy(const struct test_result *result);

/* Makes a Summary of a test result: the confusion matrix as image and as table, misclassified images and their table. */
struct report {
    const struct dataset *set;
    const struct test_result *result;
    struct picture matrix, grid;
    struct text text;
    hs_summary *summary;
    hs_string serialized;
};

/* Allocates the pictures. `set` and `result` must outlive the report. Call report_free also if it fails. */
hs_code report_init(struct report *report, const struct dataset *set, const struct test_result *result, hs_error *err);
void report_free(struct report *report);
/* The function of an op whose output 0 is the Summary. `self` is a struct report. */
hs_code report_run(void *self, hs_op *op, hs_error *err);

#endif
