/* SPDX-License-Identifier: Apache-2.0 */
/* Counts test results, and draws the confusion matrix and the misclassified images for TensorBoard. */
#include "report.h"

#include <hooksess/summary_values.h>

#include <string.h>

/* Counting. */

void test_result_clear(struct test_result *result)
{
    memset(result, 0, sizeof *result);
}

void test_result_add(struct test_result *result, size_t image, int label, int predicted)
{
    result->counts[label][predicted]++;
    if (predicted != label && result->n_mistakes < MAX_MISTAKES)
        result->mistakes[result->n_mistakes++] = (struct mistake){image, predicted};
}

double test_result_accuracy(const struct test_result *result)
{
    int64_t right = 0, all = 0;
    for (int label = 0; label < CLASSES; label++)
        for (int predicted = 0; predicted < CLASSES; predicted++) {
            all += result->counts[label][predicted];
            right += label == predicted ? result->counts[label][predicted] : 0;
        }
    return all ? (double)right / (double)all : 0;
}

/* Returns the name of a class of Fashion-MNIST, which the checksum of the test labels identifies; "" for other data. */
static const char *class_name(const struct dataset *set, int class)
{
    static const unsigned long fashion_mnist = 0x80142c1f;
    static const char *const names[CLASSES] = {" T-shirt", " trouser", " pullover", " dress", " coat",
                                               " sandal",  " shirt",   " sneaker",  " bag",   " boot"};
    return set->checksums[1] == fashion_mnist ? names[class] : "";
}

/* The confusion matrix: a row for each label, a column for each predicted class. */

enum { CELL = 22, MARGIN = 12 };

static const struct color white = {255, 255, 255}, black = {0, 0, 0}, green = {110, 230, 110}, red = {255, 120, 110};

static int64_t row_sum(const struct test_result *result, int label)
{
    int64_t sum = 0;
    for (int predicted = 0; predicted < CLASSES; predicted++)
        sum += result->counts[label][predicted];
    return sum;
}

/* Draws a number in the middle of a rectangle. */
static void draw_number(struct picture *picture, int x, int y, int width, int height, int64_t number, struct color color)
{
    picture_number(picture, x + (width - picture_number_width((long)number)) / 2, y + (height - DIGIT_HEIGHT) / 2,
                   (long)number, color);
}

/* A cell is darker if it has a larger share of its row. Mistakes are red, and four times as dark. */
static void draw_cell(struct picture *picture, int label, int predicted, int64_t count, double share)
{
    int x = MARGIN + predicted * CELL, y = MARGIN + label * CELL;
    double depth = label == predicted ? share : share < 0.25 ? 4 * share : 1;
    unsigned char light = (unsigned char)(255 - 200 * depth), lighter = (unsigned char)(255 - 120 * depth);
    struct color color = label == predicted ? (struct color){light, lighter, 255} : (struct color){255, light, light};
    picture_fill(picture, x, y, CELL - 1, CELL - 1, color);
    draw_number(picture, x, y, CELL - 1, CELL - 1, count, depth > 0.6 ? white : black);
}

static void draw_matrix(struct report *report)
{
    for (int label = 0; label < CLASSES; label++) {
        int64_t sum = row_sum(report->result, label);
        draw_number(&report->matrix, 0, MARGIN + label * CELL, MARGIN, CELL, label, green);
        draw_number(&report->matrix, MARGIN + label * CELL, 0, CELL, MARGIN, label, red);
        for (int predicted = 0; predicted < CLASSES; predicted++) {
            int64_t count = report->result->counts[label][predicted];
            draw_cell(&report->matrix, label, predicted, count, sum ? (double)count / (double)sum : 0);
        }
    }
}

static const char *format_matrix(struct report *report)
{
    struct text *text = &report->text;
    text_clear(text);
    text_add(text, "| label \\ predicted |");
    for (int predicted = 0; predicted < CLASSES; predicted++)
        text_add(text, " %d%s |", predicted, class_name(report->set, predicted));
    text_add(text, "\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int label = 0; label < CLASSES; label++) {
        text_add(text, "| **%d%s** |", label, class_name(report->set, label));
        for (int predicted = 0; predicted < CLASSES; predicted++)
            text_add(text, " %lld |", (long long)report->result->counts[label][predicted]);
        text_add(text, "\n");
    }
    return text->bytes;
}

/* The misclassified images. Below each image, its label (green, left) and the predicted class (red, right). */

enum { GRID_COLUMNS = 10, GAP = 2, CAPTION = DIGIT_HEIGHT + 2 * GAP };

static void draw_grid(struct report *report)
{
    const struct dataset *set = report->set;
    int width = (int)set->columns, height = (int)(set->pixels / set->columns);
    struct picture *grid = &report->grid;
    picture_fill(grid, 0, 0, grid->width, grid->height, black);
    for (size_t i = 0; i < report->result->n_mistakes; i++) {
        const struct mistake *mistake = &report->result->mistakes[i];
        int x = GAP + (int)i % GRID_COLUMNS * (width + GAP), y = GAP + (int)i / GRID_COLUMNS * (height + CAPTION);
        picture_gray(grid, x, y, width, height, set->images + mistake->image * set->pixels);
        draw_number(grid, x, y + height, width / 2, CAPTION - GAP, set->labels[mistake->image], green);
        draw_number(grid, x + width / 2, y + height, width / 2, CAPTION - GAP, mistake->predicted, red);
    }
}

static const char *format_grid(struct report *report)
{
    const struct dataset *set = report->set;
    struct text *text = &report->text;
    text_clear(text);
    text_add(text, "The first mistakes, in the order of the images.\n\n| image | label | predicted |\n|---:|---|---|\n");
    for (size_t i = 0; i < report->result->n_mistakes; i++) {
        const struct mistake *mistake = &report->result->mistakes[i];
        int label = set->labels[mistake->image];
        text_add(text, "| %zu | %d%s | %d%s |\n", mistake->image, label, class_name(set, label), mistake->predicted,
                 class_name(set, mistake->predicted));
    }
    return text->bytes;
}

/* The Summary. */

hs_code report_init(struct report *report, const struct dataset *set, const struct test_result *result, hs_error *err)
{
    int rows = (int)(set->pixels / set->columns), columns = (int)set->columns;
    *report = (struct report){.set = set, .result = result, .summary = hs_summary_new(NULL)};
    bool made = picture_init(&report->matrix, MARGIN + CLASSES * CELL, MARGIN + CLASSES * CELL) &&
                picture_init(&report->grid, GAP + GRID_COLUMNS * (columns + GAP),
                             GAP + MAX_MISTAKES / GRID_COLUMNS * (rows + CAPTION));
    return made && report->summary ? HS_OK : hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the report");
}

void report_free(struct report *report)
{
    picture_free(&report->matrix);
    picture_free(&report->grid);
    hs_summary_free(report->summary);
    report->summary = NULL;
}

static hs_code add_picture(const struct report *report, const char *tag, const struct picture *picture, hs_error *err)
{
    const hs_tensor pixels = hs_tensor_of(HS_UINT8, HS_SHAPE(picture->height, picture->width, 3), picture->pixels);
    return hs_summary_image(report->summary, tag, &pixels, NULL, err);
}

hs_code report_run(void *self, hs_op *op, hs_error *err)
{
    struct report *report = self;
    hs_code code;
    hs_summary_clear(report->summary);
    draw_matrix(report);
    draw_grid(report);
    if ((code = add_picture(report, "confusion", &report->matrix, err)) ||
        (code = add_picture(report, "misclassified", &report->grid, err)) ||
        (code = hs_summary_text(report->summary, "confusion/table", format_matrix(report), err)) ||
        (code = hs_summary_text(report->summary, "misclassified/table", format_grid(report), err)))
        return code;
    report->serialized = hs_summary_serialized(report->summary);
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &report->serialized);
    return hs_op_set_output(op, 0, &value, err);
}
